"""Parsers of Llama and everything shaped like it: rotary attention, RMSNorm, gated feed-forward."""

from __future__ import annotations

from dataclasses import replace

from inferplan.errors import InvalidModelConfig
from inferplan.model.architecture import Vector
from inferplan.model.fields import Fields
from inferplan.model.parts import Biases, Outline, attention, block, gated_mlp, heads_of, layer_count, norms, plain_mlp


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
    h = heads_of(fields)
    mlp = gated_mlp(h.hidden, fields.size("intermediate_size"), biases)
    count = layer_count(fields)
    layers = tuple(
        block(attention(h, biases, window=window, vectors=head_norms), mlp, *(h.hidden,) * layer_norms)
        for window in (windows or (None,) * count)
    )
    return Outline(h.hidden, layers, vectors=norms(h.hidden), tied_by_default=tied_by_default)


def llama(fields: Fields) -> Outline:
    attention = fields.flag("attention_bias", "bias", default=False)
    biases = Biases(attention, attention, fields.flag("mlp_bias", default=False))
    return _llama_like(fields, biases, windows=(fields.window(),) * layer_count(fields))


def seed_oss(fields: Fields) -> Outline:
    biases = Biases(fields.flag("attention_bias", default=False), fields.flag("attention_out_bias", default=False))
    return _llama_like(fields, biases)


def qwen2(fields: Fields) -> Outline:
    """Qwen2's projections always carry a QKV bias; the window, where used, is in the layers that come last."""
    count = layer_count(fields)
    window = fields.window() if fields.flag("use_sliding_window", default=False) else None
    first = fields.size("max_window_layers", default=count) if window else count
    return _llama_like(fields, Biases(qkv=True), windows=tuple(window if i >= first else None for i in range(count)))


def qwen3(fields: Fields) -> Outline:
    h = heads_of(fields)
    biases = Biases(qkv=fields.flag("attention_bias", default=False))
    return _llama_like(fields, biases, head_norms=norms(h.head_dim, h.head_dim))


def exaone4(fields: Fields) -> Outline:
    """Norms after each block and per head; windows as listed."""
    h = heads_of(fields)
    attends = fields.flag("attention_bias", "bias", default=False)
    biases = Biases(attends, attends, fields.flag("mlp_bias", default=False))
    return _llama_like(fields, biases, head_norms=norms(h.head_dim, h.head_dim), windows=_layer_windows(fields))


def apertus(fields: Fields) -> Outline:
    """Norms per head; feed-forwards without a gate, whose activation has two parameters."""
    h = heads_of(fields)
    outline = _llama_like(
        fields, Biases(*(fields.flag("attention_bias", default=False),) * 2), head_norms=norms(h.head_dim, h.head_dim)
    )
    biases = Biases(mlp=fields.flag("mlp_bias", default=False))
    mlp = plain_mlp(h.hidden, fields.size("intermediate_size"), biases, names=("up_proj", "down_proj"))
    mlp = replace(mlp, vectors=norms(1, 1))
    return replace(outline, layers=tuple(replace(layer, channels=(mlp,)) for layer in outline.layers))


def olmo2(fields: Fields) -> Outline:
    """Norms after each block and over all heads of Q and K. Olmo 3 adds a window in three layers of four."""
    h = heads_of(fields)
    biases = Biases(*(fields.flag("attention_bias", default=False),) * 2)
    head_norms = (Vector("q_norm", h.heads * h.head_dim), Vector("k_norm", h.kv_heads * h.head_dim))
    return _llama_like(fields, biases, head_norms=head_norms, windows=_layer_windows(fields))


def _layer_windows(fields: Fields) -> tuple[int | None, ...]:
    """Per layer from `layer_types` (`sliding_attention` / `full_attention`); no list: the same in all layers."""
    count = layer_count(fields)
    kinds = fields.values.get("layer_types")
    if not isinstance(kinds, list):
        return (fields.window(),) * count
    if len(kinds) != count:
        raise InvalidModelConfig(f"config.json: layer_types has {len(kinds)} entries for {count} layers")
    return tuple(fields.window() if kind == "sliding_attention" else None for kind in kinds)


def olmo(fields: Fields) -> Outline:
    """The first OLMo: norms without parameters."""
    biases = Biases(*(fields.flag("attention_bias", default=False),) * 2)
    outline = _llama_like(fields, biases, layer_norms=0)
    return replace(outline, vectors=())


def gemma(fields: Fields) -> Outline:
    return _llama_like(fields, Biases(), tied_by_default=True)


def gemma2(fields: Fields) -> Outline:
    """A window in every other layer, the first one included; norms before and after each block."""
    windows = _periodic_windows(fields, 2)
    outline = _llama_like(fields, Biases(), windows=windows, layer_norms=4, tied_by_default=True)
    return replace(outline, unstable_in_float16=True)


def gemma3(fields: Fields) -> Outline:
    """Five layers with a window, then a full one; norms of Q and K besides."""
    h = heads_of(fields)
    period = fields.size("sliding_window_pattern", "_sliding_window_pattern", default=6)
    windows = _periodic_windows(fields, period)
    head_norms = norms(h.head_dim, h.head_dim)
    outline = _llama_like(fields, Biases(), head_norms=head_norms, windows=windows, layer_norms=4, tied_by_default=True)
    return replace(outline, unstable_in_float16=True)


def gemma3_multimodal(fields: Fields) -> Outline:
    """Tokens of an image attend to each other."""
    return replace(gemma3(fields), bidirectional_prefix=True)


def cohere(fields: Fields) -> Outline:
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
    return tuple(None if (i + 1) % period == 0 else fields.window() for i in range(layer_count(fields)))


def ernie(fields: Fields) -> Outline:
    if fields.flag("use_bias", default=False):
        raise InvalidModelConfig("config.json: use_bias=true is not read for this family")
    return _llama_like(fields, Biases(), tied_by_default=True)


def glm(fields: Fields) -> Outline:
    return _llama_like(fields, Biases(qkv=fields.flag("attention_bias", default=False)))


def glm4(fields: Fields) -> Outline:
    """Norms before and after each block."""
    outline = _llama_like(fields, Biases(qkv=fields.flag("attention_bias", default=False)), layer_norms=4)
    return replace(outline, unstable_in_float16=True)


def stablelm(fields: Fields) -> Outline:
    """LayerNorms with a bias instead of RMSNorms."""
    for name in ("use_parallel_residual", "qk_layernorm"):
        if fields.flag(name, default=False):
            raise InvalidModelConfig(f"config.json: {name}=true is not read for this family")
    outline = _llama_like(fields, Biases(qkv=fields.flag("use_qkv_bias", default=False)), layer_norms=0)
    both = norms(outline.hidden_size * 2, outline.hidden_size * 2)
    layers = tuple(replace(layer, vectors=both) for layer in outline.layers)
    return replace(outline, layers=layers, vectors=norms(outline.hidden_size * 2))
