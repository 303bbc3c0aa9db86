"""What the engine is told, in vLLM's own names; None means the engine's default for that version and GPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The arguments that size memory and schedule requests."""

    version: str = "0.33.0"
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    enable_expert_parallel: bool = False
    decode_context_parallel_size: int = 1
    weight_quantization: str | None = None  # None: what the checkpoint says
    kv_cache_dtype: str = "auto"
    gpu_memory_utilization: float | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    block_size: int | None = None
    enforce_eager: bool = False
    enable_prefix_caching: bool | None = None
    async_scheduling: bool | None = None
    disable_hybrid_kv_cache_manager: bool = False
    mamba_ssm_cache_dtype: str | None = None
    available_kv_cache_bytes: int | None = None  # given: the memory budget is not computed


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """The same with every default filled in for one model, GPU and version."""

    version: str
    tensor_parallel_size: int
    pipeline_parallel_size: int
    data_parallel_size: int
    enable_expert_parallel: bool
    decode_context_parallel_size: int
    weight_quantization: str  # normalised method, or the model dtype's short name (`bf16`, `fp16`, `fp32`)
    weight_bits: float  # effective bits per quantized weight, scales included
    activation_bits: int  # 16, 8 or 4: the width the matrix units compute in
    kv_cache_dtype: str  # `bfloat16`, `float16`, `fp8`, …
    kv_bytes_per_element: float
    gpu_memory_utilization: float
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    enforce_eager: bool
    enable_prefix_caching: bool
    async_scheduling: bool


@dataclass(frozen=True, slots=True)
class KVGroup:
    """One KV-cache group as vLLM plans it: bytes of one block of ONE layer in `page_size_bytes`."""

    layers: int
    block_size: int
    page_size_bytes: int
    kind: str  # `full`, `sliding`, `chunked`, …


@dataclass(frozen=True, slots=True)
class StartError:
    """A reason for which the engine would refuse to start: stable code, vLLM's rule, smallest change that starts."""

    code: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What one rank's memory is used for, and the KV cache that results. Bytes unless the name says tokens.

    `kv_cache_tokens` and `max_concurrency` are what that version's start-up log reports (0 when it would not start).
    """

    total_memory_bytes: int
    weights_bytes_per_rank: int
    activation_bytes: int
    non_torch_bytes: int
    cuda_graph_bytes: int
    available_kv_cache_bytes: int
    kv_groups: tuple[KVGroup, ...]
    kv_bytes_per_token_per_rank: float
    num_gpu_blocks: int
    kv_cache_tokens: int
    max_concurrency: float
    start_errors: tuple[StartError, ...]
    warnings: tuple[str, ...] = ()
    # 90 % interval of kv_cache_tokens, from the residuals on published start-up logs; equal to the value when
    # available_kv_cache_bytes was given (then the count is exact).
    kv_cache_tokens_low: int = 0
    kv_cache_tokens_high: int = 0

    @property
    def starts(self) -> bool:
        return not self.start_errors
