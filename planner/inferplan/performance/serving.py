"""Step → serving: vLLM's scheduler on top of the step, in closed form and vectorised.

R requests run at once, at most `cap` = min(max_num_seqs, requests the KV cache holds). Decode steps take d(R); one
prompt's prefill, mixed into the running steps under the token budget, adds m (the steps with it minus without it).

    TTFT = host + rest of the running step + chunks · d + m + others' prefills met + waiting for a slot

    closed loop   R = min(C, cap). A cycle holds R prefills and O − 1 decode steps:
                  TPOT = d(R) + (prefills of the R − 1 others that TTFT has not met) / (O − 1)
    open loop     ρ = λ·m,  TPOT = d(R) / (1 − ρ),  R = λ · time in system (fixed point)
    all at once   prompts in order: TTFT of the i-th is i · m; later waves wait for a slot

The rest of the running step is E[s²] / 2E[s] with Poisson prompts per step. Others are met in the step that takes the
request in and, by `bunching`, because benchmarks start all requests at once. Waiting for a slot in the open loop is
Sakasegawa's M/G/c; at λ ≥ λmax = cap / (cap·m + O·d(cap)) the queue grows without end: `saturated`, and the latencies
are those of the first ten minutes. Percentiles: log-normal with the variance of prompt lengths, steps, interference
(Poisson) and queueing (exponential). Known to be wrong: cohorts of equally long requests that started together (TTFT
of long prompts up to 30 % low), the tail of a burst with lengths that vary (throughput 10–20 % high), preemption
storms, prefix reuse in bursts, an API server that can't keep up (above some thousand tokens per second per process).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from inferplan.performance.constants import Constants
from inferplan.performance.step import Array, Flags, Table, step_time

CLOSED, OPEN, BURST = 0.0, 1.0, 2.0
HORIZON_SECONDS = 600.0
_ROUNDS = 60
_Z = {"p50": 0.0, "p90": 1.2815515655446004, "p95": 1.6448536269514722, "p99": 2.3263478740408408}
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Demand:
    """The load of each deployment (one replica), arrays. `kind`: CLOSED, OPEN or BURST; `amount`: C, λ or N.

    `prompt`, `answer`: mean tokens; `cached`: prompt tokens found in the prefix cache; `*_cv`: coefficients of
    variation; `cap`: requests that may run at once; `budget`: max_num_batched_tokens.
    """

    kind: Array
    amount: Array
    prompt: Array
    answer: Array
    cached: Array
    prompt_cv: Array
    answer_cv: Array
    cap: Array
    budget: Array

    def take(self, index: npt.NDArray[np.intp]) -> Demand:
        """The rows of `index`."""
        return Demand(*(getattr(self, f.name)[index] for f in fields(self)))


@dataclass(frozen=True, slots=True)
class Latency:
    """Mean and percentiles over requests, seconds."""

    mean: Array
    p50: Array
    p90: Array
    p95: Array
    p99: Array


@dataclass(frozen=True, slots=True)
class Served:
    """The answer for each deployment, arrays."""

    ttft: Latency
    tpot: Latency
    e2e: Latency
    requests_per_second: Array
    running: Array
    saturated: Flags
    prefill_share: Array
    queueing: Flags


@dataclass(frozen=True, slots=True)
class _Means:
    """Means before percentiles: `met` is the mean of the exponential part of TTFT (queueing)."""

    running: Array
    decode: Array
    prefill: Array
    tpot: Array
    ttft: Array
    met: Array
    throughput: Array
    saturated: Array


def serve(t: Table, c: Constants, demand: Demand) -> Served:
    """Evaluate every deployment under its demand."""
    count = len(demand.kind)
    columns = {f.name: np.zeros(count) for f in fields(_Means)}
    for kind, evaluate in ((CLOSED, _closed), (OPEN, _open), (BURST, _burst)):
        index = np.flatnonzero(demand.kind == kind)
        if not len(index):
            continue
        whole = len(index) == count
        found = evaluate(t if whole else t.take(index), c, demand if whole else demand.take(index))
        for name, column in columns.items():
            column[index] = getattr(found, name)
    return _served(demand, _Means(**columns))


def decode_time(t: Table, c: Constants, demand: Demand, running: Array) -> Array:
    """A step in which `running` requests decode, halfway through their answers."""
    none = np.zeros_like(running)
    return step_time(t, c, running, demand.prompt + demand.answer / 2, none, none).total


def chunks(demand: Demand, running: Array) -> Array:
    """Steps that one prompt's prefill is spread over: decoding requests take their tokens of the budget first."""
    room = np.maximum(demand.budget - running, demand.budget / 4)
    return np.ceil(_fresh(demand) / room)


def _fresh(demand: Demand) -> Array:
    """Prompt tokens to compute: at least one, even of a prompt that is cached as a whole."""
    return np.maximum(demand.prompt - demand.cached, 1.0)


def prefill_time(t: Table, c: Constants, demand: Demand, running: Array) -> Array:
    """What one prompt's prefill adds to the steps of `running` requests, chunk by chunk under the token budget."""
    fresh = _fresh(demand)
    parts = chunks(demand, running)
    context = demand.prompt + demand.answer / 2
    pairs = fresh * (demand.prompt - fresh) + fresh * fresh / 2
    with_chunk = step_time(t, c, running, context, fresh / parts, pairs / parts).total
    none = np.zeros_like(running)
    without = np.where(running > 0, step_time(t, c, running, context, none, none).total, 0.0)
    return parts * np.maximum(with_chunk - without, _TINY)


def request_host(c: Constants, demand: Demand) -> Array:
    """Before and after the engine: tokenising the prompt, the server's and the client's share."""
    return c.request_host + c.token_host * demand.prompt


def _met(decode: Array, prefill: Array, share: Array) -> tuple[Array, Array]:
    """(wait for the running step to end, others' prefills in the step that takes a new request in), seconds.

    `share`: prompts that arrive per decode step, Poisson. A new request falls into a step with a chance that grows
    with its length; whoever else arrives in that step is taken in together with it.
    """
    mean = decode + share * prefill
    square = decode * decode + 2 * decode * share * prefill + prefill * prefill * (share + share * share)
    residual = square / (2 * np.maximum(mean, _TINY))
    together = share * square / np.maximum(mean * mean, _TINY)
    return residual, together * prefill


def _most_per_step(demand: Demand, prefill: Array) -> Array:
    """Prefill seconds that fit a step: it takes no more prompt tokens than its budget."""
    return prefill * demand.budget / _fresh(demand)


def _closed(t: Table, c: Constants, demand: Demand) -> _Means:
    concurrency = demand.amount
    running = np.minimum(concurrency, demand.cap)
    others = np.maximum(running - 1, 0.0)
    decode = decode_time(t, c, demand, running)
    prefill = prefill_time(t, c, demand, others)
    steps = np.maximum(demand.answer - 1, 1.0)
    residual, together = _met(decode, prefill, others / np.maximum(demand.answer, 1.0))
    # One alone finds the engine idle; steps take a new request in together with the others' decoding.
    shared = np.minimum(others, 1.0) * (residual + chunks(demand, others) * decode)
    met = np.minimum(together + c.bunching * others / 2 * prefill, others * prefill)
    # A cycle holds R prefills and O − 1 decode steps: others' prefills that TTFT does not meet, TPOT does.
    met = np.maximum(met, others * prefill - steps * _most_per_step(demand, prefill))
    tpot = decode + (others * prefill - met) / steps
    first = request_host(c, demand) + shared + prefill + met
    busy = first + (demand.answer - 1) * tpot
    waiting = np.maximum(concurrency - running, 0.0) / np.maximum(running, _TINY) * busy
    never = np.zeros_like(running)
    return _Means(running, decode, prefill, tpot, first + waiting, met, running / busy, never)


def _open(t: Table, c: Constants, demand: Demand) -> _Means:
    rate = demand.amount
    answer = np.maximum(demand.answer, 1.0)
    cap_decode = decode_time(t, c, demand, demand.cap)
    cap_prefill = prefill_time(t, c, demand, np.maximum(demand.cap - 1, 0.0))
    limit = demand.cap / (demand.cap * cap_prefill + answer * cap_decode)
    saturated = rate >= 0.98 * limit
    steady = np.minimum(rate, 0.98 * limit)
    running = np.minimum(np.ones_like(rate), demand.cap)
    for _ in range(_ROUNDS):
        decode = decode_time(t, c, demand, np.maximum(running, 1.0))
        prefill = prefill_time(t, c, demand, np.maximum(running - 1, 0.0))
        load = np.minimum(steady * prefill, 0.98)
        tpot = decode / (1 - load)
        wanted = steady * (prefill / (1 - load) + answer * tpot)
        running = np.minimum(0.5 * running + 0.5 * wanted, demand.cap)
    met = load * prefill * (1 + demand.prompt_cv * demand.prompt_cv) / (2 * (1 - load))
    use = np.minimum(steady / limit, 0.98)
    service = prefill + answer * tpot
    slot = service * np.power(use, np.sqrt(2 * (demand.cap + 1))) / (demand.cap * (1 - use))
    overload = np.where(saturated, HORIZON_SECONDS / 2 * np.maximum(rate / limit - 1, 0.02), 0.0)
    met = met + slot + overload
    # With less than one running on average the engine is idle for the rest: no step to wait for.
    shared = (0.5 + chunks(demand, np.maximum(running - 1, 0.0))) * decode * np.minimum(running, 1.0)
    ttft = request_host(c, demand) + shared + prefill / (1 - load) + met
    throughput = np.where(saturated, limit, rate)
    return _Means(running, decode, prefill, tpot, ttft, met, throughput, saturated.astype(np.float64))


def _burst(t: Table, c: Constants, demand: Demand) -> _Means:
    number = demand.amount
    running = np.minimum(number, demand.cap)
    decode = decode_time(t, c, demand, running)
    prefill = prefill_time(t, c, demand, np.zeros_like(running))
    answer = np.maximum(demand.answer, 1.0)
    # Of the first wave a request meets half the prefills, later ones find every slot refilled around them.
    met = np.maximum(running - 1, 0.0) * (1 - running / (2 * number))
    tpot = decode + np.minimum(met / answer * prefill, _most_per_step(demand, prefill))
    wave = running * prefill + answer * decode
    duration = wave * number / running
    first = (running + 1) / 2 * prefill
    later = np.maximum(duration - wave, 0.0) / 2
    ttft = request_host(c, demand) + first + later
    never = np.zeros_like(running)
    return _Means(running, decode, prefill, tpot, ttft, ttft - prefill, number / duration, never)


def _served(demand: Demand, m: _Means) -> Served:
    answer = np.maximum(demand.answer, 1.0)
    ttft_variance = (m.prefill * demand.prompt_cv) ** 2 + m.decode**2 / 12 + m.met**2
    met_prefills = np.maximum(m.tpot - m.decode, 0.0) * answer / np.maximum(m.prefill, _TINY)
    interference = np.maximum(m.tpot - m.decode, 0.0) / np.sqrt(np.maximum(met_prefills, 1.0))
    # Longer contexts decode slower; the share of a step that scales with context is small, a tenth is typical.
    tpot_variance = interference**2 + (0.1 * m.decode * demand.prompt_cv) ** 2
    e2e = m.ttft + (answer - 1) * m.tpot
    e2e_variance = ttft_variance + (answer * m.tpot * demand.answer_cv) ** 2 + (answer**2) * tpot_variance
    prefill_busy = m.throughput * m.prefill
    decode_busy = np.maximum(m.throughput * answer * m.decode / np.maximum(m.running, 1.0), _TINY)
    return Served(
        ttft=_latency(m.ttft, ttft_variance),
        tpot=_latency(m.tpot, tpot_variance),
        e2e=_latency(e2e, e2e_variance),
        requests_per_second=m.throughput,
        running=m.running,
        saturated=m.saturated > 0,
        prefill_share=prefill_busy / (prefill_busy + decode_busy),
        queueing=(m.ttft - m.prefill) > 3 * (m.prefill + m.decode),
    )


def _latency(mean: Array, variance: Array) -> Latency:
    """Log-normal percentiles with this mean and variance."""
    sigma2 = np.log1p(variance / np.maximum(mean * mean, _TINY))
    sigma = np.sqrt(sigma2)
    median = mean * np.exp(-sigma2 / 2)
    return Latency(mean, *(median * np.exp(z * sigma) for z in _Z.values()))
