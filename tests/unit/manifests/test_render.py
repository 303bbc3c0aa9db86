"""The pods an approval stands for: what vLLM and Kubernetes need, byte for byte the same every time."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from inferplan.errors import InvalidInput
from inferplan.planning import Decision
from inferplan_operator.lifecycle.request import split_arguments
from inferplan_operator.manifests import Serving, TokenRef, Volume, arguments, render
from samples import DECISION

SERVING = Serving(
    name="chat",
    namespace="team-a",
    model_id="Qwen/Qwen3-8B",
    gpu_type="H100-SXM",
    gpu_products=("NVIDIA-H100-80GB-HBM3",),
    labels=(("inferplan.io/team", "assistants"),),
    tolerations=(("nvidia.com/gpu", "Exists", "", "NoSchedule"),),
)


def deployment(serving: Serving = SERVING, decision: Decision = DECISION) -> dict[str, Any]:
    return next(m for m in render(serving, decision) if m["kind"] == "Deployment")


def pod(serving: Serving = SERVING, decision: Decision = DECISION) -> dict[str, Any]:
    found: dict[str, Any] = deployment(serving, decision)["spec"]["template"]["spec"]
    return found


def test_the_same_decision_renders_to_the_same_bytes() -> None:
    assert json.dumps(render(SERVING, DECISION)) == json.dumps(render(SERVING, DECISION))


def test_every_part_of_the_decision_is_an_argument() -> None:
    args = arguments(SERVING, DECISION)
    assert args[0] == "Qwen/Qwen3-8B"
    for expected in (
        "--tensor-parallel-size=2",
        "--max-model-len=8192",
        "--max-num-seqs=64",
        "--max-num-batched-tokens=8192",
        "--gpu-memory-utilization=0.92",
        "--kv-cache-dtype=auto",
        "--enable-prefix-caching",
        "--revision=abc123",
    ):
        assert expected in args
    changed = dataclasses.replace(DECISION, enforce_eager=True, enable_prefix_caching=False)
    assert {"--enforce-eager", "--no-enable-prefix-caching"} <= set(arguments(SERVING, changed))


def test_an_argument_of_the_users_replaces_ours_and_stands_once() -> None:
    serving = dataclasses.replace(SERVING, extra_args=("--max-num-seqs=32", "--no-enable-prefix-caching"))
    args = arguments(serving, DECISION)
    assert [a for a in args if a.startswith("--max-num-seqs")] == ["--max-num-seqs=32"]
    assert [a for a in args if "prefix-caching" in a] == ["--no-enable-prefix-caching"]


def test_gpus_are_asked_for_and_only_on_nodes_of_the_type() -> None:
    container = pod()["containers"][0]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"
    terms = pod()["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0]["values"] == ["NVIDIA-H100-80GB-HBM3"]
    assert pod()["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_the_start_has_time_and_the_end_drains() -> None:
    container, spec = pod()["containers"][0], pod()
    probe = container["startupProbe"]
    environment = {e["name"]: e.get("value") for e in container["env"]}
    assert probe["periodSeconds"] * probe["failureThreshold"] == int(environment["VLLM_ENGINE_READY_TIMEOUT_S"])
    shutdown = next(a for a in container["args"] if a.startswith("--shutdown-timeout"))
    drain = container["lifecycle"]["preStop"]["sleep"]["seconds"] + int(shutdown.partition("=")[2])
    assert spec["terminationGracePeriodSeconds"] > drain


def test_what_vllm_is_known_to_trip_over_is_taken_care_of() -> None:
    spec = pod()
    assert spec["enableServiceLinks"] is False
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}} in spec["volumes"]
    assert {"name": "shm", "mountPath": "/dev/shm"} in spec["containers"][0]["volumeMounts"]


def test_the_pod_has_no_rights_it_does_not_need() -> None:
    spec = pod()
    assert spec["automountServiceAccountToken"] is False
    assert len(spec["containers"]) == 1
    assert "initContainers" not in spec
    assert spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False
    assert not any("hostPath" in v for v in spec["volumes"])


def test_the_template_says_nothing_of_the_digest() -> None:
    assert "annotations" not in deployment()["spec"]["template"]["metadata"]
    assert "digest" not in json.dumps(deployment()["spec"]["template"])


def test_a_token_comes_from_the_named_secret_only() -> None:
    assert "HF_TOKEN" not in {e["name"] for e in pod()["containers"][0]["env"]}
    serving = dataclasses.replace(SERVING, token=TokenRef("hub", "token"))
    token = next(e for e in pod(serving)["containers"][0]["env"] if e["name"] == "HF_TOKEN")
    assert token["valueFrom"]["secretKeyRef"] == {"name": "hub", "key": "token"}


def test_a_model_on_a_volume_is_read_from_there_without_a_hub() -> None:
    serving = dataclasses.replace(SERVING, volume=Volume("models", "qwen3-8b"))
    args = arguments(serving, DECISION)
    assert args[0] == "/models/qwen3-8b"
    assert not any(a.startswith("--revision") for a in args)
    assert {"name": "HF_HUB_OFFLINE", "value": "1"} in pod(serving)["containers"][0]["env"]


def test_cost_labels_are_on_every_object() -> None:
    for manifest in render(SERVING, DECISION):
        assert manifest["metadata"]["labels"]["inferplan.io/team"] == "assistants"
    assert deployment()["spec"]["template"]["metadata"]["labels"]["inferplan.io/team"] == "assistants"


def test_the_users_environment_wins() -> None:
    serving = dataclasses.replace(SERVING, env=(("HF_HOME", "/data"), ("X", "1")))
    environment = [(e["name"], e.get("value")) for e in pod(serving)["containers"][0]["env"]]
    assert environment.count(("HF_HOME", "/data")) == 1
    assert len([n for n, _ in environment if n == "HF_HOME"]) == 1


@pytest.mark.parametrize(
    ("argument", "code"),
    [
        ("--trust-remote-code", "ArgumentRefused"),
        ("--model=other", "ArgumentRefused"),
        ("--port=1", "ArgumentRefused"),
        ("--tensor-parallel-size=8", "ArgumentRefused"),
        ("--no-such-flag", "ArgumentRefused"),
        ("serve", "ArgumentRefused"),
        ("--kv-transfer-config={}", "UnsupportedTopology"),
        ("--enforce-eager=false", "ArgumentRefused"),
        ("--no-enable-prefix-caching=true", "ArgumentRefused"),
        ("--max-num-seqs=many", "InvalidInput"),
        ("--gpu-memory-utilization=2", "InvalidInput"),
        ("--kv-cache-memory-bytes=much", "InvalidInput"),
    ],
)
def test_an_argument_off_the_list_is_refused_by_name(argument: str, code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        split_arguments((argument,))
    assert refused.value.code == code
    assert argument.partition("=")[0].lstrip("-") in refused.value.message


def test_arguments_are_sorted_into_what_is_computed_and_what_is_not() -> None:
    found = split_arguments(
        ("--max-num-seqs=32", "--kv-cache-memory-bytes=256M", "--load-format=dummy", "--enforce-eager")
    )
    assert found.overrides.max_num_seqs == 32
    assert found.overrides.kv_cache_memory_bytes == 256 * 2**20
    assert found.overrides.enforce_eager is True
    assert found.unmodelled == ("--load-format=dummy",)
