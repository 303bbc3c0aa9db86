"""The cache never goes back in time, and learns of deletions that no watch told."""

from __future__ import annotations

from typing import Any

import pytest

from inferplan_operator.cluster.cache import Cache
from inferplan_operator.cluster.kinds import DEPLOYMENTS, Key, Kind
from inferplan_operator.cluster.server import Listing
from inferplan_operator.lifecycle.types import KubeObject
from inferplan_operator.manifests import PLAN_LABEL


def deployment(version: int, name: str = "chat", uid: str = "u1", plan: str = "chat") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "a", "uid": uid, "resourceVersion": str(version)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {**metadata, "labels": {PLAN_LABEL: plan}}}


class Seen:
    def __init__(self) -> None:
        self.changes: list[tuple[Kind, KubeObject]] = []

    def __call__(self, kind: Kind, manifest: KubeObject) -> None:
        self.changes.append((kind, manifest))


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def cache(seen: Seen) -> Cache:
    return Cache(seen)


KEY = Key("a", "chat")


def version_of(cache: Cache) -> str | None:
    found = cache.get(DEPLOYMENTS, KEY)
    return None if found is None else found["metadata"]["resourceVersion"]


def test_an_older_event_after_a_newer_one_changes_nothing(cache: Cache, seen: Seen) -> None:
    cache.observe(DEPLOYMENTS, deployment(9))
    cache.observe(DEPLOYMENTS, deployment(10))
    cache.observe(DEPLOYMENTS, deployment(9))
    assert version_of(cache) == "10"
    assert len(seen.changes) == 2


def test_a_deleted_object_does_not_come_back_with_a_late_event_or_an_old_list(cache: Cache) -> None:
    cache.observe(DEPLOYMENTS, deployment(9))
    cache.forget(DEPLOYMENTS, deployment(11))
    cache.observe(DEPLOYMENTS, deployment(10))
    cache.replace(DEPLOYMENTS, Listing([deployment(9)], "10"), "")
    assert version_of(cache) is None


def test_the_deletion_of_a_predecessor_does_not_take_its_successor_along(cache: Cache) -> None:
    cache.observe(DEPLOYMENTS, deployment(12, uid="u2"))
    cache.forget(DEPLOYMENTS, deployment(11, uid="u1"))
    assert version_of(cache) == "12"


def test_what_a_fresh_list_lacks_is_gone_unless_it_is_newer_than_the_list(cache: Cache) -> None:
    cache.observe(DEPLOYMENTS, deployment(9))
    cache.prune(DEPLOYMENTS, Listing([], "8"), "")
    assert version_of(cache) == "9"
    cache.prune(DEPLOYMENTS, Listing([], "20"), namespace="elsewhere")
    assert version_of(cache) == "9"
    cache.prune(DEPLOYMENTS, Listing([], "20"), namespace="a")
    assert version_of(cache) is None


def test_objects_are_found_by_the_plan_of_their_label_also_after_it_changes(cache: Cache) -> None:
    cache.observe(DEPLOYMENTS, deployment(1))
    assert len(cache.of_plan(DEPLOYMENTS, KEY)) == 1
    cache.observe(DEPLOYMENTS, deployment(2, plan="other"))
    assert cache.of_plan(DEPLOYMENTS, KEY) == ()
    assert len(cache.of_plan(DEPLOYMENTS, Key("a", "other"))) == 1


def test_field_ownership_is_not_kept(cache: Cache) -> None:
    manifest = deployment(1)
    manifest["metadata"]["managedFields"] = [{"manager": "x"}]
    cache.observe(DEPLOYMENTS, manifest)
    found = cache.get(DEPLOYMENTS, KEY)
    assert found is not None
    assert "managedFields" not in found["metadata"]


def test_a_list_shows_what_no_watch_has_told_of(cache: Cache) -> None:
    cache.observe(DEPLOYMENTS, deployment(9))
    assert not cache.lacks(DEPLOYMENTS, Listing([deployment(9)], "20"))
    assert cache.lacks(DEPLOYMENTS, Listing([deployment(10)], "20"))
    assert cache.lacks(DEPLOYMENTS, Listing([deployment(9), deployment(3, "other", "u9")], "20"))
    cache.forget(DEPLOYMENTS, deployment(11))
    assert not cache.lacks(DEPLOYMENTS, Listing([deployment(10)], "20"))


def test_what_the_operator_wrote_itself_is_known_without_being_told(cache: Cache, seen: Seen) -> None:
    cache.adopt(DEPLOYMENTS, deployment(9))
    assert version_of(cache) == "9"
    assert seen.changes == []
