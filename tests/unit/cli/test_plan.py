"""`inferplan plan`: the file of `kubectl apply` in, the recommendation out, without a cluster or a network."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan_operator import cli

ROOT = Path(__file__).parents[3]
CHAT = ROOT / "examples/chat-8b.yaml"


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["inferplan", *arguments])
    code = cli.main()
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def plan_file(tmp_path: Path) -> Any:
    def write(**changes: Any) -> str:
        document = yaml.safe_load(CHAT.read_text())
        document["spec"] = {**document["spec"], **changes}
        path = tmp_path / "plan.yaml"
        path.write_text(yaml.safe_dump(document))
        return str(path)

    return write


def test_the_table_says_what_to_decide_on(capsys: Any, monkeypatch: Any) -> None:
    code, out, _ = run(capsys, monkeypatch, "plan", "-f", str(CHAT), "--hub", "never")
    assert code == 0
    for part in ("TTFT p95", "90 % range", "Basis", "Why", "Alternatives and why not", "Warnings", "sha256:"):
        assert part in out
    assert "\x1b[" not in out


def test_every_form_names_the_same_digest(capsys: Any, monkeypatch: Any) -> None:
    forms = {
        form: run(capsys, monkeypatch, "plan", "-f", str(CHAT), "--hub", "never", "-o", form)[1]
        for form in ("table", "json", "yaml", "markdown")
    }
    digest = json.loads(forms["json"])["digest"]
    assert yaml.safe_load(forms["yaml"])["digest"] == digest
    assert digest in forms["table"]
    assert digest in forms["markdown"]


def test_all_of_vllms_arguments_are_visible(capsys: Any, monkeypatch: Any) -> None:
    _, out, _ = run(capsys, monkeypatch, "plan", "-f", str(CHAT), "--hub", "never", "-o", "yaml")
    deployment = next(m for m in yaml.safe_load(out)["manifests"] if m["kind"] == "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    names = {a.partition("=")[0] for a in container["args"]}
    assert {"--tensor-parallel-size", "--max-model-len", "--max-num-seqs", "--gpu-memory-utilization"} <= names


def test_what_fits_nowhere_ends_with_1_and_a_way_out(capsys: Any, monkeypatch: Any, plan_file: Any) -> None:
    path = plan_file(model={"id": "Qwen/Qwen3-32B"}, constraints={"gpuTypes": ["T4"], "maxGPUs": 1})
    for form in ("table", "json", "markdown"):
        code, out, _ = run(capsys, monkeypatch, "plan", "-f", path, "--hub", "never", "-o", form)
        assert code == 1
        assert "NoMemoryLeft" in out


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"constraints": {"gpuTypes": ["NoSuchGPU"]}}, "NoSuchGPU"),
        ({"model": {"id": "org/model;rm"}}, "model.id"),
        ({"model": {"id": "org/nothing"}}, "org/nothing"),
        (
            {"workload": {"inputTokens": {"p50": 9, "p95": 3}, "outputTokens": {"p50": 1, "p95": 2}, "concurrency": 1}},
            "p95",
        ),
        ({"somethingElse": 1}, "somethingElse"),
        ({"runtime": {"extraArgs": ["--trust-remote-code"]}}, "trust-remote-code"),
        ({"runtime": {"extraArgs": ["--max-model-len=lots"]}}, "max-model-len"),
        ({"constraints": {"minContextLength": 999999}}, "minContextLength"),
    ],
)
def test_bad_input_is_one_line_that_names_it(
    capsys: Any, monkeypatch: Any, plan_file: Any, changes: dict[str, Any], said: str
) -> None:
    code, out, err = run(capsys, monkeypatch, "plan", "-f", plan_file(**changes), "--hub", "never")
    assert code == 2
    assert said in err
    assert "Traceback" not in err
    assert out == ""


def test_a_file_that_is_none_is_named(capsys: Any, monkeypatch: Any, tmp_path: Path) -> None:
    code, _, err = run(capsys, monkeypatch, "plan", "-f", str(tmp_path / "none.yaml"))
    assert code == 2
    assert "none.yaml" in err


def test_the_digest_does_not_depend_on_hash_seed_or_cpu_features() -> None:
    command = [sys.executable, "-c", "import sys; from inferplan_operator.cli import main; sys.exit(main())"]
    command += ["plan", "-f", str(CHAT), "--hub", "never", "-o", "json"]
    plain = {"PYTHONHASHSEED": "1", "PATH": "/usr/bin"}
    slow = {"PYTHONHASHSEED": "2", "PATH": "/usr/bin", "NPY_DISABLE_CPU_FEATURES": _switchable()}
    digests = {
        json.loads(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)["digest"]
        for env in (plain, slow)
    }
    assert len(digests) == 1


def _switchable() -> str:
    """CPU features that numpy dispatches on and this machine has."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__  # type: ignore[import-not-found]

    return " ".join(f for f in __cpu_dispatch__ if __cpu_features__.get(f))


def test_spelling_out_a_default_or_the_order_of_keys_changes_no_digest(
    capsys: Any, monkeypatch: Any, plan_file: Any
) -> None:
    objectives = {"ttftP95Ms": 2000, "tpotP95Ms": 50, "minimise": "Cost", "judgeBy": "Pessimistic"}
    digests = set()
    for changes in ({}, {"objectives": objectives}, {"objectives": dict(reversed(objectives.items()))}):
        _, out, _ = run(capsys, monkeypatch, "plan", "-f", plan_file(**changes), "--hub", "never", "-o", "json")
        digests.add(json.loads(out)["digest"])
    assert len(digests) == 1


def test_approval_suspension_and_drift_are_no_part_of_the_digest(capsys: Any, monkeypatch: Any, plan_file: Any) -> None:
    digests = set()
    for changes in (
        {},
        {"suspend": True},
        {"approval": {"digest": "sha256:" + "0" * 64}},
        {"drift": {"window": "5m"}},
        {"revisionHistoryLimit": 1},
        {"replan": {"nonce": "again"}},
    ):
        _, out, _ = run(capsys, monkeypatch, "plan", "-f", plan_file(**changes), "--hub", "never", "-o", "json")
        digests.add(json.loads(out)["digest"])
    assert len(digests) == 1
