"""Numbers as people see them: decimal strings with three significant digits, so that no float enters a digest.

Rounding is half-even on the shortest decimal form of the float, the same on every machine.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal

from inferplan.planning.types import Predicted

_THREE_DIGITS = Context(prec=3, rounding=ROUND_HALF_EVEN)


def significant(value: float) -> str:
    """`value` with three significant digits, plain notation: 0.04567 → `0.0457`, 123456 → `123000`."""
    number = Decimal(repr(float(value)))
    if not number.is_finite():
        raise ValueError(f"only finite numbers can be shown, got {value!r}")
    if number == 0:
        return "0"
    rounded = _THREE_DIGITS.plus(number)
    return format(rounded.quantize(Decimal(1).scaleb(rounded.adjusted() - _THREE_DIGITS.prec + 1)), "f")


def exact(value: int) -> str:
    """A count that is exact (a KV-cache size given the budget): all digits."""
    return str(value)


def predicted(value: float, low: float, high: float, unit: str, basis: str) -> Predicted:
    """A displayed prediction; `low <= value <= high` holds after rounding too (rounding is monotone)."""
    return Predicted(significant(value), significant(low), significant(high), unit, basis)


def unknown(unit: str, basis: str) -> Predicted:
    """What can't be said: shown as unknown, never as zero."""
    return Predicted(None, None, None, unit, basis)
