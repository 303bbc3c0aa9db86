"""Which engine arguments a plan may pass, by name: a closed list, so that nothing slips past planning or approval.

Three kinds (vLLM 0.33's names):
- modelled: planning takes the value as fixed and computes with it;
- passed: changes what the server answers, not what it costs (or what we can't say); listed as unmodelled;
- refused, with the reason: what the plan decides itself, what opens the pod (code from elsewhere, sockets, files,
  secrets on a command line), and topologies that v1alpha1 does not support.
A name in none of the sets is refused too.
"""

from __future__ import annotations

MODELLED = frozenset(
    {
        "async-scheduling",
        "block-size",
        "enable-prefix-caching",
        "enforce-eager",
        "gpu-memory-utilization",
        "kv-cache-memory-bytes",
        "max-model-len",
        "max-num-batched-tokens",
        "max-num-seqs",
        "no-async-scheduling",
        "no-enable-prefix-caching",
    }
)

# The modelled ones that take no value: the engine's parser stops at `--enforce-eager=false`.
SWITCHES = frozenset(
    {"async-scheduling", "enable-prefix-caching", "enforce-eager", "no-async-scheduling", "no-enable-prefix-caching"}
)

PASSED = frozenset(
    {
        "attention-backend",
        "chat-template",
        "chat-template-content-format",
        "cpu-offload-gb",
        "cudagraph-capture-sizes",
        "default-chat-template-kwargs",
        "disable-access-log-for-endpoints",
        "disable-custom-all-reduce",
        "disable-hybrid-kv-cache-manager",
        "disable-log-stats",
        "disable-uvicorn-access-log",
        "dtype",
        "enable-auto-tool-choice",
        "enable-chunked-prefill",
        "enable-expert-parallel",
        "enable-force-include-usage",
        "enable-log-requests",
        "enable-prompt-tokens-details",
        "enable-request-id-headers",
        "enable-server-load-tracking",
        "generation-config",
        "kv-cache-metrics",
        "language-model-only",
        "limit-mm-per-prompt",
        "linear-backend",
        "load-format",
        "log-level",
        "logprobs-mode",
        "long-prefill-token-threshold",
        "mamba-ssm-cache-dtype",
        "max-cudagraph-capture-size",
        "max-log-len",
        "max-logprobs",
        "max-num-queued-reqs",
        "mm-processor-cache-gb",
        "mm-processor-kwargs",
        "moe-backend",
        "no-enable-chunked-prefill",
        "optimization-level",
        "otlp-traces-endpoint",
        "override-generation-config",
        "performance-mode",
        "prefix-caching-hash-algo",
        "reasoning-parser",
        "response-role",
        "return-tokens-as-token-ids",
        "safetensors-load-strategy",
        "scheduling-policy",
        "seed",
        "served-model-name",
        "skip-mm-profiling",
        "stream-interval",
        "structured-outputs-config",
        "tokenizer-mode",
        "tool-call-parser",
        "uvicorn-log-level",
    }
)

# What splits a replica over pods or prefill from decode: refused by name, so that nobody believes it was planned.
UNSUPPORTED_TOPOLOGY = frozenset(
    {
        "data-parallel-address",
        "data-parallel-external-lb",
        "data-parallel-hybrid-lb",
        "data-parallel-rank",
        "ec-transfer-config",
        "enable-elastic-ep",
        "headless",
        "kv-transfer-config",
        "master-addr",
        "nnodes",
        "node-rank",
    }
)

ALLOWED = MODELLED | PASSED


def argument_name(argument: str) -> str:
    """`max-model-len` of `--max-model-len=8192`."""
    return argument.removeprefix("--").partition("=")[0]
