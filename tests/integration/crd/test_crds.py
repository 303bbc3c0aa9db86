"""The CRDs on a real API server: taken, documented, and as strict as the command line's reader."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster import Cluster

from inferplan.errors import InvalidInput
from inferplan_operator.api.v1alpha1 import parse_plan
from samples import BAD_PLANS, CHAT, ROOT, changed

pytestmark = pytest.mark.cluster

CRDS = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / "crds").glob("*.yaml")}
PLAN_SCHEMA = CRDS["inferplan.io_inferenceplans"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def plan(namespace: str, name: str = "chat") -> dict[str, Any]:
    document = copy.deepcopy(CHAT)
    document["metadata"] |= {"name": name, "namespace": namespace}
    return document


def test_crds_are_established(control_plane: Cluster) -> None:
    for crd in CRDS.values():
        stored = control_plane.get("crd", crd["metadata"]["name"])
        assert stored is not None
        conditions = {c["type"]: c["status"] for c in stored["status"]["conditions"]}
        assert conditions["Established"] == "True"
        assert "NonStructuralSchema" not in conditions
        assert stored["spec"]["names"]["categories"] == ["inference"]


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_examples_are_taken_and_stored_as_written(control_plane: Cluster, namespace: str, path: Path) -> None:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    document["metadata"]["namespace"] = namespace
    control_plane.apply(document, person="editor")
    stored = control_plane.get("ipl", document["metadata"]["name"], "-n", namespace, person="viewer")
    assert stored is not None
    assert stored["spec"] == document["spec"], "nothing is defaulted into a spec"


@pytest.mark.parametrize("case", BAD_PLANS, ids=lambda case: f"{case['path']}={case['value']}")
def test_bad_input_is_refused_with_what_would_work(control_plane: Cluster, case: dict[str, Any]) -> None:
    document = changed(plan("default"), case["path"], case["value"])
    refused = control_plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(document), check=False)
    assert refused.returncode != 0
    for text in case["said"]:
        assert text in refused.stderr
    if case.get("same"):
        with pytest.raises(InvalidInput) as caught:
            parse_plan(document)
        sentence = caught.value.message.partition(": ")[2] if case["path"] != "metadata.name" else caught.value.message
        assert sentence in refused.stderr, "the command line and the API server say the same"


def test_an_older_api_server_refuses_in_the_same_words(older_control_plane: Cluster) -> None:
    document = changed(plan("default"), "spec.workload.inputTokens", {"p50": 9, "p95": 3})
    document["spec"]["model"]["id"] = "a;b"
    command = ("create", "--dry-run=server", "-f", "-")
    refused = older_control_plane.kubectl(*command, stdin=json.dumps(document), check=False)
    assert "p50 = 9 is above p95 = 3" in refused.stderr
    assert '"a;b" is no model id' in refused.stderr


def test_every_field_has_a_text_in_kubectl_explain(control_plane: Cluster) -> None:
    for path in ("spec", "spec.workload", "spec.workload.inputTokens", "spec.runtime.env", "spec.approval", "status"):
        said = " ".join(control_plane.kubectl("explain", f"ipl.{path}").stdout.split())
        for name, field in _node(path)["properties"].items():
            assert " ".join(field["description"].split()) in said, f"{path}.{name}"


def _node(path: str) -> dict[str, Any]:
    node: dict[str, Any] = PLAN_SCHEMA
    for name in path.split("."):
        node = node["properties"][name]
    items: dict[str, Any] = node.get("items", node)
    return items


def test_columns_show_what_people_look_for(control_plane: Cluster, namespace: str) -> None:
    control_plane.apply(plan(namespace), person="editor")
    status = {
        "display": {
            "gpus": "2×H100-SXM TP2 FP8",
            "replicas": "1/2",
            "ttft": "812ms",
            "usdPerMillion": "0.42",
            "status": "Running",
            "digest": "0123456789ab",
            "approved": "0123456789ab",
            "measuredTtft": "790ms",
            "reason": "AllGood",
            "message": "serving",
        },
        "drift": {"verdict": "None", "detail": "within tolerance"},
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "AllGood",
                "message": "serving",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    }
    arguments = ("ipl", "chat", "-n", namespace)
    seen = {key: plan(namespace)[key] for key in ("apiVersion", "kind", "metadata")} | {"status": status}
    command = ("apply", "--server-side", "--subresource=status", "-f", "-")
    control_plane.kubectl(*command, person="operator", stdin=json.dumps(seen))
    narrow = control_plane.kubectl("get", *arguments, person="viewer").stdout
    for text in ("Qwen/Qwen3-8B", "2×H100-SXM TP2 FP8", "1/2", "812ms", "0.42", "Running", "True", "0123456789ab"):
        assert text in narrow
    wide = control_plane.kubectl("get", *arguments, "-o", "wide", person="viewer").stdout
    for text in ("790ms", "None", "AllGood", "serving"):
        assert text in wide
    stored = control_plane.get(*arguments)
    assert stored is not None
    assert stored["status"]["observedGeneration"] == -1, "nobody has looked at the spec yet"


def test_a_profile_is_cluster_wide_and_checked(control_plane: Cluster) -> None:
    profile: dict[str, Any] = {
        "apiVersion": "inferplan.io/v1alpha1",
        "kind": "GPUProfile",
        "metadata": {"name": "l40s-of-ours"},
        "spec": {
            "gpuType": "L40S",
            "price": {"usdPerHour": "0.79", "source": "contract", "date": "2026-01-31"},
            "overrides": {"memoryMiB": 46068, "interconnect": {"kind": "pcie", "peerToPeer": False}},
        },
    }
    control_plane.apply(profile)
    try:
        _check_profile(control_plane, profile)
    finally:
        # It is everybody's: an operator of a later test would plan with its price.
        control_plane.kubectl("delete", "gpuprofile", "l40s-of-ours")


def _check_profile(control_plane: Cluster, profile: dict[str, Any]) -> None:
    assert "0.79" in control_plane.kubectl("get", "gpuprofiles").stdout
    profile["spec"]["price"]["usdPerHour"] = "free"
    refused = control_plane.apply(profile, check=False)
    assert '"free" must be a positive decimal number' in refused.stderr
    constants = [{"name": "weights_bandwidth", "value": "0.83"}]
    profile["spec"] = {"gpuType": "L40S", "calibration": {"id": "l40s-2026-01", "constants": constants}}
    assert "UnsupportedCalibration" in control_plane.apply(profile, check=False).stderr, "what isn't read is refused"
