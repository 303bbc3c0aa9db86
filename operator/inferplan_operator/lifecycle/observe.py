"""Phase 4, observation: whether what was deployed is up, and why not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferplan_operator.lifecycle.conditions import Conditions
from inferplan_operator.lifecycle.deploy import running_digest
from inferplan_operator.lifecycle.types import KubeObject, Observed

# What a container waits for, as the kubelet says it → our reason.
_WAITING = {
    "ImagePullBackOff": "ImagePullFailed",
    "ErrImagePull": "ImagePullFailed",
    "InvalidImageName": "ImagePullFailed",
    "CrashLoopBackOff": "CrashLooping",
    "CreateContainerConfigError": "ContainerConfigError",
    "CreateContainerError": "ContainerConfigError",
}


def observe_phase(observed: Observed, conditions: Conditions) -> None:
    """Set Available and Drifted."""
    conditions.set("Drifted", "Unknown", "InsufficientSamples", "nothing was measured yet")
    if running_digest(observed) is None or observed.deployment is None:
        conditions.set("Available", "False", "NotDeployed", "nothing is deployed")
        return
    wanted, ready = replicas(observed)
    if wanted > 0 and ready >= wanted and _seen(observed.deployment):
        conditions.set("Available", "True", "Available", f"{ready} of {wanted} replicas are ready")
        return
    reason, message = _trouble(observed.pods)
    conditions.set("Available", "False", reason, f"{ready} of {wanted} replicas are ready; {message}")


def replicas(observed: Observed) -> tuple[int, int]:
    """(wanted, ready) of the plan's Deployment."""
    deployment = observed.deployment or {}
    wanted = int((deployment.get("spec") or {}).get("replicas") or 0)
    status = deployment.get("status") or {}
    # Ready pods of an older template don't count: what runs is the approved one only when updated.
    return wanted, min(int(status.get("readyReplicas") or 0), int(status.get("updatedReplicas") or 0))


def _seen(deployment: KubeObject) -> bool:
    generation = int(deployment["metadata"].get("generation") or 0)
    return int((deployment.get("status") or {}).get("observedGeneration") or 0) >= generation


def _trouble(pods: tuple[KubeObject, ...]) -> tuple[str, str]:
    """The first trouble that a pod tells of, worst first."""
    found = [trouble for pod in pods if (trouble := _pod_trouble(pod)) is not None]
    return min(found, default=("Starting", "pods are starting"))


def _pod_trouble(pod: KubeObject) -> tuple[str, str] | None:
    status, name = pod.get("status") or {}, pod["metadata"]["name"]
    for container in status.get("containerStatuses") or ():
        state: Mapping[str, Any] = container.get("state") or {}
        waiting = state.get("waiting") or {}
        reason = _WAITING.get(str(waiting.get("reason")))
        last = (container.get("lastState") or {}).get("terminated") or {}
        if last.get("reason") == "OOMKilled":
            return "OutOfMemory", f"pod {name} ran out of memory"
        if reason is not None:
            return reason, f"pod {name}: {waiting.get('message') or waiting.get('reason')}"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return "Unschedulable", f"pod {name}: {condition.get('message') or condition.get('reason')}"
    return None
