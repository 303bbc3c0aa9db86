"""How fast the planner computes, on one core: `make bench`. Goals stand beside each figure.

`extra_info.candidates_per_second` in `--benchmark-json` is what the goal is about: ≥ 20,000.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from inferplan.engine import EngineConfig, plan_memory, resolve
from inferplan.hardware import catalog, resolve_gpu
from inferplan.model.hub import resolve_model
from inferplan.performance import Candidates, ServingPoint, candidates, predict, sweep
from inferplan.planning import Constraints, Inputs, Objectives, PlanningRequest, Recommendation, recommend
from inferplan.workload import Burst, Concurrency, Lengths, Load, RequestRate, Workload

MODEL = resolve_model("Qwen/Qwen3-32B", hub="never")
TWELVE = ("A100-SXM-80GB", "A100-SXM-40GB", "H100-SXM", "H100-PCIe", "H200-SXM", "B200", "L40S", "L4", "A10G", "A40")
TWELVE += ("RTX 4090", "GH200")
LOADS: tuple[Load, ...] = (Concurrency(64.0), RequestRate(2.0), Burst(500))


def workload(load: Load) -> Workload:
    return Workload(Lengths.from_percentiles(800, 3000), Lengths.from_percentiles(200, 600), load)


def points(load: Load) -> list[ServingPoint]:
    """12 GPU types × 4 degrees of tensor parallelism × 6 batch limits."""
    found = []
    for name in TWELVE:
        gpu = resolve_gpu(name)
        for tp in (1, 2, 4, 8):
            for seqs in (8, 32, 64, 128, 256, 512):
                wanted = EngineConfig(tensor_parallel_size=tp, max_num_seqs=seqs, max_model_len=8192)
                config = resolve(wanted, MODEL.architecture, gpu)
                memory = plan_memory(MODEL.architecture, gpu, config)
                found.append(ServingPoint(MODEL.architecture, gpu, config, memory, workload(load)))
    return found


@pytest.mark.parametrize("load", LOADS, ids=["concurrency", "rate", "burst"])
def test_sweep(benchmark: BenchmarkFixture, load: Load) -> None:
    """Goal: ≥ 20,000 candidates per second: every shape with 1 to 64 replicas."""
    held: Candidates = candidates(points(load))
    index = np.tile(np.arange(len(held.cap)), 64)
    replicas = np.repeat(np.arange(1.0, 65.0), len(held.cap))
    amount = (load.requests_per_second if isinstance(load, RequestRate) else float(load.requests)) / replicas
    many = held.take(index)
    found = benchmark(lambda: sweep(many, workload(load), amount))
    assert len(found.ttft_p95) == len(index)
    benchmark.extra_info["candidates_per_second"] = round(len(index) / benchmark.stats.stats.median)


def test_predict_a_thousand_points(benchmark: BenchmarkFixture) -> None:
    """Goal: 1,000 cases in less than 10 s, names and memory included; this is the performance room's part."""
    many = (points(LOADS[0]) * 4)[:1000]
    assert len(benchmark(lambda: predict(many))) == 1000


def test_recommend_over_twelve_gpu_types(benchmark: BenchmarkFixture) -> None:
    """Goal: < 0.5 s from intent to recommendation."""
    request = PlanningRequest(
        model=MODEL,
        workload=workload(Concurrency(64.0)),
        objectives=Objectives(ttft_p95_seconds=2.0, tpot_p95_seconds=0.05),
        constraints=Constraints(gpu_types=TWELVE),
    )
    answer = benchmark(lambda: recommend(request, Inputs(catalog(), "benchmark")))
    assert isinstance(answer, Recommendation)
    benchmark.extra_info["candidates"] = answer.candidates


def test_import_of_the_performance_room(benchmark: BenchmarkFixture) -> None:
    """A new interpreter with numpy and nothing else that is heavy: part of the command line's 0.4 s."""
    command = [sys.executable, "-c", "import inferplan.performance, sys; assert 'pydantic' not in sys.modules"]
    benchmark.pedantic(lambda: subprocess.run(command, check=True), rounds=5, warmup_rounds=1)  # noqa: S603 (ourselves)
