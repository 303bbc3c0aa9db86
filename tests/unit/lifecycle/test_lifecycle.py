"""A plan's life, transition by transition."""

from __future__ import annotations

import json
from typing import Any

import pytest
from world import World, replaced

from inferplan.errors import HubUnavailable, ModelNotFound
from inferplan.hardware import resolve_gpu
from inferplan_operator.lifecycle import reconcile


@pytest.fixture
def world() -> World:
    found = World()
    found.settle()
    return found


def approved(world: World) -> str:
    digest = world.offered
    assert digest is not None
    world.approve(digest)
    world.settle()
    return digest


def test_a_recommendation_is_offered_and_nothing_is_deployed(world: World) -> None:
    assert world.offered is not None
    assert world.status is not None
    assert world.status["offeredDigests"] == [world.offered]
    assert world.deployment is None
    assert world.condition("Approved")["reason"] == "AwaitingApproval"
    assert world.condition("Approved")["message"].endswith(
        f"kubectl inferplan approve chat -n team-a --digest {world.offered}"
    )
    assert world.events == ["Planned"]


def test_settled_means_nothing_to_do(world: World) -> None:
    again = world.step()
    assert again.events == ()
    assert again.delete == ()


def test_the_approved_digest_is_deployed_and_owned(world: World) -> None:
    digest = approved(world)
    assert world.running == digest
    assert world.deployment is not None
    owner = world.deployment["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["controller"]) == ("InferencePlan", True)
    assert "annotations" not in world.deployment["spec"]["template"]["metadata"]
    assert world.events == ["Planned", "Approved", "Deployed"]


def test_availability_follows_the_deployment(world: World) -> None:
    approved(world)
    assert world.condition("Available")["reason"] == "Starting"
    assert world.condition("Reconciling")["status"] == "True"
    world.ready()
    world.settle()
    assert world.condition("Ready")["status"] == "True"
    assert world.condition("Reconciling") == {}


def test_a_changed_spec_offers_anew_and_the_approved_one_runs_on(world: World) -> None:
    digest = approved(world)
    world.edit(workload={**world.spec["workload"], "concurrency": 400})
    world.settle()
    assert world.offered not in (None, digest)
    assert world.running == digest
    assert world.condition("UpdateAvailable")["status"] == "True"
    assert world.condition("Approved")["reason"] == "ApprovalStale"
    assert world.status is not None
    assert world.status["recommendation"]["changes"]


def test_an_old_approval_does_not_go_live_under_a_new_spec(world: World) -> None:
    digest = world.offered
    assert digest is not None
    world.edit(workload={**world.spec["workload"], "concurrency": 400}, approval={"digest": digest})
    world.settle()
    assert world.deployment is None
    assert world.condition("Approved")["reason"] == "ApprovalStale"


def test_a_pinned_approval_does(world: World) -> None:
    digest = world.offered
    assert digest is not None
    world.edit(workload={**world.spec["workload"], "concurrency": 400}, approval={"digest": digest, "pin": True})
    world.settle()
    assert world.running == digest


def test_rollback_is_setting_a_retained_digest(world: World) -> None:
    first = approved(world)
    before = world.spec["workload"]
    world.edit(workload={**before, "concurrency": 400})
    world.settle()
    second = approved(world)
    assert world.running == second
    world.edit(workload=before, approval={"digest": first})
    world.settle()
    assert world.running == first


def test_revoking_freezes_and_tears_nothing_down(world: World) -> None:
    digest = approved(world)
    world.edit(approval=None)
    wanted = world.step()
    assert not [m for m in wanted.apply if m["kind"] == "Deployment"]
    assert world.running == digest
    assert world.condition("Approved")["reason"] == "Revoked"


def test_a_suspended_plan_changes_nothing(world: World) -> None:
    world.edit(suspend=True, approval={"digest": world.offered})
    world.settle()
    assert world.deployment is None
    assert world.condition("Deployed")["reason"] == "Suspended"


def test_without_gates_nothing_is_deployed(world: World) -> None:
    world.gates = False
    approved(world)
    assert world.deployment is None
    assert world.condition("Deployed")["reason"] == "GateMissing"
    assert world.condition("GateInstalled")["status"] == "False"


def test_a_hand_edit_is_undone_from_the_artefact(world: World) -> None:
    approved(world)
    assert world.deployment is not None
    wanted = json.dumps(world.deployment["spec"], sort_keys=True)
    world.deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "evil:latest"
    world.step()
    assert json.dumps(world.deployment["spec"], sort_keys=True) == wanted


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (lambda pod: pod["containers"].append({"name": "evil", "image": "busybox"}), "container evil"),
        (lambda pod: pod.update(initContainers=[{"name": "first"}]), "init container first"),
        (lambda pod: pod.update(hostNetwork=True), "hostNetwork"),
        (lambda pod: pod["volumes"].append({"name": "host", "hostPath": {"path": "/"}}), "volume host"),
        (lambda pod: pod["containers"][0]["env"].append({"name": "LD_PRELOAD", "value": "/x"}), "LD_PRELOAD"),
        (lambda pod: pod["containers"][0].update(envFrom=[{}]), "envFrom"),
        (lambda pod: pod["containers"][0]["securityContext"].update(privileged=True), "privileged"),
    ],
)
def test_what_others_added_beside_the_approved_is_said(world: World, tamper: Any, said: str) -> None:
    approved(world)
    world.ready()
    world.settle()
    assert world.deployment is not None
    tamper(world.deployment["spec"]["template"]["spec"])
    conditions = {c["type"]: c for c in reconcile(world.observed()).status["conditions"]}
    assert conditions["Deployed"]["reason"] == "DeploymentChanged"
    assert said in conditions["Deployed"]["message"]
    assert conditions["Ready"]["status"] == "False"


def test_a_denied_repair_is_said_though_the_digest_stands(world: World) -> None:
    approved(world)
    observed = replaced(world.observed(), last_apply_error="ValidatingAdmissionPolicy 'inferplan-shape' denied")
    conditions = {c["type"]: c for c in reconcile(observed).status["conditions"]}
    assert conditions["Deployed"]["reason"] == "DeployGateDenied"


def test_a_tampered_artefact_is_refused_and_made_again(world: World) -> None:
    digest = world.offered
    name = next(iter(world.config_maps))
    content = world.config_maps[name]["data"]["artifact.json"]
    world.config_maps[name]["data"]["artifact.json"] = content.replace("vllm-openai", "evil")
    world.approve(str(digest))
    world.step()
    assert all("evil" not in json.dumps(template) for _, template in world.applied)
    world.settle()
    assert world.config_maps[name]["data"]["artifact.json"] == content


def test_a_tampered_artefact_that_is_only_approved_stays_refused(world: World) -> None:
    first = approved(world)
    world.edit(workload={**world.spec["workload"], "concurrency": 400})
    world.settle()
    second = approved(world)
    name = f"chat-{first.removeprefix('sha256:')[:12]}"
    world.config_maps[name]["data"]["artifact.json"] += " "
    world.approve(first, pin=True)
    world.settle()
    assert world.running == second
    assert world.condition("Approved")["reason"] == "ArtifactRefused"


@pytest.mark.parametrize("kind", ["deployment", "service"])
def test_an_object_of_that_name_that_is_not_ours_is_never_taken_over(world: World, kind: str) -> None:
    foreign = {"apiVersion": "v1", "kind": kind.capitalize(), "metadata": {"name": "chat", "uid": "x"}}
    setattr(world, kind, foreign)
    world.approve(str(world.offered))
    for _ in range(3):
        world.step()
    assert getattr(world, kind) is foreign
    assert not world.applied
    assert world.condition("Stalled")["reason"] == "NameConflict"


def test_an_orphan_of_the_approved_digest_is_adopted(world: World) -> None:
    digest = approved(world)
    assert world.deployment is not None
    assert world.service is not None
    for orphan in (world.deployment, world.service):
        orphan["metadata"].pop("ownerReferences")
    world.settle()
    assert world.deployment["metadata"]["ownerReferences"]
    assert world.running == digest


def test_a_small_price_move_keeps_the_offer_and_a_large_one_changes_it(world: World) -> None:
    world.edit(constraints={"maxGPUs": 8, "gpuTypes": ["H100-SXM"]})
    world.settle()
    before = world.offered
    listed = resolve_gpu("H100-SXM").price
    assert listed is not None
    list_price = listed.usd_per_hour
    world.price = list_price * 1.01
    world.settle()
    assert world.offered == before
    world.price = list_price * 1.5
    world.settle()
    assert world.offered != before
    assert world.events[-1] == "PlanChanged"


def test_manual_replanning_waits_for_its_nonce(world: World) -> None:
    world.edit(constraints={"maxGPUs": 8, "gpuTypes": ["H100-SXM"]}, replan={"policy": "Manual"})
    world.settle()
    before = world.offered
    world.price = 9.99
    world.settle()
    assert world.offered == before
    world.edit(replan={"policy": "Manual", "nonce": "2"})
    world.settle()
    assert world.offered != before


def test_what_fits_nowhere_is_infeasible_with_a_way_out() -> None:
    world = World(model={"id": "Qwen/Qwen3-32B"}, constraints={"gpuTypes": ["T4"], "maxGPUs": 1})
    world.settle()
    assert world.condition("Feasible")["status"] == "False"
    assert "What would work" in world.condition("Feasible")["message"]
    assert world.events == ["Infeasible"]
    assert world.status is not None
    assert "recommendation" not in world.status


def test_an_unknown_gpu_type_is_named() -> None:
    world = World(constraints={"gpuTypes": ["NoSuchGPU"]})
    world.settle()
    assert world.condition("InputsResolved")["reason"] == "UnknownGPU"
    assert "NoSuchGPU" in world.condition("InputsResolved")["message"]


def test_an_unresolved_model_keeps_what_runs(world: World) -> None:
    digest = approved(world)
    observed = replaced(world.observed(), outcome=ModelNotFound("no such model"))
    wanted = reconcile(observed)
    assert wanted.delete == ()
    assert [m["metadata"]["annotations"]["inferplan.io/digest"] for m in wanted.apply if m["kind"] == "Deployment"] == [
        digest
    ]


def test_history_is_bounded_and_what_runs_is_kept(world: World) -> None:
    running = approved(world)
    for concurrency in (200, 300, 400, 500):
        world.edit(workload={**world.spec["workload"], "concurrency": concurrency}, revisionHistoryLimit=1)
        world.settle()
    assert world.status is not None
    assert running in world.status["offeredDigests"]
    assert len(world.status["offeredDigests"]) <= 3
    assert len(world.config_maps) == len(world.status["offeredDigests"])


def test_a_budget_lowered_below_an_approved_one_stops_a_new_deployment(world: World) -> None:
    digest = str(world.offered)
    world.edit(constraints={"maxGPUs": 8, "maxHourlyCost": "0.01"}, approval={"digest": digest, "pin": True})
    world.settle()
    assert world.deployment is None
    assert world.condition("Approved")["reason"] == "LimitExceeded"


@pytest.mark.parametrize(
    "limit",
    [{"quantization": ["awq"]}, {"kvCacheDtypes": ["fp8"]}, {"minContextLength": 40_961}, {"gpuTypes": ["T4"]}],
    ids=lambda limit: next(iter(limit)),
)
def test_a_pin_never_outranks_a_constraint(world: World, limit: dict[str, Any]) -> None:
    digest = str(world.offered)
    world.edit(constraints={"maxGPUs": 8, **limit}, approval={"digest": digest, "pin": True})
    world.settle()
    assert world.deployment is None
    assert world.condition("Approved")["reason"] == "LimitExceeded"


def test_an_annotation_written_by_hand_deploys_nothing(world: World) -> None:
    first = approved(world)
    world.edit(workload={**world.spec["workload"], "concurrency": 400})
    world.settle()
    second = str(world.offered)
    world.edit(workload={**world.spec["workload"], "concurrency": 16}, approval={"digest": second})
    world.settle()
    assert world.condition("Approved")["reason"] == "ApprovalStale"
    assert world.deployment is not None
    world.deployment["metadata"]["annotations"]["inferplan.io/digest"] = second
    applied = len(world.applied)
    world.settle()
    assert len(world.applied) == applied
    assert world.status is not None
    assert world.status["deployed"]["digest"] == first
    assert world.condition("Deployed")["reason"] == "DeploymentChanged"
    world.approve(str(world.offered))
    world.settle()
    assert world.running == world.offered


def test_a_nonce_is_answered_even_by_the_same_offer(world: World) -> None:
    world.edit(constraints={"maxGPUs": 8, "gpuTypes": ["H100-SXM"]}, replan={"policy": "Manual"})
    world.settle()
    before = world.offered
    world.edit(replan={"policy": "Manual", "nonce": "2"})
    world.settle()
    assert world.offered == before
    world.price = 9.99
    world.settle()
    assert world.offered == before


def test_a_hub_that_is_away_withdraws_nothing_and_changes_no_offer(world: World) -> None:
    world.edit(replan={"policy": "Manual"})
    world.settle()
    before = world.status
    assert before is not None
    away = reconcile(replaced(world.observed(), outcome=HubUnavailable("the hub is away")))
    assert away.status["recommendation"] == before["recommendation"]
    assert away.status["alternatives"] == before["alternatives"]
    assert away.status["offeredDigests"] == before["offeredDigests"]
    world.status = json.loads(json.dumps(away.status))
    assert world.condition("InputsResolved")["reason"] == "HubUnavailable"
    world.price, world.events = 9.99, []
    world.settle()
    assert world.offered == before["recommendation"]["digest"]
    assert "Planned" not in world.events
