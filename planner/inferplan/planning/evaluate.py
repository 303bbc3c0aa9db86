"""Shapes × replicas → candidates: how many replicas each shape needs, and what it does with them.

Latency falls with replicas (each gets less of the load), so the least number that holds every SLO is found by
doubling and bisection over all shapes at once. Two candidates come out of a shape: `needed`, with that least number
(None when even the load's own ceiling does not help), and `allowed`, with the most that GPUs, inventory and budget
permit. The shape is feasible when needed ≤ allowed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inferplan.performance import Candidates, ServingPoint, Sweep, candidates, load_amount, sweep
from inferplan.planning.limits import Bound, Candidate, most_replicas
from inferplan.planning.shapes import Shape
from inferplan.planning.types import Inputs, Objectives, PlanningRequest
from inferplan.workload import Burst, Concurrency, Workload

_MOST_REPLICAS = 4096
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One shape judged. `needed`: the least replicas that hold the SLOs; `allowed`: the most that limits permit."""

    shape: Shape
    needed: Candidate | None
    allowed: Candidate | None

    @property
    def feasible(self) -> Candidate | None:
        if self.needed is None or self.allowed is None or self.needed.replicas > self.allowed.replicas:
            return None
        return self.needed


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Every shape judged, and how many shape × replicas points were looked at."""

    shapes: tuple[Evaluated, ...]
    points: int


def evaluate(shapes: tuple[Shape, ...], request: PlanningRequest, inputs: Inputs) -> Evaluation:
    """Judge every shape under the request's load."""
    if not shapes:
        return Evaluation((), 0)
    judge = _Judge(shapes, request)
    ceiling = replica_ceiling(request.workload)
    needed = judge.least_replicas(ceiling)
    most = np.array([most_replicas(s, request, inputs, ceiling) for s in shapes], dtype=np.int64)
    at_needed = judge.at(np.maximum(needed, 1))
    at_most = judge.at(np.maximum(most, 1))
    found = tuple(
        Evaluated(
            shape,
            _candidate(shape, int(needed[i]), at_needed, i) if needed[i] > 0 else None,
            _candidate(shape, int(most[i]), at_most, i) if most[i] > 0 else None,
        )
        for i, shape in enumerate(shapes)
    )
    return Evaluation(found, judge.points)


def at_replicas(
    shapes: tuple[Shape, ...], replicas: tuple[int, ...], request: PlanningRequest
) -> tuple[Candidate, ...]:
    """Each shape with its own number of replicas."""
    result = _Judge(shapes, request).at(np.array(replicas, dtype=np.int64))
    return tuple(_candidate(s, n, result, i) for i, (s, n) in enumerate(zip(shapes, replicas, strict=True)))


def replica_ceiling(workload: Workload) -> int:
    """More replicas than requests in flight are of no use."""
    if isinstance(workload.load, Concurrency | Burst):
        return max(1, min(_MOST_REPLICAS, math.ceil(workload.load.requests)))
    return _MOST_REPLICAS


class _Judge:
    """Shapes under one workload, ready to be asked for any numbers of replicas."""

    def __init__(self, shapes: tuple[Shape, ...], request: PlanningRequest) -> None:
        self.workload = request.workload
        self.objectives = request.objectives
        self.load = load_amount(request.workload)
        architecture = request.model.architecture
        points = [ServingPoint(architecture, s.gpu, s.config, s.memory, request.workload) for s in shapes]
        self.held: Candidates = candidates(points)
        self.points = 0

    def at(self, replicas: Counts) -> Sweep:
        self.points += len(replicas)
        return sweep(self.held, self.workload, self.load / replicas)

    def least_replicas(self, ceiling: int) -> Counts:
        """Least replicas per shape that hold the SLOs; 0 where `ceiling` replicas don't."""
        count = len(self.held.cap)
        high = np.ones(count, dtype=np.int64)
        holds = self._holds(high)
        while not holds.all() and (high[~holds] < ceiling).any():
            high = np.where(holds, high, np.minimum(high * 2, ceiling))
            holds = holds | self._holds(high)
        low = np.where(high > 1, high // 2, 0)
        while (high - low > 1).any():
            middle = np.maximum((low + high) // 2, 1)
            good = self._holds(middle)
            high = np.where(good, middle, high)
            low = np.where(good, low, middle)
        return np.where(self._holds(high), high, 0)

    def _holds(self, replicas: Counts) -> npt.NDArray[np.bool_]:
        result = self.at(replicas)
        good = ~result.saturated
        for limit, value, high in _limits(self.objectives, result):
            if limit is not None:
                good &= (value if self.objectives.judge_by == "Point" else high) <= limit
        return good


def _limits(
    objectives: Objectives, result: Sweep
) -> tuple[tuple[float | None, npt.NDArray[np.float64], npt.NDArray[np.float64]], ...]:
    return (
        (objectives.ttft_p95_seconds, result.ttft_p95, result.ttft_p95_high),
        (objectives.tpot_p95_seconds, result.tpot_p95, result.tpot_p95_high),
        (objectives.e2e_p95_seconds, result.e2e_p95, result.e2e_p95_high),
    )


def _candidate(shape: Shape, replicas: int, result: Sweep, i: int) -> Candidate:
    price = shape.usd_per_gpu_hour
    return Candidate(
        shape=shape,
        replicas=replicas,
        ttft_p95=Bound(float(result.ttft_p95[i]), float(result.ttft_p95_high[i])),
        tpot_p95=Bound(float(result.tpot_p95[i]), float(result.tpot_p95_high[i])),
        e2e_p95=Bound(float(result.e2e_p95[i]), float(result.e2e_p95_high[i])),
        output_tokens_per_second=float(result.output_tokens_per_second[i]) * replicas,
        saturated=bool(result.saturated[i]),
        usd_per_hour=None if price is None else price * shape.gpus * replicas,
    )
