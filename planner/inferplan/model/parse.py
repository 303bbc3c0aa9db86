"""config.json → Architecture. A family is one parser function; it reads fields and yields typed layers.

A class in no parser is refused, naming it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from inferplan.errors import InvalidModelConfig, UnsupportedArchitecture
from inferplan.model import gpt_like, llama_like
from inferplan.model.architecture import Architecture
from inferplan.model.context import context_of
from inferplan.model.fields import Fields
from inferplan.model.parts import Outline
from inferplan.model.quantization import quantization_of


def parse_architecture(
    config: Mapping[str, object], hf_quant_config: Mapping[str, object] | None = None
) -> Architecture:
    """The model that a config.json (and ModelOpt's hf_quant_config.json, where there is one) describes.

    Raises UnsupportedArchitecture naming a class that no parser reads, InvalidModelConfig naming a bad field.
    """
    name = _class_name(config)
    parser = _PARSERS.get(name)
    if parser is None:
        raise UnsupportedArchitecture(
            f"{name}: no parser reads this architecture yet (dense decoders with full or sliding-window attention "
            f"are read: {', '.join(sorted(_PARSERS))})"
        )
    fields = Fields(config)
    outline = parser(fields)
    context = context_of(fields, outline.context_by_default)
    return Architecture(
        name=name,
        hidden_size=outline.hidden_size,
        vocab_size=fields.size("vocab_size"),
        layers=outline.layers,
        tied_embeddings=fields.flag("tie_word_embeddings", default=outline.tied_by_default),
        max_position_embeddings=context.limit_tokens,
        dtype=fields.dtype(),
        quantization=quantization_of(config, hf_quant_config),
        lm_head_bias=outline.lm_head_bias,
        outer=outline.outer,
        vectors=outline.vectors,
        original_position_embeddings=context.original_tokens,
    )


def _class_name(config: Mapping[str, object]) -> str:
    names = config.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise InvalidModelConfig("config.json: architectures is missing or empty")
    return names[0]


_PARSERS: dict[str, Callable[[Fields], Outline]] = {
    "LlamaForCausalLM": llama_like.llama,
    "MistralForCausalLM": llama_like.llama,
    "GraniteForCausalLM": llama_like.llama,
    "SmolLM3ForCausalLM": llama_like.llama,
    "Phi3ForCausalLM": llama_like.llama,
    "InternLM3ForCausalLM": llama_like.llama,
    "SeedOssForCausalLM": llama_like.seed_oss,
    "Qwen2ForCausalLM": llama_like.qwen2,
    "MiMoForCausalLM": llama_like.qwen2,
    "Qwen3ForCausalLM": llama_like.qwen3,
    "GemmaForCausalLM": llama_like.gemma,
    "Gemma2ForCausalLM": llama_like.gemma2,
    "Gemma3ForCausalLM": llama_like.gemma3,
    "CohereForCausalLM": llama_like.cohere,
    "Cohere2ForCausalLM": llama_like.cohere,
    "OlmoForCausalLM": llama_like.olmo,
    "Olmo2ForCausalLM": llama_like.olmo2,
    "Olmo3ForCausalLM": llama_like.olmo2,
    "PhiForCausalLM": gpt_like.phi,
    "Starcoder2ForCausalLM": gpt_like.starcoder2,
    "GPT2LMHeadModel": gpt_like.gpt2,
    "InternLM2ForCausalLM": llama_like.llama,
    "Ernie4_5ForCausalLM": llama_like.ernie,
    "GlmForCausalLM": llama_like.glm,
    "Glm4ForCausalLM": llama_like.glm4,
    "StableLmForCausalLM": llama_like.stablelm,
    "GPTBigCodeForCausalLM": gpt_like.gpt_bigcode,
    "GPTJForCausalLM": gpt_like.gptj,
    "GPTNeoXForCausalLM": gpt_like.gpt_neox,
    "OPTForCausalLM": gpt_like.opt,
    "BloomForCausalLM": gpt_like.bloom,
    "FalconForCausalLM": gpt_like.falcon,
}
