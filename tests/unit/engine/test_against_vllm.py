"""Weights, blocks, tokens, concurrency and refusals against vLLM's own planning code, row by row, every family.

validation/data/kv_truth.jsonl.gz holds what vLLM 0.32.0 and 0.33.0 computed for 111 models of 47 architectures.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from inferplan.engine import EngineConfig, MemoryPlan, fit_context, plan_memory, resolve
from inferplan.engine.config import ResolvedConfig
from inferplan.hardware import resolve_gpu
from inferplan.model import Architecture
from inferplan.model.hub import resolve_model

DATA = Path(__file__).parents[3] / "validation/data/kv_truth.jsonl.gz"
GPUS = {"RTXPRO6000": "RTX PRO 6000"}
# Only its unquantized sibling's config is bundled: the cache is the same, the weights are not.
STAND_IN = {"nvidia/MiniMax-M3-NVFP4": "MiniMaxAI/MiniMax-M3"}
# Not vLLM's refusals but the harness's: what Transformers, a stub or a missing class of the harness could not do.
HARNESS = (
    "Transformers does not recognize",
    "contains custom code",
    "bounded_replay",
    "integer division or modulo by zero",
    "are not supported for now",
    "Unknown ModelOpt quant algo",
    "max_model_len must be a positive integer",
)
# Where weights are not counted to the byte, how far off they are (relative), and why.
WEIGHT_TOLERANCE = {
    "deepseek-ai/DeepSeek-V4-Flash": 2e-5,  # float32 scales where the engine keeps one byte, integer tables
    "nvidia/DeepSeek-V4-Pro-NVFP4": 2e-5,
    "moonshotai/Kimi-K2.5": 3e-6,  # shapes of packed experts, eight bytes each
    "moonshotai/Kimi-K3": 0.004,  # a vision tower of 12 heads is kept whole on each of 8 ranks
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4": 1e-7,
    "nvidia/Qwen3.6-27B-NVFP4": 1e-6,
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": 6e-4,  # float32 routers on GPUs older or newer than Hopper
    "Qwen/Qwen3.5-27B": 0.031,  # with pipeline stages only: the vision tower is on each of them
    "google/gemma-4-26B-A4B": 0.002,  # with pipeline stages only
}


def rows() -> list[dict[str, Any]]:
    with gzip.open(DATA, "rt") as lines:
        found = [json.loads(line) for line in lines]
    for row in found:
        row["model"] = row["model"].replace("--", "/", 1)
    return [r for r in found if not any(h in (r.get("error") or "") for h in HARNESS)]


ROWS = rows()
BY_MODEL = sorted({r["model"] for r in ROWS})


@cache
def architecture_of(model: str) -> Architecture:
    return resolve_model(STAND_IN.get(model, model), hub="never").architecture


def planned(row: dict[str, Any]) -> tuple[ResolvedConfig, MemoryPlan]:
    architecture = architecture_of(row["model"])
    gpu = resolve_gpu(GPUS.get(row["gpu"], row["gpu"]))
    label = row["label"]
    # Rows that were refused early state some options in their label only.
    config = EngineConfig(
        version=row["vllm"],
        tensor_parallel_size=row.get("tp", 1),
        pipeline_parallel_size=row.get("pp", 2 if label == "pp2" else 1),
        data_parallel_size=row.get("dp", 2 if label == "dp2ep" else 1),
        enable_expert_parallel=row.get("ep", label.endswith("ep")),
        decode_context_parallel_size=row.get("dcp", int(label[3:]) if label.startswith("dcp") else 1),
        kv_cache_dtype=row["kv_cache_dtype_arg"],
        max_model_len=None if label == "auto_len" else row.get("max_model_len", 8192 if "len8k" in label else None),
        max_num_seqs=row.get("max_num_seqs"),
        max_num_batched_tokens=row.get("max_num_batched_tokens"),
        block_size=row.get("block_size_arg"),
        enable_prefix_caching={None: None, "on": True, "off": False}[row["prefix_caching_arg"]],
        async_scheduling=row.get("async_scheduling"),
        disable_hybrid_kv_cache_manager=row.get("disable_hybrid", label == "nohybrid"),
        mamba_ssm_cache_dtype=row.get("mamba_ssm_cache_dtype"),
        speculative_method="ngram" if label == "ngram" else "mtp" if label.startswith("mtp") else None,
        speculative_tokens=int(label[-1]) if label.startswith("mtp") else 3 if label == "ngram" else 0,
        available_kv_cache_bytes=row.get("available_bytes"),
    )
    resolved = resolve(config, architecture, gpu)
    if label == "auto_len":
        resolved = fit_context(architecture, gpu, resolved)
    return resolved, plan_memory(architecture, gpu, resolved)


@pytest.mark.parametrize("model", BY_MODEL)
def test_every_row_of_a_model(model: str) -> None:
    mine = [r for r in ROWS if r["model"] == model]
    assert mine
    wrong = [problem for row in mine if (problem := difference(row)) is not None]
    assert not wrong, "\n".join(wrong)


def difference(row: dict[str, Any]) -> str | None:
    """How our plan differs from vLLM's, in words; None where it does not."""
    name = f"{row['label']} {row['vllm']} {row['gpu']} tp{row.get('tp')}"
    config, plan = planned(row)
    if not row["ok"]:
        return f"{name}: vLLM refuses ({row['error'][:80]}), we start" if plan.starts else None
    if not plan.starts:
        return f"{name}: vLLM starts, we refuse: {plan.start_errors}"
    ours = (
        plan.num_gpu_blocks,
        plan.kv_cache_tokens,
        round(plan.max_concurrency, 6),
        config.max_model_len,
        # vLLM's row holds the groups of the first stage, ours those of the stage with the fewest blocks.
        None if row["pp"] > 1 else sorted((g.layers, g.block_size, g.page_size_bytes) for g in plan.kv_groups),
    )
    theirs = (
        row["num_blocks"],
        row["reported_tokens"],
        round(row["max_concurrency"], 6),
        row["max_model_len_after"],
        None if row["pp"] > 1 else sorted((g["layers"], g["block_size"], g["page_size_bytes"]) for g in row["groups"]),
    )
    if ours != theirs:
        return f"{name}: {ours} instead of {theirs}"
    return None if row["model"] in STAND_IN else _weights_difference(name, row, plan)


def _weights_difference(name: str, row: dict[str, Any], plan: MemoryPlan) -> str | None:
    theirs = row["weights_bytes_per_rank"]
    error = abs(plan.weights_bytes_per_rank - theirs)
    if error <= WEIGHT_TOLERANCE.get(row["model"], 0.0) * theirs:
        return None
    return f"{name}: weights {plan.weights_bytes_per_rank} instead of {theirs}"


def test_the_data_covers_both_versions_and_every_family() -> None:
    assert {r["vllm"] for r in ROWS} == {"0.32.0", "0.33.0"}
    assert len({r.get("architecture") for r in ROWS} - {None}) == 47
    assert len([r for r in ROWS if r["ok"]]) == 2983
    assert len([r for r in ROWS if not r["ok"]]) > 500


def test_weights_are_within_half_a_percent_for_nearly_every_row() -> None:
    started = [r for r in ROWS if r["ok"] and r["model"] not in STAND_IN]
    off = [r for r in started if abs(planned(r)[1].weights_bytes_per_rank / r["weights_bytes_per_rank"] - 1) > 0.005]
    assert len(off) <= 0.01 * len(started)


def test_drafting_layers_weigh_what_vllm_builds() -> None:
    """Within 6 %: projections of the draft are divided in some families and whole in others."""
    drafted = [r for r in ROWS if r["ok"] and r["draft_weights_bytes"]]
    assert len(drafted) == 18
    for row in drafted:
        assert planned(row)[1].draft_weights_bytes == pytest.approx(row["draft_weights_bytes"], rel=0.06)
