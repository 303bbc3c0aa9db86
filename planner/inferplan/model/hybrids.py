"""Parsers of models with states: pure state-space ones, and hybrids of states and attention."""

from __future__ import annotations

from dataclasses import replace

from inferplan.errors import InvalidModelConfig
from inferplan.model.architecture import (
    Attention,
    Channel,
    DenseMLP,
    Draft,
    Layer,
    Matrix,
    MoE,
    Recurrent,
    Shard,
    Vector,
)
from inferplan.model.fields import Fields
from inferplan.model.latents import latent_attention
from inferplan.model.mixtures import bailing_experts, deepseek_experts, dense_first, granite_experts, qwen_experts
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
    plain_mlp,
)
from inferplan.model.recurrent import (
    GatedDelta,
    KimiDelta,
    Mamba1,
    Mamba2,
    gated_delta,
    kimi_delta,
    lightning,
    mamba1,
    mamba2,
    short_convolution,
)

_NO_BIASES = Biases()


def mamba(fields: Fields) -> Outline:
    """Mamba and Falcon Mamba: a mixer behind a norm in each layer, and nothing else."""
    hidden = fields.size("hidden_size")
    inner = fields.size("intermediate_size", default=fields.size("expand", default=2) * hidden)
    mixer = mamba1(
        Mamba1(
            hidden=hidden,
            inner=inner,
            state=fields.size("state_size"),
            rank=fields.size("time_step_rank"),
            kernel=fields.size("conv_kernel"),
            conv_bias=fields.flag("use_conv_bias", default=True),
            bias=fields.flag("use_bias", default=False),
        )
    )
    return replace(_state_only(fields, hidden, mixer), embeds_everywhere=True)


def mamba_2(fields: Fields) -> Outline:
    hidden = fields.size("hidden_size")
    heads, head_dim = fields.size("num_heads"), fields.size("head_dim")
    mixer = mamba2(
        Mamba2(
            hidden=hidden,
            inner=fields.size("intermediate_size", default=fields.size("expand", default=2) * hidden),
            heads=heads,
            head_dim=head_dim,
            state=fields.size("state_size"),
            groups=fields.size("n_groups"),
            kernel=fields.size("conv_kernel"),
            conv_bias=fields.flag("use_conv_bias", default=True),
            bias=fields.flag("use_bias", default=False),
        )
    )
    return replace(_state_only(fields, hidden, mixer), pipelined=False)


def _state_only(fields: Fields, hidden: int, mixer: Recurrent) -> Outline:
    """Such configs state no length; vLLM serves 2,048 tokens unless told otherwise."""
    layers = (block(mixer, None, hidden),) * layer_count(fields)
    return Outline(hidden, layers, vectors=norms(hidden), context_by_default=2048, tied_by_default=True)


def jamba(fields: Fields) -> Outline:
    """Attention every `attn_layer_period`-th layer, experts every `expert_layer_period`-th."""
    h = heads_of(fields)
    mixer = mamba1(
        Mamba1(
            hidden=h.hidden,
            inner=fields.size("mamba_expand") * h.hidden,
            state=fields.size("mamba_d_state"),
            rank=fields.size("mamba_dt_rank"),
            kernel=fields.size("mamba_d_conv"),
            conv_bias=fields.flag("mamba_conv_bias", default=True),
            bias=fields.flag("mamba_proj_bias", default=False),
            normed=True,
        )
    )
    attending = attention(h, _NO_BIASES)
    width = fields.size("intermediate_size")
    experts = mixture(
        Experts(
            h.hidden,
            fields.size("num_experts"),
            fields.size("num_experts_per_tok"),
            width,
            prefix="feed_forward",
            router="router",
        )
    )
    dense = gated_mlp(h.hidden, width, _NO_BIASES, "feed_forward")
    period, offset = fields.size("attn_layer_period"), fields.optional("attn_layer_offset") or 0
    every, first = fields.size("expert_layer_period"), fields.optional("expert_layer_offset") or 0
    has_experts = fields.size("num_experts") > 1
    layers = tuple(
        block(
            attending if i % period == offset else mixer,
            experts if has_experts and i % every == first else dense,
            h.hidden,
            h.hidden,
        )
        for i in range(layer_count(fields))
    )
    return Outline(h.hidden, layers, vectors=norms(h.hidden), embeds_everywhere=True)


def _mamba2_of(fields: Fields, hidden: int, inner: int | None = None, *, normed: bool = True) -> Recurrent:
    """Mamba 2 as Bamba, Granite and Falcon spell it."""
    return mamba2(
        Mamba2(
            hidden=hidden,
            inner=inner or fields.size("mamba_expand") * hidden,
            heads=fields.size("mamba_n_heads"),
            head_dim=fields.size("mamba_d_head"),
            state=fields.size("mamba_d_state"),
            groups=fields.size("mamba_n_groups"),
            kernel=fields.size("mamba_d_conv"),
            conv_bias=fields.flag("mamba_conv_bias", default=True),
            bias=fields.flag("mamba_proj_bias", default=False),
            normed=normed,
        )
    )


def bamba(fields: Fields) -> Outline:
    h = heads_of(fields)
    mixer = _mamba2_of(fields, h.hidden)
    attending = attention(h, _NO_BIASES)
    dense = gated_mlp(h.hidden, fields.size("intermediate_size"), _NO_BIASES, "feed_forward")
    listed = fields.numbers("attn_layer_indices") or ()
    layers = tuple(
        block(attending if i in listed else mixer, dense, h.hidden, h.hidden) for i in range(layer_count(fields))
    )
    return Outline(h.hidden, layers, vectors=norms(h.hidden))


def granite_hybrid(fields: Fields) -> Outline:
    """Mamba 2 and a few attention layers; a shared feed-forward, with experts beside it in some models."""
    h = heads_of(fields)
    kinds = fields.names("layer_types", layer_count(fields))
    biases = Biases(*(fields.flag("attention_bias", default=False),) * 2)
    mixers: dict[str, Attention | Recurrent] = {
        "attention": attention(h, biases),
        "mamba": _mamba2_of(fields, h.hidden),
    }
    shared = gated_mlp(h.hidden, fields.size("shared_intermediate_size"), _NO_BIASES, "shared_mlp")
    channels: tuple[Channel, ...] = (shared,)
    if fields.optional("num_local_experts"):
        channels = (granite_experts(fields), shared)
    layers = tuple(Layer((_kind(mixers, kind),), channels, norms(h.hidden, h.hidden)) for kind in kinds)
    return Outline(h.hidden, layers, vectors=norms(h.hidden), embeds_everywhere=True)


def _kind(mixers: dict[str, Attention | Recurrent], kind: str) -> Attention | Recurrent:
    found = mixers.get(kind)
    if found is None:
        raise InvalidModelConfig(f"config.json: layer_types has {kind!r}; known: {', '.join(mixers)}")
    return found


def falcon_h1(fields: Fields) -> Outline:
    """Mamba 2 and attention side by side in every layer."""
    h = heads_of(fields)
    mixer = _mamba2_of(
        fields, h.hidden, fields.optional("mamba_d_ssm"), normed=fields.flag("mamba_rms_norm", default=False)
    )
    attending = attention(h, _NO_BIASES)
    dense = gated_mlp(
        h.hidden, fields.size("intermediate_size"), Biases(mlp=fields.flag("mlp_bias", default=False)), "feed_forward"
    )
    layer = Layer((mixer, attending), (dense,), norms(h.hidden, h.hidden))
    return Outline(h.hidden, (layer,) * layer_count(fields), vectors=norms(h.hidden))


def zamba2(fields: Fields) -> Outline:
    """Mamba 2 throughout; some layers have attention and a feed-forward besides, over state and embedding. A few
    blocks of weights serve all of those in turn, each use with an adapter of its own.
    """
    hidden = fields.size("hidden_size")
    kinds = fields.names("layers_block_type", layer_count(fields))
    mixer = mamba2(
        Mamba2(
            hidden=hidden,
            inner=fields.size("mamba_expand") * hidden,
            heads=fields.size("n_mamba_heads"),
            head_dim=fields.size(
                "mamba_headdim", default=fields.size("mamba_expand") * hidden // fields.size("n_mamba_heads")
            ),
            state=fields.size("mamba_d_state"),
            groups=fields.size("mamba_ngroups"),
            kernel=fields.size("mamba_d_conv"),
            conv_bias=fields.flag("use_conv_bias", default=True),
            bias=fields.flag("add_bias_linear", default=False),
        )
    )
    blocks = fields.size("num_mem_blocks")
    layers: list[Layer] = []
    used = 0
    for kind in kinds:
        if kind != "hybrid":
            layers.append(block(mixer, None, hidden))
            continue
        layers.append(_zamba_layer(fields, hidden, mixer, shared=used >= blocks))
        used += 1
    return Outline(hidden, tuple(layers), vectors=norms(hidden), tied_by_default=True, pipelined=False)


def _zamba_layer(fields: Fields, hidden: int, mixer: Recurrent, *, shared: bool) -> Layer:
    inner = fields.size("attention_hidden_size", default=2 * hidden)
    heads, head_dim = fields.size("num_attention_heads"), fields.size("attention_head_dim")
    rank = fields.size("adapter_rank")
    width = fields.size("intermediate_size")

    def adapter(name: str, out: int, into: int) -> tuple[Matrix, ...]:
        return (Matrix(f"{name}.0", rank, into, Shard.COLUMN), Matrix(f"{name}.1", out, rank, Shard.COLUMN))

    adapters: tuple[Matrix, ...] = ()
    if fields.flag("use_shared_attention_adapter", default=False):
        adapters = tuple(
            m for name in ("q", "k", "v") for m in adapter(f"self_attn.linear_{name}_adapter", inner, inner)
        )
    own = attention(Heads(inner, heads, heads, head_dim), _NO_BIASES, name="shared_transformer.self_attn")
    projections = (*own.matrices[:3], Matrix(own.matrices[3].name, hidden, inner, Shard.ROW))
    attending = replace(
        own,
        matrices=(
            *(replace(m, shared=shared) for m in projections),
            *adapters,
            Matrix("linear", hidden, hidden, Shard.REPLICATED),
        ),
        vectors=(Vector("input_layernorm", 2 * hidden, shared=shared), Vector("pre_ff", hidden, shared=shared)),
    )
    plain = gated_mlp(hidden, width, Biases(mlp=fields.flag("add_bias_linear", default=False)), "feed_forward")
    adapted = (*adapter("gate_adapter", width, hidden)[:1], Matrix("gate_up_adapter", 2 * width, rank, Shard.COLUMN))
    dense = DenseMLP(width, gated=True, matrices=(*(replace(m, shared=shared) for m in plain.matrices), *adapted))
    return Layer((attending, mixer), (dense,), norms(hidden))


def nemotron_h(fields: Fields) -> Outline:
    """One thing a layer, by a pattern: Mamba 2 (M), attention (*), a feed-forward (-) or experts (E)."""
    hidden = fields.size("hidden_size")
    heads = fields.size("num_attention_heads")
    head_dim = fields.size("head_dim", "attention_head_dim", default=hidden // heads)
    mamba_heads, width = fields.size("mamba_num_heads"), fields.size("mamba_head_dim")
    mixer = mamba2(
        Mamba2(
            hidden=hidden,
            inner=mamba_heads * width,
            heads=mamba_heads,
            head_dim=width,
            state=fields.size("ssm_state_size"),
            groups=fields.size("n_groups"),
            kernel=fields.size("conv_kernel"),
            conv_bias=fields.flag("use_conv_bias", default=True),
            bias=fields.flag("use_bias", default=False),
            state_dtype=fields.text("mamba_ssm_cache_dtype", "float32"),
        )
    )
    attending = attention(Heads(hidden, heads, fields.size("num_key_value_heads"), head_dim), _NO_BIASES, name="mixer")
    experts = _nemotron_experts(fields, hidden) if fields.values.get("n_routed_experts") else None
    made = {"M": block(mixer, None, hidden), "*": block(attending, None, hidden)}
    if experts is not None:
        made["E"] = block(None, experts, hidden)
    pattern = _nemotron_pattern(fields)
    if "-" in pattern:
        biases = Biases(mlp=fields.flag("mlp_bias", default=False))
        dense = plain_mlp(hidden, fields.size("intermediate_size"), biases, "mixer", ("up_proj", "down_proj"))
        made["-"] = block(None, dense, hidden)
    unknown = sorted(set(pattern) - set(made))
    if unknown:
        raise InvalidModelConfig(f"config.json: hybrid_override_pattern has {unknown}; known: {', '.join(made)}")
    layers = tuple(made[sign] for sign in pattern)
    draft = None
    if fields.optional("num_nextn_predict_layers") and experts is not None:
        draft = Draft(Layer((attending,), (experts,), norms(hidden, hidden)))
    return Outline(hidden, layers, vectors=norms(hidden), embeds_everywhere=True, draft=draft)


def _nemotron_pattern(fields: Fields) -> str:
    pattern = fields.text("hybrid_override_pattern")
    if pattern:
        return pattern
    kinds = fields.values.get("layers_block_type")
    signs = {"mamba": "M", "attention": "*", "moe": "E", "mlp": "-"}
    if not isinstance(kinds, list):
        raise InvalidModelConfig("config.json: hybrid_override_pattern and layers_block_type are missing")
    return "".join(signs.get(str(kind), "?") for kind in kinds)


def _nemotron_experts(fields: Fields, hidden: int) -> Channel:
    latent = fields.optional("moe_latent_size")
    bias = fields.flag("mlp_bias", default=False)
    around = (
        (
            Matrix("mixer.fc1_latent_proj", latent, hidden, Shard.REPLICATED, bias=bias),
            Matrix("mixer.fc2_latent_proj", hidden, latent, Shard.REPLICATED, bias=bias),
        )
        if latent
        else ()
    )
    shared = fields.optional("moe_shared_expert_intermediate_size") or 0
    return mixture(
        Experts(
            hidden=hidden,
            count=fields.size("n_routed_experts"),
            per_token=fields.size("num_experts_per_tok"),
            width=fields.size("moe_intermediate_size"),
            prefix="mixer",
            names=("up_proj", "down_proj"),
            corrected=True,
            shared=shared * (fields.optional("n_shared_experts") or 0),
            expert_hidden=latent,
        ),
        extra=around,
    )


def qwen3_next(fields: Fields) -> Outline:
    """Gated delta nets, and attention with an output gate in every fourth layer; experts throughout."""
    return _gated_delta_decoder(fields, split=False)


def qwen3_5(fields: Fields) -> Outline:
    return _gated_delta_decoder(fields, split=True)


def _gated_delta_decoder(fields: Fields, *, split: bool) -> Outline:
    h = heads_of(fields)
    count = layer_count(fields)
    mixer = gated_delta(
        GatedDelta(
            hidden=h.hidden,
            key_heads=fields.size("linear_num_key_heads"),
            key_dim=fields.size("linear_key_head_dim"),
            value_heads=fields.size("linear_num_value_heads"),
            value_dim=fields.size("linear_value_head_dim"),
            kernel=fields.size("linear_conv_kernel_dim"),
            split_projections=split,
            state_dtype=fields.text("mamba_ssm_dtype") or None,
        )
    )
    gate = fields.flag("attn_output_gate", default=True)
    biases = Biases(qkv=fields.flag("attention_bias", default=False))
    attending = attention(h, biases, vectors=norms(h.head_dim, h.head_dim), output_gate=gate)
    interval = fields.size("full_attention_interval", default=4)
    listed = fields.values.get("layer_types") is not None
    every = ["full_attention" if (i + 1) % interval == 0 else "linear_attention" for i in range(count)]
    kinds = fields.names("layer_types", count) if listed else every
    mixers: dict[str, Attention | Recurrent] = {"linear_attention": mixer, "full_attention": attending}
    step = fields.size("decoder_sparse_step", default=1)
    dense_layers = fields.numbers("mlp_only_layers") or ()
    has_experts = fields.optional("num_experts") is not None
    experts = qwen_experts(fields) if has_experts else None

    def channel(index: int) -> Channel:
        if experts is not None and index not in dense_layers and (index + 1) % step == 0:
            return experts
        return gated_mlp(h.hidden, fields.size("intermediate_size"), _NO_BIASES)

    layers = tuple(block(_kind(mixers, kind), channel(i), h.hidden, h.hidden) for i, kind in enumerate(kinds))
    draft = Draft(block(attending, channel(count - 1), h.hidden, h.hidden))
    return Outline(h.hidden, layers, vectors=norms(h.hidden), embeds_everywhere=True, draft=draft)


def lfm2(fields: Fields) -> Outline:
    """Short convolutions and a few attention layers; dense feed-forwards, or experts after the first layers."""
    h = heads_of(fields)
    count = layer_count(fields)
    mixer = short_convolution(
        h.hidden,
        fields.size("conv_dim", default=h.hidden),
        fields.size("conv_L_cache"),
        bias=fields.flag("conv_bias", default=False),
    )
    attending = attention(h, _NO_BIASES, vectors=norms(h.head_dim, h.head_dim))
    mixers: dict[str, Attention | Recurrent] = {"conv": mixer, "full_attention": attending}
    kinds = fields.names("layer_types", count)
    dense = gated_mlp(h.hidden, _lfm2_width(fields), _NO_BIASES, "feed_forward")
    first = fields.optional("num_dense_layers") or 0
    experts = _lfm2_experts(fields, h.hidden) if fields.optional("num_experts") else None
    layers = tuple(
        block(_kind(mixers, kind), dense if experts is None or i < first else experts, h.hidden, h.hidden)
        for i, kind in enumerate(kinds)
    )
    tied = fields.flag("tie_embedding", default=True)
    return Outline(h.hidden, layers, vectors=norms(h.hidden), tied_by_default=tied, embeds_everywhere=True)


def _lfm2_width(fields: Fields) -> int:
    width = fields.size("intermediate_size", "block_ff_dim")
    if not fields.flag("block_auto_adjust_ff_dim", default=False):
        return width
    factor = fields.values.get("block_ffn_dim_multiplier")
    scaled = int(2 * width / 3) * (factor if isinstance(factor, int | float) else 1)
    multiple = fields.size("block_multiple_of", default=256)
    return multiple * -(-int(scaled) // multiple)


def _lfm2_experts(fields: Fields, hidden: int) -> Channel:
    return mixture(
        Experts(
            hidden,
            fields.size("num_experts"),
            fields.size("num_experts_per_tok"),
            fields.size("moe_intermediate_size"),
            prefix="feed_forward",
            names=("w1", "w3", "w2"),
            corrected=fields.flag("use_expert_bias", default=False),
        )
    )


def kimi_linear(fields: Fields) -> Outline:
    """Delta attention and latent attention; dense feed-forwards first, then experts (narrower inside, in Kimi K3)."""
    hidden = fields.size("hidden_size")
    count = layer_count(fields)
    section = fields.section("linear_attn_config")
    delta = kimi_delta(
        KimiDelta(
            hidden=hidden,
            heads=section.size("num_heads"),
            head_dim=section.size("head_dim"),
            kernel=section.size("short_conv_kernel_size"),
            full_rank_gate=section.flag("use_full_rank_gate", default=False),
            bounded=section.values.get("gate_lower_bound") is not None,
        )
    )
    latent = latent_attention(fields)
    if fields.flag("mla_use_output_gate", default=False):
        gate = Matrix("self_attn.g_proj", latent.heads * latent.v_head_dim, hidden, Shard.COLUMN)
        latent = replace(latent, matrices=(*latent.matrices, gate))
    deltas = {i - 1 for i in section.numbers("kda_layers") or ()}
    channels = dense_first(fields, _kimi_experts(fields, hidden))
    residuals = 4 if fields.optional("attn_res_block_size") else 0
    layers = tuple(
        Layer((delta if i in deltas else latent,), channels(i), norms(*(hidden,) * (2 + residuals)))
        for i in range(count)
    )
    outer = 2 if residuals else 0
    return Outline(hidden, layers, vectors=norms(*(hidden,) * (1 + outer)))


def _kimi_experts(fields: Fields, hidden: int) -> MoE:
    inner = fields.optional("routed_expert_hidden_size")
    spelled = replace(
        deepseek_experts(fields),
        prefix="block_sparse_moe",
        names=("w1", "w3", "w2"),
        corrected=True,
        expert_hidden=inner,
    )
    base = replace(mixture(spelled), least_rank_width=256)
    if inner is None:
        return base
    around = (
        Matrix("block_sparse_moe.routed_expert_down_proj", inner, hidden, Shard.REPLICATED, quantizable=False),
        Matrix("block_sparse_moe.routed_expert_up_proj", hidden, inner, Shard.REPLICATED, quantizable=False),
    )
    normed = norms(inner) if fields.flag("latent_moe_use_norm", default=False) else ()
    return replace(base, matrices=(*base.matrices, *around), vectors=(*base.vectors, *normed))


def bailing_hybrid(fields: Fields) -> Outline:
    """Ling and Ring 2.5: lightning attention, and latent attention in every `layer_group_size`-th layer."""
    h, group = heads_of(fields), fields.size("layer_group_size", default=1)
    linear = lightning(h.hidden, h.heads, h.head_dim)
    if fields.flag("use_qk_norm", default=False):
        linear = replace(linear, vectors=(*linear.vectors, *norms(h.head_dim, h.head_dim)))
    latent = latent_attention(fields)
    router = None if fields.text("router_dtype", "fp32") != "fp32" else "float32"
    channels = dense_first(fields, mixture(bailing_experts(fields, router)))
    layers = tuple(
        Layer((linear if (i + 1) % group else latent,), channels(i), norms(h.hidden, h.hidden))
        for i in range(layer_count(fields))
    )
    return Outline(h.hidden, layers, vectors=norms(h.hidden))


def minimax_text(fields: Fields) -> Outline:
    """Lightning attention, and softmax attention in every eighth layer; experts throughout."""
    h = heads_of(fields)
    kinds = fields.numbers("attn_type_list")
    count = layer_count(fields)
    if kinds is None or len(kinds) != count:
        raise InvalidModelConfig("config.json: attn_type_list is missing or has another length than num_hidden_layers")
    linear, full = lightning(h.hidden, h.heads, h.head_dim), attention(h, _NO_BIASES)
    experts = mixture(
        Experts(
            h.hidden,
            fields.size("num_local_experts"),
            fields.size("num_experts_per_tok"),
            fields.size("intermediate_size"),
            prefix="block_sparse_moe",
            names=("w1", "w3", "w2"),
        )
    )
    layers = tuple(block(full if kind else linear, experts, h.hidden, h.hidden) for kind in kinds)
    return Outline(h.hidden, layers, vectors=norms(h.hidden))
