"""The memory budget against published start-up logs: predicted minus logged KV-cache memory, per rank.

    python validation/memory.py

Rows: vLLM, a model whose shapes the catalogue has, GPU known, and either the available KV memory or the tokens logged.
Version, utilization and flags as stated; what a log does not state is vLLM's default (the newest version's where the
version is not stated), which is part of the error.
"""

from __future__ import annotations

import gzip
import json
import statistics
from dataclasses import dataclass, replace
from typing import Any

from rows import DATA, model_named

from inferplan.engine import EngineConfig, MemoryPlan, plan_memory, resolve
from inferplan.errors import InferPlanError
from inferplan.hardware import resolve_gpu
from inferplan.model.hub import resolve_model

GIB = 2**30
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
        weight_quantization=row.get("quantization"),
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
    )


def quantile(values: list[float], level: float) -> float:
    """Finite-sample quantile of absolute errors."""
    ordered = sorted(abs(v) for v in values)
    return ordered[min(len(ordered) - 1, int(level * (len(ordered) + 1)))]


def main() -> None:
    found = logs()
    for log in found:
        available = f"{log.available_error_bytes / GIB:+6.2f}" if log.available_error_bytes is not None else "   –  "
        tokens = f"{log.tokens_error:+7.1%}" if log.tokens_error is not None else "   –   "
        print(f"{available} GiB {tokens}  {log.model[:44]:44s} {log.gpu:16s} tp{log.tp} {log.version}")
    available_errors = [log.available_error_bytes for log in found if log.available_error_bytes is not None]
    stated = [e.available_error_bytes for e in found if e.available_error_bytes is not None and e.version]
    token_errors = [log.tokens_error for log in found if log.tokens_error is not None]
    weight_errors = [log.weights_error for log in found if log.weights_error is not None]
    print(
        f"available KV memory: n={len(available_errors)}, 90 % within {quantile(available_errors, 0.9) / GIB:.2f} GiB"
    )
    print(f"  version stated:    n={len(stated)}, 90 % within {quantile(stated, 0.9) / GIB:.2f} GiB")
    median = statistics.median(abs(e) for e in token_errors)
    print(f"tokens: n={len(token_errors)}, median {median:.1%}, 95 % within {quantile(token_errors, 0.95):.1%}")
    print(f"weights: n={len(weight_errors)}, median {statistics.median(abs(e) for e in weight_errors):.2%}")


if __name__ == "__main__":
    main()
