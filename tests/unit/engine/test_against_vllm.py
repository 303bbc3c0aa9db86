"""Weights, blocks, tokens, concurrency and refusals against vLLM's own planning code, row by row.

validation/data/kv_truth_dense.jsonl.gz holds what vLLM 0.32.0 and 0.33.0 computed for every architecture read here.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from inferplan.engine import EngineConfig, MemoryPlan, plan_memory, resolve
from inferplan.hardware import resolve_gpu
from inferplan.model.hub import resolve_model

DATA = Path(__file__).parents[3] / "validation/data/kv_truth_dense.jsonl.gz"
GPUS = {"RTXPRO6000": "RTX PRO 6000"}
# The harness asks for these by other means: speculative layers and automatic context come with a later version.
LATER = ("ngram", "mtp1", "mtp3", "auto_len")
# Not vLLM's refusals but the harness's: Transformers does not know the model type there.
HARNESS = ("Transformers does not recognize",)


def rows() -> list[dict[str, Any]]:
    with gzip.open(DATA, "rt") as lines:
        found = [json.loads(line) for line in lines]
    return [r for r in found if r["label"] not in LATER and not any(h in r.get("error", "") for h in HARNESS)]


ROWS = rows()
BY_MODEL = sorted({r["model"] for r in ROWS})


def planned(row: dict[str, Any]) -> MemoryPlan:
    architecture = resolve_model(row["model"], hub="never").architecture
    gpu = resolve_gpu(GPUS.get(row["gpu"], row["gpu"]))
    config = EngineConfig(
        version=row["vllm"],
        tensor_parallel_size=row.get("tp", 1),
        pipeline_parallel_size=row.get("pp", 1),
        data_parallel_size=row.get("dp", 1),
        # Rows that were refused early state these in their label only.
        enable_expert_parallel=row.get("ep", row["label"].endswith("ep")),
        decode_context_parallel_size=row.get("dcp", int(row["label"][3:]) if row["label"].startswith("dcp") else 1),
        kv_cache_dtype=row["kv_cache_dtype_arg"],
        max_model_len=row.get("max_model_len"),
        max_num_seqs=row.get("max_num_seqs"),
        max_num_batched_tokens=row.get("max_num_batched_tokens"),
        block_size=row.get("block_size_arg"),
        enable_prefix_caching=row.get("prefix_caching_arg"),
        async_scheduling=row.get("async_scheduling"),
        disable_hybrid_kv_cache_manager=row.get("disable_hybrid", False),
        available_kv_cache_bytes=row.get("available_bytes"),
    )
    return plan_memory(architecture, gpu, resolve(config, architecture, gpu))


@pytest.mark.parametrize("model", BY_MODEL)
def test_every_row_of_a_model(model: str) -> None:
    mine = [r for r in ROWS if r["model"] == model]
    assert mine
    wrong = [problem for row in mine if (problem := difference(row)) is not None]
    assert not wrong, "\n".join(wrong)


def difference(row: dict[str, Any]) -> str | None:
    """How our plan differs from vLLM's, in words; None where it does not."""
    name = f"{row['label']} {row['vllm']} {row['gpu']} tp{row.get('tp')}"
    plan = planned(dict(row, max_model_len=8192) if "(8192) is greater" in row.get("error", "") else row)
    if not row["ok"]:
        return f"{name}: vLLM refuses ({row['error'][:80]}), we start" if plan.starts else None
    if not plan.starts:
        return f"{name}: vLLM starts, we refuse: {plan.start_errors}"
    ours = (
        plan.num_gpu_blocks,
        plan.kv_cache_tokens,
        round(plan.max_concurrency, 6),
        plan.weights_bytes_per_rank,
        sorted((g.layers, g.block_size, g.page_size_bytes) for g in plan.kv_groups),
    )
    theirs = (
        row["num_blocks"],
        row["reported_tokens"],
        row["max_concurrency"],
        row["weights_bytes_per_rank"],
        sorted((g["layers"], g["block_size"], g["page_size_bytes"]) for g in row["groups"]),
    )
    return None if ours == theirs else f"{name}: {ours} instead of {theirs}"


def test_the_data_covers_both_versions_and_enough_rows() -> None:
    assert {r["vllm"] for r in ROWS} == {"0.32.0", "0.33.0"}
    assert len([r for r in ROWS if r["ok"]]) > 600
    assert len([r for r in ROWS if not r["ok"]]) > 80
