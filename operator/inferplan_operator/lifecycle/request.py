"""Spec → what planning is asked, and what manifests are rendered from. Units are converted here, once."""

from __future__ import annotations

from dataclasses import dataclass

from inferplan.errors import InvalidInput
from inferplan.hardware import resolve_gpu
from inferplan.model import ModelFacts
from inferplan.planning import Constraints, Decision, EngineOverrides, Inputs, Objectives, PlanningRequest
from inferplan.workload import Concurrency, Lengths, Load, RequestRate, Workload
from inferplan_operator.api.v1alpha1 import InferencePlan, InferencePlanSpec
from inferplan_operator.api.v1alpha1.arguments import ALLOWED, MODELLED, SWITCHES, UNSUPPORTED_TOPOLOGY, argument_name
from inferplan_operator.manifests import Serving, TokenRef, Volume

_SIZES = {"K": 2**10, "M": 2**20, "G": 2**30}


def request_of(plan: InferencePlan, model: ModelFacts) -> PlanningRequest:
    """The plan's intent in planning's terms. Raises InvalidInput naming the field."""
    spec = plan.spec
    objectives, constraints = spec.objectives, spec.constraints
    arguments = split_arguments(tuple(spec.runtime.extra_args or ()))
    return PlanningRequest(
        model=model,
        workload=_workload(spec),
        objectives=Objectives(
            ttft_p95_seconds=_seconds(objectives.ttft_p95_ms),
            tpot_p95_seconds=_seconds(objectives.tpot_p95_ms),
            e2e_p95_seconds=_seconds(objectives.e2e_p95_ms),
            minimise=objectives.minimise,
            judge_by=objectives.judge_by,
        ),
        constraints=Constraints(
            gpu_types=tuple(constraints.gpu_types or ()),
            max_gpus=constraints.max_gpus,
            max_hourly_usd=_decimal(constraints.max_hourly_cost),
            quantization=tuple(constraints.quantization or ()),
            kv_cache_dtypes=tuple(constraints.kv_cache_dtypes or ()),
            max_tensor_parallel=constraints.max_tensor_parallel,
            min_context_length=constraints.min_context_length,
        ),
        overrides=arguments.overrides,
        unmodelled=arguments.unmodelled,
        image=spec.runtime.image,
    )


def serving_of(plan: InferencePlan, decision: Decision, inputs: Inputs) -> Serving:
    """What the manifests are rendered from besides the decision."""
    spec, model = plan.spec, plan.spec.model
    cost = spec.cost_allocation
    labels = (
        ("inferplan.io/team", cost.team),
        ("inferplan.io/project", cost.project),
        ("inferplan.io/cost-center", cost.cost_center),
    )
    gpu = resolve_gpu(decision.gpu_type, inputs.gpus)
    return Serving(
        name=plan.metadata.name,
        namespace=plan.metadata.namespace,
        model_id=model.id,
        gpu_type=gpu.name,
        gpu_products=gpu.product_labels,
        extra_args=tuple(spec.runtime.extra_args or ()),
        env=tuple((e.name, e.value) for e in spec.runtime.env or ()),
        token=TokenRef(model.token_secret_ref.name, model.token_secret_ref.key) if model.token_secret_ref else None,
        volume=Volume(model.pvc.claim_name, model.pvc.path or "") if model.source == "pvc" and model.pvc else None,
        labels=tuple((key, value) for key, value in labels if value is not None),
        tolerations=inputs.defaults.tolerations,
    )


def _workload(spec: InferencePlanSpec) -> Workload:
    w = spec.workload
    if w.input_tokens is None or w.output_tokens is None:
        raise InvalidInput(
            "spec.workload.traceRef is not supported yet; give inputTokens and outputTokens", code="UnsupportedTrace"
        )
    load: Load
    if w.concurrency is not None:
        load = Concurrency(float(w.concurrency))
    else:
        load = RequestRate(_decimal(w.request_rate) or 0.0)
    return Workload(
        Lengths.from_percentiles(w.input_tokens.p50, w.input_tokens.p95),
        Lengths.from_percentiles(w.output_tokens.p50, w.output_tokens.p95),
        load,
        _decimal(w.prefix_hit_rate) or 0.0,
    )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _decimal(text: str | None) -> float | None:
    return None if text is None else float(text)


@dataclass(frozen=True, slots=True)
class Arguments:
    """`runtime.extraArgs` sorted: what planning computes with, and what it can't."""

    overrides: EngineOverrides
    unmodelled: tuple[str, ...]


def split_arguments(arguments: tuple[str, ...]) -> Arguments:
    """Sort allow-listed arguments. Raises InvalidInput naming the argument and what would work."""
    values: dict[str, str] = {}
    unmodelled = []
    for argument in arguments:
        name = argument_name(argument)
        _check_allowed(argument, name)
        if name in MODELLED:
            values[name] = argument.partition("=")[2]
        else:
            unmodelled.append(argument)
    overrides = EngineOverrides(
        max_model_len=_integer(values, "max-model-len"),
        max_num_seqs=_integer(values, "max-num-seqs"),
        max_num_batched_tokens=_integer(values, "max-num-batched-tokens"),
        block_size=_integer(values, "block-size"),
        gpu_memory_utilization=_utilization(values),
        kv_cache_memory_bytes=_size(values, "kv-cache-memory-bytes"),
        enforce_eager=True if "enforce-eager" in values else None,
        enable_prefix_caching=_switch(values, "enable-prefix-caching"),
        async_scheduling=_switch(values, "async-scheduling"),
    )
    return Arguments(overrides, tuple(unmodelled))


def _check_allowed(argument: str, name: str) -> None:
    field = "spec.runtime.extraArgs"
    if not argument.startswith("--"):
        raise InvalidInput(f"{field}: {argument!r} must be one --name or --name=value", code="ArgumentRefused")
    if name in UNSUPPORTED_TOPOLOGY:
        raise InvalidInput(f"{field}: --{name} is not supported in v1alpha1; leave it out", code="UnsupportedTopology")
    if name not in ALLOWED:
        message = f"{field}: --{name} is not on the allow-list (what the plan decides itself is not an argument)"
        raise InvalidInput(message, code="ArgumentRefused")
    if name in SWITCHES and "=" in argument:
        message = f"{field}: {argument!r}: --{name} takes no value; write --{name}, or leave it out"
        raise InvalidInput(message, code="ArgumentRefused")


def _integer(values: dict[str, str], name: str) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise InvalidInput(f"spec.runtime.extraArgs: --{name}={text} must be a positive whole number")
    return int(text)


def _utilization(values: dict[str, str]) -> float | None:
    text = values.get("gpu-memory-utilization")
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise InvalidInput(f"spec.runtime.extraArgs: --gpu-memory-utilization={text} must be above 0 and at most 1")
    return value


def _size(values: dict[str, str], name: str) -> int | None:
    """Bytes, with vLLM's suffixes (`256M`, `20G`)."""
    text = values.get(name)
    if text is None:
        return None
    number, unit = (text[:-1], _SIZES[text[-1].upper()]) if text and text[-1].upper() in _SIZES else (text, 1)
    if not number.isascii() or not number.isdigit() or int(number) < 1:
        raise InvalidInput(f"spec.runtime.extraArgs: --{name}={text} must be a size like 20G or a number of bytes")
    return int(number) * unit


def _switch(values: dict[str, str], name: str) -> bool | None:
    if f"no-{name}" in values:
        return False
    return True if name in values else None
