"""Models by name, asked for off the event loop, remembered, asked for again when an answer gets old.

Three things must not happen: a hub that doesn't answer must not hold up plans whose model is bundled (after one
failure the hub is left alone for a while); a hub that goes away must not change a recommendation (facts with a
commit are kept); a model id of somebody's plan must not read the operator's own files (ids only, no paths).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from inferplan.errors import HubUnavailable, InferPlanError, InvalidInput, ModelError
from inferplan.model import ModelFacts
from inferplan.model.hub import HubMode, bundled_models, is_hub_id, resolve_model

_COMMIT = re.compile(r"[0-9a-f]{40}")

# How long an answer stands. A branch moves seldom; a hub that was away is asked again soon; a repository that is
# gated or missing may be opened at any moment, by people who then look at the plan.
_FOREVER_SECONDS = float("inf")
_BRANCH_SECONDS = 6 * 3600.0
_FALLBACK_SECONDS = 600.0
_ERROR_SECONDS = 120.0
_HUB_REST_SECONDS = 30.0
_REMEMBERED = 2048
_HUB_THREADS = 8


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """What is asked. The token is part of what may be answered, and never shown."""

    id: str
    revision: str | None = None
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """`good_until` on the monotonic clock."""

    facts: ModelFacts | InferPlanError
    good_until: float


class Models:
    """`observe(result)` is told of each lookup that was really made: a source or an error code."""

    def __init__(self, mode: HubMode, observe: Callable[[str], None]) -> None:
        self._mode = mode
        self._observe = observe
        self._hub = ThreadPoolExecutor(_HUB_THREADS, thread_name_prefix="hub")
        # Bundled models never queue behind a hub that hangs.
        self._bundled = ThreadPoolExecutor(1, thread_name_prefix="bundled")
        self._answers: OrderedDict[ModelQuestion, ModelAnswer] = OrderedDict()
        self._asking: dict[ModelQuestion, asyncio.Task[ModelAnswer]] = {}
        self._hub_rests_until = 0.0

    def close(self) -> None:
        self._hub.shutdown(wait=False, cancel_futures=True)
        self._bundled.shutdown(wait=False, cancel_futures=True)

    def warm_up(self) -> None:
        """Import the hub's client, which takes most of a second, before a plan waits for it."""
        if self._mode != "never":
            self._hub.submit(_import_hub_client)

    async def ask(self, question: ModelQuestion) -> ModelAnswer:
        """The facts or the error; the same question is asked once at a time."""
        known = self._answers.get(question)
        if known is not None and known.good_until > time.monotonic():
            self._answers.move_to_end(question)
            return known
        task = self._asking.get(question)
        if task is None:
            task = asyncio.create_task(self._lookup(question, known))
            self._asking[question] = task
            task.add_done_callback(lambda _: self._asking.pop(question, None))
        return await asyncio.shield(task)

    async def _lookup(self, question: ModelQuestion, known: ModelAnswer | None) -> ModelAnswer:
        facts = await self._facts(question)
        self._observe(facts.code if isinstance(facts, InferPlanError) else facts.source)
        lost_hub = isinstance(facts, HubUnavailable) or (isinstance(facts, ModelFacts) and facts.source == "catalogue")
        if lost_hub and known is not None and isinstance(known.facts, ModelFacts) and known.facts.source == "hub":
            facts = known.facts
            answer = ModelAnswer(facts, time.monotonic() + _FALLBACK_SECONDS)
        else:
            answer = ModelAnswer(facts, time.monotonic() + self._lifetime_seconds(question, facts))
        self._answers[question] = answer
        self._answers.move_to_end(question)
        while len(self._answers) > _REMEMBERED:
            self._answers.popitem(last=False)
        return answer

    async def _facts(self, question: ModelQuestion) -> ModelFacts | InferPlanError:
        loop = asyncio.get_running_loop()
        resting = self._mode == "auto" and time.monotonic() < self._hub_rests_until
        mode: HubMode = "never" if resting and question.id in bundled_models() else self._mode
        pool = self._bundled if mode == "never" else self._hub
        found = await loop.run_in_executor(pool, _resolve, question, mode)
        fell_back = isinstance(found, ModelFacts) and mode == "auto" and found.source == "catalogue"
        if isinstance(found, HubUnavailable) or fell_back:
            self._hub_rests_until = time.monotonic() + _HUB_REST_SECONDS
        return found

    def _lifetime_seconds(self, question: ModelQuestion, facts: ModelFacts | InferPlanError) -> float:
        if isinstance(facts, InferPlanError):
            return _FOREVER_SECONDS if self._mode == "never" else _ERROR_SECONDS
        if facts.source == "hub":
            return _FOREVER_SECONDS if _COMMIT.fullmatch(question.revision or "") else _BRANCH_SECONDS
        return _FOREVER_SECONDS if self._mode == "never" else _FALLBACK_SECONDS


def _resolve(question: ModelQuestion, mode: HubMode) -> ModelFacts | InferPlanError:
    if not is_hub_id(question.id):
        return InvalidInput(f"spec.model.id = {question.id!r} is no hub id; it looks like Qwen/Qwen3-8B")
    try:
        facts = resolve_model(question.id, question.revision, hub=mode, token=question.token)
    except InferPlanError as error:
        return error
    except Exception as error:  # noqa: BLE001 (whatever a checkpoint's files hold: an answer, never a crash)
        return ModelError(f"{question.id} can't be read: {type(error).__name__}: {error}"[:500])
    return _in_steady_words(facts, question) if facts.source == "catalogue" else facts


def _in_steady_words(facts: ModelFacts, question: ModelQuestion) -> ModelFacts:
    """Why no commit is pinned, without what differs from one failure to the next: it stands in every status."""
    asked = f" (revision {question.revision!r} was asked for)" if question.revision else ""
    message = f"{facts.id} is taken from the bundled catalogue, no commit is pinned{asked}: the hub gave no answer"
    others = tuple(warning for warning in facts.warnings if warning[0] != "RevisionUnpinned")
    return replace(facts, warnings=(("RevisionUnpinned", message), *others))


def _import_hub_client() -> None:
    from huggingface_hub import HfApi

    HfApi()
