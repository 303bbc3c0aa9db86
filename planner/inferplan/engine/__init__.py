"""WHAT vLLM DOES WITH model and GPU: memory budget, KV-cache blocks, scheduler defaults, start-up refusals."""

from inferplan.engine.config import EngineConfig, KVGroup, MemoryPlan, ResolvedConfig, StartError

__all__ = ["EngineConfig", "KVGroup", "MemoryPlan", "ResolvedConfig", "StartError"]
