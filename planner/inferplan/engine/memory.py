"""One rank's memory budget and the KV cache that is left, as vLLM's GPU worker computes them.

    requested    = ⌈total memory × gpu_memory_utilization⌉
    available_kv = requested − weights − activation peak − non-torch − CUDA graphs (versions that subtract them)

Weights and KV counts are exact. The three middle terms come from a profiling run that only a GPU can make; here:

    activation = max( (W + 4·H·streams) · T · b ,  logit_bytes · S · V + 3 · H · T · b ) + indexer workspace
    graphs     = (0.20 + 0.0019 · √(layers · H)) GiB · (capture sizes / 51)

with T = max_num_batched_tokens, S = max_num_seqs, V padded vocabulary, W the live elements of the widest feed-forward
(3·I/tp of a gated one of intermediate size I), H hidden size, b bytes per element. The first branch is that
feed-forward, the second the sampler's profiling pass (logits in model dtype and float32, and their sorted copy).
Read off 19 published start-up logs of vLLM 0.15–0.19 on H100
(granite-3.1, CodeLlama-7b, phi-2, Llama-3.1-8B, Qwen2.5-7B, Qwen3-8B/14B, Gemma 2): activation within 5 %.
Known to be wrong: first start with a cold compile cache (activation up to several GiB higher), vision towers,
other processes on the card, TP over PCIe (one log only).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from inferplan.engine.backends import is_dense_decoder, mixers_of
from inferplan.engine.caches import cache_members
from inferplan.engine.config import KVGroup, MemoryPlan, ResolvedConfig, StartError
from inferplan.engine.kv import (
    Group,
    Kind,
    NoCommonPage,
    Request,
    Spec,
    blocks_per_request,
    bytes_per_block,
    group_layers,
    stage_groups,
)
from inferplan.engine.refusals import configuration_errors
from inferplan.engine.versions import facts_of
from inferplan.engine.weights import Ranks, draft_bytes_per_rank, padded_vocab, pipeline_stages, weights_bytes_per_rank
from inferplan.hardware import GPU
from inferplan.model import (
    DTYPE_BYTES,
    Architecture,
    Channel,
    CompressedAttention,
    Encoder,
    LatentAttention,
    MoE,
)

_GIB = 2**30
# 90 % interval of the KV budget as a share of the GPU's memory, from published start-up logs other than those the terms
# above were read off (validation/memory.py: 7 of dense decoders on RTX 3090/5090, T4, A100, H100 at TP 1–4, most of no
# stated version; 14 of all others). One-sided: what a log does not state (another process, an older default, an
# encoder) only ever takes memory away.
_SHORT_SHARE_DENSE, _SHORT_SHARE = 0.04, 0.06
_OVER_BYTES = round(0.1 * _GIB)
_GATHERED_CONTEXTS = 40
_HIGHEST_UTILIZATION = 0.97  # what the driver, a context and fragmentation leave of a card
_FULL_CAPTURE_SIZES = 51  # 1, 2, 4, 8..248 by 8, 256..512 by 16


def plan_memory(architecture: Architecture, gpu: GPU, config: ResolvedConfig) -> MemoryPlan:
    """What one rank's memory holds, the KV cache in blocks and tokens, and why vLLM would refuse to start."""
    tp = config.tensor_parallel_size
    errors = configuration_errors(architecture, gpu, config)
    ranks = ranks_of(config)
    weights = weights_bytes_per_rank(architecture, ranks, config.quantization, config.dtype)
    drafts = config.speculative_method == "mtp"
    draft = draft_bytes_per_rank(architecture, ranks, config.quantization, config.dtype) if drafts else 0
    activation = activation_bytes(architecture, config)
    facts = facts_of(config.version)
    linked = tp > 1 and gpu.link.kind in ("nvswitch", "nvlink-bridge")
    non_torch = facts.non_torch_linked_bytes if linked else facts.non_torch_bytes
    graphs = graph_bytes(architecture, config) if facts.subtracts_graphs else 0
    available = config.available_kv_cache_bytes
    if available is None:
        requested = math.ceil(gpu.memory_bytes * config.gpu_memory_utilization)
        available = requested - weights - draft - activation - non_torch - graphs
    groups: tuple[Group, ...] = ()
    blocks = 0
    if not errors:
        try:
            groups, blocks = _smallest_stage(architecture, gpu, config, available)
        except NoCommonPage:
            errors = (_UNIFIED_ERROR,)
    if not errors:
        errors = _capacity_errors(groups, blocks, available, gpu, config)
    per_request = sum(g.blocks_per_request for g in groups)
    concurrency = blocks / per_request if per_request and not errors else 0.0
    tokens = _reported_tokens(groups, blocks, concurrency, config) if concurrency else 0
    low, high = _token_interval(architecture, gpu, tokens, available, config)
    return MemoryPlan(
        total_memory_bytes=gpu.memory_bytes,
        weights_bytes_per_rank=weights,
        draft_weights_bytes=draft,
        activation_bytes=activation,
        non_torch_bytes=non_torch,
        cuda_graph_bytes=graphs,
        available_kv_cache_bytes=available,
        kv_groups=tuple(_planned_group(g, config) for g in groups),
        kv_bytes_per_token_per_rank=_bytes_per_token(groups) / config.decode_context_parallel_size,
        num_gpu_blocks=0 if errors else blocks,
        kv_cache_tokens=tokens,
        max_concurrency=concurrency,
        start_errors=errors,
        warnings=config.warnings,
        kv_cache_tokens_low=low,
        kv_cache_tokens_high=high,
    )


def fit_context(architecture: Architecture, gpu: GPU, config: ResolvedConfig) -> ResolvedConfig:
    """The same with the longest max_model_len that starts, as `--max-model-len auto` finds it; 0 fits: unchanged."""
    if configuration_errors(architecture, gpu, config):
        return config
    memory = plan_memory(architecture, gpu, config)
    if memory.starts or memory.available_kv_cache_bytes <= 0:
        return config
    groups, blocks = _smallest_stage(architecture, gpu, config, memory.available_kv_cache_bytes)
    return replace(config, max_model_len=_longest_context(groups, blocks, config) or config.max_model_len)


def activation_bytes(architecture: Architecture, config: ResolvedConfig) -> int:
    """Peak of the profiling run on one rank (module docstring)."""
    element = DTYPE_BYTES[config.dtype]
    tokens = min(config.max_num_batched_tokens, config.max_num_seqs * config.max_model_len)
    hidden = architecture.hidden_size
    streams = 4 * hidden * architecture.residual_streams
    layer = (_widest(architecture, ranks_of(config)) + streams) * tokens * element
    logits = facts_of(config.version).logit_bytes * config.max_num_seqs * padded_vocab(architecture.vocab_size)
    peak = max(layer, logits + 3 * hidden * tokens * element)
    if architecture.encoder is not None:
        peak = _with_encoder(architecture.encoder, peak, hidden * element, config)
    return round(peak + _sparse_workspace(architecture) * config.max_model_len)


def _with_encoder(encoder: Encoder, peak: float, row_bytes: int, config: ResolvedConfig) -> float:
    """The encoder's own pass comes first; what it made of a batch (or one item) stays while the language model runs."""
    kept = max(config.max_num_batched_tokens, encoder.item_tokens) * row_bytes
    elements = encoder.whole_elements + encoder.divided_elements / config.tensor_parallel_size
    return max(peak + kept, elements * DTYPE_BYTES[config.dtype])


def graph_bytes(architecture: Architecture, config: ResolvedConfig) -> int:
    """CUDA-graph pool as estimated at start-up (module docstring); none when eager."""
    if config.enforce_eager:
        return 0
    layers = len(architecture.layers) / config.pipeline_parallel_size
    whole = 0.20 + 0.0019 * math.sqrt(layers * architecture.hidden_size)
    return round(whole * _GIB * capture_sizes(config.max_num_seqs) / _FULL_CAPTURE_SIZES)


def capture_sizes(max_num_seqs: int) -> int:
    """How many batch sizes are captured: 1, 2, 4, then by 8 to 248, then by 16, up to min(2 × max_num_seqs, 512)."""
    top = min(2 * max_num_seqs, 512)
    small = sum(1 for size in (1, 2, 4) if size <= top)
    return small + min(top, 248) // 8 + (max(0, top - 256) // 16 + 1 if top >= 256 else 0)


def requests_that_fit(memory: MemoryPlan, tokens: float) -> float:
    """How many requests holding `tokens` tokens each the KV cache has room for, in whole blocks.

    Not what the log calls concurrency: that is of requests of max_model_len, and reserves a step's batch for windows.
    One block is vLLM's own (the null block).
    """
    if not memory.starts or not memory.kv_groups:
        return 0.0
    held = sum(blocks_held(group, tokens) for group in memory.kv_groups)
    return max(0, memory.num_gpu_blocks - 1) / held


def blocks_held(group: KVGroup, tokens: float) -> int:
    """Blocks of a request while it decodes; a window takes one more than it fills, as it rarely starts with one."""
    if group.kind == Kind.STATE.value:
        return group.blocks_per_request
    all_tokens = max(1, math.ceil(math.ceil(tokens / group.context_parallel) / group.block_size))
    if group.reach_tokens is None:
        return all_tokens
    return min(all_tokens, math.ceil((group.reach_tokens - 1) / group.block_size) + 1)


@lru_cache(maxsize=1024)
def _widest(architecture: Architecture, ranks: Ranks) -> float:
    """Elements per token that are live in the widest feed-forward on a rank."""
    channels = (c for layer, _ in architecture.distinct_layers() for c in layer.channels)
    return max((_live_elements(c, architecture.hidden_size, ranks) for c in channels), default=0.0)


def _live_elements(channel: Channel, hidden: int, ranks: Ranks) -> float:
    """Gate, up and their product; of experts, for each that a token goes through, the two buffers of vLLM's fused
    kernel: one for the up-projections and then the outputs, one for the product.
    """
    if not isinstance(channel, MoE):
        return 3 * channel.intermediate_size / ranks.tp
    width = channel.intermediate_size / ranks.expert_tp
    return channel.experts_per_token * (max(2 * width, hidden) + width)


@lru_cache(maxsize=1024)
def _sparse_workspace(architecture: Architecture) -> int:
    """Bytes per token of max_model_len that the indexer of sparse latent attention gathers keys into (vLLM 0.32)."""
    indexers = (m.indexer for m in mixers_of(architecture) if isinstance(m, LatentAttention) and m.indexer)
    return max((_GATHERED_CONTEXTS * (i.head_dim + 4) for i in indexers), default=0)


def ranks_of(config: ResolvedConfig) -> Ranks:
    """How the model is spread over GPUs."""
    return Ranks(
        config.tensor_parallel_size,
        config.pipeline_parallel_size,
        config.data_parallel_size,
        config.enable_expert_parallel,
        config.expert_kernel,
    )


def _request(config: ResolvedConfig, max_model_len: int | None = None) -> Request:
    return Request(max_model_len or config.max_model_len, config.in_flight_tokens, config.decode_context_parallel_size)


_UNIFIED_ERROR = StartError(
    "CachesNotUnified",
    "the layers cache in ways that no common page size serves.",
    "Leave the hybrid KV-cache manager on, or leave out the option that changes pages.",
)


def _smallest_stage(
    architecture: Architecture, gpu: GPU, config: ResolvedConfig, available: int
) -> tuple[tuple[Group, ...], int]:
    """Groups and blocks of the pipeline stage with the fewest blocks: it decides for all."""
    packed = any(isinstance(mixer, CompressedAttention) for mixer in mixers_of(architecture))
    members = cache_members(architecture, gpu, config)
    grouped = group_layers(members, hybrid=not config.disable_hybrid_kv_cache_manager, packed=packed)
    if not grouped:
        return (), 0
    request = _request(config)
    stages = pipeline_stages(len(architecture.layers), config.pipeline_parallel_size)
    counted = []
    for begin, count in stages:
        groups = stage_groups(grouped, begin, count, request, packed=packed)
        block = bytes_per_block(groups)
        if block:
            counted.append((max(0, available) // block, groups))
    blocks, groups = min(counted, key=lambda pair: pair[0])
    return groups, blocks


def _capacity_errors(
    groups: tuple[Group, ...], blocks: int, available: int, gpu: GPU, config: ResolvedConfig
) -> tuple[StartError, ...]:
    if available <= 0:
        message = f"weights and activations leave {available / _GIB:.2f} GiB for the KV cache."
        enough = config.gpu_memory_utilization - available / gpu.memory_bytes
        raised = f", or raise gpu_memory_utilization above {enough:.2f}" if enough < _HIGHEST_UTILIZATION else ""
        fix = f"Use more GPUs per replica, a larger GPU or a quantized checkpoint{raised}."
        return (StartError("NoMemoryLeft", message, fix),)
    block = bytes_per_block(groups)
    needed = sum(g.blocks_per_request for g in groups) + 1
    if needed > blocks:
        longest = _longest_context(groups, blocks, config)
        message = (
            f"one request of max_model_len {config.max_model_len} needs {needed * block / _GIB:.2f} GiB of KV cache, "
            f"{available / _GIB:.2f} GiB are available."
        )
        fix = (
            f"Set max_model_len to at most {longest}, or use more GPUs." if longest > 0 else "Use more or larger GPUs."
        )
        return (StartError("ContextExceedsKVCache", message, fix),)
    if _needs_state_blocks(groups, config) and config.max_num_seqs > blocks:
        message = (
            f"max_num_seqs {config.max_num_seqs} is above the {blocks} blocks that hold a running sequence's state."
        )
        return (StartError("SequencesAboveStateBlocks", message, f"Set max_num_seqs to at most {blocks}."),)
    return ()


def _needs_state_blocks(groups: tuple[Group, ...], config: ResolvedConfig) -> bool:
    """CUDA graphs of decoding want a state block for each sequence. Where the bytes of the cache are given, only their
    division is asked for, as vLLM's planning does before it captures graphs.
    """
    has_states = any(group.kind is Kind.STATE for group in groups)
    needed = facts_of(config.version).needs_state_blocks and not config.enforce_eager
    return has_states and needed and config.available_kv_cache_bytes is None


def _longest_context(groups: tuple[Group, ...], blocks: int, config: ResolvedConfig) -> int:
    """The longest max_model_len that starts: one block is kept back."""
    low, high = 0, config.max_model_len
    while low < high:
        middle = (low + high + 1) // 2
        request = _request(config, middle)
        if sum(_blocks_for(group, request) for group in groups) + 1 <= blocks:
            low = middle
        else:
            high = middle - 1
    return low


def _blocks_for(group: Group, request: Request) -> int:
    spec = Spec(group.kind, group.block_size, group.page_size_bytes, group.reach)
    return group.blocks_per_request if group.kind is Kind.STATE else blocks_per_request(spec, request)


def _reported_tokens(groups: tuple[Group, ...], blocks: int, concurrency: float, config: ResolvedConfig) -> int:
    """What that version's log calls the size of the KV cache: whole requests, or (before 0.21) one group's share."""
    if facts_of(config.version).reports_whole_requests:
        return int(concurrency * config.max_model_len)
    share = blocks // len(groups) * min(g.block_size for g in groups)
    return share * config.decode_context_parallel_size


def _planned_group(group: Group, config: ResolvedConfig) -> KVGroup:
    return KVGroup(
        group.layers,
        group.block_size,
        group.page_size_bytes,
        group.kind.value,
        group.reach,
        group.blocks_per_request,
        config.decode_context_parallel_size if group.reach is None else 1,
    )


def _bytes_per_token(groups: tuple[Group, ...]) -> float:
    """KV bytes of one more token of a long request on the ranks that share it (full windows and states add none)."""
    block = bytes_per_block(groups)
    growing = [g for g in groups if g.reach is None and g.kind is not Kind.STATE]
    if not growing:
        growing = [g for g in groups if g.kind is not Kind.STATE]
    return sum(block / g.block_size for g in growing)


def _token_interval(
    architecture: Architecture, gpu: GPU, tokens: int, available: int, config: ResolvedConfig
) -> tuple[int, int]:
    """90 % interval of the tokens: the budget's error (above), none when the bytes were given."""
    if config.available_kv_cache_bytes is not None or available <= 0:
        return tokens, tokens
    share = _SHORT_SHARE_DENSE if is_dense_decoder(architecture) and not architecture.encoder else _SHORT_SHARE
    low, high = 1 - share * gpu.memory_bytes / available, 1 + _OVER_BYTES / available
    return max(0, int(tokens * low)), int(tokens * high)
