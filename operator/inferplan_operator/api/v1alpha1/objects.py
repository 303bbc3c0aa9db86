"""The two kinds as whole objects."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inferplan_operator.api.v1alpha1.base import Fraction, Money, ShortText, SpecModel, StatusModel
from inferplan_operator.api.v1alpha1.spec import InferencePlanSpec
from inferplan_operator.api.v1alpha1.status import InferencePlanStatus

GROUP = "inferplan.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"


class Metadata(StatusModel):
    """The part of ObjectMeta that is looked at."""

    name: str = Field(default="", max_length=253)
    namespace: str = Field(default="", max_length=63)
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    deletion_timestamp: str | None = None


class InferencePlan(StatusModel):
    """A model to serve, what for, and what was approved."""

    api_version: Literal["inferplan.io/v1alpha1"] = "inferplan.io/v1alpha1"
    kind: Literal["InferencePlan"] = "InferencePlan"
    metadata: Metadata = Field(default_factory=Metadata)
    spec: InferencePlanSpec
    status: InferencePlanStatus | None = None


class GPUProfileSpec(SpecModel):
    """What this cluster knows better about one GPU type."""

    gpu_type: ShortText = Field(description="GPU type (catalogue name or alias).")
    usd_per_hour: Money | None = Field(
        default=None,
        description="Price of one GPU for one hour in US dollars, a decimal string; wins over list prices.",
    )
    memory_gib: Annotated[str, Field(pattern=r"^[0-9]{1,4}(\.[0-9]{1,4})?$", max_length=10)] | None = Field(
        default=None, alias="memoryGiB", description="Total memory as the driver reports it, in GiB."
    )
    bandwidth_scale: Fraction | None = Field(
        default=None, description="Share of the spec sheet's memory bandwidth that is reached (a power cap, say)."
    )


class GPUProfileStatus(StatusModel):
    """What the cluster has of it."""

    nodes: int = Field(default=0, description="Nodes with this GPU type.")
    gpus: int = Field(default=0, description="GPUs in total.")


class GPUProfile(StatusModel):
    """One GPU type's overrides and price; cluster-scoped."""

    api_version: Literal["inferplan.io/v1alpha1"] = "inferplan.io/v1alpha1"
    kind: Literal["GPUProfile"] = "GPUProfile"
    metadata: Metadata = Field(default_factory=Metadata)
    spec: GPUProfileSpec
    status: GPUProfileStatus | None = None
