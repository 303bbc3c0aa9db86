"""Parsers of decoders with multi-head latent attention: DeepSeek and what is built like it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from inferplan.errors import InvalidModelConfig
from inferplan.model.architecture import (
    CompressedAttention,
    Draft,
    Indexer,
    LatentAttention,
    Layer,
    Matrix,
    Shard,
    Vector,
)
from inferplan.model.fields import Fields
from inferplan.model.mixtures import deepseek_experts, dense_first, last_layer
from inferplan.model.parts import Biases, Experts, Outline, gated_mlp, layer_count, mixture, norms


def latent_attention(fields: Fields, *, name: str = "self_attn") -> LatentAttention:
    """Down-projections on every rank, up-projections and output divided by heads."""
    hidden = fields.size("hidden_size")
    heads = fields.size("num_attention_heads")
    latent, rope = fields.size("kv_lora_rank"), fields.size("qk_rope_head_dim")
    nope, v_head_dim = fields.size("qk_nope_head_dim"), fields.size("v_head_dim")
    query_rank = fields.optional("q_lora_rank")
    queries = heads * (nope + rope)
    down: tuple[Matrix, ...] = ()
    if query_rank is not None:
        down = (Matrix(f"{name}.q_a_proj", query_rank, hidden, Shard.REPLICATED),)
        up = Matrix(f"{name}.q_b_proj", queries, query_rank, Shard.COLUMN)
    else:
        up = Matrix(f"{name}.q_proj", queries, hidden, Shard.COLUMN)
    return LatentAttention(
        heads=heads,
        latent_dim=latent,
        rope_dim=rope,
        nope_dim=nope,
        v_head_dim=v_head_dim,
        matrices=(
            *down,
            up,
            Matrix(f"{name}.kv_a_proj_with_mqa", latent + rope, hidden, Shard.REPLICATED),
            Matrix(f"{name}.kv_b_proj", heads * (nope + v_head_dim), latent, Shard.COLUMN),
            Matrix(f"{name}.o_proj", hidden, heads * v_head_dim, Shard.ROW),
        ),
        vectors=norms(latent, *((query_rank,) if query_rank is not None else ())),
    )


def deepseek(fields: Fields) -> Outline:
    """V2 and V3, Kimi K2: latent attention, dense feed-forwards first, then experts."""
    mixer = latent_attention(fields)
    return _decoder(fields, lambda _: mixer)


def deepseek_sparse(fields: Fields) -> Outline:
    """V3.2 and GLM-5: attention to the tokens that an indexer picks; some layers use the picks of an earlier one."""
    dense = latent_attention(fields)
    query_rank = fields.size("q_lora_rank")
    heads, width = fields.size("index_n_heads"), fields.size("index_head_dim")
    hidden = fields.size("hidden_size")
    picking = replace(
        dense,
        matrices=(
            *dense.matrices,
            Matrix("self_attn.indexer.wq_b", heads * width, query_rank, Shard.REPLICATED),
            Matrix("self_attn.indexer.wk", width, hidden, Shard.REPLICATED, quantizable=False),
            Matrix("self_attn.indexer.weights_proj", heads, hidden, Shard.REPLICATED, quantizable=False),
        ),
        vectors=(*dense.vectors, Vector("k_norm", 2 * width, dtype="float32")),
        sparse=True,
        indexer=Indexer(heads, width, fields.size("index_topk")),
    )
    following = replace(dense, sparse=True)
    count = layer_count(fields)
    listed = fields.values.get("indexer_types") is not None
    kinds = fields.names("indexer_types", count) if listed else ("full",) * count
    return _decoder(fields, lambda i: following if kinds[i] == "shared" else picking)


def glm_sparse(fields: Fields) -> Outline:
    """GLM-5: the cache is fp8 on Blackwell unless told otherwise."""
    return replace(deepseek_sparse(fields), fp8_cache_capabilities=(10,))


def glm4_moe_lite(fields: Fields) -> Outline:
    """GLM-4.7 Flash: as DeepSeek V3, with GLM's float32 router."""
    mixer = latent_attention(fields)
    experts = replace(deepseek_experts(fields), router_dtype="float32", corrected=True)
    return _decoder(fields, lambda _: mixer, experts)


def _decoder(fields: Fields, mixers: Callable[[int], LatentAttention], experts: Experts | None = None) -> Outline:
    hidden = fields.size("hidden_size")
    channels = dense_first(fields, mixture(experts or deepseek_experts(fields)))
    layers = tuple(Layer((mixers(i),), channels(i), norms(hidden, hidden)) for i in range(layer_count(fields)))
    outline = Outline(hidden, layers, vectors=norms(hidden))
    return replace(outline, draft=last_layer(fields, outline))


def longcat(fields: Fields) -> Outline:
    """Two attentions and two dense feed-forwards in a layer, experts beside them; some experts do nothing.

    `num_hidden_layers` counts attentions, two to a layer (as Transformers' config class has it).
    """
    hidden = fields.size("hidden_size")
    count = fields.optional("num_hidden_layers") or 2 * fields.size("num_layers")
    mixer = latent_attention(fields)
    dense = gated_mlp(hidden, fields.size("ffn_hidden_size", "intermediate_size"), Biases(), "mlps")
    routed = fields.size("n_routed_experts")
    zero = fields.optional("zero_expert_num") or 0
    experts = mixture(
        Experts(
            hidden,
            routed,
            fields.size("moe_topk", "num_experts_per_tok"),
            fields.size("expert_ffn_hidden_size", "moe_intermediate_size"),
        )
    )
    router = Matrix(
        "mlp.router.classifier", routed + zero, hidden, Shard.REPLICATED, quantizable=False, dtype="float32"
    )
    correction = Vector("e_score_correction_bias", routed + zero, dtype="float32")
    channel = replace(experts, matrices=(router,), vectors=(correction,))
    layer = Layer((mixer, mixer), (dense, dense, channel), norms(*(hidden,) * 4))
    return Outline(hidden, (layer,) * (count // 2), vectors=norms(hidden))


def deepseek_v4(fields: Fields) -> Outline:
    """A window in every layer; besides it groups of 4 (overlapping, picked by an indexer) or 128 tokens as one latent.

    Several copies of the hidden state run side by side (hyper-connections), mixed before and after each block.
    """
    hidden = fields.size("hidden_size")
    count = layer_count(fields)
    ratios = fields.numbers("compress_ratios")
    if ratios is None or len(ratios) < count:
        raise InvalidModelConfig("config.json: compress_ratios is missing or shorter than num_hidden_layers")
    mixers = {ratio: _compressed_attention(fields, ratio) for ratio in set(ratios)}
    copies = fields.size("hc_mult", default=1)
    mixing = (2 + copies) * copies
    hyper = tuple(
        Vector(name, length, dtype="float32")
        for name in ("hc_attn", "hc_ffn")
        for length in (mixing * copies * hidden, mixing, 3)
    )
    hashed = fields.optional("num_hash_layers") or 0
    experts = mixture(replace(deepseek_experts(fields), prefix="ffn", names=("w1", "w3", "w2"), corrected=True))
    table = Vector("tid2eid", fields.size("vocab_size") * fields.size("num_experts_per_tok"), dtype="float32")
    by_token = replace(experts, vectors=(table,))
    layers = tuple(
        Layer((mixers[ratios[i]],), (by_token if i < hashed else experts,), (*norms(hidden, hidden), *hyper))
        for i in range(count)
    )
    draft = None
    if len(ratios) > count and fields.optional("num_nextn_predict_layers"):
        draft = Draft(Layer((mixers[ratios[count]],), (experts,), (*norms(hidden, hidden), *hyper)))
    head = tuple(Vector("hc_head", length, dtype="float32") for length in (copies * copies * hidden, copies, 1))
    return Outline(hidden, layers, vectors=(*norms(hidden), *head), residual_streams=copies, draft=draft)


def _compressed_attention(fields: Fields, ratio: int) -> CompressedAttention:
    hidden, heads, head_dim = fields.size("hidden_size"), fields.size("num_attention_heads"), fields.size("head_dim")
    query_rank, output_rank = fields.size("q_lora_rank"), fields.size("o_lora_rank")
    groups = fields.size("o_groups")
    overlapping = ratio == 4
    matrices = [
        Matrix("attn.wq_a", query_rank, hidden, Shard.REPLICATED),
        Matrix("attn.wkv", head_dim, hidden, Shard.REPLICATED),
        Matrix("attn.wq_b", heads * head_dim, query_rank, Shard.COLUMN),
        Matrix("attn.wo_a", groups * output_rank, heads * head_dim // groups, Shard.COLUMN),
        Matrix("attn.wo_b", hidden, groups * output_rank, Shard.ROW),
    ]
    vectors = [*norms(query_rank, head_dim), Vector("sinks", heads, Shard.COLUMN, dtype="float32")]
    indexer = None
    if ratio:
        _add_compressor(matrices, vectors, "attn.compressor", hidden, head_dim, ratio, overlapping=overlapping)
    if overlapping:
        indexer = Indexer(fields.size("index_n_heads"), fields.size("index_head_dim"), fields.size("index_topk"))
        width = indexer.head_dim
        matrices.append(Matrix("attn.indexer.wq_b", indexer.heads * width, query_rank, Shard.REPLICATED))
        matrices.append(Matrix("attn.indexer.weights_proj", indexer.heads, hidden, Shard.REPLICATED, quantizable=False))
        _add_compressor(matrices, vectors, "attn.indexer.compressor", hidden, width, ratio, overlapping=overlapping)
    return CompressedAttention(
        heads=heads,
        head_dim=head_dim,
        rope_dim=fields.size("qk_rope_head_dim"),
        window_tokens=fields.size("sliding_window"),
        ratio=ratio,
        matrices=tuple(matrices),
        vectors=tuple(vectors),
        overlapping=overlapping,
        indexer=indexer,
    )


def _add_compressor(
    matrices: list[Matrix],
    vectors: list[Vector],
    name: str,
    hidden: int,
    width: int,
    ratio: int,
    *,
    overlapping: bool,
) -> None:
    folds = 2 if overlapping else 1
    matrices.append(Matrix(f"{name}.wkv_gate", 2 * folds * width, hidden, Shard.REPLICATED, quantizable=False))
    vectors.append(Vector("ape", ratio * folds * width, dtype="float32"))
    vectors.extend(norms(width))
