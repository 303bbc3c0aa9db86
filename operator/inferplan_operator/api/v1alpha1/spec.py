"""InferencePlan spec: only what a human can know, and the one switch that lets pods exist (`approval`)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from inferplan_operator.api.v1alpha1.base import (
    Digest,
    Fraction,
    Milliseconds,
    Money,
    Rate,
    Rule,
    ShortText,
    SpecModel,
    Tokens,
)

LabelValue = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$", max_length=63)]
GPUName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._()-]*$", max_length=64)]
ObjectName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]


class SecretKeyRef(SpecModel):
    """A key of a Secret in the plan's namespace."""

    name: ObjectName = Field(description="Name of the Secret, in the plan's own namespace.")
    key: str = Field(
        default="token",
        pattern=r"^[-._a-zA-Z0-9]+$",
        max_length=253,
        description="Key in the Secret that holds the token; `token` when left out.",
    )


class PVCSource(SpecModel):
    """A model that lies on a volume."""

    claim_name: ObjectName = Field(description="PersistentVolumeClaim that holds the model.")
    path: str = Field(
        pattern=r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$",
        max_length=512,
        description="Directory of the model inside the volume, without a leading slash.",
    )


class Model(SpecModel):
    """Which model is served."""

    cel_rules: ClassVar = (
        Rule(
            "!self.id.contains('..')",
            "spec.model.id must be a hub id like Qwen/Qwen3-8B; '..' is not allowed in it",
        ),
        Rule(
            "self.source != 'pvc' || has(self.pvc)",
            "spec.model.pvc {claimName, path} is needed where spec.model.source is pvc",
        ),
        Rule(
            "self.source != 'oci'",
            "spec.model.source oci is not supported in v1alpha1 (UnsupportedModelSource); use hub or pvc",
        ),
    )

    id: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$",
        max_length=193,
        description="Model id on the hub (`Qwen/Qwen3-8B`). The planner reads its config.json, never its weights.",
    )
    revision: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$",
        max_length=128,
        description="Branch, tag or commit; resolved to a commit SHA in the recommendation. Left out: main.",
    )
    source: Literal["hub", "pvc", "oci"] = Field(
        default="hub", description="Where the pods read the weights: the hub, or a PersistentVolumeClaim."
    )
    pvc: PVCSource | None = Field(default=None, description="The volume, where source is pvc.")
    token_secret_ref: SecretKeyRef | None = Field(
        default=None, description="Secret with a hub token; needed only where the repository is gated or private."
    )


class Lengths(SpecModel):
    """A distribution of token counts by two percentiles (log-normal between and beyond them)."""

    cel_rules: ClassVar = (Rule("self.p50 <= self.p95", "token lengths need p50 <= p95"),)

    p50: Tokens = Field(description="Median, in tokens.")
    p95: Tokens = Field(description="95th percentile, in tokens; at least p50.")


class TraceRef(SpecModel):
    """A recorded trace: JSON lines of prompt and answer lengths and arrival times."""

    name: ObjectName = Field(description="ConfigMap in the plan's namespace.")
    key: str = Field(default="trace.jsonl", pattern=r"^[-._a-zA-Z0-9]+$", max_length=253, description="Key in it.")


class Workload(SpecModel):
    """What the users send: token lengths and load."""

    cel_rules: ClassVar = (
        Rule(
            "has(self.requestRate) != has(self.concurrency)",
            "spec.workload needs exactly one of requestRate (requests per second) or concurrency (requests in flight)",
        ),
        Rule(
            "has(self.traceRef) != (has(self.inputTokens) || has(self.outputTokens))",
            "spec.workload needs either inputTokens and outputTokens, or traceRef",
        ),
        Rule(
            "has(self.inputTokens) == has(self.outputTokens)",
            "spec.workload.inputTokens and outputTokens go together",
        ),
        Rule(
            "!has(self.traceRef)",
            "spec.workload.traceRef is not supported yet (UnsupportedTrace); give inputTokens and outputTokens",
        ),
        Rule(
            "!has(self.requestRate) || double(self.requestRate) > 0.0",
            "spec.workload.requestRate must be above 0 requests per second",
        ),
    )

    input_tokens: Lengths | None = Field(default=None, description="Prompt lengths.")
    output_tokens: Lengths | None = Field(default=None, description="Answer lengths.")
    trace_ref: TraceRef | None = Field(default=None, description="A recorded trace instead of lengths.")
    request_rate: Rate | None = Field(
        default=None, description='Arrivals in requests per second, a decimal string ("1.5"), over all replicas.'
    )
    concurrency: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="Requests in flight at once, over all replicas."
    )
    prefix_hit_rate: Fraction | None = Field(
        default=None, description='Share of prompt tokens found in the prefix cache, a decimal string ("0.3").'
    )


class Objectives(SpecModel):
    """What must hold, and what to minimise among all that does."""

    ttft_p95_ms: Milliseconds | None = Field(
        default=None, alias="ttftP95Ms", description="95th percentile of the time to first token, at most, in ms."
    )
    tpot_p95_ms: Milliseconds | None = Field(
        default=None, alias="tpotP95Ms", description="95th percentile of the time per output token, at most, in ms."
    )
    e2e_p95_ms: Milliseconds | None = Field(
        default=None, alias="e2eP95Ms", description="95th percentile of a whole request, at most, in ms."
    )
    minimise: Literal["Cost", "Latency", "GPUs"] = Field(
        default="Cost", description="What is minimised among the configurations that hold all limits."
    )
    judge_by: Literal["Pessimistic", "Point"] = Field(
        default="Pessimistic",
        description="Whether a limit is compared with the pessimistic end of a prediction's interval or its value.",
    )


class Constraints(SpecModel):
    """Hard limits; what is left out is not limited."""

    gpu_types: Annotated[list[GPUName], Field(max_length=32)] | None = Field(
        default=None,
        alias="gpuTypes",
        description="GPU types to choose from (catalogue names or aliases). Left out: what the cluster has.",
    )
    max_gpus: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        default=None, alias="maxGPUs", description="GPUs at most, over all replicas."
    )
    max_hourly_cost: Money | None = Field(
        default=None, description='US dollars per hour at most, a decimal string ("12.50").'
    )
    quantization: Annotated[list[ShortText], Field(max_length=16)] | None = Field(
        default=None, description="Weight quantizations allowed (`bf16`, `fp8`, `awq`, …). Left out: any."
    )
    kv_cache_dtypes: Annotated[list[ShortText], Field(max_length=8)] | None = Field(
        default=None,
        description="KV-cache dtypes allowed (`auto`, `fp8`). Left out: `auto` only (a narrower one costs accuracy).",
    )
    max_tensor_parallel: Annotated[int, Field(ge=1, le=64)] | None = Field(
        default=None, description="Tensor parallel size at most."
    )
    min_context_length: Tokens | None = Field(
        default=None, description="Tokens one request must be able to hold. Left out: what 99.9 % of requests need."
    )
    min_quality: Fraction | None = Field(
        default=None,
        description="Accuracy recovered against the unquantized model, at least. Checkpoints are served as they are.",
    )


class EnvVar(SpecModel):
    """An environment variable of the serving container."""

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128, description="Name.")
    value: str = Field(max_length=4096, description="Value, literally.")


class Runtime(SpecModel):
    """How vLLM runs, where the user knows better than the planner."""

    image: str | None = Field(
        default=None,
        pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._:/@-]*$",
        max_length=512,
        description="Container image; with a digest (`…@sha256:…`) it is pinned. Left out: the operator's default.",
    )
    extra_args: (
        Annotated[list[Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$", max_length=1024)]], Field(max_length=64)]
        | None
    ) = Field(
        default=None,
        description="Arguments of `vllm serve` (allow-listed). What the planner can't model is listed in the status.",
    )
    env: Annotated[list[EnvVar], Field(max_length=64)] | None = Field(
        default=None, description="Environment of the serving container."
    )


class HPA(SpecModel):
    """A HorizontalPodAutoscaler on a vLLM metric."""

    min: Annotated[int, Field(ge=1, le=1024)] = Field(description="Replicas at least.")
    max: Annotated[int, Field(ge=1, le=1024)] = Field(description="Replicas at most.")
    metric: ShortText = Field(description="Metric to scale on.")


class Autoscaling(SpecModel):
    """Who owns the number of replicas."""

    cel_rules: ClassVar = (
        Rule(
            "self.mode == 'none'",
            "spec.autoscaling.mode other than none is not supported yet (UnsupportedAutoscaling)",
        ),
    )

    mode: Literal["none", "hpa", "keda"] = Field(default="none", description="none: the decision's replicas.")
    hpa: HPA | None = Field(default=None, description="Bounds and metric, where mode is hpa.")


class Replan(SpecModel):
    """When a new recommendation is made."""

    policy: Literal["OnSpecChange", "OnInputsChange", "Manual"] = Field(
        default="OnInputsChange",
        description="On a changed spec only, also on changed inputs (inventory, prices, catalogue), or by nonce only.",
    )
    nonce: ShortText | None = Field(default=None, description="Change it to ask for a new recommendation.")


class DriftPolicy(SpecModel):
    """When measured leaves predicted."""

    window: Annotated[str, Field(pattern=r"^[0-9]{1,4}(s|m|h)$", max_length=8)] | None = Field(
        default=None, description="How far back is measured (`15m`)."
    )
    min_samples: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="Requests at least before anything is said."
    )
    ttft_pct: Annotated[int, Field(ge=1, le=1000)] | None = Field(default=None, description="Tolerance of TTFT, %.")
    tpot_pct: Annotated[int, Field(ge=1, le=1000)] | None = Field(default=None, description="Tolerance of TPOT, %.")
    kv_pct: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None, description="Tolerance of the KV capacity, %."
    )
    cost_pct: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None, description="Tolerance of $ per million tokens, %."
    )


class CostAllocation(SpecModel):
    """Labels that follow to every child object."""

    team: LabelValue | None = Field(default=None, description="Team that pays.")
    project: LabelValue | None = Field(default=None, description="Project it is for.")
    cost_center: LabelValue | None = Field(default=None, description="Cost centre.")


class Approval(SpecModel):
    """The only switch that lets pods exist: the digest a human looked at."""

    digest: Digest = Field(description="Digest of the recommendation that may run (`status.recommendation.digest`).")
    pin: bool | None = Field(
        default=None, description="Keep running this digest although the spec has changed since it was offered."
    )
    reason: ShortText | None = Field(default=None, description="Why, for the record.")


class InferencePlanSpec(SpecModel):
    """What to serve, for whom, within which limits; and the approval."""

    cel_rules: ClassVar = (
        Rule(
            "!has(self.topology) || self.topology == 'aggregated'",
            "UnsupportedTopology: prefill/decode disaggregation is not supported in v1alpha1; leave spec.topology out",
        ),
    )

    model: Model = Field(description="Which model is served.")
    workload: Workload = Field(description="What the users send.")
    objectives: Objectives = Field(default_factory=Objectives, description="What must hold, and what to minimise.")
    constraints: Constraints = Field(default_factory=Constraints, description="Hard limits.")
    runtime: Runtime = Field(default_factory=Runtime, description="How vLLM runs.")
    autoscaling: Autoscaling = Field(default_factory=Autoscaling, description="Who owns the number of replicas.")
    topology: ShortText | None = Field(
        default=None, description="Only `aggregated` (prefill and decode in the same pods) is supported."
    )
    replan: Replan = Field(default_factory=Replan, description="When a new recommendation is made.")
    drift: DriftPolicy = Field(default_factory=DriftPolicy, description="When measured leaves predicted.")
    cost_allocation: CostAllocation = Field(default_factory=CostAllocation, description="Who pays.")
    suspend: bool = Field(default=False, description="Change nothing in the cluster while true.")
    revision_history_limit: Annotated[int, Field(ge=0, le=10)] = Field(
        default=5, description="Earlier recommendations kept for a rollback."
    )
    approval: Approval | None = Field(default=None, description="What may run. Absent: nothing is deployed.")


# Every spec field is in exactly one of these. `replan` is split: its nonce is exempt, its policy is intent.
INTENT_FIELDS = (
    "model",
    "workload",
    "objectives",
    "constraints",
    "runtime",
    "autoscaling",
    "topology",
    "replan",
    "cost_allocation",
)
EXEMPT_FIELDS = ("approval", "suspend", "revision_history_limit", "drift")


def intent_of(spec: InferencePlanSpec) -> dict[str, object]:
    """What a digest covers of a spec, by wire name; defaults are left out, so that spelling them out is no change."""
    dumped: dict[str, object] = spec.model_dump(
        mode="json",
        by_alias=True,
        exclude_none=True,
        exclude_defaults=True,
        exclude={**dict.fromkeys(EXEMPT_FIELDS, True), "replan": {"nonce"}},
    )
    return {key: value for key, value in dumped.items() if value != {}}
