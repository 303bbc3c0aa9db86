"""The work queue of a level-triggered controller: keys, not events.

A key is queued at most once however many events name it, is never worked on twice at the same time, and is queued
again when it was named while being worked on. Failures come back after a delay that doubles per key, so that one
object that always fails costs nothing and holds up nobody. (The rules of client-go's workqueue.)
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_FIRST_RETRY_SECONDS = 0.25
_LONGEST_RETRY_SECONDS = 60.0


class WorkQueue(Generic[K]):
    """Single event loop, any number of workers."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()  # in _ready
        self._working: set[K] = set()
        self._again: set[K] = set()  # named while being worked on
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._added: dict[K, float] = {}

    def __len__(self) -> int:
        """Keys that wait for a worker, not those that wait for a time."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        return not (self._waiting or self._working or self._again)

    def add(self, key: K) -> None:
        """Look at `key` as soon as a worker is free."""
        if key in self._working:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._added[key] = time.monotonic()
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Look at `key` after so long, instead of whenever was planned before."""
        loop = asyncio.get_running_loop()
        self.cancel(key)
        self._timers[key] = loop.call_later(seconds, self._fire, key)

    def cancel(self, key: K) -> None:
        """No look at `key` is planned any more."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()

    def retry(self, key: K) -> float:
        """Look at `key` again after its own, growing delay (with jitter); returns the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        longest = min(_FIRST_RETRY_SECONDS * 2 ** min(failures, 16), _LONGEST_RETRY_SECONDS)
        delay = random.uniform(longest / 2, longest)  # noqa: S311 (spreads retries, no secret)
        self.add_after(key, delay)
        return delay

    def succeeded(self, key: K) -> None:
        """The next failure of `key` starts with the shortest delay again."""
        self._failures.pop(key, None)

    def forget(self, key: K) -> None:
        """Nothing more to do for `key`: no pending retry, no memory of failures."""
        self.succeeded(key)
        self.cancel(key)

    async def get(self) -> tuple[K, float]:
        """The next key and how many seconds it waited; `done` must follow."""
        key = await self._ready.get()
        self._waiting.discard(key)
        self._working.add(key)
        return key, time.monotonic() - self._added.pop(key)

    def done(self, key: K) -> None:
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _fire(self, key: K) -> None:
        del self._timers[key]
        self.add(key)
