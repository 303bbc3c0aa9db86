"""What planning is asked and what it answers: plain values, no Kubernetes, no I/O."""

from __future__ import annotations

from dataclasses import dataclass

from inferplan.hardware import GPU
from inferplan.model import ModelFacts
from inferplan.workload import Workload


@dataclass(frozen=True, slots=True)
class Objectives:
    """What must hold (None: no limit) and what to minimise (`Cost`, `Latency`, `GPUs`).

    `judge_by`: `Pessimistic` compares a limit with the interval's high end, `Point` with the value.
    """

    ttft_p95_seconds: float | None = None
    tpot_p95_seconds: float | None = None
    e2e_p95_seconds: float | None = None
    minimise: str = "Cost"
    judge_by: str = "Pessimistic"


@dataclass(frozen=True, slots=True)
class Constraints:
    """Hard limits; empty tuples and None mean "any". GPU names may be aliases; they are resolved on use."""

    gpu_types: tuple[str, ...] = ()
    max_gpus: int | None = None
    max_hourly_usd: float | None = None
    quantization: tuple[str, ...] = ()
    kv_cache_dtypes: tuple[str, ...] = ()
    max_tensor_parallel: int | None = None
    min_context_length: int | None = None


@dataclass(frozen=True, slots=True)
class GPUPool:
    """What the cluster has of one GPU type: totals, never what is free now."""

    gpu_type: str
    nodes: int
    gpus_per_node: int


@dataclass(frozen=True, slots=True)
class Defaults:
    """The operator's defaults that a recommendation depends on. `tolerations`: (key, operator, value, effect)."""

    image: str = "docker.io/vllm/vllm-openai:v0.33.0"
    engine_version: str = "0.33.0"
    tolerations: tuple[tuple[str, str, str, str], ...] = (("nvidia.com/gpu", "Exists", "", "NoSchedule"),)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything besides the intent and the model that a recommendation depends on: one value, hashable.

    `inventory` None: unknown cluster, any GPU type of the catalogue in any number may be recommended.
    `prices`: the user's, GPU type → USD per GPU-hour; they win over list prices.
    """

    gpus: tuple[GPU, ...]
    catalog_version: str
    inventory: tuple[GPUPool, ...] | None = None
    prices: tuple[tuple[str, float], ...] = ()
    price_date: str = ""
    defaults: Defaults = Defaults()


@dataclass(frozen=True, slots=True)
class EngineOverrides:
    """Engine arguments the user fixed (vLLM's names); None: the planner chooses."""

    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    block_size: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory_bytes: int | None = None
    enforce_eager: bool | None = None
    enable_prefix_caching: bool | None = None
    async_scheduling: bool | None = None


@dataclass(frozen=True, slots=True)
class PlanningRequest:
    """The intent, as planning needs it. `unmodelled`: arguments the predictions don't account for."""

    model: ModelFacts
    workload: Workload
    objectives: Objectives
    constraints: Constraints
    overrides: EngineOverrides = EngineOverrides()
    unmodelled: tuple[str, ...] = ()
    image: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What would run. `quantization`: what the checkpoint is loaded as; `max_model_len` etc. in vLLM's meaning."""

    gpu_type: str
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    replicas: int
    quantization: str
    kv_cache_dtype: str  # as passed to --kv-cache-dtype: `auto`, `fp8`, …
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    gpu_memory_utilization: str  # decimal string
    enable_prefix_caching: bool
    enforce_eager: bool
    image: str
    model_revision: str

    @property
    def gpus_per_replica(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel

    @property
    def gpus(self) -> int:
        return self.gpus_per_replica * self.replicas


@dataclass(frozen=True, slots=True)
class Predicted:
    """One displayed number: decimal strings with 3 significant digits, so that no float enters the digest.

    `unit` as people read it (`ms`, `tok/s`, `tokens`, `GiB`, `USD/h`, `USD/1M`, `requests`).
    `value` is None where nothing is known (an unknown price is never zero).
    """

    value: str | None
    low: str | None
    high: str | None
    unit: str
    basis: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A reason, warning or why-not: stable code and a sentence with the deciding number."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One evaluated way to serve: the decision and its displayed predictions (name in camelCase → Predicted).

    Names: ttft, tpot, outputTokensPerSecond, kvCacheTokens, maxConcurrency, weightsGiB, kvNeededGiB,
    vramReservedGiB, usdPerHour, usdPerMillionInputTokens, usdPerMillionOutputTokens.
    """

    decision: Decision
    predicted: tuple[tuple[str, Predicted], ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    """A choice that lost, and why."""

    choice: Choice
    summary: str
    why_not: Notice


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer when something fits. At most 5 alternatives; `rejected`: reason code → how many candidates."""

    choice: Choice
    reasons: tuple[Notice, ...]
    alternatives: tuple[Alternative, ...]
    warnings: tuple[Notice, ...]
    unmodelled: tuple[str, ...]
    candidates: int
    rejected: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Infeasible:
    """The answer when nothing fits: the constraint that kills, by how much, and what would work."""

    code: str
    message: str
    nearest: tuple[Notice, ...]
    candidates: int
    rejected: tuple[tuple[str, int], ...]
    warnings: tuple[Notice, ...] = ()
