"""How fast planning is: candidates per second, one recommendation over twelve GPU types, a thousand cases.

make bench          goals: ≥ 20,000 candidates/s on one core, < 0.5 s, < 10 s (not asserted: machines differ)
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from inferplan.cases import answer_cases
from inferplan.engine import EngineConfig, plan_memory, resolve
from inferplan.hardware import catalog, resolve_gpu
from inferplan.model.hub import resolve_model
from inferplan.performance import ServingPoint, candidates, sweep
from inferplan.planning import Constraints, Inputs, Objectives, PlanningRequest, Recommendation, recommend
from inferplan.workload import Concurrency, Lengths, RequestRate, Workload

TWELVE = (
    "H100-SXM",
    "H200-SXM",
    "A100-SXM-80GB",
    "A100-SXM-40GB",
    "L4",
    "L40S",
    "A10G",
    "A40",
    "B200",
    "T4",
    "RTX 4090",
    "MI300X",
)
CHAT = Workload(Lengths.from_percentiles(800, 3000), Lengths.from_percentiles(200, 600), Concurrency(32))
CANDIDATES = 8192


def point(model: str, gpu: str, tp: int) -> ServingPoint:
    architecture = resolve_model(model, hub="never").architecture
    card = resolve_gpu(gpu)
    config = resolve(EngineConfig(tensor_parallel_size=tp, max_model_len=8192), architecture, card)
    return ServingPoint(architecture, card, config, plan_memory(architecture, card, config), CHAT)


@pytest.mark.parametrize("load", ["closed", "open"])
def test_candidates_per_second(benchmark: Any, load: str) -> None:
    held = candidates(
        [point(m, g, tp) for m in ("Qwen/Qwen3-8B", "Qwen/Qwen3-32B") for g in TWELVE for tp in (1, 2, 4, 8)]
    )
    many = held.take(np.resize(np.arange(len(held.cap)), CANDIDATES))
    workload = CHAT if load == "closed" else Workload(CHAT.input_tokens, CHAT.output_tokens, RequestRate(4.0))
    amount = np.linspace(1.0, 64.0, CANDIDATES)
    found = benchmark(sweep, many, workload, amount)
    assert np.isfinite(found.tpot_p95).all()
    benchmark.extra_info["candidates_per_second"] = round(CANDIDATES / benchmark.stats.stats.median)


def test_recommendation_over_twelve_gpu_types(benchmark: Any) -> None:
    asked = PlanningRequest(
        model=resolve_model("Qwen/Qwen3-32B", hub="never"),
        workload=CHAT,
        objectives=Objectives(ttft_p95_seconds=3.0, tpot_p95_seconds=0.08),
        constraints=Constraints(gpu_types=TWELVE),
    )
    assert isinstance(benchmark(recommend, asked, Inputs(catalog(), "bench")), Recommendation)


def test_a_thousand_cases(benchmark: Any) -> None:
    lines = [
        json.dumps(
            {
                "id": i,
                "model": "Qwen/Qwen3-8B",
                "gpu": TWELVE[i % 12],
                "isl": 100 + i,
                "osl": 200,
                "concurrency": 1 + i % 64,
            }
        )
        for i in range(1000)
    ]
    answers = benchmark(lambda: list(answer_cases(lines, "never")))
    assert sum("error" not in a for a in answers) == 1000
