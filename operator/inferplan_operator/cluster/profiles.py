"""GPUProfiles: what this cluster's administrators know better than the catalogue, put over it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pydantic import ValidationError

from inferplan.errors import InferPlanError
from inferplan.hardware import GPU, Link, PeakFlops, parse_price, resolve_gpu
from inferplan_operator.api.v1alpha1 import GPUProfile, GPUProfileSpec
from inferplan_operator.lifecycle.types import KubeObject

_MIB = 2**20
_GIGA = 1e9
_TERA = 1e12

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Known:
    """GPU types with the profiles' values, and the prices the profiles name (USD per GPU-hour)."""

    gpus: tuple[GPU, ...]
    prices: dict[str, float]


def with_profiles(gpus: tuple[GPU, ...], profiles: Iterable[KubeObject]) -> Known:
    """The catalogue under the profiles, in the order of their names.

    A profile that can't be used is said in the log and left out: one bad object stops nothing.
    """
    by_name = {gpu.name: gpu for gpu in gpus}
    prices: dict[str, float] = {}
    for manifest in sorted(profiles, key=lambda found: str(found["metadata"]["name"])):
        try:
            spec = GPUProfile.model_validate(manifest).spec
            gpu = resolve_gpu(spec.gpu_type, gpus)
            by_name[gpu.name] = _over(by_name[gpu.name], spec)
            if spec.price is not None:
                prices[gpu.name] = parse_price(spec.gpu_type, spec.price.usd_per_hour)
        except (InferPlanError, ValidationError) as error:
            logger.warning("GPUProfile left out", extra={"profile": manifest["metadata"]["name"], "error": str(error)})
    return Known(tuple(by_name.values()), prices)


def _over(gpu: GPU, spec: GPUProfileSpec) -> GPU:
    gpu = replace(gpu, product_labels=(*gpu.product_labels, *spec.product_labels))
    values = spec.overrides
    if values is None:
        return gpu
    if values.tflops is not None:
        given = {name: float(text) * _TERA for name, text in values.tflops.model_dump(exclude_none=True).items()}
        gpu = replace(gpu, peak=_peak(gpu.peak, given))
    if values.interconnect is not None:
        link = values.interconnect
        bandwidth = link.bandwidth_gb_per_second
        speed = gpu.link.bandwidth_bytes_per_second if bandwidth is None else float(bandwidth) * _GIGA
        gpu = replace(gpu, link=Link(link.kind, speed, link.peer_to_peer))
    memory, bandwidth = values.memory_mib, values.memory_bandwidth_gb_per_second
    return replace(
        gpu,
        memory_bytes=gpu.memory_bytes if memory is None else memory * _MIB,
        memory_bandwidth_bytes_per_second=(
            gpu.memory_bandwidth_bytes_per_second if bandwidth is None else float(bandwidth) * _GIGA
        ),
        gpus_per_node=values.gpus_per_node or gpu.gpus_per_node,
        tdp_watts=gpu.tdp_watts if values.tdp_watts is None else float(values.tdp_watts),
    )


def _peak(peak: PeakFlops, given: dict[str, float]) -> PeakFlops:
    return PeakFlops(
        fp16=given.get("fp16", peak.fp16),
        bf16=given.get("bf16", peak.bf16),
        fp8=given.get("fp8", peak.fp8),
        int8=given.get("int8", peak.int8),
        fp4=given.get("fp4", peak.fp4),
    )
