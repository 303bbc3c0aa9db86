"""The GPU catalogue: bundled data, node labels and prices to the GPU type they speak of.

The data file holds one entry per GPU type with its sources; a new GPU is a new entry there and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import pkgutil
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from inferplan.errors import InvalidInput
from inferplan.hardware.gpu import GPU, Link, PeakFlops, Price

_GIB = 2**30
_MIB = 2**20
_TERA = 1e12
_GIGA = 1e9
# Drivers differ by what they count as total: a T4 shows 15109 or 15360 MiB, an A100 40536 or 40960.
_LABEL_TOLERANCE = 0.03
# No cloud rents one GPU for more; a figure above it is in cents or for a whole month.
_HIGHEST_USD_PER_HOUR = 1000


@lru_cache(maxsize=1)
def _document() -> tuple[bytes, dict[str, Any]]:
    # pkgutil and not importlib.resources: that one imports tempfile, zipfile and urllib, 25 ms of a cold start.
    data = pkgutil.get_data("inferplan.hardware", "data/gpus.json")
    if data is None:
        raise FileNotFoundError("inferplan/hardware/data/gpus.json is missing from the installation")
    return data, json.loads(data)


@lru_cache(maxsize=1)
def catalog() -> tuple[GPU, ...]:
    """Every GPU type we know, in the order of the data file."""
    return tuple(_gpu(entry) for entry in _document()[1]["gpus"])


@lru_cache(maxsize=1)
def catalog_version() -> str:
    """Date and content hash of the catalogue, e.g. `2026-12-01+3fa9c2d1`."""
    data, document = _document()
    return f"{document['version']}+{hashlib.sha256(data).hexdigest()[:8]}"


def _gpu(entry: dict[str, Any]) -> GPU:
    tflops, link, price = entry["dense_tflops"], entry["link"], entry["price"]
    return GPU(
        name=entry["name"],
        vendor=entry["vendor"],
        generation=entry["generation"],
        compute_capability=(entry["compute_capability"][0], entry["compute_capability"][1]),
        memory_bytes=round(entry["memory_gib"] * _GIB),
        memory_bandwidth_bytes_per_second=entry["memory_bandwidth_gb_per_second"] * _GIGA,
        peak=PeakFlops(
            fp16=tflops["fp16"] * _TERA,
            bf16=_scaled(tflops["bf16"]),
            fp8=_scaled(tflops["fp8"]),
            int8=_scaled(tflops["int8"]),
            fp4=_scaled(tflops["fp4"]),
        ),
        link=Link(
            kind=link["kind"],
            bandwidth_bytes_per_second=link["gb_per_second_one_way"] * _GIGA,
            peer_to_peer=link["peer_to_peer"],
            span=link["span"],
            pcie_bytes_per_second=link["pcie_gb_per_second_one_way"] * _GIGA,
        ),
        sm_count=entry["sm_count"],
        l2_cache_bytes=round(entry["l2_cache_mib"] * _MIB),
        tdp_watts=float(entry["tdp_watts"]),
        gpus_per_node=entry["gpus_per_node"],
        unified_memory=entry["unified_memory"],
        price=Price(price["usd_per_hour"], price["source"], price["date"]) if price else None,
        product_labels=tuple(entry["product_labels"]),
        aliases=tuple(entry["aliases"]),
        sources=tuple(f"{figures}: {source}" for figures, source in entry["sources"].items()),
        form_factor=entry["form_factor"],
        advertised_memory_gb=entry["memory_gb"],
        nvidia_smi_memory_mib=entry["nvidia_smi_memory_mib"],
        unverified=tuple(entry["unverified"]),
    )


def _scaled(tflops: float | None) -> float | None:
    return None if tflops is None else tflops * _TERA


def resolve_gpu(name: str, gpus: tuple[GPU, ...] | None = None) -> GPU:
    """The GPU type a name stands for, as people and tools write it (see `names`).

    Raises UnknownGPU naming the nearest types, the several it fits, or the several it names.
    """
    if gpus is None:
        return _of_catalogue(name)
    from inferplan.hardware.names import find_gpu  # only here: its patterns cost more than reading the catalogue

    return find_gpu(name, gpus)


@lru_cache(maxsize=1024)
def _of_catalogue(name: str) -> GPU:
    return resolve_gpu(name, catalog())


def gpu_of_labels(labels: Mapping[str, str], gpus: tuple[GPU, ...] | None = None) -> GPU | None:
    """The type of a node's whole GPUs by the labels of GPU feature discovery or AMD's node labeller.

    None: no such label, a type we don't hold, another memory size than ours (the same product name is sold with
    several), or no whole GPUs: a MIG profile (`…-MIG-1g.10gb`) or a shared one (`…-SHARED`).
    """
    product = labels.get("nvidia.com/gpu.product") or labels.get("amd.com/gpu.product-name")
    if not product:
        return None
    memory_mib = _number(labels.get("nvidia.com/gpu.memory"))
    known = catalog() if gpus is None else gpus
    fitting = (gpu for gpu in known if product in gpu.product_labels and _label_fits(gpu, memory_mib))
    return next(fitting, None)


def _label_fits(gpu: GPU, memory_mib: float | None) -> bool:
    expected = gpu.nvidia_smi_memory_mib
    if memory_mib is None or expected is None:
        return True
    return abs(memory_mib - expected) <= _LABEL_TOLERANCE * expected


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None


def parse_price(name: str, text: str) -> float:
    """A price as a positive number. Raises InvalidInput otherwise: no price is ever zero."""
    try:
        value = Decimal(text)
    except InvalidOperation as error:
        raise InvalidInput(f"prices.{name}={text!r} is no decimal number (USD per GPU-hour, like 2.49)") from error
    if not value.is_finite() or value <= 0:
        raise InvalidInput(f"prices.{name}={text!r} must be above zero (USD per GPU-hour); leave unknown prices out")
    if value > _HIGHEST_USD_PER_HOUR:
        raise InvalidInput(f"prices.{name}={text!r} is no price of one GPU for one hour; give USD, like 2.49")
    return float(value)
