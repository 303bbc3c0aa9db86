"""The operator's process: restarts, leadership, a clean end, errors at start."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import NAMESPACE, Cluster

pytestmark = pytest.mark.cluster

NewPlan = Callable[..., "Plan"]  # noqa: F821 (see conftest)


def holder(cluster: Cluster) -> str:
    lease = cluster.get("lease", "inferplan-operator", "-n", NAMESPACE)
    return "" if lease is None else str(lease["spec"].get("holderIdentity") or "")


def restart(cluster: Cluster, config: Path, *, number: int) -> None:
    """End the session's operator by a signal and start it again as the same pod."""
    process = cluster.process("operator")
    process.send_signal(number)
    process.wait(10)
    cluster.stop_process("operator")
    cluster.start_operator("--config", str(config))


def test_what_was_approved_while_the_operator_was_dead_is_deployed_when_it_is_back(
    plan: NewPlan, operator: Cluster, config: Path
) -> None:
    chat = plan().apply()
    digest = chat.recommended()
    operator.process("operator").send_signal(signal.SIGSTOP)
    chat.approve(digest)
    restart(operator, config, number=signal.SIGKILL)
    assert chat.deployed()["metadata"]["annotations"]["inferplan.io/digest"] == digest
    chat.until("Deployed", "Deployed")
    maps = operator.get("configmap", "-n", chat.namespace, "-l", "inferplan.io/plan=chat") or {}
    assert [found["metadata"]["name"] for found in maps["items"]] == [f"chat-{digest.removeprefix('sha256:')[:12]}"]
    assert sorted(chat.events()) == ["Approved", "Deployed", "Planned"]


def test_a_restart_changes_nothing(plan: NewPlan, operator: Cluster, config: Path) -> None:
    waiting, running = plan("waiting").apply(), plan("running").apply()
    waiting.recommended()
    running.approve(running.recommended())
    running.until("Deployed", "Deployed")
    time.sleep(1)
    before = [each.get()["metadata"]["resourceVersion"] for each in (waiting, running)]
    restart(operator, config, number=signal.SIGTERM)
    plan("later").apply().recommended()
    time.sleep(2)
    assert [each.get()["metadata"]["resourceVersion"] for each in (waiting, running)] == before


def test_of_two_operators_one_leads_and_the_other_takes_over_at_once(
    plan: NewPlan, operator: Cluster, config: Path
) -> None:
    operator.wait(lambda: holder(operator) == "inferplan-operator", 30, "the first to lead")
    operator.start_operator("--config", str(config), name="second")
    try:
        operator.wait(lambda: '"synced"' in operator.log("second"), 30, "the second to be ready")
        time.sleep(2)
        assert holder(operator) == "inferplan-operator"
        assert '"leading"' not in operator.log("second")
        operator.stop_process("operator")
        started = time.monotonic()
        operator.wait(lambda: holder(operator) == "inferplan-second", 10, "the second to lead", poll=0.05)
        assert time.monotonic() - started < 4
        plan().apply().recommended()
    finally:
        operator.stop_process("second")
        if not operator.runs("operator"):
            operator.start_operator("--config", str(config))


def test_a_clean_end_gives_the_lease_back(operator: Cluster, config: Path) -> None:
    operator.wait(lambda: holder(operator) == "inferplan-operator", 30, "it to lead")
    process = operator.process("operator")
    started = time.monotonic()
    process.terminate()
    assert process.wait(10) == 0
    assert time.monotonic() - started < 5
    assert holder(operator) == ""
    operator.stop_process("operator")
    operator.start_operator("--config", str(config))


def test_inputs_are_published_and_follow_the_nodes(operator: Cluster) -> None:
    def inventory() -> list[dict[str, object]]:
        found = operator.get("configmap", "inferplan-inputs", "-n", NAMESPACE)
        pools: list[dict[str, object]] = (
            json.loads(found["data"]["inputs.json"])["inputs"]["inventory"] if found else []
        )
        return pools

    operator.wait(inventory, 30, "the inputs")
    assert {"gpu_type": "L40S", "nodes": 1, "gpus_per_node": 4} in inventory()
    operator.add_gpu_node("gpu-late", "A100-SXM-80GB", 4)
    wanted = {"gpu_type": "A100-SXM-80GB", "nodes": 1, "gpus_per_node": 4}
    operator.wait(lambda: wanted in inventory(), 20, "the late node in the inputs")
    operator.kubectl("delete", "node", "gpu-late")
    operator.wait(lambda: wanted not in inventory(), 20, "the node to leave the inputs")


def test_the_command_line_gives_the_same_digest_for_the_published_inputs(plan: NewPlan, operator: Cluster) -> None:
    chat = plan().apply()
    digest = chat.recommended()
    command = [str(Path(sys.executable).parent / "inferplan"), "plan", "-f", "-", "-o", "json"]
    command += ["--inputs", "cluster", "--hub", "never"]
    environment = {**os.environ, "KUBECONFIG": str(operator.kubeconfig("admin"))}
    text = json.dumps(chat.document)
    done = subprocess.run(command, input=text, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["digest"] == digest


def run_operator(operator: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).parent / "inferplan-operator")
    environment = {**os.environ, "KUBECONFIG": str(operator.kubeconfig("operator"))}
    return subprocess.run(
        [program, "run", *arguments], capture_output=True, text=True, env=environment, timeout=30, check=False
    )


def test_a_chosen_port_that_is_taken_is_said(operator: Cluster) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))  # noqa: S104 (as the operator itself does)
        taken.listen()
        port = taken.getsockname()[1]
        done = run_operator(operator, "--port", str(port))
    assert done.returncode == 2
    assert f"port {port}" in done.stderr
    assert "--port" in done.stderr


def test_a_bad_configuration_is_said(operator: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("prometheus: {uri: x}\n")
    done = run_operator(operator, "--config", str(path))
    assert done.returncode == 2
    assert "unknown field 'prometheus.uri'; known here: url" in done.stderr
