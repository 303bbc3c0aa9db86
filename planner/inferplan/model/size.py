"""How large a checkpoint is as it is stored: parameters and bytes, no padding, no replication.

A quantized weight of `b` bits costs b/8 bytes plus its share of a scale (and zero point): per group of inputs, per
block, per output channel or per tensor. Not counted: GPTQ's g_idx (32/b ÷ outputs: below 0.3 %), NVFP4's scale of the
whole tensor.
"""

from __future__ import annotations

import math

from inferplan.model.architecture import Architecture, Matrix, Quantization
from inferplan.model.quantization import is_ignored

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


def stored_bytes(out_features: int, in_features: int, quantization: Quantization | None, dtype_bytes: int) -> float:
    """Bytes of an `out x in` matrix with its scales and zero points, without a bias."""
    if quantization is None:
        return out_features * in_features * dtype_bytes
    weights = out_features * in_features * quantization.weight_bits / 8
    return weights + _scale_bytes(out_features, in_features, quantization)


def _scale_bytes(out: int, inner: int, q: Quantization) -> float:
    if q.block is not None:
        rows, columns = q.block
        return math.ceil(out / rows) * math.ceil(inner / columns) * q.scale_bytes
    if q.group_size is None:
        return out * q.scale_bytes if not q.per_tensor else 2 * 4  # a weight scale and an input scale, float32
    groups = out * math.ceil(inner / q.group_size)
    zero_bits = q.weight_bits if q.zero_points else 0
    return groups * (q.scale_bytes + zero_bits / 8)


def checkpoint_parameters(architecture: Architecture) -> int:
    """Parameters in the checkpoint: tied embeddings once."""
    total = _outer_parameters(architecture)
    for layer, count in architecture.distinct_layers():
        parts = [p for p in (layer.mixer, layer.channel) if p is not None]
        size = sum(v.length for v in layer.vectors)
        size += sum(v.length for p in parts for v in p.vectors) + sum(m.parameters for p in parts for m in p.matrices)
        total += size * count
    return total


def checkpoint_bytes(architecture: Architecture) -> float:
    """Bytes of the checkpoint's tensors, quantized as its config says; all else in the model dtype."""
    dtype_bytes = DTYPE_BYTES[architecture.dtype]
    total = float(_outer_parameters(architecture) * dtype_bytes)
    for index, layer in enumerate(architecture.layers):
        total += sum(v.length for v in layer.vectors) * dtype_bytes
        for part in (layer.mixer, layer.channel):
            if part is not None:
                total += sum(v.length for v in part.vectors) * dtype_bytes
                total += sum(_matrix_bytes(m, index, architecture.quantization, dtype_bytes) for m in part.matrices)
    return total


def _outer_parameters(architecture: Architecture) -> int:
    embedding = architecture.vocab_size * architecture.hidden_size
    total = embedding * (1 if architecture.tied_embeddings else 2)
    total += architecture.vocab_size if architecture.lm_head_bias else 0
    return total + sum(m.parameters for m in architecture.outer) + sum(v.length for v in architecture.vectors)


def quantization_of_matrix(matrix: Matrix, layer: int, quantization: Quantization | None) -> Quantization | None:
    """How a layer's matrix is stored; None: in the model dtype."""
    if quantization is None or not matrix.quantizable:
        return None
    return None if is_ignored(f"model.layers.{layer}.{matrix.name}", quantization.ignored) else quantization


def _matrix_bytes(matrix: Matrix, layer: int, quantization: Quantization | None, dtype_bytes: int) -> float:
    held = quantization_of_matrix(matrix, layer, quantization)
    bias = matrix.out_features * dtype_bytes if matrix.bias else 0
    return stored_bytes(matrix.out_features, matrix.in_features, held, dtype_bytes) + bias
