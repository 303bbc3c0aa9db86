"""The candidates: every way one replica could be configured, with its memory plan, and why some can't be.

A shape is GPU type × tensor parallelism × KV dtype × `max_num_seqs` for the checkpoint as it is. Replicas are not
part of it: they multiply cost and divide load, and are searched by `evaluate`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from inferplan.engine import EngineConfig, MemoryPlan, ResolvedConfig, plan_memory, resolve
from inferplan.errors import InferPlanError, InvalidInput
from inferplan.hardware import GPU, Price, resolve_gpu
from inferplan.planning.types import GPUPool, Inputs, Notice, PlanningRequest
from inferplan.workload import Burst, Concurrency, Lengths

_TENSOR_PARALLEL = (1, 2, 4, 8, 16)
_MAX_NUM_SEQS = (8, 16, 32, 64, 128, 256, 512, 1024)
# 99.9 % quantile of the standard normal distribution: the served context covers all but one request in a thousand.
_Z999 = 3.090232306167813
_CONTEXT_STEP = 1024


@dataclass(frozen=True, slots=True)
class Shape:
    """One replica's configuration. `kv_argument`: what `--kv-cache-dtype` gets."""

    gpu: GPU
    kv_argument: str
    config: ResolvedConfig
    memory: MemoryPlan

    @property
    def tensor_parallel(self) -> int:
        return self.config.tensor_parallel_size

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.config.gpus

    @property
    def usd_per_gpu_hour(self) -> float | None:
        """None: unknown."""
        return None if self.gpu.price is None else self.gpu.price.usd_per_hour

    @property
    def name(self) -> str:
        return shape_name(self.gpu, self.tensor_parallel, self.kv_argument)


def shape_name(gpu: GPU, tp: int, kv_argument: str) -> str:
    """`2×L40S, fp8 KV`; the checkpoint's own KV dtype goes without saying."""
    kv = "" if kv_argument == "auto" else f", {kv_argument} KV"
    return f"{tp}×{gpu.name}{kv}"


@dataclass(frozen=True, slots=True)
class Unusable:
    """A combination that never becomes a candidate, and why. `shape`: when memory was planned."""

    gpu: GPU
    name: str
    reason: Notice
    shape: Shape | None = None


@dataclass(frozen=True, slots=True)
class Space:
    """All shapes that start, and what was left out."""

    usable: tuple[Shape, ...]
    unusable: tuple[Unusable, ...]


def search_space(request: PlanningRequest, inputs: Inputs) -> Space:
    """Every shape the constraints allow. Raises InvalidInput for a GPU type or number that means nothing."""
    context = served_context_tokens(request)
    usable: list[Shape] = []
    unusable: list[Unusable] = []
    for gpu in allowed_gpus(request, inputs):
        refusal = _refused_gpu(gpu, inputs)
        if refusal is not None:
            unusable.append(Unusable(gpu, gpu.name, refusal))
            continue
        for tp in _tensor_parallel_options(gpu, request, inputs):
            for kv in kv_arguments(request):
                started, refused = _shapes_of(gpu, tp, kv, context, request, inputs)
                usable += started
                unusable += refused
    return Space(tuple(usable), tuple(unusable))


def allowed_gpus(request: PlanningRequest, inputs: Inputs) -> tuple[GPU, ...]:
    """The GPU types to consider, in name order: the constraint's, else the cluster's, else the whole catalogue."""
    if request.constraints.gpu_types:
        named = {resolve_gpu(name, inputs.gpus) for name in request.constraints.gpu_types}
    elif inputs.inventory is not None:
        held = {pool.gpu_type for pool in inputs.inventory}
        named = {gpu for gpu in inputs.gpus if gpu.name in held}
    else:
        named = set(inputs.gpus)
    return tuple(sorted((priced(gpu, inputs) for gpu in named), key=lambda gpu: gpu.name))


def priced(gpu: GPU, inputs: Inputs) -> GPU:
    """The type at the price that holds: the user's wins over the list's."""
    found = dict(inputs.prices).get(gpu.name)
    return gpu if found is None else replace(gpu, price=Price(found, "the user's price list", inputs.price_date))


def served_context_tokens(request: PlanningRequest) -> int:
    """`max_model_len`: the asked context, else what covers 99.9 % of prompts plus answers, within the model's limit."""
    architecture = request.model.architecture
    limit = architecture.max_position_embeddings
    for field, asked in (
        ("runtime.extraArgs --max-model-len", request.overrides.max_model_len),
        ("constraints.minContextLength", request.constraints.min_context_length),
    ):
        if asked is None:
            continue
        if asked > limit and architecture.limits_context:
            message = f"{field}={asked}: {request.model.id} is limited to {limit} tokens"
            raise InvalidInput(message, code="ContextAboveModelLimit")
        return asked
    tail = _tail(request.workload.input_tokens) + _tail(request.workload.output_tokens)
    return min(limit, math.ceil(tail / _CONTEXT_STEP) * _CONTEXT_STEP)


def _tail(lengths: Lengths) -> float:
    return lengths.p50_tokens * math.exp(_Z999 * lengths.sigma)


def kv_arguments(request: PlanningRequest) -> tuple[str, ...]:
    """KV dtypes to try. Without an allow-list only the checkpoint's own: a narrower KV cache trades accuracy."""
    return request.constraints.kv_cache_dtypes or ("auto",)


def pools_of(gpu: GPU, inputs: Inputs) -> tuple[GPUPool, ...] | None:
    """What the cluster holds of a type, by size of node; None where the inventory is unknown."""
    if inputs.inventory is None:
        return None
    return tuple(pool for pool in inputs.inventory if pool.gpu_type == gpu.name)


def _refused_gpu(gpu: GPU, inputs: Inputs) -> Notice | None:
    if gpu.vendor.lower() != "nvidia":
        return Notice("UnsupportedVendor", f"{gpu.name}: deployments are made for NVIDIA GPUs only so far")
    if inputs.inventory is not None and not pools_of(gpu, inputs):
        held = ", ".join(sorted({pool.gpu_type for pool in inputs.inventory})) or "no GPU nodes that are known"
        return Notice("NotInInventory", f"the cluster has no {gpu.name} nodes; it has {held}")
    return None


def _tensor_parallel_options(gpu: GPU, request: PlanningRequest, inputs: Inputs) -> Iterator[int]:
    pools = pools_of(gpu, inputs)
    limits = [
        gpu.gpus_per_node if pools is None else max((p.gpus_per_node for p in pools), default=0),
        request.constraints.max_tensor_parallel,
        request.constraints.max_gpus,
    ]
    bound = min(x for x in limits if x is not None)
    yield from (tp for tp in _TENSOR_PARALLEL if tp <= bound)


def _shapes_of(
    gpu: GPU, tp: int, kv: str, context: int, request: PlanningRequest, inputs: Inputs
) -> tuple[list[Shape], list[Unusable]]:
    started: list[Shape] = []
    refused: list[Unusable] = []
    name = shape_name(gpu, tp, kv)
    for seqs in _max_num_seqs_options(request):
        wanted = _engine_config(request, inputs, tp, kv, context, seqs)
        try:
            config = resolve(wanted, request.model.architecture, gpu)
            memory = plan_memory(request.model.architecture, gpu, config)
        except InferPlanError as error:
            refused.append(Unusable(gpu, name, Notice(error.code, error.message)))
            continue
        shape = Shape(gpu, kv, config, memory)
        allowed = request.constraints.quantization
        if allowed and config.weight_quantization not in allowed:
            message = (
                f"the checkpoint is {config.weight_quantization}; constraints.quantization allows {', '.join(allowed)}"
            )
            refused.append(Unusable(gpu, name, Notice("QuantizationNotAllowed", message)))
        elif memory.starts and not memory.starts_surely and request.objectives.judge_by != "Point":
            refused.append(Unusable(gpu, name, _unsure(shape), shape))
        elif memory.starts:
            started.append(shape)
        else:
            first = memory.start_errors[0]
            refused.append(Unusable(gpu, name, Notice(first.code, f"{first.message} {first.fix}"), shape))
    return started, refused


def _unsure(shape: Shape) -> Notice:
    memory, context = shape.memory, shape.config.max_model_len
    message = (
        f"{memory.available_kv_cache_bytes / 2**30:.2f} GiB are left for the KV cache, maybe so much less that "
        f"one request of {context} tokens does not fit ({memory.kv_cache_tokens_low}–{memory.kv_cache_tokens_high} "
        "tokens, 90 %). Use more or larger GPUs or a shorter context, or judge by the point estimate."
    )
    return Notice("MayNotStart", message)


def _max_num_seqs_options(request: PlanningRequest) -> tuple[int | None, ...]:
    """Batch limits to try: up to twice what the whole load could ever run at once."""
    if request.overrides.max_num_seqs is not None:
        return (request.overrides.max_num_seqs,)
    load = request.workload.load
    if isinstance(load, Concurrency | Burst):
        enough = 2 * load.requests
        return tuple(s for s in _MAX_NUM_SEQS if s < 2 * enough) or _MAX_NUM_SEQS[:1]
    return _MAX_NUM_SEQS


def _engine_config(
    request: PlanningRequest, inputs: Inputs, tp: int, kv: str, context: int, seqs: int | None
) -> EngineConfig:
    fixed = request.overrides
    return EngineConfig(
        version=inputs.defaults.engine_version,
        tensor_parallel_size=tp,
        kv_cache_dtype=kv,
        max_model_len=context,
        max_num_seqs=seqs,
        max_num_batched_tokens=fixed.max_num_batched_tokens,
        block_size=fixed.block_size,
        gpu_memory_utilization=fixed.gpu_memory_utilization,
        enforce_eager=fixed.enforce_eager is True,
        enable_prefix_caching=fixed.enable_prefix_caching,
        async_scheduling=fixed.async_scheduling,
        available_kv_cache_bytes=fixed.kv_cache_memory_bytes,
    )
