"""The face of the room: one pass over many questions, intervals with their basis, and the sweep planning uses."""

from __future__ import annotations

import dataclasses

import numpy as np

from inferplan.engine import EngineConfig, plan_memory, resolve
from inferplan.hardware import resolve_gpu
from inferplan.model.hub import resolve_model
from inferplan.performance import ServingPoint, candidates, predict, sweep
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
