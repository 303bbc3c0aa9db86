"""Planning off the event loop, each question once.

Two levels of memory: recommendations by (request, inputs), shared by all plans that ask the same, and the outcome of
each plan by (intent, inputs). Both are bounded; what falls out is computed again, to the same bytes.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from inferplan.errors import InferPlanError, InvalidInput
from inferplan.planning import Infeasible, Inputs, PlanningRequest, Recommendation, recommend
from inferplan_operator.api.v1alpha1 import InferencePlan
from inferplan_operator.cluster.kinds import SECRETS, Key
from inferplan_operator.cluster.models import ModelQuestion, Models
from inferplan_operator.cluster.server import ApiError, ApiServer
from inferplan_operator.lifecycle import intent_of, make_offer, request_of
from inferplan_operator.lifecycle.types import Offer

Outcome = Offer | Infeasible | InferPlanError

# A recommendation is some tens of kilobytes with its alternatives; an offer carries its artefact besides.
_RECOMMENDATIONS = 512
_LONGEST_SECRET_WAIT_SECONDS = 60.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CurrentInputs:
    """The inputs with their hash, computed once."""

    value: Inputs
    hash: str


@dataclass(frozen=True, slots=True)
class Look:
    """`outcome` None: still being computed, `ready` will be called. `again_seconds`: when the answer gets old."""

    outcome: Outcome | None
    again_seconds: float | None = None


@dataclass(slots=True)
class _Entry:
    question: tuple[str, str]
    since: float
    outcome: Outcome | None = None
    good_until: float = 0.0
    task: asyncio.Task[None] | None = None


class Planner:
    """`ready(key)` is called on the event loop whenever a plan's outcome was computed (again)."""

    def __init__(
        self, server: ApiServer, models: Models, ready: Callable[[Key], None], observe_seconds: Callable[[float], None]
    ) -> None:
        self._server = server
        self._models = models
        self._ready = ready
        self._observe_seconds = observe_seconds
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="planning")
        self._entries: dict[Key, _Entry] = {}
        self._recommendations: OrderedDict[tuple[PlanningRequest, str], asyncio.Future[Recommendation | Infeasible]]
        self._recommendations = OrderedDict()

    def close(self) -> None:
        """No more answers: what is still being computed is dropped, not reported as a failure."""
        for entry in self._entries.values():
            if entry.task is not None:
                entry.task.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def look(self, key: Key, plan: InferencePlan, inputs: CurrentInputs) -> Look:
        """What planning says for the plan's intent and these inputs, starting it where nobody has."""
        now = time.monotonic()
        question = (intent_of(plan), inputs.hash)
        entry = self._entries.get(key)
        if entry is None or entry.question != question:
            if entry is not None and entry.task is not None:
                entry.task.cancel()
            entry = self._entries[key] = _Entry(question, since=now)
        if entry.task is None and entry.good_until <= now:
            entry.task = asyncio.create_task(self._fill(key, entry, plan, inputs))
        again = entry.good_until - now if entry.good_until > now else None
        return Look(entry.outcome, again if again != float("inf") else None)

    def waiting_seconds(self, key: Key) -> float:
        """How long the plan has been waiting for its first outcome."""
        entry = self._entries.get(key)
        return time.monotonic() - entry.since if entry is not None and entry.outcome is None else 0.0

    def forget(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None and entry.task is not None:
            entry.task.cancel()

    async def _fill(self, key: Key, entry: _Entry, plan: InferencePlan, inputs: CurrentInputs) -> None:
        try:
            entry.outcome, entry.good_until = await self._answer(key, plan, inputs)
        except InferPlanError as error:
            entry.outcome, entry.good_until = error, time.monotonic() + _LONGEST_SECRET_WAIT_SECONDS
        except Exception as error:
            logger.exception("planning failed", extra={"plan": str(key)})
            message = f"the planner failed on this plan ({type(error).__name__}: {error}); please report it"
            entry.outcome, entry.good_until = InferPlanError(message, code="PlannerError"), float("inf")
        finally:
            entry.task = None
        if self._entries.get(key) is entry:
            self._ready(key)

    async def _answer(self, key: Key, plan: InferencePlan, inputs: CurrentInputs) -> tuple[Outcome, float]:
        model = plan.spec.model
        token = await self._token(key, plan)
        answer = await self._models.ask(ModelQuestion(model.id, model.revision, token))
        if isinstance(answer.facts, InferPlanError):
            return answer.facts, answer.good_until
        request = request_of(plan, answer.facts)
        found = await self._recommendation(request, inputs)
        if isinstance(found, Infeasible):
            return found, answer.good_until
        loop = asyncio.get_running_loop()
        offer = await loop.run_in_executor(self._pool, make_offer, plan, found, inputs.value)
        return offer, answer.good_until

    async def _recommendation(self, request: PlanningRequest, inputs: CurrentInputs) -> Recommendation | Infeasible:
        question = (request, inputs.hash)
        future = self._recommendations.get(question)
        if future is None or (future.done() and (future.cancelled() or future.exception() is not None)):
            loop = asyncio.get_running_loop()
            future = loop.run_in_executor(self._pool, self._recommend, request, inputs.value)
            self._recommendations[question] = future
            while len(self._recommendations) > _RECOMMENDATIONS:
                self._recommendations.popitem(last=False)
        self._recommendations.move_to_end(question)
        return await asyncio.shield(future)

    def _recommend(self, request: PlanningRequest, inputs: Inputs) -> Recommendation | Infeasible:
        started = time.perf_counter()
        try:
            return recommend(request, inputs)
        finally:
            self._observe_seconds(time.perf_counter() - started)

    async def _token(self, key: Key, plan: InferencePlan) -> str | None:
        """From the plan's own Secret, read by name, in its own namespace; only where the plan names one."""
        reference = plan.spec.model.token_secret_ref
        if reference is None:
            return None
        field = "spec.model.tokenSecretRef"
        try:
            secret = await self._server.get(SECRETS, Key(key.namespace, reference.name))
        except ApiError as error:
            message = f"{field}: the operator may not read Secret {reference.name!r}: {error.message}"
            raise InvalidInput(message, code="TokenUnreadable") from error
        if secret is None:
            message = f"{field}: no Secret {reference.name!r} in namespace {key.namespace!r}"
            raise InvalidInput(message, code="TokenMissing")
        encoded = (secret.get("data") or {}).get(reference.key)
        if encoded is None:
            raise InvalidInput(f"{field}: Secret {reference.name!r} has no key {reference.key!r}", code="TokenMissing")
        try:
            return base64.b64decode(encoded, validate=True).decode().strip()
        except (binascii.Error, UnicodeDecodeError) as error:
            message = f"{field}: key {reference.key!r} of Secret {reference.name!r} holds no text"
            raise InvalidInput(message, code="TokenUnreadable") from error
