"""A model that was asked for by name, resolved: which revision, what it is, and what is doubtful about it."""

from __future__ import annotations

from dataclasses import dataclass

from inferplan.model.architecture import Architecture


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """`revision`: the commit SHA, "" when the hub was not asked. `source`: `hub`, `directory` or `catalogue`.

    `safetensors_parameters`: parameter count per dtype as the checkpoint's headers say, when the hub answered.
    `warnings`: `(code, message)`, e.g. RevisionUnpinned.
    """

    id: str
    revision: str
    source: str
    architecture: Architecture
    gated: bool = False
    safetensors_parameters: tuple[tuple[str, int], ...] = ()
    warnings: tuple[tuple[str, str], ...] = ()
