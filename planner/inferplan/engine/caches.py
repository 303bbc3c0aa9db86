"""What each layer caches on one rank, as vLLM specifies it: keys and values, latents, indexer keys, states.

KV heads are divided over tensor-parallel ranks, or replicated when there are fewer; latents and indexer keys are
replicated; states are divided. Beside attention, a state's page decides the block: it is raised until a page of
attention holds one state, and the state is padded to exactly that (vLLM 0.32 `platforms/interface.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from inferplan.engine.backends import latent_row_bytes, mixers_of
from inferplan.engine.config import ResolvedConfig
from inferplan.engine.kv import Kind, Members, Spec
from inferplan.engine.kv_dtype import KVDtype
from inferplan.engine.versions import VersionFacts, facts_of
from inferplan.hardware import GPU
from inferplan.model import (
    DTYPE_BYTES,
    Architecture,
    Attention,
    CompressedAttention,
    Indexer,
    LatentAttention,
    Mixer,
    Recurrent,
    RecurrentKind,
    first_alike,
)

# Latent and state caches of a hybrid: kernels want the physical blocks aligned to 128 tokens.
_LATENT_HYBRID_ALIGNMENT = 128
# FlashInfer's gated-delta prefill hands out states at multiples of this; FlashKDA's at 16.
_DELTA_CHECKPOINT_TOKENS, _BOUNDED_DELTA_CHECKPOINT_TOKENS = 64, 16
_INDEX_SCALE_GROUP = 128
# DeepSeek-V4's packed rows: fp8 elements with one scale byte per 64, the rotary part in bfloat16; pages in whole
# multiples of 576 bytes; windows in blocks of 64, compressor states (float32) of 4 or 8.
_PAGE_ALIGNMENT = 576
_WINDOW_BLOCK = 64


@dataclass(frozen=True, slots=True)
class _Context:
    """What the specs of all layers share."""

    gpu: GPU
    kv: KVDtype
    tp: int
    block_size: int
    aligned: bool  # states are kept at block boundaries, for prefix caching
    max_model_len: int
    state_bytes: int  # of an element of a recurrent state that the model does not fix
    dtype_bytes: int
    speculative_tokens: int
    drafts: bool
    facts: VersionFacts


def cache_members(architecture: Architecture, gpu: GPU, config: ResolvedConfig) -> Members:
    """(decoder layer, spec) of everything that is cached, in vLLM's order."""
    return _members(architecture, _context(architecture, gpu, config))


def state_bytes_per_sequence(architecture: Architecture, gpu: GPU, config: ResolvedConfig) -> int:
    """Bytes of all layers' states of one sequence on one rank."""
    context = _context(architecture, gpu, config)
    return sum(
        count * state_bytes(mixer, context)
        for layer, count in architecture.distinct_layers()
        for mixer in layer.mixers
        if isinstance(mixer, Recurrent)
    )


def _context(architecture: Architecture, gpu: GPU, config: ResolvedConfig) -> _Context:
    has_states = any(isinstance(mixer, Recurrent) for mixer in mixers_of(architecture))
    return _Context(
        gpu=gpu,
        kv=config.kv,
        tp=config.tensor_parallel_size,
        block_size=config.block_size,
        aligned=config.enable_prefix_caching,
        max_model_len=config.max_model_len if has_states else 0,
        state_bytes=DTYPE_BYTES[config.state_dtype] if config.state_dtype else 0,
        dtype_bytes=DTYPE_BYTES[config.dtype],
        speculative_tokens=config.speculative_tokens,
        drafts=config.speculative_method == "mtp",
        facts=facts_of(config.version),
    )


@lru_cache(maxsize=4096)
def _members(architecture: Architecture, context: _Context) -> Members:
    page = _hybrid_page(architecture, context)
    if page is not None:
        context = replace(context, block_size=page[0])
    count = len(architecture.layers)
    alike = first_alike(architecture)
    known: dict[tuple[int, KVDtype], list[Spec]] = {}
    members: list[tuple[int, Spec]] = []
    for index, layer in enumerate(architecture.layers):
        stored = context.kv.of_layer(index, count)
        key = (alike[index], stored)
        if key not in known:
            state_page = page[1] if page else None
            known[key] = [spec for mixer in layer.mixers for spec in _specs(mixer, context, stored, state_page)]
        members.extend((index, spec) for spec in known[key])
    if context.drafts and architecture.draft is not None:
        members.extend(
            (count - 1, spec)
            for mixer in architecture.draft.layer.mixers
            for spec in _specs(mixer, context, context.kv, page[1] if page else None)
        )
    return tuple(members)


def _specs(mixer: Mixer, context: _Context, stored: KVDtype, state_page: int | None) -> tuple[Spec, ...]:
    if isinstance(mixer, Recurrent):
        return (_state_spec(mixer, context, state_page),)
    if isinstance(mixer, LatentAttention):
        row = latent_row_bytes(mixer, context.gpu, stored)
        own = Spec(Kind.FULL, context.block_size, round(context.block_size * row), latent=True)
        return (*_indexer_specs(mixer.indexer, context, 1), own)
    if isinstance(mixer, CompressedAttention):
        return _compressed_specs(mixer, context.block_size)
    if mixer.reads_other_cache:
        return ()
    page = round(context.block_size * _token_bytes(mixer, context, stored))
    if mixer.chunk_tokens is not None:
        return (Spec(Kind.CHUNKED, context.block_size, page, mixer.chunk_tokens),)
    if mixer.window_tokens is not None:
        return (Spec(Kind.SLIDING, context.block_size, page, mixer.window_tokens),)
    index = _indexer_specs(mixer.indexer, context, context.dtype_bytes)
    return (*index, Spec(Kind.FULL, context.block_size, page))


def _token_bytes(mixer: Attention, context: _Context, stored: KVDtype) -> float:
    heads = max(1, mixer.kv_heads // context.tp)
    return heads * (stored.row_bytes(mixer.head_dim) + stored.row_bytes(mixer.v_head_dim))


def _indexer_specs(indexer: Indexer | None, context: _Context, element_bytes: int) -> tuple[Spec, ...]:
    """Keys of an indexer: one head, on every rank; fp8 ones carry a float32 scale per 128 elements."""
    if indexer is None:
        return ()
    row = indexer.head_dim * element_bytes
    if element_bytes == 1:
        row += 4 * math.ceil(indexer.head_dim / _INDEX_SCALE_GROUP)
    return (Spec(Kind.FULL, context.block_size, context.block_size * row, latent=True),)


def _compressed_specs(mixer: CompressedAttention, full_block: int) -> tuple[Spec, ...]:
    """Window, compressed latents, the compressor's open groups and, with an indexer, the same for its keys."""
    nope = mixer.head_dim - mixer.rope_dim
    row = nope + 2 * mixer.rope_dim + nope // 64 + 1
    specs = [Spec(Kind.SLIDING, _WINDOW_BLOCK, _aligned(_WINDOW_BLOCK * row), mixer.window_tokens, latent=True)]
    if not mixer.ratio:
        return tuple(specs)
    folds = 2 if mixer.overlapping else 1
    reach, block = (2 * mixer.ratio, mixer.ratio) if mixer.overlapping else (mixer.ratio, 8)
    rows = full_block // mixer.ratio
    if mixer.indexer is not None:
        width = mixer.indexer.head_dim
        key = width + 4 * math.ceil(width / _INDEX_SCALE_GROUP)
        specs.append(Spec(Kind.FULL, full_block, _aligned(rows * key), latent=True))
        specs.append(Spec(Kind.SLIDING, block, _aligned(block * 4 * 2 * folds * width), reach, latent=True))
    specs.append(Spec(Kind.FULL, full_block, _aligned(rows * row), latent=True))
    specs.append(Spec(Kind.SLIDING, block, _aligned(block * 4 * 2 * folds * mixer.head_dim), reach, latent=True))
    return tuple(specs)


def _aligned(size: int) -> int:
    return math.ceil(size / _PAGE_ALIGNMENT) * _PAGE_ALIGNMENT


def _state_spec(mixer: Recurrent, context: _Context, page: int | None) -> Spec:
    size = page or state_bytes(mixer, context)
    if not context.aligned:
        return Spec(Kind.STATE, context.max_model_len, size, state_blocks=1 + context.speculative_tokens)
    checkpoints = 1 if _checkpoint_tokens(mixer, context) is not None else 0
    return Spec(Kind.STATE, context.block_size, size, state_blocks=2 + context.speculative_tokens + checkpoints)


def state_bytes(mixer: Recurrent, context: _Context) -> int:
    """Bytes of one sequence's state on one rank; drafted tokens lengthen the convolution's part (not Mamba 1's)."""
    groups = mixer.groups if mixer.groups % context.tp == 0 else context.tp
    channels = (mixer.conv_channels + groups * mixer.group_channels) // context.tp
    drafted = context.speculative_tokens if mixer.kind is not RecurrentKind.MAMBA1 else 0
    rows = mixer.conv_kernel - 1 + drafted if mixer.conv_kernel else 0
    element = context.state_bytes or DTYPE_BYTES.get(mixer.state_dtype or "", context.dtype_bytes)
    return rows * channels * context.dtype_bytes + mixer.heads // context.tp * mixer.state_per_head * element


def _checkpoint_tokens(mixer: Recurrent, context: _Context) -> int | None:
    """Where a prefill hands out states for the prefix cache: tokens it aligns them to; None: it does not."""
    major = context.gpu.compute_capability[0]
    if mixer.kind is RecurrentKind.MAMBA2:
        return 1
    if mixer.kind is RecurrentKind.BOUNDED_KIMI_DELTA:
        return _BOUNDED_DELTA_CHECKPOINT_TOKENS if major in (9, 10, 12) else None
    if mixer.kind is RecurrentKind.GATED_DELTA and context.facts.delta_checkpoints:
        return _DELTA_CHECKPOINT_TOKENS if major in (9, 10, 12) else None
    return None


def _hybrid_page(architecture: Architecture, context: _Context) -> tuple[int, int] | None:
    """(block size, page bytes) that attention and states share; None where the model has not both."""
    mixers = mixers_of(architecture)
    states = [m for m in mixers if isinstance(m, Recurrent)]
    attention = next((m for m in mixers if isinstance(m, Attention | LatentAttention)), None)
    if not states or attention is None:
        return None
    alignment = context.block_size
    if isinstance(attention, LatentAttention):
        token = latent_row_bytes(attention, context.gpu, context.kv)
        alignment = max(alignment, _LATENT_HYBRID_ALIGNMENT)
    else:
        token = _token_bytes(attention, context, context.kv)
    if context.aligned and context.facts.delta_checkpoints:
        tokens = [_checkpoint_tokens(state, context) for state in states]
        alignment = math.lcm(alignment, *(t for t in tokens if t is not None)) if None not in tokens else alignment
    largest = max(state_bytes(state, context) for state in states)
    block = max(context.block_size, alignment * math.ceil(largest / (alignment * token)))
    return block, round(block * token)
