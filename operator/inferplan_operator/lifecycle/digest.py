"""What an approval is bound to: one canonical text, its sha256, and the immutable ConfigMap that holds it.

The text covers intent, decision, rendered manifests, predictions as displayed and the versions they rest on; not
UIDs, times, Git revisions or free GPUs. So the same digest comes from the command line, from the operator, after a
revert and in a rebuilt cluster. No float ever enters: numbers are integers or decimal strings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from inferplan import __version__
from inferplan.errors import InferPlanError
from inferplan.planning import Choice, Decision, Inputs, Predicted, Recommendation
from inferplan_operator.api.v1alpha1 import API_VERSION, InferencePlan
from inferplan_operator.api.v1alpha1 import intent_of as spec_intent
from inferplan_operator.lifecycle.request import serving_of
from inferplan_operator.lifecycle.types import KubeObject, Offer
from inferplan_operator.manifests import MANAGED_BY, PLAN_LABEL, Serving, render

SCHEMA = "inferplan.io/artifact/v1alpha1"
ARTIFACT_KEY = "artifact.json"
_SHORT = 12

T = TypeVar("T")


class ArtifactRefused(InferPlanError):
    """A stored artefact is not what its digest says, or can't be rendered again to the same bytes."""

    code = "ArtifactRefused"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A stored recommendation, verified: `manifests` are what may be applied under `digest`."""

    digest: str
    manifests_digest: str
    intent: str
    choice: Choice
    manifests: tuple[dict[str, Any], ...]
    versions: Mapping[str, Any]


def canonical(value: object) -> str:
    """JSON with sorted keys, UTF-8, no white space. Raises TypeError for a float: it has no one text."""
    _refuse_floats(value)
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _refuse_floats(value: object) -> None:
    if isinstance(value, float):
        raise TypeError(f"a float can't be part of a digest: {value!r}")
    if isinstance(value, Mapping):
        for item in value.values():
            _refuse_floats(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_floats(item)


def sha256_of(text: str) -> str:
    """`sha256:<64 hex>` of the UTF-8 bytes."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def intent_of(plan: InferencePlan) -> str:
    """What an approval covers of a plan's spec, as canonical text."""
    return canonical(spec_intent(plan.spec))


def make_offer(plan: InferencePlan, recommendation: Recommendation, inputs: Inputs) -> Offer:
    """The recommendation as something that can be approved."""
    choice = recommendation.choice
    serving = serving_of(plan, choice.decision, inputs)
    manifests = render(serving, choice.decision)
    content = {
        "schema": SCHEMA,
        "namespace": plan.metadata.namespace,
        "name": plan.metadata.name,
        "intent": spec_intent(plan.spec),
        "decision": asdict(choice.decision),
        "serving": asdict(serving),
        "manifests": list(manifests),
        "predicted": {name: asdict(p) for name, p in choice.predicted},
        "versions": {
            "planner": __version__,
            "catalog": inputs.catalog_version,
            "engine": inputs.defaults.engine_version,
            "priceDate": inputs.price_date,
            "prices": [list(map(str, pair)) for pair in inputs.prices],
        },
    }
    text = canonical(content)
    return Offer(sha256_of(text), sha256_of(canonical(list(manifests))), text, recommendation)


def artifact_name(plan_name: str, digest: str) -> str:
    """`NAME-<first 12 of the digest>`."""
    return f"{plan_name}-{short(digest)}"


def short(digest: str) -> str:
    """The first 12 hexadecimal digits."""
    return digest.removeprefix("sha256:")[:_SHORT]


def artifact_config_map(plan: InferencePlan, digest: str, text: str) -> dict[str, Any]:
    """The immutable ConfigMap, owned by the plan."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": artifact_name(plan.metadata.name, digest),
            "namespace": plan.metadata.namespace,
            "labels": {PLAN_LABEL: plan.metadata.name, MANAGED_BY: "inferplan"},
            "ownerReferences": [owner_reference(plan)],
        },
        "immutable": True,
        "data": {ARTIFACT_KEY: text},
    }


def owner_reference(plan: InferencePlan) -> dict[str, Any]:
    """The plan as controlling owner."""
    return {
        "apiVersion": API_VERSION,
        "kind": "InferencePlan",
        "name": plan.metadata.name,
        "uid": plan.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def is_owned(found: KubeObject, plan: InferencePlan) -> bool:
    """Whether the plan controls an object."""
    owners = found["metadata"].get("ownerReferences") or ()
    return any(o.get("controller") and o.get("uid") == plan.metadata.uid for o in owners)


@cache
def _reader(kind: type[T]) -> TypeAdapter[T]:
    # Building one takes milliseconds, and every look at a plan verifies what is stored.
    return TypeAdapter(kind)


def verify(config_map: KubeObject, digest: str, plan: InferencePlan) -> Artifact:
    """Re-hash and re-render what is stored. Raises ArtifactRefused naming the mismatch."""
    name = config_map["metadata"]["name"]
    text = (config_map.get("data") or {}).get(ARTIFACT_KEY)
    if not isinstance(text, str) or sha256_of(text) != digest:
        raise ArtifactRefused(f"ConfigMap {name} does not hold what {digest} stands for")
    try:
        content = json.loads(text)
        if content["schema"] != SCHEMA:
            raise ArtifactRefused(f"ConfigMap {name} has schema {content['schema']!r}, this operator reads {SCHEMA}")
        decision = _reader(Decision).validate_python(content["decision"])
        predicted = _reader(dict[str, Predicted]).validate_python(content["predicted"])
        serving = _reader(Serving).validate_python(content["serving"])
        stored = content["manifests"]
        where = (content["namespace"], content["name"])
        intent, versions = canonical(content["intent"]), content["versions"]
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise ArtifactRefused(f"ConfigMap {name} can't be read: {error}") from error
    if where != (plan.metadata.namespace, plan.metadata.name):
        raise ArtifactRefused(f"ConfigMap {name} was made for {'/'.join(where)}")
    manifests = render(serving, decision)
    if canonical(list(manifests)) != canonical(stored):
        raise ArtifactRefused(f"ConfigMap {name}: its decision renders to other manifests with this operator's version")
    choice = Choice(decision, tuple(predicted.items()))
    return Artifact(digest, sha256_of(canonical(stored)), intent, choice, manifests, versions)
