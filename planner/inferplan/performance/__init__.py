"""HOW FAST IT RUNS: operations → step time → serving (TTFT, TPOT, throughput, percentiles) → interval.

`predict(points)` answers whole questions; `candidates(points)` and `sweep(…)` are the array form for planning.
"""

from inferplan.performance.predict import Candidates, Sweep, candidates, family_remark, load_amount, predict, sweep
from inferplan.performance.result import Interval, Operation, Performance, Quantiles, ServingPoint

__all__ = [
    "Candidates",
    "Interval",
    "Operation",
    "Performance",
    "Quantiles",
    "ServingPoint",
    "Sweep",
    "candidates",
    "family_remark",
    "load_amount",
    "predict",
    "sweep",
]
