"""From layers to KV-cache groups, blocks, tokens and concurrency, as vLLM 0.32/0.33 counts.

Each layer has a spec (block size, bytes of one block). Layers are gathered into groups that share one pool:

    bytes_per_block  = max over groups of the sum of its layers' page sizes
    num_blocks       = available // bytes_per_block
    blocks_per_req   = per group; full: ⌈max_model_len / block⌉, sliding W: ⌈min(W−1+in_flight, max_len) / block⌉ + 1
    max_concurrency  = num_blocks / Σ blocks_per_req
    reported tokens  = ⌊max_concurrency × max_model_len⌋   (not num_blocks × block_size; before 0.21 otherwise)

A start needs room for one request of max_model_len plus one (null) block. Source: facts on vLLM 0.32.0, checked row by
row against its own planning code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from inferplan.errors import InvalidInput
from inferplan.model import Attention, Layer

DEFAULT_BLOCK_SIZE = 16

# Bytes of one head's K (or V) row of `d` elements: element bytes and per-head scale bytes. Page sizes measured on
# vLLM 0.32 at head_dim 128 (bf16 512, fp8 256, int8 per token and head 264, int4 136, nvfp4 144 for K and V).
_ELEMENT = {"bfloat16": 2.0, "float16": 2.0, "float32": 4.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5, "nvfp4": 0.5}
_SCALED = {
    "int8_per_token_head": ("int8", 4.0, 0.0),
    "fp8_per_token_head": ("fp8", 4.0, 0.0),
    "int4_per_token_head": ("int4", 4.0, 0.0),
    "nvfp4": ("nvfp4", 0.0, 1 / 16),
}
# K and V of different width, as averages (for equal K and V head dimensions), the first and last two layers kept in the
# model dtype, blocks of 32: vLLM 0.32 on H100, two models. 196 and 134 bytes a token and head at head_dim 128.
_TURBOQUANT_KEPT_LAYERS = 2
_TURBOQUANT = {"turboquant_k8v4": (0.75, 2.0), "turboquant_4bit_nc": (0.5, 3.0)}
_TURBOQUANT_BLOCK_SIZE = 32
_FP8_NAMES = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc")


@dataclass(frozen=True, slots=True)
class KVDtype:
    """Storage of K and V: `row_bytes(d)` bytes for one head's vector of `d` elements (K and V averaged).

    `kept_layers`: so many first and so many last layers are stored with `kept_element_bytes` an element instead.
    """

    name: str
    element_bytes: float
    scale_bytes_per_row: float = 0.0
    scale_bytes_per_element: float = 0.0
    default_block_size: int = DEFAULT_BLOCK_SIZE
    kept_layers: int = 0
    kept_element_bytes: float = 0.0

    def row_bytes(self, elements: int) -> float:
        return elements * (self.element_bytes + self.scale_bytes_per_element) + self.scale_bytes_per_row

    def of_layer(self, index: int, layers: int) -> KVDtype:
        """How layer `index` of `layers` is stored."""
        if self.kept_layers <= index < layers - self.kept_layers:
            return self
        return KVDtype(self.name, self.kept_element_bytes) if self.kept_layers else self


def kv_dtype_named(name: str, model_dtype: str, declared: str | None) -> KVDtype:
    """What `--kv-cache-dtype` resolves to; `auto` is the model dtype unless the checkpoint declares a KV scheme.

    Raises InvalidInput listing the names that work.
    """
    key = name.lower()
    if key == "auto":
        key = declared or model_dtype
    if key in _FP8_NAMES:
        return KVDtype("fp8", _ELEMENT["fp8"])
    if key in _SCALED:
        element, per_row, per_element = _SCALED[key]
        return KVDtype(key, _ELEMENT[element], per_row, per_element)
    if key in _TURBOQUANT:
        element_bytes, per_row = _TURBOQUANT[key]
        kept = _ELEMENT[model_dtype]
        return KVDtype(key, element_bytes, per_row, 0.0, _TURBOQUANT_BLOCK_SIZE, _TURBOQUANT_KEPT_LAYERS, kept)
    if key in ("bfloat16", "float16", "float32"):
        return KVDtype(key, _ELEMENT[key])
    known = ", ".join(["auto", "bfloat16", "float16", *_FP8_NAMES, *sorted(_SCALED), *_TURBOQUANT])
    raise InvalidInput(f"kv_cache_dtype={name!r} is not modelled; known: {known}")


@dataclass(frozen=True, slots=True)
class Spec:
    """What one layer keeps per block. `reach`: tokens of a window (None: all of them)."""

    kind: str
    block_size: int
    page_size_bytes: int
    reach: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share block tables: a block of the group is `block_bytes`, of which a request of max_model_len
    holds `blocks_per_request`. `spec.page_size_bytes` is one layer's page, or all of them where they differ.
    """

    spec: Spec
    layers: int
    blocks_per_request: int
    block_bytes: int


@dataclass(frozen=True, slots=True)
class Request:
    """What decides how many blocks a request of full length takes."""

    max_model_len: int
    in_flight_tokens: int
    decode_context_parallel: int


def layer_spec(layer: Layer, tp: int, block_size: int, dtype: KVDtype) -> Spec | None:
    """The KV spec of a layer on one rank; None when it keeps no KV cache."""
    mixer = layer.mixer
    if not isinstance(mixer, Attention):
        return None
    heads = max(1, mixer.kv_heads // tp)
    page = block_size * heads * (dtype.row_bytes(mixer.head_dim) + dtype.row_bytes(mixer.v_head_dim))
    if mixer.chunk_tokens is not None:
        return Spec("chunked", block_size, round(page), mixer.chunk_tokens)
    if mixer.window_tokens is not None:
        return Spec("sliding", block_size, round(page), mixer.window_tokens)
    return Spec("full", block_size, round(page))


def blocks_per_request(spec: Spec, request: Request) -> int:
    """Blocks of a group that one request of max_model_len holds."""
    if spec.reach is None:
        return math.ceil(math.ceil(request.max_model_len / request.decode_context_parallel) / spec.block_size)
    if spec.kind == "chunked":
        held = min(spec.reach + request.in_flight_tokens, request.max_model_len)
        return math.ceil(held / spec.block_size)
    held = min(spec.reach - 1 + request.in_flight_tokens, request.max_model_len)
    return math.ceil(held / spec.block_size) + 1


def group_layers(buckets: tuple[tuple[Spec, int], ...], request: Request, *, hybrid: bool) -> tuple[Group, ...]:
    """vLLM's grouping of `(spec, layers)` buckets: one group where all layers cache alike, else equal-sized groups.

    Full attention with pages of several sizes is one group whose page is the sum. With pages of equal size, group size
    is the smallest bucket's layer count, unless the largest is below 1.5 times it, then the largest; each bucket makes
    ⌈n / size⌉ groups. `hybrid` False (--disable-hybrid-kv-cache-manager): windows are stored like full attention.
    """
    if not buckets:
        return ()
    if not hybrid and len(buckets) > 1:
        buckets = tuple((_as_full(spec), count) for spec, count in buckets)
    if len({(spec.kind, spec.reach, spec.block_size) for spec, _ in buckets}) == 1:
        return (_uniform_group(buckets, request),)
    smallest, largest = min(count for _, count in buckets), max(count for _, count in buckets)
    size = largest if largest < 1.5 * smallest else smallest
    groups: list[Group] = []
    for spec, count in buckets:
        parts = math.ceil(count / size)
        blocks = blocks_per_request(spec, request)
        # Striding: the first groups get the remainder.
        for part in range(parts):
            layers = (count - part + parts - 1) // parts
            groups.append(Group(spec, layers, blocks, layers * spec.page_size_bytes))
    return tuple(groups)


def _as_full(spec: Spec) -> Spec:
    return Spec("full", spec.block_size, spec.page_size_bytes)


def _uniform_group(buckets: tuple[tuple[Spec, int], ...], request: Request) -> Group:
    """One group of all layers."""
    first = buckets[0][0]
    layers = sum(count for _, count in buckets)
    total = sum(spec.page_size_bytes * count for spec, count in buckets)
    pages = {spec.page_size_bytes for spec, _ in buckets}
    page = first.page_size_bytes if len(pages) == 1 else total
    spec = Spec(first.kind, first.block_size, page, first.reach)
    return Group(spec, layers, blocks_per_request(first, request), total)


def bytes_per_block(groups: tuple[Group, ...]) -> int:
    """Bytes of one block of the shared pool (padding layers of smaller groups included)."""
    return max((g.block_bytes for g in groups), default=0)
