"""What a person reads before approving, and when looking at a plan. Pure text from an object as stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferplan.errors import InvalidInput
from inferplan.planning import Predicted
from inferplan.report.view import LABELS, quantity, span
from inferplan_operator.lifecycle.digest import short

Stored = Mapping[str, Any]


def digest_to_approve(plan: Stored, asked: str | None) -> str:
    """The digest on offer, or the asked one if it is offered. Raises InvalidInput saying what is offered."""
    status = plan.get("status") or {}
    name = plan["metadata"]["name"]
    offered: list[str] = status.get("offeredDigests") or []
    if asked is not None:
        found = [d for d in offered if d == asked or short(d) == asked.removeprefix("sha256:")]
        if len(found) != 1:
            listed = ", ".join(short(d) for d in offered) or "nothing"
            raise InvalidInput(f"{asked} is not on offer for {name}; offered: {listed}", code="NotOffered")
        return found[0]
    digest = (status.get("recommendation") or {}).get("digest")
    if not digest:
        message = _condition(status, "Ready").get("message") or "the operator has not looked at it yet"
        raise InvalidInput(f"nothing is on offer for {name}: {message}", code="NothingOffered")
    return str(digest)


def approval_text(plan: Stored, digest: str, *, pin: bool = False) -> str:
    """What would be approved, with the difference from what runs."""
    status = plan.get("status") or {}
    recommendation = status.get("recommendation") or {}
    lines = [f"{plan['metadata']['namespace']}/{plan['metadata']['name']}  {plan['spec']['model']['id']}"]
    if recommendation.get("digest") == digest:
        lines += _recommendation_lines(recommendation)
        changes = recommendation.get("changes") or []
        running = (status.get("deployed") or {}).get("digest")
        if running == digest:
            lines.append("  This is what runs already.")
        elif running:
            lines += [f"  Changes from {short(running)}, which runs now:", *(f"    {c}" for c in changes)]
        else:
            lines.append("  Nothing runs yet.")
    else:
        lines.append("  An earlier recommendation, kept for a rollback (its details: the ConfigMap of that digest).")
        if not pin:
            lines.append("  If the spec has changed since, it goes live only with --pin.")
    lines.append(f"  Digest {digest}")
    return "\n".join(lines) + "\n"


def _recommendation_lines(recommendation: Stored) -> list[str]:
    d = recommendation["decision"]
    gpus = d["tensorParallel"] * d["pipelineParallel"] * d["dataParallel"]
    lines = [
        f"  {d['replicas']} × ({gpus}×{d['gpuType']}), TP {d['tensorParallel']}, {d['quantization']} weights, "
        f"{d['kvCacheDtype']} KV cache",
        f"  max_model_len {d['maxModelLen']}, max_num_seqs {d['maxNumSeqs']}, image {d['image']}",
    ]
    predicted = recommendation.get("predicted") or {}
    for name in sorted(predicted, key=lambda n: list(LABELS).index(n) if n in LABELS else len(LABELS)):
        given = predicted[name]
        p = Predicted(
            value=given.get("value"),
            low=given.get("low"),
            high=given.get("high"),
            unit=given.get("unit", ""),
            basis=given.get("basis", ""),
        )
        lines.append(f"    {LABELS.get(name, name):30s} {quantity(p.value, p.unit):18s} {span(p):22s} {p.basis}")
    lines += [f"  warning: {w['code']}: {w['message']}" for w in recommendation.get("warnings") or ()]
    return lines


def status_text(plan: Stored) -> str:
    """Where a plan stands: the word, what is offered, what runs, the conditions."""
    status = plan.get("status") or {}
    display = status.get("display") or {}
    metadata = plan["metadata"]
    word = display.get("status", "Unknown")
    lines = [f"{metadata['namespace']}/{metadata['name']}  {plan['spec']['model']['id']}  {word}"]
    if status.get("observedGeneration", -1) != metadata.get("generation"):
        lines.append("  the operator has not seen the latest spec yet")
    recommendation, deployed = status.get("recommendation"), status.get("deployed")
    if recommendation:
        lines.append(f"  Offered  {short(recommendation['digest'])}")
        lines += _recommendation_lines(recommendation)
    if deployed:
        lines.append(f"  Runs     {short(deployed['digest'])} since {deployed.get('since', '')}")
        lines += [f"    {c}" for c in (recommendation or {}).get("changes") or ()]
    lines.append("  Conditions")
    for c in status.get("conditions") or ():
        lines.append(f"    {c['type']:16s} {c['status']:8s} {c['reason']:20s} {c['message']}")
    return "\n".join(lines) + "\n"


def _condition(status: Stored, kind: str) -> Stored:
    return next((c for c in status.get("conditions") or () if c["type"] == kind), {})
