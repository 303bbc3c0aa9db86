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
storms, prefix reuse in bursts, answers of a few tokens (a step's rest is counted as if steps were independent), an API
server that can't keep up (above some thousand tokens per second per process).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from inferplan.performance.constants import Constants
from inferplan.performance.step import Array, Flags, Table, step_time

CLOSED, OPEN, BURST = 0.0, 1.0, 2.0
HORIZON_SECONDS = 600.0
_ROUNDS = 12
_MOST_LOAD = 0.98
# Of time in system over R, as a share of what would never settle.
_STEEPEST = 0.98
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
    """Steps that one prompt's prefill is spread over: decoding requests take their tokens of the budget first.

    A fraction above one: what a step has left after one prompt's end goes to the next prompt's beginning.
    """
    room = np.maximum(demand.budget - running, demand.budget / 4)
    return np.maximum(fresh_tokens(demand) / room, 1.0)


def fresh_tokens(demand: Demand) -> Array:
    """Prompt tokens to compute: at least one, even of a prompt that is cached as a whole."""
    return np.maximum(demand.prompt - demand.cached, 1.0)


def prompt_pairs(demand: Demand) -> Array:
    """Query-key pairs of one prompt's prefill: each fresh token with what is cached and what came before it."""
    fresh = fresh_tokens(demand)
    return fresh * (demand.prompt - fresh) + fresh * fresh / 2


def prefill_time(t: Table, c: Constants, demand: Demand, running: Array, arriving: Array) -> Array:
    """What one prompt's prefill adds to the steps of `running` requests, chunk by chunk under the token budget.

    `arriving`: prompts per step; more than one share a step and with it what reading the weights hides.
    """
    fresh = fresh_tokens(demand)
    parts = chunks(demand, running)
    shared = np.clip(arriving, 1.0, np.maximum(demand.budget / fresh, 1.0))
    context = demand.prompt + demand.answer / 2
    pairs = prompt_pairs(demand)
    with_chunk = step_time(t, c, running, context, fresh / parts * shared, pairs / parts * shared).total
    none = np.zeros_like(running)
    without = np.where(running > 0, step_time(t, c, running, context, none, none).total, 0.0)
    return parts * np.maximum(with_chunk - without, _TINY) / shared


def request_host(c: Constants, demand: Demand) -> Array:
    """Before and after the engine: tokenising the prompt, the server's and the client's share."""
    return c.request_host + c.token_host * demand.prompt


def _met(decode: Array, prefill: Array, share: Array) -> tuple[Array, Array]:
    """What a new request meets before its own steps: (decoding, others' prefills), seconds.

    `share`: prompts that arrive per decode step, Poisson. A new request falls into a step with a chance that grows
    with the step's length, waits for the rest of it, and is taken in together with whoever else arrived in it.
    """
    mean = np.maximum(decode + share * prefill, _TINY)
    square = decode * decode + 2 * decode * share * prefill + prefill * prefill * (share + share * share)
    rest = square / (2 * mean)
    together = share * square / (mean * mean)
    return rest * decode / mean, (rest * share / mean + together) * prefill


def _most_per_step(demand: Demand, prefill: Array) -> Array:
    """Prefill seconds that fit a step: it takes no more prompt tokens than its budget."""
    return prefill * demand.budget / fresh_tokens(demand)


def _closed(t: Table, c: Constants, demand: Demand) -> _Means:
    concurrency = demand.amount
    running = np.minimum(concurrency, demand.cap)
    others = np.maximum(running - 1, 0.0)
    decode = decode_time(t, c, demand, running)
    steps = np.maximum(demand.answer - 1, 1.0)
    arriving = others / steps
    prefill = prefill_time(t, c, demand, others, arriving)
    rest, together = _met(decode, prefill, arriving)
    # One alone finds the engine idle; steps take a new request in together with the others' decoding.
    shared = np.minimum(others, 1.0) * (rest + chunks(demand, others) * decode)
    # A cycle holds R prefills and O − 1 decode steps: others' prefills that TTFT does not meet, TPOT does.
    met = np.minimum(together + c.bunching * others / 2 * prefill, others * prefill)
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
    cap_prefill = prefill_time(t, c, demand, np.maximum(demand.cap - 1, 1.0), demand.cap / answer)
    limit = demand.cap / (demand.cap * cap_prefill + _steps(demand, demand.cap) * cap_decode)
    saturated = rate >= 0.98 * limit
    steady = np.minimum(rate, 0.98 * limit)
    running = _steady_running(t, c, demand, steady)
    decode, prefill, load, tpot = _mixed(t, c, demand, steady, running)
    met = load * prefill * (1 + demand.prompt_cv * demand.prompt_cv) / (2 * (1 - load))
    use = np.minimum(steady / limit, 0.98)
    service = prefill + _steps(demand, running) * tpot
    slot = service * np.power(use, np.sqrt(2 * (demand.cap + 1))) / (demand.cap * (1 - use))
    overload = np.where(saturated, HORIZON_SECONDS / 2 * np.maximum(rate / limit - 1, 0.02), 0.0)
    met = met + slot + overload
    # With less than one running on average the engine is idle for the rest: no step to wait for.
    shared = (0.5 * np.minimum(running, 1.0) + chunks(demand, running)) * decode
    ttft = request_host(c, demand) + shared + prefill / (1 - load) + met
    throughput = np.where(saturated, limit, rate)
    return _Means(running, decode, prefill, tpot, ttft, met, throughput, saturated.astype(np.float64))


def _mixed(t: Table, c: Constants, demand: Demand, rate: Array, running: Array) -> tuple[Array, Array, Array, Array]:
    """(decode step, what a prompt's prefill adds, share of time that these take, TPOT) with `running` requests.

    A prompt that finds the engine idle needs a decode step's time (the weights are read) and what it adds to one.
    """
    others = np.maximum(running, 1.0)
    decode = decode_time(t, c, demand, others)
    prefill = prefill_time(t, c, demand, others, running / np.maximum(demand.answer, 1.0))
    load = np.minimum(rate * prefill, _MOST_LOAD)
    return decode, prefill, load, decode / (1 - load)


def _steps(demand: Demand, running: Array) -> Array:
    """Steps that a request is part of: its prompt's chunks, the last of which yields a token, then one a token."""
    return chunks(demand, running) + np.maximum(demand.answer - 1, 0.0)


def _steady_running(t: Table, c: Constants, demand: Demand, rate: Array) -> Array:
    """Requests that run on average: R = λ · time in system(R), by the secant method.

    The time is nearly linear in R: a few rounds do, where plain iteration would need hundreds close to saturation.
    """

    def wanted(running: Array) -> Array:
        _, prefill, load, tpot = _mixed(t, c, demand, rate, running)
        return rate * (prefill / (1 - load) + _steps(demand, running) * tpot)

    running = np.minimum(np.ones_like(rate), demand.cap)
    found = wanted(running)
    slope = np.zeros_like(rate)
    for _ in range(_ROUNDS):
        following = np.clip(running + (found - running) / (1 - slope), _TINY, demand.cap)
        then = wanted(following)
        moved = following - running
        far = np.abs(moved) > 1e-9 * running
        slope = np.where(far, np.clip((then - found) / np.where(far, moved, 1.0), 0.0, _STEEPEST), slope)
        running, found = following, then
    return running


def _burst(t: Table, c: Constants, demand: Demand) -> _Means:
    number = demand.amount
    running = np.minimum(number, demand.cap)
    decode = decode_time(t, c, demand, running)
    prefill = prefill_time(t, c, demand, np.zeros_like(running), running)
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
