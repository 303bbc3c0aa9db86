"""The kinds the operator reads and writes, and where the API server keeps them."""

from __future__ import annotations

from dataclasses import dataclass

from inferplan_operator.api.v1alpha1 import API_VERSION
from inferplan_operator.lifecycle.types import KubeObject
from inferplan_operator.manifests import PLAN_LABEL

FIELD_MANAGER = "inferplan-operator"
# The ConfigMap that publishes what recommendations rest on.
INPUTS_NAME = "inferplan-inputs"
INPUTS_KEY = "inputs.json"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. `label_selector`, `field_selector`: what of it is watched ("": all)."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True
    label_selector: str = ""
    field_selector: str = ""

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path below the API server's address; without a name it is the collection's."""
        parts = ["apis" if self.group else "api", self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/" + "/".join(parts)


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """An object's name within its kind; cluster-scoped kinds have no namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


PLANS = Kind(API_VERSION, "InferencePlan", "inferenceplans")
GPU_PROFILES = Kind(API_VERSION, "GPUProfile", "gpuprofiles", namespaced=False)
DEPLOYMENTS = Kind("apps/v1", "Deployment", "deployments", label_selector=PLAN_LABEL)
SERVICES = Kind("v1", "Service", "services", label_selector=PLAN_LABEL)
CONFIG_MAPS = Kind("v1", "ConfigMap", "configmaps", label_selector=PLAN_LABEL)
PODS = Kind("v1", "Pod", "pods", label_selector=PLAN_LABEL)
NODES = Kind("v1", "Node", "nodes", namespaced=False)
# Of the admission policies only those of the chart are looked at.
_OF_THE_CHART = "app.kubernetes.io/name=inferplan"
GATE_POLICIES = Kind(
    "admissionregistration.k8s.io/v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    namespaced=False,
    label_selector=_OF_THE_CHART,
)
GATE_BINDINGS = Kind(
    "admissionregistration.k8s.io/v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    namespaced=False,
    label_selector=_OF_THE_CHART,
)
NAMESPACES = Kind("v1", "Namespace", "namespaces", namespaced=False)
LEASES = Kind("coordination.k8s.io/v1", "Lease", "leases")
EVENTS = Kind("events.k8s.io/v1", "Event", "events")
SECRETS = Kind("v1", "Secret", "secrets")

# Kept in memory, in the order in which a start lists them.
WATCHED = (GATE_POLICIES, GATE_BINDINGS, GPU_PROFILES, NODES, CONFIG_MAPS, DEPLOYMENTS, SERVICES, PODS, PLANS)

_WRITTEN = {(kind.api_version, kind.kind): kind for kind in (*WATCHED, NAMESPACES, LEASES, EVENTS)}


def kind_of(manifest: KubeObject) -> Kind:
    """The kind of an object that says its own. Raises KeyError for one the operator has no business with."""
    return _WRITTEN[(str(manifest["apiVersion"]), str(manifest["kind"]))]


def key_of(manifest: KubeObject) -> Key:
    metadata = manifest["metadata"]
    return Key(str(metadata.get("namespace") or ""), str(metadata["name"]))
