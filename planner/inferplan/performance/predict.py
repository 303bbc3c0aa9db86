"""ServingPoint → Performance: one vectorised pass over any number of points, and the sweep that planning uses.

The interval of a value is value × the 5 % and 95 % quantile of measured/predicted on validation rows of the same
metric and load kind; of TTFT the low end leaves out the time outside the engine, which depends on who measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inferplan.engine import MemoryPlan, ResolvedConfig, has_softmax_only, is_dense_decoder, requests_that_fit
from inferplan.model import Architecture
from inferplan.performance.constants import EXTRAPOLATED, MIXTURE, Spread, constants, spread
from inferplan.performance.result import Interval, Operation, Performance, Quantiles, ServingPoint
from inferplan.performance.serving import (
    BURST,
    CLOSED,
    OPEN,
    Demand,
    Latency,
    Served,
    fresh_tokens,
    prompt_pairs,
    request_host,
    serve,
)
from inferplan.performance.step import Array, Coefficients, Flags, StepTime, Table, coefficients, step_time
from inferplan.workload import Burst, Concurrency, Workload

_FITTED_VENDORS = ("NVIDIA",)
Cells = npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Deployments to sweep over: coefficients and per-deployment limits, index by index. Build once per plan.

    `apart`: the cell of residuals of what no constant was fitted on, "" of what they were.
    """

    table: Table
    cap: Array
    budget: Array
    apart: Cells

    def take(self, index: npt.NDArray[np.intp]) -> Candidates:
        """The deployments of `index`, repeats allowed."""
        return Candidates(self.table.take(index), self.cap[index], self.budget[index], self.apart[index])


@dataclass(frozen=True, slots=True)
class Sweep:
    """What planning judges by, arrays in seconds and tokens per second of one replica; `*_high`: pessimistic ends."""

    ttft_p95: Array
    ttft_p95_high: Array
    tpot_p95: Array
    tpot_p95_high: Array
    e2e_p95: Array
    e2e_p95_high: Array
    output_tokens_per_second: Array
    saturated: Flags


def candidates(points: Sequence[ServingPoint]) -> Candidates:
    """Coefficients of every point; its load is not looked at."""
    return _candidates(points, _coefficients(points))


def _coefficients(points: Sequence[ServingPoint]) -> list[Coefficients]:
    return [coefficients(p.architecture, p.gpu, p.config) for p in points]


def _candidates(points: Sequence[ServingPoint], rows: list[Coefficients]) -> Candidates:
    cap = [running_cap(p.memory, p.config, p.workload) for p in points]
    budget = [float(p.config.max_num_batched_tokens) for p in points]
    apart = [_apart(p) for p in points]
    return Candidates(
        Table(rows),
        np.array(cap, dtype=np.float64),
        np.array(budget, dtype=np.float64),
        np.array(apart, dtype=np.str_),
    )


def running_cap(memory: MemoryPlan, config: ResolvedConfig, workload: Workload) -> float:
    """Requests that may run at once: max_num_seqs, or what the KV cache holds of requests halfway through.

    Of a deployment that would not start (its context is longer than its cache, mostly) the bytes still say how many
    requests of this length fit: the answer for the same deployment with a max_model_len that starts.
    """
    held = workload.input_tokens.mean_tokens + workload.output_tokens.mean_tokens / 2
    sequences = float(config.max_num_seqs)
    if memory.starts:
        room = requests_that_fit(memory, held)
    elif memory.kv_bytes_per_token_per_rank > 0:
        room = memory.available_kv_cache_bytes / (held * memory.kv_bytes_per_token_per_rank)
    else:
        room = sequences
    return max(1.0, min(sequences, room))


def sweep(held: Candidates, workload: Workload, amount: Array) -> Sweep:
    """Judge every candidate under `amount` of the workload's load kind (requests in flight, per second, or at once)."""
    demand = demand_of([workload] * len(amount), held, amount)
    served = serve(held.table, constants(), demand)
    kinds = _kinds(held.apart, served)
    ttft = served.ttft.p95 * _factors("ttft", kinds)
    tpot = _factors("tpot", kinds)
    # The answer's share of E2E grows with TPOT; TTFT's share with TTFT.
    e2e = ttft + tpot * np.maximum(served.e2e.p95 - served.ttft.p95, 0.0)
    return Sweep(
        ttft_p95=served.ttft.p95,
        ttft_p95_high=ttft,
        tpot_p95=served.tpot.p95,
        tpot_p95_high=served.tpot.p95 * tpot,
        e2e_p95=served.e2e.p95,
        e2e_p95_high=np.maximum(e2e, served.e2e.p95),
        output_tokens_per_second=served.requests_per_second * demand.answer,
        saturated=served.saturated,
    )


def _apart(point: ServingPoint) -> str:
    if point.gpu.vendor not in _FITTED_VENDORS:
        return EXTRAPOLATED
    return "" if is_dense_decoder(point.architecture) else MIXTURE


def _kinds(apart: Cells, served: Served) -> Cells:
    """The cell of residuals that speaks about each deployment."""
    near = np.where(served.running <= 1.0, "single", np.where(served.queueing, "queueing", "batched"))
    return np.where(apart == "", near, apart)


def _factors(metric: str, kinds: Cells) -> Array:
    """high / value of each deployment's interval."""
    found = np.ones(len(kinds))
    for kind in np.unique(kinds):
        found[kinds == kind] = max(spread(metric, str(kind)).high, 1.0)
    return found


def predict(points: Sequence[ServingPoint]) -> list[Performance]:
    """The full answer for every point, in order."""
    if not points:
        return []
    rows = _coefficients(points)
    held = _candidates(points, rows)
    amount = np.array([load_amount(p.workload) / p.config.data_parallel_size for p in points])
    demand = demand_of([p.workload for p in points], held, amount)
    served = serve(held.table, constants(), demand)
    steps = _decode_steps(held.table, demand, served)
    prefills = _prefill_steps(held.table, demand)
    kinds = _kinds(held.apart, served)
    outside = request_host(constants(), demand)
    return [
        _performance(
            i, point, served, steps, prefills, Judged(str(kinds[i]), float(outside[i]), float(held.cap[i]), rows[i])
        )
        for i, point in enumerate(points)
    ]


@dataclass(frozen=True, slots=True)
class Judged:
    """What one answer's intervals, warnings and operations rest on. `outside`: seconds of TTFT outside the engine."""

    kind: str
    outside: float
    cap: float
    row: Coefficients


def load_amount(workload: Workload) -> float:
    """C, λ or N of a workload."""
    load = workload.load
    if isinstance(load, Concurrency | Burst):
        return float(load.requests)
    return load.requests_per_second


def _load_kind(workload: Workload) -> float:
    if isinstance(workload.load, Concurrency):
        return CLOSED
    return BURST if isinstance(workload.load, Burst) else OPEN


def demand_of(workloads: Sequence[Workload], held: Candidates, amount: Array) -> Demand:
    prompt = np.array([w.input_tokens.mean_tokens for w in workloads])
    return Demand(
        kind=np.array([_load_kind(w) for w in workloads]),
        amount=amount,
        prompt=prompt,
        answer=np.array([w.output_tokens.mean_tokens for w in workloads]),
        cached=prompt * np.array([w.prefix_hit_rate for w in workloads]),
        prompt_cv=np.sqrt(np.expm1(np.array([w.input_tokens.sigma for w in workloads]) ** 2)),
        answer_cv=np.sqrt(np.expm1(np.array([w.output_tokens.sigma for w in workloads]) ** 2)),
        cap=held.cap,
        budget=held.budget,
    )


def _decode_steps(t: Table, demand: Demand, served: Served) -> StepTime:
    none = np.zeros_like(served.running)
    return step_time(t, constants(), np.maximum(served.running, 1.0), demand.prompt + demand.answer / 2, none, none)


def _prefill_steps(t: Table, demand: Demand) -> StepTime:
    none = np.zeros_like(demand.prompt)
    return step_time(t, constants(), none, none, fresh_tokens(demand), prompt_pairs(demand))


def _performance(
    i: int, point: ServingPoint, served: Served, decode: StepTime, prefill: StepTime, judged: Judged
) -> Performance:
    ranks = point.config.data_parallel_size
    answer = point.workload.output_tokens.mean_tokens
    requests = float(served.requests_per_second[i]) * ranks
    running = float(served.running[i]) * ranks
    output = requests * answer
    tokens = requests * (answer + point.workload.input_tokens.mean_tokens)
    fresh = point.workload.input_tokens.mean_tokens * (1 - point.workload.prefix_hit_rate)
    return Performance(
        ttft_seconds=_quantiles(served.ttft, i),
        tpot_seconds=_quantiles(served.tpot, i),
        e2e_seconds=_quantiles(served.e2e, i),
        output_tokens_per_second=output,
        total_tokens_per_second=tokens,
        requests_per_second=requests,
        running_requests=running,
        saturated=bool(served.saturated[i]),
        ttft_interval=_interval(float(served.ttft.mean[i]), spread("ttft", judged.kind), judged.outside),
        tpot_interval=_interval(float(served.tpot.mean[i]), spread("tpot", judged.kind)),
        output_tokens_per_second_interval=_interval(output, spread("throughput", judged.kind)),
        basis=_basis(point, judged.kind),
        prefill_seconds_share=float(served.prefill_share[i]),
        decode_step=_operations(decode, i, judged.row, max(float(served.running[i]), 1.0)),
        prefill_step=_operations(prefill, i, judged.row, fresh),
        warnings=_warnings(point, bool(served.saturated[i]), judged),
    )


def family_remark(architecture: Architecture) -> str:
    """What to know of the times of a model that no constant was fitted on; "" of a dense decoder."""
    if is_dense_decoder(architecture):
        return ""
    unlike = "" if has_softmax_only(architecture) else ", which this is not: they may be too narrow"
    return f"times rest on constants of dense decoders; their ranges are those of mixtures of experts{unlike}"


def _basis(point: ServingPoint, kind: str) -> str:
    """Extrapolated: neither constants nor residuals come from such a GPU or such layers."""
    known = kind != EXTRAPOLATED and has_softmax_only(point.architecture)
    return "SpecSheet" if known else "Extrapolated"


def _warnings(point: ServingPoint, saturated: bool, judged: Judged) -> tuple[str, ...]:  # noqa: FBT001
    found = []
    if judged.kind == MIXTURE:
        found.append(f"FamilyNotFitted: {family_remark(point.architecture)}")
    if saturated:
        found.append("Saturated: arrivals exceed what one replica serves; latencies are those of the first ten minutes")
    load = point.workload.load
    if isinstance(load, Concurrency) and load.requests / point.config.data_parallel_size > judged.cap * 1.0001:
        found.append(f"Queueing: {load.requests:g} requests in flight, {judged.cap:.0f} run at once; the others wait")
    return tuple(found)


def _quantiles(latency: Latency, i: int) -> Quantiles:
    return Quantiles(*(float(getattr(latency, name)[i]) for name in ("mean", "p50", "p90", "p95", "p99")))


def _interval(value: float, residuals: Spread, outside: float = 0.0) -> Interval:
    """`outside`: the part of the value that may be missing as a whole (an engine called without a server)."""
    return Interval((value - outside) * min(residuals.low, 1.0), value * max(residuals.high, 1.0))


def _operations(step: StepTime, i: int, row: Coefficients, tokens: float) -> tuple[Operation, ...]:
    """The step's parts with what bounds each. Weights are read once, so bytes of `linear` don't grow with tokens."""
    flops = row.linear_flops_per_token * tokens
    reads = row.weight_bytes
    compute_bound = flops / row.matrix_flops_per_second > reads / row.bandwidth
    parts = (
        ("linear layers", step.linear, flops, reads, "compute" if compute_bound else "memory"),
        ("LM head", step.head, row.head_flops_per_token, row.head_bytes, "memory"),
        ("decode attention", step.attention, 0.0, float(step.attention[i]) * row.bandwidth, "memory"),
        ("prefill attention", step.prefill_attention, 0.0, 0.0, "compute"),
        ("all-reduces", step.reduces, 0.0, row.reduce_bytes_per_token * tokens * row.reduces, "link"),
        ("kernel gaps", step.gaps, 0.0, 0.0, "host"),
        ("step overhead", step.host, 0.0, 0.0, "host"),
    )
    return tuple(
        Operation(name, float(seconds[i]), work, moved, bound)
        for name, seconds, work, moved, bound in parts
        if seconds[i] > 0
    )
