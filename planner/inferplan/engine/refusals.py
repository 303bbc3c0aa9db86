"""Reasons for which vLLM refuses a configuration before it loads a byte, each with a stable code and a way out."""

from __future__ import annotations

from functools import lru_cache

from inferplan.engine.backends import missing_backend, mixers_of
from inferplan.engine.config import ResolvedConfig, StartError
from inferplan.engine.versions import parse_version
from inferplan.hardware import GPU
from inferplan.model import Architecture, Attention, Mixer, MoE, Recurrent, RecurrentKind

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
# Classes that vLLM dropped (its registry's `_PREVIOUSLY_SUPPORTED_MODELS`, 0.32), as far as a parser reads them.
_LAST_VERSION = {
    "BambaForCausalLM": (0, 23),
    "MiniMaxText01ForCausalLM": (0, 23),
    "MiniMaxM1ForCausalLM": (0, 23),
}
# Not built in from this version on; a plugin has to bring them.
_PLUGIN_SINCE = {"bitsandbytes": (0, 32), "gguf": (0, 32)}


def configuration_errors(architecture: Architecture, gpu: GPU, config: ResolvedConfig) -> tuple[StartError, ...]:
    """Everything that can be refused without counting memory, in the order vLLM checks it."""
    return (
        *_version_errors(architecture, config),
        *_context_errors(architecture, config),
        *_batch_errors(config),
        *_head_errors(architecture, config),
        *_expert_errors(architecture, config),
        *_parallel_errors(architecture, config),
        *_quantization_errors(gpu, config),
        *_backend_errors(architecture, gpu, config),
        *_speculative_errors(architecture, config),
    )


def _version_errors(architecture: Architecture, config: ResolvedConfig) -> list[StartError]:
    last = _LAST_VERSION.get(architecture.name)
    if last is None or parse_version(config.version) <= last:
        return []
    message = f"vLLM {config.version} serves {architecture.name} no more; {last[0]}.{last[1]} was the last that did."
    return [StartError("ArchitectureRemoved", message, f"Use engine version {last[0]}.{last[1]} or older.")]


def _context_errors(architecture: Architecture, config: ResolvedConfig) -> list[StartError]:
    limit = architecture.max_position_embeddings
    if config.max_model_len <= limit or not architecture.limits_context:
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
    for mixer in mixers_of(architecture):
        reason = _undivided(mixer, tp)
        if reason is not None:
            code, what = reason
            fits = next(size for size in range(tp, 0, -1) if _undivided(mixer, size) is None)
            message = f"{what} can't be divided by tensor_parallel_size {tp}."
            return [StartError(code, message, f"Use tensor_parallel_size {fits}.")]
    return []


def _undivided(mixer: Mixer, tp: int) -> tuple[str, str] | None:
    """(code, what) of a mixer does not divide over so many ranks; None: it does."""
    if isinstance(mixer, Recurrent):
        return _undivided_state(mixer, tp)
    if mixer.heads % tp:
        return "HeadsNotDivisible", f"{mixer.heads} attention heads"
    if isinstance(mixer, Attention):
        kv = mixer.kv_heads
        if kv % tp if kv >= tp else tp % kv:
            return "KVHeadsNotDivisible", f"{kv} KV heads"
    return None


def _undivided_state(mixer: Recurrent, tp: int) -> tuple[str, str] | None:
    if mixer.kind is RecurrentKind.MAMBA2 and mixer.groups % tp and mixer.groups != 1:
        return "StateGroupsNotDivisible", f"{mixer.groups} state groups (more than one)"
    if mixer.heads % tp:
        return "StateHeadsNotDivisible", f"{mixer.heads} state heads"
    if mixer.conv_channels % tp:
        return "StateHeadsNotDivisible", f"{mixer.conv_channels} convolution channels"
    return None


@lru_cache(maxsize=1024)
def _moes(architecture: Architecture) -> tuple[MoE, ...]:
    found = (c for layer, _ in architecture.distinct_layers() for c in layer.channels if isinstance(c, MoE))
    return tuple(dict.fromkeys(found))


def _expert_errors(architecture: Architecture, config: ResolvedConfig) -> list[StartError]:
    """Experts divided over TP × DP ranks need a whole number of channels on each."""
    if config.enable_expert_parallel:
        return []
    ranks = config.tensor_parallel_size * config.data_parallel_size
    for moe in _moes(architecture):
        if moe.intermediate_size % ranks:
            message = f"Experts {moe.intermediate_size} wide can't be divided over {ranks} ranks."
            fix = "Enable expert parallelism, or use a tensor_parallel_size that divides the width."
            return [StartError("ExpertsNotDivisible", message, fix)]
    return []


def _parallel_errors(architecture: Architecture, config: ResolvedConfig) -> list[StartError]:
    errors = []
    if config.enable_expert_parallel and not _moes(architecture):
        message = f"{architecture.name} has no experts, so expert parallelism can't be enabled."
        errors.append(StartError("ExpertParallelWithoutExperts", message, "Leave expert parallelism off."))
    if config.pipeline_parallel_size > 1 and not architecture.pipelined:
        message = f"{architecture.name} can't be split into pipeline stages."
        errors.append(StartError("PipelineNotSupported", message, "Set pipeline_parallel_size 1."))
    if config.pipeline_parallel_size > len(architecture.layers):
        message = f"pipeline_parallel_size {config.pipeline_parallel_size} is above {len(architecture.layers)} layers."
        errors.append(StartError("PipelineDeeperThanModel", message, "Use a smaller pipeline_parallel_size."))
    return errors + _context_parallel_errors(architecture, config)


def _context_parallel_errors(architecture: Architecture, config: ResolvedConfig) -> list[StartError]:
    """The ranks that hold the same KV heads (a latent: all ranks) may share out their tokens."""
    dcp, tp = config.decode_context_parallel_size, config.tensor_parallel_size
    if dcp == 1:
        return []
    kv_heads = max((m.kv_heads for m in mixers_of(architecture) if isinstance(m, Attention)), default=1)
    fix = "Set decode_context_parallel_size 1."
    if tp <= kv_heads and tp % dcp == 0 and kv_heads > 1:
        message = f"decode context parallelism needs tensor_parallel_size {tp} above the {kv_heads} KV heads."
        return [StartError("ContextParallelNeedsRanks", message, fix)]
    if tp % dcp:
        message = f"decode_context_parallel_size {dcp} does not divide tensor_parallel_size {tp}."
        return [StartError("ContextParallelNotDivisible", message, fix)]
    most = tp // kv_heads
    if dcp > most:
        message = (
            f"decode_context_parallel_size {dcp} is above {most}, the ranks that hold each of {kv_heads} KV heads."
        )
        return [StartError("ContextParallelAboveReplicas", message, f"Set decode_context_parallel_size {most}.")]
    return []


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


def _backend_errors(architecture: Architecture, gpu: GPU, config: ResolvedConfig) -> list[StartError]:
    reason = missing_backend(architecture, gpu, config.kv)
    if reason is None:
        return []
    message = f"No attention backend: {reason}."
    if config.kv.is_plain:
        return [StartError("NoAttentionBackend", message, "Use a newer GPU.")]
    declared = config.quantization is not None and config.quantization.kv_cache_dtype is not None
    plain = "bfloat16 (auto is the checkpoint's own type)" if declared else "auto or bfloat16"
    return [StartError("KVCacheDtypeNotSupported", message, f"Use kv_cache_dtype {plain}, or a newer GPU.")]


def _speculative_errors(architecture: Architecture, config: ResolvedConfig) -> list[StartError]:
    if config.speculative_method != "mtp" or architecture.draft is not None:
        return []
    message = f"{architecture.name} has no layer that drafts tokens (MTP)."
    return [StartError("NoDraftLayer", message, "Leave speculation out, or use ngram.")]
