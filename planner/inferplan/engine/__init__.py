"""WHAT vLLM DOES WITH model and GPU: memory budget, KV-cache blocks, scheduler defaults, start-up refusals."""

from inferplan.engine.config import EngineConfig, KVGroup, MemoryPlan, ResolvedConfig, StartError
from inferplan.engine.memory import plan_memory, requests_that_fit
from inferplan.engine.resolve import resolve
from inferplan.engine.versions import FIRST_V1, parse_version
from inferplan.engine.weights import rank_shape

__all__ = [
    "FIRST_V1",
    "EngineConfig",
    "KVGroup",
    "MemoryPlan",
    "ResolvedConfig",
    "StartError",
    "parse_version",
    "plan_memory",
    "rank_shape",
    "requests_that_fit",
    "resolve",
]
