"""What a rendered recommendation shows besides the recommendation itself."""

from __future__ import annotations

from dataclasses import dataclass

from inferplan.planning import Choice, Decision, Predicted

# Name in the API → how people say it. The statistic stands in the label: an SLO is about a percentile.
LABELS = {
    "ttft": "TTFT p95",
    "tpot": "TPOT p95",
    "e2e": "End-to-end p95",
    "outputTokensPerSecond": "Output throughput",
    "kvCacheTokens": "KV cache",
    "maxConcurrency": "Full-length requests at once",
    "weightsGiB": "Weights per GPU",
    "kvNeededGiB": "KV needed per GPU",
    "vramReservedGiB": "Reserved by vLLM per GPU",
    "usdPerHour": "Cost",
    "usdPerMillionInputTokens": "Cost per 1M input tokens",
    "usdPerMillionOutputTokens": "Cost per 1M output tokens",
}


@dataclass(frozen=True, slots=True)
class Heading:
    """Which plan this is. `digest`: what an approver would approve; `inputs`: what the answer rests on, in words."""

    name: str
    namespace: str
    model: str
    revision: str
    digest: str
    inputs: str
    approve_command: str


def summary(decision: Decision) -> str:
    """`2 replicas of 1×H100-SXM`."""
    replicas = "1 replica" if decision.replicas == 1 else f"{decision.replicas} replicas"
    return f"{replicas} of {decision.gpus_per_replica}×{decision.gpu_type}"


def decision_rows(decision: Decision) -> tuple[tuple[str, str], ...]:
    """The decision as label and text, in reading order."""
    return (
        ("GPUs", f"{summary(decision)} ({decision.gpus} GPU{'s' if decision.gpus != 1 else ''})"),
        (
            "Parallelism",
            f"TP {decision.tensor_parallel}, PP {decision.pipeline_parallel}, DP {decision.data_parallel}",
        ),
        ("Weights", decision.quantization),
        ("KV cache dtype", decision.kv_cache_dtype),
        ("Context length", f"{decision.max_model_len} tokens"),
        (
            "Batching",
            f"max_num_seqs {decision.max_num_seqs}, max_num_batched_tokens {decision.max_num_batched_tokens}",
        ),
        ("GPU memory utilization", decision.gpu_memory_utilization),
        ("Prefix caching", "on" if decision.enable_prefix_caching else "off"),
        ("CUDA graphs", "off" if decision.enforce_eager else "on"),
        ("Image", decision.image),
        ("Model revision", decision.model_revision or "not pinned"),
    )


def quantity(value: str | None, unit: str) -> str:
    """`812 ms`; money as `$2.99/h`; what is unknown is said."""
    if value is None:
        return "unknown"
    if unit.startswith("USD"):
        return f"${value}{unit[3:]}"
    return f"{value} {unit}".rstrip()


def predicted_rows(choice: Choice) -> tuple[tuple[str, str, str, str], ...]:
    """Label, value, range and basis of every prediction."""
    return tuple((LABELS.get(name, name), quantity(p.value, p.unit), span(p), p.basis) for name, p in choice.predicted)


def span(p: Predicted) -> str:
    """`620 – 1010`; "exact" where the ends meet."""
    if p.low is None or p.high is None:
        return "–"
    return "exact" if p.low == p.high else f"{p.low} – {p.high}"
