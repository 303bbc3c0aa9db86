"""One plan, from what is to what should be: observe, ask the lifecycle, carry out, say so.

Level-triggered: nothing here depends on which event came, or on what an earlier run had done before it was killed.
Order matters only where a crash in between must be harmless: artefact before Deployment (the lifecycle's order),
Events before the status they announce, the status last.

What decides on pods is read fresh: before a child is created or changed, the plan and the child are read from the
API server, and the lifecycle is asked again on what was found. The cache may be late; an approval that was taken
back a moment ago must not be.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from inferplan.errors import InvalidInput
from inferplan_operator.api.v1alpha1 import parse_plan
from inferplan_operator.cluster.cache import Cache, plan_of
from inferplan_operator.cluster.events import event_manifest, record_event
from inferplan_operator.cluster.kinds import CONFIG_MAPS, DEPLOYMENTS, PLANS, PODS, SERVICES, Key, Kind, key_of, kind_of
from inferplan_operator.cluster.planner import CurrentInputs, Planner
from inferplan_operator.cluster.server import ApiError, ApiServer
from inferplan_operator.lifecycle import reconcile
from inferplan_operator.lifecycle.types import KubeObject, Observed, OperatorSettings, Wanted

# A plan says "planning" only when that takes longer than people notice: one write instead of two.
PATIENCE_SECONDS = 2.0
# Where the status already speaks of this spec (after a restart, or when only the inputs changed) it stands for longer.
PATIENCE_WITH_STATUS_SECONDS = 30.0
# Applying changes what is observed (an artefact that exists now); so many rounds settle it within one run.
_ROUNDS = 4
# A foreign object under a child's name carries no label of ours, so no watch tells when it goes.
_FOREIGN_SECONDS = 30.0

_CHILDREN = (DEPLOYMENTS, SERVICES)

logger = logging.getLogger(__name__)


class NotLeading(Exception):
    """The Lease ran out while a reconcile was under way: nothing more may be written."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a reconcile ended. `again_seconds`: look again then; `error`: retry with backoff."""

    result: str  # unchanged, changed, waiting, denied, error, gone
    again_seconds: float | None = None
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all plans share at the moment."""

    inputs: CurrentInputs
    gates_installed: bool


@dataclass(slots=True)
class _Memory:
    """What is remembered of one plan between runs; all of it may be lost."""

    apply_error: str | None = None
    # Children under the plan's name that the cache can't show (no label of ours).
    foreign: dict[Kind, KubeObject] = field(default_factory=dict)
    # (kind, key) → what was applied and what the API server made of it: a manifest that the server stores in another
    # form than it was sent in is not sent again and again.
    settled: dict[tuple[str, Key], tuple[str, str]] = field(default_factory=dict)


class Reconciler:
    """`may_write`: whether this process holds the Lease now. `instance`: named in Events."""

    def __init__(
        self,
        server: ApiServer,
        cache: Cache,
        planner: Planner,
        settings: OperatorSettings,
        may_write: Callable[[], bool],
        instance: str,
    ) -> None:
        self._server = server
        self._cache = cache
        self._planner = planner
        self._settings = settings
        self._may_write = may_write
        self._instance = instance
        self._memories: dict[Key, _Memory] = {}

    def forget(self, key: Key) -> None:
        """The plan is gone; garbage collection takes its children."""
        self._memories.pop(key, None)
        self._planner.forget(key)

    async def run(self, key: Key, surroundings: Surroundings) -> Outcome:
        """Bring one plan to what it should be. Raises NotLeading; API errors are in the outcome."""
        manifest = self._cache.get(PLANS, key)
        if manifest is None or manifest["metadata"].get("deletionTimestamp"):
            return Outcome("gone")
        memory = self._memories.setdefault(key, _Memory())
        try:
            run = _Run(self, key, surroundings, memory)
            await run.refresh_foreign()
            return await run.carry_out(manifest)
        except ApiError as error:
            if error.status == 404 or error.namespace_is_going:
                return Outcome("gone")
            return Outcome("error", error=error)
        except InvalidInput as error:
            # Stored under another version of the CRD: said in the log, nothing done to it or for it.
            logger.warning("plan not understood", extra={"plan": str(key), "error": error.message})
            return Outcome("error")


class _Run:
    """One run of one plan."""

    def __init__(self, shared: Reconciler, key: Key, surroundings: Surroundings, memory: _Memory) -> None:
        self._shared = shared
        self._server = shared._server
        self._cache = shared._cache
        self._key = key
        self._surroundings = surroundings
        self._memory = memory
        self._again: float | None = None

    async def carry_out(self, manifest: KubeObject) -> Outcome:
        observed = self._observe(manifest)
        if observed.outcome is None:
            status, generation = observed.plan.status, observed.plan.metadata.generation
            spoken = status is not None and status.observed_generation == generation
            patience = PATIENCE_WITH_STATUS_SECONDS if spoken else PATIENCE_SECONDS
            left = patience - self._shared._planner.waiting_seconds(self._key)
            if left > 0:
                if spoken:
                    await self._settle(reconcile(observed))
                return Outcome("waiting", again_seconds=left + 0.01)
        wanted, applied, denied = await self._settle(reconcile(observed))
        changed = await self._report(wanted) or applied
        self._sooner(wanted.requeue_seconds)
        if self._memory.foreign:
            self._sooner(_FOREIGN_SECONDS)
        if denied is not None:
            return Outcome("denied" if denied.denied_by_policy else "error", self._again, denied)
        return Outcome("changed" if changed else "unchanged", self._again)

    async def refresh_foreign(self) -> None:
        for kind in list(self._memory.foreign):
            await self._read_child(kind)

    def _observe(self, manifest: KubeObject) -> Observed:
        plan = parse_plan(manifest)
        inputs = self._surroundings.inputs
        look = self._shared._planner.look(self._key, plan, inputs)
        self._sooner(look.again_seconds)
        return Observed(
            plan=plan,
            now=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            inputs=inputs.value,
            inputs_hash=inputs.hash,
            outcome=look.outcome,
            artifacts={found["metadata"]["name"]: found for found in self._cache.of_plan(CONFIG_MAPS, self._key)},
            deployment=self._child(DEPLOYMENTS),
            service=self._child(SERVICES),
            pods=self._cache.of_plan(PODS, self._key),
            gates_installed=self._surroundings.gates_installed,
            settings=self._shared._settings,
            last_apply_error=self._memory.apply_error,
        )

    def _child(self, kind: Kind) -> KubeObject | None:
        return self._cache.get(kind, self._key) or self._memory.foreign.get(kind)

    async def _settle(self, wanted: Wanted) -> tuple[Wanted, bool, ApiError | None]:
        """Apply and delete until nothing is left to do; the last `wanted` is what the status says."""
        fresh = applied = False
        for _ in range(_ROUNDS):
            writes = self._outstanding(wanted)
            if not writes and not wanted.delete:
                break
            if not fresh and any(kind_of(write) in _CHILDREN for write in writes):
                fresh = True
                wanted = reconcile(self._observe(await self._read_fresh(writes)))
                continue
            try:
                await self._write(writes, wanted.delete)
            except ApiError as error:
                if error.status == 404 or error.namespace_is_going:
                    raise
                self._memory.apply_error = error.message
                return reconcile(self._observe(self._plan())), applied, error
            applied = True
            self._memory.apply_error = None
            wanted = reconcile(self._observe(self._plan()))
        return wanted, applied, None

    def _plan(self) -> KubeObject:
        manifest = self._cache.get(PLANS, self._key)
        if manifest is None:
            raise ApiError(404, "NotFound", f"plan {self._key} went away")
        return manifest

    async def _read_fresh(self, writes: tuple[KubeObject, ...]) -> KubeObject:
        """The plan and the children about to be written, as stored now."""
        manifest = await self._server.get(PLANS, self._key)
        if manifest is None:
            raise ApiError(404, "NotFound", f"plan {self._key} went away")
        self._cache.observe(PLANS, manifest)
        for kind in {kind_of(write) for write in writes} & set(_CHILDREN):
            await self._read_child(kind)
        return manifest

    async def _read_child(self, kind: Kind) -> None:
        known = self._cache.get(kind, self._key)
        child = await self._server.get(kind, self._key)
        if known is not None and (child is None or child["metadata"]["uid"] != known["metadata"]["uid"]):
            self._cache.forget(kind, known)
        self._memory.foreign.pop(kind, None)
        if child is None:
            return
        if plan_of(child) == self._key:
            self._cache.observe(kind, child)
        else:
            self._memory.foreign[kind] = child

    def _outstanding(self, wanted: Wanted) -> tuple[KubeObject, ...]:
        return tuple(write for write in wanted.apply if not self._stands(write))

    def _stands(self, write: KubeObject) -> bool:
        """Whether the cluster already has what this manifest asks for."""
        kind, key = kind_of(write), key_of(write)
        stored = self._cache.get(kind, key)
        if stored is None:
            return False
        has = projected(stored, write)
        return has == write or self._memory.settled.get((kind.kind, key)) == (_hash(write), _hash(has))

    async def _write(self, writes: tuple[KubeObject, ...], deletes: tuple[KubeObject, ...]) -> None:
        for write in writes:
            kind, key = kind_of(write), key_of(write)
            self._guard()
            stored = await self._apply(kind, key, write)
            self._cache.adopt(kind, stored)
            self._memory.settled[(kind.kind, key)] = (_hash(write), _hash(projected(stored, write)))
            logger.info("applied", extra={"plan": str(self._key), "kind": kind.kind, "object": key.name})
        for manifest in deletes:
            self._guard()
            await self._server.delete(manifest)
            self._cache.forget(kind_of(manifest), manifest)
            self._memory.settled.pop((kind_of(manifest).kind, key_of(manifest)), None)

    async def _apply(self, kind: Kind, key: Key, write: KubeObject) -> KubeObject:
        """Artefacts are created once and never touched again. A child is applied to exactly the object that was
        looked at (its uid), or created; never merged into one that appeared meanwhile."""
        if kind == CONFIG_MAPS:
            try:
                return await self._server.create(write)
            except ApiError as error:
                found = await self._server.get(kind, key) if error.status == 409 else None
                if found is None:
                    raise
                return found
        known = self._cache.get(kind, key)
        if known is None:
            return await self._server.apply_new(write)
        pinned = {**write, "metadata": {**write["metadata"], "uid": known["metadata"]["uid"]}}
        return await self._server.apply(pinned)

    async def _report(self, wanted: Wanted) -> bool:
        """Events, then the status; neither where nothing changed."""
        manifest = self._plan()
        status = dict(wanted.status)
        if not status or self._says(manifest, status):
            return False
        for record in wanted.events:
            self._guard()
            if await record_event(self._server, event_manifest(manifest, record, self._shared._instance)):
                logger.info(record.message, extra={"plan": str(self._key), "reason": record.reason})
        self._guard()
        metadata = manifest["metadata"]
        body = {
            "apiVersion": PLANS.api_version,
            "kind": PLANS.kind,
            # The uid: a plan that was deleted and made again meanwhile is another plan.
            "metadata": {"name": self._key.name, "namespace": self._key.namespace, "uid": metadata["uid"]},
            "status": status,
        }
        stored = await self._server.apply(body, subresource="status")
        if stored["metadata"]["generation"] == metadata["generation"]:
            self._cache.adopt(PLANS, stored)
        else:
            self._cache.observe(PLANS, stored)  # the spec moved meanwhile, and its own event is now an old one
        self._memory.settled[(PLANS.kind, self._key)] = (_hash(status), _hash(stored.get("status") or {}))
        return True

    def _says(self, manifest: KubeObject, status: Mapping[str, Any]) -> bool:
        stored = manifest.get("status") or {}
        settled = self._memory.settled.get((PLANS.kind, self._key))
        return stored == status or settled == (_hash(status), _hash(stored))

    def _guard(self) -> None:
        if not self._shared._may_write():
            raise NotLeading

    def _sooner(self, seconds: float | None) -> None:
        if seconds is not None:
            self._again = seconds if self._again is None else min(self._again, seconds)


def projected(stored: Any, wanted: Any) -> Any:
    """What `stored` has where `wanted` says something; equal to `wanted` when it has all of it.

    The API server adds defaults and other controllers add fields of their own: those are nobody's difference. Lists
    are compared element by element, so a container that somebody added is one.
    """
    if isinstance(wanted, Mapping) and isinstance(stored, Mapping):
        return {name: projected(stored.get(name), value) for name, value in wanted.items()}
    if isinstance(wanted, list | tuple) and isinstance(stored, list | tuple) and len(wanted) == len(stored):
        return type(wanted)(projected(left, right) for left, right in zip(stored, wanted, strict=True))
    return stored


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
