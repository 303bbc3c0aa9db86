"""One writer at a time: leadership by a Lease.

As client-go does it: a candidate that sees the Lease unchanged for its whole duration, by its own monotonic clock
(no clock of another machine is trusted), takes it over with a replace that names the version it saw. A leader that
could not renew for `RENEW_DEADLINE_SECONDS` stops writing before anybody else may start. A clean exit empties the
Lease, so that the successor needn't wait.

The identity is the pod's name: a container that is restarted in its pod is the same candidate and goes on at once
(the kubelet never runs two containers of one pod's slot). Outside a pod a random part keeps two processes apart.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from inferplan_operator.cluster.kinds import LEASES, Key
from inferplan_operator.cluster.server import ApiError, ApiServer
from inferplan_operator.lifecycle.types import KubeObject

LEASE_NAME = "inferplan-operator"
LEASE_SECONDS = 8
RENEW_DEADLINE_SECONDS = 5.0
RETRY_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class _Seen:
    """The Lease's content when it last changed, and when that was on this machine's monotonic clock."""

    holder: str
    version: str
    at: float


class Leadership:
    """One candidate."""

    def __init__(self, server: ApiServer, namespace: str, identity: str) -> None:
        self._server = server
        self._key = Key(namespace, LEASE_NAME)
        self._identity = identity
        self._seen: _Seen | None = None
        self._renewed_at: float | None = None  # when the request that renewed was sent

    @property
    def held(self) -> bool:
        """Whether a write sent now is still covered by the Lease."""
        return self._renewed_at is not None and time.monotonic() - self._renewed_at < RENEW_DEADLINE_SECONDS

    async def run(self, gained: Callable[[], None], lost: Callable[[], None]) -> None:
        """Stand for election until cancelled; `gained` and `lost` are called on each change."""
        leading = False
        while True:
            await self._try()
            if self.held != leading:
                leading = self.held
                (gained if leading else lost)()
            await asyncio.sleep(RETRY_SECONDS * random.uniform(0.9, 1.1))  # noqa: S311 (keeps candidates apart)

    async def release(self) -> None:
        """Give the Lease back so that the next one needn't wait for it to expire. Never raises."""
        if not self.held:
            return
        self._renewed_at = None
        try:
            lease = await self._server.get(LEASES, self._key)
            if lease is not None and _holder(lease) == self._identity:
                await self._server.replace(self._renewed(lease, holder=""))
        except ApiError:
            return  # it expires by itself

    async def _try(self) -> None:
        """Take or renew the Lease if that is allowed; an API server that doesn't answer is asked again later."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(RENEW_DEADLINE_SECONDS):
                lease = await self._server.get(LEASES, self._key)
                if lease is None:
                    written = await self._server.create(self._new())
                elif self._may_take(lease):
                    written = await self._server.replace(self._renewed(lease, holder=self._identity))
                else:
                    self._renewed_at = None
                    return
        except (ApiError, TimeoutError):
            return
        self._note(written)
        self._renewed_at = started

    def _may_take(self, lease: KubeObject) -> bool:
        self._note(lease)
        seen = self._seen
        assert seen is not None  # noqa: S101 (set by _note)
        expired = time.monotonic() - seen.at > LEASE_SECONDS
        return seen.holder in ("", self._identity) or expired

    def _note(self, lease: KubeObject) -> None:
        version = str(lease["metadata"]["resourceVersion"])
        if self._seen is None or self._seen.version != version:
            self._seen = _Seen(_holder(lease), version, time.monotonic())

    def _new(self) -> KubeObject:
        metadata = {"name": self._key.name, "namespace": self._key.namespace}
        lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": {}}
        return self._renewed(lease, holder=self._identity)

    def _renewed(self, lease: KubeObject, holder: str) -> KubeObject:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: dict[str, Any] = dict(lease.get("spec") or {})
        if spec.get("holderIdentity") != holder:
            transitions = int(spec.get("leaseTransitions", 0)) + (1 if holder else 0)
            spec |= {"holderIdentity": holder, "acquireTime": now, "leaseTransitions": transitions}
        spec |= {"leaseDurationSeconds": LEASE_SECONDS if holder else 1, "renewTime": now}
        return {**lease, "spec": spec}


def _holder(lease: KubeObject) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")
