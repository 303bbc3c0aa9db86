"""Vision towers and projectors of multimodal models: parameters that sit beside the language model on each rank.

Only sizes are read: how many elements, how tensor parallelism divides them. They are kept in the model dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from inferplan.model.architecture import Encoder, Matrix, Shard, Vector
from inferplan.model.fields import Fields
from inferplan.model.parts import Outline, feed_forward, norms

_GATED = ("gate_proj", "up_proj", "down_proj")
_PLAIN = ("fc1", "fc2")


@dataclass(frozen=True, slots=True)
class Tower:
    matrices: tuple[Matrix, ...]
    vectors: tuple[Vector, ...]
    encoder: Encoder | None = None


def with_tower(language: Callable[[Fields], Outline], tower: Callable[[Fields], Tower]) -> Callable[[Fields], Outline]:
    """A language model's parser, with the tower that `vision_config` describes beside it."""

    def parser(fields: Fields) -> Outline:
        outline = language(fields)
        found = tower(fields)
        outer, vectors = (*outline.outer, *found.matrices), (*outline.vectors, *found.vectors)
        return replace(outline, outer=outer, vectors=vectors, encoder=found.encoder or Encoder())

    return parser


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Encoder blocks: attention and feed-forward; `norm_width`: elements of a norm per hidden element (2 with bias)."""

    depth: int
    hidden: int
    intermediate: int
    names: tuple[str, ...] = _PLAIN
    bias: bool = True
    norm_width: int = 2
    replicated: bool = False
    norms_per_block: int = 2
    head_norms: int = 0
    heads_width: int | None = None  # of all heads together, where that is not the hidden size


def _blocks(b: _Blocks) -> tuple[list[Matrix], list[Vector]]:
    """All blocks as `depth` times the same matrices, each stacked along its outputs."""
    width = b.heads_width or b.hidden
    attention = (
        Matrix("vision.qkv", 3 * width, b.hidden, Shard.COLUMN, bias=b.bias),
        Matrix("vision.proj", b.hidden, width, Shard.ROW, bias=b.bias),
    )
    matrices = [*attention, *feed_forward(b.hidden, b.intermediate, "vision.mlp", b.names, bias=b.bias)] * b.depth
    if b.replicated:
        matrices = [replace(m, shard=Shard.REPLICATED) for m in matrices]
    lengths = (b.hidden * b.norm_width,) * b.norms_per_block + (b.head_norms,) * 2 * bool(b.head_norms)
    return matrices, list(norms(*lengths)) * b.depth


def _patches(hidden: int, inputs: int, *, bias: bool = True) -> Matrix:
    return Matrix("vision.patch_embed", hidden, inputs, Shard.REPLICATED, bias=bias)


# The largest image of Qwen's processors (preprocessor_config.json): 16,384 tokens of 2 × 2 patches.
_QWEN_ITEM_TOKENS, _QWEN_MERGED = 16384, 4


def _qwen_encoder(hidden: int) -> Encoder:
    """At the rotary embedding of a block: the residual, and 13 of its width that heads share out (queries, keys and
    values, their copies, rotary halves in float32). 14 in all is read off one published start-up (Qwen3.5-35B-A3B on an
    A100, vLLM 0.19: 1.9 GiB).
    """
    elements = _QWEN_ITEM_TOKENS * _QWEN_MERGED * hidden
    return Encoder(_QWEN_ITEM_TOKENS, elements, 13 * elements)


def qwen3_vision(fields: Fields) -> Tower:
    """Positions are learned; a merger of 2 × 2 patches at the end, and after the layers named for deep stacking."""
    v = fields.section("vision_config")
    hidden = v.size("hidden_size")
    matrices, vectors = _blocks(_Blocks(v.size("depth"), hidden, v.size("intermediate_size")))
    merged = hidden * v.size("spatial_merge_size", default=2) ** 2
    out = v.size("out_hidden_size")
    deep = len(v.numbers("deepstack_visual_indexes") or ())
    merger = [
        Matrix("vision.merger.linear_fc1", merged, merged, Shard.COLUMN, bias=True),
        Matrix("vision.merger.linear_fc2", out, merged, Shard.ROW, bias=True),
    ]
    matrices += [
        _patches(
            hidden,
            v.size("in_channels", default=3) * v.size("temporal_patch_size", default=2) * v.size("patch_size") ** 2,
        ),
        Matrix("vision.pos_embed", v.size("num_position_embeddings"), hidden, Shard.REPLICATED),
        *merger * (1 + deep),
    ]
    vectors += [*norms(2 * hidden), *norms(2 * merged) * deep]
    return Tower(tuple(matrices), tuple(vectors), _qwen_encoder(hidden))


def qwen2_vision(fields: Fields) -> Tower:
    """Qwen2-VL: plain feed-forwards; Qwen2.5-VL: gated ones and RMSNorms (told apart by `intermediate_size`)."""
    v = fields.section("vision_config")
    gated = v.values.get("intermediate_size") is not None
    hidden = v.size("hidden_size") if gated else v.size("embed_dim")
    width = v.size("intermediate_size") if gated else int(hidden * v.size("mlp_ratio", default=4))
    norm_width = 1 if gated else 2
    blocks = _Blocks(v.size("depth"), hidden, width, _GATED if gated else _PLAIN, norm_width=norm_width)
    matrices, vectors = _blocks(blocks)
    merged = hidden * v.size("spatial_merge_size", default=2) ** 2
    out = v.size("out_hidden_size") if gated else v.size("hidden_size")
    inputs = (
        v.size("in_channels", "in_chans", default=3)
        * v.size("temporal_patch_size", default=2)
        * v.size("patch_size") ** 2
    )
    matrices += [
        _patches(hidden, inputs, bias=False),
        Matrix("vision.merger.0", merged, merged, Shard.COLUMN, bias=True),
        Matrix("vision.merger.2", out, merged, Shard.ROW, bias=True),
    ]
    return Tower(tuple(matrices), (*vectors, *norms(norm_width * hidden)), _qwen_encoder(hidden))


def gemma3_vision(fields: Fields) -> Tower:
    """SigLIP, a norm, and one projection into the language model."""
    v = fields.section("vision_config")
    hidden, patch = v.size("hidden_size"), v.size("patch_size")
    matrices, vectors = _blocks(_Blocks(v.size("num_hidden_layers"), hidden, v.size("intermediate_size")))
    matrices += [
        _patches(hidden, 3 * patch**2),
        Matrix("vision.position_embedding", (v.size("image_size") // patch) ** 2, hidden, Shard.REPLICATED),
        Matrix("mm_input_projection", fields.size("hidden_size"), hidden, Shard.REPLICATED),
    ]
    return Tower(tuple(matrices), (*vectors, *norms(2 * hidden, hidden)))


def gemma4_vision(fields: Fields) -> Tower:
    """Gemma's own blocks as an encoder, on every rank whole; positions in two tables; one projection."""
    v = fields.section("vision_config")
    hidden, heads = v.size("hidden_size"), v.size("num_attention_heads")
    head_dim = v.size("head_dim", default=hidden // heads)
    blocks = _Blocks(
        v.size("num_hidden_layers"),
        hidden,
        v.size("intermediate_size"),
        _GATED,
        bias=False,
        norm_width=1,
        replicated=True,
        norms_per_block=4,
        head_norms=head_dim,
    )
    matrices, vectors = _blocks(blocks)
    matrices += [
        _patches(hidden, 3 * v.size("patch_size") ** 2, bias=False),
        Matrix("vision.position_embedding_table", 2 * v.size("position_embedding_size"), hidden, Shard.REPLICATED),
        Matrix("embed_vision", fields.size("hidden_size"), hidden, Shard.REPLICATED),
    ]
    return Tower(tuple(matrices), tuple(vectors))


def kimi_vision(fields: Fields) -> Tower:
    """MoonViT: LayerNorms, learned positions; a projector over 2 × 2 patches."""
    v = fields.section("vision_config")
    hidden = v.size("vt_hidden_size")
    inner = v.size("vt_intermediate_size")
    with_bias = v.text("norm_type", "layernorm") == "layernorm"
    blocks = _Blocks(
        v.size("vt_num_hidden_layers"),
        hidden,
        inner,
        bias=with_bias,
        norm_width=2 if with_bias else 1,
        heads_width=v.optional("qkv_hidden_size"),
    )
    matrices, vectors = _blocks(blocks)
    kernel = v.numbers("merge_kernel_size") or (2, 2)
    merged = hidden * kernel[0] * kernel[1]
    text = v.size("text_hidden_size", default=fields.size("hidden_size"))
    positions = v.size("init_pos_emb_height") * v.size("init_pos_emb_width")
    matrices += [
        _patches(hidden, 3 * v.size("patch_size") ** 2, bias=with_bias),
        Matrix("vision.pos_emb", positions, hidden, Shard.REPLICATED),
        Matrix("mm_projector.linear_1", merged, merged, Shard.REPLICATED, bias=with_bias),
        Matrix("mm_projector.linear_2", text, merged, Shard.REPLICATED, bias=with_bias),
    ]
    around = (2 * hidden, 2 * hidden) if with_bias else (hidden, text)
    return Tower(tuple(matrices), (*vectors, *norms(*around)))


# Transformers' defaults of Llama4VisionConfig, which checkpoints' configs leave out in part.
_LLAMA4 = {
    "hidden_size": 768,
    "num_hidden_layers": 34,
    "intermediate_size": 5632,
    "image_size": 448,
    "patch_size": 14,
    "projector_input_dim": 4096,
    "projector_output_dim": 4096,
    "vision_output_dim": 7680,
}


def llama4_vision(fields: Fields) -> Tower:
    """A class token beside the patches; pixel shuffle and two projections."""
    stated = fields.values.get("vision_config")
    v = Fields({**_LLAMA4, **(stated if isinstance(stated, dict) else {})})
    hidden, patch = v.size("hidden_size"), v.size("patch_size")
    matrices, vectors = _blocks(_Blocks(v.size("num_hidden_layers"), hidden, v.size("intermediate_size")))
    matrices += [
        Matrix("vision.patch_embedding", hidden, 3 * patch**2, Shard.COLUMN),
        Matrix("vision.positional_embedding", (v.size("image_size") // patch) ** 2 + 1, hidden, Shard.REPLICATED),
        Matrix("vision_adapter.fc1", v.size("projector_input_dim"), v.size("intermediate_size"), Shard.COLUMN),
        Matrix("vision_adapter.fc2", v.size("projector_output_dim"), v.size("projector_input_dim"), Shard.ROW),
        Matrix("multi_modal_projector", fields.size("hidden_size"), v.size("vision_output_dim"), Shard.COLUMN),
    ]
    return Tower(tuple(matrices), (*vectors, *norms(hidden, 2 * hidden, 2 * hidden)))


def pixtral_vision(fields: Fields) -> Tower:
    """Pixtral as Mistral 3 wraps it: RMSNorms, gated feed-forwards, no biases; merged patches, two projections."""
    v = fields.section("vision_config")
    hidden = v.size("hidden_size")
    blocks = _Blocks(v.size("num_hidden_layers"), hidden, v.size("intermediate_size"), _GATED, bias=False, norm_width=1)
    matrices, vectors = _blocks(blocks)
    merge = fields.size("spatial_merge_size", default=2)
    text = fields.size("hidden_size")
    bias = fields.flag("multimodal_projector_bias", default=False)
    matrices += [
        _patches(hidden, v.size("num_channels", default=3) * v.size("patch_size") ** 2, bias=False),
        Matrix("patch_merger.merging_layer", hidden, hidden * merge**2, Shard.REPLICATED),
        Matrix("multi_modal_projector.linear_1", text, hidden, Shard.COLUMN, bias=bias),
        Matrix("multi_modal_projector.linear_2", text, text, Shard.ROW, bias=bias),
    ]
    return Tower(tuple(matrices), (*vectors, *norms(hidden, hidden)))
