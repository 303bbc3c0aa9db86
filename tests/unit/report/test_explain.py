"""The account of memory and time: it adds up, fits a terminal, and is the same in JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from inferplan.cases import Case, question_of
from inferplan.performance import predict
from inferplan.report.explain import explain_json, explain_text, memory_slices, requests_at_once
from inferplan_operator import cli

CASE = {"model": "Qwen/Qwen3-8B", "gpu": "L40S", "isl": 1024, "osl": 256, "concurrency": 8}


def account(**changes: Any) -> tuple[str, dict[str, Any], Any]:
    question = question_of(Case.model_validate({**CASE, **changes}), "never")
    performance = predict([question.point])[0]
    text = explain_text(question.point, performance, question.warnings)
    return text, explain_json(question.point, performance, question.warnings), question.point


@pytest.mark.parametrize("changes", [{}, {"tp": 2}, {"gpu": "T4"}, {"enforce_eager": True}, {"weight_quant": "awq"}])
def test_the_bytes_add_up_to_the_card(changes: dict[str, Any]) -> None:
    _, found, point = account(**changes)
    assert sum(s.bytes for s in memory_slices(point)) == point.memory.total_memory_bytes
    assert sum(found["memory_bytes"].values()) == point.memory.total_memory_bytes
    json.dumps(found, allow_nan=False)


def test_lines_fit_80_columns() -> None:
    text, _, _ = account(tp=2)
    assert max(len(line) for line in text.splitlines() if not line.startswith(("warning", '  "GPU', "TTFT"))) <= 80


def test_the_logged_line_is_vllms() -> None:
    text, found, point = account()
    tokens = f"{point.memory.kv_cache_tokens:,}"
    assert f"GPU KV cache size: {tokens} tokens" in text
    assert found["requests_at_once"] == requests_at_once(point) > 1


def test_what_would_not_start_says_why() -> None:
    text, found, _ = account(gpu="T4")
    assert "vLLM would refuse to start" in text
    assert "refused: NoMemoryLeft" in text
    assert found["starts"] is False


def test_a_wrong_argument_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["inferplan", "explain", "Qwen/Qwen3-8B", "H9000", "--hub", "never"])
    assert cli.main() == 2
    error = capsys.readouterr().err
    assert "UnknownGPU" in error
    assert error.count("\n") == 1
