"""Weight quantization: what the checkpoint's `quantization_config` or a name people use means in bits.

Bytes per quantized weight = bits/8 + (scale bytes + zero-point bits/8) / group; per-channel and per-tensor scales are
negligible but counted. Names follow vLLM 0.33 (`--quantization` choices and `quant_method` values).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

from inferplan.errors import InvalidModelConfig, UnknownQuantization
from inferplan.model.architecture import Quantization

# Groups: AWQ/GPTQ checkpoints use 128 unless they say otherwise; MXFP4 blocks are 32 (OCP MX spec), NVFP4's 16.
_NAMED = {
    "fp8": Quantization("fp8", 8, 8, per_tensor=True, cache_scales=True),
    "w8a8": Quantization("w8a8", 8, 8),
    "w8a16": Quantization("w8a16", 8, 16),
    "w4a16": Quantization("w4a16", 4, 16, group_size=128),
    "awq": Quantization("awq", 4, 16, group_size=128, zero_points=True),
    "gptq": Quantization("gptq", 4, 16, group_size=128, zero_points=True),
    "gptq-int8": Quantization("gptq-int8", 8, 16, group_size=128, zero_points=True),
    "mxfp4": Quantization("mxfp4", 4, 16, group_size=32, scale_bytes=1),
    "nvfp4": Quantization("nvfp4", 4, 4, group_size=16, scale_bytes=1, per_tensor=True, cache_scales=True),
    "nvfp4-w4a16": Quantization("nvfp4", 4, 16, group_size=16, scale_bytes=1, per_tensor=True, cache_scales=True),
    # NF4 with double quantization: 64-element blocks, 8-bit absmax.
    "bitsandbytes": Quantization("bitsandbytes", 4, 16, group_size=64, scale_bytes=1),
    # Q4_K_M averages 4.8 bits per weight (llama.cpp's table); other GGUF types differ.
    "gguf": Quantization("gguf", 4, 16, group_size=20, scale_bytes=2),
}
_PLAIN = {
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "fp16": "float16",
    "float16": "float16",
    "half": "float16",
    "fp32": "float32",
    "float32": "float32",
}
# Spelled with hyphens; spaces and underscores in what people write are read as such.
_ALIASES = {
    "awq-marlin": "awq",
    "auto-awq": "awq",
    "awq-int4": "awq",
    "awq-4bit": "awq",
    "awq-w4a16": "awq",
    "gptq-marlin": "gptq",
    "auto-gptq": "gptq",
    "gptq-int4": "gptq",
    "gptq-4bit": "gptq",
    "gptq-marlin-int8": "gptq-int8",
    "gptq-8bit": "gptq-int8",
    # AutoRound packs as GPTQ does.
    "auto-round": "gptq",
    "auto-round-int4": "gptq",
    "autoround-int4": "gptq",
    "autoround": "gptq",
    "int4": "w4a16",
    "w4a16-int4": "w4a16",
    "int8": "w8a8",
    "w8a8-int8": "w8a8",
    "w8a8-fp8": "fp8",
    "fp8-block": "fp8",
    "fbgemm-fp8": "fp8",
    "ptpc-fp8": "fp8",
    "fp8-dynamic": "fp8",
    "modelopt": "fp8",
    "modelopt-fp8": "fp8",
    "modelopt-fp4": "nvfp4",
    "modelopt-nvfp4": "nvfp4",
    "fp4": "nvfp4",
    "gpt-oss-mxfp4": "mxfp4",
    "bnb": "bitsandbytes",
    "nf4": "bitsandbytes",
}


def quantization_named(name: str) -> Quantization | str:
    """What a name means: a Quantization, or the plain dtype (`bfloat16`, `float16`, `float32`) it stands for.

    Raises UnknownQuantization listing the names that work.
    """
    key = re.sub(r"[\s_]+", "-", name.strip().lower())
    key = key.removeprefix("compressed-tensors").strip("-:") or "w8a8"
    if key in _PLAIN:
        return _PLAIN[key]
    found = _NAMED.get(_ALIASES.get(key, key))
    if found is None:
        known = ", ".join(["bf16", "fp16", *sorted(_NAMED)])
        raise UnknownQuantization(f"weight_quant={name!r} is unknown; known: {known}")
    return found


def quantization_of(
    config: Mapping[str, object], hf_quant_config: Mapping[str, object] | None = None
) -> Quantization | None:
    """What a checkpoint's own files say: `quantization_config` in config.json, else ModelOpt's hf_quant_config.json.

    Raises InvalidModelConfig naming a `quant_method` that no rule knows.
    """
    section = config.get("quantization_config") or config.get("compression_config")
    if isinstance(section, Mapping):
        found = _of_section(section)
        return _with_narrow_experts(found, section, config) if config.get("expert_dtype") else found
    inner = modelopt_section(hf_quant_config or {})
    return _modelopt(inner) if inner is not None else None


def modelopt_section(hf_quant_config: Mapping[str, object]) -> Mapping[str, object] | None:
    """What hf_quant_config.json says, as far as vLLM heeds it: only where it names ModelOpt as its producer."""
    inner = hf_quant_config.get("quantization")
    producer = hf_quant_config.get("producer")
    if not isinstance(inner, Mapping) or not isinstance(producer, Mapping) or producer.get("name") != "modelopt":
        return None
    return inner


def unheeded_quantization(
    config: Mapping[str, object], hf_quant_config: Mapping[str, object] | None
) -> tuple[tuple[str, str], ...]:
    """A warning where hf_quant_config.json says something that vLLM does not heed."""
    if not hf_quant_config or config.get("quantization_config") or modelopt_section(hf_quant_config) is not None:
        return ()
    message = (
        "hf_quant_config.json does not name modelopt as producer.name, so vLLM does not heed it: "
        "weights are planned in the model dtype; put its section into config.json's quantization_config"
    )
    return (("QuantizationNotHeeded", message),)


def _with_narrow_experts(
    found: Quantization, section: Mapping[str, object], config: Mapping[str, object]
) -> Quantization:
    """Checkpoints whose routed experts alone are 4 bits wide (`expert_dtype`: MXFP4, or NVFP4 where it says so)."""
    if config.get("expert_dtype") != "fp4":
        return found
    narrow = _NAMED["nvfp4" if str(section.get("moe_quant_algo") or "").upper() == "NVFP4" else "mxfp4"]
    # The list names what the 4-bit scheme leaves out; that is fp8 all the same.
    return replace(found, ignored=(), others=((("experts",), narrow),))


def _of_section(section: Mapping[str, object]) -> Quantization:
    method = str(section.get("quant_method") or section.get("quant_algo") or "").lower()
    reader = _READERS.get(method)
    if reader is None:
        known = ", ".join(sorted(_READERS))
        raise InvalidModelConfig(f"quantization_config.quant_method={method!r} is not known; known: {known}")
    return reader(section)


def _fp8(section: Mapping[str, object]) -> Quantization:
    block = _block(section, "weight_block_size")
    ignored = _strings(section.get("ignored_layers") or section.get("modules_to_not_convert"))
    if block is not None:
        return replace(_NAMED["fp8"], block=block, scale_bytes=4, ignored=ignored)
    return replace(_NAMED["fp8"], ignored=ignored)


def _awq(section: Mapping[str, object]) -> Quantization:
    ignored = _strings(section.get("modules_to_not_convert"))
    return replace(
        _NAMED["awq"],
        weight_bits=_integer(section, ("bits", "w_bit"), 4),
        group_size=_group(section, 128),
        zero_points=bool(section.get("zero_point", True)),
        ignored=ignored,
    )


def _gptq(section: Mapping[str, object]) -> Quantization:
    bits = _integer(section, ("bits",), 4)
    base = _NAMED["gptq-int8" if bits == 8 else "gptq"]
    return replace(base, weight_bits=bits, group_size=_group(section, 128))


def _bitsandbytes(section: Mapping[str, object]) -> Quantization:
    ignored = _strings(section.get("llm_int8_skip_modules"))
    if section.get("load_in_8bit"):
        return replace(_NAMED["bitsandbytes"], weight_bits=8, group_size=None, ignored=ignored)
    return replace(_NAMED["bitsandbytes"], ignored=ignored)


_MODELOPT = {
    "FP8": "fp8",
    "FP8_PB_WO": "fp8",
    "NVFP4": "nvfp4",
    "W4A16_NVFP4": "nvfp4-w4a16",
    "NVFP4_AWQ": "nvfp4",
    "W4A16_AWQ": "awq",
    "MXFP4": "mxfp4",
}


def _modelopt(section: Mapping[str, object]) -> Quantization:
    algorithm = str(section.get("quant_algo") or "").upper()
    ignored = _strings(section.get("exclude_modules") or section.get("ignore"))
    declared = section.get("kv_cache_quant_algo")
    scheme = section.get("kv_cache_scheme")
    kv = "fp8_e4m3" if str(declared or "").upper() == "FP8" or isinstance(scheme, Mapping) else None
    if algorithm == "MIXED_PRECISION":
        return replace(_mixed(section), ignored=ignored, kv_cache_dtype=kv)
    return replace(_modelopt_scheme(algorithm), ignored=ignored, kv_cache_dtype=kv)


def _modelopt_scheme(algorithm: str) -> Quantization:
    name = _MODELOPT.get(algorithm)
    if name is None:
        known = ", ".join([*_MODELOPT, "MIXED_PRECISION"])
        raise InvalidModelConfig(f"ModelOpt quant_algo={algorithm!r} is not known; known: {known}")
    return _NAMED[name]


def _mixed(section: Mapping[str, object]) -> Quantization:
    """Schemes module by module (`quantized_layers`); the one with the narrowest weights names the checkpoint."""
    listed = section.get("quantized_layers")
    if not isinstance(listed, Mapping) or not listed:
        raise InvalidModelConfig("ModelOpt quant_algo=MIXED_PRECISION states no quantized_layers")
    by_algorithm: dict[str, list[str]] = {}
    for name, scheme in listed.items():
        algorithm = scheme.get("quant_algo") if isinstance(scheme, Mapping) else None
        by_algorithm.setdefault(str(algorithm or "").upper(), []).append(str(name))
    schemes = sorted(
        ((_modelopt_scheme(algorithm), tuple(names)) for algorithm, names in by_algorithm.items()),
        key=lambda pair: pair[0].weight_bits,
    )
    (main, only), *others = schemes
    return replace(main, only=only, others=tuple((names, scheme) for scheme, names in others))


def _compressed_tensors(section: Mapping[str, object]) -> Quantization:
    weights, activations = _compressed_scheme(section)
    bits = _integer(weights, ("num_bits",), 8)
    base = _NAMED[_compressed_name(bits, weights, activations, str(section.get("format") or ""))]
    return replace(
        _with_scales(base, weights),
        weight_bits=bits,
        activation_bits=_integer(activations, ("num_bits",), 16) if activations is not None else 16,
        zero_points=weights.get("symmetric") is False,
        ignored=_strings(section.get("ignore")),
        kv_cache_dtype="fp8_e4m3" if section.get("kv_cache_scheme") else None,
    )


def _compressed_scheme(section: Mapping[str, object]) -> tuple[Mapping[str, object], Mapping[str, object] | None]:
    """(weights, input_activations) of the checkpoint's one scheme."""
    groups = section.get("config_groups")
    found = [g for g in groups.values() if isinstance(g, Mapping)] if isinstance(groups, Mapping) else []
    if not found or not isinstance(weights := found[0].get("weights"), Mapping):
        raise InvalidModelConfig("quantization_config.config_groups.*.weights is missing")
    activations = found[0].get("input_activations")
    if any((g.get("weights"), g.get("input_activations")) != (weights, activations) for g in found):
        raise InvalidModelConfig(
            f"quantization_config.config_groups has {len(found)} groups quantized in different ways, which is not "
            "read yet; checkpoints with one scheme are"
        )
    return weights, activations if isinstance(activations, Mapping) else None


def _compressed_name(
    bits: int, weights: Mapping[str, object], activations: Mapping[str, object] | None, layout: str
) -> str:
    is_float = weights.get("type") == "float"
    if bits == 4:
        if not is_float:
            return "w4a16"
        if activations is None and "nvfp4" in layout:
            return "nvfp4-w4a16"
        return "mxfp4" if "mxfp4" in layout or weights.get("group_size") == 32 else "nvfp4"
    if bits == 8:
        if activations is None:
            return "w8a16"
        return "fp8" if is_float else "w8a8"
    raise InvalidModelConfig(f"quantization_config: num_bits={bits} is not read; known: 4, 8")


def _with_scales(base: Quantization, weights: Mapping[str, object]) -> Quantization:
    """How weights share scales. Per channel and per block these are float32, per group in the base's width."""
    strategy = weights.get("strategy")
    block = _block(weights, "block_structure") if strategy == "block" else None
    if block is not None:
        return replace(base, block=block, group_size=None, per_tensor=False, scale_bytes=4)
    if strategy == "channel":
        return replace(base, group_size=None, per_tensor=False, scale_bytes=4)
    group = weights.get("group_size")
    return replace(base, group_size=group) if isinstance(group, int) and group > 0 else base


def _mxfp4(section: Mapping[str, object]) -> Quantization:
    """Only experts are stored so."""
    return replace(_NAMED["mxfp4"], ignored=_strings(section.get("modules_to_not_convert")), only=("experts",))


_READERS: dict[str, Callable[[Mapping[str, object]], Quantization]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fp8,
    "awq": _awq,
    "awq_marlin": _awq,
    "gptq": _gptq,
    "gptq_marlin": _gptq,
    "auto-round": _gptq,
    "compressed-tensors": _compressed_tensors,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "bitsandbytes": _bitsandbytes,
    "mxfp4": _mxfp4,
}


def _block(section: Mapping[str, object], name: str) -> tuple[int, int] | None:
    """Rows and columns that share a scale."""
    value = section.get(name)
    if value is None:
        return None
    if isinstance(value, list) and len(value) == 2 and all(type(side) is int and 0 < side < 2**16 for side in value):
        return value[0], value[1]
    raise InvalidModelConfig(f"quantization_config.{name}={value!r} is not two positive integers")


def _strings(value: object) -> tuple[str, ...]:
    return tuple(str(x) for x in value) if isinstance(value, list | tuple) else ()


def _integer(section: Mapping[str, object], names: tuple[str, ...], default: int) -> int:
    for name in names:
        value = section.get(name)
        if isinstance(value, int):
            return value
    return default


def _group(section: Mapping[str, object], default: int) -> int | None:
    """-1 in checkpoints means one group per channel."""
    value = section.get("group_size") or section.get("q_group_size") or default
    return int(value) if isinstance(value, int) and value > 0 else None


def scheme_of(name: str, quantization: Quantization) -> Quantization | None:
    """How the module of that name is quantized: by a scheme of its own, by the checkpoint's, or not (None)."""
    if is_ignored(name, quantization.ignored):
        return None
    for names, scheme in quantization.others:
        if is_ignored(name, names):
            return scheme
    if quantization.only and not is_ignored(name, quantization.only):
        return None
    return quantization


def head_scheme(quantization: Quantization | None) -> Quantization | None:
    """How the LM head is quantized: only where the checkpoint lists it by name."""
    if quantization is None:
        return None
    listed = [(quantization.only, quantization), *quantization.others]
    return next((scheme for names, scheme in listed if "lm_head" in names), None)


def is_ignored(name: str, ignored: tuple[str, ...]) -> bool:
    """Whether a module is on the list: `re:` patterns, `*` globs, or a run of its name's components.

    Checkpoints name the layers of a wrapped language model in several ways: what comes before `layers.` isn't compared.
    """
    if not ignored:
        return False
    runs, lengths, patterns = _matcher(ignored)
    parts = name.removeprefix("model.").split(".")
    for length in lengths:
        for start in range(len(parts) - length + 1):
            if ".".join(parts[start : start + length]) in runs:
                return True
    return any(pattern.match(name) for pattern in patterns)


_LAYERS = re.compile(r"(?:(?:model|language_model|backbone)\.)+(?=layers\.)")


@lru_cache(maxsize=256)
def _matcher(ignored: tuple[str, ...]) -> tuple[frozenset[str], tuple[int, ...], tuple[re.Pattern[str], ...]]:
    """(names, how many components they have, patterns): lists of thousands are usual, so names are looked up."""
    patterns = [pattern[3:] for pattern in ignored if pattern.startswith("re:")]
    names = [_LAYERS.sub("", name, count=1) for name in ignored if not name.startswith("re:")]
    globs = [re.escape(name).replace(r"\*", ".*") for name in names if "*" in name]
    patterns += [rf"(?:model\.)?(?:{'|'.join(globs)})\Z"] if globs else []
    try:
        compiled = tuple(re.compile(pattern) for pattern in patterns)
    except re.error as error:
        raise InvalidModelConfig(f"quantization_config.ignore: {error.pattern!r} is no pattern: {error}") from error
    runs = frozenset(name for name in names if "*" not in name)
    return runs, tuple(sorted({run.count(".") + 1 for run in runs})), compiled
