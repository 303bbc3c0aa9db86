"""WHAT THE GPU IS: spec sheet, interconnect, price; later a measured calibration profile."""

from inferplan.hardware.catalog import catalog, catalog_version, gpu_of_labels, parse_price, resolve_gpu
from inferplan.hardware.gpu import GPU, Link, PeakFlops, Price

__all__ = [
    "GPU",
    "Link",
    "PeakFlops",
    "Price",
    "catalog",
    "catalog_version",
    "gpu_of_labels",
    "parse_price",
    "resolve_gpu",
]
