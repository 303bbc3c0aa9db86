"""One resolver for the many ways people, drivers and benchmark files write a GPU's name.

A name is read as four things: the type (`h100`, `rtx6000ada`), the form factor (`SXM5`, `PCIe`), the memory (`80GB`)
and packaging that says nothing about which GPU it is (`NVIDIA`, `4 ×`, `HBM3`, `on a single node`). A known spelling
wins; otherwise what is said must fit exactly one type. Two assumptions are made and no more: an unsaid form factor
means SXM where the type comes as SXM, and a bare family name (`A100`, `V100`) means the entry that lists it as alias.
Any word that isn't understood makes the name unknown: `RTX 4090 Laptop` is no RTX 4090.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from inferplan.errors import UnknownGPU
from inferplan.hardware.gpu import GPU

_GIB = 2**30
# How far a stated size may be from the advertised or the driver's: 180 for 192 GB of B200, 15 GiB for a T4's 16 GB.
_MEMORY_TOLERANCE = 0.07

_MAKERS = ("nvidia", "amd", "geforce", "tesla", "instinct", "hgx", "dgx")
_CALLED = ("gpu", "gpus", "graphics", "card", "accelerator", "edition", "generation")
_MEMORY_KINDS = ("unified", "total", "hbm", "hbm2", "hbm2e", "hbm3", "hbm3e", "gddr6", "gddr6x", "gddr7", "lpddr5x")
_AROUND = ("a", "single", "one", "the", "on", "node", "nodes", "virtualized", "slurm", "partition")
_PACKAGING = frozenset({*_MAKERS, *_CALLED, *_MEMORY_KINDS, *_AROUND})
_FORMS = {
    **dict.fromkeys(("sxm", "sxm2", "sxm3", "sxm4", "sxm5", "sxm6"), "SXM"),
    "pcie": "PCIe",
    "nvl": "NVL",
    "oam": "OAM",
}
# Words of a remark in brackets that change the type; other remarks are somebody's notes.
_TELLING = frozenset({"laptop", "mobile", "server", "workstation", "super", "ti", "maxq"})
_OTHER_VENDORS = {
    **dict.fromkeys(("intel", "arc", "gaudi", "gaudi2", "gaudi3", "pvc"), "Intel"),
    **dict.fromkeys(("ascend", "huawei"), "Huawei"),
    "tpu": "Google",
    **dict.fromkeys(("trainium", "trainium2", "inferentia", "inferentia2"), "AWS"),
}

_REMARK = re.compile(r"[(\[](.*?)[)\]]")
_MEMORY = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)[ _-]?(gib|gb|mib|g)(?![a-z0-9])")
# `4x`, `x2` (not the one of `RTX5090`), `8 GPUs`.
_COUNT = re.compile(
    r"(?<![a-z0-9])\d+ ?x(?![a-z0-9])|(?<!rt)x\d{1,2}(?![a-z0-9])|(?<![a-z0-9-])\d{1,2} (?=gpus?\b|nodes?\b)"
)
_GLUED_FORM = re.compile(r"(?<=[a-z0-9])(sxm\d?|pcie|nvl|oam)(?![a-z0-9])")
_SEVERAL = re.compile(r"[,;+&]|\band\b")
_JOINT = re.compile(r"^(?:and\b|[,;+& ])+")


@dataclass(frozen=True, slots=True)
class _Said:
    """What a name says. `sizes` in GB or GiB as written (they are used for one another everywhere)."""

    kind: str
    form: str | None
    sizes: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Index:
    spelled: Mapping[_Said, GPU]
    by_kind: Mapping[str, tuple[GPU, ...]]


def find_gpu(name: str, gpus: tuple[GPU, ...]) -> GPU:
    """The type `name` stands for among `gpus`. Raises UnknownGPU: unknown, several named, or several fit."""
    index = _index(gpus)
    found = {gpu.name: gpu for gpu in (_find(part, index, name) for part in _parts(name)) if gpu is not None}
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        raise UnknownGPU(f"GPU type {name!r} names several types: {', '.join(found)}; give one")
    raise UnknownGPU(
        f"GPU type {name!r} names no GPU; write it like {gpus[0].name}" if gpus else "no GPU type is known"
    )


def _parts(name: str) -> list[str]:
    text = name.lower().replace("×", "x")
    outside = _REMARK.sub(lambda remark: " " * len(remark[0]), text)
    cuts = [0, *(m.start() for m in _SEVERAL.finditer(outside)), len(text)]
    return [_JOINT.sub("", text[a:b]) for a, b in pairwise(cuts)]


def _find(part: str, index: _Index, name: str) -> GPU | None:
    said = _read(part)
    if not said.kind:
        return None
    exact = index.spelled.get(said)
    if exact is not None:
        return exact
    family = index.by_kind.get(said.kind)
    if family is None:
        raise UnknownGPU(_unknown(name, part, said, index))
    fitting = [gpu for gpu in family if _form_fits(gpu, said.form) and _memory_fits(gpu, said.sizes)]
    if said.form is None:
        fitting = [gpu for gpu in fitting if gpu.form_factor == "SXM"] or fitting
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UnknownGPU(f"GPU type {name!r} fits {', '.join(gpu.name for gpu in fitting)}; give one of them")
    held = ", ".join(f"{gpu.name} ({gpu.advertised_memory_gb} GB)" for gpu in family)
    raise UnknownGPU(
        f"GPU type {name!r} is none of: {held}; for a card with other memory give the type and gpu_memory_gib"
    )


def _form_fits(gpu: GPU, form: str | None) -> bool:
    return form is None or gpu.form_factor == form


def _memory_fits(gpu: GPU, stated: tuple[float, ...]) -> bool:
    ours = (gpu.advertised_memory_gb, gpu.memory_bytes / _GIB)
    return all(any(abs(size - own) <= _MEMORY_TOLERANCE * own for own in ours) for size in stated)


def _unknown(name: str, part: str, said: _Said, index: _Index) -> str:
    vendor = next((_OTHER_VENDORS[word] for word in _words(part) if word in _OTHER_VENDORS), None)
    if vendor is not None:
        return f"GPU type {name!r} is {vendor}'s; the catalogue holds NVIDIA and AMD GPUs"
    import difflib  # only here: its import costs more than reading the catalogue

    close = difflib.get_close_matches(said.kind, list(index.by_kind), n=8, cutoff=0.6)
    near = list(dict.fromkeys(gpu.name for kind in close for gpu in index.by_kind[kind]))[:5]
    hint = f"did you mean {', '.join(near)}?" if near else "nothing in the catalogue is near it"
    return f"GPU type {name!r} is unknown; {hint} (all types: docs/hardware.md)"


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9.]+", text.replace("max-q", "maxq")) if word]


def _read(text: str) -> _Said:
    remarks = " ".join(_REMARK.findall(text))
    outside = _REMARK.sub(" ", text)
    sizes = _sizes(outside) or _sizes(remarks)
    bare = _GLUED_FORM.sub(r" \1", _COUNT.sub(" ", _MEMORY.sub(" ", outside)))
    words = [word.strip(".") for word in _words(bare)]
    words += [word for word in _words(remarks) if word in _TELLING or word in _FORMS]
    forms = dict.fromkeys(_FORMS[word] for word in words if word in _FORMS)
    kind = "".join(word for word in words if word not in _PACKAGING and word not in _FORMS)
    return _Said(kind, " and ".join(forms) or None, sizes)  # two form factors at once fit no type


def _sizes(text: str) -> tuple[float, ...]:
    return tuple(float(number) / (1024 if unit == "mib" else 1) for number, unit in _MEMORY.findall(text))


@lru_cache(maxsize=8)
def _index(gpus: tuple[GPU, ...]) -> _Index:
    spelled: dict[_Said, GPU] = {}
    by_kind: dict[str, dict[str, GPU]] = {}
    own = [(gpu.name, gpu) for gpu in gpus]
    other = [(text, gpu) for gpu in gpus for text in (*gpu.aliases, *gpu.product_labels)]
    for text, gpu in (*own, *other):  # a type's own name wins over another's alias
        said = _read(text.lower())
        spelled.setdefault(said, gpu)
        by_kind.setdefault(said.kind, {}).setdefault(gpu.name, gpu)
    return _Index(spelled, {kind: tuple(found.values()) for kind, found in by_kind.items()})
