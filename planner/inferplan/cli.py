"""The verbs that need no Kubernetes: `predict` and `explain`. `inferplan_operator.cli` is the console script.

Imports of the rooms stand inside the verbs, so that `--help` and argument errors cost nothing.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from inferplan.errors import InferPlanError, InvalidInput

EXIT_OK = 0
EXIT_INFEASIBLE = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130  # as a shell says it: 128 + SIGINT
HUB_MODES = ("auto", "never", "always")


@dataclass(frozen=True, slots=True)
class Verb:
    """One subcommand: how its arguments are declared and what it does (the exit code)."""

    name: str
    help: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def run_verbs(verbs: tuple[Verb, ...], arguments: list[str] | None) -> int:
    """Parse and run. An InferPlanError becomes one line on stderr and exit code 2, never a traceback."""
    from inferplan import __version__

    parser = argparse.ArgumentParser(
        prog="inferplan", description="Plan LLM serving before a GPU-hour is spent: predict, recommend, approve."
    )
    parser.add_argument("--version", action="version", version=f"inferplan {__version__}")
    commands = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb in verbs:
        sub = commands.add_parser(verb.name, help=verb.help, description=verb.help)
        verb.configure(sub)
        sub.set_defaults(run=verb.run)
    parsed = parser.parse_args(arguments)
    try:
        code: int = parsed.run(parsed)
    except InferPlanError as error:
        print(f"inferplan {parsed.verb}: {error.code}: {error.message}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has gone; nothing is left to say to it.
        sys.stderr.close()
        return EXIT_OK
    return code


@contextmanager
def open_input(name: str, errors: str = "strict") -> Iterator[TextIO]:
    """A file or `-` for standard input. Raises InvalidInput naming a file that can't be read.

    `errors`: what to do with bytes that are no UTF-8, in Python's words.
    """
    if name == "-":
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8", errors=errors)
        yield sys.stdin
        return
    path = Path(name)
    try:
        text = path.read_text(encoding="utf-8", errors=errors)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{name}: {getattr(error, 'strerror', None) or error}") from error
    yield io.StringIO(text)


def add_hub_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--hub",
        choices=HUB_MODES,
        default="auto",
        help="ask the model hub: auto (fall back to the bundled catalogue), never, always (default: auto)",
    )


def _configure_predict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cases", required=True, metavar="FILE", help="JSON lines, one case a line; - for stdin")
    parser.add_argument("--json", action="store_true", help="JSON lines (the only form; accepted for scripts)")
    add_hub_argument(parser)


def _run_predict(arguments: argparse.Namespace) -> int:
    from inferplan.cases import answer_cases

    with open_input(arguments.cases, "surrogateescape") as lines:
        for found in answer_cases(lines, arguments.hub):
            sys.stdout.write(json.dumps(found, allow_nan=False) + "\n")
    return EXIT_OK


def _configure_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="hub id, a directory with config.json, or a bundled catalogue entry")
    parser.add_argument("gpu", help="GPU type (H100-SXM, L40S, …)")
    parser.add_argument("--tp", type=int, default=1, help="tensor parallel size (default: 1)")
    for name, meaning in (("pp", "pipeline"), ("dp", "data"), ("dcp", "decode context")):
        parser.add_argument(f"--{name}", type=int, default=None, help=f"{meaning} parallel size")
    parser.add_argument("--ep", action="store_true", help="expert parallelism over TP × DP ranks")
    parser.add_argument("--isl", type=float, default=1024, help="prompt tokens, mean (default: 1024)")
    parser.add_argument("--osl", type=float, default=256, help="answer tokens, mean (default: 256)")
    parser.add_argument("--length-cv", type=float, default=0.0, help="coefficient of variation of lengths")
    parser.add_argument("--concurrency", type=float, default=None, help="requests in flight (default: 16)")
    parser.add_argument("--request-rate", type=float, default=None, help="requests per second, instead")
    parser.add_argument("--max-model-len", default=None, help="tokens, or auto: the longest that starts")
    for name in ("max-num-seqs", "max-num-batched-tokens", "block-size", "available-kv-cache-bytes"):
        parser.add_argument(f"--{name}", type=int, default=None)
    parser.add_argument("--gpu-memory-gib", type=float, default=None, help="instead of the catalogue's figure")
    parser.add_argument("--gpu-memory-utilization", type=float, default=None)
    parser.add_argument("--kv-cache-dtype", default=None)
    parser.add_argument("--weight-quant", default=None)
    parser.add_argument("--engine-version", default=None)
    parser.add_argument("--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--mamba-ssm-cache-dtype", default=None)
    parser.add_argument("--speculative", default=None, metavar="METHOD:TOKENS", help="mtp:1, ngram:3")
    parser.add_argument("--enforce-eager", action="store_true")
    parser.add_argument("--json", action="store_true", help="as a JSON object")
    add_hub_argument(parser)


_NOT_CASE_FIELDS = ("verb", "run", "json", "hub")


def _run_explain(arguments: argparse.Namespace) -> int:
    from pydantic import ValidationError

    from inferplan.cases import Case, explain_validation, question_of
    from inferplan.performance import predict
    from inferplan.report.explain import explain_json, explain_text

    fields = {k: v for k, v in vars(arguments).items() if k not in _NOT_CASE_FIELDS and v is not None}
    if "request_rate" not in fields:
        fields.setdefault("concurrency", 16.0)
    try:
        case = Case.model_validate(fields)
    except ValidationError as error:
        raise InvalidInput(explain_validation(error)) from error
    question = question_of(case, arguments.hub)
    performance = predict([question.point])[0]
    warnings = question.warnings + performance.warnings
    if arguments.json:
        print(json.dumps(explain_json(question.point, performance, warnings), indent=2, allow_nan=False))
    else:
        print(explain_text(question.point, performance, warnings), end="")
    return EXIT_OK


VERBS = (
    Verb("predict", "predict cases: JSON lines in, JSON lines out", _configure_predict, _run_predict),
    Verb("explain", "show where the bytes and the milliseconds go", _configure_explain, _run_explain),
)
