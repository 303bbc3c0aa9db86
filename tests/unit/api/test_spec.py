"""What a plan may say, and what of it a digest binds."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from inferplan.errors import InvalidInput
from inferplan_operator.api.v1alpha1 import (
    EXEMPT_FIELDS,
    INTENT_FIELDS,
    InferencePlanSpec,
    arguments,
    intent_of,
    parse_plan,
    spec_dump,
)
from samples import BAD_PLANS, CHAT, ROOT, changed

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_examples_are_valid(path: Path) -> None:
    plan = parse_plan(yaml.safe_load(path.read_text(encoding="utf-8")))
    assert plan.metadata.name
    assert plan.spec.approval is None


def test_every_spec_field_is_intent_or_exempt_and_not_both() -> None:
    fields = {field.alias for field in InferencePlanSpec.model_fields.values()}
    assert not INTENT_FIELDS & EXEMPT_FIELDS
    stated = INTENT_FIELDS | EXEMPT_FIELDS
    assert stated - {"replan.policy", "replan.nonce"} == fields - {"replan"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.approval", {"digest": DIGEST, "pin": True, "reason": "looked at it"}),
        ("spec.suspend", True),
        ("spec.replan", {"nonce": "again"}),
        ("spec.revisionHistoryLimit", 3),
        ("spec.drift", {"ttftPct": 50}),
    ],
)
def test_exempt_fields_leave_the_intent_alone(path: str, value: Any) -> None:
    assert intent_of(parse_plan(changed(CHAT, path, value)).spec) == intent_of(parse_plan(CHAT).spec)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.model.id", "Qwen/Qwen3-14B"),
        ("spec.model.tokenSecretRef", {"name": "hub"}),
        ("spec.workload.concurrency", 33),
        ("spec.objectives.judgeBy", "Point"),
        ("spec.constraints.maxGPUs", 4),
        ("spec.runtime", {"extraArgs": ["--max-model-len=8192"]}),
        ("spec.replan", {"policy": "Manual"}),
        ("spec.costAllocation.team", "search"),
        ("spec.topology", "Aggregated"),
    ],
)
def test_intent_fields_change_the_intent(path: str, value: Any) -> None:
    assert intent_of(parse_plan(changed(CHAT, path, value)).spec) != intent_of(parse_plan(CHAT).spec)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.model.source", "hub"),
        ("spec.objectives.judgeBy", "Pessimistic"),
        ("spec.autoscaling", {"mode": "none"}),
        ("spec.autoscaling", {}),
        ("spec.replan", {"policy": "OnInputsChange"}),
        ("spec.runtime", {"extraArgs": [], "env": []}),
    ],
)
def test_a_default_written_out_means_the_same_as_none(path: str, value: Any) -> None:
    assert spec_dump(parse_plan(changed(CHAT, path, value)).spec) == spec_dump(parse_plan(CHAT).spec)


def test_the_intent_speaks_the_names_of_the_api() -> None:
    intent = intent_of(parse_plan(changed(CHAT, "spec.approval", {"digest": DIGEST})).spec)
    assert intent == _without_defaults(CHAT["spec"])


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_intent_is_a_spec_with_itself_as_its_intent(path: Path) -> None:
    intent = intent_of(parse_plan(yaml.safe_load(path.read_text(encoding="utf-8"))).spec)
    assert intent_of(parse_plan({**CHAT, "spec": intent}).spec) == intent


def _without_defaults(spec: dict[str, Any]) -> dict[str, Any]:
    out = copy.deepcopy(spec)
    assert out["objectives"].pop("minimise") == "Cost"
    return out


@pytest.mark.parametrize("case", BAD_PLANS, ids=lambda case: f"{case['path']}={case['value']}")
def test_bad_input_names_field_value_and_what_would_work(case: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_plan(changed(CHAT, case["path"], case["value"]))
    for text in case["said"]:
        assert text in caught.value.message


def test_all_problems_are_told_at_once() -> None:
    document = changed(CHAT, "spec.model.id", "?")
    document["spec"]["constraints"]["maxGPUs"] = 0
    with pytest.raises(InvalidInput, match=r"spec\.model\.id.*spec\.constraints\.maxGPUs"):
        parse_plan(document)


def test_a_status_of_another_version_does_not_stop_the_plan() -> None:
    newer = {**CHAT, "status": {"observedGeneration": 4, "whatever": {"a": 1}, "offeredDigests": [DIGEST]}}
    status = parse_plan(newer).status
    assert status is not None
    assert status.offered_digests == [DIGEST]
    assert parse_plan({**CHAT, "status": {"conditions": "broken"}}).status is None


@given(st.dictionaries(st.text(max_size=8), st.one_of(st.integers(), st.text(max_size=8), st.none()), max_size=6))
def test_no_object_makes_reading_fail_with_anything_but_a_clear_error(spec: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        parse_plan({**CHAT, "spec": spec})


def test_arguments_are_of_one_kind_each() -> None:
    assert not arguments.MODELLED & arguments.PASSED
    assert not arguments.ALLOWED & arguments.UNSUPPORTED_TOPOLOGY
    assert arguments.argument_name("--max-model-len=8192") == "max-model-len"


def test_reading_a_plan_loads_neither_numerics_nor_a_cluster_client() -> None:
    code = (
        "import sys, inferplan_operator.api.v1alpha1;"
        "print(sorted({'numpy', 'kopf', 'kubernetes', 'yaml', 'huggingface_hub'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
