"""What the performance room answers, in SI units (seconds, tokens per second)."""

from __future__ import annotations

from dataclasses import dataclass

from inferplan.engine import MemoryPlan, ResolvedConfig
from inferplan.hardware import GPU
from inferplan.model import Architecture
from inferplan.workload import Workload


@dataclass(frozen=True, slots=True)
class ServingPoint:
    """One deployment replica under one workload: the question. `workload.load` is the load of this one replica."""

    architecture: Architecture
    gpu: GPU
    config: ResolvedConfig
    memory: MemoryPlan
    workload: Workload


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Of one latency over requests, in seconds. TPOT as vLLM defines it: (E2E - TTFT) / (output tokens - 1)."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Interval:
    """Where the measured value falls with probability `level`, by the residuals of the validation set."""

    low: float
    high: float
    level: float = 0.9


@dataclass(frozen=True, slots=True)
class Operation:
    """One named part of a step: what it costs and what limits it (`compute`, `memory`, `link`, `host`)."""

    name: str
    seconds: float
    flops: float
    bytes_moved: float
    bound: str


@dataclass(frozen=True, slots=True)
class Performance:
    """The answer for one ServingPoint.

    `*_interval`: for the mean (latencies) or the value (throughput); a percentile times `high / mean` is its
    pessimistic end. `saturated`: arrivals exceed what one replica can serve; latencies are then those of the first ten
    minutes of queueing and a warning says so. `basis`: `SpecSheet` or `Extrapolated` (later `Profiled`, `Measured`).
    """

    ttft_seconds: Quantiles
    tpot_seconds: Quantiles
    e2e_seconds: Quantiles
    output_tokens_per_second: float
    total_tokens_per_second: float
    requests_per_second: float
    running_requests: float
    saturated: bool
    ttft_interval: Interval
    tpot_interval: Interval
    output_tokens_per_second_interval: Interval
    basis: str
    prefill_seconds_share: float  # of the engine's busy time; splits the cost between input and output tokens
    decode_step: tuple[Operation, ...]
    prefill_step: tuple[Operation, ...]
    warnings: tuple[str, ...] = ()

    def usd_per_million_tokens(self, usd_per_hour: float) -> tuple[float, float]:
        """USD per million (input, output) tokens at this load, where this replica costs so much an hour.

        The hour is split by the engine's busy time in prefill and decode.
        """
        prompt = self.total_tokens_per_second - self.output_tokens_per_second
        share, million = self.prefill_seconds_share, usd_per_hour / 3600 * 1e6
        return million * share / prompt, million * (1 - share) / self.output_tokens_per_second
