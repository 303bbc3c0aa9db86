"""`inferplan predict`: one JSON case in, one JSON answer out. The names here are a contract that scripts rely on.

A bad case is answered with `{"id", "error": {"code", "message"}}` and never stops the others. All good cases of a
file are evaluated in one vectorised pass.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from inferplan.engine import (
    DEFAULT_VERSION,
    EngineConfig,
    fit_context,
    plan_memory,
    requests_that_fit,
    resolve,
)
from inferplan.errors import InferPlanError, InvalidInput
from inferplan.hardware import resolve_gpu
from inferplan.model import ModelFacts
from inferplan.model.hub import HubMode, ModelLookup
from inferplan.performance import Interval, Performance, Quantiles, ServingPoint, predict
from inferplan.workload import Burst, Concurrency, Lengths, Load, RequestRate, Workload

_GIB = 2**30
_MAX_TOKENS = 100_000_000
Tokens = Annotated[float, Field(gt=0, le=_MAX_TOKENS)]
Ranks = Annotated[int, Field(ge=1, le=1024)]
Rate = Annotated[float, Field(gt=0, le=1e6)]


def _unlimited(rate: object) -> object:
    """Every spelling of infinity (JSON's `Infinity`, "inf", "Infinity") as "inf": what benchmark clients write."""
    infinite = isinstance(rate, str) and rate.strip().lower() in ("inf", "infinity")
    return "inf" if infinite or rate == math.inf else rate


class Case(BaseModel):
    """One question to the predictor (design: the machine interface). Unknown fields are refused, not ignored."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), allow_inf_nan=False)

    id: str | int = ""
    model: str
    revision: str | None = None
    gpu: str
    gpu_memory_gib: Annotated[float, Field(gt=0, le=4096)] | None = None
    tp: Ranks = 1
    pp: Ranks = 1
    dp: Ranks = 1
    ep: bool = False
    dcp: Ranks = 1
    weight_quant: str | None = None
    kv_cache_dtype: str | None = None
    engine: Literal["vllm"] = "vllm"
    engine_version: str | None = None
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    max_model_len: Annotated[int, Field(ge=1, le=_MAX_TOKENS)] | Literal["auto"] | None = None
    max_num_seqs: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    max_num_batched_tokens: Annotated[int, Field(ge=1, le=_MAX_TOKENS)] | None = None
    block_size: Annotated[int, Field(ge=1, le=65536)] | None = None
    enforce_eager: bool = False
    enable_prefix_caching: bool | None = None
    async_scheduling: bool | None = None
    disable_hybrid_kv_cache_manager: bool = False
    mamba_ssm_cache_dtype: str | None = None
    available_kv_cache_bytes: Annotated[int, Field(ge=0)] | None = None
    isl: Tokens
    osl: Tokens
    length_cv: Annotated[float, Field(ge=0, le=20)] = 0.0
    concurrency: Annotated[float, Field(gt=0, le=1e6)] | None = None
    request_rate: Annotated[Rate | Literal["inf"], BeforeValidator(_unlimited)] | None = None
    num_requests: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    prefix_hit_rate: Annotated[float, Field(ge=0, le=1)] = 0.0
    speculative: str | None = None
    profile: str | None = None

    def engine_config(self) -> EngineConfig:
        method, drafted = self._speculation()
        return EngineConfig(
            version=self.engine_version or DEFAULT_VERSION,
            kv_cache_dtype=self.kv_cache_dtype or "auto",
            speculative_method=method,
            speculative_tokens=drafted,
            tensor_parallel_size=self.tp,
            pipeline_parallel_size=self.pp,
            data_parallel_size=self.dp,
            enable_expert_parallel=self.ep,
            decode_context_parallel_size=self.dcp,
            weight_quantization=self.weight_quant,
            gpu_memory_utilization=self.gpu_memory_utilization,
            max_model_len=None if self.max_model_len == "auto" else self.max_model_len,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            block_size=self.block_size,
            enforce_eager=self.enforce_eager,
            enable_prefix_caching=self.enable_prefix_caching,
            async_scheduling=self.async_scheduling,
            disable_hybrid_kv_cache_manager=self.disable_hybrid_kv_cache_manager,
            mamba_ssm_cache_dtype=self.mamba_ssm_cache_dtype,
            available_kv_cache_bytes=self.available_kv_cache_bytes,
        )

    def _speculation(self) -> tuple[str | None, int]:
        """`mtp:3` or `ngram:3` as (method, drafted tokens). Raises InvalidInput for anything else."""
        if self.speculative is None:
            return None, 0
        method, _, drafted = self.speculative.partition(":")
        if not drafted.isdecimal() or len(drafted) > 4:
            raise InvalidInput(
                f"speculative={self.speculative!r} is not METHOD:TOKENS, like mtp:1 or ngram:3",
                code="UnsupportedSpeculative",
            )
        return method, int(drafted)

    def workload(self) -> Workload:
        return Workload(
            Lengths.from_mean(self.isl, self.length_cv),
            Lengths.from_mean(self.osl, self.length_cv),
            self._load(),
            self.prefix_hit_rate,
        )

    def _load(self) -> Load:
        if self.request_rate == "inf":
            return self._unlimited_load()
        loads: list[Load] = []
        if self.concurrency is not None:
            loads.append(Concurrency(self.concurrency))
        if self.request_rate is not None:
            loads.append(RequestRate(self.request_rate))
        if not loads and self.num_requests is not None:
            loads.append(Burst(self.num_requests))
        if len(loads) != 1:
            raise InvalidInput(
                "load: give exactly one of concurrency (closed loop), request_rate (requests per second) "
                f"or num_requests (all at once); got concurrency={self.concurrency}, request_rate={self.request_rate}"
            )
        return loads[0]

    def _unlimited_load(self) -> Load:
        """An infinite rate as benchmark clients mean it: a closed loop if concurrency is limited, else all at once."""
        if self.concurrency is not None:
            return Concurrency(self.concurrency)
        if self.num_requests is not None:
            return Burst(self.num_requests)
        raise InvalidInput(
            "request_rate='inf': say how many requests: num_requests (all sent at once) or concurrency (closed loop), "
            "or give a finite request_rate (requests per second)"
        )

    def refuse_unmodelled(self) -> None:
        if self.profile:
            raise InvalidInput(
                f"profile={self.profile!r}: calibration profiles are not read yet; leave it out",
                code="UnsupportedProfile",
            )


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """A case made ready for the performance room."""

    point: ServingPoint
    facts: ModelFacts
    warnings: tuple[str, ...]


def answer_cases(lines: Iterable[str], hub: HubMode) -> Iterator[dict[str, object]]:
    """One answer per non-empty line, in order. Never raises on a bad case."""
    models = ModelLookup(hub)
    prepared = [_prepare(line, models) for line in lines if line.strip()]
    points = [q.point for _, q in prepared if isinstance(q, Question)]
    performances = iter(predict(points))
    for case_id, question in prepared:
        if isinstance(question, Question):
            yield {"id": case_id, **answer(question, next(performances))}
        else:
            yield {"id": case_id, "error": {"code": question.code, "message": question.message}}


def _prepare(line: str, models: ModelLookup) -> tuple[str | int | None, Question | InferPlanError]:
    case_id: str | int | None = None
    try:
        line.encode()
        raw = json.loads(line)
        if not isinstance(raw, dict):
            raise InvalidInput(f"a case is a JSON object, got {type(raw).__name__}")
        found = raw.get("id")
        case_id = found if isinstance(found, str | int) else None
        return case_id, _question(Case.model_validate(raw), models)
    except json.JSONDecodeError as error:
        return case_id, InvalidInput(f"not JSON: {error}")
    except UnicodeEncodeError:
        return case_id, InvalidInput("not UTF-8; save the file as UTF-8")
    except RecursionError:
        return case_id, InvalidInput("not a case: nested too deeply; a case is one flat JSON object")
    except ValidationError as error:
        return case_id, InvalidInput(explain_validation(error))
    except InferPlanError as error:
        return case_id, error
    except (ValueError, OverflowError) as error:
        return case_id, InvalidInput(f"a number is out of any range: {error}")


def question_of(case: Case, hub: HubMode) -> Question:
    """Resolve names and defaults of a case. Raises InferPlanError naming what is wrong."""
    return _question(case, ModelLookup(hub))


def _question(case: Case, models: ModelLookup) -> Question:
    case.refuse_unmodelled()
    workload = case.workload()
    gpu = resolve_gpu(case.gpu)
    if case.gpu_memory_gib is not None:
        gpu = dataclasses.replace(gpu, memory_bytes=round(case.gpu_memory_gib * _GIB))
    facts = models.facts(case.model, case.revision)
    config = resolve(case.engine_config(), facts.architecture, gpu)
    if case.max_model_len == "auto":
        config = fit_context(facts.architecture, gpu, config)
    memory = plan_memory(facts.architecture, gpu, config)
    warnings = tuple(f"{code}: {message}" for code, message in facts.warnings) + memory.warnings
    if case.speculative:
        warnings += ("SpeculationNotTimed: memory counts the draft; latencies and throughput are without speculation",)
    return Question(ServingPoint(facts.architecture, gpu, config, memory, workload), facts, warnings)


def explain_validation(error: ValidationError) -> str:
    """pydantic's findings as one line: field, value, what would work."""
    parts = []
    for finding in error.errors(include_url=False):
        field = ".".join(str(x) for x in finding["loc"]) or "case"
        given = "" if finding["type"] in ("missing", "extra_forbidden") else f" (got {finding['input']!r:.80})"
        parts.append(f"{field}: {finding['msg']}{given}")
    return "; ".join(parts)


def answer(question: Question, performance: Performance) -> dict[str, object]:
    """The answer object without its id (design: the machine interface)."""
    memory = question.point.memory
    return {
        **_memory_answer(question.point),
        "ttft_ms": _milliseconds(performance.ttft_seconds),
        "tpot_ms": _milliseconds(performance.tpot_seconds),
        "e2e_ms": _milliseconds(performance.e2e_seconds),
        "output_tokens_per_second": performance.output_tokens_per_second,
        "total_tokens_per_second": performance.total_tokens_per_second,
        "requests_per_second": performance.requests_per_second,
        "running_requests": performance.running_requests,
        **_price_answer(question.point, performance),
        "intervals": {
            "ttft_ms": _interval(performance.ttft_interval, 1000.0),
            "tpot_ms": _interval(performance.tpot_interval, 1000.0),
            "output_tokens_per_second": _interval(performance.output_tokens_per_second_interval, 1.0),
            "kv_cache_tokens": {
                "low": memory.kv_cache_tokens_low,
                "high": memory.kv_cache_tokens_high,
                "level": 0.9,
            },
        },
        "basis": performance.basis,
        "warnings": [*question.warnings, *performance.warnings],
    }


def _memory_answer(point: ServingPoint) -> dict[str, object]:
    memory, workload = point.memory, point.workload
    return {
        "max_model_len": point.config.max_model_len,
        "max_num_seqs": point.config.max_num_seqs,
        "weights_bytes_per_rank": memory.weights_bytes_per_rank,
        "activation_bytes": memory.activation_bytes,
        "non_torch_bytes": memory.non_torch_bytes,
        "cuda_graph_bytes": memory.cuda_graph_bytes,
        "available_kv_cache_bytes": memory.available_kv_cache_bytes,
        "kv_groups": [
            {"layers": g.layers, "block_size": g.block_size, "page_size_bytes": g.page_size_bytes, "kind": g.kind}
            for g in memory.kv_groups
        ],
        "num_gpu_blocks": memory.num_gpu_blocks,
        "kv_cache_tokens": memory.kv_cache_tokens,
        "max_concurrency": memory.max_concurrency,
        "requests_that_fit": requests_that_fit(
            memory, workload.input_tokens.p95_tokens + workload.output_tokens.p95_tokens
        ),
        "starts": memory.starts,
        "start_errors": [{"code": e.code, "message": e.message, "fix": e.fix} for e in memory.start_errors],
    }


def _price_answer(point: ServingPoint, performance: Performance) -> dict[str, object]:
    """USD per million tokens at this load. None: no price known."""
    price = point.gpu.price
    per_input, per_output = (
        (None, None) if price is None else performance.usd_per_million_tokens(price.usd_per_hour * point.config.gpus)
    )
    return {"usd_per_million_input_tokens": per_input, "usd_per_million_output_tokens": per_output}


def _milliseconds(q: Quantiles) -> dict[str, float]:
    return {
        "mean": q.mean * 1000,
        "p50": q.p50 * 1000,
        "p90": q.p90 * 1000,
        "p95": q.p95 * 1000,
        "p99": q.p99 * 1000,
    }


def _interval(interval: Interval, scale: float) -> dict[str, float]:
    return {"low": interval.low * scale, "high": interval.high * scale, "level": interval.level}
