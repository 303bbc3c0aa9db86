"""What an approver reads before approving."""

from __future__ import annotations

from typing import Any

from inferplan_operator.approval import approval_text

DIGEST = "sha256:" + "ab" * 32


def plan(**predicted: dict[str, str]) -> dict[str, Any]:
    decision = {
        "replicas": 2,
        "tensorParallel": 2,
        "pipelineParallel": 1,
        "dataParallel": 1,
        "gpuType": "L40S",
        "quantization": "bf16",
        "kvCacheDtype": "auto",
        "maxModelLen": 8192,
        "maxNumSeqs": 64,
        "image": "vllm:1",
    }
    return {
        "metadata": {"name": "chat", "namespace": "a"},
        "spec": {"model": {"id": "Qwen/Qwen3-8B"}},
        "status": {"recommendation": {"digest": DIGEST, "decision": decision, "predicted": predicted}},
    }


def line(text: str, label: str) -> list[str]:
    return next(part for part in text.splitlines() if label in part).replace(label, "").split()


def test_figures_stand_with_their_range_and_an_unknown_price_is_nowhere_exact() -> None:
    said = approval_text(
        plan(
            ttft={"value": "560", "low": "405", "high": "879", "unit": "ms", "basis": "SpecSheet"},
            weightsGiB={"value": "7.63", "low": "7.63", "high": "7.63", "unit": "GiB", "basis": "SpecSheet"},
            usdPerHour={"unit": "USD/h", "basis": "SpecSheet"},
        ),
        DIGEST,
    )
    assert "2 × (2×L40S)" in said
    assert line(said, "TTFT p95") == ["560", "ms", "405", "–", "879", "SpecSheet"]
    assert line(said, "Weights per GPU") == ["7.63", "GiB", "exact", "SpecSheet"]
    assert line(said, "Cost") == ["unknown", "–", "SpecSheet"]
