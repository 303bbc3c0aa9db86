"""What the engine is told, in vLLM's own names; None means the engine's default for that version and GPU."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from inferplan.engine.kv_dtype import KVDtype
from inferplan.engine.versions import facts_of
from inferplan.model import Quantization

DEFAULT_VERSION = "0.33.0"
_SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


class ExpertKernel(Enum):
    """What computes experts: the multiples it pads their width and hidden size to (vLLM 0.32 `fused_moe/oracle`)."""

    UNPADDED = (1, 1)
    TENSORRT = (128, 1)  # unquantized on Blackwell, where scores are corrected by a bias
    MXFP4_TRITON = (64, 1)
    MXFP4_PADDED = (128, 256)  # Marlin, TensorRT-LLM


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The arguments that size memory and schedule requests."""

    version: str = DEFAULT_VERSION
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
    speculative_method: str | None = None  # `mtp`, `ngram`
    speculative_tokens: int = 0
    available_kv_cache_bytes: int | None = None  # given: the memory budget is not computed


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """The same with every default filled in for one model, GPU and version.

    `quantization`: how the weights are stored (None: in `dtype`); `weight_quantization`: its name, or the dtype's
    short name. `activation_bits`: the width the matrix units compute in on this GPU (16 where the kernel only
    unpacks weights). `block_size` in tokens. `state_dtype`: of recurrent states (None: as the model has it).
    `expert_kernel`: what computes experts, if there are any.
    """

    version: str
    tensor_parallel_size: int
    pipeline_parallel_size: int
    data_parallel_size: int
    enable_expert_parallel: bool
    decode_context_parallel_size: int
    dtype: str
    quantization: Quantization | None
    activation_bits: int
    kv: KVDtype
    gpu_memory_utilization: float
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    state_dtype: str | None
    speculative_method: str | None
    speculative_tokens: int
    expert_kernel: ExpertKernel
    enforce_eager: bool
    enable_prefix_caching: bool
    async_scheduling: bool
    disable_hybrid_kv_cache_manager: bool
    available_kv_cache_bytes: int | None
    warnings: tuple[str, ...] = ()

    @property
    def weight_quantization(self) -> str:
        return self.quantization.method if self.quantization else _SHORT[self.dtype]

    @property
    def kv_cache_dtype(self) -> str:
        return self.kv.name

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.data_parallel_size

    @property
    def in_flight_tokens(self) -> int:
        """Tokens scheduled but not yet finished: what windows must keep besides their reach."""
        if not facts_of(self.version).keeps_all_batches:
            return self.max_num_batched_tokens
        if self.async_scheduling:
            batches = self.pipeline_parallel_size + 1 if self.pipeline_parallel_size > 1 else 2
        else:
            batches = self.pipeline_parallel_size
        return self.max_num_batched_tokens * batches


@dataclass(frozen=True, slots=True)
class KVGroup:
    """One KV-cache group as vLLM plans it: bytes of one block of ONE layer in `page_size_bytes`.

    `reach_tokens`: how far back a request keeps tokens (None: all of them). `context_parallel`: ranks that share out a
    request's tokens.
    """

    layers: int
    block_size: int
    page_size_bytes: int
    kind: str  # `full`, `sliding`, `chunked`, `state`
    reach_tokens: int | None = None
    blocks_per_request: int = 0  # of max_model_len
    context_parallel: int = 1


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
    draft_weights_bytes: int = 0

    @property
    def starts(self) -> bool:
        return not self.start_errors

    @property
    def starts_surely(self) -> bool:
        """Whether a request of max_model_len fits at the low end of the interval too."""
        if not self.starts or not self.kv_cache_tokens:
            return self.starts
        return self.max_concurrency * self.kv_cache_tokens_low / self.kv_cache_tokens >= 1.0
