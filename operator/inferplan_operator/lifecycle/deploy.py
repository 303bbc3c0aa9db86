"""Phase 3, deployment: what the cluster should hold of an approved recommendation.

What runs is rendered from the stored artefact, never from a fresh planner run. Once applied, a digest keeps being
kept as it is (a hand edit is undone) as long as it is the one in `spec.approval`; clearing the approval or suspending
freezes: nothing is changed and nothing is torn down.
"""

from __future__ import annotations

from typing import Any

from inferplan_operator.lifecycle.conditions import Conditions
from inferplan_operator.lifecycle.digest import Artifact, is_owned, owner_reference, short
from inferplan_operator.lifecycle.plan import Planned
from inferplan_operator.lifecycle.types import KubeObject, Observed
from inferplan_operator.manifests import DIGEST_ANNOTATION, MANAGED_BY, PLAN_LABEL

_GATE_RETRY_SECONDS = 5.0


def deploy_phase(
    observed: Observed, planned: Planned, approved: Artifact | None, conditions: Conditions
) -> tuple[KubeObject, ...]:
    """Set Deployed, GateInstalled and Stalled; the children to apply."""
    _gate_condition(observed, conditions)
    running = running_digest(observed)
    conflict = name_conflict(observed)
    if conflict is not None:
        conditions.set("Deployed", "False", "NameConflict", conflict)
        conditions.set("Stalled", "True", "NameConflict", conflict)
        return ()
    kept = planned.artifacts.get(running) if running else None
    target = approved or _kept_under_approval(observed, kept)
    if target is None and deployed_digest(observed, None) != running:
        conditions.set("Deployed", "False", "DeploymentChanged", _unexplained(observed, running))
        return ()
    if target is None or observed.plan.spec.suspend:
        _frozen(observed, running, conditions)
        return ()
    if observed.settings.require_gates and not observed.gates_installed:
        message = "the admission policies of the chart are not installed; the operator deploys nothing without them"
        conditions.set("Deployed", "False", "GateMissing", message)
        return ()
    foreign = foreign_parts(observed.deployment, target) if running == target.digest else ()
    if foreign:
        where = f"{observed.plan.metadata.name} -n {observed.plan.metadata.namespace}"
        message = f"the Deployment holds what nobody approved: {', '.join(foreign)}. "
        message += f"kubectl delete deployment {where} removes it; it is made again as approved"
        conditions.set("Deployed", "False", "DeploymentChanged", message)
    elif observed.last_apply_error is not None:
        denied = "ValidatingAdmissionPolicy" in observed.last_apply_error
        reason = "DeployGateDenied" if denied else "ApplyFailed"
        conditions.set("Deployed", "False", reason, observed.last_apply_error)
    elif running == target.digest:
        conditions.set("Deployed", "True", "Deployed", f"{target.digest} is deployed")
    else:
        conditions.set("Deployed", "False", "Deploying", f"{short(target.digest)} is being applied")
    return tuple(child(observed, target, manifest) for manifest in target.manifests)


def foreign_parts(deployment: KubeObject | None, artifact: Artifact) -> tuple[str, ...]:
    """What somebody added to the pods of an approved Deployment.

    Server-side apply puts back what was changed, but leaves what others added beside it.
    """
    approved = next((m for m in artifact.manifests if m["kind"] == "Deployment"), None)
    if deployment is None or approved is None:
        return ()
    live, wanted = deployment["spec"]["template"]["spec"], approved["spec"]["template"]["spec"]
    found = [
        f"{what} {name}"
        for what, field in (
            ("container", "containers"),
            ("init container", "initContainers"),
            ("volume", "volumes"),
        )
        for name in sorted(_named(live, field, "name") - _named(wanted, field, "name"))
    ]
    found += [field for field in ("hostNetwork", "hostPID", "hostIPC") if live.get(field)]
    ours = wanted["containers"][0]
    mine: KubeObject = next((c for c in live.get("containers") or () if c.get("name") == ours["name"]), {})
    found += [f"environment {name}" for name in sorted(_named(mine, "env", "name") - _named(ours, "env", "name"))]
    mounts = _named(mine, "volumeMounts", "mountPath") - _named(ours, "volumeMounts", "mountPath")
    found += [f"mount {path}" for path in sorted(mounts)]
    found += ["envFrom"] if mine.get("envFrom") else []
    found += ["privileged"] if (mine.get("securityContext") or {}).get("privileged") else []
    return tuple(found)


def _named(holder: KubeObject, field: str, key: str) -> set[str]:
    return {str(item.get(key)) for item in holder.get(field) or ()}


def child(observed: Observed, artifact: Artifact, manifest: dict[str, Any]) -> dict[str, Any]:
    """A rendered manifest with its owner; the digest stands on the object, never in the pod template."""
    metadata = {
        **manifest["metadata"],
        "ownerReferences": [owner_reference(observed.plan)],
        "annotations": {DIGEST_ANNOTATION: artifact.digest},
    }
    return {**manifest, "metadata": metadata}


def running_digest(observed: Observed) -> str | None:
    """The digest that the plan's own Deployment carries."""
    deployment = observed.deployment
    if deployment is None or not is_owned(deployment, observed.plan):
        return None
    digest = (deployment["metadata"].get("annotations") or {}).get(DIGEST_ANNOTATION)
    return str(digest) if digest else None


def deployed_digest(observed: Observed, approved: str | None) -> str | None:
    """The digest that runs by this plan's will: what the Deployment carries, unless only its annotation says so.

    Anyone who edits Deployments can write the annotation. A digest counts once it was approved when it appeared
    (`approved`: the digest whose approval holds now), and from then on because the status says so.
    """
    running, before = running_digest(observed), observed.said_deployed
    return running if running is None or before is None or running == approved else before


def _unexplained(observed: Observed, running: str | None) -> str:
    return (
        f"the Deployment carries {running}, whose approval does not hold under this spec, where "
        f"{observed.said_deployed} was deployed. Nothing is changed; approve what shall run"
    )


def name_conflict(observed: Observed) -> str | None:
    """An object of the plan's name that the plan does not own and may not adopt; never taken over."""
    for found in (observed.deployment, observed.service):
        if found is None:
            continue
        if not is_owned(found, observed.plan) and not _orphaned(found, observed):
            kind, name = found["kind"], found["metadata"]["name"]
            return f"{kind} {name} exists and is not this plan's; rename the plan, or delete the {kind}"
    return None


def _orphaned(found: KubeObject, observed: Observed) -> bool:
    """Left behind by `--cascade=orphan`: ours by its labels, nobody's by its owners, and of the approved digest."""
    metadata = found["metadata"]
    if any(o.get("controller") for o in metadata.get("ownerReferences") or ()):
        return False
    labels = metadata.get("labels") or {}
    made_by_us = labels.get(PLAN_LABEL) == observed.plan.metadata.name and labels.get(MANAGED_BY) == "inferplan"
    digest = (metadata.get("annotations") or {}).get(DIGEST_ANNOTATION)
    return made_by_us and digest is not None and digest == observed.approved_digest


def _kept_under_approval(observed: Observed, kept: Artifact | None) -> Artifact | None:
    """What runs, if it is still the digest in the approval (whose intent may have moved on since)."""
    if kept is None or observed.approved_digest != kept.digest:
        return None
    return kept if deployed_digest(observed, None) == kept.digest else None


def _gate_condition(observed: Observed, conditions: Conditions) -> None:
    if observed.gates_installed:
        conditions.set("GateInstalled", "True", "Installed", "the chart's admission policies are installed and deny")
    elif observed.settings.require_gates:
        message = "install the chart's ValidatingAdmissionPolicies and their bindings (helm install, or kubectl apply)"
        conditions.set("GateInstalled", "False", "GateMissing", message)
    else:
        conditions.set("GateInstalled", "False", "NotRequired", "the operator is configured to deploy without gates")


def _frozen(observed: Observed, running: str | None, conditions: Conditions) -> None:
    if observed.plan.spec.suspend:
        what = f"; {short(running)} keeps running" if running else ""
        conditions.set("Deployed", "True" if running else "False", "Suspended", f"the plan is suspended{what}")
    elif running:
        conditions.set("Deployed", "True", "Deployed", f"{running} is deployed")
    else:
        conditions.set("Deployed", "False", "NotApproved", "nothing is deployed before an approval")


def retry_seconds(conditions: Conditions) -> float | None:
    """A gate may deny for some seconds after it was installed or the API server restarted: look again."""
    return _GATE_RETRY_SECONDS if conditions.reason("Deployed") in ("DeployGateDenied", "ApplyFailed") else None
