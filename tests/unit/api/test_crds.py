"""The CRD files: generated, bounded, documented. That a real API server takes them is tested in integration."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from inferplan_operator.api.v1alpha1 import INTENT_FIELDS
from inferplan_operator.config import OperatorConfig

ROOT = Path(__file__).parents[3]


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"hack/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate_crds = _script("generate_crds")


@pytest.fixture(scope="module")
def crds() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = generate_crds.crds()
    return found


def _fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from _fields(child, f"{path}.{name}")
    if "items" in schema:
        yield from _fields(schema["items"], f"{path}[]")


def _documented(crd: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in ("spec", "status"):
        yield from _fields(root["properties"][part], part)


def test_files_are_as_generated_and_the_charts_copies_identical() -> None:
    for path, text in generate_crds.rendered().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run `make generate`"


def test_every_field_is_documented(crds: dict[str, dict[str, Any]]) -> None:
    bare = [
        f"{name}: {path}"
        for name, crd in crds.items()
        for path, schema in _documented(crd)
        if not path.endswith("[]") and not schema.get("description")
    ]
    assert bare == []


def test_everything_is_bounded(crds: dict[str, dict[str, Any]]) -> None:
    """Else the cost of the CEL rules could not be bounded, nor the size of an object."""
    unbounded = []
    for name, crd in crds.items():
        for path, schema in _documented(crd):
            bound = {"string": ("maxLength", "enum"), "array": ("maxItems",)}.get(schema.get("type", ""))
            if bound is not None and not any(key in schema for key in bound):
                unbounded.append(f"{name}: {path}")
    assert unbounded == []


def test_nothing_is_defaulted_into_a_spec(crds: dict[str, dict[str, Any]]) -> None:
    defaults = {
        path: schema["default"] for crd in crds.values() for path, schema in _documented(crd) if "default" in schema
    }
    assert defaults == {"status.observedGeneration": -1}


def test_columns_point_at_fields_that_exist(crds: dict[str, dict[str, Any]]) -> None:
    for crd in crds.values():
        known = {f".{path}" for path, _ in _documented(crd)} | {".metadata.creationTimestamp"}
        for column in crd["spec"]["versions"][0]["additionalPrinterColumns"]:
            path = re.sub(r"\[\?\(@\.type==\"\w+\"\)\]", "[]", column["jsonPath"])
            assert path in known, column


def test_the_approval_gate_knows_every_field_of_the_intent() -> None:
    text = (ROOT / "charts/inferplan/templates/gate-approval.yaml").read_text(encoding="utf-8")
    listed = re.search(r"\[([^\]]*)\]\s*\.exists\(f, object\.spec", text)
    assert listed is not None
    names = set(re.findall(r"'(\w+)'", listed.group(1)))
    assert names | {"replan.policy"} == INTENT_FIELDS
    assert "object.spec.?replan.?policy != oldObject.spec.?replan.?policy" in text


def test_the_operator_reads_the_charts_configuration() -> None:
    values = yaml.safe_load((ROOT / "charts/inferplan/values.yaml").read_text(encoding="utf-8"))
    config = OperatorConfig.model_validate(values["config"])
    assert config.require_gates
    assert config.defaults.image.rpartition(":")[0] in values["gates"]["allowedImages"]


def test_the_charts_schema_and_the_operator_agree_on_the_configuration() -> None:
    schema = json.loads((ROOT / "charts/inferplan/values.schema.json").read_text(encoding="utf-8"))
    stated = schema["properties"]["config"]["properties"]
    fields = OperatorConfig.model_json_schema(by_alias=True)["properties"]
    assert set(stated) == set(fields) - {"port"}, "the chart fixes the port"
    assert {n: s["enum"] for n, s in stated.items() if "enum" in s} == {
        n: f["enum"] for n, f in fields.items() if "enum" in f
    }
