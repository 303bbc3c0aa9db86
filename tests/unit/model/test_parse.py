"""config.json → Architecture: fields read, bad ones named, parameter counts as published."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from importlib import resources
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplan.engine import EngineConfig, plan_memory, resolve
from inferplan.errors import InferPlanError, InvalidModelConfig, ModelError, UnsupportedArchitecture
from inferplan.hardware import resolve_gpu
from inferplan.model import Attention, is_ignored, parse_architecture, quantization_named
from inferplan.model.hub import bundled_models, resolve_model
from inferplan.model.size import checkpoint_bytes, checkpoint_parameters

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        # Totals that the checkpoints' safetensors headers state (Hugging Face model pages).
        ("meta-llama/Meta-Llama-3.1-8B", 8_030_261_248),
        ("meta-llama/Llama-3.2-1B", 1_235_814_400),
        ("Qwen/Qwen2.5-7B-Instruct", 7_615_616_512),
        ("Qwen/Qwen3-8B", 8_190_735_360),
        ("Qwen/Qwen3-0.6B", 596_049_920),
        ("mistralai/Mistral-7B-Instruct-v0.3", 7_248_023_552),
        ("microsoft/phi-2", 2_779_683_840),
        ("mistralai/Mixtral-8x7B-v0.1", 46_702_792_704),
        ("Qwen/Qwen3-30B-A3B", 30_532_122_624),
        ("Qwen/Qwen3-235B-A22B", 235_093_634_560),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 81_324_862_720),  # with its drafting layer, as all that have one
        ("openai/gpt-oss-120b", 116_829_156_672),
        ("zai-org/GLM-4.5", 358_337_791_296),
        ("zai-org/GLM-4.5-Air", 110_468_824_832),
        ("deepseek-ai/DeepSeek-V2-Lite", 15_706_484_224),
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", 49_122_681_728),
        ("tiiuae/falcon-mamba-7b", 7_272_665_088),
        ("state-spaces/mamba-2.8b-hf", 2_768_345_600),
        ("LiquidAI/LFM2-350M", 354_483_968),
        ("ai21labs/AI21-Jamba-Mini-1.5", 51_570_323_328),
        ("tiiuae/Falcon-H1-0.5B-Instruct", 521_411_104),
        ("Zyphra/Zamba2-7B-Instruct", 7_356_749_648),
        ("ibm-granite/granite-4.0-h-tiny", 6_939_037_248),
        ("ibm-granite/granite-4.0-h-micro", 3_191_396_096),
        ("MiniMaxAI/MiniMax-Text-01", 456_089_655_296),
        ("nvidia/Llama-3_3-Nemotron-Super-49B-v1", 49_867_145_216),
        ("Qwen/Qwen3-VL-8B-Instruct", 8_767_123_696),
        ("google/gemma-3-27b-it", 27_432_406_640),
    ],
)
def test_parameters_are_the_published_ones(model: str, parameters: int) -> None:
    assert checkpoint_parameters(resolve_model(model, hub="never").architecture) == parameters


@pytest.mark.parametrize(
    ("name", "fields", "parameters", "kv_heads"),
    [
        # Shapes and totals as published with each model; the totals pin biases, norms and tied embeddings down.
        (
            "GPTNeoXForCausalLM",  # EleutherAI/pythia-6.9b
            {"vocab_size": 50432, "hidden_size": 4096, "intermediate_size": 16384, "tie_word_embeddings": False},
            6_857_302_016,
            32,
        ),
        (
            "GPTJForCausalLM",  # EleutherAI/gpt-j-6b
            {"vocab_size": 50400, "n_embd": 4096, "n_layer": 28, "n_head": 16, "n_positions": 2048},
            6_050_882_784,
            16,
        ),
        (
            "OPTForCausalLM",  # facebook/opt-6.7b
            {"vocab_size": 50272, "hidden_size": 4096, "ffn_dim": 16384},
            6_658_473_984,
            32,
        ),
        (
            "BloomForCausalLM",  # bigscience/bloom-7b1
            {"vocab_size": 250880, "n_embed": 4096, "n_layer": 30, "n_head": 32},
            7_069_016_064,
            32,
        ),
        (
            "FalconForCausalLM",  # tiiuae/falcon-7b
            {"vocab_size": 65024, "hidden_size": 4544, "num_attention_heads": 71, "multi_query": True},
            6_921_720_704,
            1,
        ),
        (
            "GPTBigCodeForCausalLM",  # bigcode/starcoder
            {"vocab_size": 49152, "n_embd": 6144, "n_layer": 40, "n_head": 48, "n_positions": 8192, "n_inner": 24576},
            15_517_456_384,
            1,
        ),
        (
            "StableLmForCausalLM",  # stabilityai/stablelm-2-1_6b
            {
                "vocab_size": 100352,
                "hidden_size": 2048,
                "num_hidden_layers": 24,
                "intermediate_size": 5632,
                "use_qkv_bias": True,
                "tie_word_embeddings": False,
            },
            1_644_515_328,
            32,
        ),
        (
            "InternLM2ForCausalLM",  # internlm/internlm2_5-7b
            {"vocab_size": 92544, "hidden_size": 4096, "intermediate_size": 14336, "num_key_value_heads": 8},
            7_737_708_544,
            8,
        ),
        (
            "Ernie4_5ForCausalLM",  # baidu/ERNIE-4.5-0.3B
            {
                "vocab_size": 103424,
                "hidden_size": 1024,
                "num_hidden_layers": 18,
                "num_attention_heads": 16,
                "num_key_value_heads": 2,
                "head_dim": 128,
                "intermediate_size": 3072,
            },
            360_748_032,
            2,
        ),
        (
            "GlmForCausalLM",  # zai-org/glm-4-9b-chat-hf
            {
                "vocab_size": 151552,
                "hidden_size": 4096,
                "num_hidden_layers": 40,
                "num_key_value_heads": 2,
                "intermediate_size": 13696,
                "attention_bias": True,
            },
            9_399_951_360,
            2,
        ),
        (
            "Glm4ForCausalLM",  # zai-org/GLM-4-9B-0414
            {
                "vocab_size": 151552,
                "hidden_size": 4096,
                "num_hidden_layers": 40,
                "num_key_value_heads": 2,
                "intermediate_size": 13696,
                "attention_bias": True,
            },
            9_400_279_040,
            2,
        ),
    ],
)
def test_families_that_are_not_bundled_have_their_published_size(
    name: str, fields: dict[str, Any], parameters: int, kv_heads: int
) -> None:
    common = {"num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048}
    own = {"n_layer": "num_hidden_layers", "n_head": "num_attention_heads", "n_positions": "max_position_embeddings"}
    shared = {k: v for k, v in common.items() if k not in {own.get(f) for f in fields}}
    found = parse_architecture({"architectures": [name], "torch_dtype": "bfloat16", **shared, **fields})
    assert checkpoint_parameters(found) == parameters
    mixer = found.layers[0].mixers[0]
    assert isinstance(mixer, Attention)
    assert mixer.kv_heads == kv_heads


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("OPTForCausalLM", {"ffn_dim": 4096, "word_embed_proj_dim": 512}, "word_embed_proj_dim"),
        ("StableLmForCausalLM", {"qk_layernorm": True}, "qk_layernorm"),
        ("FalconForCausalLM", {"new_decoder_architecture": True}, "num_kv_heads"),
        ("Ernie4_5ForCausalLM", {"use_bias": True}, "use_bias"),
    ],
)
def test_a_variant_no_parser_reads_is_named(name: str, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidModelConfig, match=said):
        parse_architecture({**LLAMA, "architectures": [name], **fields})


@pytest.mark.parametrize("field", ["hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size"])
def test_a_missing_field_is_named(field: str) -> None:
    with pytest.raises(InvalidModelConfig, match=field):
        parse_architecture({k: v for k, v in LLAMA.items() if k != field})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_size": -1}, "hidden_size"),
        ({"hidden_size": "4096"}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size"),
        ({"num_key_value_heads": 7}, "num_attention_heads"),
        ({"num_hidden_layers": 10**6}, "num_hidden_layers"),
        ({"torch_dtype": "int4"}, "torch_dtype"),
        ({"architectures": []}, "architectures"),
        ({"quantization_config": {"quant_method": "magic"}}, "magic"),
    ],
)
def test_an_absurd_field_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidModelConfig, match=said):
        parse_architecture({**LLAMA, **changes})


def test_a_class_in_no_parser_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedArchitecture, match="BrandNewForCausalLM"):
        parse_architecture({**LLAMA, "architectures": ["BrandNewForCausalLM"]})


def test_every_bundled_model_is_read_or_refused_by_name() -> None:
    read = refused = 0
    for model in bundled_models():
        try:
            resolve_model(model, hub="never")
            read += 1
        except UnsupportedArchitecture:
            refused += 1
    assert read + refused == len(bundled_models()) == 135
    assert read >= 46


@pytest.mark.parametrize(
    ("scaling", "limit"),
    [
        (None, 131072),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 131072),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131072),
        ({"type": "linear", "factor": 2.0}, 262144),
    ],
)
def test_the_context_limit_follows_rope_scaling(scaling: dict[str, Any] | None, limit: int) -> None:
    assert parse_architecture({**LLAMA, "rope_scaling": scaling}).max_position_embeddings == limit


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}, 131072),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 4096}}, 8192),
        ({"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0}}}, 1048576),
        ({"model_max_length": 4096}, 4096),
        ({"max_sequence_length": 2048}, 2048),
    ],
)
def test_the_context_limit_is_the_one_vllm_derives(changes: dict[str, Any], limit: int) -> None:
    assert parse_architecture({**LLAMA, **changes}).max_position_embeddings == limit


def test_a_long_rope_model_keeps_both_its_lengths() -> None:
    # Phi-3-mini-128k: stretched from 4,096 to 131,072 tokens.
    config = {
        **LLAMA,
        "architectures": ["Phi3ForCausalLM"],
        "original_max_position_embeddings": 4096,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [2.0]},
    }
    found = parse_architecture(config)
    assert (found.max_position_embeddings, found.original_position_embeddings) == (131072, 4096)


@pytest.mark.parametrize("factor", [0, -1.0, "two", True])
def test_a_scaling_factor_without_meaning_is_named(factor: object) -> None:
    with pytest.raises(InvalidModelConfig, match="factor"):
        parse_architecture({**LLAMA, "rope_scaling": {"type": "linear", "factor": factor}})


def test_a_window_is_read_where_it_is_in_use() -> None:
    def windows(changes: dict[str, Any]) -> set[int | None]:
        layers = parse_architecture({**LLAMA, **changes}).layers
        return {m.window_tokens for layer in layers for m in layer.mixers if isinstance(m, Attention)}

    assert windows({"architectures": ["MistralForCausalLM"], "sliding_window": 4096}) == {4096}
    assert windows({"architectures": ["MistralForCausalLM"], "sliding_window": None}) == {None}
    assert windows({"architectures": ["Qwen2ForCausalLM"], "sliding_window": 4096, "use_sliding_window": False}) == {
        None
    }


@pytest.mark.parametrize(
    ("section", "method", "bits", "group"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, "awq", 4, 64),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "gptq-int8", 8, None),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", 8, None),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes", 4, 64),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 128}, "input_activations": None}
                },
            },
            "w4a16",
            4,
            128,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {"weights": {"num_bits": 8, "type": "int"}, "input_activations": {"num_bits": 8}}
                },
            },
            "w8a8",
            8,
            None,
        ),
    ],
)
def test_quantization_configs(section: dict[str, Any], method: str, bits: int, group: int | None) -> None:
    found = parse_architecture({**LLAMA, "quantization_config": section}).quantization
    assert found is not None
    assert (found.method, found.weight_bits, found.group_size) == (method, bits, group)


def compressed(weights: dict[str, Any], activations: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    groups = {"group_0": {"weights": weights, "input_activations": activations, "targets": ["Linear"]}}
    return {"quant_method": "compressed-tensors", "config_groups": groups, **more}


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        # As the configs of RedHatAI's checkpoints state them: FP8-dynamic, FP8-block, NVFP4, MXFP4, NVFP4A16, W8A16.
        (
            compressed({"num_bits": 8, "type": "float", "strategy": "channel"}, {"num_bits": 8, "type": "float"}),
            ("fp8", 8, 8, None, None),
        ),
        (
            compressed(
                {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]},
                {"num_bits": 8, "type": "float"},
            ),
            ("fp8", 8, 8, None, (128, 128)),
        ),
        (
            compressed({"num_bits": 4, "type": "float", "group_size": 16}, {"num_bits": 4, "type": "float"}),
            ("nvfp4", 4, 4, 16, None),
        ),
        (compressed({"num_bits": 4, "type": "float", "group_size": 32}), ("mxfp4", 4, 16, 32, None)),
        (compressed({"num_bits": 4, "type": "float", "group_size": 16}), ("nvfp4", 4, 16, 16, None)),
        (compressed({"num_bits": 8, "type": "int", "strategy": "channel"}), ("w8a16", 8, 16, None, None)),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]}, ("fp8", 8, 8, None, None)),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 128}, ("gptq", 4, 16, 128, None)),
    ],
)
def test_how_a_checkpoint_was_quantized(section: dict[str, Any], expected: tuple[object, ...]) -> None:
    found = parse_architecture({**LLAMA, "quantization_config": section}).quantization
    assert found is not None
    assert (found.method, found.weight_bits, found.activation_bits, found.group_size, found.block) == expected


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"quant_method": "compressed-tensors"}, "config_groups"),
        (compressed({"num_bits": 3, "type": "int"}), "num_bits=3"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {"weights": {"num_bits": 8, "type": "float"}},
                    "group_1": {"weights": {"num_bits": 4, "type": "float"}},
                },
            },
            "different ways",
        ),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "MIXED_PRECISION"),
        ({"quant_method": "fp8", "weight_block_size": [0, 128]}, "weight_block_size"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size"),
    ],
)
def test_a_quantization_no_rule_reads_is_refused_by_name(section: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidModelConfig, match=said):
        parse_architecture({**LLAMA, "quantization_config": section})


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [
        ("model.layers.3.mlp.down_proj", True),
        ("down_proj", True),
        ("model.layers.3", True),
        ("model.layers.3*", True),
        ("re:.*mlp.*", True),
        ("model.layers.30", False),
        ("proj", False),
        ("re:mlp.*", False),
    ],
)
def test_which_modules_keep_the_model_dtype(pattern: str, *, kept: bool) -> None:
    assert is_ignored("model.layers.3.mlp.down_proj", ("lm_head", pattern)) is kept


def test_a_bad_pattern_is_named() -> None:
    with pytest.raises(InvalidModelConfig, match="no pattern"):
        is_ignored("model.layers.3", ("re:(",))


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("awq_marlin", "awq"),
        ("gptq marlin", "gptq"),
        ("compressed-tensors w4a16", "w4a16"),
        ("compressed-tensors", "w8a8"),
        ("w8a8 int8", "w8a8"),
        ("ModelOpt NVFP4", "nvfp4"),
        ("auto_round", "gptq"),
        ("gptq_int8", "gptq-int8"),
        ("int4", "w4a16"),
    ],
)
def test_names_that_people_and_vllm_use(name: str, method: str) -> None:
    found = quantization_named(name)
    assert not isinstance(found, str)
    assert found.method == method


@given(st.sampled_from(["fp8", "awq", "gptq", "w4a16", "nvfp4", "bf16"]), st.sampled_from([str.upper, str.title, str]))
def test_names_are_read_in_any_case(name: str, spelled: Any) -> None:
    assert quantization_named(f" {spelled(name)} ") == quantization_named(name)


JUNK = st.sampled_from(
    [None, -1, 0, "x", [], {}, 1.5, True, float("nan"), 10**30, [None, 1], [0, 0], ["a", "b"], "re:("]
)
SECTIONS: list[dict[str, Any]] = [
    {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"]},
    {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
    {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["*a"], "kv_cache_scheme": {"num_bits": 8}},
    compressed({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}, {"num_bits": 8}),
]


@given(name=st.sampled_from(sorted(LLAMA)), section=st.sampled_from(SECTIONS), inner=JUNK, outer=JUNK, data=st.data())
def test_whatever_a_config_holds_is_read_or_refused_by_name(
    name: str, section: dict[str, Any], inner: object, outer: object, data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(section)))
    config = {**LLAMA, name: outer, "quantization_config": {**section, key: inner}}
    with suppress(ModelError):
        checkpoint_bytes(parse_architecture(config))


MODELS = json.loads((resources.files("inferplan.model") / "data" / "models.json").read_text(encoding="utf-8"))["models"]


@settings(max_examples=300)
@given(model=st.sampled_from(sorted(MODELS)), junk=JUNK, data=st.data())
def test_any_field_of_any_family_is_read_or_refused_by_name(model: str, junk: object, data: st.DataObject) -> None:
    """Down to the plan of its memory: what a parser lets through, nothing after it stumbles over."""
    config = copy.deepcopy(MODELS[model]["config"])
    sections = [config, *(value for value in config.values() if isinstance(value, dict))]
    section = data.draw(st.sampled_from(sections))
    field = data.draw(st.sampled_from(sorted(section)))
    if data.draw(st.booleans()):
        del section[field]
    else:
        section[field] = junk
    gpu = resolve_gpu("H200-SXM")
    with suppress(InferPlanError):
        architecture = parse_architecture(config)
        memory = plan_memory(architecture, gpu, resolve(EngineConfig(tensor_parallel_size=2), architecture, gpu))
        assert memory.weights_bytes_per_rank > 0
        assert checkpoint_bytes(architecture) > 0


@pytest.mark.parametrize(
    ("name", "fields", "parameters"),
    [
        # Shapes of the published config.json, totals of the published checkpoints (drafting layer included).
        (
            "Glm4MoeLiteForCausalLM",  # zai-org/GLM-4.7-Flash
            {
                "hidden_size": 2048,
                "num_hidden_layers": 47,
                "num_attention_heads": 20,
                "q_lora_rank": 768,
                "kv_lora_rank": 512,
                "qk_nope_head_dim": 192,
                "qk_rope_head_dim": 64,
                "v_head_dim": 256,
                "n_routed_experts": 64,
                "n_shared_experts": 1,
                "num_experts_per_tok": 4,
                "moe_intermediate_size": 1536,
                "intermediate_size": 10240,
                "first_k_dense_replace": 1,
                "vocab_size": 154880,
                "num_nextn_predict_layers": 1,
            },
            31_221_488_576,
        ),
        (
            "Ernie4_5_MoeForCausalLM",  # baidu/ERNIE-4.5-21B-A3B-PT
            {
                "hidden_size": 2560,
                "num_hidden_layers": 28,
                "num_attention_heads": 20,
                "num_key_value_heads": 4,
                "moe_num_experts": 64,
                "moe_k": 6,
                "moe_num_shared_experts": 2,
                "moe_intermediate_size": 1536,
                "intermediate_size": 12288,
                "moe_layer_start_index": 1,
                "moe_layer_end_index": 27,
                "vocab_size": 103424,
                "tie_word_embeddings": True,
            },
            21_825_437_888,
        ),
        (
            "BailingMoeV2ForCausalLM",  # inclusionAI/Ling-mini-2.0
            {
                "hidden_size": 2048,
                "num_hidden_layers": 20,
                "num_attention_heads": 16,
                "num_key_value_heads": 4,
                "num_experts": 256,
                "num_experts_per_tok": 8,
                "num_shared_experts": 1,
                "moe_intermediate_size": 512,
                "intermediate_size": 5120,
                "first_k_dense_replace": 1,
                "vocab_size": 157184,
                "use_qk_norm": True,
                "moe_router_enable_expert_bias": True,
                "router_dtype": "fp32",
            },
            16_255_643_392,
        ),
        (
            "ApertusForCausalLM",  # swiss-ai/Apertus-8B-2509
            {
                "hidden_size": 4096,
                "num_hidden_layers": 32,
                "num_attention_heads": 32,
                "num_key_value_heads": 8,
                "intermediate_size": 21504,
                "vocab_size": 131072,
            },
            8_053_338_176,
        ),
        (
            "DeepseekForCausalLM",  # deepseek-ai/deepseek-moe-16b-base
            {
                "hidden_size": 2048,
                "num_hidden_layers": 28,
                "num_attention_heads": 16,
                "num_key_value_heads": 16,
                "n_routed_experts": 64,
                "n_shared_experts": 2,
                "num_experts_per_tok": 6,
                "moe_intermediate_size": 1408,
                "intermediate_size": 10944,
                "first_k_dense_replace": 1,
                "vocab_size": 102400,
            },
            16_375_728_128,
        ),
        (
            "Exaone4ForCausalLM",  # LGAI-EXAONE/EXAONE-4.0-1.2B
            {
                "hidden_size": 2048,
                "num_hidden_layers": 30,
                "num_attention_heads": 32,
                "num_key_value_heads": 8,
                "head_dim": 64,
                "intermediate_size": 4096,
                "vocab_size": 102400,
                "tie_word_embeddings": True,
            },
            1_279_391_488,
        ),
        (
            "SolarForCausalLM",  # upstage/SOLAR-10.7B
            {
                "hidden_size": 4096,
                "num_hidden_layers": 48,
                "num_attention_heads": 32,
                "num_key_value_heads": 8,
                "intermediate_size": 14336,
                "vocab_size": 32000,
            },
            10_731_524_096,
        ),
    ],
)
def test_families_of_no_measured_row_have_their_published_size(
    name: str, fields: dict[str, Any], parameters: int
) -> None:
    config = {"architectures": [name], "max_position_embeddings": 32768, "torch_dtype": "bfloat16", **fields}
    assert checkpoint_parameters(parse_architecture(config)) == parameters


def test_lings_hybrid_alternates_states_and_latents() -> None:
    """Ling 2.5: seven layers of lightning attention, then one of latent attention; dense feed-forwards first."""
    config = {
        "architectures": ["BailingMoeV2_5ForCausalLM"],
        "hidden_size": 8192,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "head_dim": 128,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "layer_group_size": 8,
        "num_experts": 256,
        "num_experts_per_tok": 8,
        "num_shared_experts": 1,
        "moe_intermediate_size": 2048,
        "intermediate_size": 18432,
        "first_k_dense_replace": 4,
        "vocab_size": 157184,
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
    }
    architecture = parse_architecture(config)
    gpu = resolve_gpu("H200-SXM")
    wanted = EngineConfig(tensor_parallel_size=8, available_kv_cache_bytes=10**10, max_model_len=16384)
    held = plan_memory(architecture, gpu, resolve(wanted, architecture, gpu))
    assert held.starts
    assert sorted(g.kind for g in held.kv_groups) == ["full", *["state"] * 7]
    assert {g.layers for g in held.kv_groups} == {10}
