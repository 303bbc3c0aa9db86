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

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from inferplan.engine import FIRST_V1, ResolvedConfig, parse_version, rank_shape
from inferplan.hardware import GPU
from inferplan.model import Architecture, Attention, Matrix, Shard
from inferplan.performance.constants import Constants

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
# Through the host's memory: what is left where a data sheet names no link.
_NO_LINK = 8e9


@dataclass(frozen=True, slots=True)
class Coefficients:
    """What one deployment's step is made of, per rank. Bytes, FLOPs, rates in SI; all floats, so that they stack."""

    weight_bytes: float
    linear_flops_per_token: float
    head_bytes: float
    head_flops_per_token: float
    matrix_flops_per_second: float
    attention_flops_per_second: float
    bandwidth: float
    kv_bytes_per_context_token: float
    window_kv_bytes_per_context_token: float
    window_tokens: float
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


@lru_cache(maxsize=8192)
def _sizes(architecture: Architecture, tp: int, weight_bits: float, dtype_bits: float) -> tuple[float, float, float]:
    """(weight bytes, FLOPs per token, activation bytes per token) of all layers on one rank."""
    weight = flops = moved = 0.0
    for layer, count in architecture.distinct_layers():
        for part in (layer.mixer, layer.channel):
            for matrix in part.matrices if part is not None else ():
                out, inner = rank_shape(matrix, tp)
                bits = weight_bits if matrix.quantizable else dtype_bits
                weight += count * out * inner * bits / 8
                flops += count * 2.0 * out * inner
                moved += count * (out + inner) * dtype_bits / 8
    return weight, flops, moved


def coefficients(architecture: Architecture, gpu: GPU, config: ResolvedConfig) -> Coefficients:
    """The step of this model on this GPU under this configuration."""
    tp = config.tensor_parallel_size
    quantization = config.quantization
    dtype_bits = 32.0 if config.dtype == "float32" else 16.0
    weight_bits = _stored_bits(config) if quantization else dtype_bits
    weight, flops, moved = _sizes(architecture, tp, weight_bits, dtype_bits)
    head = Matrix("lm_head", architecture.vocab_size, architecture.hidden_size, Shard.VOCAB)
    head_out, head_in = rank_shape(head, tp)
    full, windowed, window, pair = _attention(architecture, tp, config)
    switched = gpu.link.kind == "nvswitch" or gpu.link.kind == "xgmi"
    layers = len(architecture.layers)
    rate = _matrix_rate(gpu, config)
    return Coefficients(
        weight_bytes=weight,
        linear_flops_per_token=flops,
        head_bytes=head_out * head_in * dtype_bits / 8,
        head_flops_per_token=2.0 * head_out * head_in,
        matrix_flops_per_second=rate,
        attention_flops_per_second=gpu.peak.bf16 or gpu.peak.fp16,
        bandwidth=gpu.memory_bandwidth_bytes_per_second,
        kv_bytes_per_context_token=full,
        window_kv_bytes_per_context_token=windowed,
        window_tokens=window,
        attention_flops_per_pair=pair,
        activation_bytes_per_token=moved,
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


def _stored_bits(config: ResolvedConfig) -> float:
    q = config.quantization
    assert q is not None  # noqa: S101  (asked only for quantized weights)
    if q.block is not None:
        return q.weight_bits + 8.0 * q.scale_bytes / (q.block[0] * q.block[1])
    if q.group_size is None:
        return float(q.weight_bits)
    zero = q.weight_bits if q.zero_points else 0
    return q.weight_bits + (8.0 * q.scale_bytes + zero) / q.group_size


def _matrix_rate(gpu: GPU, config: ResolvedConfig) -> float:
    sixteen = (gpu.peak.bf16 if config.dtype == "bfloat16" else gpu.peak.fp16) or gpu.peak.fp16
    if config.activation_bits == 8:
        method = config.quantization.method if config.quantization else ""
        return (gpu.peak.int8 if method == "w8a8" else gpu.peak.fp8) or sixteen
    if config.activation_bits == 4:
        return gpu.peak.fp4 or sixteen
    return sixteen


def _attention(architecture: Architecture, tp: int, config: ResolvedConfig) -> tuple[float, float, float, float]:
    """(KV bytes per context token of full layers, of windowed layers, window, FLOPs per query-key pair) per rank."""
    full = windowed = pair = 0.0
    window = 1.0
    for layer, count in architecture.distinct_layers():
        mixer = layer.mixer
        if not isinstance(mixer, Attention):
            continue
        heads = max(1, mixer.kv_heads // tp)
        row = heads * (config.kv.row_bytes(mixer.head_dim) + config.kv.row_bytes(mixer.v_head_dim))
        reach = mixer.window_tokens or mixer.chunk_tokens
        if reach is None:
            full += count * row
        else:
            windowed += count * row
            window = max(window, float(reach))
        pair += count * 2.0 * (mixer.heads / tp) * (mixer.head_dim + mixer.v_head_dim)
    return full, windowed, window, pair


def _query_group(architecture: Architecture) -> float:
    """Query heads that share a KV head, mean over attention layers."""
    mixers = [(layer.mixer, n) for layer, n in architecture.distinct_layers() if isinstance(layer.mixer, Attention)]
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
    weights = t["weight_bytes"] / np.where(t["packed"] > 0, c.packed_bandwidth * t["bandwidth"], reading)
    linear = _corner(weights, t["linear_flops_per_token"] * tokens / rate)
    linear = linear + t["activation_bytes_per_token"] * tokens / reading
    head = _corner(t["head_bytes"] / reading, t["head_flops_per_token"] * sampled / rate)
    in_window = np.minimum(context, t["window_tokens"])
    kv_bytes = decode * (context * t["kv_bytes_per_context_token"] + in_window * t["window_kv_bytes_per_context_token"])
    first = t["first_engine"] > 0
    # The first engine's kernel read a KV head once per query head, in part from cache.
    again = np.power(t["query_group"], c.kv_again_v0)
    attention = kv_bytes * np.where(first, again / c.kv_bandwidth_v0, 1.0 / c.kv_bandwidth) / t["bandwidth"]
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
