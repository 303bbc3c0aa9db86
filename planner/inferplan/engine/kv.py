"""From layers to KV-cache groups, blocks, tokens and concurrency, as vLLM 0.32/0.33 counts.

Each layer has a spec (block size, bytes of one block). Layers are gathered into groups that share one pool:

    bytes_per_block  = max over groups of the sum of its layers' page sizes
    num_blocks       = available // bytes_per_block
    blocks_per_req   = per group; full: ⌈max_model_len / block⌉, sliding W: ⌈min(W−1+in_flight, max_len) / block⌉ + 1,
                       chunked: ⌈min(chunk+in_flight, max_len) / block⌉, state: a fixed number
    max_concurrency  = num_blocks / Σ blocks_per_req
    reported tokens  = ⌊max_concurrency × max_model_len⌋   (not num_blocks × block_size; before 0.21 otherwise)

A start needs room for one request of max_model_len plus one (null) block. Groups are made over the layers of the whole
model; a pipeline stage holds its own layers of each. Source: vLLM 0.32.0 (`kv_cache_utils`), checked row by row against
its own planning code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache


class Kind(Enum):
    """How long a layer keeps what it cached of a request."""

    FULL = "full"
    SLIDING = "sliding"
    CHUNKED = "chunked"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class Spec:
    """What one layer keeps per block. `reach`: tokens of a window or chunk (None: all of them).

    `latent`: rows are read whole, so that a page can't be padded. `state_blocks`: blocks that a request holds of a
    state.
    """

    kind: Kind
    block_size: int
    page_size_bytes: int
    reach: int | None = None
    latent: bool = False
    state_blocks: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share block tables: a block of the group is `block_bytes`, of which a request of max_model_len
    holds `blocks_per_request`. `page_size_bytes` is one layer's page, or all of them where they differ.
    """

    kind: Kind
    block_size: int
    page_size_bytes: int
    layers: int
    blocks_per_request: int
    block_bytes: int
    reach: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What decides how many blocks a request of full length takes."""

    max_model_len: int
    in_flight_tokens: int
    decode_context_parallel: int


Members = tuple[tuple[int, Spec], ...]  # (decoder layer, what it caches)


class NoCommonPage(Exception):
    """Pages of different sizes that no block size unifies."""


def blocks_per_request(spec: Spec, request: Request) -> int:
    """Blocks of a group that one request of max_model_len holds."""
    if spec.kind is Kind.STATE:
        return spec.state_blocks
    if spec.reach is None:
        return math.ceil(math.ceil(request.max_model_len / request.decode_context_parallel) / spec.block_size)
    if spec.kind is Kind.CHUNKED:
        held = min(spec.reach + request.in_flight_tokens, request.max_model_len)
        return math.ceil(held / spec.block_size)
    held = min(spec.reach - 1 + request.in_flight_tokens, request.max_model_len)
    return math.ceil(held / spec.block_size) + 1


@lru_cache(maxsize=4096)
def group_layers(members: Members, *, hybrid: bool, packed: bool) -> tuple[Members, ...]:
    """vLLM's grouping of all layers that cache.

    One group where all cache alike, or differ in page size only. Else, where pages of several sizes lie side by side in
    a block (`packed`), by patterns of them; else pages are made equal and layers split into groups of equal size.
    `hybrid` False (--disable-hybrid-kv-cache-manager): windows and chunks are stored like full attention.
    Raises NoCommonPage where nothing unifies them.
    """
    if not hybrid:
        members = _promoted(members)
    specs = [spec for _, spec in members]
    if not specs:
        return ()
    if _same_type(specs):
        return (members,)
    if packed and len({s.page_size_bytes for s in specs}) > 1:
        return _packed_groups(members)
    return _equal_groups(_unified(members))


def _same_type(specs: Iterable[Spec]) -> bool:
    """Whether layers need the same number of token slots, whatever their page."""
    return len({(s.kind, s.reach, s.block_size, s.state_blocks) for s in specs}) == 1


def _promoted(members: Members) -> Members:
    """Windows and chunks as full attention, where there is full attention too. Raises NoCommonPage with states."""
    specs = [spec for _, spec in members]
    if _same_type(specs):
        return members
    full_sizes = {s.block_size for s in specs if s.kind is Kind.FULL}
    promoted = members
    if full_sizes:
        size = next(iter(full_sizes)) if len(full_sizes) == 1 else None
        promoted = tuple((layer, _as_full(spec, size)) for layer, spec in members)
    if not _same_type(spec for _, spec in promoted):
        raise NoCommonPage
    return promoted


def _as_full(spec: Spec, block_size: int | None) -> Spec:
    if spec.kind not in (Kind.SLIDING, Kind.CHUNKED):
        return spec
    size = block_size or spec.block_size
    return Spec(Kind.FULL, size, spec.page_size_bytes * size // spec.block_size, latent=spec.latent)


def _unified(members: Members) -> Members:
    """Pages of one size: smaller ones get larger blocks where that divides, or are padded; latent ones can't be."""
    largest = max(spec.page_size_bytes for _, spec in members)
    unified = []
    for layer, spec in members:
        page = spec.page_size_bytes
        if page == largest or spec.kind is Kind.STATE:
            unified.append((layer, replace(spec, page_size_bytes=largest)))
        elif largest % page == 0:
            unified.append(
                (layer, replace(spec, page_size_bytes=largest, block_size=spec.block_size * largest // page))
            )
        elif not spec.latent:
            unified.append((layer, replace(spec, page_size_bytes=largest)))
        else:
            raise NoCommonPage
    return tuple(unified)


def _equal_groups(members: Members) -> tuple[Members, ...]:
    """Groups of as many layers as the smallest bucket has, or the largest where that is below 1.5 times it."""
    buckets: dict[Spec, list[tuple[int, Spec]]] = {}
    for member in members:
        buckets.setdefault(member[1], []).append(member)
    counts = [len(bucket) for bucket in buckets.values()]
    size = max(counts) if max(counts) < 1.5 * min(counts) else min(counts)
    groups: list[Members] = []
    for bucket in buckets.values():
        parts = math.ceil(len(bucket) / size)
        groups.extend(tuple(bucket[part::parts]) for part in range(parts))
    return tuple(groups)


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Layers of one type; `patterns`: how often its set of page sizes repeats (0: not evenly)."""

    members: Members
    by_page: tuple[Members, ...]

    @property
    def repeats(self) -> int:
        return max(len(page) for page in self.by_page)

    @property
    def balanced(self) -> bool:
        return len({len(page) for page in self.by_page}) == 1

    def widest(self, parts: int) -> int:
        return sum(math.ceil(len(page) / parts) * page[0][1].page_size_bytes for page in self.by_page)


def _packed_groups(members: Members) -> tuple[Members, ...]:
    """Buckets of one type; those that repeat a pattern of pages are split so that all groups repeat it about equally
    often, those that hold a state or a window go down to what a block has room for.
    """
    buckets = _type_buckets(members)
    balanced = [bucket for bucket in buckets if bucket.balanced]
    floor = max((b.repeats for b in balanced if len(b.by_page) > 1), default=0)
    repeats = _least_padding([b.repeats for b in balanced], floor) if floor else None

    def parts_of(bucket: _Bucket) -> int:
        return math.ceil(bucket.repeats / repeats) if repeats and bucket.balanced else 1

    def is_state(bucket: _Bucket) -> bool:
        kind = bucket.members[0][1].kind
        return kind is Kind.STATE or (repeats is None and kind is Kind.SLIDING)

    anchor = max(b.widest(len(b.members) if is_state(b) else parts_of(b)) for b in buckets)
    groups: list[Members] = []
    for bucket in buckets:
        parts = parts_of(bucket)
        if is_state(bucket):
            room = max(anchor // bucket.members[0][1].page_size_bytes, 1)
            parts = max(parts, math.ceil(len(bucket.members) / room))
        if parts == 1:
            groups.append(bucket.members)
            continue
        patterns = list(zip(*bucket.by_page, strict=False))
        groups.extend(tuple(m for pattern in patterns[part::parts] for m in pattern) for part in range(parts))
    return tuple(groups)


def _type_buckets(members: Members) -> list[_Bucket]:
    found: dict[tuple[Kind, int | None, int, int], list[tuple[int, Spec]]] = {}
    for member in members:
        spec = member[1]
        found.setdefault((spec.kind, spec.reach, spec.block_size, spec.state_blocks), []).append(member)
    buckets = []
    for bucket in found.values():
        pages: dict[int, list[tuple[int, Spec]]] = {}
        for member in bucket:
            pages.setdefault(member[1].page_size_bytes, []).append(member)
        buckets.append(_Bucket(tuple(bucket), tuple(tuple(page) for page in pages.values())))
    return buckets


def _least_padding(values: list[int], least: int) -> int:
    """The size from `least` on that rounds the values up by the least in all; ties go to the larger."""
    candidates = range(least, max(values) + 1)
    if not candidates:
        return least
    return min(candidates, key=lambda size: (sum(-value % size for value in values), -size))


def stage_groups(
    groups: tuple[Members, ...], first: int, count: int, request: Request, *, packed: bool
) -> tuple[Group, ...]:
    """The groups as a pipeline stage of layers `first` to `first + count - 1` holds them."""
    found = []
    for members in groups:
        mine = [spec for layer, spec in members if first <= layer < first + count]
        found.append(_group(members[0][1], mine, request, side_by_side=packed))
    return tuple(found)


def _group(first: Spec, specs: list[Spec], request: Request, *, side_by_side: bool) -> Group:
    total = sum(spec.page_size_bytes for spec in specs)
    pages = {spec.page_size_bytes for spec in specs}
    return Group(
        kind=first.kind,
        block_size=first.block_size,
        page_size_bytes=total if len(pages) > 1 or side_by_side else first.page_size_bytes,
        layers=len(specs),
        blocks_per_request=blocks_per_request(first, request),
        block_bytes=total,
        reach=first.reach,
    )


def bytes_per_block(groups: tuple[Group, ...]) -> int:
    """Bytes of one block of the shared pool (padding layers of smaller groups included)."""
    return max((g.block_bytes for g in groups), default=0)
