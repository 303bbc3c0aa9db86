"""The catalogue: every entry is complete, plausible, and says where its figures come from."""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from pathlib import Path

import pytest

from inferplan.hardware import GPU, catalog, catalog_version

GIB = 2**30
HARDWARE = {gpu.name: gpu for gpu in catalog()}

# FLOP per clock and SM (compute unit) of one dense 16-bit tensor operation with fp32 accumulation: NVIDIA's and AMD's
# architecture whitepapers (Volta to Blackwell; CDNA 2, 3 and 4). GeForce cards and a few passively cooled ones run it
# at half that.
TENSOR_FLOP_PER_CLOCK = {
    ("AMD", 9, 0): 1024,
    ("AMD", 9, 4): 2048,
    ("AMD", 9, 5): 4096,
    ("NVIDIA", 7, 0): 1024,
    ("NVIDIA", 7, 5): 1024,
    ("NVIDIA", 8, 0): 2048,
    ("NVIDIA", 8, 6): 1024,
    ("NVIDIA", 8, 9): 1024,
    ("NVIDIA", 9, 0): 4096,
    ("NVIDIA", 10, 0): 8192,
    ("NVIDIA", 10, 3): 8192,
    ("NVIDIA", 11, 0): 8192,
    ("NVIDIA", 12, 0): 1024,
    ("NVIDIA", 12, 1): 1024,
}
HALF_RATE = {"A10G", "L40"}
# Whole chips with a part of their rate: how slow is not public per SM, but never faster than the chip.
CUT_FOR_EXPORT = {"H20", "H20-141GB"}

each_gpu = pytest.mark.parametrize("gpu", catalog(), ids=lambda gpu: gpu.name)


def test_the_types_the_planner_promises_are_there() -> None:
    promised = """H100-SXM H100-PCIe H100-NVL H200-SXM H200-NVL GH200 H20 H20-141GB A100-SXM-80GB A100-PCIe-80GB
        A100-SXM-40GB A100-PCIe-40GB A800-SXM-80GB L4 L40 L40S A10 A10G A30 A40 RTX-A5000 RTX-A6000 RTX-4000-Ada
        RTX-6000-Ada RTX-PRO-4500-Blackwell RTX-PRO-6000-Blackwell RTX-PRO-6000-Blackwell-Server
        RTX-PRO-6000-Blackwell-Max-Q RTX-3060-12GB RTX-3060-Laptop-6GB RTX-3090 RTX-4090 RTX-4090-D RTX-5060-Ti-16GB
        RTX-5070 RTX-5070-Ti RTX-5090 T4 V100-SXM-16GB V100-SXM-32GB V100-PCIe-16GB V100-PCIe-32GB V100S-PCIe-32GB
        B200 B300 GB200 GB300 GB10 Jetson-Thor MI250 MI300X MI325X MI355X"""
    assert set(promised.split()) <= set(HARDWARE)


def test_names_are_unique_and_the_order_is_the_files() -> None:
    names = [gpu.name for gpu in catalog()]
    assert len(set(names)) == len(names)
    assert names[0] == "H100-SXM"


def test_the_version_is_a_date_and_a_content_hash() -> None:
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}\+[0-9a-f]{8}", catalog_version())


@each_gpu
def test_the_driver_reports_a_little_less_than_is_sold(gpu: GPU) -> None:
    sold = gpu.advertised_memory_gb * GIB
    assert 0.9 * sold < gpu.memory_bytes < sold


@each_gpu
def test_cuda_reports_a_little_less_than_nvidia_smi(gpu: GPU) -> None:
    if gpu.vendor != "NVIDIA" or gpu.unified_memory:
        assert gpu.nvidia_smi_memory_mib is None
    else:
        assert gpu.nvidia_smi_memory_mib is not None
        assert 0.93 < gpu.memory_bytes / (gpu.nvidia_smi_memory_mib * 2**20) < 1


@each_gpu
def test_narrower_floats_are_never_slower(gpu: GPU) -> None:
    rates = [rate for rate in (gpu.peak.fp16, gpu.peak.bf16, gpu.peak.fp8, gpu.peak.fp4) if rate is not None]
    assert rates == sorted(rates)
    assert gpu.peak.bf16 in (None, gpu.peak.fp16)


@each_gpu
def test_hardware_paths_match_the_generation(gpu: GPU) -> None:
    if gpu.vendor == "NVIDIA":
        assert (gpu.peak.bf16 is not None) == (gpu.compute_capability >= (8, 0))
        assert (gpu.peak.fp8 is not None) == (gpu.compute_capability >= (8, 9))
        assert (gpu.peak.fp4 is not None) == (gpu.compute_capability >= (10, 0))


@each_gpu
def test_the_16_bit_rate_is_dense_with_fp32_accumulation(gpu: GPU) -> None:
    """The clock it implies is one the chip can have; a with-sparsity or fp16-accumulate figure needs twice that."""
    half = gpu.name in HALF_RATE or any("GeForce" in label for label in gpu.product_labels)
    per_clock = TENSOR_FLOP_PER_CLOCK[gpu.vendor, *gpu.compute_capability] / (2 if half else 1)
    clock = gpu.peak.fp16 / (gpu.sm_count * per_clock)
    assert clock < 2.75e9
    assert (clock > 1.1e9) == (gpu.name not in CUT_FOR_EXPORT)


@each_gpu
def test_sizes_are_those_of_a_gpu(gpu: GPU) -> None:
    assert 250e9 < gpu.memory_bandwidth_bytes_per_second <= 8e12
    assert 20 <= gpu.sm_count <= 304
    assert 2**20 < gpu.l2_cache_bytes <= 256 * 2**20
    assert 70 <= gpu.tdp_watts <= 1400
    assert gpu.gpus_per_node in (1, 2, 4, 8)
    assert gpu.form_factor


@each_gpu
def test_a_price_is_above_zero_dated_and_sourced_or_unknown(gpu: GPU) -> None:
    if gpu.price is not None:
        assert 0.1 < gpu.price.usd_per_hour < 20
        assert datetime.date(2026, 1, 1) < datetime.date.fromisoformat(gpu.price.date) <= datetime.date(2026, 12, 1)
        assert "on demand" in gpu.price.source or "list price" in gpu.price.source


@each_gpu
def test_every_entry_says_where_its_figures_come_from(gpu: GPU) -> None:
    groups = {source.partition(": ")[0] for source in gpu.sources}
    assert {"specs", "memory", "labels"} <= groups


@each_gpu
def test_links_are_one_direction_and_none_means_alone(gpu: GPU) -> None:
    link = gpu.link
    assert link.kind in ("nvswitch", "nvlink-bridge", "pcie", "xgmi", "none")
    assert (link.kind == "none") == (gpu.gpus_per_node == 1) == (link.bandwidth_bytes_per_second == 0)
    if link.kind == "pcie":
        assert link.bandwidth_bytes_per_second == link.pcie_bytes_per_second


def test_a_switch_gives_each_gpu_its_full_link_whoever_it_talks_to() -> None:
    link = HARDWARE["H100-SXM"].link
    assert [link.bandwidth_among(n) for n in (1, 2, 8)] == [0, 450e9, 450e9]


def test_a_mesh_gives_a_pair_one_link_and_eight_gpus_all_seven() -> None:
    link = HARDWARE["MI300X"].link
    assert [link.bandwidth_among(n) for n in (1, 2, 8)] == [0, 64e9, 448e9]


def test_beyond_a_bridge_traffic_goes_over_pcie() -> None:
    link = HARDWARE["H100-NVL"].link
    assert [link.bandwidth_among(n) for n in (2, 4)] == [300e9, 64e9]


def test_the_catalogue_needs_no_numpy() -> None:
    code = "import sys, inferplan.hardware as h; h.catalog(); h.resolve_gpu('H100'); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_documentation_is_generated_from_it() -> None:
    script = Path(__file__).parents[3] / "hack" / "generate_docs.py"
    done = subprocess.run([sys.executable, str(script), "--check"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
