"""What a GPU is: its spec sheet as plain numbers in SI units."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PeakFlops:
    """Dense (no sparsity) tensor throughput in FLOP/s (OP/s for int8); None: not supported in hardware.

    Accumulation in fp32 (int32 for int8), as the GEMMs of a language model need: GeForce cards halve their rate for it.
    """

    fp16: float
    bf16: float | None
    fp8: float | None = None
    int8: float | None = None
    fp4: float | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """How the GPUs of one node talk to each other.

    `kind`: `nvswitch`, `nvlink-bridge`, `pcie`, `xgmi`, `none`. `bandwidth_bytes_per_second`: one direction, per GPU;
    of a mesh (`xgmi`) per pair of GPUs. `span`: how many GPUs share the link; 0: all of a node. Beyond it traffic goes
    over PCIe (`pcie_bytes_per_second`, one direction; 0: none).
    """

    kind: str
    bandwidth_bytes_per_second: float
    peer_to_peer: bool
    span: int = 0
    pcie_bytes_per_second: float = 0.0

    def bandwidth_among(self, gpus: int) -> float:
        """Bytes/s one GPU can send to `gpus` - 1 others of its node, all together. 0: one GPU, or no link.

        A GPU of a mesh has one link to each other GPU, so a pair gets one link's share and eight get all seven.
        """
        if gpus < 2:
            return 0.0
        if self.span and gpus > self.span:
            return self.pcie_bytes_per_second
        if self.kind == "xgmi":
            return self.bandwidth_bytes_per_second * (gpus - 1)
        return self.bandwidth_bytes_per_second


@dataclass(frozen=True, slots=True)
class Price:
    """List price of one GPU for one hour, with where and when it was read."""

    usd_per_hour: float
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class GPU:
    """One GPU type.

    `memory_bytes`: what CUDA or HIP reports as total (vLLM multiplies this one), not what the vendor advertises
    (`advertised_memory_gb`) nor what nvidia-smi and the node label `nvidia.com/gpu.memory` show. `unverified`: names of
    the figures no source at hand confirms. AMD's compute capability is the gfx version (9.4 = gfx942).
    """

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
    form_factor: str = ""
    advertised_memory_gb: int = 0
    nvidia_smi_memory_mib: int | None = None
    unverified: tuple[str, ...] = ()
