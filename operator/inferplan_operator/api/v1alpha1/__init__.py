"""inferplan.io/v1alpha1: the models that the CRDs are generated from, and that plans are read with."""

from inferplan_operator.api.v1alpha1.metadata import Metadata
from inferplan_operator.api.v1alpha1.plan import InferencePlan, parse_plan
from inferplan_operator.api.v1alpha1.profile import GPUProfile, GPUProfileSpec
from inferplan_operator.api.v1alpha1.spec import (
    EXEMPT_FIELDS,
    INTENT_FIELDS,
    InferencePlanSpec,
    intent_of,
    spec_dump,
)
from inferplan_operator.api.v1alpha1.status import Condition, InferencePlanStatus

GROUP = "inferplan.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

__all__ = [
    "API_VERSION",
    "EXEMPT_FIELDS",
    "GROUP",
    "INTENT_FIELDS",
    "VERSION",
    "Condition",
    "GPUProfile",
    "GPUProfileSpec",
    "InferencePlan",
    "InferencePlanSpec",
    "InferencePlanStatus",
    "Metadata",
    "intent_of",
    "parse_plan",
    "spec_dump",
]
