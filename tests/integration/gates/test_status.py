"""The status gate: only the operator says what is offered. And the operator touches only what is a plan's."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from cluster import Cluster

from samples import CHAT

pytestmark = pytest.mark.cluster

OWN_DIGEST = "sha256:" + "ee" * 32


@pytest.fixture
def uid(control_plane: Cluster, namespace: str) -> str:
    """Of a plan named chat."""
    control_plane.apply({**CHAT, "metadata": {"name": "chat", "namespace": namespace}}, person="editor")
    stored = control_plane.get("ipl", "chat", "-n", namespace)
    assert stored is not None
    return str(stored["metadata"]["uid"])


def artifact(namespace: str, uid: str, name: str = "chat-0123456789ab") -> dict[str, Any]:
    owner = {
        "apiVersion": "inferplan.io/v1alpha1",
        "kind": "InferencePlan",
        "name": "chat",
        "uid": uid,
        "controller": True,
    }
    metadata = {"name": name, "namespace": namespace, "labels": {"inferplan.io/plan": "chat"}}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, "ownerReferences": [owner]},
        "immutable": True,
        "data": {"recommendation.json": "{}"},
    }


def create(cluster: Cluster, manifest: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """As the operator makes artefacts: created once, never applied over."""
    command = ("create", "-f", "-")
    return cluster.kubectl(*command, person="operator", stdin=json.dumps(manifest), check=False)


@pytest.mark.parametrize("person", ["admin", "edith"])
def test_nobody_else_offers_a_digest(control_plane: Cluster, namespace: str, uid: str, person: str) -> None:
    """Not even with the right by RBAC: who could write the offer could choose what an approver may approve."""
    options: tuple[str, ...] = ()
    if person != "admin":
        control_plane.kubectl(
            "create", "role", "all", "-n", namespace, "--verb=*", "--resource=inferenceplans.inferplan.io/status"
        )
        control_plane.kubectl("create", "rolebinding", "all", "-n", namespace, "--role=all", f"--user={person}")
        options = (f"--as={person}",)
    patch = json.dumps({"status": {"offeredDigests": [OWN_DIGEST]}})
    command = ("patch", "ipl", "chat", "-n", namespace, "--subresource=status", "--type=merge", "-p", patch, *options)

    def answer() -> str:
        return control_plane.kubectl(*command, check=False).stderr

    said = control_plane.wait(lambda: (a := answer()) and "inferplan-status" in a and a, 20, "the gate's denial")
    assert "may not write status" in said


def test_a_status_given_at_creation_is_dropped(control_plane: Cluster, namespace: str) -> None:
    document = {
        **CHAT,
        "metadata": {"name": "born", "namespace": namespace},
        "status": {"offeredDigests": [OWN_DIGEST]},
    }
    command = ("create", "-f", "-")
    control_plane.kubectl(*command, person="editor", stdin=json.dumps(document))
    stored = control_plane.get("ipl", "born", "-n", namespace)
    assert stored is not None
    assert "offeredDigests" not in stored.get("status", {})


def test_only_the_operator_writes_artifacts(control_plane: Cluster, namespace: str, uid: str) -> None:
    made = artifact(namespace, uid)
    forged = {**artifact(namespace, uid, "chat-ffffffffffff"), "immutable": False}
    said = control_plane.apply(forged, check=False).stderr
    assert "only system:serviceaccount:inferplan-system:inferplan-operator writes those" in said
    create(control_plane, made).check_returncode()
    where = ("configmap", "chat-0123456789ab", "-n", namespace)
    assert "may not write ConfigMap" in control_plane.kubectl("label", *where, "a=b", check=False).stderr
    unlabel = control_plane.kubectl("label", *where, "inferplan.io/plan-", check=False)
    assert "may not write ConfigMap" in unlabel.stderr, "nor is its label taken away first"
    assert control_plane.kubectl("delete", *where, check=False).returncode == 0, "the operator makes it again"


def test_other_configmaps_are_nobodys_business(control_plane: Cluster, namespace: str) -> None:
    plain = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "app", "namespace": namespace},
        "data": {"a": "b"},
    }
    assert control_plane.apply(plain).returncode == 0
    where = ("configmap", "app", "-n", namespace)
    assert "forbidden" in control_plane.apply({**plain, "data": {"a": "c"}}, person="operator", check=False).stderr
    another = {**plain, "metadata": {"name": "mine", "namespace": namespace}}
    assert "carries no label inferplan.io/plan" in create(control_plane, another).stderr
    said = control_plane.kubectl("delete", *where, person="operator", check=False).stderr
    assert "carries no label inferplan.io/plan" in said


def test_the_operators_services_are_plain(control_plane: Cluster, namespace: str, uid: str) -> None:
    service = artifact(namespace, uid, "chat") | {
        "kind": "Service",
        "spec": {"type": "LoadBalancer", "selector": {"inferplan.io/plan": "chat"}, "ports": [{"port": 80}]},
    }
    for field in ("data", "immutable"):
        del service[field]
    assert "of type ClusterIP" in control_plane.apply(service, person="operator", check=False).stderr
    service["spec"]["type"] = "ClusterIP"
    assert control_plane.apply(service, person="operator", check=False).returncode == 0
    theirs = {**service, "metadata": {"name": "web", "namespace": namespace}}
    control_plane.apply(theirs)
    assert (
        "carries no label"
        in control_plane.apply(
            {**service, "metadata": {**service["metadata"], "name": "web"}}, person="operator", check=False
        ).stderr
    )
    service["spec"]["externalIPs"] = ["192.0.2.1"]
    assert "of type ClusterIP" in control_plane.apply(service, person="operator", check=False).stderr


def test_the_collector_may_let_go_of_artifacts(control_plane: Cluster, namespace: str, uid: str) -> None:
    """`kubectl delete --cascade=orphan` keeps what a plan made; the collector drops the owner references."""
    create(control_plane, artifact(namespace, uid)).check_returncode()
    control_plane.kubectl("delete", "ipl", "chat", "-n", namespace, "--cascade=orphan", "--wait=false")

    def orphaned() -> bool:
        kept = control_plane.get("configmap", "chat-0123456789ab", "-n", namespace)
        assert kept is not None
        return "ownerReferences" not in kept["metadata"]

    control_plane.wait(orphaned, 90, "the owner reference to go", poll=1)


def test_the_operator_publishes_its_inputs(control_plane: Cluster) -> None:
    inputs = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "inferplan-inputs", "namespace": "inferplan-system"},
        "data": {"inputs.json": "{}"},
    }
    assert control_plane.apply(inputs, person="operator", check=False).returncode == 0
    assert control_plane.get("configmap", "inferplan-inputs", "-n", "inferplan-system", person="viewer") is not None
    secrets = ("auth", "can-i", "get", "secrets", "-A")
    assert control_plane.kubectl(*secrets, person="operator", check=False).stdout.strip() == "no"
