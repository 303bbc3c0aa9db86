"""What vLLM's choice of attention backend decides about the cache: its block size, its row, and what no backend does.

The selector's order by compute capability (vLLM 0.32 `platforms/cuda.py` and each backend's supported block sizes):
full attention takes blocks of 16 nearly everywhere; latent attention 16 (FlashAttention on Hopper, Triton), 64
(FlashMLA, which fp8 needs on Hopper; every sparse backend) or 32 (FlashInfer on Blackwell).
"""

from __future__ import annotations

from functools import lru_cache

from inferplan.engine.kv_dtype import DEFAULT_BLOCK_SIZE, KVDtype
from inferplan.hardware import GPU
from inferplan.model import Architecture, Attention, CompressedAttention, LatentAttention, Mixer, MoE

_HOPPER, _BLACKWELL, _BLACKWELL_RTX = 9, 10, 12
# Native fp8 conversion, without which only FlashInfer reads an fp8 cache.
_FP8_CAPABILITY = (8, 9)
_FLASHINFER_HEADS = (64, 128, 256, 512)
# 512 fp8 elements, four float32 scales and 64 rotary elements in bfloat16 (`fp8_ds_mla`).
_PACKED_LATENT_BYTES = 656
_COMPRESSED_BLOCK = 256


@lru_cache(maxsize=1024)
def mixers_of(architecture: Architecture) -> tuple[Mixer, ...]:
    """The distinct token mixers, in order of first appearance."""
    return tuple(dict.fromkeys(mixer for layer, _ in architecture.distinct_layers() for mixer in layer.mixers))


@lru_cache(maxsize=1024)
def has_softmax_only(architecture: Architecture) -> bool:
    """Whether all its token mixers are softmax attention over keys and values of its own."""
    return all(isinstance(mixer, Attention) for mixer in mixers_of(architecture))


@lru_cache(maxsize=1024)
def is_dense_decoder(architecture: Architecture) -> bool:
    """Softmax attention and dense feed-forwards."""
    channels = (c for layer, _ in architecture.distinct_layers() for c in layer.channels)
    return has_softmax_only(architecture) and not any(isinstance(c, MoE) for c in channels)


def preferred_block_size(architecture: Architecture, gpu: GPU, kv: KVDtype) -> int:
    """Tokens per block where nobody asks for a size: the smallest that every attention backend of the model takes."""
    sizes = {_block_size(mixer, architecture, gpu, kv) for mixer in mixers_of(architecture)}
    return max(sizes | {kv.default_block_size})


def _block_size(mixer: Mixer, architecture: Architecture, gpu: GPU, kv: KVDtype) -> int:
    major = gpu.compute_capability[0]
    if isinstance(mixer, CompressedAttention):
        return _COMPRESSED_BLOCK
    if isinstance(mixer, LatentAttention):
        if mixer.sparse:
            return 64
        if major == _BLACKWELL:
            return 32
        return 64 if major == _HOPPER and kv.is_fp8 else DEFAULT_BLOCK_SIZE
    if not isinstance(mixer, Attention):
        return DEFAULT_BLOCK_SIZE
    if mixer.block_tokens is not None:
        return mixer.block_tokens
    if major == _BLACKWELL and architecture.bidirectional_prefix and mixer.head_dim in (256, 512):
        return 64
    # FlashAttention 4 reads an fp8 cache of such heads in tiles of 64.
    return 64 if major == _HOPPER and kv.is_fp8 and mixer.head_dim == 512 else DEFAULT_BLOCK_SIZE


def latent_row_bytes(mixer: LatentAttention, gpu: GPU, kv: KVDtype) -> float:
    """Bytes one token takes in one layer's latent cache (without its indexer)."""
    if mixer.sparse and _is_packed(gpu, kv):
        return _PACKED_LATENT_BYTES
    return kv.row_bytes(mixer.latent_dim + mixer.rope_dim)


def _is_packed(gpu: GPU, kv: KVDtype) -> bool:
    """Sparse backends that store fp8 rows with scales: FlashMLA on Hopper (asked for as `fp8`), RTX Blackwell's."""
    major = gpu.compute_capability[0]
    return major == _BLACKWELL_RTX or (major == _HOPPER and kv.asked == "fp8")


def missing_backend(architecture: Architecture, gpu: GPU, kv: KVDtype) -> str | None:
    """Why no attention backend of this GPU serves the model with this cache; None where one does."""
    if gpu.vendor != "NVIDIA":
        return None
    for mixer in mixers_of(architecture):
        reason = _missing(mixer, architecture, gpu, kv)
        if reason is not None:
            return reason
    return None


def _missing(mixer: Mixer, architecture: Architecture, gpu: GPU, kv: KVDtype) -> str | None:
    capability = gpu.compute_capability
    if isinstance(mixer, LatentAttention):
        if mixer.sparse and capability[0] not in (_HOPPER, _BLACKWELL, _BLACKWELL_RTX):
            return f"sparse latent attention has no backend below compute capability 9.0; {gpu.name} has less"
        if not kv.is_fp8 and not kv.is_plain:
            return f"kv_cache_dtype {kv.name} has no backend with latent attention"
        if kv.is_fp8 and capability < _FP8_CAPABILITY:
            return f"an fp8 cache of latent attention needs compute capability 8.9; {gpu.name} has less"
    if isinstance(mixer, Attention) and kv.is_fp8:
        if capability < _FP8_CAPABILITY and not _flashinfer_serves(mixer, architecture, gpu):
            return f"an fp8 cache of this model needs compute capability 8.9; {gpu.name} has less"
        if capability[0] == _BLACKWELL and mixer.v_head_dim != mixer.head_dim:
            return f"keys and values of different width have no fp8 cache on {gpu.name}"
    if isinstance(mixer, Attention) and kv.name.startswith("turboquant"):
        if mixer.window_tokens is not None:
            return f"kv_cache_dtype {kv.name} has no attention backend with a sliding window"
        if capability[0] == _BLACKWELL:
            return f"kv_cache_dtype {kv.name} has no cache layout that suits the attention backends of {gpu.name}"
    return None


def _flashinfer_serves(mixer: Attention, architecture: Architecture, gpu: GPU) -> bool:
    return (
        gpu.compute_capability >= (8, 0)
        and mixer.head_dim in _FLASHINFER_HEADS
        and mixer.v_head_dim == mixer.head_dim
        and not mixer.has_sinks
        and not architecture.bidirectional_prefix
    )
