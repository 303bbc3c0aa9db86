"""What one engine step costs: where its bytes and FLOPs come from, and what makes it faster or slower."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplan.engine import EngineConfig, resolve
from inferplan.hardware import GPU, resolve_gpu
from inferplan.model import Architecture
from inferplan.model.hub import resolve_model
from inferplan.performance.constants import constants
from inferplan.performance.step import Array, Coefficients, StepTime, Table, coefficients, step_time

H100 = resolve_gpu("H100-SXM")
LLAMA = resolve_model("meta-llama/Meta-Llama-3.1-8B", hub="never").architecture
QWEN = resolve_model("Qwen/Qwen3-32B", hub="never").architecture


def parts(architecture: Architecture = LLAMA, gpu: GPU = H100, **config: object) -> Coefficients:
    return coefficients(architecture, gpu, resolve(EngineConfig(**config), architecture, gpu))  # type: ignore[arg-type]


def step(
    row: Coefficients, decode: float = 0.0, context: float = 0.0, prefill: float = 0.0, pairs: float = 0.0
) -> StepTime:
    def column(value: float) -> Array:
        return np.array([value])

    return step_time(Table([row]), constants(), column(decode), column(context), column(prefill), column(pairs))


def seconds(row: Coefficients, **work: float) -> float:
    return float(step(row, **work).total[0])


def test_weight_bytes_are_those_of_the_published_checkpoint_without_its_embedding() -> None:
    row = parts()
    # Llama 3.1 8B: 8,030,261,248 parameters in bf16; the embedding table (128,256 × 4,096) is looked up, not read;
    # 65 norms of 4,096 are not matrices.
    assert row.weight_bytes + row.head_bytes == 2 * (8_030_261_248 - 128_256 * 4096 - 65 * 4096)
    assert row.linear_flops_per_token == row.weight_bytes  # 2 FLOPs a weight, 2 bytes a weight


def test_kv_bytes_per_token_are_those_of_the_cache() -> None:
    # 32 layers × 8 KV heads × 128 × (K and V) × 2 bytes.
    assert parts().kv_bytes_per_context_token == 32 * 8 * 128 * 2 * 2
    assert parts(kv_cache_dtype="fp8").kv_bytes_per_context_token == 32 * 8 * 128 * 2


def test_a_single_sequence_is_bound_by_reading_the_weights_once() -> None:
    row = parts()
    one = step(row, decode=1, context=1)
    assert one.linear[0] == pytest.approx(row.weight_bytes / (constants().weight_bandwidth * row.bandwidth), rel=1e-3)
    assert step(row, decode=8, context=1).linear[0] < 1.01 * one.linear[0]


def test_a_long_prefill_is_bound_by_compute() -> None:
    row = parts()
    work = row.linear_flops_per_token * 16384
    found = float(step(row, prefill=16384).linear[0])
    ideal = work / row.matrix_flops_per_second
    assert ideal < found < 3 * ideal


def test_the_parts_add_up() -> None:
    found = step(parts(tensor_parallel_size=4), decode=16, context=2000, prefill=500, pairs=500 * 250)
    names = [f.name for f in dataclasses.fields(found)]
    assert float(found.total[0]) == pytest.approx(sum(float(getattr(found, n)[0]) for n in names))
    assert all(float(getattr(found, n)[0]) > 0 for n in names)


def test_one_gpu_has_no_all_reduces_and_more_divide_the_weights() -> None:
    one, four = parts(QWEN), parts(QWEN, tensor_parallel_size=4)
    assert step(one, decode=8, context=100).reduces[0] == 0
    assert step(four, decode=8, context=100).reduces[0] > 0
    assert four.weight_bytes == pytest.approx(one.weight_bytes / 4)
    assert seconds(four, decode=8, context=100) < seconds(one, decode=8, context=100)


def test_kv_heads_are_replicated_when_there_are_fewer_than_ranks() -> None:
    eight, sixteen = (parts(LLAMA, tensor_parallel_size=n) for n in (8, 16))
    assert sixteen.kv_bytes_per_context_token == eight.kv_bytes_per_context_token == 32 * 128 * 2 * 2


def test_narrower_weights_are_read_faster() -> None:
    wide, fp8, int4 = parts(), parts(weight_quantization="fp8"), parts(weight_quantization="awq")
    assert fp8.weight_bytes == pytest.approx(wide.weight_bytes / 2)
    assert wide.weight_bytes / 4 < int4.weight_bytes < wide.weight_bytes / 3.8  # 4 bits + a scale and a zero per 128
    times = [seconds(row, decode=1, context=1) for row in (wide, fp8, int4)]
    assert times == sorted(times, reverse=True)


def test_fp8_computes_faster_only_where_the_matrix_units_have_it() -> None:
    a100 = resolve_gpu("A100-SXM-80GB")
    rate = H100.peak.fp8
    assert parts(weight_quantization="fp8").matrix_flops_per_second == rate
    assert parts(gpu=a100, weight_quantization="fp8").matrix_flops_per_second == a100.peak.bf16


def test_eager_costs_more_than_graphs() -> None:
    assert seconds(parts(enforce_eager=True), decode=1, context=1) > seconds(parts(), decode=1, context=1)


def test_a_sliding_window_bounds_what_attention_reads() -> None:
    # Mistral 7B v0.1: window 4,096 on every layer.
    mistral = resolve_model("mistralai/Mistral-7B-v0.1", hub="never").architecture
    row = parts(mistral)
    assert step(row, decode=1, context=4096).attention[0] == step(row, decode=1, context=20000).attention[0]
    assert step(row, decode=1, context=2048).attention[0] < step(row, decode=1, context=4096).attention[0]


amounts = st.floats(min_value=1.0, max_value=512.0)
contexts = st.floats(min_value=1.0, max_value=100_000.0)


@settings(max_examples=60, deadline=None)
@given(amounts, contexts, st.floats(min_value=0.0, max_value=8192.0), st.floats(min_value=1.0, max_value=8.0))
def test_more_bandwidth_or_more_compute_is_never_slower(
    decode: float, context: float, prefill: float, factor: float
) -> None:
    row = parts()
    work = {"decode": decode, "context": context, "prefill": prefill, "pairs": prefill * prefill / 2}
    before = seconds(row, **work)
    for field in ("bandwidth", "matrix_flops_per_second", "attention_flops_per_second"):
        better = dataclasses.replace(row, **{field: getattr(row, field) * factor})
        assert seconds(better, **work) <= before


@settings(max_examples=60, deadline=None)
@given(amounts, contexts, st.floats(min_value=1.0, max_value=4.0))
def test_more_work_is_never_faster(decode: float, context: float, factor: float) -> None:
    row = parts(tensor_parallel_size=2)
    before = seconds(row, decode=decode, context=context)
    assert seconds(row, decode=decode * factor, context=context) >= before
    assert seconds(row, decode=decode, context=context * factor) >= before
    assert seconds(row, decode=decode, context=context, prefill=100 * factor) >= before


def test_a_table_gives_the_same_digits_as_its_rows_alone() -> None:
    rows = [parts(), parts(QWEN, tensor_parallel_size=2), parts(kv_cache_dtype="fp8")]
    work = np.array([1.0, 8.0, 64.0])
    none = np.zeros(3)
    together = step_time(Table(rows), constants(), work, 100 * work, none, none).total
    alone = [seconds(row, decode=n, context=100 * n) for row, n in zip(rows, work, strict=True)]
    assert together.tolist() == alone
