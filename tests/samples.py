"""What several tests speak about: the chat example, plans that are wrong, one decision."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from inferplan.planning import Decision

ROOT = Path(__file__).parents[1]


def _read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


CHAT: dict[str, Any] = _read("examples/chat-8b.yaml")
# `path` = `value` in the chat example; `said`: what the refusal says; `same`: the command line says the same words.
BAD_PLANS: list[dict[str, Any]] = _read("tests/data/bad_plans.yaml")
DECISION = Decision(
    gpu_type="H100-SXM",
    tensor_parallel=2,
    pipeline_parallel=1,
    data_parallel=1,
    replicas=3,
    quantization="bf16",
    kv_cache_dtype="auto",
    max_model_len=8192,
    max_num_seqs=64,
    max_num_batched_tokens=8192,
    gpu_memory_utilization="0.92",
    enable_prefix_caching=True,
    enforce_eager=False,
    image="docker.io/vllm/vllm-openai:v0.33.0",
    model_revision="abc123",
)


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with one field set, by its path with dots (None: removed)."""
    out = copy.deepcopy(document)
    *parents, name = path.split(".")
    node = out
    for parent in parents:
        node = node.setdefault(parent, {})
    if value is None:
        del node[name]
    else:
        node[name] = value
    return out
