"""No pod template reaches the cluster whose digest wasn't approved at that content: under any order of events."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from world import World

from inferplan_operator.lifecycle import Offer


class Life(RuleBasedStateMachine):
    """`granted`: digest → the pod template that a person saw when approving it."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.granted: dict[str, str] = {}
        self.seen: dict[str, str] = {}

    def look(self) -> None:
        """Remember what each offered digest stands for, as somebody reading the artefact would."""
        for config_map in self.world.config_maps.values():
            content = json.loads(config_map["data"]["artifact.json"])
            template = next(m for m in content["manifests"] if m["kind"] == "Deployment")["spec"]["template"]
            name = config_map["metadata"]["name"]
            for digest in (self.world.status or {}).get("offeredDigests", []):
                if name.endswith(digest.removeprefix("sha256:")[:12]) and digest not in self.seen:
                    self.seen[digest] = json.dumps(template, sort_keys=True)

    @rule()
    def reconcile(self) -> None:
        self.world.step()
        self.look()

    @rule(concurrency=st.sampled_from([16, 200, 400]))
    def change_workload(self, concurrency: int) -> None:
        self.world.edit(workload={**self.world.spec["workload"], "concurrency": concurrency})

    @rule(price=st.sampled_from([None, 3.5, 6.0]))
    def change_price(self, price: float | None) -> None:
        self.world.price = price

    @precondition(lambda self: self.world.status and self.world.status.get("offeredDigests"))
    @rule(data=st.data(), pin=st.booleans())
    def approve(self, data: st.DataObject, pin: bool) -> None:
        offered = (self.world.status or {}).get("offeredDigests", [])
        digest = data.draw(st.sampled_from(offered))
        if digest in self.seen:
            self.granted[digest] = self.seen[digest]
            self.world.approve(digest, **({"pin": True} if pin else {}))

    @rule()
    def revoke(self) -> None:
        self.world.edit(approval=None)

    @rule(on=st.booleans())
    def suspend(self, on: bool) -> None:
        self.world.edit(suspend=on)

    @rule(on=st.booleans())
    def gates(self, on: bool) -> None:
        self.world.gates = on

    @precondition(lambda self: self.world.config_maps)
    @rule(data=st.data())
    def tamper_with_an_artefact(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.config_maps)))
        stored = self.world.config_maps[name]["data"]
        stored["artifact.json"] = stored["artifact.json"].replace("vllm-openai", "somebody-elses")

    @precondition(lambda self: self.world.config_maps)
    @rule(data=st.data())
    def lose_an_artefact(self, data: st.DataObject) -> None:
        self.world.config_maps.pop(data.draw(st.sampled_from(sorted(self.world.config_maps))))

    @precondition(lambda self: self.world.deployment is not None)
    @rule()
    def edit_the_deployment(self) -> None:
        deployment: dict[str, Any] = self.world.deployment or {}
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "somebody-elses"

    @precondition(lambda self: self.world.deployment is not None)
    @rule()
    def delete_the_deployment(self) -> None:
        self.world.deployment = None

    @invariant()
    def only_what_was_approved_is_applied(self) -> None:
        for digest, template in self.world.applied:
            assert digest in self.granted, f"{digest} was applied and never approved"
            assert json.dumps(template, sort_keys=True) == self.granted[digest]


Life.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestLife = Life.TestCase


def test_the_same_question_gives_the_same_digest() -> None:
    first, second = World(), World()
    first.settle()
    second.settle()
    assert first.offered == second.offered
    assert isinstance(first.observed().outcome, Offer)
