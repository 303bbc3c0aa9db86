"""GPUProfile: what a cluster's administrators know better than the catalogue about one GPU type."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from inferplan_operator.api.v1alpha1.fields import (
    Date,
    DNSSubdomain,
    EngineName,
    GPUName,
    LabelValue,
    Line,
    PositiveDecimal,
    Rule,
    SpecModel,
    StatusModel,
)
from inferplan_operator.api.v1alpha1.metadata import Metadata
from inferplan_operator.api.v1alpha1.status import Condition, Count, ShortText


class PriceSpec(SpecModel):
    """What one GPU costs."""

    usd_per_hour: PositiveDecimal = Field(description='USD per GPU-hour, a decimal in quotes like "2.99".')
    source: Line | None = Field(default=None, description="Where the price is from.")
    date: Date | None = Field(default=None, description="When it was read, like 2026-01-31.")


class TFLOPSSpec(SpecModel):
    """Dense tensor throughput (no sparsity) in TFLOP/s."""

    fp16: PositiveDecimal | None = Field(default=None, description="FP16.")
    bf16: PositiveDecimal | None = Field(default=None, description="BF16.")
    fp8: PositiveDecimal | None = Field(default=None, description="FP8.")
    int8: PositiveDecimal | None = Field(default=None, description="INT8, in TOP/s.")
    fp4: PositiveDecimal | None = Field(default=None, description="FP4.")


class InterconnectSpec(SpecModel):
    """How the GPUs of one node talk to each other."""

    kind: Literal["nvswitch", "nvlink-bridge", "pcie", "xgmi", "none"] = Field(description="Kind of link.")
    bandwidth_gb_per_second: PositiveDecimal | None = Field(
        default=None, alias="bandwidthGBPerSecond", description="Per GPU and direction, in GB/s (10^9 bytes)."
    )
    peer_to_peer: bool = Field(default=True, description="Whether GPUs reach each other's memory. Default: true.")


class OverridesSpec(SpecModel):
    """Spec-sheet values that differ from the catalogue's; absent ones are the catalogue's."""

    memory_mib: Annotated[int, Field(ge=1024, le=10_000_000)] | None = Field(
        default=None, alias="memoryMiB", description="Total memory as the driver reports it, in MiB."
    )
    memory_bandwidth_gb_per_second: PositiveDecimal | None = Field(
        default=None, alias="memoryBandwidthGBPerSecond", description="Memory bandwidth in GB/s (10^9 bytes)."
    )
    tflops: TFLOPSSpec | None = Field(default=None, alias="tflops", description="Dense tensor throughput.")
    interconnect: InterconnectSpec | None = Field(default=None, description="Links between the GPUs of a node.")
    gpus_per_node: Annotated[int, Field(ge=1, le=1024)] | None = Field(default=None, description="GPUs of one node.")
    tdp_watts: Annotated[int, Field(ge=1, le=100_000)] | None = Field(default=None, description="Power limit in W.")


class ConstantSpec(SpecModel):
    """One measured constant of the predictor."""

    name: EngineName = Field(description="Name of the constant.")
    value: PositiveDecimal = Field(description="Its value, a decimal in quotes.")


class CalibrationSpec(SpecModel):
    """Constants measured on this GPU type; a named input of every recommendation that uses them."""

    id: DNSSubdomain = Field(description="Name of this calibration; part of the digest.")
    date: Date | None = Field(default=None, description="When it was measured.")
    engine_version: Annotated[str, Field(max_length=32)] | None = Field(
        default=None, description="Engine version that it was measured with."
    )
    constants: Annotated[tuple[ConstantSpec, ...], Field(max_length=64)] = Field(
        description="Constants by name.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )


class GPUProfileSpec(SpecModel):
    """What is known better about one GPU type."""

    gpu_type: GPUName = Field(description="GPU type, by catalogue name or alias.")
    price: PriceSpec | None = Field(default=None, description="What one GPU costs; wins over every list price.")
    product_labels: Annotated[tuple[LabelValue, ...], Field(max_length=16)] = Field(
        default=(),
        description="More values of the node label nvidia.com/gpu.product that mean this type.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    overrides: OverridesSpec | None = Field(default=None, description="Spec-sheet values that differ.")
    calibration: CalibrationSpec | None = Field(default=None, description="Constants measured on this type.")

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.calibration)",
            lambda self: self.calibration is None,
            "UnsupportedCalibration: calibration isn't read yet; leave it out, price and overrides are",
        ),
    )


class GPUProfileStatus(StatusModel):
    """What the cluster has of this GPU type: totals, never what is free now."""

    observed_generation: int = Field(default=-1, description="Generation of the spec that this is about.")
    gpu_type: ShortText = Field(default="", description="Catalogue name that spec.gpuType was resolved to.")
    nodes: Count = Field(default=0, description="Nodes with this type.")
    gpus: Count = Field(default=0, description="GPUs of this type on all nodes.")
    conditions: Annotated[list[Condition], Field(max_length=8)] = Field(
        default=[],
        description="Ready.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )


class GPUProfile(SpecModel):
    """What administrators know better than the catalogue about one GPU type: price, spec sheet, calibration."""

    api_version: Literal["inferplan.io/v1alpha1"] = Field(description="inferplan.io/v1alpha1")
    kind: Literal["GPUProfile"] = Field(description="GPUProfile")
    metadata: Metadata = Field(description="Standard object's metadata.")
    spec: GPUProfileSpec = Field(description="What is known better about one GPU type.")
    status: GPUProfileStatus | None = Field(default=None, description="What the cluster has of it.")
