"""Parsers of decoders with a plain feed-forward and LayerNorms (weight and bias, counted as one vector each)."""

from __future__ import annotations

from inferplan.errors import InvalidModelConfig
from inferplan.model.architecture import Matrix, Shard
from inferplan.model.fields import Fields
from inferplan.model.parts import Biases, Heads, Outline, attention, block, heads_of, layer_count, norms, plain_mlp


def phi(fields: Fields) -> Outline:
    """Phi-1/2: attention and feed-forward in parallel behind one LayerNorm, biases everywhere, LM head too."""
    h = heads_of(fields)
    biases = Biases(qkv=True, output=True, mlp=True)
    layer = block(attention(h, biases), plain_mlp(h.hidden, fields.size("intermediate_size"), biases), h.hidden * 2)
    return Outline(h.hidden, (layer,) * layer_count(fields), vectors=norms(h.hidden * 2), lm_head_bias=True)


def starcoder2(fields: Fields) -> Outline:
    h = heads_of(fields)
    use = fields.flag("use_bias", default=True)
    biases = Biases(use, use, use)
    mlp = plain_mlp(h.hidden, fields.size("intermediate_size"), biases)
    layer = block(attention(h, biases, window=fields.window()), mlp, h.hidden * 2, h.hidden * 2)
    return Outline(h.hidden, (layer,) * layer_count(fields), vectors=norms(h.hidden * 2), tied_by_default=True)


def gpt2(fields: Fields) -> Outline:
    h = heads_of(fields)
    return _with_learned_positions(fields, h, fields.size("n_inner", default=4 * h.hidden), fields.size("n_positions"))


def gpt_bigcode(fields: Fields) -> Outline:
    """GPT-2 with one KV head (StarCoder's first generation)."""
    h = heads_of(fields, kv_heads=1 if fields.flag("multi_query", default=True) else None)
    return _with_learned_positions(fields, h, fields.size("n_inner", default=4 * h.hidden), fields.size("n_positions"))


def opt(fields: Fields) -> Outline:
    h = heads_of(fields)
    if fields.size("word_embed_proj_dim", default=h.hidden) != h.hidden:
        raise InvalidModelConfig("config.json: word_embed_proj_dim differs from hidden_size, which is not read")
    if not fields.flag("do_layer_norm_before", default=True):
        raise InvalidModelConfig("config.json: do_layer_norm_before=false is not read")
    # The first two positions are padding.
    return _with_learned_positions(fields, h, fields.size("ffn_dim"), fields.size("max_position_embeddings") + 2)


def _with_learned_positions(fields: Fields, h: Heads, intermediate: int, positions: int) -> Outline:
    biases = Biases(qkv=True, output=True, mlp=True)
    layer = block(attention(h, biases), plain_mlp(h.hidden, intermediate, biases), h.hidden * 2, h.hidden * 2)
    table = Matrix("wpe", positions, h.hidden, Shard.REPLICATED, quantizable=False)
    return Outline(
        h.hidden,
        (layer,) * layer_count(fields),
        outer=(table,),
        vectors=norms(h.hidden * 2),
        tied_by_default=True,
    )


def gpt_neox(fields: Fields) -> Outline:
    h = heads_of(fields)
    with_bias = fields.flag("attention_bias", default=True)
    biases = Biases(qkv=with_bias, output=with_bias, mlp=True)
    mlp = plain_mlp(h.hidden, fields.size("intermediate_size"), biases)
    layer = block(attention(h, biases), mlp, h.hidden * 2, h.hidden * 2)
    return Outline(h.hidden, (layer,) * layer_count(fields), vectors=norms(h.hidden * 2))


def gptj(fields: Fields) -> Outline:
    """Attention and feed-forward in parallel behind one LayerNorm; biases in the feed-forward and the LM head."""
    h = heads_of(fields)
    biases = Biases(mlp=True)
    mlp = plain_mlp(h.hidden, fields.size("n_inner", default=4 * h.hidden), biases)
    layer = block(attention(h, biases), mlp, h.hidden * 2)
    return Outline(h.hidden, (layer,) * layer_count(fields), vectors=norms(h.hidden * 2), lm_head_bias=True)


def bloom(fields: Fields) -> Outline:
    """ALiBi instead of positions, and a norm of the embeddings."""
    h = heads_of(fields)
    biases = Biases(qkv=True, output=True, mlp=True)
    layer = block(attention(h, biases), plain_mlp(h.hidden, 4 * h.hidden, biases), h.hidden * 2, h.hidden * 2)
    return Outline(
        h.hidden,
        (layer,) * layer_count(fields),
        vectors=norms(h.hidden * 2, h.hidden * 2),
        tied_by_default=True,
        context_by_default=2048,
    )


def falcon(fields: Fields) -> Outline:
    """7B: one KV head and one norm; 40B and 180B (`new_decoder_architecture`): grouped heads, two norms."""
    new = fields.flag("new_decoder_architecture", default=False)
    multi_query = fields.flag("multi_query", default=True)
    h = heads_of(fields, kv_heads=fields.size("num_kv_heads") if new else (1 if multi_query else None))
    with_bias = fields.flag("bias", default=False)
    biases = Biases(qkv=with_bias, output=with_bias, mlp=with_bias)
    parallel = fields.flag("parallel_attn", default=True)
    count = fields.size("num_ln_in_parallel_attn", default=2) if new else (1 if parallel else 2)
    mlp = plain_mlp(h.hidden, fields.size("ffn_hidden_size", default=4 * h.hidden), biases)
    layer = block(attention(h, biases), mlp, *(h.hidden * 2,) * count)
    return Outline(
        h.hidden,
        (layer,) * layer_count(fields),
        vectors=norms(h.hidden * 2),
        tied_by_default=True,
        context_by_default=2048,
    )
