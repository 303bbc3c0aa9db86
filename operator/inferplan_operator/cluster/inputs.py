"""The inputs of every recommendation, as this cluster has them: catalogue, prices, inventory, the operator's defaults.

The inventory counts what the nodes have in total, never what is free now: a recommendation must not depend on who
runs what at the moment, or it would be another one a minute later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from inferplan.hardware import GPU, catalog, catalog_version, gpu_of_labels, resolve_gpu
from inferplan.planning import GPUPool, Inputs
from inferplan.planning.document import inputs_document, inputs_hash
from inferplan_operator.cluster.cache import Cache
from inferplan_operator.cluster.kinds import CONFIG_MAPS, GPU_PROFILES, INPUTS_KEY, INPUTS_NAME, NODES
from inferplan_operator.cluster.profiles import with_profiles
from inferplan_operator.config import OperatorConfig
from inferplan_operator.lifecycle.types import KubeObject
from inferplan_operator.manifests import MANAGED_BY

HASH_ANNOTATION = "inferplan.io/inputs-hash"

_GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")


def inventory(nodes: Iterable[KubeObject], gpus: tuple[GPU, ...]) -> tuple[GPUPool, ...]:
    """Pools of nodes with the same type and number of whole GPUs, by type and size. Unknown types are left out."""
    pools: Counter[tuple[str, int]] = Counter()
    for node in nodes:
        gpu = gpu_of_labels(node["metadata"].get("labels") or {}, gpus)
        count = _gpu_count(node)
        if gpu is not None and count:
            pools[(gpu.name, count)] += 1
    return tuple(GPUPool(gpu_type, nodes=n, gpus_per_node=count) for (gpu_type, count), n in sorted(pools.items()))


def _gpu_count(node: KubeObject) -> int:
    capacity = (node.get("status") or {}).get("capacity") or {}
    return next((int(str(capacity[name])) for name in _GPU_RESOURCES if name in capacity), 0)


def gather_inputs(config: OperatorConfig, cache: Cache) -> Inputs:
    """What recommendations rest on now. Raises UnknownGPU for a price of the configuration that fits no type."""
    known = with_profiles(catalog(), cache.all(GPU_PROFILES))
    prices = {resolve_gpu(name, known.gpus).name: float(price) for name, price in config.prices.items()}
    prices |= known.prices
    return Inputs(
        gpus=known.gpus,
        catalog_version=catalog_version(),
        inventory=None if config.inventory == "Any" else inventory(cache.all(NODES), known.gpus),
        prices=tuple(sorted(prices.items())),
        price_date=config.price_date.isoformat() if config.price_date else "",
        defaults=config.planning_defaults(),
    )


def inputs_config_map(inputs: Inputs, namespace: str) -> KubeObject:
    """What `inferplan plan --inputs cluster` reads."""
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {
            "name": INPUTS_NAME,
            "namespace": namespace,
            "labels": {MANAGED_BY: "inferplan"},
            "annotations": {HASH_ANNOTATION: inputs_hash(inputs)},
        },
        "data": {INPUTS_KEY: inputs_document(inputs)},
    }
