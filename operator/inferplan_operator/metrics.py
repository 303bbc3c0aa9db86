"""The operator's own metrics (Prometheus). Labels are bounded: kinds, verbs, outcomes, statuses; plans only where a
plan is what the figure is about, and a deleted plan's series go with it."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """One set per process; the registry is its own, so that tests can have several."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.reconciles = Counter(
            "inferplan_reconciles", "Reconciles by outcome.", ["outcome"], registry=registry
        )  # unchanged, changed, waiting, denied, error
        self.reconcile_seconds = Histogram(
            "inferplan_reconcile_duration_seconds", "Time of one reconcile.", buckets=_FAST, registry=registry
        )
        self.queue_depth = Gauge("inferplan_queue_depth", "Plans that wait for a worker.", registry=registry)
        self.queue_seconds = Histogram(
            "inferplan_queue_wait_seconds", "Time a plan waited for a worker.", buckets=_FAST, registry=registry
        )
        self.planning_seconds = Histogram(
            "inferplan_planning_duration_seconds",
            "Time of one run of the planner (identical questions are planned once).",
            buckets=_FAST,
            registry=registry,
        )
        self.model_lookups = Counter(
            "inferplan_model_lookups", "Models resolved, by source or error code.", ["result"], registry=registry
        )
        self.api_requests = Counter(
            "inferplan_api_requests", "Requests to the API server.", ["verb", "resource", "status"], registry=registry
        )
        self.plans = Gauge("inferplan_plans", "Plans by what they wait for or are.", ["status"], registry=registry)
        self.leader = Gauge("inferplan_leader", "1 while this process holds the Lease.", registry=registry)
        self.gates_installed = Gauge(
            "inferplan_gates_installed", "1 while approval, deploy and status gate stand.", registry=registry
        )
        self.inputs_info = Gauge(
            "inferplan_inputs_info", "The inputs that recommendations rest on.", ["hash"], registry=registry
        )
        self.predicted = Gauge(
            "inferplan_predicted",
            "What the current recommendation predicts, in the unit of the API field.",
            ["namespace", "plan", "figure"],
            registry=registry,
        )
        self._status_of: dict[tuple[str, str], str] = {}
        self._predicted_of: dict[tuple[str, str], Mapping[str, float]] = {}

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """The metrics page in the format the scraper accepts, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def set_inputs(self, inputs_hash: str) -> None:
        self.inputs_info.clear()
        self.inputs_info.labels(inputs_hash).set(1)

    def set_plan(self, namespace: str, name: str, status: str, predicted: Mapping[str, float]) -> None:
        """`status`: one word; `predicted`: figure → number in the unit of the API field."""
        plan = (namespace, name)
        previous = self._status_of.get(plan)
        if previous != status:
            if previous is not None:
                self.plans.labels(previous).dec()
            self.plans.labels(status).inc()
            self._status_of[plan] = status
        shown = self._predicted_of.get(plan, {})
        if shown == predicted:
            return
        for gone in set(shown) - set(predicted):
            self.predicted.remove(namespace, name, gone)
        for figure, value in predicted.items():
            self.predicted.labels(namespace, name, figure).set(value)
        self._predicted_of[plan] = predicted

    def forget_plan(self, namespace: str, name: str) -> None:
        plan = (namespace, name)
        if (status := self._status_of.pop(plan, None)) is not None:
            self.plans.labels(status).dec()
        for figure in self._predicted_of.pop(plan, {}):
            self.predicted.remove(namespace, name, figure)
