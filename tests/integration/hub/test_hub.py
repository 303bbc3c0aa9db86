"""Models by name from a hub: what is asked, what is told apart, and what happens when the hub is away."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import huggingface_hub.constants
import pytest
from hub_server import SHA, STRANGERS_TOKEN, TOKEN, Hub, Repository, safetensors

from inferplan.errors import (
    HubUnavailable,
    InvalidInput,
    InvalidModelConfig,
    ModelGated,
    ModelNotFound,
    UnsupportedArchitecture,
)
from inferplan.model import ModelFacts
from inferplan.model.hub import ModelLookup, resolve_model

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
    with pytest.raises(ModelGated, match="org/gated"):
        resolve_model("org/gated", hub="always", token=STRANGERS_TOKEN)
    assert resolve_model("org/gated", hub="always", token=TOKEN).gated


def test_a_token_the_hub_does_not_know_is_said(hub: Hub) -> None:
    hub.repositories["org/model"] = repository()
    with pytest.raises(ModelGated, match="does not accept the token"):
        resolve_model("org/model", hub="always", token="hf_expired")  # noqa: S106  (a pretend token)


def test_a_gated_model_of_the_catalogue_is_planned_without_a_token(hub: Hub) -> None:
    hub.repositories["meta-llama/Llama-3.2-1B"] = repository(gated=True)
    facts = resolve_model("meta-llama/Llama-3.2-1B", hub="auto")
    assert (facts.source, len(facts.architecture.layers)) == ("catalogue", 16)
    assert "ModelGated" in facts.warnings[0][1]


def test_a_renamed_repository_is_followed(hub: Hub) -> None:
    hub.repositories["new/model"] = repository()
    hub.repositories["old/model"] = repository(moved_to="new/model")
    facts = resolve_model("old/model", hub="always")
    assert (facts.id, facts.revision) == ("old/model", SHA)


def test_a_checkpoint_in_shards_is_counted_without_a_word(hub: Hub, capfd: pytest.CaptureFixture[str]) -> None:
    names = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    half = PARAMETERS // 2
    index = {"metadata": {}, "weight_map": {"a": names[0], "b": names[1]}}
    files = {
        "config.json": json.dumps(CONFIG).encode(),
        "model.safetensors.index.json": json.dumps(index).encode(),
        names[0]: safetensors({"a": ("BF16", [half])}),
        names[1]: safetensors({"b": ("BF16", [PARAMETERS - half])}),
    }
    hub.repositories["org/sharded"] = Repository(files, large=names)
    facts = resolve_model("org/sharded", hub="always")
    assert facts.safetensors_parameters == (("BF16", PARAMETERS),)
    assert facts.warnings == ()
    assert capfd.readouterr() == ("", ""), "no progress bars of the client in a report"


def test_the_bytes_of_a_quantized_checkpoint_are_compared(hub: Hub) -> None:
    config = {**CONFIG, "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["lm_head"]}}
    quantized = 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64)
    tensors = {
        "w": ("F8_E4M3", [quantized]),
        "scales": ("F32", [2 * 7 * 2]),
        "rest": ("BF16", [PARAMETERS - quantized]),
    }
    files = {"config.json": json.dumps(config).encode(), "model.safetensors": safetensors(tensors)}
    hub.repositories["org/fp8"] = Repository(files)
    assert resolve_model("org/fp8", hub="always").warnings == ()
    files["model.safetensors"] = safetensors({**tensors, "w": ("BF16", [quantized])})
    assert [code for code, _ in resolve_model("org/fp8", hub="always").warnings] == ["WeightCountMismatch"]


def test_a_checkpoint_that_can_not_be_counted_is_planned_and_said(hub: Hub) -> None:
    files = {"config.json": json.dumps(CONFIG).encode(), "model.safetensors": b"not a header"}
    hub.repositories["org/odd"] = Repository(files)
    assert resolve_model("org/odd", hub="always").safetensors_parameters == ()
    hub.repositories["org/pickled"] = Repository({"config.json": files["config.json"]})
    assert resolve_model("org/pickled", hub="always").warnings == ()


def test_nothing_is_written_to_disk(hub: Hub, tmp_path: Path) -> None:
    hub.repositories["org/model"] = repository()
    resolve_model("org/model", hub="always")
    assert list(tmp_path.iterdir()) == []


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


def refusing() -> str:
    """An address at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def dropping() -> Iterator[str]:
    """An address whose packets get lost: the backlog is full, so the kernel drops further connections."""
    with socket.socket() as listener, ExitStack() as held:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            filler = held.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def within_seconds(limit: float, model: str, hub: Literal["auto", "always"]) -> ModelFacts | HubUnavailable:
    started = time.monotonic()
    try:
        return resolve_model(model, hub=hub)
    except HubUnavailable as error:
        return error
    finally:
        assert time.monotonic() - started < limit


@pytest.mark.parametrize("how", ["refusing", "silent", "dropping"])
def test_without_a_hub_the_bundled_catalogue_answers_soon_and_says_so(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, how: str
) -> None:
    address = refusing() if how == "refusing" else request.getfixturevalue(how)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
    facts = within_seconds(4, "Qwen/Qwen3-8B", "auto")
    assert isinstance(facts, ModelFacts)
    assert (facts.source, facts.revision) == ("catalogue", "")
    assert facts.warnings[0][0] == "RevisionUnpinned"
    assert "HubUnavailable" in facts.warnings[0][1]


def test_always_insists_on_the_hub(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", refusing())
    assert isinstance(within_seconds(4, "Qwen/Qwen3-8B", "always"), HubUnavailable)
    assert isinstance(within_seconds(4, "not/bundled", "always"), HubUnavailable)


def test_a_run_over_many_cases_asks_for_each_model_once(hub: Hub) -> None:
    hub.repositories["org/model"] = repository()
    models = ModelLookup("auto")
    first = models.facts("org/model")
    asked = len(hub.asked)
    assert models.facts("org/model") is first
    for _ in range(2):
        with pytest.raises(ModelNotFound):
            models.facts("org/missing")
    assert len(hub.asked) == asked + 1


def test_a_run_does_not_wait_for_a_silent_hub_twice(hub: Hub, monkeypatch: pytest.MonkeyPatch, silent: str) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", silent)
    models = ModelLookup("auto")
    models.facts("Qwen/Qwen3-8B")
    started = time.monotonic()
    for model in ("Qwen/Qwen3-14B", "Qwen/Qwen3-32B", "meta-llama/Llama-3.2-1B"):
        assert models.facts(model).source == "catalogue"
    assert time.monotonic() - started < 1


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
