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


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tp": 2},
        {"gpu": "T4"},
        {"enforce_eager": True},
        {"weight_quant": "awq"},
        {"model": "zai-org/GLM-4.5-Air", "gpu": "H200", "tp": 2, "speculative": "mtp:1"},
        {"model": "ai21labs/AI21-Jamba-Mini-1.5", "gpu": "H200", "tp": 2},
        {"model": "deepseek-ai/DeepSeek-V4-Flash", "gpu": "H200", "tp": 4, "ep": True},
        {"model": "google/gemma-3-27b-it", "gpu": "H100", "pp": 2},
    ],
)
def test_the_bytes_add_up_to_the_card(changes: dict[str, Any]) -> None:
    _, found, point = account(**changes)
    assert sum(s.bytes for s in memory_slices(point)) == point.memory.total_memory_bytes
    assert sum(found["memory_bytes"].values()) == point.memory.total_memory_bytes
    assert sum(found["weights_bytes"].values()) == point.memory.weights_bytes_per_rank
    json.dumps(found, allow_nan=False)


def test_lines_fit_80_columns() -> None:
    text, _, _ = account(tp=2)
    assert max(len(line) for line in text.splitlines() if not line.startswith(("warning", '  "GPU', "TTFT"))) <= 80


def test_the_logged_line_is_vllms() -> None:
    text, found, point = account()
    tokens = f"{point.memory.kv_cache_tokens:,}"
    assert f"GPU KV cache size: {tokens} tokens" in text
    assert found["requests_at_once"] == requests_at_once(point) > 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tp": 2}, "on 2×L40S, "),
        ({"tp": 2, "pp": 2}, "on 4×L40S (TP 2, PP 2), "),
        ({"model": "Qwen/Qwen3-30B-A3B", "tp": 2, "dp": 2, "ep": True}, "on 4×L40S (TP 2, DP 2, EP), "),
    ],
)
def test_the_first_line_says_how_gpus_share_the_work(changes: dict[str, Any], said: str) -> None:
    text, _, _ = account(**changes)
    assert said in text.splitlines()[0]


def test_layers_are_told_apart_by_what_they_keep() -> None:
    text, found, _ = account(model="Qwen/Qwen3-Next-80B-A3B-Instruct", gpu="H200", tp=2, max_num_seqs=128)
    assert {g["kind"] for g in found["memory_per_layer_kind"]} == {"state", "full"}
    assert "routed experts" in text
    assert "state mixers" in text


def test_an_interval_is_shown_unless_the_bytes_are_given() -> None:
    guessed, _, _ = account()
    given, found, _ = account(available_kv_cache_bytes=10**10)
    assert "9 starts of 10" in guessed
    assert "9 starts of 10" not in given
    interval = found["kv_cache_tokens_interval"]
    assert interval["low"] == interval["high"] == found["kv_cache_tokens"]


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
