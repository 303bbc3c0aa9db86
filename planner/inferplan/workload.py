"""The traffic a deployment is planned for: token lengths, load and prefix reuse.

Lengths are modelled as log-normal, the usual shape of prompt and answer lengths: two numbers
(median and 95th percentile, or mean and coefficient of variation) fix it. Known to be wrong for
bimodal traffic (chat mixed with long documents): a trace says more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from inferplan.errors import InvalidInput

# 95 % quantile of the standard normal distribution.
_Z95 = 1.6448536269514722


@dataclass(frozen=True, slots=True)
class Lengths:
    """A log-normal distribution of token counts; `sigma = 0` is a constant length."""

    p50_tokens: float
    sigma: float = 0.0

    @classmethod
    def from_percentiles(cls, p50: int, p95: int) -> Lengths:
        """The distribution with these percentiles. Raises InvalidInput unless 0 < p50 <= p95."""
        if not 0 < p50 <= p95:
            raise InvalidInput(f"token lengths need 0 < p50 <= p95, got p50={p50}, p95={p95}")
        return cls(float(p50), math.log(p95 / p50) / _Z95)

    @classmethod
    def from_mean(cls, mean: float, cv: float = 0.0) -> Lengths:
        """The distribution with this mean and coefficient of variation (standard deviation / mean)."""
        if not mean > 0 or cv < 0:
            raise InvalidInput(f"token lengths need mean > 0 and cv >= 0, got mean={mean}, cv={cv}")
        sigma = math.sqrt(math.log1p(cv * cv))
        return cls(mean * math.exp(-sigma * sigma / 2), sigma)

    @property
    def mean_tokens(self) -> float:
        return self.p50_tokens * math.exp(self.sigma * self.sigma / 2)

    @property
    def p95_tokens(self) -> float:
        return self.p50_tokens * math.exp(_Z95 * self.sigma)


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Closed loop: so many requests are always in flight, a new one starts when one ends."""

    requests: float


@dataclass(frozen=True, slots=True)
class RequestRate:
    """Open loop: Poisson arrivals at this rate."""

    requests_per_second: float


@dataclass(frozen=True, slots=True)
class Burst:
    """All requests at once."""

    requests: int


Load = Concurrency | RequestRate | Burst


@dataclass(frozen=True, slots=True)
class Workload:
    """What the users send. `prefix_hit_rate`: fraction of prompt tokens found in the prefix cache (0..1)."""

    input_tokens: Lengths
    output_tokens: Lengths
    load: Load
    prefix_hit_rate: float = 0.0
