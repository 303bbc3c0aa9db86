"""Node labels and users' prices, as they come from a cluster and from people."""

from __future__ import annotations

import pytest

from inferplan.errors import InvalidInput
from inferplan.hardware import GPU, catalog, gpu_of_labels, parse_price

# What GPU feature discovery writes on an H100 node.
H100_NODE = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.family": "hopper",
    "nvidia.com/mig.strategy": "single",
}


def _type(labels: dict[str, str]) -> str | None:
    gpu = gpu_of_labels(labels)
    return None if gpu is None else gpu.name


def test_a_node_says_its_type() -> None:
    assert _type(H100_NODE) == "H100-SXM"


@pytest.mark.parametrize("gpu", catalog(), ids=lambda gpu: gpu.name)
def test_every_product_label_means_its_type(gpu: GPU) -> None:
    for product in gpu.product_labels:
        key = "nvidia.com/gpu.product" if gpu.vendor == "NVIDIA" else "amd.com/gpu.product-name"
        assert gpu_of_labels({key: product}) is gpu


def test_a_label_is_at_most_63_characters_a_kubernetes_label_takes() -> None:
    assert all(len(product) <= 63 for gpu in catalog() for product in gpu.product_labels)


@pytest.mark.parametrize(("mib", "expected"), [("15360", "T4"), ("15109", "T4"), ("7680", None)])
def test_drivers_may_differ_a_little_in_memory_and_other_cards_are_not_ours(mib: str, expected: str | None) -> None:
    assert _type({"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.memory": mib}) == expected


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"kubernetes.io/arch": "amd64"},
        {**H100_NODE, "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "nvidia.com/gpu.memory": "9856"},
        {**H100_NODE, "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED"},
        {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-5060-Ti", "nvidia.com/gpu.memory": "8151"},
        {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090", "nvidia.com/gpu.memory": "49140"},
        {"nvidia.com/gpu.product": "NVIDIA-GB300", "nvidia.com/gpu.memory": "256703"},
        {"nvidia.com/gpu.product": "NVIDIA-A16"},
    ],
    ids=["none", "no GPU", "MIG", "shared", "8 GB card", "48 GB card", "DGX Station", "not held"],
)
def test_what_is_no_whole_gpu_of_a_known_type_is_left_out(labels: dict[str, str]) -> None:
    assert gpu_of_labels(labels) is None


def test_a_memory_label_that_is_no_number_is_not_a_reason_to_lose_the_node() -> None:
    assert _type({**H100_NODE, "nvidia.com/gpu.memory": "unknown"}) == "H100-SXM"


@pytest.mark.parametrize(
    "text", ["0", "0.00", "-1", "NaN", "Infinity", "-Infinity", "free", "", "2,49", "$2.49", "249000"]
)
def test_a_price_is_a_positive_decimal_of_a_plausible_size(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"prices\.L4="):
        parse_price("L4", text)
