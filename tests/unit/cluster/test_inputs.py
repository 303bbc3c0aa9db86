"""Inventory and prices as the cluster has them: totals by type, profiles over configuration over catalogue."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from inferplan.hardware import catalog
from inferplan.planning import GPUPool
from inferplan_operator.cluster.cache import Cache
from inferplan_operator.cluster.inputs import gather_inputs, inputs_config_map, inventory
from inferplan_operator.cluster.kinds import GPU_PROFILES
from inferplan_operator.config import OperatorConfig

H100 = "NVIDIA-H100-80GB-HBM3"


def node(product: str, gpus: int | None) -> dict[str, Any]:
    capacity = {} if gpus is None else {"nvidia.com/gpu": str(gpus)}
    return {"metadata": {"name": "n", "labels": {"nvidia.com/gpu.product": product}}, "status": {"capacity": capacity}}


def test_nodes_of_one_type_and_size_are_one_pool() -> None:
    nodes = [node(H100, 8), node("NVIDIA-L40S", 4), node(H100, 8), node(H100, 4)]
    pools = inventory(nodes, catalog())
    assert pools == (GPUPool("H100-SXM", 1, 4), GPUPool("H100-SXM", 2, 8), GPUPool("L40S", 1, 4))
    assert inventory(reversed(nodes), catalog()) == pools


def test_nodes_without_gpus_of_unknown_type_or_sliced_are_left_out() -> None:
    nodes = [node(H100, None), node(H100, 0), node("NVIDIA-X9000", 8), node(f"{H100}-SHARED", 80)]
    assert inventory(nodes, catalog()) == ()


def profile(name: str, **spec: object) -> dict[str, Any]:
    return {
        "apiVersion": "inferplan.io/v1alpha1",
        "kind": "GPUProfile",
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "spec": spec,
    }


def inputs_with(*profiles: dict[str, Any], config: OperatorConfig | None = None) -> Any:
    cache = Cache(lambda _kind, _manifest: None)
    for manifest in profiles:
        cache.observe(GPU_PROFILES, manifest)
    return gather_inputs(config or OperatorConfig(), cache)


def test_a_profile_s_price_wins_over_the_configuration_s() -> None:
    config = OperatorConfig(prices={"H100": Decimal("2.5"), "L40S": Decimal("0.9")})
    priced = profile("h100", gpuType="H100-SXM", price={"usdPerHour": "1.99"})
    assert inputs_with(config=config).prices == (("H100-SXM", 2.5), ("L40S", 0.9))
    assert inputs_with(priced, config=config).prices == (("H100-SXM", 1.99), ("L40S", 0.9))


def test_a_profile_s_spec_sheet_goes_over_the_catalogue_s() -> None:
    capped = profile("l40s", gpuType="L40S", overrides={"memoryBandwidthGBPerSecond": "700", "memoryMiB": 46000})
    before = next(gpu for gpu in inputs_with().gpus if gpu.name == "L40S")
    after = next(gpu for gpu in inputs_with(capped).gpus if gpu.name == "L40S")
    assert after.memory_bandwidth_bytes_per_second == 700e9
    assert after.memory_bytes == 46000 * 2**20
    assert after.peak == before.peak


def test_a_profile_of_an_unknown_type_is_left_out() -> None:
    assert inputs_with(profile("x", gpuType="NoSuchGPU", price={"usdPerHour": "1"})) == inputs_with()


def test_no_node_with_gpus_is_an_empty_inventory_unless_any_type_may_be_planned() -> None:
    assert inputs_with().inventory == ()
    assert inputs_with(config=OperatorConfig(inventory="Any")).inventory is None


def test_the_published_inputs_fit_a_config_map() -> None:
    manifest = inputs_config_map(inputs_with(), "inferplan-system")
    assert len(manifest["data"]["inputs.json"]) < 500_000
