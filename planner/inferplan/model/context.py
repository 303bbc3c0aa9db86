"""How long a context a config.json allows, as vLLM derives it (`_get_and_verify_max_len`, 0.12–0.33).

The smallest of the length fields; `model_max_length` overrides them; rotary scaling multiplies by its `factor`, YaRN's
starting from the original length. Not scaled: `su`, `longrope`, `llama3` (their fields state the scaled length) and
Gemma 3. A LongRoPE model serves its original length unless more is asked for.
Not read: `model_max_length` of tokenizer_config.json, which vLLM also takes as a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inferplan.errors import InvalidModelConfig
from inferplan.model.fields import Fields

_LENGTHS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_STATED_SCALED = ("default", "su", "longrope", "llama3", "mrope")


@dataclass(frozen=True, slots=True)
class Context:
    """`limit_tokens`: the longest context. `original_tokens`: LongRoPE's length before stretching, else None.

    `is_stated`: False where the config states no length and the family's default stands in.
    """

    limit_tokens: int
    original_tokens: int | None
    is_stated: bool = True


def context_of(fields: Fields, by_default: int | None = None) -> Context:
    """`by_default`: where the family's configs need not state a length.

    Raises InvalidModelConfig where there is no length or one makes no sense.
    """
    present = [fields.size(name) for name in _LENGTHS if fields.values.get(name) is not None]
    stated = fields.optional("model_max_length") or (min(present) if present else None)
    limit = stated or by_default
    if limit is None:
        raise InvalidModelConfig(f"config.json: {_LENGTHS[0]} is missing")
    original: int | None = None
    for section in _rope_sections(fields):
        kind = section.get("rope_type") or section.get("type") or "default"
        if kind == "longrope":
            original = fields.size("original_max_position_embeddings", default=limit)
        elif kind not in _STATED_SCALED and not _is_gemma3(fields):
            limit = _scaled(limit, str(kind), section)
            break  # all layer types are scaled alike
    return Context(limit, original, stated is not None)


def _is_gemma3(fields: Fields) -> bool:
    return str(fields.values.get("model_type", "")).startswith("gemma3")


def _scaled(limit: int, kind: str, section: Mapping[str, object]) -> int:
    factor = section.get("factor", 1.0)
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor <= 1e6:
        raise InvalidModelConfig(f"config.json: rope scaling factor={factor!r} is not a positive number")
    start = section.get("original_max_position_embeddings") if kind == "yarn" else None
    return int((start if isinstance(start, int) else limit) * factor)


def _rope_sections(fields: Fields) -> list[Mapping[str, object]]:
    """`rope_parameters` (one, or one per layer type) or the older `rope_scaling`."""
    found = fields.values.get("rope_parameters") or fields.values.get("rope_scaling")
    if not isinstance(found, Mapping):
        return []
    nested = [section for section in found.values() if isinstance(section, Mapping)]
    return nested or [found]
