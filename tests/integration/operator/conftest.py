"""An operator under its own service account on the real API server, with GPU nodes to plan for."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster

from samples import CHAT

# Without the hub, so that the same answer comes with and without a network.
CONFIG = "hub: never\n"


@pytest.fixture(scope="session")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("operator") / "config.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="session")
def with_nodes(control_plane: Cluster) -> Cluster:
    control_plane.add_gpu_node("gpu-a", "H100-SXM", 8)
    control_plane.add_gpu_node("gpu-b", "L40S", 4)
    return control_plane


@pytest.fixture(scope="session")
def operator(with_nodes: Cluster, config: Path) -> Iterator[Cluster]:
    """The control plane with a running operator."""
    with_nodes.start_operator("--config", str(config))
    yield with_nodes
    with_nodes.stop_process("operator")


class Plan:
    """One InferencePlan in a test's namespace, seen as its users see it."""

    def __init__(self, cluster: Cluster, namespace: str, name: str = "chat") -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.name = name
        self.document: dict[str, Any] = copy.deepcopy(CHAT)
        self.document["metadata"] = {"name": name, "namespace": namespace}

    def apply(self, **spec: Any) -> Plan:
        self.document["spec"] |= spec
        self.cluster.apply(self.document, person="editor")
        return self

    def get(self) -> dict[str, Any]:
        found = self.cluster.get("ipl", self.name, "-n", self.namespace)
        assert found is not None
        return found

    def patch(self, spec: dict[str, Any], person: str = "editor") -> subprocess.CompletedProcess[str]:
        body = json.dumps({"spec": spec})
        where = ("-n", self.namespace, "--type=merge", "-p", body)
        return self.cluster.kubectl("patch", "ipl", self.name, *where, person=person, check=False)

    def approve(self, digest: str, **more: Any) -> None:
        done = self.patch({"approval": {"digest": digest, **more}}, person="approver")
        assert done.returncode == 0, done.stderr

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get().get("status") or {}
        return found

    def condition(self, kind: str) -> dict[str, Any]:
        conditions = self.status().get("conditions") or []
        return next((c for c in conditions if c["type"] == kind), {"status": "", "reason": "", "message": ""})

    def digest(self) -> str | None:
        found: str | None = (self.status().get("recommendation") or {}).get("digest")
        return found

    def recommended(self, seconds: float = 30) -> str:
        return str(self.cluster.wait(self.digest, seconds, f"a recommendation for {self.name}"))

    def until(self, kind: str, reason: str, seconds: float = 30) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            condition = self.condition(kind)
            return condition if condition["reason"] == reason else None

        return self.cluster.wait(reached, seconds, f"{kind}={reason}, it is {self.condition(kind)}")

    def child(self, kind: str = "deployment") -> dict[str, Any] | None:
        return self.cluster.get(kind, self.name, "-n", self.namespace)

    def deployed(self, seconds: float = 30) -> dict[str, Any]:
        return self.cluster.wait(self.child, seconds, f"a Deployment for {self.name}")

    def events(self) -> list[str]:
        found = self.cluster.get("events.events.k8s.io", "-n", self.namespace) or {"items": []}
        about = ("InferencePlan", self.name)
        return [e["reason"] for e in found["items"] if (e["regarding"]["kind"], e["regarding"]["name"]) == about]


@pytest.fixture
def plan(operator: Cluster, namespace: str) -> Callable[..., Plan]:
    """A plan not yet applied: `plan()`, `plan("other")`."""
    return lambda name="chat": Plan(operator, namespace, name)
