"""config.json → Architecture. A family is one parser function; it reads fields and yields typed layers.

Shapes follow how vLLM builds the model (so that weights per rank come out to the byte): fused projections are listed
as their parts, norms as vectors, biases with their matrix. A class in no parser is refused, naming it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from inferplan.errors import InvalidModelConfig, UnsupportedArchitecture
from inferplan.model.architecture import Architecture, Attention, DenseMLP, Layer, Matrix, Shard, Vector
from inferplan.model.context import context_of
from inferplan.model.fields import Fields
from inferplan.model.quantization import quantization_of

_MAX_LAYERS = 2048


def parse_architecture(
    config: Mapping[str, object], hf_quant_config: Mapping[str, object] | None = None
) -> Architecture:
    """The model that a config.json (and ModelOpt's hf_quant_config.json, where there is one) describes.

    Raises UnsupportedArchitecture naming a class that no parser reads, InvalidModelConfig naming a bad field.
    """
    name = _class_name(config)
    parser = _PARSERS.get(name)
    if parser is None:
        raise UnsupportedArchitecture(
            f"{name}: no parser reads this architecture yet (dense decoders with full or sliding-window attention "
            f"are read: {', '.join(sorted(_PARSERS))})"
        )
    fields = Fields(config)
    outline = parser(fields)
    context = context_of(fields)
    return Architecture(
        name=name,
        hidden_size=outline.hidden_size,
        vocab_size=fields.size("vocab_size"),
        layers=outline.layers,
        tied_embeddings=fields.flag("tie_word_embeddings", default=outline.tied_by_default),
        max_position_embeddings=context.limit_tokens,
        dtype=fields.dtype(),
        quantization=quantization_of(config, hf_quant_config),
        lm_head_bias=outline.lm_head_bias,
        outer=outline.outer,
        vectors=outline.vectors,
        original_position_embeddings=context.original_tokens,
    )


def _class_name(config: Mapping[str, object]) -> str:
    names = config.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise InvalidModelConfig("config.json: architectures is missing or empty")
    return names[0]


@dataclass(frozen=True, slots=True)
class Outline:
    """What a family's parser yields; the rest of an Architecture is read the same way for all."""

    hidden_size: int
    layers: tuple[Layer, ...]
    outer: tuple[Matrix, ...] = ()
    vectors: tuple[Vector, ...] = ()
    tied_by_default: bool = False
    lm_head_bias: bool = False


@dataclass(frozen=True, slots=True)
class Heads:
    """Attention geometry as decoder configs spell it."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int


def _heads(fields: Fields) -> Heads:
    hidden = fields.size("hidden_size", "n_embd")
    heads = fields.size("num_attention_heads", "n_head")
    kv_heads = fields.size("num_key_value_heads", default=heads)
    if heads % kv_heads:
        raise InvalidModelConfig(f"config.json: num_attention_heads={heads} is no multiple of {kv_heads} KV heads")
    if fields.values.get("head_dim") is None and hidden % heads:
        raise InvalidModelConfig(f"config.json: hidden_size={hidden} is no multiple of num_attention_heads={heads}")
    return Heads(hidden, heads, kv_heads, fields.size("head_dim", default=hidden // heads))


def _layer_count(fields: Fields) -> int:
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


def _attention(h: Heads, biases: Biases, *, window: int | None = None, vectors: tuple[Vector, ...] = ()) -> Attention:
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


def _gated_mlp(hidden: int, intermediate: int, biases: Biases) -> DenseMLP:
    return DenseMLP(
        intermediate,
        gated=True,
        matrices=(
            Matrix("mlp.gate_proj", intermediate, hidden, Shard.COLUMN, bias=biases.mlp),
            Matrix("mlp.up_proj", intermediate, hidden, Shard.COLUMN, bias=biases.mlp),
            Matrix("mlp.down_proj", hidden, intermediate, Shard.ROW, bias=biases.mlp),
        ),
    )


def _plain_mlp(hidden: int, intermediate: int, biases: Biases) -> DenseMLP:
    return DenseMLP(
        intermediate,
        gated=False,
        matrices=(
            Matrix("mlp.fc1", intermediate, hidden, Shard.COLUMN, bias=biases.mlp),
            Matrix("mlp.fc2", hidden, intermediate, Shard.ROW, bias=biases.mlp),
        ),
    )


def _norms(*lengths: int) -> tuple[Vector, ...]:
    return tuple(Vector("norm", length) for length in lengths)


def _llama_like(
    fields: Fields,
    biases: Biases,
    *,
    head_norms: tuple[Vector, ...] = (),
    windows: tuple[int | None, ...] | None = None,
    layer_norms: int = 2,
    tied_by_default: bool = False,
) -> Outline:
    """RMSNorm, rotary attention, gated feed-forward: Llama and everything shaped like it.

    `layer_norms`: norms of the hidden size in a layer (4 where blocks are normed before and after).
    """
    h = _heads(fields)
    mlp = _gated_mlp(h.hidden, fields.size("intermediate_size"), biases)
    count = _layer_count(fields)
    layers = tuple(
        Layer(_attention(h, biases, window=window, vectors=head_norms), mlp, _norms(*(h.hidden,) * layer_norms))
        for window in (windows or (None,) * count)
    )
    return Outline(h.hidden, layers, vectors=_norms(h.hidden), tied_by_default=tied_by_default)


def _llama(fields: Fields) -> Outline:
    attention = fields.flag("attention_bias", "bias", default=False)
    biases = Biases(attention, attention, fields.flag("mlp_bias", default=False))
    return _llama_like(fields, biases, windows=(fields.window(),) * _layer_count(fields))


def _seed_oss(fields: Fields) -> Outline:
    biases = Biases(fields.flag("attention_bias", default=False), fields.flag("attention_out_bias", default=False))
    return _llama_like(fields, biases)


def _qwen2(fields: Fields) -> Outline:
    """Qwen2's projections always carry a QKV bias; the window, where used, is in the layers that come last."""
    count = _layer_count(fields)
    window = fields.window() if fields.flag("use_sliding_window", default=False) else None
    first = fields.size("max_window_layers", default=count) if window else count
    return _llama_like(fields, Biases(qkv=True), windows=tuple(window if i >= first else None for i in range(count)))


def _qwen3(fields: Fields) -> Outline:
    h = _heads(fields)
    biases = Biases(qkv=fields.flag("attention_bias", default=False))
    return _llama_like(fields, biases, head_norms=_norms(h.head_dim, h.head_dim))


def _olmo2(fields: Fields) -> Outline:
    """Norms after each block and over all heads of Q and K. Olmo 3 adds a window in three layers of four."""
    h = _heads(fields)
    biases = Biases(*(fields.flag("attention_bias", default=False),) * 2)
    norms = (Vector("q_norm", h.heads * h.head_dim), Vector("k_norm", h.kv_heads * h.head_dim))
    return _llama_like(fields, biases, head_norms=norms, windows=_layer_windows(fields))


def _layer_windows(fields: Fields) -> tuple[int | None, ...]:
    """Per layer from `layer_types` (`sliding_attention` / `full_attention`); no list: the same in all layers."""
    count = _layer_count(fields)
    kinds = fields.values.get("layer_types")
    if not isinstance(kinds, list):
        return (fields.window(),) * count
    if len(kinds) != count:
        raise InvalidModelConfig(f"config.json: layer_types has {len(kinds)} entries for {count} layers")
    return tuple(fields.window() if kind == "sliding_attention" else None for kind in kinds)


def _olmo(fields: Fields) -> Outline:
    """The first OLMo: norms without parameters."""
    biases = Biases(*(fields.flag("attention_bias", default=False),) * 2)
    outline = _llama_like(fields, biases, layer_norms=0)
    return replace(outline, vectors=())


def _gemma(fields: Fields) -> Outline:
    return _llama_like(fields, Biases(), tied_by_default=True)


def _gemma2(fields: Fields) -> Outline:
    """A window in every other layer, the first one included; norms before and after each block."""
    return _llama_like(fields, Biases(), windows=_periodic_windows(fields, 2), layer_norms=4, tied_by_default=True)


def _gemma3(fields: Fields) -> Outline:
    """Five layers with a window, then a full one; norms of Q and K besides."""
    h = _heads(fields)
    period = fields.size("sliding_window_pattern", "_sliding_window_pattern", default=6)
    windows = _periodic_windows(fields, period)
    norms = _norms(h.head_dim, h.head_dim)
    return _llama_like(fields, Biases(), head_norms=norms, windows=windows, layer_norms=4, tied_by_default=True)


def _cohere(fields: Fields) -> Outline:
    """Attention and feed-forward in parallel behind one norm. Command R7B: full attention every fourth layer.

    The window's reach is one token longer than `sliding_window` says (as vLLM's spec has it).
    """
    biases = Biases(*(fields.flag("attention_bias", default=False),) * 2)
    period = fields.size("sliding_window_pattern", default=4)
    windows = tuple(w if w is None else w + 1 for w in _periodic_windows(fields, period))
    return _llama_like(fields, biases, windows=windows, layer_norms=1, tied_by_default=True)


def _periodic_windows(fields: Fields, period: int) -> tuple[int | None, ...]:
    """A window in all layers but every `period`-th, unless `layer_types` says it layer by layer."""
    if isinstance(fields.values.get("layer_types"), list):
        return _layer_windows(fields)
    return tuple(None if (i + 1) % period == 0 else fields.window() for i in range(_layer_count(fields)))


def _phi(fields: Fields) -> Outline:
    """Phi-1/2: attention and feed-forward in parallel behind one LayerNorm, biases everywhere, LM head too."""
    h = _heads(fields)
    biases = Biases(qkv=True, output=True, mlp=True)
    layer = Layer(
        _attention(h, biases), _plain_mlp(h.hidden, fields.size("intermediate_size"), biases), _norms(h.hidden * 2)
    )
    return Outline(h.hidden, (layer,) * _layer_count(fields), vectors=_norms(h.hidden * 2), lm_head_bias=True)


def _starcoder2(fields: Fields) -> Outline:
    h = _heads(fields)
    use = fields.flag("use_bias", default=True)
    biases = Biases(use, use, use)
    mlp = _plain_mlp(h.hidden, fields.size("intermediate_size"), biases)
    layer = Layer(_attention(h, biases, window=fields.window()), mlp, _norms(h.hidden * 2, h.hidden * 2))
    return Outline(h.hidden, (layer,) * _layer_count(fields), vectors=_norms(h.hidden * 2), tied_by_default=True)


def _gpt2(fields: Fields) -> Outline:
    h = _heads(fields)
    biases = Biases(qkv=True, output=True, mlp=True)
    mlp = _plain_mlp(h.hidden, fields.size("n_inner", default=4 * h.hidden), biases)
    layer = Layer(_attention(h, biases), mlp, _norms(h.hidden * 2, h.hidden * 2))
    positions = Matrix("wpe", fields.size("n_positions"), h.hidden, Shard.REPLICATED, quantizable=False)
    return Outline(
        h.hidden,
        (layer,) * _layer_count(fields),
        outer=(positions,),
        vectors=_norms(h.hidden * 2),
        tied_by_default=True,
    )


_PARSERS: dict[str, Callable[[Fields], Outline]] = {
    "LlamaForCausalLM": _llama,
    "MistralForCausalLM": _llama,
    "GraniteForCausalLM": _llama,
    "SmolLM3ForCausalLM": _llama,
    "Phi3ForCausalLM": _llama,
    "InternLM3ForCausalLM": _llama,
    "SeedOssForCausalLM": _seed_oss,
    "Qwen2ForCausalLM": _qwen2,
    "MiMoForCausalLM": _qwen2,
    "Qwen3ForCausalLM": _qwen3,
    "GemmaForCausalLM": _gemma,
    "Gemma2ForCausalLM": _gemma2,
    "Gemma3ForCausalLM": _gemma3,
    "CohereForCausalLM": _cohere,
    "Cohere2ForCausalLM": _cohere,
    "OlmoForCausalLM": _olmo,
    "Olmo2ForCausalLM": _olmo2,
    "Olmo3ForCausalLM": _olmo2,
    "PhiForCausalLM": _phi,
    "Starcoder2ForCausalLM": _starcoder2,
    "GPT2LMHeadModel": _gpt2,
}
