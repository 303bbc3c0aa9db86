"""What the API server was last seen to hold, kept in memory.

The watch feeds it, so do the answers to the operator's own writes (a reconcile never acts on a state older than what
it wrote itself). Two things a watch can't be trusted with are settled here: events that arrive out of order (an
object never goes back to an older resourceVersion; they are comparable numbers by the API's contract since
Kubernetes 1.35, and have been ever since etcd 3), and deletions that happened while the watch was down (`prune`
drops what a fresh list no longer has).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator

from inferplan_operator.cluster.kinds import Key, Kind, key_of
from inferplan_operator.cluster.server import Listing
from inferplan_operator.lifecycle.types import KubeObject
from inferplan_operator.manifests import PLAN_LABEL

# How long a deletion is remembered against a list that was taken before it and arrives after it.
_TOMBSTONE_SECONDS = 300.0

Changed = Callable[[Kind, KubeObject], None]


class Cache:
    """Objects by kind and key, and by the plan their label names. `changed` is called after each real change."""

    def __init__(self, changed: Changed) -> None:
        self._objects: dict[Kind, dict[Key, KubeObject]] = defaultdict(dict)
        self._by_plan: dict[Kind, dict[Key, set[Key]]] = defaultdict(lambda: defaultdict(set))
        self._tombstones: dict[str, float] = {}
        self._changed = changed

    def get(self, kind: Kind, key: Key) -> KubeObject | None:
        return self._objects[kind].get(key)

    def all(self, kind: Kind) -> Iterator[KubeObject]:
        yield from list(self._objects[kind].values())

    def count(self, kind: Kind) -> int:
        return len(self._objects[kind])

    def of_plan(self, kind: Kind, plan: Key) -> tuple[KubeObject, ...]:
        """The objects whose label names the plan, by name: the label says what to look at, never who owns it."""
        keys = sorted(self._by_plan[kind].get(plan, ()))
        return tuple(self._objects[kind][key] for key in keys)

    def observe(self, kind: Kind, manifest: KubeObject) -> None:
        """An object as the API server sent it."""
        if (kept := self._keep(kind, manifest)) is not None:
            self._changed(kind, kept)

    def adopt(self, kind: Kind, manifest: KubeObject) -> None:
        """The answer to a write of our own that the writer has taken into account: nobody needs to be told."""
        self._keep(kind, manifest)

    def _keep(self, kind: Kind, manifest: KubeObject) -> KubeObject | None:
        """What is kept of the object; None where it is no news."""
        if not self._is_news(kind, manifest):
            return None
        key = key_of(manifest)
        known = self._objects[kind].get(key)
        if known is not None:
            self._unlink(kind, known)
        # Field ownership is most of an object's size and nobody here reads it.
        metadata = {name: value for name, value in manifest["metadata"].items() if name != "managedFields"}
        kept = {**manifest, "metadata": metadata}
        self._objects[kind][key] = kept
        if (plan := plan_of(kept)) is not None:
            self._by_plan[kind][plan].add(key)
        return kept

    def forget(self, kind: Kind, manifest: KubeObject) -> None:
        """The object is gone (its successor of the same name is another object)."""
        now = time.monotonic()
        self._tombstones = {uid: until for uid, until in self._tombstones.items() if until > now}
        self._tombstones[_uid(manifest)] = now + _TOMBSTONE_SECONDS
        known = self._objects[kind].get(key_of(manifest))
        if known is not None and _uid(known) == _uid(manifest):
            self._unlink(kind, known)
            del self._objects[kind][key_of(manifest)]
            self._changed(kind, known)

    def replace(self, kind: Kind, listing: Listing, namespace: str) -> None:
        """Take over a full list of a namespace (or of all: "")."""
        self.prune(kind, listing, namespace)
        for manifest in listing.items:
            self.observe(kind, manifest)

    def prune(self, kind: Kind, listing: Listing, namespace: str) -> None:
        """Forget what a list (full or metadata only) lacks and that is not newer than the list."""
        listed = {_uid(manifest) for manifest in listing.items}
        taken_at = int(listing.resource_version)
        for known in list(self._objects[kind].values()):
            covered = not namespace or key_of(known).namespace == namespace
            if covered and _uid(known) not in listed and _version(known) <= taken_at:
                self.forget(kind, known)

    def lacks(self, kind: Kind, listing: Listing) -> bool:
        """Whether a list (full or metadata only) has an object, or a version of one, that no watch has told of."""
        return any(self._is_news(kind, manifest) for manifest in listing.items)

    def _is_news(self, kind: Kind, manifest: KubeObject) -> bool:
        known = self._objects[kind].get(key_of(manifest))
        return _uid(manifest) not in self._tombstones and (known is None or _newer(manifest, known))

    def _unlink(self, kind: Kind, manifest: KubeObject) -> None:
        plan = plan_of(manifest)
        if plan is None:
            return
        keys = self._by_plan[kind][plan]
        keys.discard(key_of(manifest))
        if not keys:
            del self._by_plan[kind][plan]


def plan_of(manifest: KubeObject) -> Key | None:
    """The plan that an object's label names."""
    metadata = manifest["metadata"]
    name = (metadata.get("labels") or {}).get(PLAN_LABEL)
    return Key(str(metadata.get("namespace") or ""), str(name)) if name else None


def _uid(manifest: KubeObject) -> str:
    return str(manifest["metadata"]["uid"])


def _version(manifest: KubeObject) -> int:
    return int(manifest["metadata"]["resourceVersion"])


def _newer(manifest: KubeObject, known: KubeObject) -> bool:
    return _version(manifest) > _version(known)
