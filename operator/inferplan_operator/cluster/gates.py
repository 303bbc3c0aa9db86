"""Whether the gates stand: policies and bindings that the chart installs and that only deny, never audit."""

from __future__ import annotations

from collections.abc import Iterable

from inferplan_operator.lifecycle.types import KubeObject

# The first three are the contract; inferplan-shape and inferplan-children are what they rest on.
GATE_NAMES = ("inferplan-approval", "inferplan-deploy", "inferplan-status", "inferplan-shape", "inferplan-children")


def gates_installed(policies: Iterable[KubeObject], bindings: Iterable[KubeObject]) -> bool:
    """All policies fail closed and are bound with Deny."""
    closed = {
        policy["metadata"]["name"]
        for policy in policies
        if (policy.get("spec") or {}).get("failurePolicy", "Fail") == "Fail"
    }
    bound = {
        binding["spec"]["policyName"] for binding in bindings if "Deny" in binding["spec"].get("validationActions", ())
    }
    return all(name in closed and name in bound for name in GATE_NAMES)
