"""The GPU catalogue and the one resolver for the many ways people and tools write a GPU's name.

The data file holds one entry per GPU type with its sources; a new GPU is a new entry there and nothing else.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from importlib import resources
from typing import Any

from inferplan.errors import InvalidInput, UnknownGPU
from inferplan.hardware.gpu import GPU, Link, PeakFlops, Price

_GIB = 2**30
_MIB = 2**20
_TERA = 1e12
_GIGA = 1e9
# Words that say nothing about which GPU it is.
_NOISE = ("nvidia", "geforce", "tesla", "gpu", "graphics", "card", "amd", "instinct", "a", "single")


@lru_cache(maxsize=1)
def _document() -> tuple[str, dict[str, Any]]:
    text = (resources.files("inferplan.hardware") / "data" / "gpus.json").read_text(encoding="utf-8")
    return text, json.loads(text)


@lru_cache(maxsize=1)
def catalog() -> tuple[GPU, ...]:
    """Every GPU type we know, in the order of the data file."""
    return tuple(_gpu(entry) for entry in _document()[1]["gpus"])


@lru_cache(maxsize=1)
def catalog_version() -> str:
    """Date and content hash of the catalogue, e.g. `2026-12-01+3fa9c2d1`."""
    text, document = _document()
    return f"{document['version']}+{hashlib.sha256(text.encode()).hexdigest()[:8]}"


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
        link=Link(link["kind"], link["gb_per_second_one_way"] * _GIGA, link["peer_to_peer"]),
        sm_count=entry["sm_count"],
        l2_cache_bytes=round(entry["l2_cache_mib"] * _MIB),
        tdp_watts=float(entry["tdp_watts"]),
        gpus_per_node=entry["gpus_per_node"],
        unified_memory=entry["unified_memory"],
        price=Price(price["usd_per_hour"], price["source"], price["date"]) if price else None,
        product_labels=tuple(entry["product_labels"]),
        aliases=tuple(entry["aliases"]),
        sources=tuple(entry["sources"]),
    )


def _scaled(tflops: float | None) -> float | None:
    return None if tflops is None else tflops * _TERA


def resolve_gpu(name: str, gpus: tuple[GPU, ...] | None = None) -> GPU:
    """The GPU type a name stands for. Raises UnknownGPU listing the nearest names, or all an ambiguous one fits."""
    known = catalog() if gpus is None else gpus
    index = _index(known)
    key = _key(name)
    # As written; without a trailing count (`A6000x1`); without a remark in brackets (`T4 (14.56 GiB)`).
    for spelling in (key, re.sub(r"x\d+$", "", key), _key(re.sub(r"\(.*\)", " ", name))):
        if spelling in index:
            return index[spelling]
    names = [gpu.name for gpu in known]
    close = difflib.get_close_matches(key, list(index), n=8, cutoff=0.6)
    near = list(dict.fromkeys(index[k].name for k in close))[:5] or sorted(names)
    raise UnknownGPU(f"GPU type {name!r} is unknown; did you mean: {', '.join(near)}? All: inferplan gpus")


@lru_cache(maxsize=8)
def _index(gpus: tuple[GPU, ...]) -> Mapping[str, GPU]:
    index: dict[str, GPU] = {}
    for gpu in gpus:
        for name in (gpu.name, *gpu.aliases, *gpu.product_labels):
            index.setdefault(_key(name), gpu)
    return index


def _key(name: str) -> str:
    """Lower case, words joined, noise dropped: `NVIDIA A100-SXM4-80GB` → `a100sxm480gb`."""
    words = re.split(r"[^a-z0-9.]+", name.lower())
    kept = [w for w in words if w and w not in _NOISE]
    return "".join(kept)


def gpu_of_labels(labels: Mapping[str, str], gpus: tuple[GPU, ...] | None = None) -> GPU | None:
    """The type of a node's GPUs by the labels of GPU feature discovery; None without or with MIG or unknown ones."""
    product = labels.get("nvidia.com/gpu.product") or labels.get("amd.com/gpu.product-name")
    if not product or "-MIG-" in product:
        return None
    known = catalog() if gpus is None else gpus
    # Time-slicing appends -SHARED; the card behind it is the same, but it is no whole GPU.
    if product.endswith("-SHARED"):
        return None
    return next((gpu for gpu in known if product in gpu.product_labels), None)


def with_prices(gpus: Iterable[GPU], prices: Mapping[str, str], source: str, date: str) -> tuple[GPU, ...]:
    """The same GPUs with a user's prices (USD per GPU-hour as decimal strings), which win over list prices.

    Raises UnknownGPU or InvalidInput naming the entry.
    """
    held = tuple(gpus)
    given = {resolve_gpu(name, held).name: parse_price(name, text) for name, text in prices.items()}
    return tuple(replace(gpu, price=Price(given[gpu.name], source, date)) if gpu.name in given else gpu for gpu in held)


def parse_price(name: str, text: str) -> float:
    """A price as a positive number. Raises InvalidInput otherwise: no price is ever zero."""
    try:
        value = Decimal(text)
    except InvalidOperation as error:
        raise InvalidInput(f"prices.{name}={text!r} is no decimal number (USD per GPU-hour, like 2.49)") from error
    if not value.is_finite() or value <= 0:
        raise InvalidInput(f"prices.{name}={text!r} must be above zero (USD per GPU-hour); leave unknown prices out")
    return float(value)
