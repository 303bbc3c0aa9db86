"""Models by name without a hub: directories and the bundled catalogue."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inferplan.errors import InvalidInput, InvalidModelConfig, ModelNotFound
from inferplan.model.hub import bundled_models, resolve_model

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 256,
    "max_position_embeddings": 512,
    "torch_dtype": "bfloat16",
}


def model_at(directory: Path, **changes: Any) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    return directory


def test_a_directory_is_named_by_its_last_part_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = model_at(tmp_path / "mine")
    monkeypatch.chdir(directory)
    for spelled in (str(directory), f"{directory}/", "./", "../mine"):
        facts = resolve_model(spelled, hub="never")
        assert (facts.id, facts.source, facts.revision) == ("mine", "directory", "")


def test_a_directory_that_changed_is_read_again(tmp_path: Path) -> None:
    directory = model_at(tmp_path / "mine")
    assert len(resolve_model(str(directory)).architecture.layers) == 2
    model_at(directory, num_hidden_layers=12)
    assert len(resolve_model(str(directory)).architecture.layers) == 12


def test_modelopts_own_file_says_how_weights_are_stored(tmp_path: Path) -> None:
    directory = model_at(tmp_path / "mine")
    quant = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    (directory / "hf_quant_config.json").write_text(json.dumps({**quant, "producer": {"name": "modelopt"}}))
    found = resolve_model(str(directory)).architecture.quantization
    assert found is not None
    assert (found.method, found.kv_cache_dtype) == ("fp8", "fp8_e4m3")
    # As vLLM does: a file that does not name its producer is not heeded.
    (directory / "hf_quant_config.json").write_text(json.dumps(quant))
    unheeded = resolve_model(str(directory))
    assert unheeded.architecture.quantization is None
    assert [code for code, _ in unheeded.warnings] == ["QuantizationNotHeeded"]


@pytest.mark.parametrize("content", ["", "{", "[]", "\x00", '{"a": ' * 100_000])
def test_a_config_that_is_no_json_object_is_said(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(InvalidModelConfig, match=r"config\.json"):
        resolve_model(str(tmp_path))


def test_a_directory_without_a_config_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"config\.json"):
        resolve_model(str(tmp_path))


def test_a_model_that_is_not_bundled_names_those_near() -> None:
    with pytest.raises(ModelNotFound, match="Qwen/Qwen3-8B"):
        resolve_model("Qwen/Qwen3-8b", hub="never")


def test_a_bundled_model_says_that_no_commit_is_pinned() -> None:
    facts = resolve_model("Qwen/Qwen3-8B", "main", hub="never")
    assert facts.warnings[0][0] == "RevisionUnpinned"
    assert "'main'" in facts.warnings[0][1]


@pytest.mark.parametrize("name", ["", "a b", "a/b/c", "org/../x", "$(id)", "org/model;ls", "-x/y", "ör/g"])
def test_a_name_with_other_characters_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="no hub id"):
        resolve_model(name, hub="never")


def test_every_bundled_name_is_a_hub_id() -> None:
    assert len(bundled_models()) == len(set(bundled_models())) == 135
    assert all(name.count("/") == 1 for name in bundled_models())


def test_without_the_hub_its_client_is_not_loaded() -> None:
    program = (
        "import sys; from inferplan.model.hub import resolve_model; import inferplan.engine;"
        "resolve_model('Qwen/Qwen3-8B', hub='never');"
        "sys.exit(' '.join({'huggingface_hub', 'numpy', 'pydantic'} & sys.modules.keys()) or 0)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
