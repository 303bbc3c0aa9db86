"""Models by name from a hub: what is asked, what is told apart, and what happens when the hub is away."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import huggingface_hub.constants
import pytest
from hub_server import SHA, TOKEN, Hub, Repository, safetensors

from inferplan.errors import (
    HubUnavailable,
    InvalidInput,
    InvalidModelConfig,
    ModelGated,
    ModelNotFound,
    UnsupportedArchitecture,
)
from inferplan.model.hub import resolve_model

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 256,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
# Embedding 256 × 64; a layer: q 64², k and v 32 × 64 each, o 64², three of 128 × 64, two norms; a last norm.
PARAMETERS = 256 * 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64 + 2 * 64) + 64


def repository(config: object = CONFIG, parameters: int = PARAMETERS, **more: Any) -> Repository:
    files = {
        "config.json": config if isinstance(config, bytes) else json.dumps(config).encode(),
        "model.safetensors": safetensors({"w": ("BF16", [parameters])}),
    }
    return Repository(files, **more)


def test_a_revision_is_resolved_to_its_commit_and_no_weights_are_fetched(hub: Hub) -> None:
    hub.repositories["org/model"] = repository()
    facts = resolve_model("org/model", "main", hub="always")
    assert facts.revision == SHA
    assert facts.source == "hub"
    assert facts.safetensors_parameters == (("BF16", PARAMETERS),)
    assert facts.warnings == ()
    assert len(facts.architecture.layers) == 2


def test_a_count_that_disagrees_is_said(hub: Hub) -> None:
    hub.repositories["org/model"] = repository(parameters=PARAMETERS * 2)
    facts = resolve_model("org/model", hub="always")
    assert [code for code, _ in facts.warnings] == ["WeightCountMismatch"]


def test_missing_and_gated_are_told_apart(hub: Hub) -> None:
    hub.repositories["org/gated"] = repository(gated=True)
    with pytest.raises(ModelNotFound, match="org/missing"):
        resolve_model("org/missing", hub="always")
    with pytest.raises(ModelGated, match="tokenSecretRef"):
        resolve_model("org/gated", hub="always")
    assert resolve_model("org/gated", hub="always", token=TOKEN).gated


def test_an_unknown_revision_is_named(hub: Hub) -> None:
    hub.repositories["org/model"] = repository()
    with pytest.raises(ModelNotFound, match="no-such-branch"):
        resolve_model("org/model", "no-such-branch", hub="always")


def test_a_repository_without_a_config_is_said(hub: Hub) -> None:
    hub.repositories["org/empty"] = Repository({"README.md": b"hello"})
    with pytest.raises(ModelNotFound, match=r"config\.json"):
        resolve_model("org/empty", hub="always")


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (b"{not json", InvalidModelConfig),
        (b"[]", InvalidModelConfig),
        ({**CONFIG, "hidden_size": -1}, InvalidModelConfig),
        ({**CONFIG, "architectures": ["SomethingNew"]}, UnsupportedArchitecture),
    ],
)
def test_a_config_that_can_not_be_used_is_an_error_of_the_model(hub: Hub, config: object, error: type) -> None:
    hub.repositories["org/odd"] = repository(config)
    with pytest.raises(error):
        resolve_model("org/odd", hub="always")


def test_a_server_error_is_tried_again(hub: Hub) -> None:
    hub.repositories["org/model"] = repository(failures=1)
    assert resolve_model("org/model", hub="always").revision == SHA


def test_a_hub_that_stays_broken_is_unavailable_not_missing(hub: Hub) -> None:
    hub.repositories["org/model"] = repository(failures=1000)
    with pytest.raises(HubUnavailable, match="org/model"):
        resolve_model("org/model", hub="always")


def test_without_a_hub_the_bundled_catalogue_answers_and_says_so(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{probe.getsockname()[1]}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", nobody)
    started = time.monotonic()
    facts = resolve_model("Qwen/Qwen3-8B", hub="auto")
    assert time.monotonic() - started < 30
    assert (facts.source, facts.revision) == ("catalogue", "")
    assert facts.warnings[0][0] == "RevisionUnpinned"
    with pytest.raises(HubUnavailable):
        resolve_model("Qwen/Qwen3-8B", hub="always")


def test_offline_mode_asks_nobody(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert resolve_model("Qwen/Qwen3-8B", hub="auto").source == "catalogue"
    assert hub.asked == []


@pytest.mark.parametrize(
    "name", ["org/model;rm -rf", "a/../b", "org/mo del", "$(id)/x", "", "a/b/c", "-x/y", "org/" + "x" * 200]
)
def test_a_name_that_is_none_asks_nobody(hub: Hub, name: str) -> None:
    with pytest.raises(InvalidInput, match="no hub id"):
        resolve_model(name, hub="auto")
    assert hub.asked == []
