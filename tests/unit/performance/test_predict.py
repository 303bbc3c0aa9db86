"""The face of the room: one pass over many questions, intervals with their basis, and the sweep planning uses."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from inferplan.engine import EngineConfig, plan_memory, resolve
from inferplan.hardware import resolve_gpu
from inferplan.model.hub import resolve_model
from inferplan.performance import ServingPoint, candidates, predict, sweep
from inferplan.performance.constants import constants, spread
from inferplan.workload import Burst, Concurrency, Lengths, Load, RequestRate, Workload

CHAT = Workload(Lengths.from_percentiles(800, 3000), Lengths.from_percentiles(200, 600), Concurrency(32))


def point(model: str, gpu: str, tp: int = 1, load: Load = CHAT.load) -> ServingPoint:
    architecture = resolve_model(model, hub="never").architecture
    spec = resolve_gpu(gpu)
    config = resolve(EngineConfig(tensor_parallel_size=tp, max_model_len=16384), architecture, spec)
    workload = dataclasses.replace(CHAT, load=load)
    return ServingPoint(architecture, spec, config, plan_memory(architecture, spec, config), workload)


MIXED = [
    point("Qwen/Qwen3-8B", "H100-SXM"),
    point("Qwen/Qwen3-32B", "A100-SXM-80GB", 4, RequestRate(3.0)),
    point("meta-llama/Meta-Llama-3.1-8B", "L40S", 2, Burst(64)),
    point("meta-llama/Meta-Llama-3.1-8B", "MI300X"),
]


def test_nothing_asked_nothing_answered() -> None:
    assert predict([]) == []


def test_together_and_alone_give_the_same_digits() -> None:
    assert predict(MIXED) == [predict([p])[0] for p in MIXED]


def test_basis_says_where_no_measurement_went_into_the_constants() -> None:
    assert [p.basis for p in predict(MIXED)] == ["SpecSheet", "SpecSheet", "SpecSheet", "Extrapolated"]


def test_intervals_are_wider_where_extrapolated() -> None:
    def width(i: int) -> float:
        found = predict(MIXED)[i]
        return found.tpot_interval.high / found.tpot_interval.low

    assert width(3) > width(0)


def test_operations_are_named_and_add_up_to_the_step() -> None:
    found = predict([MIXED[1]])[0]
    names = [o.name for o in found.decode_step]
    assert names == ["linear layers", "LM head", "decode attention", "all-reduces", "kernel gaps", "step overhead"]
    assert sum(o.seconds for o in found.decode_step) <= found.tpot_seconds.mean
    assert {o.bound for o in found.decode_step} <= {"compute", "memory", "link", "host"}
    assert "prefill attention" in [o.name for o in found.prefill_step]


@pytest.mark.parametrize("load", [Concurrency(40), RequestRate(4.0), RequestRate(4000.0), Burst(100)])
def test_the_sweep_agrees_with_the_full_answer(load: Load) -> None:
    points = [dataclasses.replace(p, workload=dataclasses.replace(CHAT, load=load)) for p in MIXED]
    amount = load.requests_per_second if isinstance(load, RequestRate) else float(load.requests)
    swept = sweep(candidates(points), points[0].workload, np.full(len(points), amount))
    for i, full in enumerate(predict(points)):
        assert swept.ttft_p95[i] == full.ttft_seconds.p95
        assert swept.tpot_p95[i] == full.tpot_seconds.p95
        assert swept.e2e_p95[i] == full.e2e_seconds.p95
        assert swept.output_tokens_per_second[i] == pytest.approx(full.output_tokens_per_second)
        assert swept.saturated[i] == full.saturated


def test_pessimistic_ends_are_never_below_the_point() -> None:
    swept = sweep(candidates(MIXED), CHAT, np.array([1.0, 8.0, 64.0, 512.0]))
    assert (swept.ttft_p95_high >= swept.ttft_p95).all()
    assert (swept.tpot_p95_high >= swept.tpot_p95).all()
    assert (swept.e2e_p95_high >= swept.e2e_p95).all()


def test_candidates_can_be_repeated_with_other_loads() -> None:
    held = candidates(MIXED[:2])
    index = np.array([0, 1, 1, 0])
    amount = np.array([1.0, 2.0, 3.0, 4.0])
    repeated = sweep(held.take(index), CHAT, amount)
    for i, (which, load) in enumerate(zip(index, amount, strict=True)):
        alone = sweep(candidates([MIXED[which]]), CHAT, np.array([load]))
        assert repeated.ttft_p95[i] == alone.ttft_p95[0]


def test_stored_constants_are_physical() -> None:
    found = constants()
    for name in ("weight_bandwidth", "packed_bandwidth", "kv_bandwidth", "compute", "attention_compute"):
        assert 0 < getattr(found, name) <= 1, name
    assert all(value >= 0 for value in dataclasses.astuple(found))


@pytest.mark.parametrize("metric", ["ttft", "tpot", "throughput"])
@pytest.mark.parametrize("load", ["single", "batched", "queueing"])
def test_every_cell_has_residuals_around_one(metric: str, load: str) -> None:
    cell = spread(metric, load)
    assert 0 < cell.low < 1 < cell.high
    assert cell.rows >= 40
