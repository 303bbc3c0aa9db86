"""InferencePlan's spec: only what a human can know. Nothing here is defaulted into the stored object.

A default in a description is what an absent field means; it never reaches the stored object or the digest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from pydantic.config import JsonDict

from inferplan_operator.api.v1alpha1 import arguments
from inferplan_operator.api.v1alpha1.fields import (
    PATTERN_HELP,
    DataKey,
    Digest,
    DNSSubdomain,
    Duration,
    EngineName,
    Fraction,
    GPUName,
    Image,
    LabelValue,
    Line,
    ModelId,
    PositiveDecimal,
    PVCPath,
    Revision,
    Rule,
    SpecModel,
    cel_text,
)

_SET: JsonDict = {"x-kubernetes-list-type": "set"}


class SecretKeyRef(SpecModel):
    """A key of a Secret in the plan's namespace."""

    name: DNSSubdomain = Field(description="Name of the Secret, in the plan's namespace.")
    key: DataKey = Field(default="token", description="Key in the Secret that holds the token. Default: token.")


class PVCSource(SpecModel):
    """A directory on a volume claim."""

    claim_name: DNSSubdomain = Field(description="Name of the PersistentVolumeClaim, in the plan's namespace.")
    path: PVCPath | None = Field(
        default=None, description="Directory of the checkpoint inside the volume. Default: the volume's root."
    )


class ModelSpec(SpecModel):
    """Which model is served and where its weights come from."""

    id: ModelId = Field(
        description="Model id on the hub, like Qwen/Qwen3-8B. With source pvc it names the architecture."
    )
    revision: Revision | None = Field(
        default=None,
        description="Commit SHA, branch or tag. Resolved to a commit SHA in status.recommendation.decision. "
        "Default: the head of the main branch at planning time.",
    )
    source: Literal["hub", "pvc", "oci"] = Field(
        default="hub",
        description="Where the pods read the weights from: hub (default) or pvc. oci is refused in v1alpha1.",
    )
    pvc: PVCSource | None = Field(default=None, description="The volume that holds the weights; with source pvc only.")
    token_secret_ref: SecretKeyRef | None = Field(
        default=None, description="Hub token; needed only where the repository is gated or private."
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.source) && self.source == 'pvc') == has(self.pvc)",
            lambda self: (self.source == "pvc") == (self.pvc is not None),
            "source pvc and the field pvc belong together: set both (source: pvc, pvc.claimName) or neither",
        ),
        Rule(
            "!has(self.source) || self.source != 'oci'",
            lambda self: self.source != "oci",
            "UnsupportedModelSource: source oci is not in v1alpha1; use hub, or put the checkpoint on a volume (pvc)",
        ),
    )


Tokens = Annotated[int, Field(ge=1, le=10_000_000)]


class TokenLengths(SpecModel):
    """A distribution of token counts by two percentiles, taken as log-normal."""

    p50: Tokens = Field(description="Half of the requests have at most so many tokens.")
    p95: Tokens = Field(description="95 of 100 requests have at most so many tokens; at least p50.")

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.p50 <= self.p95",
            lambda self: self.p50 <= self.p95,
            "p50 = {p50} is above p95 = {p95}; the 95th percentile can't be below the median: lower p50 or raise p95",
        ),
    )


class TraceRef(SpecModel):
    """A key of a ConfigMap with recorded traffic."""

    name: DNSSubdomain = Field(description="Name of the ConfigMap, in the plan's namespace.")
    key: DataKey = Field(
        default="trace.jsonl",
        description="Key that holds the trace: JSON lines with prompt length, output length and arrival time. "
        "Default: trace.jsonl.",
    )


class WorkloadSpec(SpecModel):
    """The traffic to plan for: a distribution, not a mean."""

    input_tokens: TokenLengths | None = Field(default=None, description="Prompt lengths in tokens.")
    output_tokens: TokenLengths | None = Field(default=None, description="Answer lengths in tokens.")
    trace_ref: TraceRef | None = Field(
        default=None,
        description="Recorded traffic, instead of inputTokens and outputTokens. Refused in this version of the "
        "operator, which can't read traces yet.",
    )
    request_rate: PositiveDecimal | None = Field(
        default=None,
        description='Requests per second over all replicas (Poisson arrivals), a decimal in quotes like "1.5". '
        "Exactly one of requestRate and concurrency.",
    )
    concurrency: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None,
        description="Requests in flight at any time over all replicas (a new one starts when one ends). "
        "Exactly one of requestRate and concurrency.",
    )
    prefix_hit_rate: Fraction | None = Field(
        default=None,
        description='Fraction of prompt tokens that the prefix cache finds, like "0.3". Default: 0.',
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.requestRate) != has(self.concurrency)",
            lambda self: (self.request_rate is None) != (self.concurrency is None),
            "exactly one of requestRate (requests per second) and concurrency (requests in flight) is needed",
        ),
        Rule(
            "has(self.traceRef) || (has(self.inputTokens) && has(self.outputTokens))",
            lambda self: self.trace_ref is not None or None not in {self.input_tokens, self.output_tokens},
            "token lengths are needed: inputTokens and outputTokens, each with p50 and p95",
        ),
        Rule(
            "!has(self.traceRef)",
            lambda self: self.trace_ref is None,
            "UnsupportedTrace: traceRef can't be read yet; give inputTokens and outputTokens, each with p50 and p95",
        ),
    )


Milliseconds = Annotated[int, Field(ge=1, le=86_400_000)]


class ObjectivesSpec(SpecModel):
    """What must hold, and what to minimise among the choices for which it does."""

    ttft_p95_ms: Milliseconds | None = Field(
        default=None, description="Time to first token, 95th percentile over requests, at most so many milliseconds."
    )
    tpot_p95_ms: Milliseconds | None = Field(
        default=None,
        description="Time per output token after the first, 95th percentile over requests, in milliseconds.",
    )
    e2e_p95_ms: Milliseconds | None = Field(
        default=None,
        alias="e2eP95Ms",
        description="End-to-end time of a request, 95th percentile over requests, in milliseconds.",
    )
    minimise: Literal["Cost", "Latency", "GPUs"] = Field(
        default="Cost", description="What the recommendation minimises: Cost (default), Latency or GPUs."
    )
    judge_by: Literal["Pessimistic", "Point"] = Field(
        default="Pessimistic",
        description="An objective holds when the pessimistic end of the prediction's interval does (Pessimistic, "
        "default) or when the value itself does (Point).",
    )


class ConstraintsSpec(SpecModel):
    """Hard limits. An absent field limits nothing."""

    gpu_types: Annotated[tuple[GPUName, ...], Field(max_length=32)] = Field(
        default=(),
        description="GPU types that may be used, by catalogue name or alias. Default: whatever the cluster has.",
        json_schema_extra=_SET,
    )
    max_gpus: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, alias="maxGPUs", description="At most so many GPUs over all replicas."
    )
    max_hourly_cost: PositiveDecimal | None = Field(
        default=None, description='At most so many USD per hour over all replicas, a decimal in quotes like "12.50".'
    )
    quantization: Annotated[tuple[EngineName, ...], Field(max_length=16)] = Field(
        default=(),
        description="Weight formats that may be used, like bf16, fp8, awq. Default: any.",
        json_schema_extra=_SET,
    )
    kv_cache_dtypes: Annotated[tuple[EngineName, ...], Field(max_length=16)] = Field(
        default=(),
        description="KV-cache formats that may be used, like auto, fp8. Default: auto only (a narrower one may cost "
        "accuracy).",
        json_schema_extra=_SET,
    )
    max_tensor_parallel: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None, description="At most so many GPUs share one layer (--tensor-parallel-size)."
    )
    min_context_length: Annotated[int, Field(ge=1, le=100_000_000)] | None = Field(
        default=None,
        description="A request may be so long, prompt and answer together, in tokens. "
        "Default: what the workload's token lengths need.",
    )
    min_quality: Fraction | None = Field(
        default=None,
        description="Fraction of the unquantized model's accuracy that a weight format must keep by published "
        'evaluations, like "0.98". Refused in this version of the operator, which chooses no weight format.',
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.minQuality)",
            lambda self: self.min_quality is None,
            "UnsupportedMinQuality: minQuality can't be judged yet: a checkpoint is served as it is, no weight format "
            "is chosen; leave it out, and name the checkpoint you want in model.id",
        ),
    )


# Names through which a value would change what code runs, or put a token into a spec that many can read.
REFUSED_ENV = (
    "API_KEY",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PATH",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "VLLM_API_KEY",
    "VLLM_PLUGINS",
)


class EnvVar(SpecModel):
    """An environment variable of the engine's container; a plain value, never a secret."""

    name: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        description="Name of the variable, like VLLM_LOGGING_LEVEL."
    )
    value: Annotated[str, Field(max_length=1024)] = Field(description="Value of the variable, as text.")

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.name.matches('^[A-Za-z_][A-Za-z0-9_]*$')",
            lambda self: self.name.isascii() and self.name.isidentifier(),
            "{name} is no name of an environment variable; use letters, digits and '_', not starting with a digit",
        ),
        Rule(
            f"!(self.name in {list(REFUSED_ENV)!r})",
            lambda self: self.name not in REFUSED_ENV,
            "{name} may not be set here: tokens belong in a Secret (model.tokenSecretRef), and code paths in the image",
        ),
    )


# A pattern of what may be passed, and of what is recognised only to be refused by name (a rule of RuntimeSpec).
_RECOGNISED = arguments.ALLOWED | arguments.UNSUPPORTED_TOPOLOGY
ARGUMENT = r"^--(" + "|".join(sorted(_RECOGNISED)) + r")(=[^\x00-\x1f\x7f]*)?$"
TOPOLOGY_ARGUMENT = r"^--(" + "|".join(sorted(arguments.UNSUPPORTED_TOPOLOGY)) + r")(=|$)"
PATTERN_HELP[ARGUMENT] = (
    "is not on the list of arguments that a plan may pass (docs/api.md has it); write each as one item like "
    "--max-model-len=8192, and what the plan decides itself by its own field"
)
Argument = Annotated[str, Field(pattern=ARGUMENT, max_length=1024)]


class RuntimeSpec(SpecModel):
    """How the engine is run, where a person wants to say so."""

    image: Image | None = Field(
        default=None, description="Engine image, best with its digest. Default: the operator's configured image."
    )
    extra_args: Annotated[tuple[Argument, ...], Field(max_length=32)] = Field(
        default=(),
        description="Engine arguments, each one item like --max-model-len=8192, from a closed list. Those that "
        "planning can't compute with are named in status.recommendation.unmodelled.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    env: Annotated[tuple[EnvVar, ...], Field(max_length=32)] = Field(
        default=(),
        description="Environment variables of the engine's container; plain values, never secrets.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"!has(self.extraArgs) || !self.extraArgs.exists(a, a.matches({cel_text(TOPOLOGY_ARGUMENT)}))",
            lambda self: not any(re.match(TOPOLOGY_ARGUMENT, argument) for argument in self.extra_args),
            "UnsupportedTopology: extraArgs splits a replica over pods or prefill from decode, which v1alpha1 can't "
            "plan; leave the argument out",
        ),
    )


Replicas = Annotated[int, Field(ge=0, le=10_000)]


class ScalingSpec(SpecModel):
    """Bounds and metric of an autoscaler."""

    min: Replicas = Field(description="At least so many replicas.")
    max: Replicas = Field(description="At most so many replicas; at least min.")
    metric: Literal["RunningRequests", "WaitingRequests", "KVCacheUsage"] = Field(
        default="WaitingRequests",
        description="Metric of the engine that is scaled on: RunningRequests, WaitingRequests (default), KVCacheUsage.",
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.min <= self.max",
            lambda self: self.min <= self.max,
            "min = {min} is above max = {max}; lower min or raise max",
        ),
    )


class AutoscalingSpec(SpecModel):
    """Who owns the number of replicas."""

    mode: Literal["none", "hpa", "keda"] = Field(
        default="none",
        description="none (default): the recommendation owns the number of replicas. hpa and keda are refused in this "
        "version of the operator, which can't plan for them yet.",
    )
    hpa: ScalingSpec | None = Field(default=None, description="HorizontalPodAutoscaler; with mode hpa only.")
    keda: ScalingSpec | None = Field(default=None, description="KEDA ScaledObject; with mode keda only.")

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(!has(self.mode) || self.mode == 'none') && !has(self.hpa) && !has(self.keda)",
            lambda self: self.mode == "none" and self.hpa is None and self.keda is None,
            "UnsupportedAutoscaling: hpa and keda can't be planned for yet; leave autoscaling out",
        ),
    )


class ReplanSpec(SpecModel):
    """When a new recommendation is made; none is ever deployed by itself."""

    policy: Literal["OnSpecChange", "OnInputsChange", "Manual"] = Field(
        default="OnInputsChange",
        description="OnInputsChange (default): also when catalogue, prices, profiles or inventory change. "
        "OnSpecChange: when the plan's intent changes. Manual: when nonce changes.",
    )
    nonce: Annotated[str, Field(max_length=64)] | None = Field(
        default=None, description="Any text; a change asks for a new recommendation now."
    )


Percent = Annotated[int, Field(ge=1, le=1000)]


class DriftSpec(SpecModel):
    """When measured figures count as different from predicted ones."""

    window: Duration = Field(default="30m", description="Length of the window that is compared. Default: 30m.")
    min_samples: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=200, description="With fewer requests in the window there is no verdict. Default: 200."
    )
    ttft_pct: Percent = Field(default=25, description="Tolerated difference of TTFT in percent. Default: 25.")
    tpot_pct: Percent = Field(default=15, description="Tolerated difference of TPOT in percent. Default: 15.")
    kv_pct: Percent = Field(default=5, description="Tolerated difference of KV-cache tokens in percent. Default: 5.")
    cost_pct: Percent = Field(
        default=20, description="Tolerated difference of the cost per million tokens in percent. Default: 20."
    )


class CostAllocationSpec(SpecModel):
    """Whom the cost is shown for."""

    team: LabelValue | None = Field(default=None, description="Team that pays.")
    project: LabelValue | None = Field(default=None, description="Project that the cost belongs to.")
    cost_center: LabelValue | None = Field(default=None, description="Cost centre as accounting knows it.")


class ApprovalSpec(SpecModel):
    """The only switch that lets pods exist. Setting it needs the verb approve on the plan."""

    digest: Digest | None = Field(
        default=None,
        description="Digest of the recommendation that may run, as offered in status. Clearing it freezes what runs.",
    )
    pin: bool = Field(
        default=False,
        description="Let the digest run although the intent has changed since it was offered. Default: false.",
    )
    reason: Line | None = Field(default=None, description="Why this was approved, for the record.")

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!(has(self.pin) && self.pin) || has(self.digest)",
            lambda self: not self.pin or self.digest is not None,
            "pin = true without a digest pins nothing; set approval.digest too",
        ),
    )


class InferencePlanSpec(SpecModel):
    """What is asked for: model, traffic, objectives, limits, and the approval."""

    model: ModelSpec = Field(description="Which model is served.")
    workload: WorkloadSpec = Field(description="The traffic to plan for.")
    objectives: ObjectivesSpec = Field(
        default_factory=ObjectivesSpec,
        description="What must hold, and what to minimise. Default: the cheapest that fits.",
    )
    constraints: ConstraintsSpec = Field(default_factory=ConstraintsSpec, description="Hard limits. Default: none.")
    runtime: RuntimeSpec = Field(
        default_factory=RuntimeSpec, description="How the engine is run. Default: by the operator."
    )
    autoscaling: AutoscalingSpec = Field(
        default_factory=AutoscalingSpec, description="Who owns the number of replicas. Default: the recommendation."
    )
    replan: ReplanSpec = Field(default_factory=ReplanSpec, description="When a new recommendation is made.")
    drift: DriftSpec = Field(default_factory=DriftSpec, description="When measured figures count as different.")
    cost_allocation: CostAllocationSpec = Field(
        default_factory=CostAllocationSpec, description="Whom the cost is shown for: team, project, cost centre."
    )
    topology: Annotated[str, Field(max_length=64)] | None = Field(
        default=None,
        description="How replicas are built. v1alpha1 knows only Aggregated (prefill and decode in the same engine, "
        "every replica alike), which is also the default; anything else is refused as UnsupportedTopology.",
    )
    suspend: bool = Field(
        default=False, description="Nothing new is deployed while true; what runs keeps running. Default: false."
    )
    revision_history_limit: Annotated[int, Field(ge=0, le=10)] = Field(
        default=10, description="So many earlier recommendations stay available for a rollback. Default: 10."
    )
    approval: ApprovalSpec | None = Field(
        default=None, description="The only switch that lets pods exist; setting it needs the verb approve."
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.topology) || self.topology == 'Aggregated'",
            lambda self: self.topology in {None, "Aggregated"},
            "UnsupportedTopology: topology {topology} is not in v1alpha1; leave it out (prefill/decode disaggregation "
            "can't be planned yet, a canary is the job of your rollout tool or gateway)",
        ),
    )


# Every field of the spec stands in exactly one of the two, by its path. What is not intent changes no digest.
INTENT_FIELDS = frozenset(
    {
        "model",
        "workload",
        "objectives",
        "constraints",
        "runtime",
        "autoscaling",
        "replan.policy",
        "costAllocation",
        "topology",
    }
)
EXEMPT_FIELDS = frozenset({"approval", "suspend", "replan.nonce", "revisionHistoryLimit", "drift"})

_NOT_INTENT: Mapping[str, bool | dict[str, bool]] = {
    "approval": True,
    "suspend": True,
    "replan": {"nonce": True},
    "revision_history_limit": True,
    "drift": True,
}


def spec_dump(spec: InferencePlanSpec) -> dict[str, Any]:
    """The spec as JSON-able values under the API's names, without absent fields.

    A field that is written out with its default's value counts as absent, and so does an empty section: both mean the
    same, and a field that a later version adds changes no digest.
    """
    return _dump(spec, exclude={})


def intent_of(spec: InferencePlanSpec) -> dict[str, Any]:
    """The part of `spec_dump` that a recommendation answers and a digest binds."""
    return _dump(spec, exclude=dict(_NOT_INTENT))


def _dump(spec: InferencePlanSpec, exclude: dict[str, bool | dict[str, bool]]) -> dict[str, Any]:
    dumped: dict[str, Any] = spec.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude_defaults=True, exclude=exclude
    )
    return {name: value for name, value in dumped.items() if value != {}}
