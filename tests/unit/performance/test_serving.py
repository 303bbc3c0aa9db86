"""From step to serving: what users see under a load. Laws that hold for every model and GPU are in test_promises."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplan.engine import EngineConfig, plan_memory, resolve
from inferplan.hardware import resolve_gpu
from inferplan.model.hub import resolve_model
from inferplan.performance import Performance, Quantiles, ServingPoint, predict
from inferplan.workload import Burst, Concurrency, Lengths, Load, RequestRate, Workload

ARCHITECTURE = resolve_model("meta-llama/Meta-Llama-3.1-8B", hub="never").architecture
GPUS = ("H100-SXM", "A100-SXM-80GB", "L40S", "L4", "B200", "MI300X")


def ask(
    load: Load,
    *,
    prompt: float = 1000.0,
    answer: float = 200.0,
    cv: float = 0.0,
    hits: float = 0.0,
    gpu: str = "H100-SXM",
    config: EngineConfig | None = None,
) -> ServingPoint:
    spec = resolve_gpu(gpu)
    resolved = resolve(config or EngineConfig(max_model_len=32768), ARCHITECTURE, spec)
    workload = Workload(Lengths.from_mean(prompt, cv), Lengths.from_mean(answer, cv), load, hits)
    return ServingPoint(ARCHITECTURE, spec, resolved, plan_memory(ARCHITECTURE, spec, resolved), workload)


def one(point: ServingPoint) -> Performance:
    return predict([point])[0]


def rising(values: Sequence[float], slack: float = 1e-9) -> bool:
    return all(b >= a * (1 - slack) for a, b in itertools.pairwise(values))


loads = st.one_of(
    st.builds(Concurrency, st.floats(min_value=1.0, max_value=4096.0)),
    st.builds(RequestRate, st.floats(min_value=1e-4, max_value=1e4)),
    st.builds(Burst, st.integers(min_value=1, max_value=20_000)),
)
lengths = st.floats(min_value=1.0, max_value=16_000.0)


@settings(max_examples=40, deadline=None)
@given(loads, lengths, st.sampled_from(GPUS))
def test_longer_prompts_never_start_sooner(load: Load, answer: float, gpu: str) -> None:
    points = [ask(load, prompt=p, answer=answer, gpu=gpu) for p in (16, 128, 1024, 4096, 16384)]
    # An overloaded open loop is cut at its horizon; the cut moves by less than this.
    assert rising([p.ttft_seconds.mean for p in predict(points)], slack=0.01)


@settings(max_examples=40, deadline=None)
@given(loads, lengths, lengths)
def test_prefix_hits_never_hurt(load: Load, prompt: float, answer: float) -> None:
    cold, warm, hot = predict([ask(load, prompt=prompt, answer=answer, hits=h) for h in (0.0, 0.5, 0.95)])
    assert hot.ttft_seconds.mean <= warm.ttft_seconds.mean * 1.01
    assert warm.ttft_seconds.mean <= cold.ttft_seconds.mean * 1.01
    assert hot.output_tokens_per_second >= cold.output_tokens_per_second * 0.999


def test_end_to_end_is_first_token_plus_the_others() -> None:
    for load in (Concurrency(32), RequestRate(2.0), Burst(100)):
        found = one(ask(load))
        assert found.e2e_seconds.mean == pytest.approx(found.ttft_seconds.mean + 199 * found.tpot_seconds.mean)


def test_constant_lengths_spread_less_than_varied_ones() -> None:
    def spread(q: Quantiles) -> float:
        return q.p99 / q.p50

    constant, varied = predict([ask(Concurrency(8), cv=0.0), ask(Concurrency(8), cv=1.0)])
    assert spread(varied.ttft_seconds) > spread(constant.ttft_seconds)
    assert spread(varied.e2e_seconds) > spread(constant.e2e_seconds)


def test_open_loop_serves_what_arrives_until_it_cannot() -> None:
    light, heavy, beyond = predict([ask(RequestRate(r)) for r in (0.5, 20.0, 500.0)])
    assert light.requests_per_second == pytest.approx(0.5)
    assert not light.saturated
    assert light.ttft_seconds.mean < heavy.ttft_seconds.mean < beyond.ttft_seconds.mean
    assert beyond.saturated
    assert beyond.requests_per_second < 500
    assert any(w.startswith("Saturated") for w in beyond.warnings)


def test_beyond_saturation_the_answer_is_stable_and_worse_with_more() -> None:
    found = predict([ask(RequestRate(r)) for r in (200.0, 400.0, 800.0)])
    assert all(p.saturated for p in found)
    assert rising([p.ttft_seconds.mean for p in found])
    rates = [p.requests_per_second for p in found]
    assert rates == pytest.approx([rates[0]] * 3)


def test_a_nearly_idle_open_loop_is_a_single_user() -> None:
    idle, single = predict([ask(RequestRate(1e-4)), ask(Concurrency(1))])
    assert idle.tpot_seconds.mean == pytest.approx(single.tpot_seconds.mean, rel=0.01)
    assert idle.ttft_seconds.mean == pytest.approx(single.ttft_seconds.mean, rel=0.05)


def test_max_num_seqs_holds_the_others_back() -> None:
    narrow = EngineConfig(max_model_len=32768, max_num_seqs=8)
    limited, free = predict([ask(Concurrency(64), config=narrow), ask(Concurrency(64))])
    assert limited.running_requests == 8
    assert free.running_requests == 64
    assert limited.ttft_seconds.mean > 3 * free.ttft_seconds.mean
    assert limited.tpot_seconds.mean < free.tpot_seconds.mean
    assert any(w.startswith("Queueing") for w in limited.warnings)


def test_the_kv_cache_limits_who_runs() -> None:
    # 1 GiB of cache at 128 KiB a token holds 8,192 tokens: five requests of 1,500 halfway through their answers.
    small = EngineConfig(max_model_len=8192, available_kv_cache_bytes=2**30 + 2**24)
    found = one(ask(Concurrency(64), prompt=1400, answer=200, config=small))
    assert 4.5 < found.running_requests < 5.6


def test_a_bigger_chunk_budget_starts_a_long_prompt_no_later() -> None:
    small, large = (
        EngineConfig(max_model_len=32768, max_num_batched_tokens=n, max_num_seqs=256) for n in (2048, 16384)
    )
    cut, whole = predict([ask(Concurrency(1), prompt=16000, config=c) for c in (small, large)])
    assert whole.ttft_seconds.mean <= cut.ttft_seconds.mean


def test_all_at_once_waits_longer_than_one_after_the_other() -> None:
    burst, loop = predict([ask(Burst(256)), ask(Concurrency(16))])
    assert burst.ttft_seconds.mean > loop.ttft_seconds.mean
    alone = one(ask(Burst(1)))
    assert alone.tpot_seconds.mean == pytest.approx(one(ask(Concurrency(1))).tpot_seconds.mean)


def test_data_parallel_ranks_share_the_load() -> None:
    two = EngineConfig(max_model_len=32768, data_parallel_size=2)
    pair, alone = predict([ask(Concurrency(64), config=two), ask(Concurrency(32))])
    assert pair.tpot_seconds.mean == pytest.approx(alone.tpot_seconds.mean)
    assert pair.requests_per_second == pytest.approx(2 * alone.requests_per_second)
    assert pair.running_requests == pytest.approx(2 * alone.running_requests)


def test_prefill_share_follows_the_lengths() -> None:
    reading, writing = predict([ask(Concurrency(32), prompt=8000, answer=20), ask(Concurrency(32), prompt=20)])
    assert reading.prefill_seconds_share > 0.8
    assert writing.prefill_seconds_share < 0.1
