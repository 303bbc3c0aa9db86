"""Phase 1, planning: which recommendation is on offer, and which earlier ones still may be approved.

Hysteresis: a recommendation that is offered stays on offer until its manifests differ, feasibility flips, or a
displayed number moves by more than the tolerance. Otherwise every small change of a price or an inventory would make
a new digest that says the same, and an approval would chase it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inferplan.errors import InferPlanError, InvalidInput, InvalidModelConfig, UnsupportedArchitecture
from inferplan.planning import Choice, Infeasible, Predicted
from inferplan_operator.lifecycle.conditions import Conditions
from inferplan_operator.lifecycle.digest import (
    Artifact,
    ArtifactRefused,
    artifact_config_map,
    artifact_name,
    intent_of,
    is_owned,
    verify,
)
from inferplan_operator.lifecycle.types import KubeObject, Observed, Offer

# A displayed number may move by 5 % before people are asked to look again: half of the tightest accuracy we claim.
_TOLERANCE = 0.05
_MOST_OFFERED = 11
# What was read and can't be planned; every other error says that something could not be read now.
_REFUSALS = (InvalidInput, UnsupportedArchitecture, InvalidModelConfig)


@dataclass(frozen=True, slots=True)
class Planned:
    """`current`: the digest on offer, of what was computed now or of the earlier offer that this confirms.

    `artifacts`: every stored artefact that verifies, by digest, the one to be written included. `refused`: digest →
    why its stored artefact can't be used. `offered`: what may be approved, newest first.
    """

    current: str | None
    artifacts: Mapping[str, Artifact]
    refused: Mapping[str, str]
    offered: tuple[str, ...]
    apply: tuple[KubeObject, ...]
    delete: tuple[KubeObject, ...]


def plan_phase(observed: Observed, conditions: Conditions) -> Planned:
    """Set InputsResolved, Feasible and Planned, and say which artefacts should exist."""
    stored, refused = _stored(observed)
    outcome = observed.outcome
    _outcome_conditions(outcome, conditions)
    current: str | None = None
    apply: list[KubeObject] = []
    delete: list[KubeObject] = []
    if isinstance(outcome, Offer):
        current = _on_offer(observed, outcome, stored)
        if current not in stored:
            config_map = artifact_config_map(observed.plan, current, outcome.artifact)
            existing = observed.artifacts.get(config_map["metadata"]["name"])
            # Immutable: one that holds something else must go before the right one can be made.
            if existing is not None:
                delete.append(existing)
            else:
                apply.append(config_map)
            stored[current] = verify(config_map, current, observed.plan)
            refused.pop(current, None)
        conditions.set("Planned", "True", "Planned", f"recommendation {current}")
    elif _may_still_hold(outcome):
        current = _still_offered(observed, stored)
    offered = _offered(observed, current, stored)
    delete += _outdated(observed, offered)
    return Planned(current, stored, refused, offered, tuple(apply), tuple(delete))


def _outcome_conditions(outcome: Offer | Infeasible | InferPlanError | None, conditions: Conditions) -> None:
    if outcome is None:
        for kind in ("InputsResolved", "Feasible", "Planned"):
            conditions.set(kind, "Unknown", "Planning", "the planner is at work")
    elif isinstance(outcome, Infeasible):
        nearest = " ".join(f"What would work: {n.message}." for n in outcome.nearest)
        conditions.set("InputsResolved", "True", "Resolved", "model and inputs are known")
        conditions.set("Feasible", "False", outcome.code, f"{outcome.message}. {nearest}".strip())
        conditions.set("Planned", "False", "Infeasible", outcome.message)
    elif isinstance(outcome, Offer):
        conditions.set("InputsResolved", "True", "Resolved", "model and inputs are known")
        conditions.set("Feasible", "True", "Feasible", "every limit holds")
    else:
        conditions.set("InputsResolved", "False", outcome.code, outcome.message)
        # A spec that means nothing can't be feasible; a model that can't be read now may well be.
        feasible = "False" if isinstance(outcome, InvalidInput) else "Unknown"
        conditions.set("Feasible", feasible, outcome.code, outcome.message)
        conditions.set("Planned", "False", outcome.code, outcome.message)


def _stored(observed: Observed) -> tuple[dict[str, Artifact], dict[str, str]]:
    """Stored artefacts by the digests that the status knows: verified ones, and why others were refused."""
    verified: dict[str, Artifact] = {}
    refused: dict[str, str] = {}
    for digest in _known_digests(observed):
        config_map = observed.artifacts.get(artifact_name(observed.plan.metadata.name, digest))
        if config_map is None:
            continue
        try:
            verified[digest] = verify(config_map, digest, observed.plan)
        except ArtifactRefused as error:
            refused[digest] = error.message
    return verified, refused


def _known_digests(observed: Observed) -> tuple[str, ...]:
    status, outcome = observed.plan.status, observed.outcome
    found = (
        outcome.digest if isinstance(outcome, Offer) else None,
        observed.approved_digest,
        *(status.offered_digests if status is not None else ()),
        observed.said_deployed,
    )
    return tuple(dict.fromkeys(digest for digest in found if digest))


def _may_still_hold(outcome: Infeasible | InferPlanError | None) -> bool:
    """Planning is at work, or its inputs can't be read now: neither says anything against what is on offer."""
    return outcome is None or (isinstance(outcome, InferPlanError) and not isinstance(outcome, _REFUSALS))


def _still_offered(observed: Observed, stored: Mapping[str, Artifact]) -> str | None:
    """What is on offer, while it answers this spec (or planning has yet to say what does)."""
    previous = observed.said_offered
    if previous is None or previous not in stored:
        return None
    answers = observed.outcome is None or stored[previous].intent == intent_of(observed.plan)
    return previous if answers else None


def _on_offer(observed: Observed, offer: Offer, stored: Mapping[str, Artifact]) -> str:
    """The new offer's digest, or that of the earlier one where the new one says the same."""
    previous = observed.said_offered
    earlier = stored.get(previous) if previous else None
    if earlier is None or previous is None or earlier.intent != intent_of(observed.plan):
        return offer.digest
    policy = observed.plan.spec.replan.policy
    status = observed.plan.status
    if (observed.plan.spec.replan.nonce or "") != (status.handled_nonce if status is not None else ""):
        return offer.digest
    if policy != "OnInputsChange":
        return previous
    same = earlier.manifests_digest == offer.manifests_digest
    return previous if same and _close(earlier.choice, offer.recommendation.choice) else offer.digest


def _close(before: Choice, after: Choice) -> bool:
    old, new = dict(before.predicted), dict(after.predicted)
    return old.keys() == new.keys() and all(_near(old[name], new[name]) for name in old)


def _near(before: Predicted, after: Predicted) -> bool:
    if (before.unit, before.basis) != (after.unit, after.basis):
        return False
    pairs = ((before.value, after.value), (before.low, after.low), (before.high, after.high))
    return all(_within(a, b) for a, b in pairs)


def _within(before: str | None, after: str | None) -> bool:
    if before is None or after is None:
        return before == after
    a, b = float(before), float(after)
    return abs(a - b) <= _TOLERANCE * max(abs(a), abs(b))


def _offered(observed: Observed, current: str | None, stored: Mapping[str, Artifact]) -> tuple[str, ...]:
    """The current digest, then what is approved or runs, then the newest earlier ones within the history limit."""
    status = observed.plan.status
    in_use = [observed.approved_digest, observed.said_deployed]
    earlier = list(status.offered_digests) if status is not None else []
    limit = observed.plan.spec.revision_history_limit
    kept = [d for d in earlier if d != current and d not in in_use][:limit]
    wanted = [current, *in_use, *kept]
    # An approved digest is offered only if it was: an approval alone, written at creation, makes no offer.
    allowed = {current, *earlier, *(in_use[1:])}
    return tuple(dict.fromkeys(d for d in wanted if d and d in stored and d in allowed))[:_MOST_OFFERED]


def _outdated(observed: Observed, offered: tuple[str, ...]) -> list[KubeObject]:
    """Artefacts that fell out of the history; never while planning is still at work."""
    if observed.outcome is None:
        return []
    names = {artifact_name(observed.plan.metadata.name, d) for d in offered}
    if observed.approved_digest:
        names.add(artifact_name(observed.plan.metadata.name, observed.approved_digest))
    return [c for name, c in sorted(observed.artifacts.items()) if name not in names and is_owned(c, observed.plan)]
