"""config.json → Architecture. A family is one parser function; it reads fields and yields typed layers.

A class in no parser is refused, naming it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from inferplan.errors import InvalidModelConfig, UnsupportedArchitecture
from inferplan.model import gpt_like, hybrids, latents, llama_like, mixtures, vision
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
            f"{name}: no parser reads this architecture; read are {', '.join(sorted(_PARSERS))}"
        )
    fields = Fields.of_language_model(config)
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
        quantization=quantization_of(fields.values, hf_quant_config),
        lm_head_bias=outline.lm_head_bias,
        embeds_everywhere=outline.embeds_everywhere,
        pipelined=outline.pipelined,
        limits_context=context.is_stated,
        outer=outline.outer,
        vectors=outline.vectors,
        original_position_embeddings=context.original_tokens,
        bidirectional_prefix=outline.bidirectional_prefix,
        largest_graph=outline.largest_graph,
        fp8_cache_capabilities=outline.fp8_cache_capabilities,
        residual_streams=outline.residual_streams,
        unstable_in_float16=outline.unstable_in_float16,
        encoder=outline.encoder,
        draft=outline.draft,
    )


def _class_name(config: Mapping[str, object]) -> str:
    names = config.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise InvalidModelConfig("config.json: architectures is missing or empty")
    return names[0]


_PARSERS: dict[str, Callable[[Fields], Outline]] = {
    "LlamaForCausalLM": llama_like.llama,
    "ApertusForCausalLM": llama_like.apertus,
    "Exaone4ForCausalLM": llama_like.exaone4,
    "LLaMAForCausalLM": llama_like.llama,
    "TeleChat3ForCausalLM": llama_like.llama,
    "IQuestCoderForCausalLM": llama_like.llama,
    "SolarForCausalLM": llama_like.llama,
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
    "MixtralForCausalLM": mixtures.mixtral,
    "PhiMoEForCausalLM": mixtures.phimoe,
    "Qwen2MoeForCausalLM": mixtures.qwen2_moe,
    "Qwen3MoeForCausalLM": mixtures.qwen3_moe,
    "Glm4MoeForCausalLM": mixtures.glm4_moe,
    "MiniMaxM2ForCausalLM": mixtures.minimax_m2,
    "MiniMaxM3ForCausalLM": mixtures.minimax_m3,
    "MiniMaxM3SparseForConditionalGeneration": mixtures.minimax_m3,
    "GptOssForCausalLM": mixtures.gpt_oss,
    "GraniteMoeForCausalLM": mixtures.granite_moe,
    "GraniteMoeSharedForCausalLM": mixtures.granite_moe,
    "OlmoeForCausalLM": mixtures.olmoe,
    "Llama4ForCausalLM": mixtures.llama4,
    "Llama4ForConditionalGeneration": vision.with_tower(mixtures.llama4, vision.llama4_vision),
    "MiMoV2FlashForCausalLM": mixtures.mimo_v2,
    "DeepseekForCausalLM": mixtures.deepseek_first,
    "BailingMoeForCausalLM": mixtures.bailing,
    "BailingMoeV2ForCausalLM": mixtures.bailing,
    "BailingMoeV2_5ForCausalLM": hybrids.bailing_hybrid,
    "Ernie4_5_MoeForCausalLM": mixtures.ernie_moe,
    "Glm4MoeLiteForCausalLM": latents.glm4_moe_lite,
    "Step3p5ForCausalLM": mixtures.step3p5,
    "Step3p7FlashForCausalLM": mixtures.step3p5,
    "DeciLMForCausalLM": mixtures.deci,
    "Gemma4ForCausalLM": mixtures.gemma4,
    "Gemma4ForConditionalGeneration": vision.with_tower(mixtures.gemma4, vision.gemma4_vision),
    "Gemma3ForConditionalGeneration": vision.with_tower(llama_like.gemma3_multimodal, vision.gemma3_vision),
    "DeepseekV2ForCausalLM": latents.deepseek,
    "DeepseekV3ForCausalLM": latents.deepseek,
    "DeepseekV32ForCausalLM": latents.deepseek_sparse,
    "GlmMoeDsaForCausalLM": latents.glm_sparse,
    "DeepseekV4ForCausalLM": latents.deepseek_v4,
    "LongcatFlashForCausalLM": latents.longcat,
    "KimiK25ForConditionalGeneration": vision.with_tower(latents.deepseek, vision.kimi_vision),
    "KimiLinearForCausalLM": hybrids.kimi_linear,
    "KimiK3ForConditionalGeneration": vision.with_tower(hybrids.kimi_linear, vision.kimi_vision),
    "MambaForCausalLM": hybrids.mamba,
    "FalconMambaForCausalLM": hybrids.mamba,
    "Mamba2ForCausalLM": hybrids.mamba_2,
    "JambaForCausalLM": hybrids.jamba,
    "BambaForCausalLM": hybrids.bamba,
    "FalconH1ForCausalLM": hybrids.falcon_h1,
    "Zamba2ForCausalLM": hybrids.zamba2,
    "NemotronHForCausalLM": hybrids.nemotron_h,
    "GraniteMoeHybridForCausalLM": hybrids.granite_hybrid,
    "Qwen3NextForCausalLM": hybrids.qwen3_next,
    "Qwen3_5ForCausalLM": hybrids.qwen3_5,
    "Qwen3_5MoeForCausalLM": hybrids.qwen3_5,
    "Qwen3_5ForConditionalGeneration": vision.with_tower(hybrids.qwen3_5, vision.qwen3_vision),
    "Qwen3_5MoeForConditionalGeneration": vision.with_tower(hybrids.qwen3_5, vision.qwen3_vision),
    "Lfm2ForCausalLM": hybrids.lfm2,
    "Lfm2MoeForCausalLM": hybrids.lfm2,
    "MiniMaxText01ForCausalLM": hybrids.minimax_text,
    "MiniMaxM1ForCausalLM": hybrids.minimax_text,
    "Qwen2VLForConditionalGeneration": vision.with_tower(llama_like.qwen2, vision.qwen2_vision),
    "Qwen2_5_VLForConditionalGeneration": vision.with_tower(llama_like.qwen2, vision.qwen2_vision),
    "Qwen3VLForConditionalGeneration": vision.with_tower(llama_like.qwen3, vision.qwen3_vision),
    "Qwen3VLMoeForConditionalGeneration": vision.with_tower(mixtures.qwen3_moe, vision.qwen3_vision),
    "Mistral3ForConditionalGeneration": vision.with_tower(llama_like.llama, vision.pixtral_vision),
}
