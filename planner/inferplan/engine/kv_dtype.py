"""How `--kv-cache-dtype` stores keys and values: bytes of a row, per head of attention or per token of a latent."""

from __future__ import annotations

from dataclasses import dataclass

from inferplan.errors import InvalidInput

DEFAULT_BLOCK_SIZE = 16

# Bytes of one head's K (or V) row of `d` elements: element bytes and per-head scale bytes. Page sizes measured on
# vLLM 0.32 at head_dim 128 (bf16 512, fp8 256, int8 per token and head 264, int4 136, nvfp4 144 for K and V).
_ELEMENT = {"bfloat16": 2.0, "float16": 2.0, "float32": 4.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5, "nvfp4": 0.5}
_SCALED = {
    "int8_per_token_head": ("int8", 4.0, 0.0),
    "fp8_per_token_head": ("fp8", 4.0, 0.0),
    "int4_per_token_head": ("int4", 4.0, 0.0),
    "nvfp4": ("nvfp4", 0.0, 1 / 16),
}
# K and V of different width, as averages (for equal K and V head dimensions), the first and last two layers kept in the
# model dtype, blocks of 32: vLLM 0.32 on H100, two models. 196 and 134 bytes a token and head at head_dim 128.
_TURBOQUANT_KEPT_LAYERS = 2
_TURBOQUANT = {"turboquant_k8v4": (0.75, 2.0), "turboquant_4bit_nc": (0.5, 3.0)}
_TURBOQUANT_BLOCK_SIZE = 32
FP8_NAMES = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc")
PLAIN_NAMES = ("bfloat16", "float16", "float32")


@dataclass(frozen=True, slots=True)
class KVDtype:
    """Storage of K and V: `row_bytes(d)` bytes for one head's vector of `d` elements (K and V averaged).

    `kept_layers`: so many first and so many last layers are stored with `kept_element_bytes` an element instead.
    `asked`: the name that was asked for, or that the checkpoint declares.
    """

    name: str
    element_bytes: float
    scale_bytes_per_row: float = 0.0
    scale_bytes_per_element: float = 0.0
    default_block_size: int = DEFAULT_BLOCK_SIZE
    kept_layers: int = 0
    kept_element_bytes: float = 0.0
    asked: str = ""

    def row_bytes(self, elements: int) -> float:
        return elements * (self.element_bytes + self.scale_bytes_per_element) + self.scale_bytes_per_row

    def of_layer(self, index: int, layers: int) -> KVDtype:
        """How layer `index` of `layers` is stored."""
        if self.kept_layers <= index < layers - self.kept_layers:
            return self
        return KVDtype(self.name, self.kept_element_bytes) if self.kept_layers else self

    @property
    def is_fp8(self) -> bool:
        return self.name == "fp8"

    @property
    def is_plain(self) -> bool:
        return self.name in PLAIN_NAMES


def kv_dtype_named(name: str, model_dtype: str, declared: str | None) -> KVDtype:
    """What `--kv-cache-dtype` resolves to; `auto` is the model dtype unless the checkpoint declares a KV scheme.

    Raises InvalidInput listing the names that work.
    """
    key = name.lower()
    if key == "auto":
        key = declared or model_dtype
    if key in FP8_NAMES:
        return KVDtype("fp8", _ELEMENT["fp8"], asked=key)
    if key in _SCALED:
        element, per_row, per_element = _SCALED[key]
        return KVDtype(key, _ELEMENT[element], per_row, per_element, asked=key)
    if key in _TURBOQUANT:
        element_bytes, per_row = _TURBOQUANT[key]
        kept = _ELEMENT[model_dtype]
        return KVDtype(key, element_bytes, per_row, 0.0, _TURBOQUANT_BLOCK_SIZE, _TURBOQUANT_KEPT_LAYERS, kept, key)
    if key in PLAIN_NAMES:
        return KVDtype(key, _ELEMENT[key], asked=key)
    known = ", ".join(["auto", "bfloat16", "float16", *FP8_NAMES, *sorted(_SCALED), *_TURBOQUANT])
    raise InvalidInput(f"kv_cache_dtype={name!r} is not modelled; known: {known}")
