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
    """How tensor parallelism divides a weight."""

    REPLICATED = "replicated"
    COLUMN = "column"  # output features divided
    ROW = "row"  # input features divided; an all-reduce follows
    KV = "kv"  # output features are KV heads: divided, or replicated when there are fewer heads than ranks
    VOCAB = "vocab"  # vocabulary rows divided, padded to a multiple first


@dataclass(frozen=True, slots=True)
class Matrix:
    """A weight matrix `out_features x in_features` (with an optional bias of `out_features`).

    `group` for Shard.KV: features per KV head. `name` is the module name inside the layer as checkpoints
    spell it (`self_attn.q_proj`), so that `modules_to_not_convert` lists can be matched. `dtype`: where the model keeps
    it in a type of its own. `shared`: the weights of another layer, used again.
    """

    name: str
    out_features: int
    in_features: int
    shard: Shard
    bias: bool = False
    quantizable: bool = True
    group: int = 1
    dtype: str | None = None
    shared: bool = False

    def __hash__(self) -> int:
        """Of what tells most matrices apart: layers are compared often."""
        return hash((self.name, self.out_features, self.in_features))

    @property
    def parameters(self) -> int:
        return self.out_features * self.in_features + (self.out_features if self.bias else 0)


@dataclass(frozen=True, slots=True)
class Vector:
    """A small parameter (norm weights, decay rates, …): `length` elements; `dtype` and `shared` as in Matrix.

    `group` for Shard.KV: elements per KV head.
    """

    name: str
    length: int
    shard: Shard = Shard.REPLICATED
    dtype: str | None = None
    group: int = 1
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention with its own KV cache (MHA, GQA, MQA).

    `window_tokens`: sliding window; `chunk_tokens`: chunked local attention; both None: full attention.
    `reads_other_cache`: attends to the cache of an earlier layer and keeps none (cross-layer KV sharing).
    `block_tokens`: sparse attention over blocks of that many tokens, found by `indexer`.
    """

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    matrices: tuple[Matrix, ...]
    vectors: tuple[Vector, ...] = ()
    window_tokens: int | None = None
    chunk_tokens: int | None = None
    reads_other_cache: bool = False
    block_tokens: int | None = None
    indexer: Indexer | None = None

    @property
    def has_sinks(self) -> bool:
        """Whether a learned logit takes part in the softmax of each head."""
        return any(vector.name == "sinks" for vector in self.vectors)


@dataclass(frozen=True, slots=True)
class Indexer:
    """What a sparse attention layer scores tokens or blocks with; it keeps keys of its own, `head_dim` a token."""

    heads: int
    head_dim: int
    top_tokens: int


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention: one latent (and one rotary key) a token for all heads, kept on every rank.

    `latent_dim`: elements cached per token besides `rope_dim`. `sparse`: attends to the tokens an indexer picked, its
    own (`indexer`) or that of an earlier layer.
    """

    heads: int
    latent_dim: int
    rope_dim: int
    nope_dim: int
    v_head_dim: int
    matrices: tuple[Matrix, ...]
    vectors: tuple[Vector, ...] = ()
    sparse: bool = False
    indexer: Indexer | None = None


@dataclass(frozen=True, slots=True)
class CompressedAttention:
    """Latent attention over a sliding window and, besides, over groups of `ratio` tokens squeezed into one (0: none).

    `overlapping`: neighbouring groups share tokens, and an indexer picks among them.
    """

    heads: int
    head_dim: int
    rope_dim: int
    window_tokens: int
    ratio: int
    matrices: tuple[Matrix, ...]
    vectors: tuple[Vector, ...] = ()
    overlapping: bool = False
    indexer: Indexer | None = None


class RecurrentKind(Enum):
    """Token mixers with a state of fixed size per sequence."""

    MAMBA1 = "mamba1"
    MAMBA2 = "mamba2"
    GATED_DELTA = "gated_delta"
    KIMI_DELTA = "kimi_delta"
    BOUNDED_KIMI_DELTA = "bounded_kimi_delta"  # with a lower bound of the gate: other kernels
    LINEAR = "linear"
    CONVOLUTION = "convolution"


@dataclass(frozen=True, slots=True)
class Recurrent:
    """State-space, linear attention or short convolution: a state of fixed size per sequence instead of a cache.

    The state: the last `conv_kernel - 1` inputs of the convolution over `conv_channels` (plus `groups` times
    `group_channels`), and `heads` times `state_per_head` elements, `state_dtype` where the model fixes it.
    """

    kind: RecurrentKind
    heads: int
    state_per_head: int
    conv_kernel: int
    conv_channels: int
    matrices: tuple[Matrix, ...]
    vectors: tuple[Vector, ...] = ()
    groups: int = 1
    group_channels: int = 0
    state_dtype: str | None = None


Mixer = Attention | LatentAttention | CompressedAttention | Recurrent


@dataclass(frozen=True, slots=True)
class DenseMLP:
    """A feed-forward block: up (and gate) then down."""

    intermediate_size: int
    gated: bool
    matrices: tuple[Matrix, ...]
    vectors: tuple[Vector, ...] = ()


@dataclass(frozen=True, slots=True)
class MoE:
    """Mixture of experts: a token goes through `experts_per_token` of `experts`, and through what `matrices` holds
    (router, shared experts). `expert_matrices`: those of one expert, whose width is `intermediate_size`, and on a rank
    that holds a part of it at least `least_rank_width`.
    """

    experts: int
    experts_per_token: int
    intermediate_size: int
    expert_matrices: tuple[Matrix, ...]
    matrices: tuple[Matrix, ...]
    vectors: tuple[Vector, ...] = ()
    least_rank_width: int = 1


Channel = DenseMLP | MoE


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer: its token mixers and channel mixers (usually one of each), and its own norms."""

    mixers: tuple[Mixer, ...]
    channels: tuple[Channel, ...]
    vectors: tuple[Vector, ...] = ()

    @property
    def parts(self) -> tuple[Mixer | Channel, ...]:
        return (*self.mixers, *self.channels)


@dataclass(frozen=True, slots=True)
class Encoder:
    """What start-up encodes to find the activation peak of images or video.

    `item_tokens`: those that the language model sees of the largest item (0: no more than a batch has);
    `whole_elements`, `divided_elements`: live at the encoder's peak, whole on each rank or divided by TP (0: not known,
    taken to be below the language model's).
    """

    item_tokens: int = 0
    whole_elements: int = 0
    divided_elements: int = 0


@dataclass(frozen=True, slots=True)
class Draft:
    """The layer that predicts further tokens (MTP). `own_embeddings`: the checkpoint holds embedding and head again."""

    layer: Layer
    own_embeddings: bool = False


@dataclass(frozen=True, slots=True)
class Quantization:
    """What `quantization_config` says of the checkpoint, normalised.

    `method`: `fp8`, `awq`, `gptq`, `w8a8`, `w4a16`, `mxfp4`, `nvfp4`, …; `activation_bits` 16: weight only.
    `group_size`: weights sharing a scale along the input (None: per channel); `block`: rows and columns sharing one.
    `ignored`: module names kept in the model dtype; `only`: where not empty, the only ones that are quantized;
    `others`: (module names, their scheme) where a checkpoint mixes schemes. `kv_cache_dtype`: declared KV scheme;
    `cache_scales`: whether attention layers hold scales of K and V.
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
    only: tuple[str, ...] = ()
    others: tuple[tuple[tuple[str, ...], Quantization], ...] = ()
    kv_cache_dtype: str | None = None
    cache_scales: bool = False


# eq=False: compared and hashed by identity, so that what is computed per model can be cached cheaply.
@dataclass(frozen=True, slots=True, eq=False)
class Architecture:
    """A model as the planner sees it. Lengths in tokens, sizes in elements.

    `name`: the class in config.json `architectures`. `dtype`: `bfloat16`, `float16` or `float32`.
    `original_position_embeddings`: the context a LongRoPE model was trained with before it was stretched, else None.
    `limits_context`: False where the config states no length: `max_position_embeddings` is then only what vLLM serves
    unless told otherwise.
    `outer`: matrices outside the layers except the token embedding and LM head (position tables, a vision tower, …).
    `embeds_everywhere`: each pipeline stage holds the token embedding. `pipelined`: False where there can be one only.
    `bidirectional_prefix`: the tokens of an image attend to each other.
    `largest_graph`: the largest batch that CUDA graphs are captured for, where the family has one of its own.
    `fp8_cache_capabilities`: major compute capabilities where the cache is fp8 unless another type is asked for.
    `residual_streams`: copies of the hidden state that run side by side.
    `unstable_in_float16`: vLLM refuses float16; a GPU without bfloat16 computes in float32.
    `encoder`: of images or video, where there is one.
    `draft`: where the checkpoint has one; used only for speculation.
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
    embeds_everywhere: bool = False
    pipelined: bool = True
    limits_context: bool = True
    outer: tuple[Matrix, ...] = ()
    vectors: tuple[Vector, ...] = ()
    original_position_embeddings: int | None = None
    bidirectional_prefix: bool = False
    largest_graph: int | None = None
    fp8_cache_capabilities: tuple[int, ...] = ()
    residual_streams: int = 1
    unstable_in_float16: bool = False
    encoder: Encoder | None = None
    draft: Draft | None = None

    def __hash__(self) -> int:
        """Of a few fields: it is the key of many caches, and all of its layers are many."""
        method = self.quantization.method if self.quantization else ""
        return hash((self.name, self.hidden_size, self.vocab_size, len(self.layers), method))

    def distinct_layers(self) -> tuple[tuple[Layer, int], ...]:
        """Each distinct layer with how often it occurs, in order of first appearance."""
        return _distinct(self)


@lru_cache(maxsize=1024)
def first_alike(architecture: Architecture) -> tuple[int, ...]:
    """For each layer the index of the first that equals it. Layers are compared here and nowhere else: it is slow."""
    first: dict[Layer, int] = {}
    return tuple(first.setdefault(layer, index) for index, layer in enumerate(architecture.layers))


@lru_cache(maxsize=1024)
def _distinct(architecture: Architecture) -> tuple[tuple[Layer, int], ...]:
    return tuple((architecture.layers[first], count) for first, count in Counter(first_alike(architecture)).items())
