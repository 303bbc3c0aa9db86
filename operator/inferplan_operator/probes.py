"""`/healthz`, `/readyz` and `/metrics` on one port."""

from __future__ import annotations

import errno
from collections.abc import Callable

from aiohttp import web

from inferplan.errors import InvalidInput
from inferplan_operator.config import DEFAULT_PORT
from inferplan_operator.metrics import Metrics

METRICS = web.AppKey("metrics", Metrics)


async def serve(port: int | None, ready: Callable[[], bool], metrics: Metrics) -> tuple[web.AppRunner, int]:
    """Listen; returns the runner (to clean up) and the port that was taken.

    A port that somebody chose must be free (InvalidInput otherwise). With None the default is tried, and where
    another process has it, any free port does: the operator must start beside another one on the same machine.
    """
    app = web.Application()
    app[METRICS] = metrics

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(text="ok") if ready() else web.Response(status=503, text="not synced")

    app.router.add_get("/healthz", _healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", _metrics)
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=DEFAULT_PORT if port is None else port).start()
    except OSError as error:
        if error.errno != errno.EADDRINUSE or port is not None:
            await runner.cleanup()
            hint = "choose another one with --port, INFERPLAN_PORT or the config field port (0: any free port)"
            raise InvalidInput(f"port {port}: {error.strerror}; {hint}") from error
        await web.TCPSite(runner, port=0).start()
    return runner, int(runner.addresses[0][1])


async def _healthz(_: web.Request) -> web.Response:
    # Answering at all is the point: a stuck event loop doesn't.
    return web.Response(text="ok")


async def _metrics(request: web.Request) -> web.Response:
    body, content_type = request.app[METRICS].exposition(request.headers.get("Accept", ""))
    return web.Response(body=body, headers={"Content-Type": content_type})
