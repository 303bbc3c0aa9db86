"""One engine step as a sum of named operations, vectorised over any number of deployments.

A step processes n decode tokens with mean context c and p prefill tokens that attend to `pairs` query-key pairs:

    linear     = (t_weights³ + t_flops³)^⅓        weights are read once a step; the corner between both is smooth
    head       = the same for the LM head, over sampled tokens only
    attention  = n · c · KV bytes / (kv_bandwidth · B)            decode: reads the cache
    prefill    = 4 · heads · d · pairs / (attention_compute · P)  prefill: computes
    all-reduce = 2 a layer: latency · log₂ tp + bytes · 2 (tp − 1)/tp / link
    gaps, host = per layer (more without CUDA graphs), per step and per running request

B and P are the spec sheet's bandwidth and dense rate for the width the matrix units compute in. Quantized weights are
read at `packed_bandwidth`, others at `weight_bandwidth`. vLLM's first engine (before 0.8) has its own host time and
decode attention: the latter read a KV head more than once where query heads share it. Known to be wrong: tile and wave
effects at small n, L2 hits of small models (TPOT of a 2B model on an L40 10–20 % high), clocks under a power cap, PCIe
without peer-to-peer (no calibration row has it), slow host processors. Pipeline stages are read one after another, as
one request sees them; that several batches fill them at once is not counted. Only elementwise float64 arithmetic: the
same digits on every machine.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from inferplan.engine import (
    FIRST_V1,
    Ranks,
    ResolvedConfig,
    latent_row_bytes,
    parse_version,
    rank_matrices,
    rank_shape,
    ranks_of,
    state_bytes_per_sequence,
)
from inferplan.hardware import GPU
from inferplan.model import (
    DTYPE_BYTES,
    Architecture,
    Attention,
    CompressedAttention,
    LatentAttention,
    Layer,
    Matrix,
    MoE,
    Quantization,
    Recurrent,
    Shard,
    first_alike,
    quantization_of_matrix,
    stored_bytes,
)
from inferplan.performance.constants import Constants

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
# Through the host's memory: what is left where a data sheet names no link.
_NO_LINK = 8e9
# Per element of a recurrent state and token: decay, outer product, accumulation, readout.
_STATE_FLOPS = 6.0


@dataclass(frozen=True, slots=True)
class Coefficients:
    """What one deployment's step is made of, per rank. Bytes, FLOPs, rates in SI; all floats, so that they stack."""

    weight_bytes: float
    expert_bytes: float
    expert_share: float
    linear_flops_per_token: float
    head_bytes: float
    head_flops_per_token: float
    matrix_flops_per_second: float
    attention_flops_per_second: float
    bandwidth: float
    kv_bytes_per_context_token: float
    window_kv_bytes_per_context_token: float
    window_tokens: float
    decode_flops_per_context_token: float
    state_bytes: float
    attention_flops_per_pair: float
    activation_bytes_per_token: float
    reduce_bytes_per_token: float
    reduces: float
    link_bandwidth: float
    switched: float
    layers: float
    eager: float
    first_engine: float
    query_group: float
    packed: float
    tensor_parallel: float


FIELDS = tuple(f.name for f in fields(Coefficients))


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Sums over all layers on one rank."""

    weight_bytes: float  # read in every step
    expert_bytes: float  # of all experts held, read as far as a batch touches them
    expert_share: float  # of the experts that one token goes through
    flops_per_token: float
    moved_bytes_per_token: float


@lru_cache(maxsize=8192)
def _sizes(architecture: Architecture, ranks: Ranks, quantization: Quantization | None, dtype: str) -> _Sizes:
    dtype_bytes = DTYPE_BYTES[dtype]
    weight = expert = flops = moved = 0.0
    share = 0.0
    for index, layer, count in _first_of_each(architecture):
        for part in layer.parts:
            active = part.experts_per_token / part.experts if isinstance(part, MoE) else 1.0
            own = len(part.matrices)
            for position, (matrix, (out, inner), copies) in enumerate(rank_matrices(part, ranks)):
                held = quantization_of_matrix(matrix, index, quantization)
                size = count * copies * stored_bytes(out, inner, held, DTYPE_BYTES.get(matrix.dtype or "", dtype_bytes))
                routed = position >= own
                used = active * copies if routed else 1.0
                weight += 0.0 if routed else size
                expert += size if routed else 0.0
                flops += count * used * 2.0 * out * inner
                moved += count * used * (out + inner) * dtype_bytes
            if isinstance(part, MoE):
                share = max(share, active)
            if isinstance(part, Recurrent):
                flops += count * _STATE_FLOPS * part.heads / ranks.tp * part.state_per_head
    return _Sizes(weight, expert, share, flops, moved)


def _first_of_each(architecture: Architecture) -> list[tuple[int, Layer, int]]:
    """Each distinct layer with the index it first has and how often it occurs."""
    counts = Counter(first_alike(architecture))
    return [(first, architecture.layers[first], count) for first, count in counts.items()]


def coefficients(architecture: Architecture, gpu: GPU, config: ResolvedConfig) -> Coefficients:
    """The step of this model on this GPU under this configuration."""
    tp = config.tensor_parallel_size
    quantization = config.quantization
    dtype_bytes = DTYPE_BYTES[config.dtype]
    sizes = _sizes(architecture, ranks_of(config), quantization, config.dtype)
    head = Matrix("lm_head", architecture.vocab_size, architecture.hidden_size, Shard.VOCAB)
    head_out, head_in = rank_shape(head, tp)
    reading = _attention(architecture, gpu, config)
    switched = gpu.link.kind == "nvswitch" or gpu.link.kind == "xgmi"
    layers = len(architecture.layers)
    rate = _matrix_rate(gpu, config)
    return Coefficients(
        weight_bytes=sizes.weight_bytes,
        expert_bytes=sizes.expert_bytes,
        expert_share=sizes.expert_share,
        linear_flops_per_token=sizes.flops_per_token,
        head_bytes=head_out * head_in * dtype_bytes,
        head_flops_per_token=2.0 * head_out * head_in,
        matrix_flops_per_second=rate,
        attention_flops_per_second=gpu.peak.bf16 or gpu.peak.fp16,
        bandwidth=gpu.memory_bandwidth_bytes_per_second,
        kv_bytes_per_context_token=reading.full,
        window_kv_bytes_per_context_token=reading.windowed,
        window_tokens=reading.window,
        decode_flops_per_context_token=reading.decode_flops,
        state_bytes=2.0 * state_bytes_per_sequence(architecture, gpu, config),
        attention_flops_per_pair=reading.pair_flops,
        activation_bytes_per_token=sizes.moved_bytes_per_token,
        reduce_bytes_per_token=architecture.hidden_size * 2.0,
        reduces=2.0 * layers if tp > 1 else 0.0,
        link_bandwidth=max(gpu.link.bandwidth_among(tp), _NO_LINK) * tp / (2.0 * max(tp - 1, 1)),
        switched=1.0 if switched else 0.0,
        layers=float(layers),
        eager=1.0 if config.enforce_eager else 0.0,
        first_engine=1.0 if parse_version(config.version) < FIRST_V1 else 0.0,
        query_group=_query_group(architecture),
        packed=1.0 if quantization is not None else 0.0,
        tensor_parallel=float(tp),
    )


def _matrix_rate(gpu: GPU, config: ResolvedConfig) -> float:
    sixteen = (gpu.peak.bf16 if config.dtype == "bfloat16" else gpu.peak.fp16) or gpu.peak.fp16
    if config.activation_bits == 8:
        method = config.quantization.method if config.quantization else ""
        return (gpu.peak.int8 if method == "w8a8" else gpu.peak.fp8) or sixteen
    if config.activation_bits == 4:
        return gpu.peak.fp4 or sixteen
    return sixteen


@dataclass(slots=True)
class _Reading:
    """Per rank: cache bytes a decoding token reads per token of context (full, and within a window), the FLOPs of
    decoding over a latent per token of context, and those of a prefill per query-key pair.
    """

    full: float = 0.0
    windowed: float = 0.0
    window: float = 1.0
    decode_flops: float = 0.0
    pair_flops: float = 0.0


def _attention(architecture: Architecture, gpu: GPU, config: ResolvedConfig) -> _Reading:
    tp = config.tensor_parallel_size
    found = _Reading()
    for layer, count in architecture.distinct_layers():
        for mixer in layer.mixers:
            if isinstance(mixer, Attention):
                _add_attention(found, mixer, count, tp, config)
            elif isinstance(mixer, LatentAttention):
                _add_latent(found, mixer, count, tp, latent_row_bytes(mixer, gpu, config.kv))
            elif isinstance(mixer, CompressedAttention):
                _add_compressed(found, mixer, count, tp)
    found.full /= config.decode_context_parallel_size  # each rank reads its share of a request's tokens
    return found


def _add_attention(found: _Reading, mixer: Attention, count: int, tp: int, config: ResolvedConfig) -> None:
    heads = max(1, mixer.kv_heads // tp)
    row = heads * (config.kv.row_bytes(mixer.head_dim) + config.kv.row_bytes(mixer.v_head_dim))
    reach = mixer.window_tokens or mixer.chunk_tokens or (mixer.indexer.top_tokens if mixer.indexer else None)
    if reach is None:
        found.full += count * row
    else:
        found.windowed += count * row
        found.window = max(found.window, float(reach))
    if mixer.indexer is not None:
        found.full += count * mixer.indexer.head_dim * 2.0
    found.pair_flops += count * 2.0 * (mixer.heads / tp) * (mixer.head_dim + mixer.v_head_dim)


def _add_latent(found: _Reading, mixer: LatentAttention, count: int, tp: int, row: float) -> None:
    """Decoding works on the latent itself, for every head; a prefill on keys and values made from it."""
    heads = mixer.heads / tp
    found.pair_flops += count * 2.0 * heads * (mixer.nope_dim + mixer.rope_dim + mixer.v_head_dim)
    if not mixer.sparse:
        found.full += count * row
        found.decode_flops += count * 2.0 * heads * (2 * mixer.latent_dim + mixer.rope_dim)
        return
    found.windowed += count * row
    if mixer.indexer is not None:
        found.window = max(found.window, float(mixer.indexer.top_tokens))
        found.full += count * (mixer.indexer.head_dim + 4.0)
        found.decode_flops += count * 2.0 * mixer.indexer.heads * mixer.indexer.head_dim


def _add_compressed(found: _Reading, mixer: CompressedAttention, count: int, tp: int) -> None:
    row = mixer.head_dim + mixer.rope_dim
    found.windowed += count * row
    found.window = max(found.window, float(mixer.window_tokens))
    if mixer.indexer is not None:
        found.full += count * (mixer.indexer.head_dim + 4.0) / mixer.ratio
    elif mixer.ratio:
        found.full += count * row / mixer.ratio
    found.pair_flops += count * 4.0 * (mixer.heads / tp) * mixer.head_dim / max(mixer.ratio, 1)


def _query_group(architecture: Architecture) -> float:
    """Query heads that share a KV head, mean over attention layers."""
    mixers = [
        (mixer, n)
        for layer, n in architecture.distinct_layers()
        for mixer in layer.mixers
        if isinstance(mixer, Attention)
    ]
    layers = sum(n for _, n in mixers)
    return sum(n * m.heads / m.kv_heads for m, n in mixers) / layers if layers else 1.0


class Table:
    """Coefficients of many deployments as columns; `t.weight_bytes` is an array with one entry each."""

    __slots__ = ("columns",)

    def __init__(self, rows: list[Coefficients]) -> None:
        self.columns = {name: np.array([getattr(r, name) for r in rows], dtype=np.float64) for name in FIELDS}

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    def take(self, index: npt.NDArray[np.intp]) -> Table:
        """The rows of `index`, in that order (repeats allowed)."""
        picked = Table([])
        picked.columns = {name: column[index] for name, column in self.columns.items()}
        return picked


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds by operation, arrays."""

    linear: Array
    head: Array
    attention: Array
    prefill_attention: Array
    reduces: Array
    gaps: Array
    host: Array

    @property
    def total(self) -> Array:
        return self.linear + self.head + self.attention + self.prefill_attention + self.reduces + self.gaps + self.host


def step_time(t: Table, c: Constants, decode: Array, context: Array, prefill: Array, pairs: Array) -> StepTime:
    """One step's time: `decode` sequences of mean `context`, and `prefill` tokens attending to `pairs` pairs."""
    tokens = decode + prefill
    sampled = np.maximum(decode, 1.0)
    rate = c.compute * t["matrix_flops_per_second"]
    reading = c.weight_bandwidth * t["bandwidth"]
    # Experts that at least one of the batch's tokens goes through, were they spread evenly.
    touched = 1.0 - np.power(1.0 - t["expert_share"], tokens)
    weights = (t["weight_bytes"] + t["expert_bytes"] * touched) / np.where(
        t["packed"] > 0, c.packed_bandwidth * t["bandwidth"], reading
    )
    linear = _corner(weights, t["linear_flops_per_token"] * tokens / rate)
    linear = linear + t["activation_bytes_per_token"] * tokens / reading
    head = _corner(t["head_bytes"] / reading, t["head_flops_per_token"] * sampled / rate)
    in_window = np.minimum(context, t["window_tokens"])
    kv_bytes = decode * (context * t["kv_bytes_per_context_token"] + in_window * t["window_kv_bytes_per_context_token"])
    first = t["first_engine"] > 0
    # The first engine's kernel read a KV head once per query head, in part from cache.
    again = np.power(t["query_group"], c.kv_again_v0)
    kv_bytes = kv_bytes + t["state_bytes"] * decode
    attention = kv_bytes * np.where(first, again / c.kv_bandwidth_v0, 1.0 / c.kv_bandwidth) / t["bandwidth"]
    latent_flops = t["decode_flops_per_context_token"] * context * decode
    attention = _corner(attention, latent_flops / (c.attention_compute * t["attention_flops_per_second"]))
    prefill_attention = t["attention_flops_per_pair"] * pairs / (c.attention_compute * t["attention_flops_per_second"])
    link = c.link_bandwidth * t["link_bandwidth"]
    latency = np.where(t["switched"] > 0, c.switch_latency, c.pcie_latency) * np.log2(t["tensor_parallel"])
    reduces = t["reduces"] * (latency + t["reduce_bytes_per_token"] * tokens / link)
    host = np.where(first, c.step_host_v0, c.step_host) + c.sequence_host * decode
    gaps = t["layers"] * (c.layer_gap + c.eager_layer * t["eager"])
    return StepTime(linear, head, attention, prefill_attention, reduces, gaps, host)


def _corner(a: Array, b: Array) -> Array:
    """The smooth maximum of two times: (a³ + b³)^⅓."""
    return np.cbrt(a * a * a + b * b * b)
