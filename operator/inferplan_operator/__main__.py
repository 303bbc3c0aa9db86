"""`inferplan-operator run`: the operator's process."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from inferplan.errors import InferPlanError, InvalidInput


def main(arguments: list[str] | None = None) -> int:
    """Console script. 0: ended as asked; 1: failed; 2: can't start with this configuration."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except InvalidInput as error:
        sys.stderr.write(f"inferplan-operator: {error.message}\n")
        return 2
    except InferPlanError as error:
        sys.stderr.write(f"inferplan-operator: {error.code}: {error.message}\n")
        return 1


def _parser() -> argparse.ArgumentParser:
    from inferplan import __version__

    parser = argparse.ArgumentParser(prog="inferplan-operator", description=__doc__)
    parser.add_argument("--version", action="version", version=f"inferplan {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="run until SIGTERM; credentials from the pod, else KUBECONFIG")
    run.add_argument("--config", type=Path, metavar="FILE", help="YAML (default: the built-in configuration)")
    run.add_argument("--port", type=int, help="for /healthz, /readyz and /metrics (0: any free one; INFERPLAN_PORT)")
    return parser


def _run(options: argparse.Namespace) -> int:
    from inferplan_operator.config import load_config
    from inferplan_operator.logs import configure_logging

    config = load_config(options.config)
    configure_logging(config.log_level)
    port = options.port if options.port is not None else _port_of_environment()

    import asyncio

    from inferplan_operator.app import run

    return asyncio.run(run(config, config.port if port is None else port))


def _port_of_environment() -> int | None:
    text = os.environ.get("INFERPLAN_PORT")
    if not text:
        return None
    if not text.isdecimal() or int(text) > 65535:
        raise InvalidInput(f"INFERPLAN_PORT={text!r}: a port is a number from 0 to 65535")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
