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

    `weight_bandwidth`, `packed_bandwidth`: reading 16-bit and quantized weights (unpacked or scaled on the way).
    `kv_bandwidth`, `kv_bandwidth_v0`: reading the KV cache (v0: the first engine,
    vLLM < 0.8). `kv_again_v0`: its reads grow with (query heads / KV heads) to this power.
    `compute`: matrix units on large matrices. `attention_compute`: prefill attention.
    `link_bandwidth`, `switch_latency`, `pcie_latency`: one all-reduce; its latency grows with log₂ tp.
    `layer_gap`: between a layer's kernels. `eager_layer`: more of it per layer without CUDA graphs.
    `step_host`, `step_host_v0`: between steps; the first engine added `sequence_host` per running request.
    `request_host`, `token_host`: per request and per prompt token
    outside the engine (HTTP, tokenising, the client's clock).
    `bunching`: share of the other requests' prefill that a new request of a closed loop meets (they started together).
    """

    weight_bandwidth: float
    packed_bandwidth: float
    kv_bandwidth: float
    kv_bandwidth_v0: float
    kv_again_v0: float
    compute: float
    attention_compute: float
    link_bandwidth: float
    switch_latency: float
    pcie_latency: float
    layer_gap: float
    eager_layer: float
    step_host: float
    step_host_v0: float
    sequence_host: float
    request_host: float
    token_host: float
    bunching: float


@dataclass(frozen=True, slots=True)
class Spread:
    """Relative residuals of the validation rows: measured / predicted at the 5 % and 95 % quantile."""

    low: float
    high: float
    rows: int


# Load kind of residuals on GPUs of vendors that no constant was fitted on.
EXTRAPOLATED = "extrapolated"
# And of models other than dense decoders: no constant was fitted on them; residuals are those of mixtures of experts.
MIXTURE = "mixture"
# TTFT of these has too few rows for a cell of its own: other loads' residuals, doubled outwards.
_TTFT_GUESSED = ("queueing", EXTRAPOLATED, MIXTURE)


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
    """Residuals of a metric (`ttft`, `tpot`, `throughput`) under a load kind (`single`, `batched`, `queueing`,
    `extrapolated`, `mixture`).

    Where a cell has too few rows, queueing falls back to `batched` and everything else to all loads of the metric.
    """
    cells = _document()["residuals"]
    name = f"{metric}/{load}"
    parent = f"{metric}/batched" if load == "queueing" else f"{metric}/all"
    cell = cells.get(name) or cells.get(parent) or cells[f"{metric}/all"]
    wider = 2.0 if metric == "ttft" and load in _TTFT_GUESSED and name not in cells else 1.0
    return Spread(cell["low"] / wider, cell["high"] * wider, int(cell["rows"]))  # type: ignore[index]
