"""What the performance model promises whatever the model, the GPU and the load: order, sums, and no cross-talk."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from inferplan.engine import EngineConfig, plan_memory, resolve
from inferplan.hardware import GPU, resolve_gpu
from inferplan.model.hub import resolve_model
from inferplan.performance import Performance, ServingPoint, candidates, load_amount, predict, sweep
from inferplan.workload import Burst, Concurrency, Lengths, Load, RequestRate, Workload

MODELS = ("Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "meta-llama/Meta-Llama-3.1-70B")
GPUS = ("H100-SXM", "A100-SXM-80GB", "L40S", "L4", "RTX 4090", "B200", "MI300X")
# Floating-point sums in another order: the last digits may differ.
DIGITS = 1e-9

models = st.sampled_from(MODELS)
gpus = st.sampled_from(GPUS)
prompts = st.integers(1, 16_000)
answers = st.integers(1, 4_000)
# Answers of a few tokens are the model's known weak spot: nearly all of their time is the rest of someone's step, and
# order among them holds only roughly.
longer_answers = st.integers(32, 4_000)
users = st.floats(1, 500)
cvs = st.floats(0, 2)


def point(
    model: str = "Qwen/Qwen3-8B",
    gpu: str | GPU = "H100-SXM",
    *,
    prompt: float = 1000,
    answer: float = 250,
    load: Load | None = None,
    cv: float = 0.0,
    hits: float = 0.0,
    **engine: Any,
) -> ServingPoint:
    card = resolve_gpu(gpu) if isinstance(gpu, str) else gpu
    architecture = resolve_model(model, hub="never").architecture
    config = resolve(EngineConfig(**engine), architecture, card)
    lengths = Lengths.from_mean(prompt, cv), Lengths.from_mean(answer, cv)
    work = Workload(*lengths, load or Concurrency(16), hits)
    return ServingPoint(architecture, card, config, plan_memory(architecture, card, config), work)


def one(*args: Any, **kwargs: Any) -> Performance:
    return predict([point(*args, **kwargs)])[0]


def loads() -> st.SearchStrategy[Load]:
    rate = st.floats(0.01, 200).map(RequestRate)
    burst = st.integers(1, 2000).map(Burst)
    return st.one_of(users.map(Concurrency), rate, burst)


@settings(max_examples=150, deadline=None)
@given(models, gpus, prompts, answers, loads(), cvs)
def test_every_answer_is_finite_and_its_percentiles_are_in_order(
    model: str, gpu: str, prompt: int, answer: int, load: Load, cv: float
) -> None:
    found = one(model, gpu, prompt=prompt, answer=answer, load=load, cv=cv)
    for latency in (found.ttft_seconds, found.tpot_seconds, found.e2e_seconds):
        assert all(math.isfinite(x) and x > 0 for x in dataclasses.astuple(latency))
        assert latency.p50 <= latency.p90 <= latency.p95 <= latency.p99
    for value, interval in (
        (found.ttft_seconds.mean, found.ttft_interval),
        (found.tpot_seconds.mean, found.tpot_interval),
        (found.output_tokens_per_second, found.output_tokens_per_second_interval),
    ):
        assert 0 <= interval.low <= value <= interval.high < math.inf
    assert 0 <= found.prefill_seconds_share <= 1


@settings(max_examples=80, deadline=None)
@given(models, gpus, prompts, longer_answers, users, users)
def test_more_users_never_wait_less_per_token_and_never_get_fewer_tokens_in_all(
    model: str, gpu: str, prompt: int, answer: int, few: float, many: float
) -> None:
    few, many = sorted((few, many))
    asked = [point(model, gpu, prompt=prompt, answer=answer, load=Concurrency(n)) for n in (few, many)]
    # Where prompts come faster than the token budget takes them in, more decoding requests leave less of it to prompts:
    # there the total may fall, in vLLM too.
    assume(many * prompt < answer * asked[1].config.max_num_batched_tokens)
    a, b = predict(asked)
    assert b.tpot_seconds.mean >= a.tpot_seconds.mean * (1 - DIGITS)
    assert b.output_tokens_per_second >= a.output_tokens_per_second * (1 - DIGITS)


@settings(max_examples=80, deadline=None)
@given(models, gpus, prompts, prompts, longer_answers, st.integers(1, 64))
def test_a_longer_prompt_never_answers_sooner(
    model: str, gpu: str, short: int, long: int, answer: int, number: int
) -> None:
    short, long = sorted((short, long))
    load = Concurrency(number)
    a, b = (one(model, gpu, prompt=n, answer=answer, load=load) for n in (short, long))
    assert b.ttft_seconds.mean >= a.ttft_seconds.mean * (1 - DIGITS)


@settings(max_examples=60, deadline=None)
@given(models, gpus, prompts, longer_answers, loads(), st.floats(1, 4))
def test_more_bandwidth_is_never_slower(
    model: str, gpu: str, prompt: int, answer: int, load: Load, factor: float
) -> None:
    slow = resolve_gpu(gpu)
    fast = dataclasses.replace(slow, memory_bandwidth_bytes_per_second=slow.memory_bandwidth_bytes_per_second * factor)
    a, b = (one(model, card, prompt=prompt, answer=answer, load=load) for card in (slow, fast))
    # Beyond saturation the load follows the card: each is judged just below its own limit.
    assume(not a.saturated)
    assume(not b.saturated)
    assert b.tpot_seconds.mean <= a.tpot_seconds.mean * (1 + DIGITS)
    assert b.output_tokens_per_second >= a.output_tokens_per_second * (1 - DIGITS)


@settings(max_examples=60, deadline=None)
@given(prompts, st.floats(0, 1), st.integers(1, 64))
def test_a_cached_prefix_answers_sooner(prompt: int, hits: float, number: int) -> None:
    load = Concurrency(number)
    cold, warm = (one(prompt=prompt, load=load, hits=h) for h in (0.0, hits))
    assert warm.ttft_seconds.mean <= cold.ttft_seconds.mean * (1 + DIGITS)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(models, gpus, prompts, answers, loads()), min_size=2, max_size=12))
def test_a_question_is_answered_the_same_alone_and_among_others(asked: list[tuple[str, str, int, int, Load]]) -> None:
    points = [point(m, g, prompt=p, answer=a, load=load) for m, g, p, a, load in asked]
    assert predict(points) == [predict([p])[0] for p in points]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(models, gpus), min_size=1, max_size=8), prompts, answers, loads(), cvs)
def test_the_sweep_of_planning_says_what_predict_says(
    pairs: list[tuple[str, str]], prompt: int, answer: int, load: Load, cv: float
) -> None:
    points = [point(m, g, prompt=prompt, answer=answer, load=load, cv=cv) for m, g in pairs]
    work = points[0].workload
    swept = sweep(candidates(points), work, np.full(len(points), load_amount(work)))
    for i, found in enumerate(predict(points)):
        assert swept.ttft_p95[i] == pytest.approx(found.ttft_seconds.p95, rel=DIGITS)
        assert swept.tpot_p95[i] == pytest.approx(found.tpot_seconds.p95, rel=DIGITS)
        assert swept.e2e_p95[i] == pytest.approx(found.e2e_seconds.p95, rel=DIGITS)
        assert swept.output_tokens_per_second[i] == pytest.approx(found.output_tokens_per_second, rel=DIGITS)
        assert bool(swept.saturated[i]) == found.saturated
        factor = found.tpot_interval.high / found.tpot_seconds.mean
        assert swept.tpot_p95_high[i] == pytest.approx(found.tpot_seconds.p95 * factor, rel=DIGITS)
        factor = found.ttft_interval.high / found.ttft_seconds.mean
        assert swept.ttft_p95_high[i] == pytest.approx(found.ttft_seconds.p95 * factor, rel=DIGITS)


@pytest.mark.parametrize("prompt", [300, 4000])
@pytest.mark.parametrize("number", [2.0, 8.0, 40.0])
def test_a_closed_loops_cycle_holds_every_prefill_and_every_decode_step(prompt: int, number: float) -> None:
    """Little's law: users = rate × time in system, and nobody's work is lost or done twice."""
    found = one(prompt=prompt, load=Concurrency(number))
    assert found.requests_per_second * found.e2e_seconds.mean == pytest.approx(number, rel=1e-6)
    decode = sum(x.seconds for x in found.decode_step)
    assert found.e2e_seconds.mean > 249 * decode


def test_each_rank_of_a_tensor_parallel_group_reads_its_share_of_the_weights() -> None:
    alone, four = (one("Qwen/Qwen3-32B", load=Concurrency(1), tensor_parallel_size=tp) for tp in (1, 4))
    linear = [next(x for x in p.decode_step if x.name == "linear layers") for p in (alone, four)]
    assert linear[1].bytes_moved == pytest.approx(linear[0].bytes_moved / 4, rel=0.02)
    assert linear[1].seconds < linear[0].seconds / 3
    assert four.tpot_seconds.mean < alone.tpot_seconds.mean
    assert any(x.name == "all-reduces" for x in four.decode_step)


def test_beyond_saturation_the_answer_is_the_queue_halfway_through_ten_minutes() -> None:
    limit = one(load=RequestRate(1e6)).requests_per_second
    found = one(load=RequestRate(2 * limit))
    assert found.saturated
    assert found.requests_per_second == pytest.approx(limit)
    assert found.ttft_seconds.mean == pytest.approx(300, rel=0.1)  # as many wait as were served in 300 s
    assert any("Saturated" in w for w in found.warnings)


class TestSmallGPU:
    """The signs of a measured study on one RTX 3060 Laptop, 6 GB (DeepSeek-R1-Distill-Qwen-1.5B, shapes of Qwen2.5)."""

    MODEL = "Qwen/Qwen2.5-1.5B-Instruct"
    GPU = "RTX 3060 Laptop"

    def answer(self, **changes: Any) -> Performance:
        given: dict[str, Any] = {"max_model_len": 2048, "prompt": 200, "answer": 400} | changes
        return one(self.MODEL, self.GPU, **given)

    def test_batching_sixteen_gives_several_times_the_throughput_and_ends_the_queue(self) -> None:
        load = Concurrency(16)
        alone, batched = (self.answer(load=load, max_num_seqs=n) for n in (1, 16))
        assert 4 < batched.output_tokens_per_second / alone.output_tokens_per_second < 16  # measured: 5.8
        assert batched.ttft_seconds.mean < alone.ttft_seconds.mean / 50  # measured: 57 s → 0.32 s

    def test_int4_is_faster_and_leaves_more_room(self) -> None:
        plain, int4 = (self.answer(load=Concurrency(1), weight_quantization=q) for q in (None, "awq"))
        assert 1.3 < plain.tpot_seconds.mean / int4.tpot_seconds.mean < 3  # measured: 1.9 times the throughput
        room = [point(self.MODEL, self.GPU, max_model_len=2048, weight_quantization=q) for q in (None, "awq")]
        assert room[1].memory.kv_cache_tokens > 1.5 * room[0].memory.kv_cache_tokens  # measured: 2.6

    def test_prefix_caching_lowers_ttft(self) -> None:
        cold, warm = (self.answer(load=Concurrency(4), prompt=1000, hits=h) for h in (0.0, 0.5))
        assert warm.ttft_seconds.mean < 0.9 * cold.ttft_seconds.mean  # measured: −20 %
