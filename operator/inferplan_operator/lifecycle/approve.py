"""Phase 2, approval: whether the digest in the spec may be newly applied (the deploy rule).

All must hold: the digest is the approved one, its artefact verifies, its intent is the current intent or the approval
is pinned, budget and constraints still hold. Without the intent check, someone without the right to approve could
edit a plan and still see an older approval go live.
"""

from __future__ import annotations

from inferplan.errors import InferPlanError
from inferplan.hardware import GPU, resolve_gpu
from inferplan.planning import Decision, priced
from inferplan.planning.display import significant
from inferplan_operator.lifecycle.conditions import Conditions
from inferplan_operator.lifecycle.digest import Artifact, artifact_name, intent_of, short
from inferplan_operator.lifecycle.plan import Planned
from inferplan_operator.lifecycle.types import Observed


def approve_phase(observed: Observed, planned: Planned, conditions: Conditions) -> Artifact | None:
    """Set Approved; the artefact that may be newly applied, or None."""
    approval = observed.plan.spec.approval
    if approval is None or not approval.digest:
        _not_approved(observed, planned, conditions)
        return None
    digest = approval.digest
    artifact = planned.artifacts.get(digest)
    if artifact is None:
        _unusable(observed, planned, digest, conditions)
        return None
    if artifact.intent != intent_of(observed.plan) and not approval.pin:
        message = f"{short(digest)} was approved for another spec. {approve_command(observed, planned)}"
        conditions.set("Approved", "False", "ApprovalStale", message)
        return None
    problem = broken_limit(observed, artifact.choice.decision)
    if problem is not None:
        conditions.set("Approved", "False", "LimitExceeded", f"{short(digest)} is approved, but {problem}")
        return None
    conditions.set("Approved", "True", "Approved", f"{digest} is approved")
    return artifact


def digest_that_may_run(observed: Observed, conditions: Conditions) -> str | None:
    """The digest whose approval holds now."""
    return observed.approved_digest if conditions.is_true("Approved") else None


def approve_command(observed: Observed, planned: Planned) -> str:
    """The exact command that approves what is on offer, as a sentence."""
    if planned.current is None:
        return "Nothing is on offer to approve."
    metadata = observed.plan.metadata
    return f"Approve: {command_to_approve(metadata.name, metadata.namespace, planned.current)}"


def command_to_approve(name: str, namespace: str, digest: str) -> str:
    """What an approver types."""
    return f"kubectl inferplan approve {name} -n {namespace} --digest {digest}"


def _not_approved(observed: Observed, planned: Planned, conditions: Conditions) -> None:
    if observed.said_deployed is not None:
        message = f"the approval was cleared; {short(observed.said_deployed)} keeps running, nothing is changed. "
        conditions.set("Approved", "False", "Revoked", message + approve_command(observed, planned))
    elif planned.current is None:
        conditions.set("Approved", "False", "NothingToApprove", "no recommendation is on offer")
    else:
        message = f"recommendation {short(planned.current)} waits for approval. "
        conditions.set("Approved", "False", "AwaitingApproval", message + approve_command(observed, planned))


def _unusable(observed: Observed, planned: Planned, digest: str, conditions: Conditions) -> None:
    reason = planned.refused.get(digest)
    if reason is not None:
        conditions.set("Approved", "False", "ArtifactRefused", f"{reason}; approve what is on offer instead")
        return
    name = artifact_name(observed.plan.metadata.name, digest)
    message = f"{short(digest)} is not on offer and ConfigMap {name} does not exist. "
    conditions.set("Approved", "False", "ApprovalStale", message + approve_command(observed, planned))


def broken_limit(observed: Observed, decision: Decision) -> str | None:
    """Which current constraint or budget a decision breaks, in words; None when all hold."""
    constraints, inputs = observed.plan.spec.constraints, observed.inputs
    try:
        gpu = resolve_gpu(decision.gpu_type, inputs.gpus)
        allowed = {resolve_gpu(name, inputs.gpus).name for name in constraints.gpu_types}
    except InferPlanError as error:
        return error.message
    if allowed and gpu.name not in allowed:
        return f"constraints.gpuTypes no longer allows {gpu.name}"
    if constraints.max_gpus is not None and decision.gpus > constraints.max_gpus:
        return f"constraints.maxGPUs={constraints.max_gpus} is below its {decision.gpus} GPUs"
    if constraints.max_tensor_parallel is not None and decision.tensor_parallel > constraints.max_tensor_parallel:
        return (
            f"constraints.maxTensorParallel={constraints.max_tensor_parallel} is below its {decision.tensor_parallel}"
        )
    for name, chosen, permitted in (
        ("quantization", decision.quantization, constraints.quantization),
        ("kvCacheDtypes", decision.kv_cache_dtype, constraints.kv_cache_dtypes),
    ):
        if permitted and chosen not in permitted:
            return f"constraints.{name} no longer allows {chosen}"
    least = constraints.min_context_length
    if least is not None and decision.max_model_len < least:
        return f"constraints.minContextLength={least} is above its {decision.max_model_len}"
    return _broken_budget(observed, decision, gpu)


def _broken_budget(observed: Observed, decision: Decision, gpu: GPU) -> str | None:
    constraints, inputs = observed.plan.spec.constraints, observed.inputs
    if constraints.max_hourly_cost is None:
        return None
    price = priced(gpu, inputs).price
    if price is None:
        return f"no price is known for {gpu.name}, so constraints.maxHourlyCost can't hold"
    cost = price.usd_per_hour * decision.gpus
    if cost > float(constraints.max_hourly_cost):
        return f"constraints.maxHourlyCost={constraints.max_hourly_cost} is below its ${significant(cost)}/h"
    return None
