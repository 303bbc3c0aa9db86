"""What the command line asks of the API server: read a plan, grant an approval, read the published inputs.

Synchronous and small: one person, one plan. The credentials are the person's own kubeconfig, so the API server's
roles and gates decide what they may do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inferplan.errors import InferPlanError, InvalidInput

GROUP = "inferplan.io"
VERSION = "v1alpha1"
PLURAL = "inferenceplans"
# Its own field manager: Flux strips fields owned by kubectl's.
APPROVER_FIELD_MANAGER = "inferplan-approver"
APPLY = "application/apply-patch+yaml"


class ClusterError(InferPlanError):
    """The API server refused or could not be asked; the message is its own."""

    code = "ClusterError"


@dataclass(frozen=True, slots=True)
class Connection:
    """Where to ask: `namespace` is the context's unless given."""

    api: Any
    core: Any
    namespace: str


def connect(kubeconfig: str | None, context: str | None, namespace: str | None) -> Connection:
    """Open the person's kubeconfig. Raises ClusterError when there is none or the context is unknown."""
    from kubernetes import client, config

    try:
        _, active = config.list_kube_config_contexts(config_file=kubeconfig)
        contexts, _ = config.list_kube_config_contexts(config_file=kubeconfig)
        chosen = next((c for c in contexts if c["name"] == context), active) if context else active
        api_client = config.new_client_from_config(config_file=kubeconfig, context=context)
    except (config.ConfigException, OSError, TypeError) as error:
        raise ClusterError(f"no usable kubeconfig: {error}") from error
    default = (chosen or {}).get("context", {}).get("namespace", "default")
    return Connection(client.CustomObjectsApi(api_client), client.CoreV1Api(api_client), namespace or default)


def get_plan(connection: Connection, name: str) -> dict[str, Any]:
    """The InferencePlan as stored. Raises InvalidInput when it does not exist, ClusterError otherwise."""
    from kubernetes.client import ApiException

    try:
        found = connection.api.get_namespaced_custom_object(GROUP, VERSION, connection.namespace, PLURAL, name)
    except ApiException as error:
        if error.status == 404:
            where = f"namespace {connection.namespace!r}"
            raise InvalidInput(f"no InferencePlan {name!r} in {where}; list them: kubectl get ipl -A") from error
        raise _refusal(error) from error
    return dict(found)


def approve_plan(connection: Connection, name: str, digest: str, reason: str | None) -> None:
    """Set `spec.approval` by server-side apply. Raises ClusterError with the gate's own words when refused."""
    from kubernetes.client import ApiException

    approval: dict[str, Any] = {"digest": digest}
    if reason:
        approval["reason"] = reason
    body = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "InferencePlan",
        "metadata": {"name": name, "namespace": connection.namespace},
        "spec": {"approval": approval},
    }
    try:
        connection.api.patch_namespaced_custom_object(
            GROUP,
            VERSION,
            connection.namespace,
            PLURAL,
            name,
            body,
            field_manager=APPROVER_FIELD_MANAGER,
            force=True,
            _content_type=APPLY,
        )
    except ApiException as error:
        raise _refusal(error) from error


def published_inputs(connection: Connection, namespace: str) -> str:
    """The operator's inputs document (ConfigMap `inferplan-inputs`)."""
    from kubernetes.client import ApiException

    try:
        found = connection.core.read_namespaced_config_map("inferplan-inputs", namespace)
    except ApiException as error:
        if error.status == 404:
            message = f"no ConfigMap inferplan-inputs in namespace {namespace!r}: is the operator running there?"
            raise InvalidInput(message) from error
        raise _refusal(error) from error
    return str(found.data["inputs.json"])


def _refusal(error: Any) -> ClusterError:
    """The API server's message without the HTTP around it."""
    import json

    try:
        message = json.loads(error.body)["message"]
    except (TypeError, ValueError, KeyError):
        message = f"{error.status} {error.reason}"
    return ClusterError(str(message))
