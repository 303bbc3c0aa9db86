"""How people, drivers and benchmark files write a GPU's name, and what it resolves to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplan.errors import UnknownGPU
from inferplan.hardware import catalog, resolve_gpu

# Every GPU name found in public vLLM benchmark tables and start-up logs, as written there, and the type it means.
PUBLISHED = json.loads((Path(__file__).parent / "names_in_published_benchmarks.json").read_text(encoding="utf-8"))

SPELLINGS = sorted({text for gpu in catalog() for text in (gpu.name, *gpu.aliases, *gpu.product_labels)})
spelling = st.sampled_from(SPELLINGS)


@pytest.mark.parametrize(("name", "expected"), PUBLISHED["resolve"].items())
def test_names_as_benchmarks_write_them(name: str, expected: str) -> None:
    assert resolve_gpu(name).name == expected


@pytest.mark.parametrize("name", PUBLISHED["refuse"])
def test_names_of_gpus_we_do_not_hold_are_refused(name: str) -> None:
    with pytest.raises(UnknownGPU, match="GPU type"):
        resolve_gpu(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA-H100-80GB-HBM3", "H100-SXM"),
        ("H100 PCIe", "H100-PCIe"),
        ("H100 94GB", "H100-NVL"),
        ("HGX H100", "H100-SXM"),
        ("8x H200", "H200-SXM"),
        ("A100 80GB PCIe", "A100-PCIe-80GB"),
        ("NVIDIA A100-PCIE-40GB", "A100-PCIe-40GB"),
        ("A100 (PCIe, 80GB)", "A100-PCIe-80GB"),
        ("V100 32GB", "V100-SXM-32GB"),
        ("Tesla V100-SXM2-32GB", "V100-SXM-32GB"),
        ("B200 192GB", "B200"),
        ("GeForce RTX 3060 Laptop GPU", "RTX-3060-Laptop-6GB"),
        ("RTX 3060 (laptop)", "RTX-3060-Laptop-6GB"),
        ("RTX 3060", "RTX-3060-12GB"),
        ("RTX PRO 6000", "RTX-PRO-6000-Blackwell"),
        ("RTX PRO 6000 Server", "RTX-PRO-6000-Blackwell-Server"),
        ("RTX PRO 6000 Max-Q", "RTX-PRO-6000-Blackwell-Max-Q"),
        ("DGX Spark", "GB10"),
        ("Jetson AGX Thor", "Jetson-Thor"),
        ("AMD_Instinct_MI300X_OAM", "MI300X"),
        ("MI250 128GB", "MI250"),
        ("Tesla-T4", "T4"),
        ("RTX5090", "RTX-5090"),
        ("rtx4090x2", "RTX-4090"),
        ("H100SXM5-80GB", "H100-SXM"),
        ("h200nvl", "H200-NVL"),
    ],
)
def test_more_ways_to_write_it(name: str, expected: str) -> None:
    assert resolve_gpu(name).name == expected


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("A100 PCIe", "fits A100-PCIe-80GB, A100-PCIe-40GB"),
        ("A100 (PCIe)", "fits A100-PCIe-80GB, A100-PCIe-40GB"),
        ("A100 40GB/80GB", "none of: A100-SXM-80GB"),
        ("H100 SXM PCIe", "none of: H100-SXM"),
        ("V100 SXM2", "fits V100-SXM-16GB, V100-SXM-32GB"),
        ("H100 and H200", "names several types: H100-SXM, H200-SXM"),
        ("MI300X 192GB (x32), MI325X 256GB (x16)", "names several types: MI300X, MI325X"),
        ("RTX 4090 48GB", r"none of: RTX-4090 \(24 GB\).*gpu_memory_gib"),
        ("H100 40GB", r"H100-NVL \(94 GB\)"),
        ("L40S SXM", r"none of: L40S"),
        ("RTX 4090 Laptop", "unknown; did you mean .*RTX-4090"),
        ("RTX 5090 D", "unknown; did you mean RTX-5090"),
        ("H10", "unknown; did you mean"),
        ("Intel Max 1550 (PVC)", "Intel's; the catalogue holds NVIDIA and AMD"),
        ("Gaudi3", "Intel's"),
        ("Ascend 910C", "Huawei's"),
        ("16GB GPU", "names no GPU"),
        ("", "names no GPU"),
        ("; rm -rf /", "unknown"),
    ],
)
def test_what_fits_nothing_or_several_is_refused_with_what_it_could_be(name: str, said: str) -> None:
    with pytest.raises(UnknownGPU, match=said):
        resolve_gpu(name)


@pytest.mark.parametrize("gpu", catalog(), ids=lambda gpu: gpu.name)
def test_a_types_name_aliases_and_labels_all_mean_it(gpu) -> None:  # type: ignore[no-untyped-def]
    for text in (gpu.name, *gpu.aliases, *gpu.product_labels):
        assert resolve_gpu(text) is gpu, text


@given(spelling)
def test_resolving_again_changes_nothing(name: str) -> None:
    once = resolve_gpu(name)
    assert resolve_gpu(once.name) is once


@given(spelling, st.sampled_from(["-", " ", "_", "  "]), st.sampled_from([str.lower, str.upper, str.title]))
def test_case_and_separators_do_not_matter(name: str, separator: str, case) -> None:  # type: ignore[no-untyped-def]
    written = case(separator.join(name.replace("_", "-").split("-")))
    assert resolve_gpu(written) is resolve_gpu(name)


@given(
    spelling, st.sampled_from(["NVIDIA {}", "{} GPU", "8x {}", "4 × {}", "{} x2", "{} (rented)", "A single {} GPU."])
)
def test_packaging_does_not_matter(name: str, packaging: str) -> None:
    assert resolve_gpu(packaging.format(name)) is resolve_gpu(name)


@given(st.text(max_size=60))
def test_any_text_is_a_type_or_a_clear_refusal(text: str) -> None:
    refusal = None
    try:
        resolve_gpu(text)
    except UnknownGPU as error:
        refusal = error
    assert refusal is None or repr(text) in refusal.message


def test_only_the_given_types_are_known() -> None:
    few = tuple(gpu for gpu in catalog() if gpu.name in ("L4", "L40S"))
    assert resolve_gpu("L4", few).name == "L4"
    with pytest.raises(UnknownGPU):
        resolve_gpu("H100", few)
