"""The deploy gate: only the approved digest, only in the shape of a served model, as the operator really renders it."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from cluster import Cluster

from inferplan_operator.manifests import DIGEST_ANNOTATION, PLAN_LABEL, Serving, TokenRef, Volume, render
from samples import CHAT, DECISION

pytestmark = pytest.mark.cluster

DIGEST = "sha256:" + "a1" * 32
OTHER = "sha256:" + "b2" * 32

Change = Callable[[dict[str, Any]], None]


class Plan:
    """A stored plan, and the objects that the operator makes for it."""

    def __init__(self, cluster: Cluster, namespace: str, approved: str | None = None, **model: Any) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.document = copy.deepcopy(CHAT)
        self.document["metadata"] = {"name": "chat", "namespace": namespace}
        self.document["spec"]["model"] |= model
        if approved:
            self.document["spec"]["approval"] = {"digest": approved}
        cluster.apply(self.document)

    def uid(self) -> str:
        stored = self.cluster.get("ipl", "chat", "-n", self.namespace)
        assert stored is not None
        return str(stored["metadata"]["uid"])

    def objects(self, digest: str = DIGEST, **serving: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Service and Deployment with owner and digest, as they are applied."""
        asked = Serving(
            name="chat",
            namespace=self.namespace,
            model_id=CHAT["spec"]["model"]["id"],
            gpu_type="H100-SXM",
            gpu_products=("NVIDIA-H100-80GB-HBM3",),
            tolerations=(("nvidia.com/gpu", "Exists", "", "NoSchedule"),),
            **serving,
        )
        owner = {
            "apiVersion": "inferplan.io/v1alpha1",
            "kind": "InferencePlan",
            "name": "chat",
            "uid": self.uid(),
            "controller": True,
        }
        service, deployment = copy.deepcopy(render(asked, DECISION))
        for manifest in (service, deployment):
            manifest["metadata"]["ownerReferences"] = [owner]
            manifest["metadata"]["annotations"] = {DIGEST_ANNOTATION: digest}
        return service, deployment

    def write(self, manifest: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        return self.cluster.apply(manifest, person="operator", check=False)

    def written(self, manifest: dict[str, Any]) -> bool:
        """Whether it is let through in the end: the gate sees a new plan or approval a moment later."""
        self.cluster.wait(lambda: self.write(manifest).returncode == 0, 20, f"{manifest['kind']} written")
        return True


@pytest.fixture
def plan(control_plane: Cluster, namespace: str) -> Plan:
    return Plan(control_plane, namespace)


@pytest.fixture(scope="module")
def approved(control_plane: Cluster) -> Plan:
    """A plan with an approved digest and nothing deployed, as the gate already knows it."""
    namespace = "deploy-gate"
    control_plane.ensure_namespace(namespace)
    plan = Plan(control_plane, namespace, DIGEST)
    _, deployment = plan.objects()
    assert plan.written(deployment)
    plan.cluster.kubectl("delete", "deploy", "chat", "-n", plan.namespace, "--cascade=foreground")
    return plan


def test_nothing_is_deployed_without_an_approval(plan: Plan) -> None:
    _, deployment = plan.objects()
    done = plan.write(deployment)
    assert done.returncode != 0
    assert plan.cluster.get("deploy", "chat", "-n", plan.namespace) is None


def test_what_the_operator_renders_is_let_through_once_its_digest_is_approved(
    control_plane: Cluster, namespace: str
) -> None:
    plan = Plan(control_plane, namespace, DIGEST)
    service, deployment = plan.objects()
    assert plan.written(deployment)
    assert plan.written(service)
    assert plan.written(deployment), "writing it again is no other thing"


def test_a_token_and_a_volume_are_those_of_the_plan(control_plane: Cluster, namespace: str) -> None:
    source = {"source": "pvc", "pvc": {"claimName": "models"}, "tokenSecretRef": {"name": "hub"}}
    plan = Plan(control_plane, namespace, DIGEST, **source)
    _, deployment = plan.objects(token=TokenRef("hub", "token"), volume=Volume("models", "qwen"))
    assert plan.written(deployment)
    _, deployment = plan.objects(token=TokenRef("database", "password"), volume=Volume("models", "qwen"))
    assert "tokenSecretRef" in plan.write(deployment).stderr
    _, deployment = plan.objects(token=TokenRef("hub", "token"), volume=Volume("payroll", ""))
    assert "spec.model.pvc" in plan.write(deployment).stderr


def test_another_digest_than_the_approved_one_is_denied(approved: Plan) -> None:
    _, deployment = approved.objects(OTHER)
    said = approved.write(deployment).stderr
    assert OTHER in said
    assert "is not the approved one" in said
    assert DIGEST in said
    _, without = approved.objects()
    del without["metadata"]["annotations"]
    assert "(none)" in approved.write(without).stderr


def _pod(deployment: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return pod


def _container(deployment: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = _pod(deployment)["containers"][0]
    return container


SIDE = {"name": "side", "image": "docker.io/vllm/vllm-openai:v0.33.0", "command": ["vllm", "serve"]}
SHAPES: dict[str, tuple[Change, str]] = {
    "second container": (lambda d: _pod(d)["containers"].append(SIDE), "one container"),
    "init container": (lambda d: _pod(d).update(initContainers=[SIDE]), "one container"),
    "foreign image": (lambda d: _container(d).update(image="example.com/miner:1"), "example.com/miner:1"),
    "look-alike image": (lambda d: _container(d).update(image="docker.io/vllm/vllm-openai-x:1"), "repository"),
    "another command": (lambda d: _container(d).update(command=["sh", "-c", "id"]), "the command is"),
    "no command": (lambda d: _container(d).pop("command"), "the command is"),
    "host network": (lambda d: _pod(d).update(hostNetwork=True), "host network"),
    "host PID": (lambda d: _pod(d).update(hostPID=True), "host network"),
    "host IPC": (lambda d: _pod(d).update(hostIPC=True), "host network"),
    "fixed node": (lambda d: _pod(d).update(nodeName="control-plane"), "host network"),
    "host port": (lambda d: _container(d)["ports"][0].update(hostPort=8000), "host network"),
    "hostPath": (lambda d: _pod(d)["volumes"].append({"name": "h", "hostPath": {"path": "/"}}), "hostPath"),
    "secret volume": (lambda d: _pod(d)["volumes"].append({"name": "s", "secret": {"secretName": "db"}}), "hostPath"),
    "somebody's claim": (
        lambda d: _pod(d)["volumes"].append({"name": "p", "persistentVolumeClaim": {"claimName": "payroll"}}),
        "spec.model.pvc",
    ),
    "privileged": (
        lambda d: _container(d).update(securityContext={"privileged": True}),
        "privilege",
    ),
    "privilege escalation": (lambda d: _container(d).pop("securityContext"), "without privilege"),
    "capability": (
        lambda d: _container(d)["securityContext"]["capabilities"].update(add=["SYS_ADMIN"]),
        "without privilege",
    ),
    "unconfined": (
        lambda d: _pod(d).update(securityContext={"seccompProfile": {"type": "Unconfined"}}),
        "without privilege",
    ),
    "service account": (lambda d: _pod(d).update(serviceAccountName="inferplan-operator"), "service account"),
    "token mounted": (lambda d: _pod(d).update(automountServiceAccountToken=True), "service account token"),
    "secret in the environment": (
        lambda d: _container(d)["env"].append(
            {"name": "X", "valueFrom": {"secretKeyRef": {"name": "database", "key": "password"}}}
        ),
        "Secret",
    ),
    "token of no secret named": (
        lambda d: _container(d)["env"].append(
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "database", "key": "password"}}}
        ),
        "Secret that spec.model.tokenSecretRef names",
    ),
    "envFrom": (lambda d: _container(d).update(envFrom=[{"secretRef": {"name": "database"}}]), "envFrom"),
    "exec hook": (
        lambda d: _container(d).update(lifecycle={"preStop": {"exec": {"command": ["sh"]}}}),
        "nothing is run beside",
    ),
    "exec probe": (
        lambda d: _container(d).update(livenessProbe={"exec": {"command": ["sh"]}}),
        "nothing is run beside",
    ),
    "probe elsewhere": (
        lambda d: _container(d)["livenessProbe"]["httpGet"].update(host="169.254.169.254"),
        "nothing is run beside",
    ),
    "priority": (lambda d: _pod(d).update(priorityClassName="system-cluster-critical"), "priority class"),
    "no label": (lambda d: d["metadata"]["labels"].pop(PLAN_LABEL), "must carry the label"),
    "no owner": (lambda d: d["metadata"].pop("ownerReferences"), "owned by"),
    "owner second": (
        lambda d: d["metadata"]["ownerReferences"].insert(
            0, {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "00000000-0000-0000-0000-000000000001"}
        ),
        "must be owned",
    ),
    "owner of another life": (
        lambda d: d["metadata"]["ownerReferences"][0].update(uid="00000000-0000-0000-0000-000000000002"),
        "another InferencePlan",
    ),
    "another name": (lambda d: d["metadata"].update(name="mine"), "must carry the label"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_an_approved_digest_does_not_carry_anything_else(approved: Plan, shape: str) -> None:
    change, said = SHAPES[shape]
    _, deployment = approved.objects()
    change(deployment)
    done = approved.write(deployment)
    assert done.returncode != 0
    assert said in done.stderr


def test_a_running_deployment_can_not_be_turned_into_something_else(approved: Plan) -> None:
    _, deployment = approved.objects()
    assert approved.written(deployment)
    patch = {"spec": {"template": {"spec": {"hostNetwork": True}}}}
    command = ("patch", "deploy", "chat", "-n", approved.namespace, "--type=strategic", "-p", json.dumps(patch))
    assert "host network" in approved.cluster.kubectl(*command, person="operator", check=False).stderr
    approved.cluster.kubectl("delete", "deploy", "chat", "-n", approved.namespace)


def test_an_approval_in_another_namespace_does_not_count(approved: Plan) -> None:
    elsewhere = f"{approved.namespace}-b"
    approved.cluster.ensure_namespace(elsewhere)
    other = Plan(approved.cluster, elsewhere)
    _, deployment = other.objects()

    def denied() -> bool:
        return "is not the approved one" in other.write(deployment).stderr

    approved.cluster.wait(denied, 20, "the gate to see the new plan")


def test_a_deployment_of_a_plan_that_does_not_exist_is_collected(approved: Plan) -> None:
    """The known limit: params are ANDed, so the gate can't see that a plan is missing; its owner reference does."""
    _, deployment = approved.objects()
    text = json.dumps(deployment).replace('"chat"', '"ghost"')
    ghost = json.loads(text)
    ghost["metadata"]["ownerReferences"][0]["uid"] = "00000000-0000-0000-0000-000000000003"
    assert approved.write(ghost).returncode == 0, "denied now? then docs/security.md has one limit less"
    where = ("deploy", "ghost", "-n", approved.namespace)
    approved.cluster.wait(lambda: approved.cluster.get(*where) is None, 90, "the orphan to be collected", poll=1)


def test_people_deploy_their_own_things_as_ever(control_plane: Cluster, namespace: str) -> None:
    """The gate is about the operator; what people may deploy is for the cluster's own policies."""
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
        },
    }
    assert control_plane.apply(deployment).returncode == 0


def test_the_operator_can_make_no_other_workload(control_plane: Cluster) -> None:
    kinds = ("pods", "statefulsets.apps", "daemonsets.apps", "replicasets.apps", "jobs.batch", "cronjobs.batch")
    subresources = (("pods", "exec"), ("pods", "ephemeralcontainers"), ("deployments.apps", "scale"))
    asked = [(kind,) for kind in kinds] + [(kind, f"--subresource={name}") for kind, name in subresources]
    for what in asked:
        for verb in ("create", "patch", "update"):
            may = control_plane.kubectl("auth", "can-i", verb, *what, "-A", person="operator", check=False)
            assert may.stdout.strip() == "no", f"{verb} {what}"
