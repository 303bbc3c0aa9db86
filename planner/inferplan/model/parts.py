"""What the parsers of decoder families build with: heads, projections, feed-forwards, norms.

Shapes follow how vLLM builds the model (so that weights per rank come out to the byte): fused projections are listed
as their parts, norms as vectors (weight and bias of a LayerNorm as one of twice the length), biases with their matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

from inferplan.errors import InvalidModelConfig
from inferplan.model.architecture import Attention, DenseMLP, Layer, Matrix, Shard, Vector
from inferplan.model.fields import Fields

_MAX_LAYERS = 2048


@dataclass(frozen=True, slots=True)
class Outline:
    """What a family's parser yields; the rest of an Architecture is read the same way for all.

    `context_by_default`: tokens, for families whose configs need not state a length.
    """

    hidden_size: int
    layers: tuple[Layer, ...]
    outer: tuple[Matrix, ...] = ()
    vectors: tuple[Vector, ...] = ()
    tied_by_default: bool = False
    lm_head_bias: bool = False
    context_by_default: int | None = None


@dataclass(frozen=True, slots=True)
class Heads:
    """Attention geometry as decoder configs spell it."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int


def heads_of(fields: Fields, *, kv_heads: int | None = None) -> Heads:
    """`kv_heads`: where a family doesn't state them as `num_key_value_heads`."""
    hidden = fields.size("hidden_size", "n_embd", "n_embed")
    heads = fields.size("num_attention_heads", "n_head")
    kv_heads = kv_heads or fields.size("num_key_value_heads", default=heads)
    if heads % kv_heads:
        raise InvalidModelConfig(f"config.json: num_attention_heads={heads} is no multiple of {kv_heads} KV heads")
    if fields.values.get("head_dim") is None and hidden % heads:
        raise InvalidModelConfig(f"config.json: hidden_size={hidden} is no multiple of num_attention_heads={heads}")
    return Heads(hidden, heads, kv_heads, fields.size("head_dim", default=hidden // heads))


def layer_count(fields: Fields) -> int:
    count = fields.size("num_hidden_layers", "n_layer")
    if count > _MAX_LAYERS:
        raise InvalidModelConfig(f"config.json: num_hidden_layers={count} is more than {_MAX_LAYERS}")
    return count


@dataclass(frozen=True, slots=True)
class Biases:
    """Which projections carry a bias."""

    qkv: bool = False
    output: bool = False
    mlp: bool = False


def attention(h: Heads, biases: Biases, *, window: int | None = None, vectors: tuple[Vector, ...] = ()) -> Attention:
    q, kv = h.heads * h.head_dim, h.kv_heads * h.head_dim
    return Attention(
        heads=h.heads,
        kv_heads=h.kv_heads,
        head_dim=h.head_dim,
        v_head_dim=h.head_dim,
        matrices=(
            Matrix("self_attn.q_proj", q, h.hidden, Shard.COLUMN, bias=biases.qkv),
            Matrix("self_attn.k_proj", kv, h.hidden, Shard.KV, bias=biases.qkv, group=h.head_dim),
            Matrix("self_attn.v_proj", kv, h.hidden, Shard.KV, bias=biases.qkv, group=h.head_dim),
            Matrix("self_attn.o_proj", h.hidden, q, Shard.ROW, bias=biases.output),
        ),
        vectors=vectors,
        window_tokens=window,
    )


def gated_mlp(hidden: int, intermediate: int, biases: Biases) -> DenseMLP:
    return DenseMLP(
        intermediate,
        gated=True,
        matrices=(
            Matrix("mlp.gate_proj", intermediate, hidden, Shard.COLUMN, bias=biases.mlp),
            Matrix("mlp.up_proj", intermediate, hidden, Shard.COLUMN, bias=biases.mlp),
            Matrix("mlp.down_proj", hidden, intermediate, Shard.ROW, bias=biases.mlp),
        ),
    )


def plain_mlp(hidden: int, intermediate: int, biases: Biases) -> DenseMLP:
    return DenseMLP(
        intermediate,
        gated=False,
        matrices=(
            Matrix("mlp.fc1", intermediate, hidden, Shard.COLUMN, bias=biases.mlp),
            Matrix("mlp.fc2", hidden, intermediate, Shard.ROW, bias=biases.mlp),
        ),
    )


def norms(*lengths: int) -> tuple[Vector, ...]:
    return tuple(Vector("norm", length) for length in lengths)
