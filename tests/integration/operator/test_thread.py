"""The whole thread on a real API server: plan, recommendation, approval, Deployment, and what goes wrong on the way."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from operator_team import Team

PROGRAM = [sys.executable, "-c", "import sys; from inferplan_operator.cli import main; sys.exit(main())"]


def inferplan(team: Team, *arguments: str, person: str = "admin") -> subprocess.CompletedProcess[str]:
    config = ["--kubeconfig", str(team.cluster.kubeconfig(person))]
    return subprocess.run([*PROGRAM, *arguments, *config], capture_output=True, text=True, check=False)


def test_from_plan_to_pods(team: Team) -> None:
    team.apply()
    digest = team.digest()
    team.wait_for("Approved", "False", "AwaitingApproval")
    assert team.deployment() is None
    team.approve(digest)
    deployment = team.deployed(digest)
    owner = deployment["metadata"]["ownerReferences"][0]
    assert owner["uid"] == team.plan()["metadata"]["uid"]
    team.wait_for("Available", "True")
    pods = (team.cluster.get("pods", "-n", team.namespace) or {})["items"]
    assert {p["spec"]["nodeName"] for p in pods} == {"gpu-h100"}
    assert team.plan()["status"]["display"]["status"] == "Running"


@pytest.mark.parametrize("form", ["as written", "as stored"])
def test_the_command_line_ends_in_the_operators_digest(team: Team, tmp_path: Path, form: str) -> None:
    team.apply(person="editor")
    digest = team.digest()
    document = team.plan_object("chat") if form == "as written" else team.plan()
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(document))
    done = inferplan(team, "plan", "-f", str(path), "--inputs", "cluster", "--hub", "never", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["digest"] == digest


def test_the_artefact_is_immutable_and_owned(team: Team) -> None:
    team.apply()
    digest = team.digest()
    name = f"chat-{digest.removeprefix('sha256:')[:12]}"
    artifact = team.cluster.get("configmap", name, "-n", team.namespace)
    assert artifact is not None
    assert artifact["immutable"] is True
    assert artifact["metadata"]["ownerReferences"][0]["kind"] == "InferencePlan"


def test_an_update_waits_while_the_approved_one_runs(team: Team) -> None:
    team.apply()
    digest = team.digest()
    team.approve(digest)
    team.deployed(digest)
    workload = {**team.plan_object("chat")["spec"]["workload"], "concurrency": 400}
    patch = json.dumps({"spec": {"workload": workload}})
    team.cluster.kubectl("patch", "ipl", "chat", "-n", team.namespace, "--type=merge", "-p", patch, person="editor")
    team.wait_for("UpdateAvailable", "True")
    assert team.digest() != digest
    team.deployed(digest)


def test_a_vanished_deployment_is_made_again(team: Team) -> None:
    team.apply()
    digest = team.digest()
    team.approve(digest)
    first = team.deployed(digest)["metadata"]["uid"]
    team.cluster.kubectl("delete", "deployment", "chat", "-n", team.namespace)
    team.cluster.wait(lambda: team.deployed(digest)["metadata"]["uid"] != first, 60, "another Deployment")


def test_a_hand_edit_is_undone(team: Team) -> None:
    team.apply()
    digest = team.digest()
    team.approve(digest)
    image = team.deployed(digest)["spec"]["template"]["spec"]["containers"][0]["image"]
    patch = json.dumps({"spec": {"template": {"spec": {"containers": [{"name": "vllm", "image": "evil:1"}]}}}})
    team.cluster.kubectl("patch", "deployment", "chat", "-n", team.namespace, "-p", patch)

    def restored() -> bool:
        return bool(team.deployed(digest)["spec"]["template"]["spec"]["containers"][0]["image"] == image)

    team.cluster.wait(restored, 60, "the approved image again")


def test_a_deployment_of_somebody_else_is_left_alone(team: Team) -> None:
    foreign = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat", "namespace": team.namespace, "labels": {"mine": "yes"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "registry.k8s.io/pause"}]},
            },
        },
    }
    team.cluster.apply(foreign)
    team.apply()
    team.approve(team.digest())
    team.wait_for("Stalled", "True", "NameConflict")
    deployment = team.deployment()
    assert deployment is not None
    assert deployment["metadata"]["labels"] == {"mine": "yes"}
    assert deployment["spec"]["template"]["spec"]["containers"][0]["name"] == "c"


BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "gpu": ({"constraints": {"gpuTypes": ["NoSuchGPU"]}}, "InputsResolved", "NoSuchGPU"),
    "model": ({"model": {"id": "org/no-such-model"}}, "InputsResolved", "org/no-such-model"),
    "class": ({"model": {"id": "mistralai/Mixtral-8x7B-v0.1"}}, "InputsResolved", "MixtralForCausalLM"),
    "token": (
        {"model": {"id": "Qwen/Qwen3-8B", "tokenSecretRef": {"name": "none"}}},
        "InputsResolved",
        "spec.model.tokenSecretRef",
    ),
    "room": ({"model": {"id": "Qwen/Qwen3-32B"}, "constraints": {"gpuTypes": ["T4"], "maxGPUs": 1}}, "Feasible", "T4"),
    "budget": ({"constraints": {"gpuTypes": ["H100-SXM"], "maxHourlyCost": "0.01"}}, "Feasible", "maxHourlyCost"),
    "context": ({"constraints": {"minContextLength": 9_999_999}}, "InputsResolved", "minContextLength"),
}


def test_what_can_not_be_planned_says_why_and_delays_nobody(team: Team) -> None:
    for name, (changes, _, _) in BAD.items():
        team.apply(f"bad-{name}", **changes)
    started = time.monotonic()
    team.apply("good")
    team.digest("good")
    assert time.monotonic() - started < 30
    for name, (_, kind, said) in BAD.items():
        team.wait_for(kind, "False", name=f"bad-{name}")
        assert said in team.condition(kind, f"bad-{name}")["message"]
        assert team.plan(f"bad-{name}")["status"]["observedGeneration"] == 1


def test_deleting_a_plan_takes_its_children(team: Team) -> None:
    team.apply()
    digest = team.digest()
    team.approve(digest)
    team.deployed(digest)
    team.cluster.kubectl("delete", "ipl", "chat", "-n", team.namespace, person="editor")
    team.cluster.wait(lambda: team.deployment() is None, 60, "the Deployment to go with its plan")


def test_approve_and_status_as_people_use_them(team: Team) -> None:
    team.apply()
    digest = team.digest()
    shown = inferplan(team, "approve", "chat", "-n", team.namespace, person="approver")
    assert shown.returncode == 3
    assert digest in shown.stdout
    refused = inferplan(team, "approve", "chat", "-n", team.namespace, "--yes", person="editor")
    assert refused.returncode == 2
    assert "may not approve" in refused.stderr
    wrong = inferplan(team, "approve", "chat", "-n", team.namespace, "--digest", "0" * 12, "--yes", person="approver")
    assert wrong.returncode == 2
    assert "not on offer" in wrong.stderr
    done = inferplan(
        team, "approve", "chat", "-n", team.namespace, "--yes", "--reason", "looked at it", person="approver"
    )
    assert done.returncode == 0, done.stderr
    team.deployed(digest)
    managers = {
        m["manager"]
        for m in (team.cluster.get("ipl", "chat", "-n", team.namespace, "--show-managed-fields") or {})["metadata"][
            "managedFields"
        ]
    }
    assert "inferplan-approver" in managers
    status = inferplan(team, "status", "chat", "-n", team.namespace, person="viewer")
    assert status.returncode == 0
    assert "Conditions" in status.stdout


def test_a_restarted_operator_goes_on_where_it_was(team: Team) -> None:
    team.apply()
    digest = team.digest()
    before = team.plan()["status"]
    team.cluster.stop_process("operator")
    team.approve(digest)
    team.cluster.start_operator()
    team.deployed(digest)
    team.wait_for("Available", "True")
    after = team.plan()["status"]
    assert after["recommendation"]["digest"] == before["recommendation"]["digest"]
    events = (team.cluster.get("events", "-n", team.namespace) or {})["items"]
    reasons = [e["reason"] for e in events if e["involvedObject"]["kind"] == "InferencePlan"]
    assert sorted(reasons) == ["Approved", "Deployed", "Planned"]
