"""Fit the global constants on `calibration` rows and store them with the residuals that make the intervals.

    python validation/fit.py           writes planner/inferplan/performance/data/constants.json
    python validation/fit.py --check   exits 1 if the stored file is another one

Loss: Huber on log(predicted / measured) of TPOT, TTFT and static-batch end-to-end time, every source weighted alike
(a sweep of a thousand points is one experiment). Rows of NVIDIA GPUs only; TTFT above four seconds is queueing and is
not fitted. Coordinate descent on the logarithms with a fixed schedule: the same file, byte for byte, every time.

Intervals: split conformal. The constants are fitted again leaving one source out; the residuals of the left-out
source are those of data never fitted. Per metric and load kind: the finite-sample 5 % and 95 % quantiles. Rows of
other vendors' GPUs, which no constant is fitted on, make the cell `extrapolated`; those of mixtures of experts,
which none is fitted on either, the cell `mixture`.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from rows import QUEUEING_MS, Row, load_rows

from inferplan.engine import has_softmax_only
from inferplan.performance import candidates, load_amount
from inferplan.performance.constants import EXTRAPOLATED, MIXTURE, Constants
from inferplan.performance.predict import demand_of
from inferplan.performance.serving import serve

OUT = Path(__file__).parents[1] / "planner/inferplan/performance/data/constants.json"

# Where the search starts, and what a constant stays near if no row says otherwise: plausible values, not results.
START = Constants(
    weight_bandwidth=0.80,
    packed_bandwidth=0.75,
    kv_bandwidth=0.70,
    kv_bandwidth_v0=0.70,
    kv_again_v0=0.5,
    compute=0.60,
    attention_compute=0.40,
    link_bandwidth=0.50,
    switch_latency=5e-6,
    pcie_latency=25e-6,
    layer_gap=8e-6,
    eager_layer=1e-4,
    step_host=1e-3,
    step_host_v0=3e-3,
    sequence_host=2e-5,
    request_host=10e-3,
    token_host=5e-6,
    bunching=0.1,
)
# Efficiencies can't exceed the spec sheet; times can't be negative. `pcie_latency` stays at its start: no calibration
# row has several GPUs on PCIe.
BOUNDS = {
    "weight_bandwidth": (0.3, 1.0),
    "packed_bandwidth": (0.3, 1.0),
    "kv_bandwidth": (0.1, 1.0),
    "kv_bandwidth_v0": (0.1, 1.0),
    "kv_again_v0": (0.01, 1.0),
    "compute": (0.1, 1.0),
    "attention_compute": (0.05, 1.0),
    "link_bandwidth": (0.05, 1.0),
    "switch_latency": (1e-6, 1e-4),
    "layer_gap": (1e-7, 1e-4),
    "eager_layer": (1e-6, 1e-3),
    "step_host": (1e-5, 1e-2),
    "step_host_v0": (1e-5, 5e-2),
    "sequence_host": (1e-6, 5e-4),
    "request_host": (1e-4, 0.2),
    "token_host": (1e-8, 1e-5),  # fast tokenizers do at least 100,000 tokens a second
    "bunching": (1e-3, 1.0),
}
_HUBER = 0.1
# A constant that no row speaks about stays where it started: an e-fold costs as much as one source's rows 0.5 % off.
_PRIOR = 0.05
_STEPS = (0.3, 0.1, 0.03, 0.01)
_ROUNDS = 6
_LEVEL = 0.9
_ENOUGH_ROWS = 40
_METRICS = ("tpot", "ttft", "e2e")
# (metric, load kind) → [(log(measured / predicted), weight)]
Residuals = dict[tuple[str, str], list[tuple[float, float]]]


class Data:
    """Rows as arrays: built once, predicted many times."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)
        held = candidates([r.point for r in self.rows])
        amount = np.array([load_amount(r.point.workload) / r.point.config.data_parallel_size for r in self.rows])
        self.table = held.table
        self.demand = demand_of([r.point.workload for r in self.rows], held, amount)
        truth = [{metric: (statistic, value) for metric, statistic, value in r.truth} for r in self.rows]
        self.truth = {m: np.array([t[m][1] if m in t else np.nan for t in truth]) for m in (*_METRICS, "throughput")}
        self.median = {m: np.array([m in t and t[m][0] == "p50" for t in truth]) for m in _METRICS}

    def predicted(self, constants: Constants) -> dict[str, np.ndarray]:
        served = serve(self.table, constants, self.demand)
        found = {
            name: np.where(self.median[name], latency.p50, latency.mean)
            for name, latency in (("tpot", served.tpot), ("ttft", served.ttft), ("e2e", served.e2e))
        }
        found["throughput"] = served.requests_per_second * self.demand.answer
        return found

    def fitted_mask(self, metric: str) -> np.ndarray:
        mask = np.isfinite(self.truth[metric])
        return mask & (self.truth["ttft"] < QUEUEING_MS / 1000) if metric == "ttft" else mask


def weights(data: Data) -> dict[str, np.ndarray]:
    """Every source and metric alike."""
    found = {}
    for metric in _METRICS:
        mask = data.fitted_mask(metric)
        counts = Counter(r.source for r, m in zip(data.rows, mask, strict=True) if m)
        found[metric] = np.array(
            [1 / math.sqrt(counts[r.source]) if m else 0.0 for r, m in zip(data.rows, mask, strict=True)]
        )
    return found


def loss(data: Data, weight: dict[str, np.ndarray], constants: Constants) -> float:
    predicted = data.predicted(constants)
    total = 0.0
    for metric in _METRICS:
        used = weight[metric] > 0
        error = np.abs(np.log(predicted[metric][used] / data.truth[metric][used]))
        huber = np.where(error < _HUBER, error * error / (2 * _HUBER), error - _HUBER / 2)
        total += float(np.sum(huber * weight[metric][used]))
    drift = (math.log(getattr(constants, name) / getattr(START, name)) for name in BOUNDS)
    return total + _PRIOR * sum(d * d for d in drift)


def fit(data: Data) -> Constants:
    """Coordinate descent: up or down by a factor, keep what is better, then smaller factors."""
    weight = weights(data)
    best = START
    lowest = loss(data, weight, best)
    for step in _STEPS:
        for _ in range(_ROUNDS):
            before = lowest
            for name, (low, high) in BOUNDS.items():
                for factor in (math.exp(step), math.exp(-step)):
                    value = min(high, max(low, getattr(best, name) * factor))
                    tried = replace(best, **{name: value})
                    found = loss(data, weight, tried)
                    if found < lowest:
                        best, lowest = tried, found
                        break
            if before - lowest < 1e-6:
                break
    return Constants(**{name: float(f"{value:.4g}") for name, value in asdict(best).items()})


def load_kind(row: Row, metric: str) -> str:
    measured = {m: v for m, _, v in row.truth}
    if metric == "ttft" and measured.get("ttft", 0.0) >= QUEUEING_MS / 1000:
        return "queueing"
    return row.load


def left_out_residuals(rows: Sequence[Row], unfitted: Mapping[str, Sequence[Row]], constants: Constants) -> Residuals:
    """log(measured / predicted) per cell, each with its weight: of rows that the constants were not fitted on.

    Sources in `rows` are left out of a fit one by one; `unfitted` (other vendors, experts) by cell are never in it.
    """
    residuals: Residuals = defaultdict(list)
    for source in sorted({r.source for r in rows}):
        held = [r for r in rows if r.source == source]
        _collect(residuals, held, fit(Data([r for r in rows if r.source != source])), load_kind)
    for cell, apart in unfitted.items():
        for source in sorted({r.source for r in apart}):
            _collect(residuals, [r for r in apart if r.source == source], constants, _always(cell))
    return residuals


def _always(cell: str) -> Callable[[Row, str], str]:
    return lambda _row, _metric: cell


def _collect(found: Residuals, rows: Sequence[Row], constants: Constants, cell: Callable[[Row, str], str]) -> None:
    data = Data(rows)
    predicted = data.predicted(constants)
    for metric in ("tpot", "ttft", "throughput", "e2e"):
        used = [i for i in range(len(data.rows)) if np.isfinite(data.truth[metric][i])]
        # Where only the end-to-end time of a batch or a single stream is known, it stands for TPOT.
        name = "tpot" if metric == "e2e" else metric
        for i in used:
            error = math.log(data.truth[metric][i] / predicted[metric][i])
            kind = cell(data.rows[i], metric)
            found[name, kind].append((error, 1 / math.sqrt(len(used))))
            if kind not in (EXTRAPOLATED, MIXTURE):
                found[name, "all"].append((error, 1 / math.sqrt(len(used))))


def quantiles(residuals: Residuals) -> dict[str, dict[str, float]]:
    """Finite-sample quantiles of measured / predicted per cell with enough rows, weighted as in the fit."""
    found = {}
    for (metric, load), errors in sorted(residuals.items()):
        if len(errors) < _ENOUGH_ROWS and load != "all":
            continue
        ordered = sorted(errors)
        tail = (1 - _LEVEL) / 2
        low, high = _weighted(ordered, tail), -_weighted([(-e, w) for e, w in reversed(ordered)], tail)
        cell = {"low": float(f"{math.exp(low):.4g}"), "high": float(f"{math.exp(high):.4g}"), "rows": len(ordered)}
        found[f"{metric}/{load}"] = cell
    return found


def _weighted(ordered: Sequence[tuple[float, float]], share: float) -> float:
    """The value below which `share` of the weight lies, one more row of mean weight counted outside (conformal)."""
    total = sum(w for _, w in ordered)
    goal = share * (total + total / len(ordered)) - total / len(ordered)
    below = 0.0
    for value, weight in ordered:
        below += weight
        if below > goal:
            return value
    return ordered[-1][0]


def document() -> str:
    rows, _ = load_rows()
    calibration = [r for r in rows if r.role == "calibration"]
    near = [r for r in calibration if r.point.gpu.vendor == "NVIDIA"]
    used = [r for r in near if r.kind == "dense"]
    unfitted = {
        EXTRAPOLATED: [r for r in calibration if r.kind == "dense" and r.point.gpu.vendor != "NVIDIA"],
        MIXTURE: [r for r in near if r.kind == "moe" and has_softmax_only(r.point.architecture)],
    }
    data = Data(used)
    constants = fit(data)
    content = {
        "source": "validation/fit.py on the calibration rows of validation/data/serving.jsonl.gz (dense, NVIDIA)",
        "rows": len(used),
        "loss": float(f"{loss(data, weights(data), constants):.4g}"),
        "constants": asdict(constants),
        "residuals": quantiles(left_out_residuals(used, unfitted, constants)),
    }
    return json.dumps(content, indent=1) + "\n"


def main() -> int:
    text = document()
    if "--check" in sys.argv:
        return 0 if OUT.read_text() == text else 1
    OUT.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
