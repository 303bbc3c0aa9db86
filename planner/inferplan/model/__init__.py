"""WHAT THE MODEL IS: config.json → Architecture (typed layers made of named matrices)."""

from inferplan.model.architecture import (
    Architecture,
    Attention,
    DenseMLP,
    Layer,
    Matrix,
    Quantization,
    Shard,
    Vector,
)
from inferplan.model.facts import ModelFacts
from inferplan.model.parse import parse_architecture
from inferplan.model.quantization import is_ignored, quantization_named
from inferplan.model.size import DTYPE_BYTES, quantization_of_matrix, stored_bytes

__all__ = [
    "DTYPE_BYTES",
    "Architecture",
    "Attention",
    "DenseMLP",
    "Layer",
    "Matrix",
    "ModelFacts",
    "Quantization",
    "Shard",
    "Vector",
    "is_ignored",
    "parse_architecture",
    "quantization_named",
    "quantization_of_matrix",
    "stored_bytes",
]
