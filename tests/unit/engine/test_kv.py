"""Invariants of how layers are gathered into groups that share a pool, over made-up models."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from inferplan.engine import kv
from inferplan.engine.kv import Group, Kind, Members, NoCommonPage, Request, Spec

full_specs = st.builds(
    Spec,
    kind=st.just(Kind.FULL),
    block_size=st.sampled_from([16, 32, 64]),
    page_size_bytes=st.integers(1, 64).map(lambda n: n * 1024),
)
windows = st.builds(
    Spec,
    kind=st.sampled_from([Kind.SLIDING, Kind.CHUNKED]),
    block_size=st.sampled_from([16, 32]),
    page_size_bytes=st.integers(1, 64).map(lambda n: n * 1024),
    reach=st.sampled_from([128, 1024, 4096]),
)
states = st.builds(
    Spec,
    kind=st.just(Kind.STATE),
    block_size=st.just(4096),
    page_size_bytes=st.integers(1, 16).map(lambda n: n * 1024),
    state_blocks=st.integers(1, 3),
)


@st.composite
def models(draw: st.DrawFn) -> Members:
    """A few kinds of layers, alternating in some order."""
    kinds = draw(st.lists(st.one_of(full_specs, windows, states), min_size=1, max_size=4, unique=True))
    order = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=40))
    return tuple(enumerate(order))


requests = st.builds(
    Request,
    max_model_len=st.integers(1, 200_000),
    in_flight_tokens=st.integers(1, 16_384),
    decode_context_parallel=st.sampled_from([1, 2, 4]),
)


def mixes_pages(members: Members) -> bool:
    """Whether states, or windows of one reach, differ in size: packing loses layers then (vLLM too); no model does."""
    pages: dict[object, set[int]] = {}
    for _, spec in members:
        if spec.kind in (Kind.STATE, Kind.SLIDING):
            pages.setdefault((spec.kind, spec.reach), set()).add(spec.page_size_bytes)
    return any(len(sizes) > 1 for sizes in pages.values())


def grouped(members: Members, *, packed: bool) -> tuple[Members, ...]:
    assume(not (packed and mixes_pages(members)))
    try:
        return kv.group_layers(members, hybrid=True, packed=packed)
    except NoCommonPage:
        assume(False)
        raise


@given(members=models(), packed=st.booleans())
def test_every_layer_is_in_exactly_one_group(members: Members, packed: bool) -> None:
    layers = Counter(layer for group in grouped(members, packed=packed) for layer, _ in group)
    assert layers == Counter(layer for layer, _ in members)


@given(members=models(), packed=st.booleans())
def test_a_group_shares_one_block_size_reach_and_kind(members: Members, packed: bool) -> None:
    for group in grouped(members, packed=packed):
        assert len({(spec.kind, spec.reach, spec.block_size) for _, spec in group}) == 1


@given(members=models())
def test_pages_of_all_groups_are_equal_and_none_shrinks(members: Members) -> None:
    groups = grouped(members, packed=False)
    assume(len(groups) > 1)
    before = dict(members)
    assert len({spec.page_size_bytes for group in groups for _, spec in group}) == 1
    for group in groups:
        for layer, spec in group:
            assert spec.page_size_bytes / spec.block_size >= before[layer].page_size_bytes / before[layer].block_size


@given(members=models(), request_=requests, stages=st.integers(1, 4))
def test_stages_hold_what_the_whole_model_holds(members: Members, request_: Request, stages: int) -> None:
    groups = grouped(members, packed=False)
    size = -(-len(members) // stages)
    parts = [kv.stage_groups(groups, s * size, size, request_, packed=False) for s in range(stages)]
    whole = kv.stage_groups(groups, 0, len(members), request_, packed=False)
    assert sum(g.layers for part in parts for g in part) == sum(g.layers for g in whole) == len(members)
    assert max(kv.bytes_per_block(part) for part in parts) <= kv.bytes_per_block(whole)


@given(spec=st.one_of(full_specs, windows, states), request_=requests, more=st.integers(0, 10_000))
def test_a_longer_request_never_holds_fewer_blocks(spec: Spec, request_: Request, more: int) -> None:
    longer = Request(request_.max_model_len + more, request_.in_flight_tokens, request_.decode_context_parallel)
    assert 1 <= kv.blocks_per_request(spec, request_) <= kv.blocks_per_request(spec, longer)


@given(spec=windows, request_=requests)
def test_a_window_is_bounded_by_its_reach_and_the_batch_in_flight(spec: Spec, request_: Request) -> None:
    assert spec.reach is not None
    held = kv.blocks_per_request(spec, request_) * spec.block_size
    assert held <= spec.reach + request_.in_flight_tokens + 2 * spec.block_size


def test_latent_pages_are_not_padded() -> None:
    latent = Spec(Kind.FULL, 64, 5 * 1024, latent=True)
    other = Spec(Kind.SLIDING, 64, 7 * 1024, reach=128)
    with pytest.raises(NoCommonPage):
        kv.group_layers(((0, latent), (1, other)), hybrid=True, packed=False)


def test_windows_count_as_full_attention_without_the_hybrid_manager() -> None:
    members = ((0, Spec(Kind.FULL, 16, 1024)), (1, Spec(Kind.SLIDING, 16, 1024, reach=128)))
    (group,) = kv.group_layers(members, hybrid=False, packed=False)
    assert {spec.kind for _, spec in group} == {Kind.FULL}


def test_states_have_nothing_in_common_with_attention_without_the_hybrid_manager() -> None:
    members = ((0, Spec(Kind.FULL, 16, 1024)), (1, Spec(Kind.STATE, 4096, 1024, state_blocks=1)))
    with pytest.raises(NoCommonPage):
        kv.group_layers(members, hybrid=False, packed=False)


def test_a_model_without_a_cache_has_no_groups() -> None:
    assert kv.group_layers((), hybrid=True, packed=False) == ()
    assert kv.bytes_per_block(()) == 0
    assert kv.bytes_per_block((Group(Kind.FULL, 16, 1024, 2, 1, 2048),)) == 2048
