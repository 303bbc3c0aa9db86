"""What a GPU is: its spec sheet as plain numbers in SI units."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PeakFlops:
    """Dense (no sparsity) tensor throughput in FLOP/s (OP/s for int8); None: not supported in hardware."""

    fp16: float
    bf16: float | None
    fp8: float | None = None
    int8: float | None = None
    fp4: float | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """How the GPUs of one node talk to each other.

    `bandwidth_bytes_per_second`: per GPU, one direction. `kind`: `nvswitch`, `nvlink-bridge`, `pcie`, `xgmi`, `none`.
    """

    kind: str
    bandwidth_bytes_per_second: float
    peer_to_peer: bool


@dataclass(frozen=True, slots=True)
class Price:
    """List price of one GPU for one hour, with where and when it was read."""

    usd_per_hour: float
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class GPU:
    """One GPU type. `memory_bytes`: what the driver reports as total (not the marketing figure)."""

    name: str
    vendor: str
    generation: str
    compute_capability: tuple[int, int]
    memory_bytes: int
    memory_bandwidth_bytes_per_second: float
    peak: PeakFlops
    link: Link
    sm_count: int
    l2_cache_bytes: int
    tdp_watts: float
    gpus_per_node: int
    unified_memory: bool = False
    price: Price | None = None
    product_labels: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
