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

__all__ = [
    "Architecture",
    "Attention",
    "DenseMLP",
    "Layer",
    "Matrix",
    "ModelFacts",
    "Quantization",
    "Shard",
    "Vector",
]
