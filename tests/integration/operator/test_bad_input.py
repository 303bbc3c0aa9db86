"""Bad plans get an answer that says what would work, and hold up nobody."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.cluster

NewPlan = Callable[..., "Plan"]  # noqa: F821 (see conftest)


@pytest.mark.parametrize(
    ("spec", "condition", "reason", "said"),
    [
        ({"model": {"id": "no-such/model"}}, "InputsResolved", "ModelNotFound", "no-such/model"),
        ({"constraints": {"gpuTypes": ["NoSuchGPU"]}}, "Feasible", None, "NoSuchGPU"),
        ({"constraints": {"gpuTypes": ["T4"], "maxGPUs": 1}}, "Feasible", None, "T4"),
        ({"constraints": {"maxHourlyCost": "0.01"}}, "Feasible", None, "0.01"),
        (
            {"model": {"id": "Qwen/Qwen3-8B", "tokenSecretRef": {"name": "absent"}}},
            "InputsResolved",
            None,
            "tokenSecretRef",
        ),
    ],
)
def test_a_condition_names_what_is_wrong(
    plan: NewPlan, spec: dict[str, object], condition: str, reason: str | None, said: str
) -> None:
    chat = plan().apply(**spec)
    verdict = chat.cluster.wait(lambda: chat.condition(condition)["message"] and chat.condition(condition), 30, "it")
    assert verdict["status"] != "True"
    assert said in verdict["message"]
    assert reason is None or verdict["reason"] == reason
    assert chat.child() is None


def test_bad_plans_do_not_delay_a_good_one(plan: NewPlan) -> None:
    bad = [plan(f"bad-{number}") for number in range(30)]
    for number, each in enumerate(bad):
        each.document["spec"]["model"] = {"id": f"no-such/model-{number}"}
    cluster = bad[0].cluster
    cluster.apply([each.document for each in bad], person="editor")
    started = time.monotonic()
    plan("good").apply().recommended(10)
    # kubectl's own start is in it twice.
    assert time.monotonic() - started < 5
    bad[-1].until("InputsResolved", "ModelNotFound")
