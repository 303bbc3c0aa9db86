"""One look at a plan: the four phases over the same observation, then the status and the Events of what moved.

Pure: the same observation gives the same answer, and the answer to its own result is "nothing to do".
"""

from __future__ import annotations

from inferplan_operator.lifecycle.approve import approve_command, approve_phase, digest_that_may_run
from inferplan_operator.lifecycle.conditions import Conditions
from inferplan_operator.lifecycle.deploy import deploy_phase, deployed_digest, retry_seconds, running_digest
from inferplan_operator.lifecycle.digest import short
from inferplan_operator.lifecycle.observe import observe_phase
from inferplan_operator.lifecycle.plan import Planned, plan_phase
from inferplan_operator.lifecycle.status import status_of
from inferplan_operator.lifecycle.types import EventRecord, Observed, Wanted

_PROGRESS = ("Deploying", "Starting", "Planning")


def reconcile(observed: Observed) -> Wanted:
    """What should be true of this plan now."""
    before = observed.plan.status
    previous = {c.type: c for c in before.conditions} if before is not None else {}
    conditions = Conditions(previous, observed.now, observed.plan.metadata.generation)
    planned = plan_phase(observed, conditions)
    approved = approve_phase(observed, planned, conditions)
    children = deploy_phase(observed, planned, approved, conditions)
    observe_phase(observed, conditions)
    _update_condition(observed, planned, conditions)
    _summary_conditions(conditions)
    status = status_of(observed, planned, conditions)
    return Wanted(
        apply=(*planned.apply, *children),
        delete=planned.delete,
        status=status,
        events=events(observed, planned, conditions),
        requeue_seconds=retry_seconds(conditions),
    )


def _update_condition(observed: Observed, planned: Planned, conditions: Conditions) -> None:
    running, current = running_digest(observed), planned.current
    if running is None or current is None or running == current:
        conditions.set("UpdateAvailable", "False", "UpToDate", "what runs is what is offered, or nothing runs")
        return
    kept = planned.artifacts.get(running)
    if kept is not None and kept.manifests_digest == planned.artifacts[current].manifests_digest:
        message = f"{short(current)} predicts other numbers for the same manifests; approving it restarts nothing"
        conditions.set("UpdateAvailable", "True", "PredictionMoved", message)
        return
    message = f"{short(running)} runs, {short(current)} is on offer. {approve_command(observed, planned)}"
    conditions.set("UpdateAvailable", "True", "NewRecommendation", message)


def _summary_conditions(conditions: Conditions) -> None:
    """Ready, and by the rules of kstatus Reconciling and Stalled (present only when true)."""
    if conditions.is_true("Available") and conditions.is_true("Deployed"):
        conditions.set("Ready", "True", "Running", conditions.message("Available"))
    else:
        for kind in ("Stalled", "InputsResolved", "Feasible", "Approved", "Deployed", "Available"):
            if kind == "Stalled" and not conditions.is_true("Stalled"):
                continue
            if kind == "Stalled" or not conditions.is_true(kind):
                conditions.set("Ready", "False", conditions.reason(kind), conditions.message(kind))
                break
    if conditions.is_true("Stalled"):
        return
    if conditions.reason("Ready") in _PROGRESS:
        conditions.set("Reconciling", "True", conditions.reason("Ready"), conditions.message("Ready"))
    elif conditions.reason("InputsResolved") in ("InvalidInput", "UnsupportedArchitecture", "ArgumentRefused"):
        # Only an edit of the plan helps; waiting does not.
        reason = conditions.reason("InputsResolved")
        conditions.set("Stalled", "True", reason, conditions.message("InputsResolved"))


def events(observed: Observed, planned: Planned, conditions: Conditions) -> tuple[EventRecord, ...]:
    """Events on transitions only, by comparing with what the status said."""
    return tuple(
        event
        for event in (
            _planned_event(observed, planned),
            _infeasible_event(conditions),
            _approval_event(conditions),
            _deploy_event(observed, planned, conditions),
            _denied_event(conditions),
        )
        if event is not None
    )


def _planned_event(observed: Observed, planned: Planned) -> EventRecord | None:
    old = observed.said_offered
    if planned.current is None or planned.current == old:
        return None
    if old is None:
        return EventRecord("Normal", "Planned", f"recommendation {planned.current} waits for approval")
    return EventRecord("Normal", "PlanChanged", f"recommendation {planned.current} replaces {short(old)} on offer")


def _infeasible_event(conditions: Conditions) -> EventRecord | None:
    if not conditions.moved("Feasible") or conditions.current["Feasible"]["status"] != "False":
        return None
    reason = "Infeasible" if conditions.is_true("InputsResolved") else "InvalidPlan"
    return EventRecord("Warning", reason, conditions.message("Feasible"))


def _approval_event(conditions: Conditions) -> EventRecord | None:
    if not conditions.moved("Approved"):
        return None
    reason = conditions.reason("Approved")
    if reason == "Approved":
        return EventRecord("Normal", "Approved", conditions.message("Approved"))
    if reason in ("ApprovalStale", "ArtifactRefused", "LimitExceeded", "Revoked"):
        return EventRecord("Warning", reason, conditions.message("Approved"))
    return None


def _deploy_event(observed: Observed, planned: Planned, conditions: Conditions) -> EventRecord | None:
    running, old = deployed_digest(observed, digest_that_may_run(observed, conditions)), observed.said_deployed
    if running is None or running == old:
        return None
    rolled_back = old is not None and running != planned.current
    verb = "RolledBack" if rolled_back else "Deployed"
    return EventRecord("Normal", verb, f"{running} is deployed" + (f" instead of {short(old)}" if old else ""))


def _denied_event(conditions: Conditions) -> EventRecord | None:
    reason = conditions.reason("Deployed")
    if reason not in ("DeployGateDenied", "DeploymentChanged") or not conditions.moved("Deployed"):
        return None
    return EventRecord("Warning", reason, conditions.message("Deployed"))
