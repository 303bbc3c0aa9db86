"""Write the tables of docs/ that are made from data, or check that they are up to date.

    python hack/generate_docs.py            write every page
    python hack/generate_docs.py --check    exit with 1 and name the pages that differ from their data

A new page is a function that returns its text and a line in PAGES.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from api_page import api

from inferplan.hardware import GPU, Link, catalog

ROOT = Path(__file__).parents[1]
_GIB = 2**30
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Page:
    path: str
    render: Callable[[], str]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    columns = tuple(head)
    lines = [columns, ("---",) * len(columns), *(tuple(row) for row in rows)]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def hardware() -> str:
    gpus = catalog()
    return (
        "\n\n".join(
            (_INTRODUCTION, _figures(gpus), "## Prices", _prices(gpus), "## Names", _names(gpus), _sources(gpus))
        )
        + "\n"
    )


_INTRODUCTION = """# GPUs

Generated from `planner/inferplan/hardware/data/gpus.json` by `hack/generate_docs.py`; change the data, not this page.

- **?** after a figure: no source at hand confirms it. It is derived, read from resellers, or remembered from reports;
  [Sources](#sources) says which. Everything else is from the source named there.
- **Memory**: *sold as* is the vendor's figure; *CUDA* is the total that CUDA or HIP reports, which vLLM multiplies by
  `gpu_memory_utilization`; *smi* is what `nvidia-smi` and the node label `nvidia.com/gpu.memory` show.
- **TFLOPS**: dense (datasheets often print twice that, with sparsity) and with fp32 accumulation, as the GEMMs of a
  language model need; GeForce cards run those at half the rate of fp16 accumulation. –: no such path in hardware.
- **Link**: one direction. NVSwitch and NVLink: per GPU; xGMI: per pair of GPUs, which form a mesh; PCIe: per GPU.
  Optional NVLink bridges of PCIe cards aren't counted. *no P2P*: GPUs can't write into each other's memory.
- **$/h**: on-demand list price of one public cloud for one GPU, to rank by until you give your own; –: unknown, and an
  unknown price is never taken for zero. [Prices](#prices) says whose and when. Your prices always win.
- MI250 is one GCD, of which a card has two: that is what the driver and vLLM see."""


def _figures(gpus: Iterable[GPU]) -> str:
    head = (
        "GPU",
        "generation",
        "cc",
        "sold as GB",
        "CUDA GiB",
        "smi MiB",
        "GB/s",
        "16-bit TFLOPS",
        "fp8",
        "int8",
        "fp4",
    )
    more = ("SMs", "cache MiB", "W", "link", "per node", "$/h")
    return table((*head, *more), (_figures_row(gpu) for gpu in gpus))


def _figures_row(gpu: GPU) -> tuple[str, ...]:
    def shown(figure: str, value: float | None) -> str:
        return "–" if value is None else f"{value:.6g}" + ("?" if figure in gpu.unverified else "")

    peak = gpu.peak
    sixteen = shown("dense_tflops", peak.fp16 / 1e12) + ("" if peak.bf16 is not None else " (no bf16)")
    others = (None if rate is None else rate / 1e12 for rate in (peak.fp8, peak.int8, peak.fp4))
    return (
        f"**{gpu.name}**",
        gpu.generation,
        ".".join(map(str, gpu.compute_capability)),
        str(gpu.advertised_memory_gb) + (" unified" if gpu.unified_memory else ""),
        shown("memory_gib", round(gpu.memory_bytes / _GIB, 2)),
        shown("nvidia_smi_memory_mib", gpu.nvidia_smi_memory_mib),
        shown("memory_bandwidth_gb_per_second", gpu.memory_bandwidth_bytes_per_second / 1e9),
        sixteen,
        *(shown("dense_tflops", rate) for rate in others),
        shown("sm_count", gpu.sm_count),
        shown("l2_cache_mib", gpu.l2_cache_bytes / _MIB),
        shown("tdp_watts", gpu.tdp_watts),
        _link(gpu.link) + ("?" if "link" in gpu.unverified else ""),
        str(gpu.gpus_per_node),
        "–" if gpu.price is None else f"{gpu.price.usd_per_hour:g}",
    )


def _link(link: Link) -> str:
    if link.kind == "none":
        return "–"
    kinds = {"nvswitch": "NVSwitch", "nvlink-bridge": "NVLink", "pcie": "PCIe", "xgmi": "xGMI"}
    reach = f" among {link.span}" if link.kind == "nvlink-bridge" else ""
    peers = "" if link.peer_to_peer else ", no P2P"
    return f"{kinds[link.kind]} {link.bandwidth_bytes_per_second / 1e9:g} GB/s{reach}{peers}"


def _prices(gpus: Iterable[GPU]) -> str:
    priced = [(gpu.name, gpu.price) for gpu in gpus if gpu.price is not None]
    rows = ((name, f"{price.usd_per_hour:g}", price.date, price.source) for name, price in priced)
    return table(("GPU", "$ per GPU-hour", "read on", "source"), rows)


def _names(gpus: Iterable[GPU]) -> str:
    text = (
        "Case, spaces, dashes and words like `NVIDIA` or `80GB HBM3` are read as people write them; a name that fits "
        "no type or several is refused with the ones it could be. An unsaid form factor means SXM where there is one. "
        "Nodes are recognised by the label `nvidia.com/gpu.product` (`amd.com/gpu.product-name`)."
    )
    rows = ((gpu.name, ", ".join(f"`{alias}`" for alias in gpu.aliases) or "–", _labels(gpu)) for gpu in gpus)
    return f"{text}\n\n{table(('GPU', 'also called', 'product labels'), rows)}"


def _labels(gpu: GPU) -> str:
    mark = "?" if "product_labels" in gpu.unverified else ""
    return ", ".join(f"`{label}`{mark}" for label in gpu.product_labels)


def _sources(gpus: Iterable[GPU]) -> str:
    lines = [f"- **{gpu.name}**: {'; '.join(gpu.sources)}" for gpu in gpus]
    return "## Sources\n\n" + "\n".join(lines)


PAGES = (Page("docs/hardware.md", hardware), Page("docs/api.md", api))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is out of date")
    check = parser.parse_args().check
    stale = []
    for page in PAGES:
        path = ROOT / page.path
        text = page.render()
        if check and (not path.is_file() or path.read_text(encoding="utf-8") != text):
            stale.append(page.path)
        elif not check:
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"out of date: {', '.join(stale)}; run: python hack/generate_docs.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
