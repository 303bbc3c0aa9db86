"""How large a checkpoint is as it is stored: parameters and bytes, no padding, no replication. A drafting layer counts.

A quantized weight of `b` bits costs b/8 bytes plus its share of a scale (and zero point): per group of inputs, per
block, per output channel or per tensor. Not counted: GPTQ's g_idx (32/b ÷ outputs: below 0.3 %).
"""

from __future__ import annotations

import math

from inferplan.model.architecture import Architecture, Channel, Layer, Matrix, Mixer, MoE, Quantization, Vector
from inferplan.model.quantization import scheme_of

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
    of_tensor = 2 * 4 if q.per_tensor else 0  # a weight scale and an input scale, float32
    if q.group_size is None:
        return of_tensor or out * q.scale_bytes
    zero_bits = q.weight_bits if q.zero_points else 0
    return of_tensor + out * max(1, inner // q.group_size) * (q.scale_bytes + zero_bits / 8)


def checkpoint_parameters(architecture: Architecture) -> int:
    """Parameters in the checkpoint: tied embeddings and shared layers once."""
    total = _outer_parameters(architecture)
    drafts = ((architecture.draft.layer, 1),) if architecture.draft is not None else ()
    for layer, count in (*architecture.distinct_layers(), *drafts):
        size = sum(v.length for v in layer.vectors)
        for part in layer.parts:
            size += sum(v.length for v in part.vectors if not v.shared)
            size += sum(copies * m.parameters for m, copies in matrices_of(part) if not m.shared)
        total += size * count
    return total + _joint_parameters(architecture)


def _joint_parameters(architecture: Architecture) -> int:
    """What joins a hidden state and the next token's embedding for a drafting layer: a projection and three norms."""
    if architecture.draft is None:
        return 0
    hidden = architecture.hidden_size
    again = 2 * architecture.vocab_size * hidden if architecture.draft.own_embeddings else 0
    return 2 * hidden * hidden + 3 * hidden + again


def checkpoint_bytes(architecture: Architecture) -> float:
    """Bytes of the checkpoint's tensors, quantized as its config says; all else in the model dtype."""
    dtype_bytes = DTYPE_BYTES[architecture.dtype]
    total = float(_outer_parameters(architecture) * dtype_bytes)
    drafts = (architecture.draft.layer,) if architecture.draft is not None else ()
    for index, layer in enumerate((*architecture.layers, *drafts)):
        total += _layer_bytes(layer, index, architecture.quantization, dtype_bytes)
    return total + _joint_parameters(architecture) * dtype_bytes


def _layer_bytes(layer: Layer, index: int, quantization: Quantization | None, dtype_bytes: int) -> float:
    total = sum(vector_bytes(v, dtype_bytes) for v in layer.vectors)
    for part in layer.parts:
        total += sum(vector_bytes(v, dtype_bytes) for v in part.vectors)
        for matrix, copies in matrices_of(part):
            if not matrix.shared:
                total += copies * _matrix_bytes(matrix, index, quantization, dtype_bytes)
    return total


def matrices_of(part: Mixer | Channel) -> tuple[tuple[Matrix, int], ...]:
    """Every matrix of a mixer or channel with how many of it there are (experts)."""
    own = tuple((matrix, 1) for matrix in part.matrices)
    if not isinstance(part, MoE):
        return own
    return (*own, *((matrix, part.experts) for matrix in part.expert_matrices))


def vector_bytes(vector: Vector, dtype_bytes: int) -> float:
    return 0 if vector.shared else vector.length * DTYPE_BYTES.get(vector.dtype or "", dtype_bytes)


def _outer_parameters(architecture: Architecture) -> int:
    embedding = architecture.vocab_size * architecture.hidden_size
    total = embedding * (1 if architecture.tied_embeddings else 2)
    total += architecture.vocab_size if architecture.lm_head_bias else 0
    return total + sum(m.parameters for m in architecture.outer) + sum(v.length for v in architecture.vectors)


def quantization_of_matrix(matrix: Matrix, layer: int, quantization: Quantization | None) -> Quantization | None:
    """How a layer's matrix is stored; None: in the model dtype (or one of its own)."""
    if quantization is None or not matrix.quantizable:
        return None
    return scheme_of(f"model.layers.{layer}.{matrix.name}", quantization)


def _matrix_bytes(matrix: Matrix, layer: int, quantization: Quantization | None, dtype_bytes: int) -> float:
    held = quantization_of_matrix(matrix, layer, quantization)
    own_bytes = DTYPE_BYTES.get(matrix.dtype or "", dtype_bytes)
    bias = matrix.out_features * own_bytes if matrix.bias else 0
    return stored_bytes(matrix.out_features, matrix.in_features, held, own_bytes) + bias
