"""What a plan's lifecycle sees and what it wants: values only; `cluster/` fills the first and does the second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inferplan.errors import InferPlanError
from inferplan.planning import Infeasible, Inputs, Recommendation
from inferplan_operator.api.v1alpha1 import InferencePlan

KubeObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Offer:
    """A recommendation made approvable. `artifact`: canonical JSON whose sha256 is `digest` (`sha256:<64 hex>`)."""

    digest: str
    manifests_digest: str
    artifact: str
    recommendation: Recommendation


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """The part of the operator's configuration that decisions depend on."""

    require_gates: bool = True


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything the lifecycle of one plan may look at. `now`: RFC 3339, second precision.

    `outcome`: what planning said for the current intent and inputs; an InferPlanError when the inputs could not
    be resolved; None while it is still being computed. `artifacts`: ConfigMaps labelled with the plan, by name.
    `deployment`, `service`: objects of the plan's name, whoever owns them. `pods`: of the plan's Deployment.
    """

    plan: InferencePlan
    now: str
    inputs: Inputs
    inputs_hash: str
    outcome: Offer | Infeasible | InferPlanError | None
    artifacts: Mapping[str, KubeObject]
    deployment: KubeObject | None
    service: KubeObject | None
    pods: tuple[KubeObject, ...]
    gates_installed: bool
    settings: OperatorSettings
    last_apply_error: str | None = None  # e.g. a denial by the deploy gate, said as DeployGateDenied

    @property
    def approved_digest(self) -> str | None:
        """What the spec approves, whether or not that holds."""
        approval = self.plan.spec.approval
        return approval.digest if approval is not None else None

    @property
    def said_offered(self) -> str | None:
        """The digest on offer by the status as it stands."""
        status = self.plan.status
        return status.recommendation.digest if status is not None and status.recommendation is not None else None

    @property
    def said_deployed(self) -> str | None:
        """The digest that runs by the status as it stands."""
        status = self.plan.status
        return status.deployed.digest if status is not None and status.deployed is not None else None


@dataclass(frozen=True, slots=True)
class EventRecord:
    """A Kubernetes Event to record: on transitions only."""

    type: str  # Normal or Warning
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What should be true now. `apply`: server-side applied in this order; `status`: the plan's whole status.

    `requeue_seconds`: look again after so long even if nothing happens (None: only on events).
    """

    apply: tuple[KubeObject, ...] = ()
    delete: tuple[KubeObject, ...] = ()
    status: KubeObject = field(default_factory=dict)
    events: tuple[EventRecord, ...] = ()
    requeue_seconds: float | None = None
