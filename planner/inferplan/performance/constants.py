"""The global constants of the performance model: the same for all GPUs and models. No constant per model.

Stored in `data/constants.json`, written by `validation/fit.py` from `calibration` rows only. Peak rates and
bandwidths are the spec sheet's; these say what fraction of them vLLM reaches, and what does not scale with either.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class Constants:
    """Efficiencies are fractions of the spec sheet; times in seconds.

    `weight_bandwidth`, `kv_bandwidth`: reading weights, KV cache. `compute`: matrix units on large matrices.
    `attention_compute`: prefill attention. `link_bandwidth`, `switch_latency`, `pcie_latency`: one all-reduce.
    `layer_gap`, `step_host`: between kernels of a layer, between steps (`step_host_v0`: the first engine, vLLM < 0.8).
    `eager_layer`: extra per layer without CUDA graphs.
    `request_host`: tokenising, scheduling and answering a request's first token.
    `bunching`: how much of the other requests' prefill a new request meets in a closed loop (0: spread evenly).
    """

    weight_bandwidth: float
    kv_bandwidth: float
    compute: float
    attention_compute: float
    link_bandwidth: float
    switch_latency: float
    pcie_latency: float
    layer_gap: float
    step_host: float
    step_host_v0: float
    eager_layer: float
    request_host: float
    bunching: float


@dataclass(frozen=True, slots=True)
class Spread:
    """Relative residuals of the validation rows: measured / predicted at the 5 % and 95 % quantile."""

    low: float
    high: float
    rows: int


@lru_cache(maxsize=1)
def _document() -> dict[str, dict[str, float]]:
    text = (resources.files("inferplan.performance") / "data" / "constants.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, float]] = json.loads(text)
    return found


@lru_cache(maxsize=1)
def constants() -> Constants:
    """The fitted constants."""
    return Constants(**_document()["constants"])


@lru_cache(maxsize=64)
def spread(metric: str, load: str) -> Spread:
    """Residuals of a metric (`ttft`, `tpot`, `throughput`) under a load kind (`single`, `batched`, `queueing`).

    Falls back to the metric's residuals over all loads where a cell has too few rows.
    """
    cells = _document()["residuals"]
    cell = cells.get(f"{metric}/{load}") or cells[f"{metric}/all"]
    return Spread(cell["low"], cell["high"], int(cell["rows"]))  # type: ignore[index]
