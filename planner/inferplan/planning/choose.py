"""Rank what is feasible, and say of everything else why not.

Ranking: the objective first (an unknown price comes after every known one), then fewer GPUs, lower end-to-end latency,
larger batch limit, name. Numbers are compared as displayed (three digits), so that the last bit of a float decides
nothing. Alternatives differ in kind: the best of each other GPU type, tensor parallel size or KV dtype.
"""

from __future__ import annotations

from collections import Counter

from inferplan.planning.display import significant
from inferplan.planning.evaluate import Evaluated, at_replicas
from inferplan.planning.limits import Candidate, Miss, latency_misses, resource_misses
from inferplan.planning.shapes import Space
from inferplan.planning.types import Inputs, Notice, PlanningRequest

_ALTERNATIVES = 5
_NEAREST = 5
_LATENCY_REPLICAS = 64
Rank = tuple[float | int | str, ...]


def best_first(shapes: tuple[Evaluated, ...], request: PlanningRequest) -> list[Candidate]:
    """All feasible candidates, the recommended one first."""
    feasible = [(e, found) for e in shapes if (found := e.feasible) is not None]
    if request.objectives.minimise == "Latency":
        return sorted(_spread(feasible, request), key=lambda c: rank(c, request))
    return sorted((found for _, found in feasible), key=lambda c: rank(c, request))


def _spread(feasible: list[tuple[Evaluated, Candidate]], request: PlanningRequest) -> list[Candidate]:
    """For the lowest latency: every number of replicas from needed to allowed, where anything bounds them."""
    c = request.constraints
    if c.max_gpus is None and c.max_hourly_usd is None:
        return [found for _, found in feasible]
    pairs = [
        (e.shape, n)
        for e, found in feasible
        if e.allowed is not None
        for n in range(found.replicas, min(e.allowed.replicas, found.replicas + _LATENCY_REPLICAS) + 1)
    ]
    return list(at_replicas(tuple(s for s, _ in pairs), tuple(n for _, n in pairs), request))


def rank(candidate: Candidate, request: PlanningRequest) -> Rank:
    """The sort key (module docstring)."""
    unknown = candidate.usd_per_hour is None
    cost = float(significant(candidate.usd_per_hour or 0.0))
    latency = float(significant(candidate.e2e_p95.value))
    gpus = candidate.gpus
    batch = -candidate.shape.config.max_num_seqs
    name = candidate.shape.name
    match request.objectives.minimise:
        case "Latency":
            return (latency, unknown, cost, gpus, batch, name)
        case "GPUs":
            return (gpus, unknown, cost, latency, batch, name)
        case _:
            return (unknown, cost, gpus, latency, batch, name)


def kind_of(candidate: Candidate) -> tuple[str, int, str]:
    """What makes a configuration different in kind."""
    return candidate.shape.gpu.name, candidate.shape.tensor_parallel, candidate.shape.kv_argument


def alternatives(ranked: list[Candidate]) -> list[Candidate]:
    """The best of each other kind, one per GPU type first, at most five."""
    winner = ranked[0]
    best: dict[tuple[str, int, str], Candidate] = {}
    for candidate in ranked[1:]:
        if kind_of(candidate) != kind_of(winner):
            best.setdefault(kind_of(candidate), candidate)
    order = list(best.values())
    seen = {winner.shape.gpu.name}
    fresh: list[Candidate] = []
    for candidate in order:
        if candidate.shape.gpu.name not in seen:
            seen.add(candidate.shape.gpu.name)
            fresh.append(candidate)
    rest = [c for c in order if c not in fresh]
    return (fresh + rest)[:_ALTERNATIVES]


def why_not(loser: Candidate, winner: Candidate, request: PlanningRequest) -> Notice:
    """The deciding number between two feasible candidates."""
    if loser.usd_per_hour is None:
        return Notice("PriceUnknown", f"no price is known for {loser.shape.gpu.name}")
    faster = 1 - loser.tpot_p95.value / winner.tpot_p95.value
    trade = f"{abs(faster):.0%} {'less' if faster > 0 else 'more'} TPOT"
    if request.objectives.minimise == "Latency":
        ratio = loser.e2e_p95.value / winner.e2e_p95.value
        return Notice("LatencyHigher", f"{ratio:.2f}× the end-to-end latency")
    if request.objectives.minimise == "GPUs" and loser.gpus > winner.gpus:
        return Notice("MoreGPUs", f"{loser.gpus} GPUs instead of {winner.gpus} for {trade}")
    if winner.usd_per_hour is None:
        return Notice("MoreGPUs", f"{loser.gpus} GPUs instead of {winner.gpus}")
    ratio = loser.usd_per_hour / winner.usd_per_hour
    cost = f"${significant(loser.usd_per_hour)}/h instead of ${significant(winner.usd_per_hour)}/h"
    if ratio <= 1.0001:
        return Notice("Tie", f"the same cost; more GPUs or a higher latency ({trade})")
    return Notice("CostHigher", f"{ratio:.2f}× the cost ({cost}) for {trade}")


def reasons(ranked: list[Candidate], request: PlanningRequest) -> tuple[Notice, ...]:
    """Why the first one: the objective, how far each SLO is away, what limits it."""
    winner = ranked[0]
    found = [_objective_reason(ranked, request)]
    for label, limit, bound in (
        ("TTFT p95", request.objectives.ttft_p95_seconds, winner.ttft_p95),
        ("TPOT p95", request.objectives.tpot_p95_seconds, winner.tpot_p95),
        ("end-to-end p95", request.objectives.e2e_p95_seconds, winner.e2e_p95),
    ):
        if limit is not None:
            judged = bound.judged(request.objectives)
            text = f"{label} {significant(judged * 1000)} ms of {significant(limit * 1000)} ms allowed"
            found.append(Notice("ObjectiveHolds", f"{text} ({request.objectives.judge_by.lower()})"))
    return tuple(found)


def _objective_reason(ranked: list[Candidate], request: PlanningRequest) -> Notice:
    winner = ranked[0]
    others = alternatives(ranked)
    if winner.usd_per_hour is None:
        return Notice("FewestGPUs", f"{winner.gpus} GPUs; no price is known for any feasible GPU type")
    cost = f"${significant(winner.usd_per_hour)}/h"
    match request.objectives.minimise:
        case "Latency":
            text = f"end-to-end p95 {significant(winner.e2e_p95.value * 1000)} ms, the lowest within the limits"
            return Notice("LowestLatency", f"{text}, at {cost}")
        case "GPUs":
            return Notice("FewestGPUs", f"{winner.gpus} GPUs, the fewest that hold every limit, at {cost}")
        case _:
            if not others:
                return Notice("LowestCost", f"{cost}; nothing else holds every limit")
            other = others[0]
            dear = "an unknown price" if other.usd_per_hour is None else f"${significant(other.usd_per_hour)}/h"
            name = f"{other.replicas} × ({other.shape.name})"
            return Notice("LowestCost", f"{cost}, the lowest; next in kind: {name} at {dear}")


def rejected_counts(
    space: Space, shapes: tuple[Evaluated, ...], request: PlanningRequest, inputs: Inputs
) -> tuple[tuple[str, int], ...]:
    """Reason code → how many candidates fell to it, most first."""
    counts = Counter(u.reason.code for u in space.unusable)
    for evaluated in shapes:
        if evaluated.feasible is None:
            counts.update(m.code for m in killers(evaluated, request, inputs)[:1])
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def killers(evaluated: Evaluated, request: PlanningRequest, inputs: Inputs) -> tuple[Miss, ...]:
    """Why a shape is infeasible: the limits on GPUs and money where more replicas would do, else the SLOs."""
    if evaluated.needed is not None:
        return resource_misses(evaluated.needed, request, inputs)
    if evaluated.allowed is None:
        return (Miss("NotEnoughGPUs", f"no {evaluated.shape.name} fits the limits", "more GPUs"),)
    return latency_misses(evaluated.allowed, request.objectives)


def nearest(shapes: tuple[Evaluated, ...], request: PlanningRequest, inputs: Inputs) -> tuple[Notice, ...]:
    """What would work: for each limit alone, the cheapest candidate that relaxing it lets through."""
    found: list[Notice] = []
    more = [e.needed for e in shapes if e.needed is not None]
    single = [(c, m[0]) for c in more if len(m := resource_misses(c, request, inputs)) == 1]
    for code in dict.fromkeys(m.code for _, m in single):
        candidate, miss = min(((c, m) for c, m in single if m.code == code), key=lambda pair: rank(pair[0], request))
        found.append(Notice("Relax", f"{miss.relaxed} lets {candidate.replicas} × ({candidate.shape.name}) run"))
    slower = [(e.allowed, m[0]) for e in shapes if e.allowed and len(m := killers(e, request, inputs)) == 1]
    for code in dict.fromkeys(m.code for c, m in slower if m in latency_misses(c, request.objectives)):
        options = [(c, m) for c, m in slower if m.code == code]
        candidate, miss = min(options, key=lambda pair: (pair[0].e2e_p95.value, pair[0].shape.name))
        found.append(Notice("Relax", f"{miss.relaxed} lets {candidate.replicas} × ({candidate.shape.name}) run"))
    return tuple(found[:_NEAREST])
