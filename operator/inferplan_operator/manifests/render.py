"""A decision → the objects that serve it. Pure and byte-stable: the same decision gives the same bytes on any machine.

What is approved is what stands here: every argument of vLLM is explicit. The digest itself is not part of it (it is
computed over these bytes) and never enters the pod template: an annotation there would roll pods on every upgrade.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inferplan.planning import Decision

PLAN_LABEL = "inferplan.io/plan"
MANAGED_BY = "app.kubernetes.io/managed-by"
DIGEST_ANNOTATION = "inferplan.io/digest"
PORT = 8000

# vLLM 0.32 answers nothing on /health until weights are loaded, compiled and graphs captured.
_STARTUP_PERIOD_SECONDS = 10
_STARTUP_SECONDS = 3600
# The endpoint leaves the Service first (new requests would get 500 while draining), then running requests finish.
_PRE_STOP_SECONDS = 10
_SHUTDOWN_SECONDS = 60
_GRACE_SECONDS = _PRE_STOP_SECONDS + _SHUTDOWN_SECONDS + 20
_CACHE = "/var/cache/inferplan"
_MODELS = "/models"


@dataclass(frozen=True, slots=True)
class TokenRef:
    """Where the hub token lies: a key of a Secret in the plan's namespace."""

    secret: str
    key: str


@dataclass(frozen=True, slots=True)
class Volume:
    """A claim that holds the model, and the directory inside it."""

    claim: str
    path: str


@dataclass(frozen=True, slots=True)
class Serving:
    """Everything besides the decision that the objects depend on; all of it is intent or an operator default.

    `gpu_products`: node labels (`nvidia.com/gpu.product`) of the decided GPU type.
    """

    name: str
    namespace: str
    model_id: str
    gpu_type: str
    gpu_products: tuple[str, ...]
    extra_args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    token: TokenRef | None = None
    volume: Volume | None = None
    labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[tuple[str, str, str, str], ...] = ()


def render(serving: Serving, decision: Decision) -> tuple[dict[str, Any], ...]:
    """Service and Deployment, in the order they are applied."""
    return _service(serving), _deployment(serving, decision)


def arguments(serving: Serving, decision: Decision) -> tuple[str, ...]:
    """The arguments of `vllm serve`, all of them."""
    model = f"{_MODELS}/{serving.volume.path}".rstrip("/") if serving.volume else serving.model_id
    found = [
        model,
        f"--served-model-name={serving.model_id}",
        f"--port={PORT}",
        f"--tensor-parallel-size={decision.tensor_parallel}",
        f"--pipeline-parallel-size={decision.pipeline_parallel}",
        f"--data-parallel-size={decision.data_parallel}",
        f"--max-model-len={decision.max_model_len}",
        f"--max-num-seqs={decision.max_num_seqs}",
        f"--max-num-batched-tokens={decision.max_num_batched_tokens}",
        f"--gpu-memory-utilization={decision.gpu_memory_utilization}",
        f"--kv-cache-dtype={decision.kv_cache_dtype}",
        "--enable-prefix-caching" if decision.enable_prefix_caching else "--no-enable-prefix-caching",
        f"--shutdown-timeout={_SHUTDOWN_SECONDS}",
    ]
    if decision.enforce_eager:
        found.append("--enforce-eager")
    if decision.model_revision and serving.volume is None:
        found.append(f"--revision={decision.model_revision}")
    given = {_flag(a) for a in serving.extra_args}
    # An argument the user gave replaces ours, so that none stands twice.
    kept = [a for a in found if _flag(a) not in given]
    return (*kept, *serving.extra_args)


def _flag(argument: str) -> str:
    return argument.partition("=")[0].replace("--no-enable-", "--enable-") if argument.startswith("--") else argument


def _labels(serving: Serving) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "vllm",
        "app.kubernetes.io/instance": serving.name,
        MANAGED_BY: "inferplan",
        PLAN_LABEL: serving.name,
        **dict(serving.labels),
    }


def _metadata(serving: Serving) -> dict[str, Any]:
    return {"name": serving.name, "namespace": serving.namespace, "labels": _labels(serving)}


def _service(serving: Serving) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(serving),
        "spec": {
            "type": "ClusterIP",
            "selector": {PLAN_LABEL: serving.name},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}],
        },
    }


def _deployment(serving: Serving, decision: Decision) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(serving),
        "spec": {
            "replicas": decision.replicas,
            "revisionHistoryLimit": 2,
            "progressDeadlineSeconds": _STARTUP_SECONDS + 600,
            "selector": {"matchLabels": {PLAN_LABEL: serving.name}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": _labels(serving)},
                "spec": _pod(serving, decision),
            },
        },
    }


def _pod(serving: Serving, decision: Decision) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        # A Service named `vllm` would inject VLLM_PORT=tcp://…, and vLLM refuses to start with it.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "affinity": _affinity(serving.gpu_products),
        "containers": [_container(serving, decision)],
        "volumes": _volumes(serving),
    }
    if serving.tolerations:
        pod["tolerations"] = [_toleration(t) for t in serving.tolerations]
    return pod


def _affinity(products: tuple[str, ...]) -> dict[str, Any]:
    """Only nodes whose GPUs are of the decided type, by the label of GPU feature discovery."""
    expression = {"key": "nvidia.com/gpu.product", "operator": "In", "values": sorted(products)}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [expression]}]
            }
        }
    }


def _toleration(toleration: tuple[str, str, str, str]) -> dict[str, str]:
    names = ("key", "operator", "value", "effect")
    return {name: text for name, text in zip(names, toleration, strict=True) if text}


def _container(serving: Serving, decision: Decision) -> dict[str, Any]:
    gpus = decision.gpus_per_replica
    probe = {"httpGet": {"path": "/health", "port": "http", "scheme": "HTTP"}}
    return {
        "name": "vllm",
        "image": decision.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["vllm", "serve"],
        "args": list(arguments(serving, decision)),
        "env": _environment(serving),
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"nvidia.com/gpu": str(gpus)}},
        "startupProbe": {
            **probe,
            "periodSeconds": _STARTUP_PERIOD_SECONDS,
            "failureThreshold": _STARTUP_SECONDS // _STARTUP_PERIOD_SECONDS,
            "timeoutSeconds": 5,
        },
        "readinessProbe": {**probe, "periodSeconds": 5, "failureThreshold": 3, "timeoutSeconds": 5},
        "livenessProbe": {**probe, "periodSeconds": 20, "failureThreshold": 6, "timeoutSeconds": 10},
        "lifecycle": {"preStop": {"sleep": {"seconds": _PRE_STOP_SECONDS}}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": _mounts(serving),
    }


def _environment(serving: Serving) -> list[dict[str, Any]]:
    fixed: list[dict[str, Any]] = [
        {"name": "HF_HOME", "value": f"{_CACHE}/huggingface"},
        {"name": "VLLM_CACHE_ROOT", "value": f"{_CACHE}/vllm"},
        # In step with the startup probe: vLLM's own limit is 600 s.
        {"name": "VLLM_ENGINE_READY_TIMEOUT_S", "value": str(_STARTUP_SECONDS)},
        {"name": "VLLM_NO_USAGE_STATS", "value": "1"},
    ]
    if serving.volume is not None:
        fixed.append({"name": "HF_HUB_OFFLINE", "value": "1"})
    if serving.token is not None:
        reference = {"name": serving.token.secret, "key": serving.token.key}
        fixed.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}})
    given = dict(serving.env)
    return [e for e in fixed if e["name"] not in given] + [{"name": k, "value": v} for k, v in serving.env]


def _volumes(serving: Serving) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        # vLLM's workers share tensors through /dev/shm; the runtime's 64 MiB are too little for TP > 1.
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
        {"name": "cache", "emptyDir": {}},
    ]
    if serving.volume is not None:
        claim: Mapping[str, Any] = {"claimName": serving.volume.claim, "readOnly": True}
        volumes.append({"name": "models", "persistentVolumeClaim": claim})
    return volumes


def _mounts(serving: Serving) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108  (the container's shared memory)
        {"name": "cache", "mountPath": _CACHE},
    ]
    if serving.volume is not None:
        mounts.append({"name": "models", "mountPath": _MODELS, "readOnly": True})
    return mounts
