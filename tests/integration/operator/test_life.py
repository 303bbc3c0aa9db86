"""A plan's life as its users see it: recommended, approved, deployed, kept, frozen, gone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from cluster import NAMESPACE, Cluster

pytestmark = pytest.mark.cluster

NewPlan = Callable[..., "Plan"]  # noqa: F821 (see conftest)


def test_from_apply_to_a_deployment_of_the_approved_digest(plan: NewPlan) -> None:
    chat = plan().apply()
    digest = chat.recommended()
    assert chat.condition("Approved")["reason"] == "AwaitingApproval"
    assert chat.condition("Approved")["message"].endswith(f"--digest {digest}")
    assert chat.condition("GateInstalled")["status"] == "True"
    assert chat.child() is None

    chat.approve(digest)
    deployment = chat.deployed()
    assert deployment["metadata"]["annotations"]["inferplan.io/digest"] == digest
    assert "inferplan.io/digest" not in (deployment["spec"]["template"]["metadata"].get("annotations") or {})
    owner = deployment["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("InferencePlan", "chat", True)
    chat.until("Deployed", "Deployed")
    assert chat.child("service") is not None
    assert chat.status()["deployed"]["digest"] == digest
    assert chat.status()["observedGeneration"] == chat.get()["metadata"]["generation"]
    assert {"Planned", "Approved", "Deployed"} <= set(chat.events())


def test_nothing_of_ours_sits_on_the_user_s_object(plan: NewPlan) -> None:
    chat = plan().apply()
    chat.recommended()
    metadata = chat.get()["metadata"]
    assert not metadata.get("finalizers")
    assert not metadata.get("annotations")


def test_a_settled_plan_is_written_no_more(plan: NewPlan) -> None:
    chat = plan().apply()
    chat.approve(chat.recommended())
    chat.until("Deployed", "Deployed")
    time.sleep(2)
    before, service = chat.get()["metadata"]["resourceVersion"], chat.child("service")
    chat.cluster.kubectl("label", "ipl", "chat", "-n", chat.namespace, "looked=at")
    labelled = chat.get()["metadata"]["resourceVersion"]
    assert labelled != before
    time.sleep(2)
    assert chat.get()["metadata"]["resourceVersion"] == labelled
    assert chat.child("service") == service


def test_a_vanished_child_comes_back(plan: NewPlan) -> None:
    chat = plan().apply()
    digest = chat.recommended()
    chat.approve(digest)
    first = chat.deployed()
    chat.until("Deployed", "Deployed")
    for kind in ("deployment", "service"):
        chat.cluster.kubectl("delete", kind, "chat", "-n", chat.namespace)
        chat.cluster.wait(lambda kind=kind: chat.child(kind), 30, f"the {kind} again")
    again = chat.deployed()
    assert again["metadata"]["uid"] != first["metadata"]["uid"]
    assert again["metadata"]["annotations"]["inferplan.io/digest"] == digest
    assert again["spec"]["template"] == first["spec"]["template"]


def test_an_edit_by_hand_is_undone(plan: NewPlan) -> None:
    chat = plan().apply()
    chat.approve(chat.recommended())
    approved = chat.deployed()["spec"]["template"]["spec"]["containers"][0]["image"]
    chat.until("Deployed", "Deployed")
    edit = {"spec": {"template": {"spec": {"containers": [{"name": "vllm", "image": "docker.io/vllm/other:1"}]}}}}
    where = ("-n", chat.namespace, "--type=strategic", "-p", json.dumps(edit))
    chat.cluster.kubectl("patch", "deployment", "chat", *where)

    def image() -> str:
        return str(chat.deployed()["spec"]["template"]["spec"]["containers"][0]["image"])

    chat.cluster.wait(lambda: image() == approved, 30, "the approved image again")


@pytest.mark.parametrize("kind", ["Deployment", "Service"])
def test_an_object_of_the_plan_s_name_that_is_not_its_own_is_never_taken_over(plan: NewPlan, kind: str) -> None:
    chat = plan()
    spec = {
        "Deployment": {
            "selector": {"matchLabels": {"app": "mine"}},
            "template": {
                "metadata": {"labels": {"app": "mine"}},
                "spec": {"containers": [{"name": "mine", "image": "mine:1"}]},
            },
        },
        "Service": {"selector": {"app": "mine"}, "ports": [{"port": 80}]},
    }[kind]
    version = {"Deployment": "apps/v1", "Service": "v1"}[kind]
    metadata = {"name": "chat", "namespace": chat.namespace}
    chat.cluster.apply({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})
    chat.apply()
    chat.approve(chat.recommended())
    stalled = chat.until("Stalled", "NameConflict")
    assert f"{kind} chat" in stalled["message"]
    time.sleep(2)
    found = chat.child(kind.lower())
    assert found is not None
    assert not found["metadata"].get("ownerReferences")
    assert found["spec"]["selector"] == spec["selector"]
    assert all(entry["manager"] != "inferplan-operator" for entry in managed(chat, kind))
    if kind == "Service":
        assert chat.child() is None


def managed(chat: object, kind: str) -> list[dict[str, str]]:
    cluster: Cluster = chat.cluster  # type: ignore[attr-defined]
    where = ("-n", chat.namespace, "-o", "json", "--show-managed-fields")  # type: ignore[attr-defined]
    done = cluster.kubectl("get", kind.lower(), "chat", *where)
    found: list[dict[str, str]] = json.loads(done.stdout)["metadata"]["managedFields"]
    return found


def test_an_approval_does_not_outlive_the_spec_it_was_given_for(plan: NewPlan) -> None:
    chat = plan().apply(suspend=True)
    digest = chat.recommended()
    chat.approve(digest)
    chat.until("Approved", "Approved")
    assert chat.patch({"suspend": False, "workload": {"concurrency": 64}}).returncode == 0
    stale = chat.until("Approved", "ApprovalStale")
    assert "--digest" in stale["message"]
    time.sleep(2)
    assert chat.child() is None
    assert chat.digest() != digest
    chat.approve(str(chat.digest()))
    assert chat.deployed()["metadata"]["annotations"]["inferplan.io/digest"] == chat.digest()


def test_an_approved_deployment_keeps_running_while_a_newer_recommendation_waits(plan: NewPlan) -> None:
    chat = plan().apply()
    first = chat.recommended()
    chat.approve(first)
    deployed = chat.deployed()
    chat.until("Deployed", "Deployed")
    assert chat.patch({"workload": {"concurrency": 300}}).returncode == 0
    chat.cluster.wait(lambda: chat.digest() != first, 30, "another recommendation")
    assert chat.until("UpdateAvailable", "NewRecommendation")["status"] == "True"
    assert chat.status()["recommendation"]["changes"]
    now = chat.deployed()
    assert now["metadata"]["annotations"]["inferplan.io/digest"] == first
    assert now["metadata"]["generation"] == deployed["metadata"]["generation"]


def test_a_nonce_is_answered_once_even_by_the_same_offer(plan: NewPlan) -> None:
    chat = plan().apply(replan={"policy": "Manual"})
    digest = chat.recommended()
    assert chat.patch({"replan": {"nonce": "2"}}).returncode == 0
    chat.cluster.wait(lambda: chat.status().get("handledNonce") == "2", 30, "the nonce to be answered")
    dearer = {
        "apiVersion": "inferplan.io/v1alpha1",
        "kind": "GPUProfile",
        "metadata": {"name": "dearer"},
        "spec": {"gpuType": chat.status()["recommendation"]["decision"]["gpuType"], "price": {"usdPerHour": "99"}},
    }
    chat.cluster.apply(dearer)
    try:
        other = plan("other").apply()
        other.cluster.wait(
            lambda: other.digest() and "99" in json.dumps(published(other)), 30, "the price in the inputs"
        )
        time.sleep(2)
        assert chat.digest() == digest, "a price moved, and nobody asked"
    finally:
        chat.cluster.kubectl("delete", "gpuprofile", "dearer")


def published(chat: object) -> dict[str, Any]:
    found = chat.cluster.get("configmap", "inferplan-inputs", "-n", NAMESPACE)  # type: ignore[attr-defined]
    prices: dict[str, Any] = dict(json.loads(found["data"]["inputs.json"])["inputs"]["prices"])
    return prices


def test_revoking_freezes_and_tears_nothing_down(plan: NewPlan) -> None:
    chat = plan().apply()
    chat.approve(chat.recommended())
    chat.until("Deployed", "Deployed")
    chat.cluster.kubectl(
        "patch", "ipl", "chat", "-n", chat.namespace, "--type=json", "-p", '[{"op":"remove","path":"/spec/approval"}]'
    )
    chat.until("Approved", "Revoked")
    time.sleep(1)
    assert chat.child() is not None


def test_children_go_with_their_plan(plan: NewPlan) -> None:
    chat = plan().apply()
    chat.approve(chat.recommended())
    chat.deployed()
    chat.cluster.kubectl("delete", "ipl", "chat", "-n", chat.namespace)
    chat.cluster.wait(lambda: chat.child() is None, 60, "the Deployment to go")


def test_a_plan_made_again_under_the_same_name_starts_over(plan: NewPlan) -> None:
    chat = plan().apply()
    digest = chat.recommended()
    chat.cluster.kubectl("delete", "ipl", "chat", "-n", chat.namespace)
    again = plan().apply()
    assert again.recommended() == digest
    assert again.condition("Approved")["reason"] == "AwaitingApproval"
