"""What a candidate must hold, and by how much it misses: the one place where limits are compared.

An SLO holds when the pessimistic end of the prediction's interval does (`judge_by: Pessimistic`), or the value
itself (`Point`). An unknown price can hold no budget: it is a miss of its own, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from inferplan.planning.display import significant
from inferplan.planning.shapes import Shape, pools_of
from inferplan.planning.types import Inputs, Objectives, PlanningRequest


@dataclass(frozen=True, slots=True)
class Bound:
    """A predicted percentile in seconds with the pessimistic end of its interval."""

    value: float
    high: float

    def judged(self, objectives: Objectives) -> float:
        return self.value if objectives.judge_by == "Point" else self.high


@dataclass(frozen=True, slots=True)
class Candidate:
    """A shape times replicas under the whole load, evaluated. Throughput over all replicas."""

    shape: Shape
    replicas: int
    ttft_p95: Bound
    tpot_p95: Bound
    e2e_p95: Bound
    output_tokens_per_second: float
    saturated: bool
    usd_per_hour: float | None

    @property
    def gpus(self) -> int:
        return self.replicas * self.shape.gpus


@dataclass(frozen=True, slots=True)
class Miss:
    """A limit that does not hold. `relaxed`: the field and value that would let this candidate through."""

    code: str
    message: str
    relaxed: str


def latency_misses(candidate: Candidate, objectives: Objectives) -> tuple[Miss, ...]:
    """Which latency objectives are missed at this number of replicas."""
    if candidate.saturated:
        name = f"{candidate.replicas} of {candidate.shape.name}"
        return (Miss("Saturated", f"{name} can't keep up with the load: the queue grows without end", "more replicas"),)
    limits = (
        ("TTFTAboveLimit", "TTFT p95", "ttftP95Ms", objectives.ttft_p95_seconds, candidate.ttft_p95),
        ("TPOTAboveLimit", "TPOT p95", "tpotP95Ms", objectives.tpot_p95_seconds, candidate.tpot_p95),
        ("E2EAboveLimit", "end-to-end p95", "e2eP95Ms", objectives.e2e_p95_seconds, candidate.e2e_p95),
    )
    misses = []
    for code, label, field, limit, bound in limits:
        judged = bound.judged(objectives)
        if limit is not None and judged > limit:
            end = "" if objectives.judge_by == "Point" else " (pessimistic end)"
            message = f"{label} {significant(judged * 1000)} ms{end}, allowed {significant(limit * 1000)} ms"
            misses.append(Miss(code, message, f"objectives.{field}: {significant(judged * 1000)}"))
    return tuple(misses)


def resource_misses(candidate: Candidate, request: PlanningRequest, inputs: Inputs) -> tuple[Miss, ...]:
    """Which limits on GPUs, inventory and money are missed."""
    misses = []
    constraints = request.constraints
    if constraints.max_gpus is not None and candidate.gpus > constraints.max_gpus:
        message = f"needs {candidate.gpus} GPUs, constraints.maxGPUs allows {constraints.max_gpus}"
        misses.append(Miss("TooManyGPUs", message, f"constraints.maxGPUs: {candidate.gpus}"))
    room = inventory_replicas(candidate.shape, inputs)
    if room is not None and candidate.replicas > room:
        held = f"the cluster's {candidate.shape.gpu.name} nodes hold {room}"
        message = f"needs {candidate.replicas} replicas of {candidate.shape.name}, {held}"
        misses.append(Miss("NotEnoughGPUs", message, f"{candidate.gpus} {candidate.shape.gpu.name} GPUs"))
    if constraints.max_hourly_usd is not None:
        misses += _budget_misses(candidate, constraints.max_hourly_usd)
    return tuple(misses)


def _budget_misses(candidate: Candidate, limit: float) -> list[Miss]:
    if candidate.usd_per_hour is None:
        name = candidate.shape.gpu.name
        return [Miss("PriceUnknown", f"no price is known for {name}, so no budget can hold", f"a price for {name}")]
    if candidate.usd_per_hour > limit:
        cost, allowed = significant(candidate.usd_per_hour), significant(limit)
        message = f"costs ${cost}/h, constraints.maxHourlyCost allows ${allowed}/h"
        return [Miss("OverBudget", message, f'constraints.maxHourlyCost: "{cost}"')]
    return []


def inventory_replicas(shape: Shape, inputs: Inputs) -> int | None:
    """How many replicas the nodes of that type hold (a replica never spans nodes); None: inventory unknown."""
    pools = pools_of(shape.gpu, inputs)
    return None if pools is None else sum(p.nodes * (p.gpus_per_node // shape.gpus) for p in pools)


def most_replicas(shape: Shape, request: PlanningRequest, inputs: Inputs, ceiling: int) -> int:
    """The most replicas that GPUs, inventory and budget allow, at most `ceiling` (what the load can use)."""
    limits = [ceiling]
    if request.constraints.max_gpus is not None:
        limits.append(request.constraints.max_gpus // shape.gpus)
    room = inventory_replicas(shape, inputs)
    if room is not None:
        limits.append(room)
    if request.constraints.max_hourly_usd is not None:
        # Without a price no budget can hold, not even for one replica.
        price = shape.usd_per_gpu_hour
        afforded = 0 if price is None else int(request.constraints.max_hourly_usd / (price * shape.gpus) + 1e-9)
        limits.append(afforded)
    return max(0, min(limits))
