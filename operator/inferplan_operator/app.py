"""The operator's process, and the only file that knows kopf.

kopf only watches (see docs/decisions/0002): it keeps the connections, resumes and restarts watches. No finalizers, no
annotations, no posted events, no peering, no scanning for new kinds. Every event goes into the controller's caches;
what follows from it is decided there.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import secrets
import signal
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import kopf

from inferplan_operator.cluster.controller import Controller
from inferplan_operator.cluster.kinds import WATCHED
from inferplan_operator.cluster.lease import Leadership
from inferplan_operator.cluster.server import PAGE_SIZE, ApiServer, load_credentials
from inferplan_operator.config import OperatorConfig
from inferplan_operator.metrics import Metrics
from inferplan_operator.probes import serve

# Kubernetes gives a pod 30 s to end; a reconcile's writes take milliseconds.
_FINISH_WRITES_SECONDS = 4.0
_STOP_WATCHES_SECONDS = 2.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    """Which pod this is. Outside a pod the name gets a random part: two processes are never one candidate."""

    namespace: str
    name: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Identity:
        namespace = environment.get("POD_NAMESPACE", "inferplan-system")
        name = environment.get("POD_NAME") or f"{socket.gethostname()}-{secrets.token_hex(4)}"
        return cls(namespace, name)


async def run(config: OperatorConfig, port: int | None) -> int:
    """Run until SIGTERM or SIGINT; the exit status. Raises InvalidInput, ApiError when it can't even start."""
    identity = Identity.from_environment(os.environ)
    metrics = Metrics()
    server = ApiServer.connect(
        await load_credentials(),
        lambda verb, plural, status: metrics.api_requests.labels(verb, plural, str(status)).inc(),
    )
    leadership = Leadership(server, identity.namespace, identity.name)
    controller = Controller(config, server, metrics, identity.namespace, identity.name, lambda: leadership.held)
    probes, taken = await serve(port, lambda: controller.synced, metrics)
    logger.info("started", extra={"port": taken, "pod": identity.name, "namespace": identity.namespace})
    try:
        return await _until_stopped(config, controller, leadership)
    finally:
        await probes.cleanup()
        await server.close()


async def _until_stopped(config: OperatorConfig, controller: Controller, leadership: Leadership) -> int:
    stop = asyncio.Event()
    _on_signals(stop)
    stopped = asyncio.create_task(stop.wait(), name="stop signal")
    work = asyncio.create_task(_work(controller, leadership), name="work")
    stop_watches = asyncio.Event()
    watches = asyncio.create_task(_watch(config, controller, stop, stop_watches), name="watches")
    tasks = {stopped, work, watches}
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    failed = done - {stopped}
    for task in failed:
        logger.error("ended unexpectedly", extra={"task": task.get_name()}, exc_info=task.exception())
    # First let writes finish, then give the Lease away, then everything else.
    await controller.stop(_FINISH_WRITES_SECONDS)
    work.cancel()
    await asyncio.wait({work})
    await leadership.release()
    stop_watches.set()
    await asyncio.wait({watches}, timeout=_STOP_WATCHES_SECONDS)
    for task in tasks:
        task.cancel()
    logger.info("stopped")
    return 1 if failed else 0


async def _work(controller: Controller, leadership: Leadership) -> None:
    await controller.sync()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(controller.run())
        tasks.create_task(leadership.run(controller.lead, controller.follow))


def _on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


# kopf


class _Backoffs:
    """Retry for ever, ever more slowly: an API server that is away is no reason to end."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((0.2, 0.5, 1.0, 2.0), itertools.repeat(5.0))


class _NoDiffs(kopf.DiffBaseStorage):
    """kopf would copy every object to find out what changed; nobody asks it."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence({})

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        return None

    def store(self, **_: Any) -> None:
        return None


async def _watch(
    config: OperatorConfig, controller: Controller, stop: asyncio.Event, stop_watches: asyncio.Event
) -> None:
    while not controller.synced:
        await asyncio.sleep(0.02)
    ready = asyncio.Event()

    async def take_signals_back() -> None:
        # kopf takes the signals when it starts; the order of an orderly end is ours.
        await ready.wait()
        _on_signals(stop)

    signals = asyncio.create_task(take_signals_back())
    await kopf.operator(
        registry=_registry(controller),
        settings=_settings(),
        clusterwide=not config.watch_namespaces,
        namespaces=config.watch_namespaces,
        standalone=True,
        ready_flag=ready,
        stop_flag=stop_watches,
    )
    await signals


def _registry(controller: Controller) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    async def seen(*, event: kopf.RawEvent, param: Any = None, **_: Any) -> None:
        controller.seen(param, event["type"], event["object"])

    for kind in WATCHED:
        kopf.on.event(kind.group, kind.version, kind.plural, id=kind.plural, param=kind, registry=registry)(seen)
    kopf.on.login(registry=registry)(_login)
    return registry


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.networking.error_backoffs = _Backoffs()
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.watching.chunk_size = PAGE_SIZE
    for kind in WATCHED:
        selector = (kind.group, kind.version, kind.plural)
        if kind.label_selector:
            settings.watching.label_selectors[selector] = kind.label_selector
        if kind.field_selector:
            settings.watching.field_selectors[selector] = kind.field_selector
    return settings


async def _login(**_arguments: Any) -> kopf.ConnectionInfo:
    """The same credentials as the controller's client."""
    configuration = await load_credentials()
    header = await configuration.get_api_key_with_prefix("BearerToken")
    scheme, _, token = (header or "").rpartition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        scheme=scheme or None,
        token=token or None,
        username=configuration.username or None,
        password=configuration.password or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        proxy_url=configuration.proxy,
    )
