"""inferplan.io/v1alpha1: InferencePlan and GPUProfile as pydantic models, the one source of the CRDs."""

from inferplan_operator.api.v1alpha1.objects import (
    API_VERSION,
    GROUP,
    VERSION,
    GPUProfile,
    GPUProfileSpec,
    InferencePlan,
    Metadata,
)
from inferplan_operator.api.v1alpha1.spec import EXEMPT_FIELDS, INTENT_FIELDS, InferencePlanSpec, intent_of
from inferplan_operator.api.v1alpha1.status import InferencePlanStatus

__all__ = [
    "API_VERSION",
    "EXEMPT_FIELDS",
    "GROUP",
    "INTENT_FIELDS",
    "VERSION",
    "GPUProfile",
    "GPUProfileSpec",
    "InferencePlan",
    "InferencePlanSpec",
    "InferencePlanStatus",
    "Metadata",
    "intent_of",
]
