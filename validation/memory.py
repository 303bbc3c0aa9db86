"""The memory budget against published start-up logs, and vLLM's own planning: writes validation/MEMORY.md.

    python validation/memory.py

Rows: vLLM, a model whose shapes the catalogue has, GPU known, and either the available KV memory or the tokens logged.
Version, utilization and flags as stated; what a log does not state is vLLM's default (the newest version's where the
version is not stated), which is part of the error.
"""

from __future__ import annotations

import gzip
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rows import DATA, model_named

from inferplan.engine import EngineConfig, MemoryPlan, plan_memory, resolve
from inferplan.errors import InferPlanError
from inferplan.hardware import resolve_gpu
from inferplan.model import Architecture, CompressedAttention, LatentAttention, MoE, Recurrent
from inferplan.model.hub import resolve_model

GIB = 2**30
OUT = Path(__file__).parent / "MEMORY.md"
FAMILIES = ("dense", "mixture", "latent", "hybrid", "image")
HEAD = """# Memory: predicted against start-up logs that people published

Written by `make validate`. The budget's terms were read off some of the dense logs of vLLM 0.15–0.19 and one hybrid's
(`engine/memory.py`, `model/vision.py`): this is no blind test. Blocks, tokens and refusals *given* the bytes are
exact on vLLM's own planning of 111 models (`tests/unit/engine/test_against_vllm.py`).

Left out: logs of models or GPUs that the catalogue does not have.

| logs | n | tokens: median error | bias | 95 % within | in the 90 % range | weights: median error |
|---|---|---|---|---|---|---|""".splitlines()
_FLAGS = ("kv_cache_dtype", "gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens")


@dataclass(frozen=True, slots=True)
class Log:
    """One published start-up. `available_error_bytes`: predicted minus logged; None: not logged."""

    model: str
    gpu: str
    version: str
    tp: int
    plan: MemoryPlan
    available_error_bytes: float | None
    tokens_error: float | None
    weights_error: float | None
    inside: bool | None  # of the interval of tokens
    family: str
    stated: bool  # version and utilization


def logs() -> list[Log]:
    aliases = json.loads((DATA / "model_aliases.json").read_text())["rules"]
    with gzip.open(DATA / "kv_startup_logs.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    found = []
    for row in rows:
        if row["engine"] != "vllm" or not row.get("started") or not row.get("gpu") or not row.get("model"):
            continue
        try:
            found.append(_log(row, aliases))
        except InferPlanError:
            continue
    return found


def _log(row: dict[str, Any], aliases: list[list[str]]) -> Log:
    architecture = resolve_model(model_named(row["model"], aliases), hub="never").architecture
    gpu = resolve_gpu(row["gpu"])
    if row.get("total_gpu_memory_gib"):
        gpu = replace(gpu, memory_bytes=round(row["total_gpu_memory_gib"] * GIB))
    flags = {k: row[k] for k in _FLAGS if row.get(k) is not None}
    config = EngineConfig(
        **flags,
        **({"version": row["vllm_version"]} if row.get("vllm_version") else {}),
        tensor_parallel_size=row.get("tp") or 1,
        pipeline_parallel_size=row.get("pp") or 1,
        weight_quantization=row.get("quantization") or ("float32" if row.get("dtype") == "float32" else None),
        enforce_eager=bool(row.get("enforce_eager")),
    )
    plan = plan_memory(architecture, gpu, resolve(config, architecture, gpu))
    logged = row.get("available_kv_cache_gib")
    blocks = row["num_gpu_blocks"] * row["block_size"] if row.get("num_gpu_blocks") and row.get("block_size") else None
    tokens = row.get("gpu_kv_cache_tokens") or blocks
    weights = row.get("model_weights_gib")
    return Log(
        model=row["model"],
        gpu=gpu.name,
        version=row.get("vllm_version") or "",
        tp=row.get("tp") or 1,
        plan=plan,
        available_error_bytes=None if logged is None else plan.available_kv_cache_bytes - logged * GIB,
        tokens_error=plan.kv_cache_tokens / tokens - 1 if tokens and plan.starts else None,
        weights_error=plan.weights_bytes_per_rank / GIB / weights - 1 if weights else None,
        inside=plan.kv_cache_tokens_low <= tokens <= plan.kv_cache_tokens_high if tokens and plan.starts else None,
        family=family_of(architecture),
        stated=bool(row.get("vllm_version") and row.get("gpu_memory_utilization")),
    )


def family_of(architecture: Architecture) -> str:
    """`dense`, `mixture`, `latent` (with or without experts), `hybrid`, `image` (any of them that sees)."""
    mixers = {type(m) for layer, _ in architecture.distinct_layers() for m in layer.mixers}
    if architecture.encoder is not None:
        return "image"
    if Recurrent in mixers:
        return "hybrid"
    if mixers & {LatentAttention, CompressedAttention}:
        return "latent"
    channels = (c for layer, _ in architecture.distinct_layers() for c in layer.channels)
    return "mixture" if any(isinstance(c, MoE) for c in channels) else "dense"


def quantile(values: Sequence[float], level: float) -> float:
    """Finite-sample quantile of absolute errors."""
    ordered = sorted(abs(v) for v in values)
    return ordered[min(len(ordered) - 1, int(level * (len(ordered) + 1)))]


def group_line(name: str, found: Sequence[Log]) -> str:
    """One row of the table of start-up logs."""
    tokens = [log.tokens_error for log in found if log.tokens_error is not None]
    weights = [abs(log.weights_error) for log in found if log.weights_error is not None]
    inside = [log.inside for log in found if log.inside is not None]
    if not tokens:
        return f"| {name} | {len(found)} | – | – | – | – | – |"
    held = f"{sum(inside) / len(inside):.0%}"
    weight = f"{statistics.median(weights):.2%}" if weights else "–"
    middle, bias = statistics.median(abs(t) for t in tokens), statistics.median(tokens)
    return f"| {name} | {len(tokens)} | {middle:.1%} | {bias:+.1%} | {quantile(tokens, 0.95):.1%} | {held} | {weight} |"


def report(found: Sequence[Log]) -> str:
    """The page: groups, then every log, worst first."""
    groups = [
        ("all", found),
        ("version and utilization stated", [log for log in found if log.stated]),
        ("not stated: vLLM's defaults are assumed", [log for log in found if not log.stated]),
        *((f"stated, {family}", [log for log in found if log.stated and log.family == family]) for family in FAMILIES),
        *(
            (f"not stated, {family}", [log for log in found if not log.stated and log.family == family])
            for family in FAMILIES
        ),
    ]
    lines = [
        *HEAD,
        *(group_line(name, logs) for name, logs in groups if logs),
        "",
        "## Every log, worst first",
        "Available: predicted minus logged GiB for the KV cache. What a log leaves out only takes memory away.",
        "",
        "| model | GPU | TP | version | tokens | available | weights |",
        "|---|---|---|---|---|---|---|",
        *(log_line(log) for log in sorted(found, key=lambda log: -abs(log.tokens_error or 0.0))),
    ]
    return "\n".join(lines) + "\n"


def log_line(log: Log) -> str:
    """One log; a dash where it states no such figure, or where the plan would not start."""
    tokens = f"{log.tokens_error:+.1%}" if log.tokens_error is not None else "–"
    available = f"{log.available_error_bytes / GIB:+.2f}" if log.available_error_bytes is not None else "–"
    weights = f"{log.weights_error:+.1%}" if log.weights_error is not None else "–"
    cells = (log.model, log.gpu, str(log.tp), log.version or "–", tokens, available, weights)
    return f"| {' | '.join(cells)} |"


def main() -> None:
    OUT.write_text(report(logs()))
    print(f"wrote {OUT.name}")


if __name__ == "__main__":
    main()
