"""The status as it is written: two slots (what is offered, what runs), alternatives, columns. Wire names, no floats."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic.alias_generators import to_camel

from inferplan import __version__
from inferplan.planning import Choice, Decision, Infeasible, Notice, Predicted
from inferplan_operator.lifecycle.approve import digest_that_may_run
from inferplan_operator.lifecycle.conditions import Conditions
from inferplan_operator.lifecycle.deploy import deployed_digest, running_digest
from inferplan_operator.lifecycle.digest import artifact_name, short
from inferplan_operator.lifecycle.observe import replicas
from inferplan_operator.lifecycle.plan import Planned
from inferplan_operator.lifecycle.types import Observed, Offer

_LONGEST = 1000
_MOST_NOTICES = 16
_MOST_ALTERNATIVES = 5


def status_of(observed: Observed, planned: Planned, conditions: Conditions) -> dict[str, Any]:
    """The whole status; fields that have nothing to say are left out."""
    status = {
        "observedGeneration": observed.plan.metadata.generation,
        "recommendation": _recommendation(observed, planned),
        "alternatives": _alternatives(observed, planned.current),
        "offeredDigests": list(planned.offered),
        "handledNonce": _handled_nonce(observed),
        "deployed": _deployed(observed, conditions),
        "search": _search(observed),
        "display": _display(observed, planned, conditions),
        "conditions": conditions.listed(),
    }
    return {name: value for name, value in status.items() if value not in (None, "", [], {})}


def _recommendation(observed: Observed, planned: Planned) -> dict[str, Any] | None:
    digest = planned.current
    if digest is None or digest not in planned.artifacts:
        return None
    artifact = planned.artifacts[digest]
    reasons, warnings, unmodelled, inputs_hash = _spoken(observed, planned)
    return {
        "digest": digest,
        "manifestsDigest": artifact.manifests_digest,
        "artifactRef": artifact_name(observed.plan.metadata.name, digest),
        "decision": {to_camel(k): v for k, v in asdict(artifact.choice.decision).items()},
        "predicted": {name: _prediction(p) for name, p in artifact.choice.predicted},
        "reasons": reasons,
        "warnings": warnings,
        "unmodelled": unmodelled,
        "changes": _changes(observed, planned, artifact.choice.decision),
        "inputs": {
            "plannerVersion": str(artifact.versions.get("planner", __version__)),
            "catalogVersion": str(artifact.versions.get("catalog", "")),
            "priceDate": str(artifact.versions.get("priceDate", "")),
            "inventoryHash": inputs_hash,
        },
    }


def _spoken(observed: Observed, planned: Planned) -> tuple[list[dict[str, str]], list[dict[str, str]], list[str], str]:
    """(reasons, warnings, unmodelled, inputs hash) of the digest on offer: of this run, or as the status has them."""
    outcome, before = observed.outcome, observed.plan.status
    if isinstance(outcome, Offer) and outcome.digest == planned.current:
        found = outcome.recommendation
        return _notices(found.reasons), _notices(found.warnings), list(found.unmodelled), observed.inputs_hash
    if before is not None and before.recommendation is not None and before.recommendation.digest == planned.current:
        held = before.recommendation
        reasons = [{"code": n.code, "message": n.message} for n in held.reasons]
        warnings = [{"code": n.code, "message": n.message} for n in held.warnings]
        return reasons, warnings, list(held.unmodelled), held.inputs.inventory_hash
    return [], [], [], ""


def _prediction(p: Predicted) -> dict[str, str]:
    return {name: text for name, text in asdict(p).items() if text is not None}


def _notices(notices: tuple[Notice, ...]) -> list[dict[str, str]]:
    return [{"code": n.code, "message": n.message[:_LONGEST]} for n in notices[:_MOST_NOTICES]]


def _changes(observed: Observed, planned: Planned, decision: Decision) -> list[str]:
    """What differs from what runs, field by field."""
    running = running_digest(observed)
    if running is None or running == planned.current or running not in planned.artifacts:
        return []
    return decision_changes(planned.artifacts[running].choice.decision, decision)


def decision_changes(before: Decision, after: Decision) -> list[str]:
    """`replicas: 1 → 2` for every field that differs."""
    old, new = asdict(before), asdict(after)
    return [f"{to_camel(name)}: {old[name]} → {new[name]}" for name in old if old[name] != new[name]]


def _alternatives(observed: Observed, current: str | None) -> list[dict[str, str]]:
    outcome, before = observed.outcome, observed.plan.status
    if isinstance(outcome, Offer):
        found = outcome.recommendation.alternatives[:_MOST_ALTERNATIVES]
        return [{"summary": a.summary, "whyNot": f"{a.why_not.code}: {a.why_not.message}"[:_LONGEST]} for a in found]
    if not isinstance(outcome, Infeasible) and current is not None and before is not None:
        return [{"summary": a.summary, "whyNot": a.why_not} for a in before.alternatives]
    return []


def _handled_nonce(observed: Observed) -> str:
    """The nonce that planning has answered, be it with the same offer: asked once, answered once."""
    before = observed.plan.status
    if not isinstance(observed.outcome, Offer | Infeasible):
        return before.handled_nonce if before is not None else ""
    return observed.plan.spec.replan.nonce or ""


def _deployed(observed: Observed, conditions: Conditions) -> dict[str, str] | None:
    digest = deployed_digest(observed, digest_that_may_run(observed, conditions))
    if digest is None:
        return None
    before = observed.plan.status.deployed if observed.plan.status is not None else None
    since = before.since if before is not None and before.digest == digest else observed.now
    return {"digest": digest, "since": since, "artifactRef": artifact_name(observed.plan.metadata.name, digest)}


def _search(observed: Observed) -> dict[str, Any] | None:
    outcome = observed.outcome
    if isinstance(outcome, Offer):
        found: Any = outcome.recommendation
        nearest: tuple[Notice, ...] = ()
    elif isinstance(outcome, Infeasible):
        found, nearest = outcome, outcome.nearest
    else:
        return None
    search: dict[str, Any] = {"candidates": found.candidates}
    if found.rejected:
        search["rejected"] = [{"code": code, "count": count} for code, count in found.rejected[:32]]
    if nearest:
        search["nearest"] = _notices(nearest)[:8]
    return search


def _display(observed: Observed, planned: Planned, conditions: Conditions) -> dict[str, str]:
    """The columns of `kubectl get ipl`."""
    approval = observed.plan.spec.approval
    columns = {
        "status": one_word(conditions),
        "reason": conditions.reason("Ready"),
        "message": conditions.message("Ready"),
        "approved": short(approval.digest) if approval is not None and approval.digest else "",
    }
    artifact = planned.artifacts.get(planned.current) if planned.current else None
    if artifact is not None and planned.current is not None:
        columns |= _choice_columns(observed, artifact.choice) | {"digest": short(planned.current)}
    return {name: text for name, text in columns.items() if text}


def _choice_columns(observed: Observed, choice: Choice) -> dict[str, str]:
    decision, numbers = choice.decision, dict(choice.predicted)
    ttft, cost = numbers.get("ttft"), numbers.get("usdPerMillionOutputTokens")
    if observed.deployment is not None and running_digest(observed) is not None:
        wanted, ready = replicas(observed)
        count = f"{ready}/{wanted}"
    else:
        count = str(decision.replicas)
    gpus = f"{decision.gpus_per_replica}×{decision.gpu_type} TP{decision.tensor_parallel}"
    return {
        "gpus": f"{gpus} {decision.quantization.upper()}",
        "replicas": count,
        "ttft": f"{ttft.value}ms" if ttft is not None and ttft.value is not None else "unknown",
        "usdPerMillion": cost.value if cost is not None and cost.value is not None else "unknown",
    }


def one_word(conditions: Conditions) -> str:
    """The plan's state as people say it."""
    if conditions.is_true("Stalled"):
        return conditions.reason("Stalled")
    if conditions.is_true("Available") and conditions.is_true("Deployed"):
        return "UpdateAvailable" if conditions.is_true("UpdateAvailable") else "Running"
    if conditions.is_true("Deployed"):
        return "Suspended" if conditions.reason("Deployed") == "Suspended" else conditions.reason("Available")
    if conditions.reason("Deployed") == "Suspended":
        return "Suspended"
    if conditions.is_true("Approved"):
        return conditions.reason("Deployed")
    if conditions.reason("Planned") == "Planning":
        return "Planning"
    if not conditions.is_true("Planned"):
        return conditions.reason("Planned")
    return conditions.reason("Approved")
