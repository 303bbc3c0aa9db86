"""A pretend cluster for the pure lifecycle: it stores what `Wanted` says, as an API server would, and nothing else.

The real API server has the last word (tests/integration); here thousands of orders of events are cheap.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from functools import lru_cache
from typing import Any

from inferplan.errors import InferPlanError
from inferplan.hardware import catalog
from inferplan.model.hub import resolve_model
from inferplan.planning import GPUPool, Inputs, Recommendation, recommend
from inferplan.planning.document import inputs_hash
from inferplan_operator.api.v1alpha1 import InferencePlan, parse_plan
from inferplan_operator.lifecycle import Observed, OperatorSettings, Wanted, make_offer, reconcile, request_of

UID = "11111111-2222-3333-4444-555555555555"
INVENTORY = (GPUPool("H100-SXM", 1, 8), GPUPool("L40S", 1, 4))


def spec(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "model": {"id": "Qwen/Qwen3-8B"},
        "workload": {
            "inputTokens": {"p50": 800, "p95": 3000},
            "outputTokens": {"p50": 200, "p95": 600},
            "concurrency": 16,
        },
        "objectives": {"ttftP95Ms": 3000, "tpotP95Ms": 60},
        "constraints": {"maxGPUs": 8},
    }
    return {**base, **changes}


@lru_cache(maxsize=64)
def inputs_with(price: float | None = None) -> Inputs:
    prices = (("H100-SXM", price),) if price is not None else ()
    return Inputs(catalog(), "test", INVENTORY, prices, "2026-12-01" if prices else "")


@lru_cache(maxsize=256)
def planned(spec_text: str, price: float | None) -> Any:
    """What planning says, memoised: the same question is asked over and over."""
    plan = plan_object(json.loads(spec_text))
    try:
        model = resolve_model(plan.spec.model.id, hub="never")
        found = recommend(request_of(plan, model), inputs_with(price))
    except InferPlanError as error:
        return error
    return make_offer(plan, found, inputs_with(price)) if isinstance(found, Recommendation) else found


def plan_object(content: dict[str, Any], status: dict[str, Any] | None = None, generation: int = 1) -> InferencePlan:
    document: dict[str, Any] = {
        "apiVersion": "inferplan.io/v1alpha1",
        "kind": "InferencePlan",
        "metadata": {"name": "chat", "namespace": "team-a", "uid": UID, "generation": generation},
        "spec": content,
    }
    if status is not None:
        document["status"] = status
    return parse_plan(document)


class World:
    """One plan and its children. `applied`: every (digest annotation, pod template) that was ever applied."""

    def __init__(self, **changes: Any) -> None:
        self.spec = spec(**changes)
        self.status: dict[str, Any] | None = None
        self.generation = 1
        self.price: float | None = None
        self.config_maps: dict[str, dict[str, Any]] = {}
        self.deployment: dict[str, Any] | None = None
        self.service: dict[str, Any] | None = None
        self.gates = True
        self.seconds = 0
        self.applied: list[tuple[str, dict[str, Any]]] = []
        self.events: list[str] = []

    def edit(self, **changes: Any) -> None:
        self.spec = {k: v for k, v in {**self.spec, **changes}.items() if v is not None}
        self.generation += 1

    def approve(self, digest: str, **more: Any) -> None:
        self.edit(approval={"digest": digest, **more})

    @property
    def offered(self) -> str | None:
        return ((self.status or {}).get("recommendation") or {}).get("digest")

    @property
    def running(self) -> str | None:
        if self.deployment is None:
            return None
        return str(self.deployment["metadata"]["annotations"]["inferplan.io/digest"])

    def condition(self, kind: str) -> dict[str, Any]:
        found = [c for c in (self.status or {}).get("conditions", []) if c["type"] == kind]
        return found[0] if found else {}

    def observed(self) -> Observed:
        intent_text = json.dumps({k: v for k, v in self.spec.items() if k not in ("approval", "suspend")})
        inputs = inputs_with(self.price)
        return Observed(
            plan=plan_object(self.spec, copy.deepcopy(self.status), self.generation),
            now=f"2026-12-01T00:00:{self.seconds % 60:02d}Z",
            inputs=inputs,
            inputs_hash=inputs_hash(inputs),
            outcome=planned(intent_text, self.price),
            artifacts=copy.deepcopy(self.config_maps),
            deployment=copy.deepcopy(self.deployment),
            service=copy.deepcopy(self.service),
            pods=(),
            gates_installed=self.gates,
            settings=OperatorSettings(),
        )

    def step(self) -> Wanted:
        """One reconcile, carried out."""
        self.seconds += 1
        wanted = reconcile(self.observed())
        for manifest in wanted.delete:
            self.config_maps.pop(manifest["metadata"]["name"], None)
        for manifest in wanted.apply:
            self._store(copy.deepcopy(dict(manifest)))
        self.status = json.loads(json.dumps(wanted.status))
        self.events += [e.reason for e in wanted.events]
        return wanted

    def settle(self) -> None:
        """Reconcile until nothing changes."""
        for _ in range(8):
            before = self.snapshot()
            self.step()
            if self.snapshot() == before:
                return
        raise AssertionError("the lifecycle does not settle")

    def snapshot(self) -> str:
        return json.dumps([self.status, self.config_maps, self.deployment, self.service], sort_keys=True)

    def _store(self, manifest: dict[str, Any]) -> None:
        kind = manifest["kind"]
        if kind == "ConfigMap":
            # As the roles have it: an artefact is created, never changed.
            assert manifest["metadata"]["name"] not in self.config_maps
            self.config_maps[manifest["metadata"]["name"]] = manifest
        elif kind == "Service":
            self.service = manifest
        elif kind == "Deployment":
            digest = manifest["metadata"]["annotations"]["inferplan.io/digest"]
            self.applied.append((digest, copy.deepcopy(manifest["spec"]["template"])))
            # The status is the controllers'; it outlives an apply.
            status = (self.deployment or {}).get("status", {})
            self.deployment = {**manifest, "metadata": {**manifest["metadata"], "generation": 1}, "status": status}

    def ready(self) -> None:
        """The Deployment's pods come up."""
        assert self.deployment is not None
        count = self.deployment["spec"]["replicas"]
        self.deployment["status"] = {"readyReplicas": count, "updatedReplicas": count, "observedGeneration": 1}


def replaced(observed: Observed, **changes: Any) -> Observed:
    return dataclasses.replace(observed, **changes)
