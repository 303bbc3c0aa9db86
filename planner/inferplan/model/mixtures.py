"""Parsers of softmax-attention decoders whose feed-forwards are mixtures of experts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from inferplan.errors import InvalidModelConfig
from inferplan.model.architecture import Attention, Channel, Draft, Indexer, Layer, Matrix, MoE, Shard, Vector
from inferplan.model.fields import Fields
from inferplan.model.parts import (
    Biases,
    Experts,
    Heads,
    Outline,
    attention,
    block,
    gated_mlp,
    heads_of,
    layer_count,
    mixture,
    norms,
)

Select = Callable[[int], bool]


def _decoder(
    fields: Fields,
    mixers: Callable[[int], Attention],
    channels: Callable[[int], tuple[Channel, ...]],
    *,
    layer_norms: int = 2,
    width: int = 1,
    embeds_everywhere: bool = False,
) -> Outline:
    """Normed attention and normed feed-forwards; `width`: elements of a norm per hidden element (2 with a bias)."""
    hidden = fields.size("hidden_size")
    layers = tuple(
        Layer((mixers(i),), channels(i), norms(*(hidden * width,) * layer_norms)) for i in range(layer_count(fields))
    )
    return Outline(hidden, layers, vectors=norms(hidden * width), embeds_everywhere=embeds_everywhere)


def mixtral(fields: Fields) -> Outline:
    h = heads_of(fields)
    mixer = attention(h, Biases(), window=fields.window())
    experts = mixture(_mixtral_experts(fields))
    return _decoder(fields, lambda _: mixer, lambda _: (experts,), embeds_everywhere=True)


def _mixtral_experts(fields: Fields) -> Experts:
    return Experts(
        hidden=fields.size("hidden_size"),
        count=fields.size("num_local_experts", "num_experts"),
        per_token=fields.size("num_experts_per_tok"),
        width=fields.size("intermediate_size"),
        prefix="block_sparse_moe",
        names=("w1", "w3", "w2"),
    )


def phimoe(fields: Fields) -> Outline:
    """LayerNorms with a bias, biases in attention and in the LM head."""
    with_bias = fields.flag("attention_bias", default=False)
    mixer = attention(heads_of(fields), Biases(with_bias, with_bias), window=fields.window())
    experts = mixture(_mixtral_experts(fields))
    outline = _decoder(fields, lambda _: mixer, lambda _: (experts,), width=2, embeds_everywhere=True)
    return replace(outline, lm_head_bias=fields.flag("lm_head_bias", default=False))


def qwen2_moe(fields: Fields) -> Outline:
    """A shared expert behind a gate of its own in every layer of experts; biases of Q, K and V."""
    mixer = attention(heads_of(fields), Biases(qkv=fields.flag("qkv_bias", default=True)))
    return _decoder(fields, lambda _: mixer, _qwen_channels(fields), embeds_everywhere=True)


def qwen3_moe(fields: Fields) -> Outline:
    h = heads_of(fields)
    biases = Biases(qkv=fields.flag("attention_bias", default=False))
    mixer = attention(h, biases, vectors=norms(h.head_dim, h.head_dim))
    return _decoder(fields, lambda _: mixer, _qwen_channels(fields), embeds_everywhere=True)


def _qwen_channels(fields: Fields) -> Callable[[int], tuple[Channel, ...]]:
    """Experts in every `decoder_sparse_step`-th layer, but for those named in `mlp_only_layers`."""
    experts = qwen_experts(fields)
    step = fields.size("decoder_sparse_step", default=1)
    dense_layers = fields.numbers("mlp_only_layers") or ()
    hidden = fields.size("hidden_size")

    def channels(index: int) -> tuple[Channel, ...]:
        if index in dense_layers or (index + 1) % step:
            return (gated_mlp(hidden, fields.size("intermediate_size"), Biases()),)
        return (experts,)

    return channels


def qwen_experts(fields: Fields) -> MoE:
    hidden = fields.size("hidden_size")
    shared = fields.optional("shared_expert_intermediate_size") or 0
    gate = Matrix("mlp.shared_expert_gate", 1, hidden, Shard.REPLICATED, quantizable=False)
    return mixture(
        Experts(
            hidden=hidden,
            count=fields.size("num_experts"),
            per_token=fields.size("num_experts_per_tok"),
            width=fields.size("moe_intermediate_size"),
            shared=shared,
            shared_name="shared_expert",
        ),
        extra=(gate,) if shared else (),
    )


def deepseek_experts(fields: Fields) -> Experts:
    """Routed experts and shared ones, as DeepSeek's configs spell them."""
    width = fields.size("moe_intermediate_size")
    return Experts(
        hidden=fields.size("hidden_size"),
        count=fields.size("n_routed_experts", "num_experts"),
        per_token=fields.size("num_experts_per_tok", "num_experts_per_token"),
        width=width,
        corrected=fields.text("topk_method") == "noaux_tc",
        shared=width * (fields.optional("n_shared_experts", "num_shared_experts") or 0),
    )


def dense_first(fields: Fields, experts: Channel) -> Callable[[int], tuple[Channel, ...]]:
    """Dense feed-forwards in the first `first_k_dense_replace` layers, then experts in every `moe_layer_freq`-th."""
    first = fields.optional("first_k_dense_replace") or 0
    step = fields.size("moe_layer_freq", default=1)
    hidden = fields.size("hidden_size")

    def channels(index: int) -> tuple[Channel, ...]:
        if index >= first and index % step == 0:
            return (experts,)
        return (gated_mlp(hidden, fields.size("intermediate_size"), Biases()),)

    return channels


def glm4_moe(fields: Fields) -> Outline:
    h = heads_of(fields)
    head_norms = norms(h.head_dim, h.head_dim) if fields.flag("use_qk_norm", default=False) else ()
    mixer = attention(h, Biases(qkv=fields.flag("attention_bias", default=False)), vectors=head_norms)
    experts = mixture(replace(deepseek_experts(fields), router_dtype="float32", corrected=True))
    outline = _decoder(fields, lambda _: mixer, dense_first(fields, experts))
    return replace(outline, draft=last_layer(fields, outline))


def last_layer(fields: Fields, outline: Outline) -> Draft | None:
    """The layer that drafts tokens, where it is one more of the last kind."""
    return Draft(outline.layers[-1], own_embeddings=True) if fields.optional("num_nextn_predict_layers") else None


def minimax_m2(fields: Fields) -> Outline:
    """Norms over all heads of Q and of K, which tensor parallelism divides."""
    h = heads_of(fields)
    vectors = (
        Vector("q_norm", h.heads * h.head_dim, Shard.COLUMN),
        Vector("k_norm", h.kv_heads * h.head_dim, Shard.KV, group=h.head_dim),
    )
    mixer = attention(h, Biases(qkv=fields.flag("attention_bias", default=False)), vectors=vectors)
    corrected = fields.flag("use_routing_bias", default=False)
    experts = mixture(replace(_mixtral_experts(fields), router_dtype="float32", corrected=corrected))
    return _decoder(fields, lambda _: mixer, lambda _: (experts,))


def minimax_m3(fields: Fields) -> Outline:
    """Attention over blocks of keys that an indexer picks; the first layers are plain and dense."""
    h = heads_of(fields)
    sparse = fields.section("sparse_attention_config")
    plain = attention(h, Biases(), vectors=norms(h.head_dim, h.head_dim))
    width = sparse.size("sparse_index_dim")
    index_heads = sparse.size("sparse_num_index_heads")
    picking = replace(
        plain,
        matrices=(
            *plain.matrices,
            Matrix("self_attn.index_q_proj", index_heads * width, h.hidden, Shard.COLUMN),
            Matrix("self_attn.index_k_proj", width, h.hidden, Shard.REPLICATED),
        ),
        vectors=(*plain.vectors, *norms(width, width)),
        block_tokens=sparse.size("sparse_block_size"),
        indexer=Indexer(index_heads, width, sparse.size("sparse_topk_blocks") * sparse.size("sparse_block_size")),
    )
    sparse_layers = sparse.numbers("sparse_attention_freq") or ()
    expert_layers = fields.numbers("moe_layer_freq") or ()
    shared = fields.size("shared_intermediate_size") * (fields.optional("n_shared_experts") or 0)
    experts = mixture(replace(_mixtral_experts(fields), router_dtype="float32", corrected=True, shared=shared))
    dense = gated_mlp(h.hidden, fields.size("dense_intermediate_size"), Biases())
    return _decoder(
        fields,
        lambda i: picking if i < len(sparse_layers) and sparse_layers[i] else plain,
        lambda i: (experts if i < len(expert_layers) and expert_layers[i] else dense,),
    )


def gpt_oss(fields: Fields) -> Outline:
    """A window in every other layer, a learned sink per head, biases everywhere."""
    h = heads_of(fields)
    count = layer_count(fields)
    kinds = fields.names("layer_types", count)
    sinks = (Vector("sinks", h.heads, Shard.COLUMN),)
    mixers = {
        window: attention(h, Biases(qkv=True, output=True), window=window, vectors=sinks)
        for window in (fields.window(), None)
    }
    experts = mixture(
        Experts(
            hidden=h.hidden,
            count=fields.size("num_local_experts"),
            per_token=fields.size("num_experts_per_tok", "experts_per_token"),
            width=fields.size("intermediate_size"),
            router="router",
            bias=True,
            router_bias=True,
        )
    )
    windows = [fields.window() if kind == "sliding_attention" else None for kind in kinds]
    outline = _decoder(fields, lambda i: mixers[windows[i]], lambda _: (experts,), embeds_everywhere=True)
    return replace(outline, largest_graph=1024)


def granite_moe(fields: Fields) -> Outline:
    mixer = attention(heads_of(fields), Biases(*(fields.flag("attention_bias", default=False),) * 2))
    shared = fields.optional("shared_intermediate_size") or 0
    experts = granite_experts(fields)
    dense = gated_mlp(fields.size("hidden_size"), shared, Biases(), "shared_mlp") if shared else None
    channels: tuple[Channel, ...] = (experts,) if dense is None else (experts, dense)
    return _decoder(fields, lambda _: mixer, lambda _: channels, embeds_everywhere=True)


def granite_experts(fields: Fields) -> MoE:
    return mixture(replace(_mixtral_experts(fields), router="router"))


def olmoe(fields: Fields) -> Outline:
    h = heads_of(fields)
    vectors = norms(h.heads * h.head_dim, h.kv_heads * h.head_dim)
    mixer = attention(h, Biases(*(fields.flag("attention_bias", default=False),) * 2), vectors=vectors)
    experts = mixture(
        Experts(
            h.hidden,
            fields.size("num_experts"),
            fields.size("num_experts_per_tok"),
            fields.size("intermediate_size"),
        )
    )
    return _decoder(fields, lambda _: mixer, lambda _: (experts,), embeds_everywhere=True)


def llama4(fields: Fields) -> Outline:
    """Chunked local attention but for every fourth layer; experts in every `interleave_moe_layer_step`-th."""
    h = heads_of(fields)
    biases = Biases(*(fields.flag("attention_bias", default=False),) * 2)
    chunk = fields.optional("attention_chunk_size")
    local, full = attention(h, biases, chunk=chunk), attention(h, biases)
    rotary = fields.numbers("no_rope_layers") or ()
    period = fields.size("no_rope_layer_interval", default=4)
    width = fields.size("intermediate_size")
    experts = mixture(
        Experts(
            hidden=h.hidden,
            count=fields.size("num_local_experts"),
            per_token=fields.size("num_experts_per_tok"),
            width=width,
            prefix="feed_forward",
            router="router",
            shared=width,
            shared_name="shared_expert",
        )
    )
    dense = gated_mlp(h.hidden, fields.size("intermediate_size_mlp", default=width), Biases(), "feed_forward")
    listed = fields.numbers("moe_layers")
    step = fields.size("interleave_moe_layer_step", default=1)
    return _decoder(
        fields,
        lambda i: local if (rotary[i] if i < len(rotary) else (i + 1) % period) else full,
        lambda i: (experts if (i in listed if listed else (i + 1) % step == 0) else dense,),
    )


def mimo_v2(fields: Fields) -> Outline:
    """Full and windowed layers with heads of their own sizes; values narrower than keys; sinks in windowed layers."""
    hidden = fields.size("hidden_size")
    full_sinks = fields.flag("add_full_attention_sink_bias", default=False)
    local_sinks = fields.flag("add_swa_attention_sink_bias", default=False)
    full = _mimo_attention(fields, hidden, "", sinks=full_sinks, window=None)
    local = _mimo_attention(fields, hidden, "swa_", sinks=local_sinks, window=fields.window())
    windowed = fields.numbers("hybrid_layer_pattern")
    if windowed is None:
        raise InvalidModelConfig("config.json: hybrid_layer_pattern is missing")
    expert_layers = fields.numbers("moe_layer_freq") or ()
    experts = mixture(replace(deepseek_experts(fields), router_dtype="float32"))
    dense = gated_mlp(hidden, fields.size("intermediate_size"), Biases())
    outline = _decoder(
        fields,
        lambda i: local if i < len(windowed) and windowed[i] else full,
        lambda i: (experts if i < len(expert_layers) and expert_layers[i] else dense,),
    )
    return replace(outline, draft=Draft(block(local, dense, hidden, hidden)))


def bailing(fields: Fields) -> Outline:
    """Ling and Ring 1 and 2: dense feed-forwards first, then experts and shared ones; scores corrected where stated."""
    h = heads_of(fields)
    bias = fields.flag("use_bias", default=False)
    biases = Biases(qkv=bias or fields.flag("use_qkv_bias", default=False), output=bias, mlp=bias)
    head_norms = norms(h.head_dim, h.head_dim) if fields.flag("use_qk_norm", default=False) else ()
    mixer = attention(h, biases, vectors=head_norms, name="attention")
    experts = mixture(bailing_experts(fields, "float32" if fields.text("router_dtype") == "fp32" else None))
    return _decoder(fields, lambda _: mixer, dense_first(fields, experts))


def bailing_experts(fields: Fields, router_dtype: str | None) -> Experts:
    width = fields.size("moe_intermediate_size")
    shared = fields.optional("num_shared_experts") or 0
    return Experts(
        hidden=fields.size("hidden_size"),
        count=fields.size("num_experts"),
        per_token=fields.size("num_experts_per_tok"),
        width=width,
        router_dtype=router_dtype,
        corrected=fields.flag("moe_router_enable_expert_bias", default=False),
        shared=shared * fields.size("moe_shared_expert_intermediate_size", default=width),
    )


def deepseek_first(fields: Fields) -> Outline:
    """DeepSeek-MoE, before latent attention."""
    mixer = attention(heads_of(fields), Biases())
    return _decoder(fields, lambda _: mixer, dense_first(fields, mixture(deepseek_experts(fields))))


def ernie_moe(fields: Fields) -> Outline:
    """ERNIE 4.5: experts from one layer to another, every so many; a float32 router whose scores are corrected."""
    h, count = heads_of(fields), layer_count(fields)
    width = fields.size("moe_intermediate_size")
    experts = mixture(
        Experts(
            hidden=h.hidden,
            count=fields.size("moe_num_experts"),
            per_token=fields.size("moe_k"),
            width=width,
            router_dtype="float32",
            corrected=True,
            shared=width * (fields.optional("moe_num_shared_experts") or 0),
        )
    )
    bias = fields.flag("use_bias", default=False)
    mixer = attention(h, Biases(qkv=bias))
    dense = gated_mlp(h.hidden, fields.size("intermediate_size"), Biases(mlp=bias))
    first = fields.optional("moe_layer_start_index") or 0
    last = fields.size("moe_layer_end_index", default=count - 1)
    step = fields.size("moe_layer_interval", default=1)
    outline = _decoder(
        fields,
        lambda _: mixer,
        lambda i: (experts if first <= i <= last and (i + 1) % step == 0 else dense,),
    )
    return replace(outline, tied_by_default=True)


def step3p5(fields: Fields) -> Outline:
    """Full and windowed layers (of their own head counts), gated per head; a float32 router whose scores are corrected.

    Two spellings are read: Step-3.5's own and the common one (`num_experts`, `first_k_dense_replace`).
    """
    hidden, count = fields.size("hidden_size"), layer_count(fields)
    kinds = fields.names("layer_types", count)
    gate = fields.flag("use_head_wise_attn_gate", default=False)
    other = "attention_other_setting"
    windowed_heads = fields.section(other).optional("num_attention_heads") if fields.values.get(other) else None

    def mixer(kind: str) -> Attention:
        windowed = kind == "sliding_attention"
        heads = (windowed_heads if windowed else None) or fields.size("num_attention_heads")
        kv_heads = fields.size("num_attention_groups", "num_key_value_heads")
        h = Heads(hidden, heads, kv_heads, fields.size("head_dim"))
        window = fields.window() if windowed else None
        made = attention(h, Biases(), window=window, vectors=norms(h.head_dim, h.head_dim))
        if not gate:
            return made
        return replace(made, matrices=(*made.matrices, Matrix("self_attn.g_proj", heads, hidden, Shard.COLUMN)))

    mixers = {kind: mixer(kind) for kind in set(kinds)}
    routed = Experts(
        hidden=hidden,
        count=fields.size("moe_num_experts", "num_experts"),
        per_token=fields.size("moe_top_k", "num_experts_per_tok"),
        width=fields.size("moe_intermediate_size"),
        prefix="moe",
        router_dtype="float32",
        corrected=True,
        shared=fields.size("share_expert_dim"),
        shared_name="share_expert",
    )
    listed = fields.text("moe_layers_enum")
    sparse = {int(i) for i in listed.split(",")} if listed else set(range(fields.size("first_k_dense_replace"), count))
    dense = gated_mlp(hidden, fields.size("intermediate_size"), Biases())
    experts = mixture(routed)
    outline = _decoder(fields, lambda i: mixers[kinds[i]], lambda i: (experts if i in sparse else dense,))
    return replace(outline, draft=last_layer(fields, outline))


def _mimo_attention(fields: Fields, hidden: int, prefix: str, *, sinks: bool, window: int | None) -> Attention:
    heads = fields.size(f"{prefix}num_attention_heads", "num_attention_heads")
    kv_heads = fields.size(f"{prefix}num_key_value_heads", "num_key_value_heads")
    head_dim = fields.size(f"{prefix}head_dim", "head_dim")
    v_head_dim = fields.size(f"{prefix}v_head_dim", "v_head_dim", default=head_dim)
    bias = fields.flag("attention_bias", default=False)
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=v_head_dim,
        matrices=(
            Matrix("self_attn.q_proj", heads * head_dim, hidden, Shard.COLUMN, bias=bias),
            Matrix("self_attn.k_proj", kv_heads * head_dim, hidden, Shard.KV, bias=bias, group=head_dim),
            Matrix("self_attn.v_proj", kv_heads * v_head_dim, hidden, Shard.KV, bias=bias, group=v_head_dim),
            Matrix("self_attn.o_proj", hidden, heads * v_head_dim, Shard.ROW),
        ),
        vectors=(Vector("sinks", heads, Shard.COLUMN),) if sinks else (),
        window_tokens=window,
    )


def deci(fields: Fields) -> Outline:
    """Llama with layers of their own sizes, found by a search: KV heads, feed-forward width, or nothing at all."""
    hidden = fields.size("hidden_size")
    heads = fields.size("num_attention_heads")
    configs = fields.values.get("block_configs")
    if not isinstance(configs, list) or len(configs) != layer_count(fields):
        raise InvalidModelConfig("config.json: block_configs is missing or has another length than num_hidden_layers")
    layers = []
    for config in configs:
        found = Fields(config)
        mixer = _deci_attention(fields, found.section("attention"), hidden, heads)
        channel = _deci_mlp(found.section("ffn"), hidden)
        layers.append(block(mixer, channel, *(hidden,) * ((mixer is not None) + (channel is not None))))
    return Outline(hidden, tuple(layers), vectors=norms(hidden))


def _deci_attention(fields: Fields, section: Fields, hidden: int, heads: int) -> Attention | None:
    if section.flag("replace_with_linear", default=False):
        raise InvalidModelConfig("config.json: block_configs.attention.replace_with_linear=true is not read")
    if section.flag("no_op", default=False):
        return None
    geometry = Heads(hidden, heads, heads // section.size("n_heads_in_group"), hidden // heads)
    return attention(geometry, Biases(*(fields.flag("attention_bias", default=False),) * 2))


def _deci_mlp(section: Fields, hidden: int) -> Channel | None:
    """`ffn_mult` of the hidden size times two thirds, up to a multiple of 256."""
    if section.flag("replace_with_linear", default=False):
        raise InvalidModelConfig("config.json: block_configs.ffn.replace_with_linear=true is not read")
    if section.flag("no_op", default=False):
        return None
    factor = section.values.get("ffn_mult")
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor <= 64:
        raise InvalidModelConfig(f"config.json: block_configs.ffn.ffn_mult={factor!r} is not a number of at most 64")
    width = int(2 * factor * hidden / 3)
    return gated_mlp(hidden, -(-width // 256) * 256, Biases())


def gemma4(fields: Fields) -> Outline:
    """Windowed and full layers with heads of their own sizes; norms before and after each block; in some models experts
    beside the feed-forward, an embedding per layer, and last layers that read the cache of earlier ones.
    """
    hidden, count = fields.size("hidden_size"), layer_count(fields)
    kinds = fields.names("layer_types", count)
    sharing = fields.optional("num_kv_shared_layers") or 0
    width = fields.size("intermediate_size")
    experts = _gemma4_experts(fields, hidden) if fields.optional("num_experts") else None
    per_layer = fields.optional("hidden_size_per_layer_input") or 0
    extra = (hidden,) * 3 if experts else ()
    layers = []
    for index, kind in enumerate(kinds):
        reads = index >= count - sharing
        doubled = 2 if reads and fields.flag("use_double_wide_mlp", default=False) else 1
        dense = gated_mlp(hidden, width * doubled, Biases())
        channels: tuple[Channel, ...] = (dense,) if experts is None else (dense, experts)
        mixer = _gemma4_attention(fields, hidden, local=kind == "sliding_attention", reads=reads)
        if per_layer:
            mixer = replace(mixer, matrices=(*mixer.matrices, *_gemma4_per_layer(hidden, per_layer)))
        lengths = (*(hidden,) * 4, *extra, *((hidden,) if per_layer else ()))
        layers.append(Layer((mixer,), channels, norms(*lengths)))
    outer: tuple[Matrix, ...] = ()
    if per_layer:
        rows = fields.size("vocab_size_per_layer_input", default=fields.size("vocab_size"))
        outer = (
            Matrix("embed_tokens_per_layer", rows, count * per_layer, Shard.VOCAB),
            Matrix("per_layer_model_projection", count * per_layer, hidden, Shard.REPLICATED),
        )
    return Outline(
        hidden,
        tuple(layers),
        outer=outer,
        vectors=norms(hidden, *((per_layer,) if per_layer else ())),
        tied_by_default=True,
        embeds_everywhere=True,
        bidirectional_prefix=fields.text("use_bidirectional_attention") == "vision",
    )


def _gemma4_attention(fields: Fields, hidden: int, *, local: bool, reads: bool) -> Attention:
    heads = fields.size("num_attention_heads")
    kv_heads, head_dim = fields.size("num_key_value_heads"), fields.size("head_dim")
    if not local:
        kv_heads = fields.optional("num_global_key_value_heads") or kv_heads
        head_dim = fields.optional("global_head_dim") or head_dim
    # Where keys serve as values, vLLM holds them twice.
    mixer = attention(
        Heads(hidden, heads, kv_heads, head_dim),
        Biases(*(fields.flag("attention_bias", default=False),) * 2),
        window=fields.window() if local else None,
        vectors=norms(head_dim) if reads else norms(head_dim, head_dim),
    )
    if not reads:
        return mixer
    queries = tuple(m for m in mixer.matrices if m.shard is not Shard.KV)
    return replace(mixer, matrices=queries, reads_other_cache=True)


def _gemma4_per_layer(hidden: int, width: int) -> tuple[Matrix, ...]:
    return (
        Matrix("per_layer_input_gate", width, hidden, Shard.REPLICATED),
        Matrix("per_layer_projection", hidden, width, Shard.REPLICATED),
    )


def _gemma4_experts(fields: Fields, hidden: int) -> MoE:
    count = fields.size("num_experts")
    experts = Experts(
        hidden,
        count,
        fields.size("top_k_experts", "num_experts_per_tok"),
        fields.size("moe_intermediate_size"),
        prefix="moe",
        router="router.proj",
    )
    return mixture(experts, vectors=norms(hidden, count))
