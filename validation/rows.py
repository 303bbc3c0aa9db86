"""Measured rows → questions for the planner and the figures to compare its answers with.

Which rows can be judged at all is decided here, once, for the fit and the report: vLLM, a model whose shapes the
bundled catalogue has, a GPU of the catalogue, lengths stated, room for the weights, no speculation, no disaggregation.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from inferplan.cases import Case, explain_validation, question_of
from inferplan.errors import InferPlanError, InvalidInput
from inferplan.model.hub import bundled_models
from inferplan.performance import ServingPoint

DATA = Path(__file__).parent / "data"
# TTFT above this is queueing: the same cut for fit, intervals and report.
QUEUEING_MS = 4000.0
# InferenceX draws lengths uniformly from 80–100 % of nominal.
_DRAWN = 0.9
# max_seq_len_to_capture of vLLM's first engine.
_CAPTURED = 8192
# The source says "A100"; Argonne's Polaris has the 40 GB card (docs.alcf.anl.gov), and single-stream rates agree.
_FORM_FACTORS = {("argonne_llm_inference_bench", "A100"): "A100-SXM-40GB"}
_CACHED = "needs up to 94 % of the spec sheet's fp8 rate sustained (2,000-token prompts): cached prompts, most likely"
_NOT_STATED = "prompt length is a maximum, not the length: 2,048 tokens would need 112 % of the spec sheet's rate"
_SOFTWARE_FP8 = "fp8 KV cache on Ampere in 2024: up to 5.4 times slower than fp16 in the same source"
_SLOW_H100 = (
    "one request alone decodes at half the H100 SXM's bandwidth, while the same run on the source's A100 reaches 73 %: "
    "a PCIe card's rate"
)
_OLD_AWQ = "AWQ on vLLM 0.4.2: a third slower than the same shapes on 0.6.3 (97 against 148 tokens/s, 7B)"
_NO_ROOM = (
    "would not start as stated (no memory left): other flags, or GPUs shared in a way that the row does not state"
)
_UNCAPTURED = "vLLM 0.4.2 above 8,192 tokens ran without CUDA graphs: a 0.5B model falls from 256 to 107 tokens/s"


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement. `truth`: metric (`tpot`, `ttft`, `throughput`, `e2e`) → (statistic, value in s or tokens/s).

    `in_process`: the engine was called in the client's own process, no HTTP.
    """

    id: str
    source: str
    role: str
    gpu: str
    model: str
    quantization: str
    kind: str
    load: str
    in_process: bool
    point: ServingPoint
    truth: tuple[tuple[str, str, float], ...]


def load_rows(engine: str = "vLLM") -> tuple[list[Row], list[tuple[str, str]]]:
    """(rows that can be judged, (id, reason) of those that can't)."""
    found: list[Row] = []
    left_out: list[tuple[str, str]] = []
    aliases = json.loads((DATA / "model_aliases.json").read_text())["rules"]
    with gzip.open(DATA / "serving.jsonl.gz", "rt") as lines:
        for raw in map(json.loads, lines):
            if raw["engine"] != engine or raw["role"] == "throughput_only":
                continue
            reason = _unfit(raw)
            if reason is None:
                try:
                    found.append(_row(raw, aliases))
                    continue
                except InferPlanError as error:
                    reason = error.code
                except ValidationError as error:
                    reason = explain_validation(error)
            left_out.append((raw["id"], reason))
    return found, left_out


def _unfit(raw: dict[str, Any]) -> str | None:
    if raw.get("disagg") or raw.get("spec_decode"):
        return "disaggregated or speculative"
    if not raw.get("isl") or not raw.get("osl") or not raw.get("gpu"):
        return "lengths or GPU not stated"
    if not (raw.get("tpot_usable") or raw.get("ttft_usable")):
        return "neither TPOT nor TTFT usable"
    return _contradicted(raw)


def _contradicted(raw: dict[str, Any]) -> str | None:
    """Why physics or the kernels of its time speak against a row; the report lists them."""
    if "nvidia_Llama-3.1-8B-Instruct-FP8.csv" in (raw.get("notes") or ""):
        return _CACHED
    if raw["source"] == "ree2raz_l4_a100" and raw["isl"] > 256:
        return _NOT_STATED
    if raw["source"] == "gpustack_perf_lab" and raw["source_url"].endswith(("qwen3-14b/h100.md", "qwen3-32b/h100.md")):
        return _SLOW_H100
    if raw["source"] == "qwen_docs_speed" and raw.get("engine_version") == "0.4.2":
        if raw["isl"] > _CAPTURED:
            return _UNCAPTURED
        if raw["quant_class"] == "awq":
            return _OLD_AWQ
    if raw.get("kv_dtype") == "fp8" and raw["gpu"].startswith("A100") and (raw.get("date") or "").startswith("2024"):
        return _SOFTWARE_FP8
    return None


def _row(raw: dict[str, Any], aliases: list[list[str]]) -> Row:
    scale = _DRAWN if "db-dump" in json.dumps(raw) and raw["source"] == "aiconfigurator_silicon" else 1.0
    fields: dict[str, Any] = {
        "model": model_named(raw["model_id"], aliases),
        "gpu": _FORM_FACTORS.get((raw["source"], raw["gpu"]), raw["gpu"]),
        "tp": raw.get("tp") or 1,
        "pp": raw.get("pp") or 1,
        "dp": raw.get("dp") or 1,
        "isl": round(raw["isl"] * scale),
        "osl": round(raw["osl"] * scale),
        "weight_quant": raw.get("quant_class") or raw.get("weight_quant"),
        "kv_cache_dtype": _kv_dtype(raw),
        "enforce_eager": bool(raw.get("enforce_eager")),
        "max_num_seqs": raw.get("max_num_seqs"),
        "max_num_batched_tokens": raw.get("max_num_batched_tokens"),
        "max_model_len": raw.get("max_model_len"),
        "engine_version": (raw.get("engine_version") or _era(raw) or "").removeprefix("vllm-") or None,
        **_load(raw),
    }
    question = question_of(Case.model_validate({k: v for k, v in fields.items() if v is not None}), "never")
    if any(e.code == "NoMemoryLeft" for e in question.point.memory.start_errors):
        raise InvalidInput(_NO_ROOM, code=_NO_ROOM)
    single = raw.get("load_kind") == "single_stream" or fields.get("concurrency") == 1
    return Row(
        id=raw["id"],
        source=raw["source"],
        role=raw["role"],
        gpu=fields["gpu"],
        model=fields["model"],
        quantization=fields["weight_quant"] or "",
        kind=raw["model_kind"],
        load="single" if single else "batched",
        in_process="in-process engine" in (raw.get("notes") or ""),
        point=question.point,
        truth=tuple(_truth(raw)),
    )


def _kv_dtype(raw: dict[str, Any]) -> str | None:
    """The stated KV type; InferenceX served NVIDIA's FP8 checkpoint, which asks vLLM for an fp8 cache.

    Its 32 users of 8,192 tokens hold 80 GB in bf16, more than one H200 has left, and they did not queue.
    """
    if "origin_inferencex" in raw["flags"] and raw["model_id"].startswith("meta-llama/Llama-3.1-70B"):
        return "fp8"
    return raw["kv_dtype"] if raw.get("kv_dtype") not in (None, "auto", "fp16") else None


def _era(raw: dict[str, Any]) -> str | None:
    """Rows of 2024 that state no version ran the first engine (V1 became the default in 0.8, March 2025)."""
    return "0.6.0" if str(raw.get("date") or "").startswith("2024") else None


def model_named(model_id: str, aliases: list[list[str]]) -> str:
    """The catalogue's name of a model as a source writes it."""
    if model_id in bundled_models():
        return model_id
    for pattern, target in aliases:
        if re.search(pattern, model_id):
            return target.replace("--", "/", 1)
    return model_id


def _load(raw: dict[str, Any]) -> dict[str, Any]:
    if raw.get("load_kind") in ("all_at_once",) and raw.get("num_requests"):
        return {"num_requests": raw["num_requests"]}
    if raw.get("load_kind") == "static_batch":
        return {"num_requests": raw.get("batch_or_concurrency") or 1}
    if raw.get("request_rate") not in (None, 0, "inf"):
        return {"request_rate": raw["request_rate"]}
    return {"concurrency": raw.get("batch_or_concurrency") or 1}


def _truth(raw: dict[str, Any]) -> list[tuple[str, str, float]]:
    """What was measured, in seconds and tokens per second."""
    metrics, found = raw["metrics"], []
    if raw.get("tpot_usable"):
        for statistic, names in (
            ("mean", ("tpot_ms_mean", "itl_ms_mean")),
            ("p50", ("tpot_ms_p50", "itl_ms_p50")),
            ("mean", ("tpot_ms_unspecified", "itl_ms_unspecified", "tpot_ms_from_e2e_difference")),
        ):
            value = next((metrics[n] for n in names if metrics.get(n)), None)
            if value:
                found.append(("tpot", statistic, value / 1000))
                break
    # Where the length is only a maximum, TTFT says nothing about prefill.
    if raw.get("ttft_usable") and "input_len_is_max_not_exact" not in raw["flags"]:
        for statistic, name in (("mean", "ttft_ms_mean"), ("p50", "ttft_ms_p50"), ("mean", "ttft_ms_unspecified")):
            if metrics.get(name):
                found.append(("ttft", statistic, metrics[name] / 1000))
                break
    if raw.get("load_kind") == "static_batch" and metrics.get("e2e_ms_mean"):
        found.append(("e2e", "mean", metrics["e2e_ms_mean"] / 1000))
    elif raw.get("load_kind") == "single_stream" and metrics.get("output_tok_s"):
        found.append(("e2e", "mean", raw["osl"] / metrics["output_tok_s"]))
    if metrics.get("output_tok_s") and raw.get("tpot_usable"):
        found.append(("throughput", "value", metrics["output_tok_s"]))
    return found
