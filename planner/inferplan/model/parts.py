"""What the parsers of decoder families build with: heads, projections, feed-forwards, norms.

Shapes follow how vLLM builds the model (so that weights per rank come out to the byte): fused projections are listed
as their parts, norms as vectors (weight and bias of a LayerNorm as one of twice the length), biases with their matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

from inferplan.errors import InvalidModelConfig
from inferplan.model.architecture import (
    Attention,
    Channel,
    DenseMLP,
    Draft,
    Encoder,
    Layer,
    Matrix,
    Mixer,
    MoE,
    Shard,
    Vector,
)
from inferplan.model.fields import Fields

_MAX_LAYERS = 2048


@dataclass(frozen=True, slots=True)
class Outline:
    """What a family's parser yields; the rest of an Architecture is read the same way for all.

    `context_by_default`: tokens, for families whose configs need not state a length. The rest is explained in
    Architecture.
    """

    hidden_size: int
    layers: tuple[Layer, ...]
    outer: tuple[Matrix, ...] = ()
    vectors: tuple[Vector, ...] = ()
    tied_by_default: bool = False
    lm_head_bias: bool = False
    embeds_everywhere: bool = False
    pipelined: bool = True
    context_by_default: int | None = None
    bidirectional_prefix: bool = False
    largest_graph: int | None = None
    fp8_cache_capabilities: tuple[int, ...] = ()
    residual_streams: int = 1
    unstable_in_float16: bool = False
    encoder: Encoder | None = None
    draft: Draft | None = None


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


def attention(
    h: Heads,
    biases: Biases,
    *,
    window: int | None = None,
    chunk: int | None = None,
    vectors: tuple[Vector, ...] = (),
    name: str = "self_attn",
    output_gate: bool = False,
) -> Attention:
    """`output_gate`: the query projection yields a gate of the output besides."""
    q, kv = h.heads * h.head_dim, h.kv_heads * h.head_dim
    return Attention(
        heads=h.heads,
        kv_heads=h.kv_heads,
        head_dim=h.head_dim,
        v_head_dim=h.head_dim,
        matrices=(
            Matrix(f"{name}.q_proj", q * (2 if output_gate else 1), h.hidden, Shard.COLUMN, bias=biases.qkv),
            Matrix(f"{name}.k_proj", kv, h.hidden, Shard.KV, bias=biases.qkv, group=h.head_dim),
            Matrix(f"{name}.v_proj", kv, h.hidden, Shard.KV, bias=biases.qkv, group=h.head_dim),
            Matrix(f"{name}.o_proj", h.hidden, q, Shard.ROW, bias=biases.output),
        ),
        vectors=vectors,
        window_tokens=window,
        chunk_tokens=chunk,
    )


_GATED_NAMES = ("gate_proj", "up_proj", "down_proj")
_PLAIN_NAMES = ("fc1", "fc2")


def feed_forward(
    hidden: int, intermediate: int, prefix: str, names: tuple[str, ...], *, bias: bool = False
) -> tuple[Matrix, ...]:
    """The matrices of a feed-forward: `names` are (gate, up, down), or (up, down) where it has no gate."""
    *ups, down = (f"{prefix}.{name}" for name in names)
    widening = tuple(Matrix(up, intermediate, hidden, Shard.COLUMN, bias=bias) for up in ups)
    return (*widening, Matrix(down, hidden, intermediate, Shard.ROW, bias=bias))


def gated_mlp(hidden: int, intermediate: int, biases: Biases, prefix: str = "mlp") -> DenseMLP:
    matrices = feed_forward(hidden, intermediate, prefix, _GATED_NAMES, bias=biases.mlp)
    return DenseMLP(intermediate, gated=True, matrices=matrices)


def plain_mlp(
    hidden: int, intermediate: int, biases: Biases, prefix: str = "mlp", names: tuple[str, str] = _PLAIN_NAMES
) -> DenseMLP:
    matrices = feed_forward(hidden, intermediate, prefix, names, bias=biases.mlp)
    return DenseMLP(intermediate, gated=False, matrices=matrices)


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts as configs spell it. `hidden`: width of what goes in; `expert_hidden`: where experts work on
    a narrower (latent) one. `router_dtype`: where the router keeps a type of its own. `corrected`: a float32 bias per
    expert corrects the scores. `shared`: width of the shared experts together (0: none).
    """

    hidden: int
    count: int
    per_token: int
    width: int
    prefix: str = "mlp"
    router: str = "gate"
    names: tuple[str, ...] = _GATED_NAMES
    bias: bool = False
    router_bias: bool = False
    router_dtype: str | None = None
    corrected: bool = False
    shared: int = 0
    shared_name: str = "shared_experts"
    expert_hidden: int | None = None


def mixture(e: Experts, *, extra: tuple[Matrix, ...] = (), vectors: tuple[Vector, ...] = ()) -> MoE:
    """`extra`: matrices that every token passes besides the router and shared experts."""
    router = Matrix(
        f"{e.prefix}.{e.router}",
        e.count,
        e.hidden,
        Shard.REPLICATED,
        bias=e.router_bias,
        quantizable=False,
        dtype=e.router_dtype,
    )
    shared = feed_forward(e.hidden, e.shared, f"{e.prefix}.{e.shared_name}", e.names) if e.shared else ()
    inner = e.expert_hidden or e.hidden
    correction = (Vector("e_score_correction_bias", e.count, dtype="float32"),) if e.corrected else ()
    return MoE(
        experts=e.count,
        experts_per_token=e.per_token,
        intermediate_size=e.width,
        expert_matrices=feed_forward(inner, e.width, f"{e.prefix}.experts.0", e.names, bias=e.bias),
        matrices=(router, *shared, *extra),
        vectors=(*correction, *vectors),
    )


def norms(*lengths: int) -> tuple[Vector, ...]:
    return tuple(Vector("norm", length) for length in lengths)


def block(mixer: Mixer | None, channel: Channel | None, *norm_lengths: int) -> Layer:
    """A layer of at most one mixer and one channel."""
    return Layer(() if mixer is None else (mixer,), () if channel is None else (channel,), norms(*norm_lengths))
