"""WHAT THE MODEL IS: config.json → Architecture (typed layers made of named matrices)."""

from inferplan.model.architecture import (
    Architecture,
    Attention,
    Channel,
    CompressedAttention,
    DenseMLP,
    Encoder,
    Indexer,
    LatentAttention,
    Layer,
    Matrix,
    Mixer,
    MoE,
    Quantization,
    Recurrent,
    RecurrentKind,
    Shard,
    Vector,
    first_alike,
)
from inferplan.model.facts import ModelFacts
from inferplan.model.parse import parse_architecture
from inferplan.model.quantization import head_scheme, is_ignored, quantization_named
from inferplan.model.size import DTYPE_BYTES, matrices_of, quantization_of_matrix, stored_bytes

__all__ = [
    "DTYPE_BYTES",
    "Architecture",
    "Attention",
    "Channel",
    "CompressedAttention",
    "DenseMLP",
    "Encoder",
    "Indexer",
    "LatentAttention",
    "Layer",
    "Matrix",
    "Mixer",
    "MoE",
    "ModelFacts",
    "Quantization",
    "Recurrent",
    "RecurrentKind",
    "Shard",
    "Vector",
    "first_alike",
    "head_scheme",
    "is_ignored",
    "matrices_of",
    "parse_architecture",
    "quantization_named",
    "quantization_of_matrix",
    "stored_bytes",
]
