"""The whole of planning: request and inputs in, Recommendation or Infeasible out. Pure."""

from __future__ import annotations

import dataclasses

from inferplan.engine import MemoryPlan, requests_that_fit
from inferplan.performance import Interval, Performance, ServingPoint, family_remark, predict
from inferplan.planning.choose import (
    alternatives,
    best_first,
    killers,
    nearest,
    reasons,
    rejected_counts,
    why_not,
)
from inferplan.planning.display import exact, predicted, significant, unknown
from inferplan.planning.evaluate import Evaluation, evaluate
from inferplan.planning.limits import Candidate
from inferplan.planning.shapes import Space, kv_arguments, search_space
from inferplan.planning.types import (
    Alternative,
    Choice,
    Decision,
    Infeasible,
    Inputs,
    Notice,
    PlanningRequest,
    Predicted,
    Recommendation,
)
from inferplan.workload import Burst, Concurrency, RequestRate, Workload

_GIB = 2**30


def recommend(request: PlanningRequest, inputs: Inputs) -> Recommendation | Infeasible:
    """The best configuration within the limits, or why there is none and what would work.

    Raises InvalidInput naming the field for a request that means nothing (an unknown GPU type, a context above the
    model's limit).
    """
    space = search_space(request, inputs)
    evaluation = evaluate(space.usable, request, inputs)
    ranked = best_first(evaluation.shapes, request)
    rejected = rejected_counts(space, evaluation.shapes, request, inputs)
    count = len(space.unusable) + evaluation.points
    if not ranked:
        return _infeasible(space, evaluation, request, inputs, rejected, count)
    winner = ranked[0]
    losers = alternatives(ranked)
    choices = [_choice(c, request, inputs) for c in (winner, *losers)]
    return Recommendation(
        choice=choices[0],
        reasons=reasons(ranked, request),
        alternatives=tuple(
            Alternative(choice, _summary(c), why_not(c, winner, request))
            for c, choice in zip(losers, choices[1:], strict=True)
        ),
        warnings=_warnings(winner, request, choices[0].decision),
        unmodelled=request.unmodelled,
        candidates=count,
        rejected=rejected,
    )


def _infeasible(
    space: Space,
    evaluation: Evaluation,
    request: PlanningRequest,
    inputs: Inputs,
    rejected: tuple[tuple[str, int], ...],
    count: int,
) -> Infeasible:
    if not space.usable and not space.unusable:
        text = "the cluster has no GPU nodes that are known (by the labels of GPU feature discovery)"
        return Infeasible("NoGPUs", f"nothing can serve {request.model.id}: {text}", (), count, rejected)
    code = rejected[0][0] if rejected else "NoCandidates"
    example = next((u.reason.message for u in space.unusable if u.reason.code == code), None)
    if example is None:
        misses = (m for e in evaluation.shapes for m in killers(e, request, inputs) if m.code == code)
        example = next((m.message for m in misses), "no GPU type is left to choose from")
    model = request.model.id
    hints = nearest(evaluation.shapes, request, inputs) or elsewhere(request, inputs)
    return Infeasible(
        code=code,
        message=f"nothing can serve {model} within the limits; most candidates fall to {code}: {example}",
        nearest=hints,
        candidates=count,
        rejected=rejected,
        warnings=tuple(Notice(*w) for w in request.model.warnings),
    )


def elsewhere(request: PlanningRequest, inputs: Inputs) -> tuple[Notice, ...]:
    """What would work where nothing starts within the limits: with more GPUs, else on another GPU type."""
    c = request.constraints
    relaxed = {
        f"without constraints.maxGPUs={c.max_gpus}": dataclasses.replace(c, max_gpus=None),
        "with other constraints.gpuTypes": dataclasses.replace(c, gpu_types=()),
        "with neither": dataclasses.replace(c, gpu_types=(), max_gpus=None),
    }
    for words, constraints in relaxed.items():
        if constraints == c:
            continue
        wider = dataclasses.replace(request, constraints=constraints)
        space = search_space(wider, inputs)
        ranked = best_first(evaluate(space.usable, wider, inputs).shapes, wider)
        if ranked:
            return (Notice("Relax", f"{words}: {_summary(ranked[0])}"),)
    return ()


def _summary(candidate: Candidate) -> str:
    return f"{candidate.replicas} × ({candidate.shape.name})"


def _choice(candidate: Candidate, request: PlanningRequest, inputs: Inputs) -> Choice:
    shape = candidate.shape
    workload = _per_replica(request.workload, candidate.replicas)
    point = ServingPoint(request.model.architecture, shape.gpu, shape.config, shape.memory, workload)
    performance = predict([point])[0]
    config = shape.config
    decision = Decision(
        gpu_type=shape.gpu.name,
        tensor_parallel=config.tensor_parallel_size,
        pipeline_parallel=config.pipeline_parallel_size,
        data_parallel=config.data_parallel_size,
        replicas=candidate.replicas,
        quantization=config.weight_quantization,
        kv_cache_dtype=shape.kv_argument,
        max_model_len=config.max_model_len,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        gpu_memory_utilization=format(config.gpu_memory_utilization, ".2f"),
        enable_prefix_caching=config.enable_prefix_caching,
        enforce_eager=config.enforce_eager,
        image=request.image or inputs.defaults.image,
        model_revision=request.model.revision,
    )
    return Choice(decision, _predicted(candidate, point, performance))


def _per_replica(workload: Workload, replicas: int) -> Workload:
    load = workload.load
    if isinstance(load, Concurrency):
        shared: Concurrency | RequestRate | Burst = Concurrency(load.requests / replicas)
    elif isinstance(load, Burst):
        shared = Burst(max(1, round(load.requests / replicas)))
    else:
        shared = RequestRate(load.requests_per_second / replicas)
    return dataclasses.replace(workload, load=shared)


# Bytes and prices are counted, whatever the times of a model or a GPU rest on.
_COUNTED = "SpecSheet"


def _predicted(candidate: Candidate, point: ServingPoint, p: Performance) -> tuple[tuple[str, Predicted], ...]:
    memory, basis, counted = point.memory, p.basis, _COUNTED
    n = candidate.replicas
    tps = p.output_tokens_per_second_interval
    needed = kv_needed_bytes(point, p)
    return (
        ("ttft", _latency(p.ttft_seconds.p95, p.ttft_seconds.mean, p.ttft_interval, basis)),
        ("tpot", _latency(p.tpot_seconds.p95, p.tpot_seconds.mean, p.tpot_interval, basis)),
        ("e2e", predicted(*_e2e(candidate), "ms", basis)),
        (
            "outputTokensPerSecond",
            predicted(p.output_tokens_per_second * n, tps.low * n, tps.high * n, "tok/s", basis),
        ),
        (
            "kvCacheTokens",
            Predicted(
                exact(memory.kv_cache_tokens),
                exact(memory.kv_cache_tokens_low),
                exact(memory.kv_cache_tokens_high),
                "tokens",
                counted,
            ),
        ),
        ("maxConcurrency", _max_concurrency(memory, counted)),
        ("weightsGiB", _exact(memory.weights_bytes_per_rank / _GIB, "GiB", counted)),
        ("kvNeededGiB", _kv_needed(point, p, needed)),
        (
            "vramReservedGiB",
            _exact(memory.total_memory_bytes * point.config.gpu_memory_utilization / _GIB, "GiB", counted),
        ),
        *_money(candidate, p),
    )


def kv_needed_bytes(point: ServingPoint, performance: Performance) -> float:
    """KV cache this load needs on one GPU: running requests, each halfway to its mean full length."""
    workload = point.workload
    held = workload.input_tokens.mean_tokens + workload.output_tokens.mean_tokens / 2
    running = performance.running_requests / point.config.data_parallel_size
    room = requests_that_fit(point.memory, held)
    return point.memory.available_kv_cache_bytes * running / room if room > 0 else 0.0


def _max_concurrency(memory: MemoryPlan, basis: str) -> Predicted:
    """As uncertain as the tokens it is made of."""
    value, tokens = memory.max_concurrency, max(memory.kv_cache_tokens, 1)
    low, high = memory.kv_cache_tokens_low / tokens, memory.kv_cache_tokens_high / tokens
    return predicted(value, value * low, value * high, "requests", basis)


def _kv_needed(point: ServingPoint, p: Performance, needed: float) -> Predicted:
    """Given by the load in a closed loop; with arrivals it grows with the time that requests stay."""
    value = needed / _GIB
    if not isinstance(point.workload.load, RequestRate) or p.tpot_seconds.mean <= 0:
        return _exact(value, "GiB", p.basis)
    low, high = p.tpot_interval.low / p.tpot_seconds.mean, p.tpot_interval.high / p.tpot_seconds.mean
    return predicted(value, value * low, value * high, "GiB", p.basis)


def _exact(value: float, unit: str, basis: str) -> Predicted:
    shown = significant(value)
    return Predicted(shown, shown, shown, unit, basis)


def _latency(value: float, mean: float, interval: Interval, basis: str) -> Predicted:
    """A percentile with the relative interval of its mean, in ms."""
    scale = value / mean * 1000 if mean > 0 else 0.0
    return predicted(value * 1000, interval.low * scale, interval.high * scale, "ms", basis)


def _e2e(candidate: Candidate) -> tuple[float, float, float]:
    bound = candidate.e2e_p95
    low = bound.value * bound.value / bound.high if bound.high > 0 else 0.0
    return bound.value * 1000, low * 1000, bound.high * 1000


def _money(candidate: Candidate, p: Performance) -> tuple[tuple[str, Predicted], ...]:
    """Price is the list's or the user's; per token it divides by the predicted throughput at this load."""
    basis = p.basis
    names = ("usdPerHour", "usdPerMillionInputTokens", "usdPerMillionOutputTokens")
    units = ("USD/h", "USD/1M", "USD/1M")
    if candidate.usd_per_hour is None:
        return tuple((name, unknown(unit, basis)) for name, unit in zip(names, units, strict=True))
    hour = candidate.usd_per_hour
    per_input, per_output = p.usd_per_million_tokens(hour / candidate.replicas)
    tps = p.output_tokens_per_second_interval
    slow = p.output_tokens_per_second / tps.low if tps.low > 0 else 1.0
    fast = p.output_tokens_per_second / tps.high if tps.high > 0 else 1.0
    return (
        (names[0], _exact(hour, units[0], _COUNTED)),
        (names[1], predicted(per_input, per_input * fast, per_input * slow, units[1], basis)),
        (names[2], predicted(per_output, per_output * fast, per_output * slow, units[2], basis)),
    )


def _warnings(winner: Candidate, request: PlanningRequest, decision: Decision) -> tuple[Notice, ...]:
    found = [Notice(*w) for w in request.model.warnings]
    for text in winner.shape.memory.warnings:
        code, _, message = text.partition(": ")
        found.append(Notice(code, message))
    if "@sha256:" not in decision.image:
        found.append(Notice("ImageUnpinned", f"image {decision.image} has no digest; its content may change"))
    limit = request.model.architecture.max_position_embeddings
    if remark := family_remark(request.model.architecture):
        found.append(Notice("FamilyNotFitted", remark))
    if decision.max_model_len < limit:
        text = f"requests longer than {decision.max_model_len} tokens are refused (the model allows {limit}); "
        found.append(Notice("ContextLimited", text + "constraints.minContextLength raises it"))
    if kv_arguments(request) == ("auto",) and winner.shape.config.kv.element_bytes > 1:
        text = "constraints.kvCacheDtypes: [auto, fp8] would also try an fp8 KV cache (half the bytes, some accuracy)"
        found.append(Notice("KVDtypeNotTried", text))
    return tuple(found)
