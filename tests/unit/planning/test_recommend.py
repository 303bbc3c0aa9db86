"""What planning promises: every limit holds, nothing cheaper was passed over, and hints work."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplan.engine import EngineConfig, fit_context, resolve
from inferplan.errors import InvalidInput, UnknownGPU
from inferplan.hardware import catalog, resolve_gpu
from inferplan.model.hub import resolve_model
from inferplan.planning import (
    Constraints,
    EngineOverrides,
    GPUPool,
    Infeasible,
    Inputs,
    Objectives,
    PlanningRequest,
    Recommendation,
    recommend,
)
from inferplan.planning.evaluate import at_replicas, evaluate
from inferplan.planning.limits import latency_misses, resource_misses
from inferplan.planning.shapes import search_space
from inferplan.workload import Concurrency, Lengths, RequestRate, Workload

INPUTS = Inputs(catalog(), "test")
CHAT = Workload(Lengths.from_percentiles(800, 3000), Lengths.from_percentiles(200, 600), Concurrency(32))


def request(model: str = "Qwen/Qwen3-8B", **changes: Any) -> PlanningRequest:
    base = PlanningRequest(
        model=resolve_model(model, hub="never"),
        workload=CHAT,
        objectives=Objectives(ttft_p95_seconds=2.0, tpot_p95_seconds=0.05),
        constraints=Constraints(gpu_types=("H100-SXM", "L40S", "A100"), max_gpus=8),
    )
    return dataclasses.replace(base, **changes)


def found(asked: PlanningRequest, inputs: Inputs = INPUTS) -> Recommendation:
    answer = recommend(asked, inputs)
    assert isinstance(answer, Recommendation), answer
    return answer


def number(answer: Recommendation, name: str) -> float:
    value = dict(answer.choice.predicted)[name].value
    assert value is not None
    return float(value)


def test_the_recommendation_holds_its_objectives_at_the_pessimistic_end() -> None:
    predicted = dict(found(request()).choice.predicted)
    assert float(predicted["ttft"].high or "inf") <= 2000 * 1.005
    assert float(predicted["tpot"].high or "inf") <= 50 * 1.005


def test_least_replicas_is_what_trying_every_number_finds() -> None:
    asked = request(workload=dataclasses.replace(CHAT, load=Concurrency(120)))
    space = search_space(asked, INPUTS)
    for evaluated in evaluate(space.usable, asked, INPUTS).shapes[:24]:
        tried = at_replicas((evaluated.shape,) * 40, tuple(range(1, 41)), asked)
        holding = [c.replicas for c in tried if not latency_misses(c, asked.objectives)]
        if holding:
            assert evaluated.needed is not None
            assert evaluated.needed.replicas == holding[0]
        else:
            assert evaluated.needed is None or evaluated.needed.replicas > 40


def test_nothing_feasible_is_cheaper() -> None:
    asked = request()
    answer = found(asked)
    shapes = evaluate(search_space(asked, INPUTS).usable, asked, INPUTS).shapes
    costs = [c.usd_per_hour for e in shapes if (c := e.feasible) is not None and c.usd_per_hour is not None]
    assert number(answer, "usdPerHour") == pytest.approx(min(costs), rel=5e-3)
    for e in shapes:
        if e.feasible is not None:
            assert not latency_misses(e.feasible, asked.objectives)
            assert not resource_misses(e.feasible, asked, INPUTS)


@pytest.mark.parametrize("minimise", ["Cost", "Latency", "GPUs"])
def test_each_objective_is_best_at_what_it_minimises(minimise: str) -> None:
    objectives = Objectives(ttft_p95_seconds=3.0, tpot_p95_seconds=0.08)
    answers = {
        m: found(request(objectives=dataclasses.replace(objectives, minimise=m))) for m in ("Cost", "Latency", "GPUs")
    }
    measures = {
        "Cost": lambda a: number(a, "usdPerHour"),
        "Latency": lambda a: number(a, "e2e"),
        "GPUs": lambda a: float(a.choice.decision.gpus),
    }
    measure = measures[minimise]
    assert measure(answers[minimise]) <= min(measure(a) for a in answers.values()) * 1.001


@given(
    tpot=st.sampled_from([0.02, 0.03, 0.05, 0.1]),
    concurrency=st.integers(1, 300),
    max_gpus=st.integers(1, 16),
    budget=st.sampled_from([None, 2.0, 10.0, 50.0]),
)
@settings(max_examples=25, deadline=None)
def test_limits_hold_or_the_answer_is_infeasible_with_a_reason(
    tpot: float, concurrency: int, max_gpus: int, budget: float | None
) -> None:
    asked = request(
        workload=dataclasses.replace(CHAT, load=Concurrency(concurrency)),
        objectives=Objectives(tpot_p95_seconds=tpot),
        constraints=Constraints(gpu_types=("H100-SXM", "L40S"), max_gpus=max_gpus, max_hourly_usd=budget),
    )
    answer = recommend(asked, INPUTS)
    if isinstance(answer, Infeasible):
        assert answer.code
        assert answer.rejected
        assert answer.nearest, answer
    else:
        assert answer.choice.decision.gpus <= max_gpus
        assert budget is None or number(answer, "usdPerHour") <= budget * 1.005


def test_a_looser_objective_never_costs_more() -> None:
    costs = [
        number(found(request(objectives=Objectives(tpot_p95_seconds=t))), "usdPerHour") for t in (0.03, 0.05, 0.1, 0.3)
    ]
    assert costs == sorted(costs, reverse=True)


def test_the_clusters_nodes_bound_tensor_parallelism_and_replicas() -> None:
    inputs = dataclasses.replace(INPUTS, inventory=(GPUPool("L40S", 2, 2),))
    answer = recommend(request("Qwen/Qwen3-32B", constraints=Constraints(), objectives=Objectives()), inputs)
    assert isinstance(answer, Recommendation)
    assert answer.choice.decision.gpu_type == "L40S"
    assert answer.choice.decision.tensor_parallel == 2
    assert answer.choice.decision.replicas <= 2
    lone = dataclasses.replace(INPUTS, inventory=(GPUPool("L40S", 4, 1),))
    assert isinstance(recommend(request("Qwen/Qwen3-32B", constraints=Constraints()), lone), Infeasible)


def test_a_users_price_wins_and_an_unknown_one_never_holds_a_budget() -> None:
    dear = dataclasses.replace(INPUTS, prices=(("L40S", 100.0),), price_date="2026-12-01")
    assert found(request(), dear).choice.decision.gpu_type != "L40S"
    unpriced = tuple(dataclasses.replace(g, price=None) for g in INPUTS.gpus)
    unknown = dataclasses.replace(INPUTS, gpus=unpriced)
    answer = found(request(), unknown)
    assert dict(answer.choice.predicted)["usdPerHour"].value is None
    limited = request(constraints=Constraints(gpu_types=("L40S",), max_hourly_usd=100.0))
    refused = recommend(limited, unknown)
    assert isinstance(refused, Infeasible)
    assert refused.code == "PriceUnknown"


def test_a_narrower_kv_cache_is_tried_only_where_it_is_allowed() -> None:
    assert found(request()).choice.decision.kv_cache_dtype == "auto"
    both = dataclasses.replace(request().constraints, kv_cache_dtypes=("fp8",))
    assert found(request(constraints=both)).choice.decision.kv_cache_dtype == "fp8"


def test_the_users_arguments_are_kept() -> None:
    overrides = EngineOverrides(max_model_len=9000, max_num_seqs=48, gpu_memory_utilization=0.8)
    decision = found(request(overrides=overrides)).choice.decision
    assert (decision.max_model_len, decision.max_num_seqs, decision.gpu_memory_utilization) == (9000, 48, "0.80")


def test_a_quantization_that_is_not_allowed_is_refused() -> None:
    refused = recommend(request(constraints=Constraints(gpu_types=("L40S",), quantization=("awq",))), INPUTS)
    assert isinstance(refused, Infeasible)
    assert refused.code == "QuantizationNotAllowed"


def test_names_that_mean_nothing_are_errors() -> None:
    with pytest.raises(UnknownGPU, match="Voodoo2"):
        recommend(request(constraints=Constraints(gpu_types=("Voodoo2",))), INPUTS)
    with pytest.raises(InvalidInput, match="minContextLength"):
        recommend(request(constraints=Constraints(min_context_length=10**7)), INPUTS)


def test_an_arrival_rate_above_what_one_replica_serves_takes_more() -> None:
    few, many = (
        found(request(workload=dataclasses.replace(CHAT, load=RequestRate(r)), constraints=Constraints(("L40S",))))
        for r in (0.5, 20.0)
    )
    assert few.choice.decision.replicas < many.choice.decision.replicas


def test_alternatives_differ_in_kind_and_say_why_they_lost() -> None:
    answer = found(request())
    kinds = [
        (a.choice.decision.gpu_type, a.choice.decision.tensor_parallel, a.choice.decision.kv_cache_dtype)
        for a in answer.alternatives
    ]
    winner = answer.choice.decision
    assert len(set(kinds)) == len(kinds)
    assert (winner.gpu_type, winner.tensor_parallel, winner.kv_cache_dtype) not in kinds
    assert all(a.why_not.code and a.why_not.message for a in answer.alternatives)


def test_the_same_question_has_the_same_answer() -> None:
    assert recommend(request(), INPUTS) == recommend(request(), INPUTS)


@pytest.mark.parametrize(
    ("model", "gpus"),
    [
        ("Qwen/Qwen3-30B-A3B", ("H100-SXM", "L40S")),
        ("openai/gpt-oss-120b", ("H100-SXM", "H200-SXM")),
        ("deepseek-ai/DeepSeek-V2-Lite", ("H100-SXM", "L40S")),
        ("Qwen/Qwen3.5-27B", ("H100-SXM", "H200-SXM")),
        ("google/gemma-3-27b-it", ("H100-SXM", "H200-SXM")),
        ("ai21labs/AI21-Jamba-Mini-1.5", ("H100-SXM", "H200-SXM")),
    ],
)
def test_every_family_gets_a_plan_that_starts(model: str, gpus: tuple[str, ...]) -> None:
    asked = request(model, constraints=Constraints(gpu_types=gpus, max_gpus=16))
    answer = recommend(asked, INPUTS)
    if isinstance(answer, Recommendation):
        assert number(answer, "kvCacheTokens") > 0
    shapes = search_space(asked, INPUTS).usable
    assert shapes
    assert all(shape.memory.starts_surely for shape in shapes)


def test_a_start_within_the_intervals_width_of_its_limit_is_not_offered() -> None:
    """The longest context that the point estimate fits would fail in more than one start of twenty."""
    asked = request(constraints=Constraints(gpu_types=("L4",), max_gpus=1))
    gpu = resolve_gpu("L4")
    architecture = asked.model.architecture
    fitted = fit_context(architecture, gpu, resolve(EngineConfig(max_num_seqs=16), architecture, gpu))
    overrides = EngineOverrides(max_model_len=fitted.max_model_len, max_num_seqs=16)
    careful = search_space(dataclasses.replace(asked, overrides=overrides), INPUTS)
    assert not careful.usable
    assert {u.reason.code for u in careful.unusable if u.gpu.name == "L4"} == {"MayNotStart"}
    objectives = dataclasses.replace(asked.objectives, judge_by="Point")
    bold = search_space(dataclasses.replace(asked, overrides=overrides, objectives=objectives), INPUTS)
    assert [shape.config.max_model_len for shape in bold.usable] == [fitted.max_model_len]


def test_what_no_constant_was_fitted_on_says_so_beside_its_times_only() -> None:
    constraints = Constraints(gpu_types=("H100-SXM", "H200-SXM", "B200"), max_gpus=16)
    answer = found(request("Qwen/Qwen3.5-27B", constraints=constraints))
    assert "FamilyNotFitted" in {w.code for w in answer.warnings}
    shown = dict(answer.choice.predicted)
    assert shown["tpot"].basis == "Extrapolated"
    assert {shown[name].basis for name in ("kvCacheTokens", "weightsGiB", "usdPerHour")} == {"SpecSheet"}
    assert "FamilyNotFitted" not in {w.code for w in found(request()).warnings}
