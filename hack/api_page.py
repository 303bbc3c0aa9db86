"""docs/api.md: every field, column, argument and name of the API, from the models and the CRDs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from generate_crds import PLAN_COLUMNS, crds

from inferplan_operator.api.v1alpha1 import EXEMPT_FIELDS, INTENT_FIELDS, arguments
from inferplan_operator.api.v1alpha1.spec import REFUSED_ENV

_INTRODUCTION = """# API: inferplan.io/v1alpha1

Generated from `operator/inferplan_operator/api/v1alpha1` by `hack/generate_docs.py`; change the models, not this page.
The same texts are in the cluster: `kubectl explain ipl.spec.workload`.

- **InferencePlan** (namespaced, short name `ipl`, category `inference`): a model, its traffic and its objectives; a
  recommendation for them; and the approval that lets it run.
- **GPUProfile** (cluster-scoped, short name `gpup`): what administrators know better than the catalogue about one GPU
  type: price, spec sheet, calibration.

Nothing is defaulted into a stored spec: a default below is what an absent field means. Money, rates and fractions are
decimal numbers in quotes. kubectl refuses unknown fields (a client that asks for no strict validation gets a warning
instead, and the API server drops the field). Every refusal names the field, the value and what would work, and
`inferplan plan -f` says the same words as the API server. A field with * is required."""

_DIGEST = """## Intent and digest

A recommendation answers the **intent**, and its digest binds it. A change of the intent makes an approval stale unless
it is pinned; a change of anything else does not.

- intent: {intent}
- not intent: {exempt}"""

_NAMES = """## Names

- For a plan NAME the operator makes Deployment NAME, Service NAME, and one ConfigMap `NAME-<first 12 digits of the
  digest>` for each recommendation it offers. So NAME must be able to name a Service: up to 63 lower-case letters,
  digits and `-`, starting with a letter. An object of such a name that the plan doesn't own is never taken over:
  condition `Stalled`, reason `NameConflict`.
- Label `inferplan.io/plan` = NAME on all of them; it is reserved: only the operator writes ConfigMaps that carry it.
- Annotation `inferplan.io/digest` on the Deployment, never on its pods: an operator upgrade rolls nothing."""

_REFUSED = """## Refused with a reason, never ignored

| written | refused as |
|---|---|
| `topology` other than Aggregated; arguments that split a replica: {topology} | `UnsupportedTopology` |
| `workload.traceRef` | `UnsupportedTrace`, until traces can be read |
| `autoscaling.mode` hpa or keda | `UnsupportedAutoscaling`, until they can be planned for |
| `constraints.minQuality` | `UnsupportedMinQuality`, until weight formats are chosen |
| GPUProfile `calibration` | `UnsupportedCalibration`, until it is read |
| `model.source: oci` | `UnsupportedModelSource` |
| `runtime.env` of {env} | tokens belong in a Secret, code paths in the image |"""


def api() -> str:
    """The whole page."""
    plan, profile = (crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for crd in crds().values())
    code = {
        "intent": _listed(INTENT_FIELDS),
        "exempt": _listed(EXEMPT_FIELDS),
        "topology": _listed({f"--{name}" for name in arguments.UNSUPPORTED_TOPOLOGY}),
        "env": _listed(set(REFUSED_ENV)),
    }
    parts = (
        _INTRODUCTION,
        "## InferencePlan: spec",
        _fields(plan["properties"]["spec"]),
        _DIGEST.format(**code),
        _REFUSED.format(**code),
        _arguments(),
        "## InferencePlan: status",
        _fields(plan["properties"]["status"]),
        _columns(),
        "## GPUProfile: spec",
        _fields(profile["properties"]["spec"]),
        "## GPUProfile: status",
        _fields(profile["properties"]["status"]),
        _NAMES,
    )
    return "\n\n".join(parts) + "\n"


def _listed(names: frozenset[str] | set[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _fields(schema: dict[str, Any]) -> str:
    rows = [f"| `{path}` | {_kind(node)} | {node.get('description', '')} |" for path, node in _walk(schema, "")]
    return "\n".join(("| field | type | meaning |", "|---|---|---|", *rows))


def _walk(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    required = schema.get("required", ())
    for name, child in schema.get("properties", {}).items():
        here = f"{path}{name}"
        yield here + (" *" if name in required else ""), child
        inner = child.get("items", child)
        yield from _walk(inner, here + ("[]." if "items" in child else "."))


def _kind(node: dict[str, Any]) -> str:
    if "enum" in node:
        return " or ".join(map(str, node["enum"]))
    if node["type"] == "array":
        inner = node["items"]
        what = "objects" if inner["type"] == "object" else f"{inner['type']}s"
        return f"≤ {node['maxItems']} {what}"
    if node["type"] == "integer":
        low, high = node.get("minimum"), node.get("maximum")
        return "integer" + (f" {low} … {high}" if low is not None and high is not None else "")
    if node["type"] == "string" and "maxLength" in node:
        return f"string ≤ {node['maxLength']}"
    return str(node["type"])


def _arguments() -> str:
    return f"""## Engine arguments (`runtime.extraArgs`)

One item each, like `--max-model-len=8192`. The list is closed, so that nothing slips past planning or approval.

- Planning takes the value as fixed: {_listed({f"--{name}" for name in arguments.MODELLED})}.
- Passed on and named in `status.recommendation.unmodelled`:
  {_listed({f"--{name}" for name in arguments.PASSED})}.
- Everything else is refused: what the plan decides itself (parallelism, revision, quantization), and what would open
  the pod (`--host`, `--api-key`, `--trust-remote-code`, plugins, middleware, local media paths)."""


def _columns() -> str:
    rows = [f"| {name}{' (-o wide)' if priority else ''} | `{path}` |" for name, path, priority in PLAN_COLUMNS]
    return "\n".join(("## Columns of `kubectl get ipl`", "", "| column | field |", "|---|---|", *rows))
