"""Reasons for which vLLM refuses a configuration before it loads a byte, each with a stable code and a way out."""

from __future__ import annotations

from functools import lru_cache

from inferplan.engine.config import ResolvedConfig, StartError
from inferplan.engine.versions import parse_version
from inferplan.hardware import GPU
from inferplan.model import Architecture, Attention

# vLLM 0.33's `min_capability` per quantization method.
_MINIMUM_CAPABILITY = {
    "fp8": (7, 5),
    "awq": (7, 5),
    "gptq": (6, 0),
    "gptq-int8": (6, 0),
    "w8a8": (7, 5),
    "w8a16": (7, 0),
    "w4a16": (7, 0),
    "mxfp4": (8, 0),
    "nvfp4": (7, 5),
}
# Not built in from this version on; a plugin has to bring them.
_PLUGIN_SINCE = {"bitsandbytes": (0, 32), "gguf": (0, 32)}


def configuration_errors(architecture: Architecture, gpu: GPU, config: ResolvedConfig) -> tuple[StartError, ...]:
    """Everything that can be refused without counting memory, in the order vLLM checks it."""
    return (
        *_context_errors(architecture, config),
        *_batch_errors(config),
        *_head_errors(architecture, config),
        *_parallel_errors(architecture, config),
        *_quantization_errors(gpu, config),
        *_kv_dtype_errors(architecture, gpu, config),
    )


@lru_cache(maxsize=1024)
def _attentions(architecture: Architecture) -> tuple[Attention, ...]:
    """The distinct attention mixers, in order of first appearance."""
    return tuple(dict.fromkeys(m for layer in architecture.layers if isinstance(m := layer.mixer, Attention)))


def _context_errors(architecture: Architecture, config: ResolvedConfig) -> list[StartError]:
    limit = architecture.max_position_embeddings
    if config.max_model_len <= limit:
        return []
    message = f"max_model_len {config.max_model_len} is above the model's limit of {limit}."
    return [StartError("ContextAboveModelLimit", message, f"Set max_model_len to at most {limit}.")]


def _batch_errors(config: ResolvedConfig) -> list[StartError]:
    """Each running sequence needs a token of the step's budget (vLLM's SchedulerConfig, 0.8–0.33)."""
    tokens, sequences = config.max_num_batched_tokens, config.max_num_seqs
    if sequences <= tokens:
        return []
    message = f"max_num_batched_tokens {tokens} is below max_num_seqs {sequences}."
    fix = f"Set max_num_batched_tokens to at least {sequences}, or max_num_seqs to at most {tokens}."
    return [StartError("BatchedTokensBelowSequences", message, fix)]


def _head_errors(architecture: Architecture, config: ResolvedConfig) -> list[StartError]:
    tp = config.tensor_parallel_size
    for attention in _attentions(architecture):
        errors = _division_errors(attention, tp)
        if errors:
            return errors
    return []


def _division_errors(attention: Attention, tp: int) -> list[StartError]:
    sizes = [size for size in range(tp, 0, -1) if _divides(attention, size)]
    if attention.heads % tp:
        message = f"{attention.heads} attention heads can't be divided by tensor_parallel_size {tp}."
        return [StartError("HeadsNotDivisible", message, f"Use tensor_parallel_size {sizes[0]}.")]
    if not _divides(attention, tp):
        message = f"{attention.kv_heads} KV heads and tensor_parallel_size {tp} don't divide each other."
        return [StartError("KVHeadsNotDivisible", message, f"Use tensor_parallel_size {sizes[0]}.")]
    return []


def _divides(attention: Attention, tp: int) -> bool:
    kv = attention.kv_heads
    return attention.heads % tp == 0 and (kv % tp == 0 if kv >= tp else tp % kv == 0)


def _parallel_errors(architecture: Architecture, config: ResolvedConfig) -> list[StartError]:
    errors = []
    if config.enable_expert_parallel:
        message = f"{architecture.name} has no experts, so expert parallelism can't be enabled."
        errors.append(StartError("ExpertParallelWithoutExperts", message, "Leave expert parallelism off."))
    if config.pipeline_parallel_size > len(architecture.layers):
        message = f"pipeline_parallel_size {config.pipeline_parallel_size} is above {len(architecture.layers)} layers."
        errors.append(StartError("PipelineDeeperThanModel", message, "Use a smaller pipeline_parallel_size."))
    dcp, tp = config.decode_context_parallel_size, config.tensor_parallel_size
    kv_heads = max((attention.kv_heads for attention in _attentions(architecture)), default=0)
    if dcp > 1 and tp <= kv_heads:
        message = f"decode context parallelism needs tensor_parallel_size {tp} above the {kv_heads} KV heads."
        errors.append(StartError("ContextParallelNeedsRanks", message, "Set decode_context_parallel_size 1."))
    elif dcp > 1 and tp % dcp:
        message = f"decode_context_parallel_size {dcp} does not divide tensor_parallel_size {tp}."
        errors.append(StartError("ContextParallelNotDivisible", message, "Set decode_context_parallel_size 1."))
    return errors


def _quantization_errors(gpu: GPU, config: ResolvedConfig) -> list[StartError]:
    if config.quantization is None or gpu.vendor != "NVIDIA":
        return []
    method = config.quantization.method
    needed = _MINIMUM_CAPABILITY.get(method)
    if needed is not None and gpu.compute_capability < needed:
        has, wants = ".".join(map(str, gpu.compute_capability)), ".".join(map(str, needed))
        message = f"{method} kernels need compute capability {wants}; {gpu.name} has {has}."
        return [StartError("QuantizationNotOnThisGPU", message, "Use an unquantized checkpoint or a newer GPU.")]
    since = _PLUGIN_SINCE.get(method)
    if since is not None and parse_version(config.version) >= since:
        message = f"vLLM {config.version} has no {method} kernels built in."
        return [StartError("QuantizationNeedsPlugin", message, f"Add the vLLM {method} plugin or another checkpoint.")]
    return []


def _kv_dtype_errors(architecture: Architecture, gpu: GPU, config: ResolvedConfig) -> list[StartError]:
    """TurboQuant's backend knows no window, and its layout differs from the one B200's backend wants (vLLM 0.32)."""
    name = config.kv.name
    if not name.startswith("turboquant"):
        return []
    if any(attention.window_tokens is not None for attention in _attentions(architecture)):
        message = f"kv_cache_dtype {name} has no attention backend with a sliding window."
        return [StartError("KVCacheDtypeNotForThisModel", message, "Use kv_cache_dtype auto or fp8.")]
    if gpu.compute_capability[0] == 10:
        message = f"kv_cache_dtype {name} has no cache layout that suits the attention backends of {gpu.name}."
        return [StartError("KVCacheDtypeNotOnThisGPU", message, "Use kv_cache_dtype auto or fp8.")]
    return []
