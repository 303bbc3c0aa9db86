"""The control loop: caches in, plans out of a queue, a bounded number of reconciles at a time.

What feeds it (watches) and what runs it (the process) are not its business; see app.py.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from inferplan.planning.document import inputs_hash
from inferplan_operator.cluster.cache import Cache, plan_of
from inferplan_operator.cluster.gates import gates_installed
from inferplan_operator.cluster.inputs import gather_inputs, inputs_config_map
from inferplan_operator.cluster.kinds import (
    GATE_BINDINGS,
    GATE_POLICIES,
    GPU_PROFILES,
    NODES,
    PLANS,
    WATCHED,
    Key,
    Kind,
    key_of,
)
from inferplan_operator.cluster.models import Models
from inferplan_operator.cluster.planner import CurrentInputs, Planner
from inferplan_operator.cluster.queue import WorkQueue
from inferplan_operator.cluster.reconcile import NotLeading, Outcome, Reconciler, Surroundings
from inferplan_operator.cluster.server import ApiError, ApiServer
from inferplan_operator.config import OperatorConfig
from inferplan_operator.lifecycle.types import KubeObject, OperatorSettings
from inferplan_operator.metrics import Metrics

# So many reconciles at once: enough to hide the API server's latency, far below its default limits (400 requests).
WORKERS = 16
# Nodes come in crowds: wait until they have settled before every plan is looked at again, but not for ever.
_SETTLE_SECONDS = 0.5
_SETTLE_AT_MOST_SECONDS = 5.0
# Watches are reliable; this is for what they can't show. Metadata only.
RESYNC_SECONDS = 300.0
_SYNC_RETRY_SECONDS = 2.0

logger = logging.getLogger(__name__)


class Controller:
    """Built by `app.py`, which also tells it what the watches deliver and whether this process leads."""

    def __init__(
        self,
        config: OperatorConfig,
        server: ApiServer,
        metrics: Metrics,
        namespace: str,
        instance: str,
        may_write: Callable[[], bool],
    ) -> None:
        self._config = config
        self._server = server
        self._metrics = metrics
        self._namespace = namespace
        self._namespaces = config.watch_namespaces or ("",)
        self._cache = Cache(self._changed)
        self._queue: WorkQueue[Key] = WorkQueue()
        self._models = Models(config.hub, lambda result: metrics.model_lookups.labels(result).inc())
        self._planner = Planner(server, self._models, self._queue.add, metrics.planning_seconds.observe)
        settings = OperatorSettings(config.require_gates)
        self._reconciler = Reconciler(server, self._cache, self._planner, settings, may_write, instance)
        self._inputs: CurrentInputs | None = None
        self._published = ""
        self._gates = False
        self._leading = False
        self._stopping = False
        self._working = 0
        self._inputs_stale = asyncio.Event()
        self._doubtful: set[Kind] = set()
        self._doubt = asyncio.Event()
        self.synced = False

    async def sync(self) -> None:
        """List everything once; returns when that has succeeded, however long it takes."""
        self._models.warm_up()
        said = ""
        while True:
            try:
                await asyncio.gather(*(self._list(kind) for kind in WATCHED))
                break
            except ApiError as error:
                if error.message != said:
                    said = error.message
                    logger.warning("waiting for the API server", extra={"error": said})
                await asyncio.sleep(_SYNC_RETRY_SECONDS)
        self._look_at_gates()
        self._take_inputs()
        self.synced = True
        counts = {kind.plural: self._cache.count(kind) for kind in WATCHED}
        logger.info("synced", extra={"objects": counts, "gatesInstalled": self._gates})

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WORKERS):
                tasks.create_task(self._work())
            tasks.create_task(self._follow_inputs())
            tasks.create_task(self._settle_doubts())
            tasks.create_task(self._resync())

    async def stop(self, within_seconds: float) -> None:
        """Take nothing new on and let the reconciles under way finish their writes."""
        self._stopping = True
        deadline = time.monotonic() + within_seconds
        while self._working and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        self._planner.close()
        self._models.close()

    def lead(self) -> None:
        """This process holds the Lease now: publish, and look at every plan."""
        self._leading = True
        self._metrics.leader.set(1)
        self._inputs_stale.set()
        self._queue_all()
        logger.info("leading", extra={"plans": self._cache.count(PLANS)})

    def follow(self) -> None:
        """Somebody else may write from now on."""
        self._leading = False
        self._metrics.leader.set(0)
        logger.info("not leading")

    def seen(self, kind: Kind, event_type: str | None, manifest: KubeObject) -> None:
        """A watch's event; type None: part of a new list, which doesn't tell what is gone."""
        if event_type == "DELETED":
            self._cache.forget(kind, manifest)
            return
        self._cache.observe(kind, manifest)
        if event_type is None:
            self._doubtful.add(kind)
            self._doubt.set()

    # Caches → queue

    def _changed(self, kind: Kind, manifest: KubeObject) -> None:
        if not self.synced:
            return
        if kind == PLANS:
            self._queue.add(key_of(manifest))
        elif kind in (NODES, GPU_PROFILES):
            self._inputs_stale.set()
        elif kind in (GATE_POLICIES, GATE_BINDINGS):
            if self._look_at_gates():
                self._queue_all()
        elif (plan := plan_of(manifest)) is not None and self._cache.get(PLANS, plan) is not None:
            self._queue.add(plan)

    def _queue_all(self) -> None:
        for manifest in self._cache.all(PLANS):
            self._queue.add(key_of(manifest))

    def _look_at_gates(self) -> bool:
        """Whether it changed that the gates stand."""
        stand = gates_installed(self._cache.all(GATE_POLICIES), self._cache.all(GATE_BINDINGS))
        changed, self._gates = stand != self._gates, stand
        self._metrics.gates_installed.set(stand)
        if changed:
            logger.info("gates installed" if stand else "gates not installed")
        return changed

    # Queue → reconcile

    async def _work(self) -> None:
        while True:
            key, waited = await self._queue.get()
            self._metrics.queue_depth.set(len(self._queue))
            try:
                if self._leading and not self._stopping:
                    self._metrics.queue_seconds.observe(waited)
                    self._working += 1
                    await self._one(key)
            finally:
                self._queue.done(key)
            # A reconcile that finds nothing to do never waits: let the watches and the Lease have their turn.
            await asyncio.sleep(0)

    async def _one(self, key: Key) -> None:
        started = time.perf_counter()
        try:
            outcome = await self._reconcile(key)
        except NotLeading:
            return
        except Exception:
            logger.exception("reconcile failed", extra={"plan": str(key)})
            outcome = Outcome("error")
        finally:
            self._working -= 1
        self._metrics.reconciles.labels(outcome.result).inc()
        self._metrics.reconcile_seconds.observe(time.perf_counter() - started)
        self._schedule(key, outcome)

    async def _reconcile(self, key: Key) -> Outcome:
        if self._inputs is None:
            return Outcome("waiting", again_seconds=_SETTLE_SECONDS)
        return await self._reconciler.run(key, Surroundings(self._inputs, self._gates))

    def _schedule(self, key: Key, outcome: Outcome) -> None:
        if outcome.result == "gone":
            self._forget_if_gone(key)
            return
        if outcome.result in ("error", "denied"):
            delay = self._queue.retry(key)
            if outcome.error is not None:
                extra = {"plan": str(key), "error": outcome.error.message, "retrySeconds": round(delay, 2)}
                logger.warning("denied by the API server" if outcome.result == "denied" else "retrying", extra=extra)
        else:
            self._queue.succeeded(key)
            self._queue.cancel(key)
            if outcome.again_seconds is not None:
                self._queue.add_after(key, outcome.again_seconds)
        manifest = self._cache.get(PLANS, key)
        if manifest is not None:
            self._metrics.set_plan(key.namespace, key.name, *plan_figures(manifest))

    def _forget_if_gone(self, key: Key) -> None:
        manifest = self._cache.get(PLANS, key)
        if manifest is not None and not manifest["metadata"].get("deletionTimestamp"):
            self._queue.retry(key)  # its namespace is going, or the cache is late
            return
        self._queue.forget(key)
        self._reconciler.forget(key)
        self._metrics.forget_plan(key.namespace, key.name)

    # Inputs

    async def _follow_inputs(self) -> None:
        """Take over changed inputs once they have settled, publish them, look at every plan again."""
        while True:
            await self._inputs_stale.wait()
            if self._published:
                await self._settled()
            self._inputs_stale.clear()
            if self._take_inputs():
                self._queue_all()
            await self._publish()

    async def _settled(self) -> None:
        deadline = time.monotonic() + _SETTLE_AT_MOST_SECONDS
        while self._inputs_stale.is_set() and time.monotonic() < deadline:
            self._inputs_stale.clear()
            await asyncio.sleep(_SETTLE_SECONDS)

    def _take_inputs(self) -> bool:
        """Whether the inputs changed."""
        inputs = gather_inputs(self._config, self._cache)
        if self._inputs is not None and self._inputs.value == inputs:
            return False
        self._inputs = CurrentInputs(inputs, inputs_hash(inputs))
        self._metrics.set_inputs(self._inputs.hash)
        pools = [f"{p.nodes}×{p.gpus_per_node}×{p.gpu_type}" for p in inputs.inventory or ()]
        logger.info("inputs", extra={"hash": self._inputs.hash, "inventory": pools})
        return True

    async def _publish(self) -> None:
        """Write ConfigMap inferplan-inputs where it is out of date; tried again until it succeeds."""
        if not self._leading or self._inputs is None or self._published == self._inputs.hash:
            return
        try:
            await self._server.apply(inputs_config_map(self._inputs.value, self._namespace))
            self._published = self._inputs.hash
        except ApiError as error:
            logger.warning("inputs not published", extra={"error": error.message})
            asyncio.get_running_loop().call_later(_SETTLE_AT_MOST_SECONDS, self._inputs_stale.set)

    # Lists

    async def _list(self, kind: Kind) -> None:
        for namespace in self._namespaces if kind.namespaced else ("",):
            self._cache.replace(kind, await self._server.list(kind, namespace), namespace)

    async def _compare(self, kind: Kind) -> None:
        """Forget what is gone without a word, list again what came without one."""
        for namespace in self._namespaces if kind.namespaced else ("",):
            listing = await self._server.list_metadata(kind, namespace)
            self._cache.prune(kind, listing, namespace)
            if self._cache.lacks(kind, listing):
                self._cache.replace(kind, await self._server.list(kind, namespace), namespace)

    async def _settle_doubts(self) -> None:
        """After a watch had to start over with a list: find out what was deleted meanwhile."""
        while True:
            await self._doubt.wait()
            await asyncio.sleep(_SETTLE_SECONDS * 2)
            self._doubt.clear()
            kinds, self._doubtful = self._doubtful, set()
            for kind in kinds:
                try:
                    await self._compare(kind)
                except ApiError as error:
                    logger.warning("list failed", extra={"kind": kind.kind, "error": error.message})
                    self._doubtful.add(kind)
                    self._doubt.set()

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            self._doubtful.update(WATCHED)
            self._doubt.set()
            self._queue_all()


# What is compared with a measured value or added up over plans; the rest is in the status.
EXPORTED_FIGURES = ("ttft", "tpot", "outputTokensPerSecond", "kvCacheTokens", "usdPerHour")


def plan_figures(manifest: KubeObject) -> tuple[str, dict[str, float]]:
    """A plan's one-word status and its predicted figures, as its status says them."""
    status = manifest.get("status") or {}
    word = str((status.get("display") or {}).get("status") or "Unknown")
    predicted = (status.get("recommendation") or {}).get("predicted") or {}
    values = {name: (predicted.get(name) or {}).get("value") for name in EXPORTED_FIGURES}
    return word, {name: float(text) for name, text in values.items() if text is not None}
