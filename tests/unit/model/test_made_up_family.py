"""A family that nobody has heard of needs one parser function: what comes after knows layers, not names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inferplan.cases import Case, answer, question_of
from inferplan.model import parse
from inferplan.model.fields import Fields
from inferplan.model.llama_like import llama
from inferplan.model.mixtures import qwen_experts
from inferplan.model.parts import Biases, Heads, Outline, attention, block, gated_mlp, norms
from inferplan.model.recurrent import short_convolution
from inferplan.performance import predict
from inferplan.report.explain import explain_text

CONFIG: dict[str, Any] = {
    "architectures": ["MadeUpForCausalLM"],
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "moe_intermediate_size": 1024,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_hidden_layers": 12,
    "sliding_window": 1024,
    "vocab_size": 32768,
    "max_position_embeddings": 65536,
    "torch_dtype": "bfloat16",
}


def made_up(fields: Fields) -> Outline:
    """Full attention, a window and a convolution in turn; experts in every other layer."""
    hidden = fields.size("hidden_size")
    h = Heads(hidden, fields.size("num_attention_heads"), fields.size("num_key_value_heads"), fields.size("head_dim"))
    mixers = (
        attention(h, Biases()),
        attention(h, Biases(), window=fields.window()),
        short_convolution(hidden, hidden, 4, bias=False),
    )
    channels = (gated_mlp(hidden, fields.size("intermediate_size"), Biases()), qwen_experts(fields))
    count = fields.size("num_hidden_layers")
    layers = tuple(block(mixers[i % 3], channels[i % 2], hidden, hidden) for i in range(count))
    return Outline(hidden, layers, vectors=norms(hidden))


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(parse._PARSERS, "MadeUpForCausalLM", made_up)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return str(tmp_path)


def test_it_is_refused_by_name_without_its_parser(tmp_path: Path) -> None:
    with pytest.raises(parse.UnsupportedArchitecture, match="MadeUpForCausalLM"):
        parse.parse_architecture(CONFIG)


def test_everything_answers_with_it(model: str) -> None:
    case = Case.model_validate({"model": model, "gpu": "L40S", "isl": 512, "osl": 128, "concurrency": 8})
    question = question_of(case, "never")
    performance = predict([question.point])[0]
    found = answer(question, performance)
    assert found["starts"] is True
    assert found["kv_cache_tokens"] > 100_000
    assert found["tpot_ms"]["mean"] > 0
    text = explain_text(question.point, performance, question.warnings)
    assert {"full", "sliding", "state"} <= set(text.split())


def test_a_family_like_another_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def stretched(fields: Fields) -> Outline:
        return replace(llama(fields), context_by_default=1000)

    monkeypatch.setitem(parse._PARSERS, "StretchedForCausalLM", stretched)
    fields = {k: v for k, v in CONFIG.items() if k not in ("architectures", "max_position_embeddings")}
    found = parse.parse_architecture({**fields, "architectures": ["StretchedForCausalLM"]})
    assert found.max_position_embeddings == 1000
