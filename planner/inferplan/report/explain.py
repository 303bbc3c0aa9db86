"""Where the bytes and the milliseconds go: one GPU's memory and one step's time, as bars and numbers."""

from __future__ import annotations

from dataclasses import dataclass

from inferplan.engine import KVGroup, ResolvedConfig, blocks_held, ranks_of, requests_that_fit, weights_by_kind
from inferplan.performance import Operation, Performance, ServingPoint

_GIB = 2**30
_BAR_CELLS = 20  # lines stay within 80 columns


@dataclass(frozen=True, slots=True)
class Slice:
    """One part of one GPU's memory."""

    name: str
    bytes: int


def memory_slices(point: ServingPoint) -> tuple[Slice, ...]:
    """All of one GPU's memory, in the order vLLM takes it; the parts sum to the total the driver reports.

    Where the parts before the KV cache already exceed the budget, the KV slice is negative: that much is missing.
    """
    memory = point.memory
    fixed = (
        Slice("weights", memory.weights_bytes_per_rank),
        *((Slice("draft layer", memory.draft_weights_bytes),) if memory.draft_weights_bytes else ()),
        Slice("activation peak", memory.activation_bytes),
        Slice("non-torch (NCCL, context)", memory.non_torch_bytes),
        Slice("CUDA graphs", memory.cuda_graph_bytes),
        Slice("KV cache", memory.available_kv_cache_bytes),
    )
    taken = sum(s.bytes for s in fixed)
    return (*fixed, Slice("left to others", memory.total_memory_bytes - taken))


def explain_text(point: ServingPoint, performance: Performance, warnings: tuple[str, ...]) -> str:
    """The account as plain text, readable in 80 columns and without colour."""
    config, memory = point.config, point.memory
    lines = [
        f"{point.architecture.name} on {_gpus(config)}×{point.gpu.name}{_parallel(config)}, "
        f"vLLM {config.version}, {config.weight_quantization} weights, {config.kv_cache_dtype} KV cache",
        "",
        f"One GPU's memory ({memory.total_memory_bytes / _GIB:.2f} GiB, "
        f"{config.gpu_memory_utilization:.2f} of it for vLLM)",
        *_memory_lines(point),
        "",
        "Weights on that GPU",
        *_weight_lines(point),
        "",
        *_kv_lines(point),
        "",
        "One decode step",
        *_operation_lines(performance.decode_step),
        "",
        "One prompt's prefill",
        *_operation_lines(performance.prefill_step),
        "",
        *_serving_lines(performance),
    ]
    lines += [f"refused: {e.code}: {e.message} {e.fix}" for e in memory.start_errors]
    lines += [f"warning: {w}" for w in warnings]
    return "\n".join(lines) + "\n"


def _gpus(config: ResolvedConfig) -> int:
    return config.tensor_parallel_size * config.pipeline_parallel_size * config.data_parallel_size


def _parallel(config: ResolvedConfig) -> str:
    """How the GPUs share the work, where it is not by tensor parallelism alone."""
    sizes = {
        "TP": config.tensor_parallel_size,
        "PP": config.pipeline_parallel_size,
        "DP": config.data_parallel_size,
        "DCP": config.decode_context_parallel_size,
    }
    said = [f"{name} {size}" for name, size in sizes.items() if size > 1]
    if config.enable_expert_parallel:
        said.append("EP")
    return f" ({', '.join(said)})" if said and said != [f"TP {config.tensor_parallel_size}"] else ""


def explain_json(point: ServingPoint, performance: Performance, warnings: tuple[str, ...]) -> dict[str, object]:
    """The same account as a JSON object; bytes and seconds."""
    return {
        "architecture": point.architecture.name,
        "gpu": point.gpu.name,
        "memory_bytes": {s.name: s.bytes for s in memory_slices(point)},
        "weights_bytes": dict(_weights(point)),
        "memory_per_layer_kind": [
            {
                "kind": g.kind,
                "layers": g.layers,
                "page_size_bytes": g.page_size_bytes,
                "block_size": g.block_size,
                "blocks_per_p95_request": blocks_held(g, p95_tokens(point)),
                "blocks_per_longest_request": g.blocks_per_request,
            }
            for g in point.memory.kv_groups
        ],
        "num_gpu_blocks": point.memory.num_gpu_blocks,
        "requests_at_once": requests_at_once(point),
        "kv_cache_tokens": point.memory.kv_cache_tokens,
        "kv_cache_tokens_interval": {
            "low": point.memory.kv_cache_tokens_low,
            "high": point.memory.kv_cache_tokens_high,
            "level": 0.9,
        },
        "kv_bytes_per_token": point.memory.kv_bytes_per_token_per_rank,
        "max_concurrency": point.memory.max_concurrency,
        "starts": point.memory.starts,
        "start_errors": [{"code": e.code, "message": e.message, "fix": e.fix} for e in point.memory.start_errors],
        "decode_step": [_operation_json(o) for o in performance.decode_step],
        "prefill_step": [_operation_json(o) for o in performance.prefill_step],
        "warnings": list(warnings),
    }


def p95_tokens(point: ServingPoint) -> float:
    """The workload's p95 prompt plus p95 answer."""
    return point.workload.input_tokens.p95_tokens + point.workload.output_tokens.p95_tokens


def requests_at_once(point: ServingPoint) -> float:
    """How many requests of p95 length the KV cache holds at once, in whole blocks."""
    return requests_that_fit(point.memory, p95_tokens(point))


def _weights(point: ServingPoint) -> tuple[tuple[str, int], ...]:
    config = point.config
    return weights_by_kind(point.architecture, ranks_of(config), config.quantization, config.dtype)


def _weight_lines(point: ServingPoint) -> list[str]:
    total = point.memory.weights_bytes_per_rank
    return [f"  {kind:26s} {size / _GIB:8.2f} GiB {size / total:6.1%}" for kind, size in _weights(point)]


def _memory_lines(point: ServingPoint) -> list[str]:
    total = point.memory.total_memory_bytes
    return [
        f"  {s.name:26s} {s.bytes / _GIB:8.2f} GiB {max(s.bytes, 0) / total:6.1%}  {_bar(s.bytes / total)}"
        for s in memory_slices(point)
    ]


def _kv_lines(point: ServingPoint) -> list[str]:
    memory, config = point.memory, point.config
    if not memory.starts:
        return ["vLLM would refuse to start (below)."]
    length = p95_tokens(point)
    return [
        f"KV cache: {memory.num_gpu_blocks:,} blocks, shared by all groups of layers",
        *_group_lines(memory.kv_groups, length),
        f"  one more token of a long request takes {memory.kv_bytes_per_token_per_rank / 1024:,.1f} KiB of this GPU",
        f"{requests_at_once(point):.1f} requests of p95 length ({length:,.0f} tokens) at once; "
        f"{memory.kv_cache_tokens:,} tokens",
        *_interval_lines(point),
        "vLLM logs",
        f'  "GPU KV cache size: {memory.kv_cache_tokens:,} tokens, Maximum concurrency for '
        f'{config.max_model_len:,} tokens per request: {memory.max_concurrency:.2f}x"',
    ]


def _interval_lines(point: ServingPoint) -> list[str]:
    low, high = point.memory.kv_cache_tokens_low, point.memory.kv_cache_tokens_high
    return [] if low == high else [f"  9 starts of 10 have {low:,} to {high:,} tokens"]


def _group_lines(groups: tuple[KVGroup, ...], length: float) -> list[str]:
    """Groups that look alike as one line."""
    alike: dict[tuple[str, int, int, int], int] = {}
    for group in groups:
        key = (group.kind, group.layers, group.block_size, blocks_held(group, length))
        alike[key] = alike.get(key, 0) + 1
    return [
        f"  {times:2d} × {kind:8s} {layers:3d} layers, blocks of {block:,} tokens, {held:,} held by a p95 request"
        for (kind, layers, block, held), times in alike.items()
    ]


def _operation_lines(operations: tuple[Operation, ...]) -> list[str]:
    total = sum(o.seconds for o in operations)
    if total <= 0:
        return ["  nothing"]
    lines = [
        f"  {o.name:26s} {o.seconds * 1000:8.3f} ms  {o.seconds / total:6.1%}  {_bar(o.seconds / total)} {o.bound}"
        for o in operations
    ]
    return [*lines, f"  {'sum':26s} {total * 1000:8.3f} ms"]


def _serving_lines(performance: Performance) -> list[str]:
    ttft, tpot = performance.ttft_seconds, performance.tpot_seconds
    return [
        f"TTFT {ttft.mean * 1000:.1f} ms mean, {ttft.p95 * 1000:.1f} p95; "
        f"TPOT {tpot.mean * 1000:.2f} ms mean, {tpot.p95 * 1000:.2f} p95; "
        f"{performance.output_tokens_per_second:.0f} output tok/s with {performance.running_requests:.1f} running "
        f"(basis {performance.basis})"
    ]


def _bar(fraction: float) -> str:
    return "█" * round(_BAR_CELLS * min(max(fraction, 0.0), 1.0))


def _operation_json(operation: Operation) -> dict[str, object]:
    return {
        "name": operation.name,
        "seconds": operation.seconds,
        "flops": operation.flops,
        "bytes_moved": operation.bytes_moved,
        "bound": operation.bound,
    }
