"""The work queue's promises: once, never twice at a time, again when named meanwhile, failures ever later."""

from __future__ import annotations

import asyncio

from inferplan_operator.cluster.queue import WorkQueue


async def test_a_key_named_many_times_is_worked_on_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for _ in range(5):
        queue.add("a")
    queue.add("b")
    assert len(queue) == 2
    assert (await queue.get())[0] == "a"
    assert (await queue.get())[0] == "b"


async def test_a_key_named_while_worked_on_comes_again_but_not_at_the_same_time() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    key, _ = await queue.get()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done(key)
    assert len(queue) == 1
    assert (await queue.get())[0] == "a"
    queue.done("a")
    assert queue.idle


async def test_the_last_wish_for_later_replaces_earlier_ones() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 30)
    queue.add_after("a", 0.01)
    key, _ = await asyncio.wait_for(queue.get(), 1)
    assert key == "a"
    queue.done("a")
    queue.add_after("a", 0.01)
    queue.cancel("a")
    await asyncio.sleep(0.05)
    assert queue.idle


async def test_failures_come_back_ever_later_and_success_starts_over() -> None:
    queue: WorkQueue[str] = WorkQueue()
    delays = [queue.retry("a") for _ in range(12)]
    queue.forget("a")
    # With jitter a delay is at least half of its longest, which doubles: every second one must grow.
    assert all(later > earlier for earlier, later in zip(delays[:7], delays[2:9], strict=True))
    assert max(delays) <= 60
    assert queue.retry("a") <= 0.25
    queue.forget("a")
