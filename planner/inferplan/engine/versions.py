"""What changed between vLLM versions: one row per change, from 0.8 to 0.33, each saying only what is new.

A version between two rows behaves as the row below it; one above the last or below the first uses the nearest and
says so. Sources: vLLM 0.32/0.33 source as read in the project's facts (utilization, graph accounting, defaults), and
published start-up logs (activation and non-torch, rows named at each figure).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from inferplan.errors import InvalidInput

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class BatchTiers:
    """Which GPUs `vllm serve` gives which (max_num_batched_tokens, max_num_seqs) by default.

    (16384, 1024) from `largest_from_bytes` on; (8192, 1024) for GPUs whose name holds one of `large_names` or, where
    that is empty, of at least 70 GiB and not A100; (2048, 256) for the rest and `small_capabilities`.
    """

    large_names: tuple[str, ...] = ()
    largest_from_bytes: int | None = None
    small_capabilities: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """Behaviour from this version on.

    `logit_bytes`: activation bytes per logit in the sampler's profiling run (max_num_seqs × vocabulary logits).
    `subtracts_graphs`: whether the CUDA-graph estimate is taken off the KV budget.
    `non_torch_bytes`, `non_torch_linked_bytes`: outside PyTorch's allocator on one rank; several ranks over NVLink.
    `long_rope_starts_short`: a LongRoPE model serves its original context unless told otherwise.
    `keeps_all_batches`: windows keep the tokens of every batch in flight, not of one.
    `reports_whole_requests`: the logged tokens are max_concurrency × max_model_len; before, the blocks of one group.
    `delta_checkpoints`: gated delta nets hand out states during a prefill, at multiples that blocks keep to.
    `hybrid_prefix_caching`: models with states and attention cache prefixes unless told otherwise.
    `mxfp4_triton`: Hopper computes MXFP4 experts unpadded.
    `needs_state_blocks`: a start is refused where there are fewer blocks than sequences with a state.
    """

    since: tuple[int, int]
    gpu_memory_utilization: float
    subtracts_graphs: bool
    logit_bytes: float
    non_torch_bytes: int
    non_torch_linked_bytes: int
    async_scheduling: bool
    batch: BatchTiers
    long_rope_starts_short: bool
    keeps_all_batches: bool
    reports_whole_requests: bool
    delta_checkpoints: bool = False
    hybrid_prefix_caching: bool = False
    mxfp4_triton: bool = True
    needs_state_blocks: bool = False


_NT_OLD, _NT = round(0.13 * _GIB), round(0.25 * _GIB)
# Two ranks over NVLink, H100, 0.19: 2.06–2.07 GiB at TP 2, 2.13 at TP 4 (six published logs).
_NT_LINKED = round(2.07 * _GIB)

# vLLM pull requests: 12369 (H100 and H200 by name), 17073 and 17885 (by memory, A100 excepted; in 0.8.5 A100-80GB and
# B200 had the large defaults already), 51726 (160 GiB; August 2026, between 0.27.1 and 0.28.0 by the dates of published
# logs). GB10 moves to the small tier in 0.33 (its source).
_BY_NAME = BatchTiers(large_names=("H100", "H200"))
_BY_MEMORY = BatchTiers()
_THREE_TIERS = BatchTiers(largest_from_bytes=160 * _GIB)
_GB10_SMALL = BatchTiers(largest_from_bytes=160 * _GIB, small_capabilities=((12, 1),))

_R8 = VersionFacts(
    since=(0, 8),
    gpu_memory_utilization=0.90,
    subtracts_graphs=False,
    # Qwen3-14B on H100 logs 5.64 GiB of activation on 0.15/0.16 and 2.23 on 0.17 with 1,024 sequences and the same
    # flags: 38 against 14 bytes per logit.
    logit_bytes=38.0,
    non_torch_bytes=_NT_OLD,
    non_torch_linked_bytes=_NT_LINKED,
    async_scheduling=False,
    batch=_BY_NAME,
    long_rope_starts_short=False,
    keeps_all_batches=False,
    reports_whole_requests=False,
    # gpt-oss-120b logs 65.97 GiB of weights on H100 in August 2025 (issue 23278): as padded for Marlin.
    mxfp4_triton=False,
)
_R9 = replace(_R8, since=(0, 9), batch=_BY_MEMORY)
# Comes with `rope_parameters` (first seen in the 0.12 source).
_R12 = replace(_R9, since=(0, 12), long_rope_starts_short=True, mxfp4_triton=True)
_R14 = replace(_R12, since=(0, 14), async_scheduling=True)
_R17 = replace(_R14, since=(0, 17), logit_bytes=14.0)
_R18 = replace(_R17, since=(0, 18), non_torch_bytes=_NT)
# VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS is on by default; utilization rose; issue 43308: ten times the tokens of
# Gemma 4 for the same GiB, in the log only.
# State blocks: a 0.19.0 log starts with fewer than max_num_seqs; issue 49064 (about 0.25) is refused.
_R21 = replace(
    _R18,
    since=(0, 21),
    gpu_memory_utilization=0.92,
    subtracts_graphs=True,
    reports_whole_requests=True,
    needs_state_blocks=True,
)
# Pull request 47728; issue 49878: Gemma 4 needs 45.79 GiB before and 70.79 after for one long request.
_R26 = replace(_R21, since=(0, 26), keeps_all_batches=True, hybrid_prefix_caching=True)
_R28 = replace(_R26, since=(0, 28), batch=_THREE_TIERS)
_R33 = replace(_R28, since=(0, 33), batch=_GB10_SMALL, delta_checkpoints=True)
_ROWS = (_R8, _R9, _R12, _R14, _R17, _R18, _R21, _R26, _R28, _R33)
# V1 is the default engine from here on.
FIRST_V1 = (0, 8)
_OLDEST, _NEWEST = (0, 8), (0, 33)


def parse_version(version: str) -> tuple[int, int]:
    """`0.33.0`, `v0.11.0rc2.dev98+g39` → (0, 33), (0, 11). Raises InvalidInput for anything else."""
    found = re.match(r"v?(\d{1,3})\.(\d{1,5})(?:$|[.+\-a-z])", version.strip())
    if found is None:
        raise InvalidInput(f"engine_version={version!r} is no vLLM version (like 0.33.0)")
    return int(found[1]), int(found[2])


@lru_cache(maxsize=256)
def facts_of(version: str) -> VersionFacts:
    """The row that holds for a version (the nearest one for a version outside the table)."""
    asked = parse_version(version)
    holding = [row for row in _ROWS if row.since <= asked]
    return holding[-1] if holding else _ROWS[0]


def version_warnings(version: str) -> tuple[str, ...]:
    """Says when a version lies outside the table, so that a nearest guess is never silent."""
    asked = parse_version(version)
    if _OLDEST <= asked <= _NEWEST:
        return ()
    nearest = "0.8" if asked < _OLDEST else "0.33"
    return (f"EngineVersionUnknown: vLLM {version} is outside 0.8–0.33; the rules of {nearest} are used",)
