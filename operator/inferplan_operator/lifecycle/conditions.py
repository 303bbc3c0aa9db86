"""Conditions by the Kubernetes conventions: a transition time moves only when the status does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from inferplan_operator.api.v1alpha1 import Condition

# Reading order of the list; kstatus conditions (Reconciling, Stalled) are present only when true.
ORDER = (
    "Ready",
    "Reconciling",
    "Stalled",
    "InputsResolved",
    "Feasible",
    "Planned",
    "Approved",
    "Deployed",
    "Available",
    "UpdateAvailable",
    "Drifted",
    "GateInstalled",
)
_LONGEST_MESSAGE = 4000


@dataclass(slots=True)
class Conditions:
    """Conditions being written for one generation, with those of the last time at hand."""

    previous: dict[str, Condition]
    now: str
    generation: int
    current: dict[str, dict[str, Any]] = field(default_factory=dict)

    def set(self, kind: str, status: str, reason: str, message: str) -> None:
        """`status`: True, False or Unknown."""
        before = self.previous.get(kind)
        since = before.last_transition_time if before is not None and before.status == status else self.now
        self.current[kind] = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message[:_LONGEST_MESSAGE],
            "lastTransitionTime": since,
            "observedGeneration": self.generation,
        }

    def is_true(self, kind: str) -> bool:
        return kind in self.current and self.current[kind]["status"] == "True"

    def reason(self, kind: str) -> str:
        return str(self.current[kind]["reason"]) if kind in self.current else ""

    def message(self, kind: str) -> str:
        return str(self.current[kind]["message"]) if kind in self.current else ""

    def moved(self, kind: str) -> bool:
        """Whether status or reason is another than the last time."""
        before, after = self.previous.get(kind), self.current.get(kind)
        if before is None or after is None:
            return (before is None) != (after is None)
        return (before.status, before.reason) != (after["status"], after["reason"])

    def listed(self) -> list[dict[str, Any]]:
        return [self.current[kind] for kind in ORDER if kind in self.current]
