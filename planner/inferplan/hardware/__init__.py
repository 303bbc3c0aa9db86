"""WHAT THE GPU IS: spec sheet, interconnect, price; later a measured calibration profile."""

from inferplan.hardware.gpu import GPU, Link, PeakFlops, Price

__all__ = ["GPU", "Link", "PeakFlops", "Price"]
