"""What is different in mixtures, latents, windows and states: memory, refusals and the ways out of them."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from inferplan.engine import EngineConfig, MemoryPlan, fit_context, plan_memory, requests_that_fit, resolve
from inferplan.hardware import resolve_gpu
from inferplan.model.hub import resolve_model

GIB = 2**30
FAMILIES = (
    "mistralai/Mixtral-8x7B-v0.1",
    "deepseek-ai/DeepSeek-V2-Lite",
    "deepseek-ai/DeepSeek-V4-Flash",
    "openai/gpt-oss-120b",
    "google/gemma-3-27b-it",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "ai21labs/AI21-Jamba-Mini-1.5",
    "tiiuae/Falcon-H1-0.5B-Instruct",
    "moonshotai/Kimi-Linear-48B-A3B-Instruct",
    "LiquidAI/LFM2-350M",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "Zyphra/Zamba2-7B-Instruct",
)
families = st.sampled_from(FAMILIES)


def plan(model: str, gpu: str = "H100-SXM", **options: object) -> MemoryPlan:
    architecture = resolve_model(model, hub="never").architecture
    card = resolve_gpu(gpu)
    return plan_memory(architecture, card, resolve(EngineConfig(**options), architecture, card))  # type: ignore[arg-type]


@settings(max_examples=60)
@given(model=families, size=st.integers(2**27, 16 * GIB))
def test_the_fitted_context_starts_and_one_token_more_does_not(model: str, size: int) -> None:
    architecture, gpu = resolve_model(model, hub="never").architecture, resolve_gpu("H100-SXM")
    asked = resolve(EngineConfig(available_kv_cache_bytes=size), architecture, gpu)
    fitted = fit_context(architecture, gpu, asked)
    assume(plan_memory(architecture, gpu, fitted).starts)
    if fitted.max_model_len == asked.max_model_len:
        assert plan_memory(architecture, gpu, asked).starts
        return
    assert not plan(model, max_model_len=fitted.max_model_len + 1, available_kv_cache_bytes=size).starts


@given(model=families, size=st.integers(2**30, 40 * GIB), tokens=st.integers(1, 60_000))
def test_longer_requests_never_fit_more_often(model: str, size: int, tokens: int) -> None:
    held = plan(model, available_kv_cache_bytes=size, max_model_len=4096)
    assert requests_that_fit(held, tokens + 1) <= requests_that_fit(held, tokens)


@given(model=families, size=st.integers(2**30, 40 * GIB))
def test_pages_fill_the_bytes_and_no_more(model: str, size: int) -> None:
    held = plan(model, available_kv_cache_bytes=size, max_model_len=4096)
    assume(held.starts)
    widest = max(g.page_size_bytes for g in held.kv_groups)
    assert held.num_gpu_blocks * widest <= size


@given(model=families, tp=st.sampled_from([1, 2, 4]))
def test_more_tensor_parallelism_never_means_more_weight_per_gpu(model: str, tp: int) -> None:
    few, many = (plan(model, tensor_parallel_size=n).weights_bytes_per_rank for n in (tp, 2 * tp))
    assert many <= few


def test_a_state_page_is_as_large_as_an_attention_page() -> None:
    held = plan("Qwen/Qwen3.5-27B", "H100-SXM", tensor_parallel_size=2)
    assert {g.kind for g in held.kv_groups} == {"state", "full"}
    assert len({g.page_size_bytes for g in held.kv_groups}) == 1


def test_a_latent_is_whole_on_every_rank_unless_ranks_share_out_its_tokens() -> None:
    model = "deepseek-ai/DeepSeek-V3"
    alone = plan(model, "H200-SXM", tensor_parallel_size=8, available_kv_cache_bytes=40 * GIB)
    wider = plan(model, "H200-SXM", tensor_parallel_size=16, available_kv_cache_bytes=40 * GIB)
    shared = plan(
        model,
        "H200-SXM",
        tensor_parallel_size=8,
        decode_context_parallel_size=8,
        available_kv_cache_bytes=40 * GIB,
    )
    assert alone.kv_cache_tokens == wider.kv_cache_tokens
    assert shared.max_concurrency == pytest.approx(8 * alone.max_concurrency, rel=0.001)
    assert requests_that_fit(shared, 163_840) == pytest.approx(8 * requests_that_fit(alone, 163_840), rel=0.001)


def test_running_sequences_need_a_state_block_each() -> None:
    """Qwen3.6-27B on one H100 at 1,024 sequences: refused since 0.21 with graphs, not when eager, not before."""
    model, options = "Qwen/Qwen3.5-27B", {"max_num_seqs": 1024, "max_model_len": 32768}
    refused = plan(model, "H100-SXM", version="0.33.0", **options)
    (error,) = refused.start_errors
    assert error.code == "SequencesAboveStateBlocks"
    most = int(error.fix.split()[-1].rstrip("."))
    assert plan(model, "H100-SXM", version="0.33.0", max_num_seqs=most, max_model_len=32768).starts
    assert plan(model, "H100-SXM", version="0.33.0", enforce_eager=True, **options).starts
    assert plan(model, "H100-SXM", version="0.20.0", **options).starts


@pytest.mark.parametrize(
    ("model", "options", "gpu", "code"),
    [
        ("ibm-ai-platform/Bamba-9B-v1", {}, "H100-SXM", "ArchitectureRemoved"),
        ("MiniMaxAI/MiniMax-Text-01", {"tensor_parallel_size": 8}, "H200-SXM", "ArchitectureRemoved"),
        ("Zyphra/Zamba2-7B-Instruct", {"pipeline_parallel_size": 2}, "H100-SXM", "PipelineNotSupported"),
        ("nvidia/Nemotron-H-56B-Base-8K", {"tensor_parallel_size": 16}, "H100-SXM", "StateGroupsNotDivisible"),
        ("openai/gpt-oss-120b", {"tensor_parallel_size": 7}, "H100-SXM", "HeadsNotDivisible"),
        ("openai/gpt-oss-120b", {"kv_cache_dtype": "fp8_e5m2"}, "A100-SXM", "KVCacheDtypeNotSupported"),
        ("mistralai/Mixtral-8x7B-v0.1", {"speculative_method": "mtp", "speculative_tokens": 1}, "H200", "NoDraftLayer"),
        (
            "Qwen/Qwen3-235B-A22B",
            {"tensor_parallel_size": 4, "data_parallel_size": 5},
            "H200-SXM",
            "ExpertsNotDivisible",
        ),
        (
            "Qwen/Qwen3-30B-A3B",
            {"tensor_parallel_size": 8, "decode_context_parallel_size": 4},
            "H100-SXM",
            "ContextParallelAboveReplicas",
        ),
        (
            "Qwen/Qwen3-Next-80B-A3B-Instruct",
            {"tensor_parallel_size": 4, "disable_hybrid_kv_cache_manager": True},
            "H100-SXM",
            "CachesNotUnified",
        ),
    ],
)
def test_every_refusal_has_its_code_and_a_way_out(model: str, options: dict[str, object], gpu: str, code: str) -> None:
    refused = plan(model, gpu, **options)
    assert [e.code for e in refused.start_errors][:1] == [code]
    assert refused.start_errors[0].fix
    assert (refused.num_gpu_blocks, refused.kv_cache_tokens, refused.max_concurrency) == (0, 0, 0.0)


def test_an_older_version_serves_what_a_newer_one_dropped() -> None:
    assert plan("ibm-ai-platform/Bamba-9B-v1", version="0.23.0").starts


def test_a_draft_takes_weights_and_a_layer_of_cache() -> None:
    model = "zai-org/GLM-4.5-Air"
    without = plan(model, "H200-SXM", tensor_parallel_size=4)
    drafting = plan(model, "H200-SXM", tensor_parallel_size=4, speculative_method="mtp", speculative_tokens=1)
    assert without.draft_weights_bytes == 0 < drafting.draft_weights_bytes
    assert sum(g.layers for g in drafting.kv_groups) == sum(g.layers for g in without.kv_groups) + 1
    assert drafting.kv_cache_tokens < without.kv_cache_tokens


def test_experts_are_divided_with_expert_parallelism_too() -> None:
    model = "Qwen/Qwen3-30B-A3B"
    tensor, expert = (
        plan(model, tensor_parallel_size=4, enable_expert_parallel=ep).weights_bytes_per_rank for ep in (False, True)
    )
    assert tensor == pytest.approx(expert, rel=0.001)


def test_float16_is_not_used_where_a_family_is_unstable_in_it() -> None:
    """vLLM refuses float16 for Gemma 2: on a GPU without bfloat16 it loads twice the bytes, as float32."""
    narrow, wide = (plan("google/gemma-2-2b-it", gpu) for gpu in ("L4", "T4"))
    assert wide.weights_bytes_per_rank == 2 * narrow.weights_bytes_per_rank
    assert any("float32" in w for w in wide.warnings)


def test_an_encoder_takes_its_own_peak_and_keeps_what_it_made() -> None:
    """Qwen3.5-35B-A3B on an A100, vLLM 0.19: 1.9 GiB above weights and context; text alone would take 0.9."""
    seen = plan("Qwen/Qwen3.5-35B-A3B", "A100-SXM-80GB", version="0.19.0", gpu_memory_utilization=0.9)
    assert seen.activation_bytes / GIB == pytest.approx(1.94, abs=0.1)
    image, text = (plan(m, "L40S").activation_bytes for m in ("Qwen/Qwen3-VL-8B-Instruct", "Qwen/Qwen3-8B"))
    assert image > text
    # The batch of image tokens that is kept while the language model runs: 8,192 of 5,376 elements.
    both, language = (plan(f"google/gemma-3-27b-{end}", "H100-SXM").activation_bytes for end in ("it", "text"))
    assert both - language == 8192 * 5376 * 2


def test_the_way_out_of_an_fp8_cache_is_not_auto_where_the_checkpoint_asks_for_it() -> None:
    refused = plan("nvidia/DeepSeek-V3.1-NVFP4", "A100-SXM-80GB", tensor_parallel_size=16)
    assert [e.code for e in refused.start_errors] == ["KVCacheDtypeNotSupported"]
    assert "auto or" not in refused.start_errors[0].fix
    assert plan(
        "nvidia/DeepSeek-V3.1-NVFP4", "A100-SXM-80GB", tensor_parallel_size=16, kv_cache_dtype="bfloat16"
    ).starts
