"""`kubectl inferplan approve` and `status` as people use them, found by kubectl as a plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NewPlan = Callable[..., Any]


def test_approving_shows_asks_and_names_its_own_field_manager(plan: NewPlan) -> None:
    chat = plan().apply()
    digest = chat.recommended()
    where = ("chat", "-n", chat.namespace)
    shown = chat.cluster.plugin("approve", *where, person="approver")
    assert shown.returncode == 3, "no terminal to ask on is a no"
    assert digest in shown.stdout
    assert "Nothing runs yet" in shown.stdout
    refused = chat.cluster.plugin("approve", *where, "--yes", person="editor")
    assert refused.returncode == 2
    assert "may not approve" in refused.stderr
    wrong = chat.cluster.plugin("approve", *where, "--digest", "0" * 12, "--yes", person="approver")
    assert wrong.returncode == 2
    assert "not on offer" in wrong.stderr
    assert chat.child() is None
    done = chat.cluster.plugin("approve", *where, "--yes", "--reason", "looked at it", person="approver")
    assert done.returncode == 0, done.stderr
    assert chat.deployed()["metadata"]["annotations"]["inferplan.io/digest"] == digest
    managed = chat.cluster.get("ipl", *where, "--show-managed-fields") or {}
    assert "inferplan-approver" in {m["manager"] for m in managed["metadata"]["managedFields"]}


def test_an_update_is_shown_as_a_difference_from_what_runs(plan: NewPlan) -> None:
    chat = plan().apply()
    digest = chat.recommended()
    chat.approve(digest)
    chat.deployed()
    chat.patch({"workload": {"concurrency": 400}})
    chat.until("UpdateAvailable", "NewRecommendation")
    shown = chat.cluster.plugin("approve", "chat", "-n", chat.namespace, person="approver")
    assert "Changes from" in shown.stdout
    assert "replicas: " in shown.stdout


def test_status_tells_a_viewer_where_a_plan_stands(plan: NewPlan) -> None:
    chat = plan().apply()
    chat.recommended()
    status = chat.cluster.plugin("status", "chat", "-n", chat.namespace, person="viewer")
    assert status.returncode == 0, status.stderr
    for part in ("AwaitingApproval", "TTFT p95", "Conditions", "GateInstalled"):
        assert part in status.stdout
    missing = chat.cluster.plugin("status", "nothing", "-n", chat.namespace, person="viewer")
    assert missing.returncode == 2
    assert "no InferencePlan 'nothing'" in missing.stderr


def test_a_rollback_under_a_changed_spec_is_an_approval_with_pin(plan: NewPlan) -> None:
    chat = plan().apply()
    first = chat.recommended()
    where = ("chat", "-n", chat.namespace, "--yes")
    assert chat.cluster.plugin("approve", *where, person="approver").returncode == 0
    chat.until("Deployed", "Deployed")
    chat.patch({"workload": {"concurrency": 400}})
    chat.until("UpdateAvailable", "NewRecommendation")
    second = chat.recommended()
    assert chat.cluster.plugin("approve", *where, person="approver").returncode == 0
    chat.cluster.wait(lambda: _runs(chat, second), 30, "the second one to run")
    chat.until("Deployed", "Deployed")
    hinted = chat.cluster.plugin("approve", *where, "--digest", first, person="approver")
    assert "--pin" in hinted.stdout
    chat.until("Approved", "ApprovalStale")
    assert _runs(chat, second)
    assert chat.cluster.plugin("approve", *where, "--digest", first, "--pin", person="approver").returncode == 0
    chat.cluster.wait(lambda: _runs(chat, first), 30, "the first one to run again")


def _runs(chat: Any, digest: str) -> bool:
    return bool(chat.deployed()["metadata"]["annotations"]["inferplan.io/digest"] == digest)


def test_an_api_server_that_is_not_there_is_one_line(plan: NewPlan, tmp_path: Any) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(
        "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {}}]\ncurrent-context: a\n"
    )
    said = plan().cluster.plugin("status", "chat", "--kubeconfig", str(config), person="viewer")
    assert said.returncode == 2
    assert "can't be reached" in said.stderr
    assert "Traceback" not in said.stderr
