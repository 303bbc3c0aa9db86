"""Weight bytes on one rank, as vLLM 0.32 constructs the model (checked against its own parameter counts).

Column-parallel matrices divide their outputs by TP, row-parallel ones their inputs (bias kept whole), KV projections
divide by heads and are replicated when there are fewer heads than ranks, the vocabulary is padded to 64 rows and then
divided, norms are replicated, tied embeddings are stored once. Quantized matrices: bits, plus scales and zero points;
embeddings and LM head keep the model dtype. With PP the heaviest stage is given.
Not counted, as vLLM does not: a bias of the LM head; what a kernel repacks after loading (Marlin: same size); rotary
tables (buffers, below 0.1 %).
"""

from __future__ import annotations

import math
from functools import lru_cache

from inferplan.model import (
    DTYPE_BYTES,
    Architecture,
    Layer,
    Matrix,
    Quantization,
    Shard,
    Vector,
    quantization_of_matrix,
    stored_bytes,
)

_VOCAB_PADDING = 64  # vLLM's DEFAULT_VOCAB_PADDING_SIZE


def padded_vocab(vocab_size: int) -> int:
    """Vocabulary rows as allocated."""
    return math.ceil(vocab_size / _VOCAB_PADDING) * _VOCAB_PADDING


def rank_shape(matrix: Matrix, tp: int) -> tuple[int, int]:
    """(out, in) features of a matrix on one of `tp` ranks."""
    if matrix.shard is Shard.COLUMN:
        return math.ceil(matrix.out_features / tp), matrix.in_features
    if matrix.shard is Shard.ROW:
        return matrix.out_features, math.ceil(matrix.in_features / tp)
    if matrix.shard is Shard.KV:
        heads = matrix.out_features // matrix.group
        return max(1, heads // tp) * matrix.group, matrix.in_features
    if matrix.shard is Shard.VOCAB:
        return math.ceil(padded_vocab(matrix.out_features) / tp), matrix.in_features
    return matrix.out_features, matrix.in_features


def matrix_bytes(matrix: Matrix, tp: int, quantization: Quantization | None, dtype_bytes: int) -> float:
    """Bytes of a matrix with its bias and scales on one rank."""
    out, inner = rank_shape(matrix, tp)
    bias = (matrix.out_features if matrix.shard is Shard.ROW else out) * dtype_bytes if matrix.bias else 0
    return stored_bytes(out, inner, quantization, dtype_bytes) + bias


@lru_cache(maxsize=4096)
def weights_bytes_per_rank(
    architecture: Architecture, tp: int, pp: int, quantization: Quantization | None, dtype: str
) -> int:
    """Weight bytes on the heaviest rank of `tp` × `pp`; what isn't quantized is kept in `dtype`."""
    dtype_bytes = DTYPE_BYTES[dtype]
    per_layer = _layer_bytes(architecture, tp, quantization, dtype_bytes)
    if quantization is not None and quantization.method == "fp8":
        # The fp8 methods give every attention layer a scale for K and one for V, float32.
        per_layer = [size + 2 * 4 for size in per_layer]
    embedding = padded_vocab(architecture.vocab_size) / tp * architecture.hidden_size * dtype_bytes
    outer = sum(matrix_bytes(m, tp, None, dtype_bytes) for m in architecture.outer)
    first = embedding + outer
    # A tied LM head is the embedding itself; on its own pipeline stage it is a copy.
    head = 0.0 if architecture.tied_embeddings and pp == 1 else embedding
    last = head + _vector_bytes(architecture.vectors, dtype_bytes)
    stages = []
    for index, (begin, count) in enumerate(pipeline_stages(len(architecture.layers), pp)):
        total = sum(per_layer[begin : begin + count])
        total += first if index == 0 else 0
        total += last if index == pp - 1 else 0
        stages.append(total)
    return round(max(stages))


def pipeline_stages(layers: int, pp: int) -> tuple[tuple[int, int], ...]:
    """(first layer, layers) of each stage: even, the remainder to the stages before the last, from the back.

    vLLM's default.
    """
    partition = [layers // pp] * pp
    for i in range(2, layers % pp + 2):
        partition[-i] += 1
    return tuple((sum(partition[:stage]), count) for stage, count in enumerate(partition))


def _layer_bytes(
    architecture: Architecture, tp: int, quantization: Quantization | None, dtype_bytes: int
) -> list[float]:
    ignored = quantization.ignored if quantization else ()
    by_layer = [p for p in ignored if p not in ("lm_head", "model.embed_tokens", "embed_tokens")]
    known: dict[Layer, float] = {}
    sizes = []
    for index, layer in enumerate(architecture.layers):
        if by_layer:
            sizes.append(_one_layer(layer, index, tp, quantization, dtype_bytes))
            continue
        if layer not in known:
            known[layer] = _one_layer(layer, index, tp, quantization, dtype_bytes)
        sizes.append(known[layer])
    return sizes


def _one_layer(layer: Layer, index: int, tp: int, quantization: Quantization | None, dtype_bytes: int) -> float:
    total = _vector_bytes(layer.vectors, dtype_bytes)
    for part in (layer.mixer, layer.channel):
        if part is None:
            continue
        total += _vector_bytes(part.vectors, dtype_bytes)
        for matrix in part.matrices:
            held = quantization_of_matrix(matrix, index, quantization)
            total += matrix_bytes(matrix, tp, held, dtype_bytes)
    return total


def _vector_bytes(vectors: tuple[Vector, ...], dtype_bytes: int) -> float:
    return sum(v.length for v in vectors) * dtype_bytes
