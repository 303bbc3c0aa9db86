"""InferencePlan's status: what is offered now, what runs, what is measured, and whether all is well.

Bounded in size everywhere. Short texts for the columns of `kubectl get` stand in `display`, because a column can only
point at a field.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inferplan_operator.api.v1alpha1.fields import Digest, StatusModel

ShortText = Annotated[str, Field(max_length=256)]
LongText = Annotated[str, Field(max_length=4096)]
Number = Annotated[str, Field(max_length=32)]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]


class Prediction(StatusModel):
    """A displayed number with its 90 % interval and what it rests on."""

    value: Number | None = Field(default=None, description="The value; absent when unknown.")
    low: Number | None = Field(default=None, description="Low end of the 90 % interval.")
    high: Number | None = Field(default=None, description="High end of the 90 % interval.")
    unit: ShortText = Field(default="", description="Unit (`ms`, `tok/s`, `GiB`, `USD/h`, …).")
    basis: Annotated[str, Field(max_length=32)] = Field(
        default="", description="SpecSheet, Profiled, Measured or Extrapolated."
    )


class Decision(StatusModel):
    """What would run, in vLLM's terms."""

    gpu_type: ShortText = Field(description="GPU type, the catalogue's name.")
    tensor_parallel: Count = Field(description="--tensor-parallel-size")
    pipeline_parallel: Count = Field(description="--pipeline-parallel-size")
    data_parallel: Count = Field(description="--data-parallel-size")
    replicas: Count = Field(description="Pods of the Deployment.")
    quantization: ShortText = Field(description="How the weights are stored.")
    kv_cache_dtype: ShortText = Field(description="--kv-cache-dtype")
    max_model_len: Count = Field(description="--max-model-len")
    max_num_seqs: Count = Field(description="--max-num-seqs")
    max_num_batched_tokens: Count = Field(description="--max-num-batched-tokens")
    gpu_memory_utilization: Number = Field(description="--gpu-memory-utilization")
    enable_prefix_caching: bool = Field(description="--enable-prefix-caching")
    enforce_eager: bool = Field(description="--enforce-eager")
    speculative: ShortText | None = Field(default=None, description="Speculative decoding, where it is used.")
    image: Annotated[str, Field(max_length=512)] = Field(description="Container image.")
    model_revision: ShortText = Field(default="", description="Commit of the model; empty when not pinned.")


class Predicted(StatusModel):
    """All displayed predictions."""

    ttft: Prediction | None = Field(default=None, description="Time to first token, 95th percentile.")
    tpot: Prediction | None = Field(default=None, description="Time per output token, 95th percentile.")
    e2e: Prediction | None = Field(default=None, alias="e2e", description="A whole request, 95th percentile.")
    output_tokens_per_second: Prediction | None = Field(default=None, description="Output tokens/s, all replicas.")
    kv_cache_tokens: Prediction | None = Field(default=None, description="KV-cache tokens that vLLM will log.")
    max_concurrency: Prediction | None = Field(default=None, description="Full-length requests at once, per replica.")
    weights_gib: Prediction | None = Field(default=None, alias="weightsGiB", description="Weights per GPU.")
    kv_needed_gib: Prediction | None = Field(
        default=None, alias="kvNeededGiB", description="KV cache that this workload needs, per GPU."
    )
    vram_reserved_gib: Prediction | None = Field(
        default=None, alias="vramReservedGiB", description="Memory vLLM will take, per GPU, needed or not."
    )
    usd_per_hour: Prediction | None = Field(default=None, description="Cost of all replicas.")
    usd_per_million_input_tokens: Prediction | None = Field(default=None, description="At the stated load.")
    usd_per_million_output_tokens: Prediction | None = Field(default=None, description="At the stated load.")


class Notice(StatusModel):
    """A reason or warning: stable code and a sentence."""

    code: Annotated[str, Field(max_length=64)] = Field(description="Stable code.")
    message: Annotated[str, Field(max_length=1024)] = Field(description="Sentence with the deciding number.")


Notices = Annotated[list[Notice], Field(max_length=16)]


class InputsRef(StatusModel):
    """What the recommendation rests on besides the spec."""

    planner_version: ShortText = Field(default="", description="Planner version.")
    catalog_version: ShortText = Field(default="", description="GPU catalogue version.")
    price_date: ShortText = Field(default="", description="Date of the price list.")
    profile_ids: Annotated[list[ShortText], Field(max_length=64)] = Field(
        default=[], description="Calibrations that were used."
    )
    inventory_hash: ShortText = Field(
        default="", description="Hash of the published inputs (ConfigMap inferplan-inputs)."
    )


class Recommendation(StatusModel):
    """What is offered now."""

    digest: Digest = Field(description="What an approval names.")
    manifests_digest: Digest = Field(description="Of the rendered manifests alone.")
    artifact_ref: ShortText = Field(description="ConfigMap with the whole recommendation.")
    decision: Decision = Field(description="What would run.")
    predicted: Predicted = Field(description="What it would do.")
    reasons: Notices = Field(default=[], description="Why this one.")
    changes: Annotated[list[Annotated[str, Field(max_length=512)]], Field(max_length=32)] = Field(
        default=[], description="Against what is deployed."
    )
    warnings: Notices = Field(default=[], description="What to know before approving.")
    unmodelled: Annotated[list[Annotated[str, Field(max_length=1024)]], Field(max_length=64)] = Field(
        default=[], description="Arguments the predictions don't account for."
    )
    inputs: InputsRef = Field(default_factory=InputsRef, description="What it rests on.")


class Alternative(StatusModel):
    """A configuration that lost."""

    summary: ShortText = Field(description="In one line.")
    digest: Annotated[str, Field(max_length=71)] = Field(default="", description="Its digest; empty: not on offer.")
    why_not: Annotated[str, Field(max_length=1024)] = Field(description="Why it lost, with the deciding number.")


class Deployed(StatusModel):
    """What runs."""

    digest: Digest = Field(description="Of the approved recommendation that runs.")
    since: ShortText = Field(default="", description="When it was applied.")
    artifact_ref: ShortText = Field(default="", description="ConfigMap with the whole recommendation.")


class MeasuredWorkload(StatusModel):
    """The traffic that was seen."""

    input_tokens_mean: Number | None = Field(default=None, description="Mean prompt length in tokens.")
    output_tokens_mean: Number | None = Field(default=None, description="Mean answer length in tokens.")
    request_rate: Number | None = Field(default=None, description="Requests per second over all replicas.")
    concurrency: Number | None = Field(default=None, description="Mean number of running requests.")
    prefix_hit_rate: Number | None = Field(default=None, description="Share of prompt tokens found in the cache.")


class Measured(StatusModel):
    """What the running engine reports, over the window of spec.drift."""

    at: ShortText = Field(default="", description="End of the window (RFC 3339).")
    samples: Count = Field(default=0, description="Requests in the window.")
    ttft: Number | None = Field(default=None, description="Time to first token, 95th percentile, in ms.")
    tpot: Number | None = Field(default=None, description="Time per output token, 95th percentile, in ms.")
    e2e: Number | None = Field(default=None, alias="e2e", description="A whole request, 95th percentile, in ms.")
    output_tokens_per_second: Number | None = Field(default=None, description="Output tokens/s, all replicas.")
    kv_cache_tokens: Number | None = Field(default=None, description="KV-cache tokens of one replica.")
    usd_per_million_output_tokens: Number | None = Field(default=None, description="At the measured load.")
    workload: MeasuredWorkload | None = Field(default=None, description="The traffic that was seen.")


class Rejected(StatusModel):
    """How many candidates a reason ruled out."""

    code: Annotated[str, Field(max_length=64)] = Field(description="Stable code of the reason.")
    count: Count = Field(description="Candidates.")


class Search(StatusModel):
    """What was searched, and where nothing fits, what would work."""

    candidates: Count = Field(default=0, description="Configurations looked at.")
    rejected: Annotated[list[Rejected], Field(max_length=32)] = Field(default=[], description="What ruled some out.")
    nearest: Annotated[list[Notice], Field(max_length=8)] = Field(
        default=[], description="Nothing fits: the smallest changes that would work."
    )


class Drift(StatusModel):
    """Measured against predicted."""

    verdict: Literal["None", "Workload", "Model", "Both", "Insufficient"] = Field(
        default="Insufficient", description="What has moved."
    )
    detail: LongText = Field(default="", description="With numbers.")


class Display(StatusModel):
    """The columns of `kubectl get ipl`, as short text."""

    gpus: ShortText = Field(default="", description="GPUs of one replica, like 2×H100-80G TP2 FP8.")
    replicas: ShortText = Field(default="", description="Ready and wanted replicas, like 1/2, or the wanted ones.")
    ttft: ShortText = Field(default="", description="Predicted TTFT p95, like 812ms.")
    usd_per_million: ShortText = Field(default="", description="USD per million output tokens.")
    status: ShortText = Field(default="", description="One word, like AwaitingApproval, Running, Infeasible.")
    digest: ShortText = Field(default="", description="First 12 hexadecimal digits of the offered digest.")
    approved: ShortText = Field(default="", description="First 12 hexadecimal digits of the approved digest.")
    measured_ttft: ShortText = Field(default="", description="Measured TTFT.")
    reason: ShortText = Field(default="", description="Reason of Ready.")
    message: LongText = Field(default="", description="Message of Ready.")


class Condition(StatusModel):
    """A condition by the Kubernetes conventions."""

    type: Annotated[str, Field(max_length=64)] = Field(description="Which.")
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    reason: Annotated[str, Field(max_length=64)] = Field(description="Stable reason.")
    message: LongText = Field(default="", description="Sentence.")
    last_transition_time: ShortText = Field(description="When the status last changed (RFC 3339).")
    observed_generation: int = Field(default=0, description="Generation of the spec it is about.")


class InferencePlanStatus(StatusModel):
    """Written by the operator only."""

    observed_generation: int = Field(
        default=-1,
        description="Generation of the spec that this status is about; -1: not looked at yet.",
    )
    recommendation: Recommendation | None = Field(default=None, description="What is offered now.")
    alternatives: Annotated[list[Alternative], Field(max_length=5)] = Field(
        default=[], description="What lost, and why."
    )
    offered_digests: Annotated[list[Digest], Field(max_length=11)] = Field(
        default=[], description="Digests an approval may name."
    )
    handled_nonce: ShortText = Field(default="", description="The spec.replan.nonce that was answered last.")
    deployed: Deployed | None = Field(default=None, description="What runs.")
    measured: Measured | None = Field(default=None, description="What the running engine reports.")
    drift: Drift | None = Field(default=None, description="Measured against predicted.")
    search: Search | None = Field(default=None, description="What was searched, and what would work.")
    display: Display | None = Field(default=None, description="The columns of `kubectl get`.")
    conditions: Annotated[list[Condition], Field(max_length=16)] = Field(
        default=[],
        description="Conditions by type: Ready, Reconciling, Stalled, InputsResolved, Feasible, Planned, Approved, "
        "Deployed, Available, UpdateAvailable, Drifted, GateInstalled.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
