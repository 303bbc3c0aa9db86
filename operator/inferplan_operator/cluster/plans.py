"""What the command line asks of the API server: read a plan, grant an approval, read the published inputs.

Synchronous and small: one person, one plan. The credentials are the person's own kubeconfig, so the API server's
roles and gates decide what they may do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from inferplan.errors import InferPlanError, InvalidInput
from inferplan_operator.cluster.kinds import INPUTS_KEY, INPUTS_NAME, PLANS

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
        contexts, active = config.list_kube_config_contexts(config_file=kubeconfig)
        chosen = next((c for c in contexts if c["name"] == context), active) if context else active
        api_client = config.new_client_from_config(config_file=kubeconfig, context=context)
    except (config.ConfigException, OSError, TypeError) as error:
        raise ClusterError(f"no usable kubeconfig: {error}") from error
    default = (chosen or {}).get("context", {}).get("namespace", "default")
    return Connection(client.CustomObjectsApi(api_client), client.CoreV1Api(api_client), namespace or default)


def get_plan(connection: Connection, name: str) -> dict[str, Any]:
    """The InferencePlan as stored. Raises InvalidInput when it does not exist, ClusterError otherwise."""
    missing = f"no InferencePlan {name!r} in namespace {connection.namespace!r}; list them: kubectl get ipl -A"
    with _asking(missing):
        return dict(connection.api.get_namespaced_custom_object(*_where(connection), name))


def approve_plan(connection: Connection, name: str, digest: str, reason: str | None, *, pin: bool = False) -> None:
    """Set `spec.approval` by server-side apply. Raises ClusterError with the gate's own words when refused."""
    approval: dict[str, Any] = {"digest": digest}
    if pin:
        approval["pin"] = True
    if reason:
        approval["reason"] = reason
    body = {
        "apiVersion": PLANS.api_version,
        "kind": PLANS.kind,
        "metadata": {"name": name, "namespace": connection.namespace},
        "spec": {"approval": approval},
    }
    with _asking(f"InferencePlan {name!r} is gone"):
        connection.api.patch_namespaced_custom_object(
            *_where(connection),
            name,
            body,
            field_manager=APPROVER_FIELD_MANAGER,
            force=True,
            _content_type=APPLY,
        )


def published_inputs(connection: Connection, namespace: str) -> str:
    """The operator's inputs document (ConfigMap INPUTS_NAME)."""
    with _asking(f"no ConfigMap {INPUTS_NAME} in namespace {namespace!r}: is the operator running there?"):
        found = connection.core.read_namespaced_config_map(INPUTS_NAME, namespace)
    return str(found.data[INPUTS_KEY])


def _where(connection: Connection) -> tuple[str, str, str, str]:
    return PLANS.group, PLANS.version, connection.namespace, PLANS.plural


@contextmanager
def _asking(missing: str) -> Iterator[None]:
    """Every way a request fails as one of ours; `missing`: what a 404 means here."""
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        if error.status == 404:
            raise InvalidInput(missing) from error
        raise _refusal(error) from error
    except HTTPError as error:
        # The innermost reason: a refused connection, an unknown host, a certificate that is not trusted.
        reason = getattr(error, "reason", None) or error
        raise ClusterError(
            f"the API server can't be reached: {reason}; check the kubeconfig and its context"
        ) from error


def _refusal(error: Any) -> ClusterError:
    """The API server's message without the HTTP around it."""
    import json

    try:
        message = json.loads(error.body)["message"]
    except (TypeError, ValueError, KeyError):
        message = f"{error.status} {error.reason}"
    return ClusterError(str(message))
