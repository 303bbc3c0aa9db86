"""What a model is: a list of typed layers, each a token mixer and a channel mixer, made of named matrices.

The parser of a family yields these; nothing after the parser knows family names. Matrices carry what
every later room needs: shape (for FLOPs and bytes), how tensor parallelism shards them, and whether a
quantization method may touch them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache


class Shard(Enum):
    """How tensor parallelism divides a weight matrix."""

    REPLICATED = "replicated"
    COLUMN = "column"  # output features divided
    ROW = "row"  # input features divided; an all-reduce follows
    KV = "kv"  # output features are KV heads: divided, or replicated when there are fewer heads than ranks
    VOCAB = "vocab"  # vocabulary rows divided, padded to a multiple first


@dataclass(frozen=True, slots=True)
class Matrix:
    """A weight matrix `out_features x in_features` (with an optional bias of `out_features`).

    `group` for Shard.KV: features per KV head. `name` is the module name inside the layer as checkpoints
    spell it (`self_attn.q_proj`), so that `modules_to_not_convert` lists can be matched.
    """

    name: str
    out_features: int
    in_features: int
    shard: Shard
    bias: bool = False
    quantizable: bool = True
    group: int = 1

    @property
    def parameters(self) -> int:
        return self.out_features * self.in_features + (self.out_features if self.bias else 0)


@dataclass(frozen=True, slots=True)
class Vector:
    """A small one-dimensional parameter (norm weights, …): `length` elements."""

    name: str
    length: int
    shard: Shard = Shard.REPLICATED


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention with its own KV cache (MHA, GQA, MQA).

    `window_tokens`: sliding window; `chunk_tokens`: chunked local attention; both None: full attention.
    """

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    matrices: tuple[Matrix, ...]
    vectors: tuple[Vector, ...] = ()
    window_tokens: int | None = None
    chunk_tokens: int | None = None


# Later families add their mixers here: latent attention (MLA), state-space, linear attention, convolution.
Mixer = Attention


@dataclass(frozen=True, slots=True)
class DenseMLP:
    """A feed-forward block: up (and gate) then down."""

    intermediate_size: int
    gated: bool
    matrices: tuple[Matrix, ...]
    vectors: tuple[Vector, ...] = ()


# Later families add mixture of experts here.
Channel = DenseMLP


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer. `vectors`: its own norms."""

    mixer: Mixer | None
    channel: Channel | None
    vectors: tuple[Vector, ...] = ()


@dataclass(frozen=True, slots=True)
class Quantization:
    """What `quantization_config` says of the checkpoint, normalised.

    `method`: `fp8`, `awq`, `gptq`, `w8a8`, `w4a16`, `mxfp4`, `nvfp4`, …; `activation_bits` 16: weight only.
    `group_size`: weights sharing a scale along the input (None: per channel); `block`: rows and columns sharing one.
    `ignored`: module names kept in the model dtype; `kv_cache_dtype`: declared KV scheme, if any.
    """

    method: str
    weight_bits: int
    activation_bits: int
    group_size: int | None = None
    block: tuple[int, int] | None = None
    scale_bytes: int = 2
    per_tensor: bool = False
    zero_points: bool = False
    ignored: tuple[str, ...] = ()
    kv_cache_dtype: str | None = None


# eq=False: compared and hashed by identity, so that what is computed per model can be cached cheaply.
@dataclass(frozen=True, slots=True, eq=False)
class Architecture:
    """A model as the planner sees it. Lengths in tokens, sizes in elements.

    `name`: the class in config.json `architectures`. `dtype`: `bfloat16`, `float16` or `float32`.
    `original_position_embeddings`: the context a LongRoPE model was trained with before it was stretched, else None.
    `outer`: matrices outside the layers except the token embedding and LM head (position tables, …).
    """

    name: str
    hidden_size: int
    vocab_size: int
    layers: tuple[Layer, ...]
    tied_embeddings: bool
    max_position_embeddings: int
    dtype: str
    quantization: Quantization | None = None
    lm_head_bias: bool = False
    outer: tuple[Matrix, ...] = ()
    vectors: tuple[Vector, ...] = ()
    original_position_embeddings: int | None = None

    def distinct_layers(self) -> tuple[tuple[Layer, int], ...]:
        """Each distinct layer with how often it occurs, in order of first appearance."""
        return _distinct(self)


@lru_cache(maxsize=1024)
def _distinct(architecture: Architecture) -> tuple[tuple[Layer, int], ...]:
    return tuple(Counter(architecture.layers).items())
