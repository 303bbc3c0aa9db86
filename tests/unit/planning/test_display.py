"""Displayed numbers: three significant digits, no float, monotone."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplan.planning.display import predicted, significant

FINITE = st.floats(min_value=1e-9, max_value=1e15, allow_nan=False)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.045678, "0.0457"),
        (123456.0, "123000"),
        (9.995, "10.0"),
        (1.0, "1.00"),
        (0.0, "0"),
        (999.6, "1000"),
        (12.25, "12.2"),
    ],
)
def test_three_significant_digits(value: float, shown: str) -> None:
    assert significant(value) == shown


@given(FINITE)
def test_rounding_is_idempotent_and_close(value: float) -> None:
    shown = float(significant(value))
    assert math.isclose(shown, value, rel_tol=5.1e-3)
    assert float(significant(shown)) == shown


@given(FINITE, FINITE)
def test_rounding_keeps_the_order(a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert float(significant(low)) <= float(significant(high))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nothing_infinite_is_ever_shown(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        significant(value)


def test_an_interval_stays_around_its_value() -> None:
    shown = predicted(0.123449, 0.12341, 0.1235, "ms", "SpecSheet")
    assert float(shown.low or "nan") <= float(shown.value or "nan") <= float(shown.high or "nan")
