"""Every default filled in, as `vllm serve` does for one version, model and GPU.

Batch sizes: where nothing is said, the tier of the GPU (versions.py); tokens that nobody asked for are capped at
max_num_seqs × max_model_len, and sequences that nobody asked for at the tokens (vLLM's `EngineArgs`).
"""

from __future__ import annotations

from inferplan.engine.backends import mixers_of, preferred_block_size
from inferplan.engine.config import EngineConfig, ExpertKernel, ResolvedConfig
from inferplan.engine.kv_dtype import DEFAULT_BLOCK_SIZE, KVDtype, kv_dtype_named
from inferplan.engine.versions import BatchTiers, VersionFacts, facts_of, version_warnings
from inferplan.errors import InvalidInput
from inferplan.hardware import GPU
from inferplan.model import (
    DTYPE_BYTES,
    Architecture,
    Attention,
    CompressedAttention,
    LatentAttention,
    Quantization,
    Recurrent,
    quantization_named,
)

_GIB = 2**30
_AMPERE = (8, 0)
SPECULATIVE_METHODS = ("mtp", "ngram")
_MOST_DRAFTED = 64


def resolve(config: EngineConfig, architecture: Architecture, gpu: GPU) -> ResolvedConfig:
    """The configuration vLLM would run with. Raises InvalidInput for a value that has no meaning.

    What vLLM would refuse at start-up is not raised here: `plan_memory` names it.
    """
    _check(config)
    facts = facts_of(config.version)
    warnings = list(version_warnings(config.version))
    dtype, quantization = _weights(config, architecture)
    if dtype == "bfloat16" and gpu.vendor == "NVIDIA" and gpu.compute_capability < _AMPERE:
        dtype = "float32" if architecture.unstable_in_float16 else "float16"
        slower = "; its latencies are predicted as those of float16, so too low" if dtype == "float32" else ""
        warnings.append(f"DtypeFallback: {gpu.name} has no bfloat16; vLLM loads the model as {dtype}{slower}")
    kv = _kv_dtype(config, architecture, gpu, dtype, quantization)
    context = config.max_model_len or default_context(architecture, facts)
    batched, max_num_seqs = _batch(config, context, default_batch(gpu, facts.batch))
    return ResolvedConfig(
        version=config.version,
        tensor_parallel_size=config.tensor_parallel_size,
        pipeline_parallel_size=config.pipeline_parallel_size,
        data_parallel_size=config.data_parallel_size,
        enable_expert_parallel=config.enable_expert_parallel,
        decode_context_parallel_size=config.decode_context_parallel_size,
        dtype=dtype,
        quantization=quantization,
        activation_bits=_activation_bits(quantization, gpu),
        kv=kv,
        gpu_memory_utilization=config.gpu_memory_utilization or facts.gpu_memory_utilization,
        max_model_len=context,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=batched,
        block_size=config.block_size or preferred_block_size(architecture, gpu, kv),
        state_dtype=_state_dtype(config),
        speculative_method=config.speculative_method,
        speculative_tokens=config.speculative_tokens if config.speculative_method else 0,
        expert_kernel=_expert_kernel(quantization, gpu, facts),
        enforce_eager=config.enforce_eager,
        enable_prefix_caching=_prefix_caching(config, architecture, facts),
        async_scheduling=_async_scheduling(config, facts),
        disable_hybrid_kv_cache_manager=config.disable_hybrid_kv_cache_manager,
        available_kv_cache_bytes=config.available_kv_cache_bytes,
        warnings=tuple(warnings),
    )


def _async_scheduling(config: EngineConfig, facts: VersionFacts) -> bool:
    """On in newer versions, but for drafts that are looked up in the prompt."""
    if config.async_scheduling is not None:
        return config.async_scheduling
    return facts.async_scheduling and config.speculative_method != "ngram"


def _kv_dtype(
    config: EngineConfig, architecture: Architecture, gpu: GPU, dtype: str, quantization: Quantization | None
) -> KVDtype:
    """How the cache is stored: as asked, as the checkpoint declares, as usual for the family, or as the model is."""
    declared = quantization.kv_cache_dtype if quantization else None
    if gpu.vendor == "NVIDIA" and gpu.compute_capability[0] in architecture.fp8_cache_capabilities:
        declared = declared or "fp8_e4m3"
    return kv_dtype_named(config.kv_cache_dtype, dtype, declared)


def _expert_kernel(quantization: Quantization | None, gpu: GPU, facts: VersionFacts) -> ExpertKernel:
    major = gpu.compute_capability[0]
    if gpu.vendor != "NVIDIA":
        return ExpertKernel.UNPADDED
    if quantization is None:
        return ExpertKernel.TENSORRT if major == 10 else ExpertKernel.UNPADDED
    if quantization.method != "mxfp4":
        return ExpertKernel.UNPADDED
    return ExpertKernel.MXFP4_TRITON if major == 9 and facts.mxfp4_triton else ExpertKernel.MXFP4_PADDED


def _state_dtype(config: EngineConfig) -> str | None:
    asked = config.mamba_ssm_cache_dtype
    if asked is None or asked == "auto":
        return None
    if asked not in DTYPE_BYTES:
        raise InvalidInput(f"mamba_ssm_cache_dtype={asked!r} is unknown; known: auto, {', '.join(DTYPE_BYTES)}")
    return asked


def _prefix_caching(config: EngineConfig, architecture: Architecture, facts: VersionFacts) -> bool:
    """On unless told otherwise; where there are states, only beside attention and in versions that cache them."""
    if config.enable_prefix_caching is not None:
        return config.enable_prefix_caching
    mixers = mixers_of(architecture)
    if not any(isinstance(mixer, Recurrent) for mixer in mixers):
        return True
    attends = any(isinstance(mixer, Attention | LatentAttention | CompressedAttention) for mixer in mixers)
    return attends and facts.hybrid_prefix_caching


def default_context(architecture: Architecture, facts: VersionFacts) -> int:
    """max_model_len where nobody asks for one."""
    short = architecture.original_position_embeddings
    return short if short is not None and facts.long_rope_starts_short else architecture.max_position_embeddings


def default_batch(gpu: GPU, tiers: BatchTiers) -> tuple[int, int]:
    """(max_num_batched_tokens, max_num_seqs) that `vllm serve` starts with on this GPU."""
    if tiers.largest_from_bytes is not None and gpu.memory_bytes >= tiers.largest_from_bytes:
        return 16384, 1024
    if tiers.large_names:
        large = any(name in gpu.name for name in tiers.large_names)
    else:
        large = gpu.memory_bytes >= 70 * _GIB and not gpu.name.startswith("A100")
    if large and gpu.compute_capability not in tiers.small_capabilities:
        return 8192, 1024
    return 2048, 256


def _batch(config: EngineConfig, context: int, defaults: tuple[int, int]) -> tuple[int, int]:
    """(max_num_batched_tokens, max_num_seqs) in force."""
    tokens, sequences = defaults
    batched = config.max_num_batched_tokens or min(tokens, (config.max_num_seqs or sequences) * context)
    return batched, config.max_num_seqs or min(sequences, batched)


def _check(config: EngineConfig) -> None:
    positive = {
        "tp": config.tensor_parallel_size,
        "pp": config.pipeline_parallel_size,
        "dp": config.data_parallel_size,
        "dcp": config.decode_context_parallel_size,
        "max_model_len": config.max_model_len,
        "max_num_seqs": config.max_num_seqs,
        "max_num_batched_tokens": config.max_num_batched_tokens,
    }
    for name, value in positive.items():
        if value is not None and value < 1:
            raise InvalidInput(f"{name}={value} must be at least 1")
    utilization = config.gpu_memory_utilization
    if utilization is not None and not 0 < utilization <= 1:
        raise InvalidInput(f"gpu_memory_utilization={utilization} must be above 0 and at most 1")
    if config.speculative_method is not None:
        if config.speculative_method not in SPECULATIVE_METHODS:
            known = ", ".join(SPECULATIVE_METHODS)
            raise InvalidInput(f"speculative method {config.speculative_method!r} is not modelled; known: {known}")
        if not 1 <= config.speculative_tokens <= _MOST_DRAFTED:
            raise InvalidInput(f"speculative tokens={config.speculative_tokens} must be from 1 to {_MOST_DRAFTED}")
    if config.block_size is not None and config.block_size % DEFAULT_BLOCK_SIZE:
        raise InvalidInput(f"block_size={config.block_size} must be a multiple of {DEFAULT_BLOCK_SIZE}")


def _weights(config: EngineConfig, architecture: Architecture) -> tuple[str, Quantization | None]:
    """(dtype, quantization): what was asked for, else what the checkpoint says."""
    if config.weight_quantization is None:
        return architecture.dtype, architecture.quantization
    named = quantization_named(config.weight_quantization)
    if isinstance(named, str):
        return named, None
    held = architecture.quantization
    return architecture.dtype, held if held is not None and held.method == named.method else named


def _activation_bits(quantization: Quantization | None, gpu: GPU) -> int:
    """Width of the matrix product: fp8 needs Ada, fp4 Blackwell, int8 Turing; below that weights are only unpacked."""
    if quantization is None:
        return 16
    if quantization.activation_bits == 4:
        return 4 if gpu.peak.fp4 is not None else 16
    if quantization.activation_bits == 8:
        native = gpu.peak.int8 if quantization.method == "w8a8" else gpu.peak.fp8
        return 8 if native is not None else 16
    return 16
