"""Lists as the API server really answers them, empty ones included."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from cluster import Cluster

from inferplan_operator.cluster.kinds import WATCHED, Kind
from inferplan_operator.cluster.server import ApiServer, load_credentials


@pytest.fixture
async def server(with_nodes: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiServer]:
    monkeypatch.setenv("KUBECONFIG", str(with_nodes.kubeconfig("operator")))
    found = ApiServer.connect(await load_credentials(), lambda _verb, _plural, _status: None)
    yield found
    await found.close()


@pytest.mark.parametrize("kind", WATCHED, ids=lambda k: k.kind)
async def test_metadata_lists_name_what_lists_name(server: ApiServer, kind: Kind) -> None:
    whole = await server.list(kind)
    metadata = await server.list_metadata(kind)
    assert {i["metadata"]["name"] for i in metadata.items} == {i["metadata"]["name"] for i in whole.items}


@pytest.mark.parametrize("kind", [k for k in WATCHED if k.namespaced], ids=lambda k: k.kind)
async def test_an_empty_list_is_a_list(server: ApiServer, kind: Kind) -> None:
    for listing in (
        await server.list(kind, "no-such-namespace"),
        await server.list_metadata(kind, "no-such-namespace"),
    ):
        assert list(listing.items) == []
        assert listing.resource_version
