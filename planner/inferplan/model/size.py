"""How many parameters a model has, as its checkpoint stores them (no padding, no replication)."""

from __future__ import annotations

from inferplan.model.architecture import Architecture


def checkpoint_parameters(architecture: Architecture) -> int:
    """Parameters in the checkpoint: tied embeddings once."""
    embedding = architecture.vocab_size * architecture.hidden_size
    head = 0 if architecture.tied_embeddings else embedding
    total = embedding + head + (architecture.vocab_size if architecture.lm_head_bias else 0)
    total += sum(m.parameters for m in architecture.outer) + sum(v.length for v in architecture.vectors)
    for layer, count in architecture.distinct_layers():
        parts = [p for p in (layer.mixer, layer.channel) if p is not None]
        size = sum(v.length for v in layer.vectors)
        size += sum(v.length for p in parts for v in p.vectors) + sum(m.parameters for p in parts for m in p.matrices)
        total += size * count
    return total
