"""`inferplan predict`: one answer per case, in order, whatever the case is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplan.cases import answer_cases
from inferplan.cli import VERBS, run_verbs
from inferplan.hardware import catalog

GOOD: dict[str, Any] = {
    "id": "good",
    "model": "Qwen/Qwen3-8B",
    "gpu": "H100",
    "isl": 1024,
    "osl": 256,
    "concurrency": 32,
}
CONTRACT = {
    "id",
    "max_model_len",
    "max_num_seqs",
    "weights_bytes_per_rank",
    "activation_bytes",
    "non_torch_bytes",
    "cuda_graph_bytes",
    "available_kv_cache_bytes",
    "kv_groups",
    "num_gpu_blocks",
    "kv_cache_tokens",
    "max_concurrency",
    "requests_that_fit",
    "starts",
    "start_errors",
    "ttft_ms",
    "tpot_ms",
    "e2e_ms",
    "output_tokens_per_second",
    "total_tokens_per_second",
    "requests_per_second",
    "running_requests",
    "usd_per_million_input_tokens",
    "usd_per_million_output_tokens",
    "intervals",
    "basis",
    "warnings",
}


def answers(*cases: Any) -> list[dict[str, Any]]:
    lines = [c if isinstance(c, str) else json.dumps(c) for c in cases]
    return list(answer_cases(lines, "never"))


def test_the_answer_has_every_name_of_the_contract() -> None:
    (answer,) = answers(GOOD)
    assert set(answer) == CONTRACT
    assert set(answer["intervals"]) == {"ttft_ms", "tpot_ms", "output_tokens_per_second", "kv_cache_tokens"}
    assert set(answer["ttft_ms"]) == {"mean", "p50", "p90", "p95", "p99"}
    for name in ("ttft_ms", "tpot_ms"):
        interval = answer["intervals"][name]
        assert interval["low"] <= answer[name]["mean"] <= interval["high"]
    json.dumps(answer, allow_nan=False)


@pytest.mark.parametrize(
    ("case", "code", "said"),
    [
        ("{not json", "InvalidInput", "not JSON"),
        ("[1]", "InvalidInput", "JSON object"),
        ({**GOOD, "gpu": "H9000"}, "UnknownGPU", "H9000"),
        ({**GOOD, "model": "org/nothing"}, "ModelNotFound", "org/nothing"),
        ({**GOOD, "weight_quant": "q17"}, "UnknownQuantization", "q17"),
        ({**GOOD, "kv_cache_dtype": "fp3"}, "InvalidInput", "fp3"),
        ({**GOOD, "request_rate": 1.0}, "InvalidInput", "exactly one"),
        ({k: v for k, v in GOOD.items() if k != "concurrency"}, "InvalidInput", "exactly one"),
        ({**GOOD, "isl": -3}, "InvalidInput", "isl"),
        ({**GOOD, "isl": "NaN"}, "InvalidInput", "isl"),
        ({**GOOD, "unknown_field": 1}, "InvalidInput", "unknown_field"),
        ({**GOOD, "tp": 0}, "InvalidInput", "tp"),
        ({**GOOD, "gpu_memory_utilization": 1.5}, "InvalidInput", "gpu_memory_utilization"),
        ({**GOOD, "engine_version": "latest"}, "InvalidInput", "latest"),
        ({**GOOD, "speculative": "eagle"}, "UnsupportedSpeculative", "eagle"),
        ({**GOOD, "speculative": "eagle:3"}, "InvalidInput", "eagle"),
        ({**GOOD, "speculative": "mtp:0"}, "InvalidInput", "0"),
    ],
)
def test_a_bad_case_is_named_and_stops_nothing(case: Any, code: str, said: str) -> None:
    first, bad, last = answers({**GOOD, "id": 1}, case, {**GOOD, "id": 2})
    assert (first["id"], last["id"]) == (1, 2)
    assert bad["error"]["code"] == code
    assert said in bad["error"]["message"]


def test_an_architecture_in_no_parser_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["WhisperForConditionalGeneration"]}))
    (found,) = answers({**GOOD, "model": str(tmp_path)})
    assert found["error"]["code"] == "UnsupportedArchitecture"
    assert "WhisperForConditionalGeneration" in found["error"]["message"]


def test_order_and_ids_are_kept_and_cases_do_not_touch_each_other() -> None:
    small, large = {**GOOD, "id": "a"}, {**GOOD, "id": "b", "concurrency": 256, "gpu": "L40S"}
    together = answers(small, large, small)
    assert [a["id"] for a in together] == ["a", "b", "a"]
    assert together[0] == together[2] == answers(small)[0]


def test_memory_given_in_bytes_skips_the_budget() -> None:
    (answer,) = answers({**GOOD, "available_kv_cache_bytes": 10 * 2**30})
    assert answer["available_kv_cache_bytes"] == 10 * 2**30
    interval = answer["intervals"]["kv_cache_tokens"]
    assert interval["low"] == interval["high"] == answer["kv_cache_tokens"]


def test_what_would_not_start_is_answered_with_the_reason() -> None:
    (answer,) = answers({**GOOD, "model": "meta-llama/Llama-3.3-70B-Instruct"})
    assert answer["starts"] is False
    assert answer["start_errors"][0]["code"] == "NoMemoryLeft"
    assert answer["kv_cache_tokens"] == 0


def test_an_unknown_price_is_null_never_zero() -> None:
    unpriced = next(gpu.name for gpu in catalog() if gpu.price is None)
    (answer,) = answers({**GOOD, "gpu": unpriced})
    assert answer["usd_per_million_output_tokens"] is None


@settings(max_examples=60, deadline=None)
@given(
    concurrency=st.floats(0.1, 1e6),
    isl=st.floats(1, 1e6),
    osl=st.floats(1, 1e5),
    cv=st.floats(0, 5),
    hit=st.floats(0, 1),
    load=st.sampled_from(["concurrency", "request_rate", "num_requests"]),
)
def test_any_load_has_a_finite_answer(
    concurrency: float, isl: float, osl: float, cv: float, hit: float, load: str
) -> None:
    amount = int(concurrency) + 1 if load == "num_requests" else concurrency
    case = {k: v for k, v in GOOD.items() if k != "concurrency"}
    (answer,) = answers({**case, load: amount, "isl": isl, "osl": osl, "length_cv": cv, "prefix_hit_rate": hit})
    text = json.dumps(answer, allow_nan=False)
    assert "error" not in answer, text
    for name in ("ttft_ms", "tpot_ms", "e2e_ms"):
        q = answer[name]
        assert 0 < q["p50"] <= q["p90"] <= q["p95"] <= q["p99"]


def test_lines_that_are_no_case_at_all_stop_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = json.dumps(GOOD).encode()
    bad = [b'{"id": "\xff"}', b"[" * 100_000, b'{"isl": ' + b"9" * 5000 + b"}", b"nonsense"]
    path = tmp_path / "cases.jsonl"
    path.write_bytes(b"\n".join([*bad, good]) + b"\n")
    assert run_verbs(VERBS, ["predict", "--cases", str(path)]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [a.get("error", {}).get("code") for a in answers] == ["InvalidInput"] * 4 + [None]
