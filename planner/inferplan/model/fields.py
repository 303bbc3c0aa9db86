"""Typed, bounded access to the fields of a config.json: a missing or absurd one is an error that names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inferplan.errors import InvalidModelConfig

_MAX_SIZE = 2**28
_DTYPES = {"bfloat16": "bfloat16", "float16": "float16", "half": "float16", "float32": "float32", "float": "float32"}


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one config.json."""

    values: Mapping[str, object]

    @classmethod
    def of_language_model(cls, config: Mapping[str, object]) -> Fields:
        """Those of the language model: of `text_config` where the config wraps one, what it leaves out from outside."""
        inner = config.get("text_config")
        return cls({**config, **inner} if isinstance(inner, Mapping) else config)

    def section(self, name: str) -> Fields:
        """The fields of a nested section. Raises InvalidModelConfig where there is none."""
        value = self.values.get(name)
        if not isinstance(value, Mapping):
            raise InvalidModelConfig(f"config.json: {name} is missing")
        return Fields(value)

    def names(self, name: str, count: int) -> tuple[str, ...]:
        """A list of one string per layer. Raises InvalidModelConfig where it is missing or of another length."""
        value = self.values.get(name)
        if not isinstance(value, list):
            raise InvalidModelConfig(f"config.json: {name} is missing")
        if len(value) != count:
            raise InvalidModelConfig(f"config.json: {name} has {len(value)} entries for {count} layers")
        return tuple(str(entry) for entry in value)

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """A list of integers, None where there is none."""
        value = self.values.get(name)
        if not isinstance(value, list):
            return None
        if not all(type(entry) is int for entry in value):
            raise InvalidModelConfig(f"config.json: {name} is not a list of integers")
        return tuple(value)

    def optional(self, *names: str) -> int | None:
        """The first of the names that is present and not 0, as a positive integer."""
        for name in names:
            if self.values.get(name):
                return self.size(name)
        return None

    def text(self, name: str, default: str = "") -> str:
        value = self.values.get(name)
        return value if isinstance(value, str) else default

    def size(self, *names: str, default: int | None = None) -> int:
        """The first of the names that is present, as a positive integer."""
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _MAX_SIZE:
                raise InvalidModelConfig(f"config.json: {name}={value!r} is not a positive integer")
            return value
        if default is None:
            raise InvalidModelConfig(f"config.json: {names[0]} is missing")
        return default

    def flag(self, *names: str, default: bool) -> bool:
        for name in names:
            value = self.values.get(name)
            if isinstance(value, bool):
                return value
        return default

    def window(self) -> int | None:
        """`sliding_window` where it is in use, in tokens."""
        if self.values.get("use_sliding_window") is False:
            return None
        value = self.values.get("sliding_window")
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    def dtype(self) -> str:
        """Model dtype. `auto` makes float32 (also where none is stated) bfloat16; float32 is loaded only if asked."""
        value = str(self.values.get("torch_dtype") or self.values.get("dtype") or "float32").removeprefix("torch.")
        found = _DTYPES.get(value)
        if found is None:
            raise InvalidModelConfig(f"config.json: torch_dtype={value!r} is not one of {', '.join(_DTYPES)}")
        return "bfloat16" if found == "float32" else found
