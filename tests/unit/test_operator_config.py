"""The operator's configuration: everything has a default, every mistake is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferplan.errors import InvalidInput
from inferplan.planning import Defaults
from inferplan_operator.config import OperatorConfig, load_config


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return path


def test_without_a_file_the_built_in_configuration_holds() -> None:
    config = load_config(None)
    assert config == OperatorConfig()
    assert config.planning_defaults() == Defaults()
    assert config.require_gates


def test_an_empty_file_is_the_built_in_configuration(tmp_path: Path) -> None:
    assert load_config(written(tmp_path, "")) == OperatorConfig()


def test_a_file_is_read(tmp_path: Path) -> None:
    text = """
watchNamespaces: [team-a, team-b]
prometheus: {url: http://prometheus:9090}
prices: {H100: "2.49"}
priceDate: 2026-11-30
defaults:
  image: registry.example/vllm@sha256:0000000000000000000000000000000000000000000000000000000000000000
  tolerations:
  - {key: gpu, operator: Equal, value: "true", effect: NoExecute}
"""
    config = load_config(written(tmp_path, text))
    assert config.watch_namespaces == ("team-a", "team-b")
    assert str(config.prices["H100"]) == "2.49"
    assert config.planning_defaults().tolerations == (("gpu", "Equal", "true", "NoExecute"),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pricess: {}", "unknown field 'pricess'; known here: prometheus, watchNamespaces"),
        ("defaults: {imag: x}", "unknown field 'defaults.imag'; known here: image, engineVersion"),
        ("prices: {H100: 0}", "prices.H100 = 0: Input should be greater than 0"),
        ("prices: {NoSuchGPU: 1}", "NoSuchGPU"),
        ("hub: sometimes", "hub = 'sometimes': Input should be 'auto', 'never' or 'always'"),
        ("port: 70000", "port = 70000"),
        ("- a", "a mapping of fields is needed, got list"),
        ("{", "not YAML"),
    ],
)
def test_a_mistake_is_named_with_what_would_work(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_config(written(tmp_path, text))
    assert said in caught.value.message


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        load_config(tmp_path / "absent.yaml")
