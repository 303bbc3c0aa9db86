"""WHAT vLLM DOES WITH model and GPU: memory budget, KV-cache blocks, scheduler defaults, start-up refusals."""

from inferplan.engine.backends import has_softmax_only, is_dense_decoder, latent_row_bytes
from inferplan.engine.caches import state_bytes_per_sequence
from inferplan.engine.config import DEFAULT_VERSION, EngineConfig, KVGroup, MemoryPlan, ResolvedConfig, StartError
from inferplan.engine.memory import blocks_held, fit_context, plan_memory, ranks_of, requests_that_fit
from inferplan.engine.resolve import resolve
from inferplan.engine.versions import FIRST_V1, parse_version
from inferplan.engine.weights import Ranks, rank_matrices, rank_shape, weights_by_kind

__all__ = [
    "DEFAULT_VERSION",
    "FIRST_V1",
    "EngineConfig",
    "KVGroup",
    "MemoryPlan",
    "Ranks",
    "ResolvedConfig",
    "StartError",
    "blocks_held",
    "fit_context",
    "has_softmax_only",
    "is_dense_decoder",
    "latent_row_bytes",
    "parse_version",
    "plan_memory",
    "rank_matrices",
    "rank_shape",
    "ranks_of",
    "requests_that_fit",
    "resolve",
    "state_bytes_per_sequence",
    "weights_by_kind",
]
