"""What the chart renders: who gets which right, and a configuration that the operator reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, ClusterError

from inferplan_operator.config import load_config

pytestmark = pytest.mark.cluster

Rendered = dict[tuple[str, str], dict[str, Any]]


def rendered(cluster: Cluster, *values: str) -> Rendered:
    return {(m["kind"], m["metadata"]["name"]): m for m in cluster.templates(values)}


def rights(role: dict[str, Any]) -> set[tuple[str, str]]:
    return {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}


def test_only_approver_and_gitops_may_approve_and_nobody_has_a_wildcard(control_plane: Cluster) -> None:
    objects = rendered(control_plane)
    roles = {name: rights(m) for (kind, name), m in objects.items() if kind in {"ClusterRole", "Role"}}
    approving = {name for name, given in roles.items() if ("inferenceplans", "approve") in given}
    assert approving == {"inferplan-approver", "inferplan-gitops"}
    assert not any("*" in pair for given in roles.values() for pair in given)
    labels = {name: m["metadata"]["labels"] for (kind, name), m in objects.items() if kind == "ClusterRole"}
    aggregated = {name for name, given in labels.items() if any("aggregate" in key for key in given)}
    assert aggregated == {"inferplan-viewer", "inferplan-editor"}


def test_the_operator_reads_no_secret_but_those_named(control_plane: Cluster) -> None:
    objects = rendered(control_plane, "tokenSecrets[0].namespace=team-a", "tokenSecrets[0].name=hub")
    secrets = [
        (m["metadata"].get("namespace"), rule["resourceNames"], rule["verbs"])
        for (kind, _), m in objects.items()
        if kind in {"ClusterRole", "Role"}
        for rule in m["rules"]
        if "secrets" in rule["resources"]
    ]
    assert secrets == [("team-a", ["hub"], ["get"])]


def test_watching_some_namespaces_gives_rights_in_those_only(control_plane: Cluster) -> None:
    objects = control_plane.templates(("config.watchNamespaces={team-a,team-b}",))
    bound = {
        (m["kind"], m["metadata"].get("namespace"))
        for m in objects
        if m["kind"].endswith("RoleBinding") and m["roleRef"] == _cluster_role("inferplan-operator")
    }
    assert bound == {("RoleBinding", "team-a"), ("RoleBinding", "team-b")}


def _cluster_role(name: str) -> dict[str, str]:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}


def test_the_rendered_configuration_is_read_by_the_operator(control_plane: Cluster, tmp_path: Path) -> None:
    values = ("config.prices.H100-SXM=2.99", "config.priceDate=2026-01-31", "config.hub=never")
    config_map = rendered(control_plane, *values)["ConfigMap", "inferplan-config"]
    file = tmp_path / "config.yaml"
    file.write_text(config_map["data"]["config.yaml"], encoding="utf-8")
    config = load_config(file)
    assert str(config.prices["H100-SXM"]) == "2.99"
    assert config.hub == "never"


def test_the_process_is_confined(control_plane: Cluster) -> None:
    pod = rendered(control_plane)["Deployment", "inferplan-operator"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_a_wrong_value_is_refused_by_the_chart(control_plane: Cluster) -> None:
    with pytest.raises(ClusterError, match="'auto', 'never', 'always'"):
        control_plane.templates(("config.hub=offline",))


def test_no_variable_of_a_policy_holds_an_optional(control_plane: Cluster) -> None:
    """The API server loses an optional in a variable: what is asked of it is then not found, without an error, and a
    gate built on it stands open."""
    for (kind, name), policy in rendered(control_plane).items():
        if kind != "ValidatingAdmissionPolicy":
            continue
        assert policy["spec"]["failurePolicy"] == "Fail"
        for variable in policy["spec"].get("variables", ()):
            text = variable["expression"]
            resolved = any(end in text for end in ("orValue(", "hasValue(", " != ", " == "))
            assert resolved or ("?." not in text and ".?" not in text and "[?" not in text), (name, variable["name"])


def test_gates_and_aggregation_can_be_left_out(control_plane: Cluster) -> None:
    objects = rendered(control_plane, "gates.enabled=false", "rbac.aggregate=false")
    assert not any(kind.startswith("ValidatingAdmissionPolicy") for kind, _ in objects)
    labels = [m["metadata"].get("labels", {}) for (kind, _), m in objects.items() if kind == "ClusterRole"]
    assert not any("aggregate" in key for given in labels for key in given)
