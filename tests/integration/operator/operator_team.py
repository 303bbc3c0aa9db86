"""The operator as its own process on a control plane of its own: GPU nodes, kwok, gates, roles."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from cluster import Cluster

CHAT: dict[str, Any] = {
    "model": {"id": "Qwen/Qwen3-8B"},
    "workload": {
        "inputTokens": {"p50": 800, "p95": 3000},
        "outputTokens": {"p50": 200, "p95": 600},
        "concurrency": 16,
    },
    "objectives": {"ttftP95Ms": 3000, "tpotP95Ms": 60},
    "constraints": {"gpuTypes": ["H100-SXM"], "maxGPUs": 8},
}


@dataclass(frozen=True)
class Team:
    """One namespace with people who work in it."""

    cluster: Cluster
    namespace: str

    def apply(self, name: str = "chat", person: str = "editor", **changes: Any) -> None:
        self.cluster.apply(self.plan_object(name, **changes), person=person)

    def plan_object(self, name: str, **changes: Any) -> dict[str, Any]:
        return {
            "apiVersion": "inferplan.io/v1alpha1",
            "kind": "InferencePlan",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {**CHAT, **changes},
        }

    def plan(self, name: str = "chat") -> dict[str, Any]:
        return self.cluster.get("ipl", name, "-n", self.namespace) or {}

    def deployment(self, name: str = "chat") -> dict[str, Any] | None:
        return self.cluster.get("deployment", name, "-n", self.namespace)

    def digest(self, name: str = "chat") -> str:
        """The digest on offer, once there is one."""
        return str(self.cluster.wait(lambda: offered(self.plan(name)), 60, f"a recommendation for {name}"))

    def approve(self, digest: str, name: str = "chat") -> None:
        patch = json.dumps({"spec": {"approval": {"digest": digest}}})
        self.cluster.kubectl("patch", "ipl", name, "-n", self.namespace, "--type=merge", "-p", patch, person="approver")

    def condition(self, kind: str, name: str = "chat") -> dict[str, Any]:
        found = self.plan(name).get("status", {}).get("conditions", [])
        return next((c for c in found if c["type"] == kind), {})

    def wait_for(self, kind: str, status: str, reason: str = "", name: str = "chat", seconds: float = 60) -> None:
        def holds() -> bool:
            c = self.condition(kind, name)
            return c.get("status") == status and reason in ("", c.get("reason"))

        self.cluster.wait(holds, seconds, f"{kind}={status} {reason} of {name}; it is {self.condition(kind, name)}")

    def deployed(self, digest: str, name: str = "chat") -> dict[str, Any]:
        """The Deployment, once it carries the digest."""

        def found() -> dict[str, Any] | None:
            deployment = self.deployment(name)
            annotations = (deployment or {}).get("metadata", {}).get("annotations", {})
            return deployment if annotations.get("inferplan.io/digest") == digest else None

        return self.cluster.wait(found, 60, f"a Deployment of {digest}")


def offered(plan: dict[str, Any]) -> str | None:
    digest = plan.get("status", {}).get("recommendation", {}).get("digest")
    return str(digest) if digest else None


@pytest.fixture(scope="session")
def running_operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("operator") / "state")
    try:
        cluster.start()
        cluster.start_kwok()
        cluster.add_gpu_node("gpu-h100", "H100-SXM", 8)
        cluster.add_gpu_node("gpu-l40s", "L40S", 4)
        cluster.install()
        cluster.start_operator()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def team(running_operator: Cluster) -> Team:
    namespace = f"team-{uuid.uuid4().hex[:8]}"
    running_operator.ensure_namespace(namespace)
    return Team(running_operator, namespace)
