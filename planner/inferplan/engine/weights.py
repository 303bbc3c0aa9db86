"""Weight bytes on one rank, as vLLM 0.32 constructs the model (checked against its own parameter counts).

Column-parallel matrices divide their outputs by TP, row-parallel ones their inputs (bias kept whole), KV projections
divide by heads and are replicated when there are fewer heads than ranks, the vocabulary is padded to 64 rows and then
divided, norms are replicated, tied embeddings are stored once. Experts: all of them, divided over TP × DP ranks, or
with expert parallelism whole ones, shared out over those ranks. Quantized matrices: bits, plus scales and zero points;
embeddings and LM head keep the model dtype. With PP the heaviest stage is given.
Not counted, as vLLM does not: a bias of the LM head; what a kernel repacks after loading (Marlin: same size); rotary
tables (buffers, below 0.1 %).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from inferplan.engine.config import ExpertKernel
from inferplan.model import (
    DTYPE_BYTES,
    Architecture,
    Attention,
    Channel,
    DenseMLP,
    LatentAttention,
    Layer,
    Matrix,
    Mixer,
    MoE,
    Quantization,
    Recurrent,
    Shard,
    Vector,
    first_alike,
    head_scheme,
    matrices_of,
    quantization_of_matrix,
    stored_bytes,
)

# vLLM refines blocks of scales down to this side, no further.
_LEAST_BLOCK = 32
_VOCAB_PADDING = 64  # vLLM's DEFAULT_VOCAB_PADDING_SIZE


@dataclass(frozen=True, slots=True)
class Ranks:
    """How a model is spread: `expert_parallel` shares out whole experts over TP × DP ranks.

    `expert_kernel`: what computes the experts, which decides how they are padded.
    """

    tp: int
    pp: int = 1
    dp: int = 1
    expert_parallel: bool = False
    expert_kernel: ExpertKernel = ExpertKernel.UNPADDED

    @property
    def expert_ranks(self) -> int:
        return self.tp * self.dp

    def experts_held(self, moe: MoE) -> int:
        """Experts on the rank that has most."""
        return math.ceil(moe.experts / self.expert_ranks) if self.expert_parallel else moe.experts

    @property
    def expert_tp(self) -> int:
        """Ranks that divide one expert."""
        return 1 if self.expert_parallel else self.expert_ranks


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


def rank_length(vector: Vector, tp: int) -> int:
    """Elements of a vector on one of `tp` ranks."""
    if vector.shard is Shard.COLUMN:
        return math.ceil(vector.length / tp)
    if vector.shard is Shard.KV:
        return max(1, vector.length // vector.group // tp) * vector.group
    return vector.length


def rank_matrices(part: Mixer | Channel, ranks: Ranks) -> tuple[tuple[Matrix, tuple[int, int], int], ...]:
    """(matrix, its (out, in) features on one rank, how many of it the rank holds), experts included."""
    own = tuple((matrix, rank_shape(matrix, ranks.tp), 1) for matrix in part.matrices)
    if not isinstance(part, MoE):
        return own
    held = ranks.experts_held(part)
    return (*own, *((m, _expert_shape(m, part, ranks), held) for m in part.expert_matrices))


def _expert_shape(matrix: Matrix, moe: MoE, ranks: Ranks) -> tuple[int, int]:
    """(out, in) features of an expert's matrix as allocated."""
    out, inner = rank_shape(matrix, ranks.expert_tp)
    least = moe.least_rank_width if ranks.expert_tp > 1 else 1
    wide, hidden = _multiples(moe, ranks.expert_kernel)
    if matrix.shard is Shard.ROW:
        return _padded(out, hidden), _padded(max(inner, least), wide)
    return _padded(max(out, least), wide), _padded(inner, hidden)


def _multiples(moe: MoE, kernel: ExpertKernel) -> tuple[int, int]:
    """What the width and the hidden size of experts are padded to multiples of."""
    if kernel is ExpertKernel.TENSORRT and not any(v.name == "e_score_correction_bias" for v in moe.vectors):
        return 1, 1
    return kernel.value


def _padded(size: int, multiple: int) -> int:
    return math.ceil(size / multiple) * multiple


def matrix_bytes(matrix: Matrix, shape: tuple[int, int], quantization: Quantization | None, dtype_bytes: int) -> float:
    """Bytes of a matrix of this shape on one rank, with its bias and scales."""
    element = DTYPE_BYTES.get(matrix.dtype or "", dtype_bytes)
    bias = shape[0] * element if matrix.bias else 0
    return stored_bytes(*shape, quantization, element) + bias


def weights_bytes_per_rank(
    architecture: Architecture, ranks: Ranks, quantization: Quantization | None, dtype: str
) -> int:
    """Weight bytes on the heaviest rank; what isn't quantized is kept in `dtype`."""
    return sum(size for _, size in weights_by_kind(architecture, ranks, quantization, dtype))


@lru_cache(maxsize=4096)
def weights_by_kind(
    architecture: Architecture, ranks: Ranks, quantization: Quantization | None, dtype: str
) -> tuple[tuple[str, int], ...]:
    """(kind of weights, bytes) on the heaviest rank, in the order of the model's parts."""
    tp, pp = ranks.tp, ranks.pp
    dtype_bytes = DTYPE_BYTES[dtype]
    per_layer = _layer_bytes(architecture, ranks, quantization, dtype_bytes)
    embedding = padded_vocab(architecture.vocab_size) / tp * architecture.hidden_size * dtype_bytes
    # A tied LM head is the embedding itself; on its own pipeline stage it is a copy.
    head = 0.0 if architecture.tied_embeddings and pp == 1 else _head_bytes(architecture, tp, quantization, dtype_bytes)
    if architecture.embeds_everywhere and pp > 1 and not architecture.tied_embeddings:
        head += embedding
    stages: list[dict[str, float]] = []
    for index, (begin, count) in enumerate(pipeline_stages(len(architecture.layers), pp)):
        stage: dict[str, float] = {}
        if index == 0:
            _add(stage, "embedding and LM head", embedding)
        for layer in per_layer[begin : begin + count]:
            for kind, size in layer.items():
                _add(stage, kind, size)
        if index == 0:
            outer = sum(matrix_bytes(m, rank_shape(m, tp), None, dtype_bytes) for m in architecture.outer)
            _add(stage, "beside the layers", outer)
        if index == pp - 1:
            _add(stage, "embedding and LM head", head)
            _add(stage, "beside the layers", _vector_bytes(architecture.vectors, tp, dtype_bytes))
        stages.append(stage)
    heaviest = max(stages, key=lambda stage: sum(stage.values()))
    return tuple((kind, round(size)) for kind, size in heaviest.items() if size)


def _add(sizes: dict[str, float], kind: str, size: float) -> None:
    sizes[kind] = sizes.get(kind, 0.0) + size


@lru_cache(maxsize=1024)
def draft_bytes_per_rank(
    architecture: Architecture, ranks: Ranks, quantization: Quantization | None, dtype: str
) -> int:
    """The layer that drafts tokens: itself, a projection of two states, three norms, an embedding and an LM head."""
    if architecture.draft is None:
        return 0
    dtype_bytes, hidden = DTYPE_BYTES[dtype], architecture.hidden_size
    layer = sum(
        _one_layer(architecture.draft.layer, len(architecture.layers), ranks, quantization, dtype_bytes).values()
    )
    embedding = padded_vocab(architecture.vocab_size) / ranks.tp * hidden * dtype_bytes
    joint = (2 * hidden * hidden + 3 * hidden) * dtype_bytes
    return round(layer + joint + 2 * embedding)


def _head_bytes(architecture: Architecture, tp: int, quantization: Quantization | None, dtype_bytes: int) -> float:
    """The LM head is quantized only where the checkpoint lists it by name."""
    head = Matrix("lm_head", architecture.vocab_size, architecture.hidden_size, Shard.VOCAB)
    return matrix_bytes(head, rank_shape(head, tp), head_scheme(quantization), dtype_bytes)


def pipeline_stages(layers: int, pp: int) -> tuple[tuple[int, int], ...]:
    """(first layer, layers) of each stage: even, the remainder to the stages before the last, from the back.

    vLLM's default.
    """
    partition = [layers // pp] * pp
    for i in range(2, layers % pp + 2):
        partition[-i] += 1
    return tuple((sum(partition[:stage]), count) for stage, count in enumerate(partition))


def _layer_bytes(
    architecture: Architecture, ranks: Ranks, quantization: Quantization | None, dtype_bytes: int
) -> list[dict[str, float]]:
    variants = layer_variants(architecture, quantization)
    known = {
        first: _one_layer(architecture.layers[first], first, ranks, quantization, dtype_bytes)
        for first in set(variants)
    }
    return [known[first] for first in variants]


@lru_cache(maxsize=1024)
def layer_variants(architecture: Architecture, quantization: Quantization | None) -> tuple[int, ...]:
    """For each layer the first one that is equal to it and quantized alike, matrix by matrix."""
    by_name = quantization is not None and bool(quantization.ignored or quantization.only or quantization.others)
    alike = first_alike(architecture)
    if not by_name:
        return alike
    first: dict[tuple[int, tuple[int, ...]], int] = {}
    found = []
    for index, layer in enumerate(architecture.layers):
        matrices = (m for part in layer.parts for m, _ in matrices_of(part))
        schemes = tuple(id(quantization_of_matrix(m, index, quantization)) for m in matrices)
        found.append(first.setdefault((alike[index], schemes), index))
    return tuple(found)


def _one_layer(
    layer: Layer, index: int, ranks: Ranks, quantization: Quantization | None, dtype_bytes: int
) -> dict[str, float]:
    """Bytes by kind; a layer's own norms count with what comes first in it."""
    sizes: dict[str, float] = {}
    for part in layer.parts:
        kind = _kind_of(part)
        _add(sizes, kind, _vector_bytes(part.vectors, ranks.tp, dtype_bytes))
        for position, (matrix, shape, copies) in enumerate(rank_matrices(part, ranks)):
            if matrix.shared:
                continue
            held = quantization_of_matrix(matrix, index, quantization)
            routed = isinstance(part, MoE) and position >= len(part.matrices)
            if isinstance(part, MoE) and held is not None and held.block is not None:
                held = _refined(held, part, shape, ranks)
            name = "routed experts" if routed else kind
            _add(sizes, name, copies * matrix_bytes(matrix, shape, held, dtype_bytes))
    if quantization is not None and quantization.cache_scales:
        # A scale for K and one for V, float32; the fp8 method leaves latent attention out.
        scaled = (Attention,) if quantization.method == "fp8" else (Attention, LatentAttention)
        _add(sizes, "attention", sum(2 * 4 for mixer in layer.mixers if isinstance(mixer, scaled)))
    first = _kind_of(layer.parts[0]) if layer.parts else "beside the layers"
    _add(sizes, first, _vector_bytes(layer.vectors, ranks.tp, dtype_bytes))
    return sizes


def _kind_of(part: Mixer | Channel) -> str:
    if isinstance(part, Recurrent):
        return "state mixers"
    return "feed-forward" if isinstance(part, DenseMLP | MoE) else "attention"


def _refined(held: Quantization, moe: MoE, shape: tuple[int, int], ranks: Ranks) -> Quantization:
    """Blocks of scales that an expert's part on a rank doesn't fill are cut into smaller ones that it does."""
    width = moe.intermediate_size // ranks.expert_tp
    if held.block is None or width % held.block[0] == 0:
        return held
    side = math.gcd(*held.block, *shape)
    return replace(held, block=(side, side)) if side >= _LEAST_BLOCK else held


def _vector_bytes(vectors: tuple[Vector, ...], tp: int, dtype_bytes: int) -> float:
    return sum(rank_length(v, tp) * DTYPE_BYTES.get(v.dtype or "", dtype_bytes) for v in vectors if not v.shared)
