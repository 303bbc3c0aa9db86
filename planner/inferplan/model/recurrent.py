"""The token mixers with a state of fixed size: Mamba 1 and 2, delta nets, linear attention, short convolution.

Projections that checkpoints fuse are listed as their parts under the one name, as each part is divided in its own way.
"""

from __future__ import annotations

from dataclasses import dataclass

from inferplan.model.architecture import Matrix, Recurrent, RecurrentKind, Shard, Vector
from inferplan.model.parts import norms


@dataclass(frozen=True, slots=True)
class Mamba2:
    """`inner`: channels, `heads` times their width; `groups` share B and C of `state` elements each."""

    hidden: int
    inner: int
    heads: int
    head_dim: int
    state: int
    groups: int
    kernel: int
    conv_bias: bool = True
    bias: bool = False
    normed: bool = True
    name: str = "mixer"
    state_dtype: str | None = None


def mamba2(m: Mamba2) -> Recurrent:
    grouped = m.groups * m.state
    projection, convolution = f"{m.name}.in_proj", f"{m.name}.conv1d"
    return Recurrent(
        kind=RecurrentKind.MAMBA2,
        heads=m.heads,
        state_per_head=m.head_dim * m.state,
        conv_kernel=m.kernel,
        conv_channels=m.inner,
        groups=m.groups,
        group_channels=2 * m.state,
        state_dtype=m.state_dtype,
        matrices=(
            Matrix(projection, 2 * m.inner, m.hidden, Shard.COLUMN, bias=m.bias),
            Matrix(projection, grouped, m.hidden, Shard.KV, bias=m.bias, group=m.state),
            Matrix(projection, grouped, m.hidden, Shard.KV, bias=m.bias, group=m.state),
            Matrix(projection, m.heads, m.hidden, Shard.COLUMN, bias=m.bias),
            Matrix(convolution, m.inner, m.kernel, Shard.COLUMN, bias=m.conv_bias, quantizable=False),
            Matrix(convolution, grouped, m.kernel, Shard.KV, bias=m.conv_bias, quantizable=False, group=m.state),
            Matrix(convolution, grouped, m.kernel, Shard.KV, bias=m.conv_bias, quantizable=False, group=m.state),
            Matrix(f"{m.name}.out_proj", m.hidden, m.inner, Shard.ROW, bias=m.bias),
        ),
        vectors=(
            Vector("A", m.heads, Shard.COLUMN, dtype="float32"),
            Vector("D", m.heads, Shard.COLUMN),
            Vector("dt_bias", m.heads, Shard.COLUMN),
            *((Vector("norm", m.inner, Shard.COLUMN),) if m.normed else ()),
        ),
    )


@dataclass(frozen=True, slots=True)
class Mamba1:
    """`inner` channels with `state` elements each; `rank` of the time step's projection."""

    hidden: int
    inner: int
    state: int
    rank: int
    kernel: int
    conv_bias: bool = True
    bias: bool = False
    normed: bool = False  # norms of the time step, B and C


def mamba1(m: Mamba1) -> Recurrent:
    name = "mixer"
    return Recurrent(
        kind=RecurrentKind.MAMBA1,
        heads=m.inner,
        state_per_head=m.state,
        conv_kernel=m.kernel,
        conv_channels=m.inner,
        matrices=(
            Matrix(f"{name}.in_proj", 2 * m.inner, m.hidden, Shard.COLUMN, bias=m.bias),
            Matrix(f"{name}.conv1d", m.inner, m.kernel, Shard.COLUMN, bias=m.conv_bias, quantizable=False),
            Matrix(f"{name}.x_proj", m.rank + 2 * m.state, m.inner, Shard.ROW),
            Matrix(f"{name}.dt_proj", m.inner, m.rank, Shard.COLUMN, bias=True),
            Matrix(f"{name}.out_proj", m.hidden, m.inner, Shard.ROW, bias=m.bias),
        ),
        vectors=(
            Vector("A", m.inner * m.state, Shard.COLUMN, dtype="float32"),
            Vector("D", m.inner, Shard.COLUMN),
            *(norms(m.rank, m.state, m.state) if m.normed else ()),
        ),
    )


@dataclass(frozen=True, slots=True)
class GatedDelta:
    hidden: int
    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    kernel: int
    split_projections: bool = False  # qkv, z, b and a by themselves, not two fused ones
    state_dtype: str | None = None


def gated_delta(g: GatedDelta) -> Recurrent:
    keys, values = g.key_heads * g.key_dim, g.value_heads * g.value_dim
    prefix = "linear_attn"
    qkv, z, b, a = (
        ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")
        if g.split_projections
        else ("in_proj_qkvz", "in_proj_qkvz", "in_proj_ba", "in_proj_ba")
    )
    return Recurrent(
        kind=RecurrentKind.GATED_DELTA,
        heads=g.value_heads,
        state_per_head=g.value_dim * g.key_dim,
        conv_kernel=g.kernel,
        conv_channels=2 * keys + values,
        state_dtype=g.state_dtype,
        matrices=(
            Matrix(f"{prefix}.{qkv}", 2 * keys + values, g.hidden, Shard.COLUMN),
            Matrix(f"{prefix}.{z}", values, g.hidden, Shard.COLUMN),
            Matrix(f"{prefix}.{b}", g.value_heads, g.hidden, Shard.COLUMN),
            Matrix(f"{prefix}.{a}", g.value_heads, g.hidden, Shard.COLUMN),
            Matrix(f"{prefix}.conv1d", 2 * keys + values, g.kernel, Shard.COLUMN, quantizable=False),
            Matrix(f"{prefix}.out_proj", g.hidden, values, Shard.ROW),
        ),
        vectors=(
            Vector("dt_bias", g.value_heads, Shard.COLUMN),
            Vector("A_log", g.value_heads, Shard.COLUMN, dtype="float32"),
            *norms(g.value_dim),
        ),
    )


@dataclass(frozen=True, slots=True)
class KimiDelta:
    """`full_rank_gate`: the output gate is one projection, not two through a head's width. `bounded`: its decay is."""

    hidden: int
    heads: int
    head_dim: int
    kernel: int
    full_rank_gate: bool
    bounded: bool


def kimi_delta(k: KimiDelta) -> Recurrent:
    inner = k.heads * k.head_dim
    prefix = "self_attn"
    gate: tuple[Matrix, ...] = (Matrix(f"{prefix}.g_proj", inner, k.hidden, Shard.COLUMN),)
    if not k.full_rank_gate:
        gate = (
            Matrix(f"{prefix}.g_a_proj", k.head_dim, k.hidden, Shard.REPLICATED),
            Matrix(f"{prefix}.g_b_proj", inner, k.head_dim, Shard.COLUMN),
        )
    convolutions = tuple(
        Matrix(f"{prefix}.{name}_conv1d", inner, k.kernel, Shard.COLUMN, quantizable=False, dtype="float32")
        for name in ("q", "k", "v")
    )
    return Recurrent(
        kind=RecurrentKind.BOUNDED_KIMI_DELTA if k.bounded else RecurrentKind.KIMI_DELTA,
        heads=k.heads,
        state_per_head=k.head_dim * k.head_dim,
        conv_kernel=k.kernel,
        conv_channels=3 * inner,
        state_dtype="float32",
        matrices=(
            *(Matrix(f"{prefix}.{name}_proj", inner, k.hidden, Shard.COLUMN) for name in ("q", "k", "v")),
            Matrix(f"{prefix}.f_a_proj", k.head_dim, k.hidden, Shard.REPLICATED),
            Matrix(f"{prefix}.f_b_proj", inner, k.head_dim, Shard.COLUMN),
            Matrix(f"{prefix}.b_proj", k.heads, k.hidden, Shard.COLUMN),
            *gate,
            *convolutions,
            Matrix(f"{prefix}.o_proj", k.hidden, inner, Shard.ROW),
        ),
        vectors=(
            Vector("dt_bias", inner, Shard.COLUMN, dtype="float32"),
            Vector("A_log", k.heads, Shard.COLUMN, dtype="float32"),
            *norms(k.head_dim),
        ),
    )


def lightning(hidden: int, heads: int, head_dim: int) -> Recurrent:
    """Linear attention with a fixed decay per head; the state is kept in the model dtype."""
    inner = heads * head_dim
    return Recurrent(
        kind=RecurrentKind.LINEAR,
        heads=heads,
        state_per_head=head_dim * head_dim,
        conv_kernel=0,
        conv_channels=0,
        matrices=(
            Matrix("self_attn.qkv_proj", 3 * inner, hidden, Shard.COLUMN),
            Matrix("self_attn.output_gate", inner, hidden, Shard.COLUMN),
            Matrix("self_attn.out_proj", hidden, inner, Shard.ROW),
        ),
        vectors=(Vector("norm", inner, Shard.COLUMN),),
    )


def short_convolution(hidden: int, inner: int, kernel: int, *, bias: bool) -> Recurrent:
    """A gated depthwise convolution over the last few tokens."""
    return Recurrent(
        kind=RecurrentKind.CONVOLUTION,
        heads=0,
        state_per_head=0,
        conv_kernel=kernel,
        conv_channels=inner,
        matrices=(
            Matrix("conv.in_proj", 3 * inner, hidden, Shard.COLUMN, bias=bias),
            Matrix("conv.conv", inner, kernel, Shard.COLUMN, bias=bias, quantizable=False),
            Matrix("conv.out_proj", hidden, inner, Shard.ROW, bias=bias),
        ),
    )
