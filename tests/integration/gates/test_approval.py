"""The approval gate: granting needs the verb, and only what is on offer can be granted.

Every test runs on today's Kubernetes and on the oldest supported one.
"""

from __future__ import annotations

import copy
import json
import subprocess
import uuid
from typing import Any

import pytest
from cluster import Cluster

from samples import CHAT

pytestmark = pytest.mark.cluster

OFFERED = "sha256:" + "a1" * 32
RETAINED = "sha256:" + "b2" * 32
UNKNOWN = "sha256:" + "c3" * 32


class Plan:
    """A plan in a namespace of its own, with a recommendation on offer; changed by the people named."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.namespace = f"approval-{uuid.uuid4().hex[:8]}"
        cluster.ensure_namespace(self.namespace)
        cluster.apply(self.document(), person="editor")
        self.offer(OFFERED, RETAINED)

    def document(self, **approval: Any) -> dict[str, Any]:
        document = copy.deepcopy(CHAT)
        document["metadata"] = {"name": "chat", "namespace": self.namespace}
        if approval:
            document["spec"]["approval"] = approval
        return document

    def offer(self, *digests: str) -> None:
        document = self.document()
        del document["spec"]
        document["status"] = {"offeredDigests": list(digests)}
        command = ("apply", "--server-side", "--subresource=status", "-f", "-")
        self.cluster.kubectl(*command, person="operator", stdin=json.dumps(document))

    def patch(self, patch: dict[str, Any], person: str) -> subprocess.CompletedProcess[str]:
        command = ("patch", "ipl", "chat", "-n", self.namespace, "--type=merge", "-p", json.dumps(patch))
        return self.cluster.kubectl(*command, person=person, check=False)

    def approve(self, digest: str | None, person: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.patch({"spec": {"approval": {"digest": digest, **more}}}, person)

    def approved(self) -> str | None:
        stored = self.cluster.get("ipl", "chat", "-n", self.namespace)
        assert stored is not None
        digest: str | None = stored["spec"].get("approval", {}).get("digest")
        return digest


@pytest.fixture(params=["control_plane", "older_control_plane"], ids=["current", "1.34"], scope="module")
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def plan(cluster: Cluster) -> Plan:
    return Plan(cluster)


def refused(done: subprocess.CompletedProcess[str], *said: str) -> bool:
    return done.returncode != 0 and all(text in done.stderr for text in said)


def test_an_editor_may_change_the_plan_but_not_approve(plan: Plan) -> None:
    assert plan.patch({"spec": {"workload": {"concurrency": 8}}}, "editor").returncode == 0
    done = plan.approve(OFFERED, "editor")
    assert refused(done, "user edith may not approve", "verb approve", f"chat in namespace {plan.namespace}")
    assert plan.approved() is None


def test_no_other_way_of_writing_gets_an_editor_around_the_verb(plan: Plan) -> None:
    granted = json.dumps(plan.document(digest=OFFERED))
    applied = ("apply", "--server-side", "--force-conflicts", "--field-manager=inferplan-operator", "-f", "-")
    assert refused(plan.cluster.kubectl(*applied, person="editor", stdin=granted, check=False), "may not approve")
    replaced = plan.cluster.kubectl("replace", "-f", "-", person="editor", stdin=granted, check=False)
    assert refused(replaced, "may not approve")
    another = plan.document(digest=OFFERED)
    another["metadata"] = {"generateName": "chat-", "namespace": plan.namespace}
    created = plan.cluster.kubectl("create", "-f", "-", person="editor", stdin=json.dumps(another), check=False)
    assert refused(created, "may not approve")
    intent_too = {"spec": {"approval": {"digest": OFFERED}, "workload": {"concurrency": 5}}}
    assert refused(plan.patch(intent_too, "editor"), "may not approve")
    assert plan.approved() is None


def test_an_approver_may_approve_what_is_on_offer(plan: Plan) -> None:
    assert plan.approve(OFFERED, "approver", reason="looked at it").returncode == 0
    assert plan.approved() == OFFERED
    assert plan.approve(RETAINED, "approver").returncode == 0, "a retained one is a rollback"


def test_what_was_never_offered_is_refused(plan: Plan) -> None:
    assert refused(plan.approve(UNKNOWN, "approver"), UNKNOWN, "not on offer")
    assert refused(plan.approve(UNKNOWN, "approver", pin=True), UNKNOWN, "not on offer")
    assert plan.approved() is None


def test_applying_an_approved_plan_again_is_no_grant_even_when_it_is_stale(plan: Plan) -> None:
    plan.approve(OFFERED, "approver").check_returncode()
    plan.cluster.apply(plan.document(digest=OFFERED), person="editor")
    plan.offer(UNKNOWN)
    plan.cluster.apply(plan.document(digest=OFFERED), person="editor")
    assert plan.patch({"spec": {"suspend": True}}, "editor").returncode == 0
    assert plan.approved() == OFFERED


def test_an_editor_may_revoke_but_not_bring_back(plan: Plan) -> None:
    plan.approve(OFFERED, "approver").check_returncode()
    assert plan.patch({"spec": {"approval": None}}, "editor").returncode == 0
    assert plan.approved() is None
    assert refused(plan.approve(OFFERED, "editor"), "may not approve")


def test_pinning_and_rewriting_the_reason_are_grants_too(plan: Plan) -> None:
    plan.approve(OFFERED, "approver", reason="measured").check_returncode()
    assert refused(plan.approve(OFFERED, "editor", pin=True), "may not approve")
    assert refused(plan.approve(OFFERED, "editor", reason="says edith"), "may not approve")
    assert plan.approve(OFFERED, "approver", pin=True).returncode == 0
    assert plan.approve(OFFERED, "editor", pin=False).returncode == 0, "unpinning takes away"


def test_a_digest_computed_beforehand_comes_with_its_intent(plan: Plan) -> None:
    """One commit with a changed spec and the digest that CI computed for it; never with a pin."""
    pinned = {"spec": {"approval": {"digest": UNKNOWN, "pin": True}, "workload": {"concurrency": 5}}}
    assert refused(plan.patch(pinned, "approver"), "not on offer")
    together = {"spec": {"approval": {"digest": UNKNOWN}, "workload": {"concurrency": 5}}}
    assert plan.patch(together, "approver").returncode == 0
    exempt = {"spec": {"approval": {"digest": OFFERED[:-1] + "0"}, "suspend": True, "replan": {"nonce": "x"}}}
    assert refused(plan.patch(exempt, "approver"), "not on offer")


def test_creating_an_approved_plan_needs_the_verb(plan: Plan) -> None:
    document = plan.document(digest=UNKNOWN)
    document["metadata"]["name"] = "second"
    assert refused(plan.cluster.apply(document, person="editor", check=False), "may not approve")
    assert plan.cluster.apply(document, person="admin", check=False).returncode == 0


def test_the_operator_can_never_approve(plan: Plan) -> None:
    assert refused(plan.approve(OFFERED, "operator"), "forbidden")
    may = plan.cluster.kubectl("auth", "can-i", "approve", "ipl", "-A", person="operator", check=False)
    assert may.stdout.strip() == "no"


@pytest.mark.parametrize("role", ["view", "edit", "admin", "inferplan-editor", "inferplan-viewer"])
def test_no_built_in_role_brings_the_verb(plan: Plan, role: str) -> None:
    plan.cluster.kubectl("create", "rolebinding", role, f"--clusterrole={role}", "--user=bob", "-n", plan.namespace)
    as_bob = ("-n", plan.namespace, "--as=bob")
    see = ("auth", "can-i", "get", "ipl", *as_bob)
    plan.cluster.wait(lambda: plan.cluster.kubectl(*see, check=False).stdout.strip() == "yes", 20, f"{role} sees plans")
    assert plan.cluster.kubectl("auth", "can-i", "approve", "ipl", *as_bob, check=False).stdout.strip() == "no"
