"""The console script `inferplan` (and `kubectl-inferplan`): the planner's verbs and those that know the API.

`plan` takes the same file as `kubectl apply` and runs the same code as the operator, so it ends in the same digest.
Imports stand inside the verbs: neither kopf nor the Kubernetes client is loaded for `plan`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inferplan.cli import EXIT_INFEASIBLE, EXIT_OK, VERBS, Verb, add_hub_argument, open_input, run_verbs
from inferplan.errors import InvalidInput

if TYPE_CHECKING:
    from inferplan.model.hub import ModelLookup
    from inferplan.planning import Infeasible, Inputs, Recommendation
    from inferplan.report.view import Heading
    from inferplan_operator.api.v1alpha1 import InferencePlan
    from inferplan_operator.cluster.plans import Connection
    from inferplan_operator.lifecycle import Offer

EXIT_NOT_APPROVED = 3
_OPERATOR_NAMESPACE = "inferplan-system"


def main() -> int:
    """Console script. 0: done; 1: nothing fits; 2: bad input or refused; 3: not approved by the person asked."""
    # Start-up only: pydantic looks through every installed distribution for plugins (there are none of ours), and
    # numpy starts threads for linear algebra (none is done).
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return run_verbs((PLAN, *VERBS, APPROVE, STATUS), None)


# --- plan ---------------------------------------------------------------------------------------------------------


def _configure_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f", "--file", required=True, metavar="FILE", help="an InferencePlan (YAML or JSON); - for stdin"
    )
    parser.add_argument("-n", "--namespace", help="where the file names none (default: default)")
    parser.add_argument("-o", "--output", choices=("table", "json", "yaml", "markdown"), default="table")
    parser.add_argument(
        "--inputs",
        metavar="FILE|cluster",
        help="an operator's inputs document (ConfigMap inferplan-inputs); default: the built-in catalogue",
    )
    _add_cluster_arguments(parser)
    add_hub_argument(parser)


@dataclass(frozen=True, slots=True)
class _Answer:
    """One plan with what planning said."""

    plan: InferencePlan
    inputs: Inputs
    outcome: Recommendation | Infeasible
    offer: Offer | None
    heading: Heading


def _run_plan(arguments: argparse.Namespace) -> int:
    from inferplan.model.hub import ModelLookup

    inputs, said = _inputs(arguments)
    models = ModelLookup(arguments.hub)
    answers = [_answer(plan, inputs, said, models) for plan in _plans(arguments)]
    for number, answer in enumerate(answers):
        if number:
            print("---" if arguments.output in ("yaml", "json") else "")
        sys.stdout.write(_rendered(answer, arguments.output))
    return EXIT_OK if all(a.offer is not None for a in answers) else EXIT_INFEASIBLE


def _plans(arguments: argparse.Namespace) -> list[InferencePlan]:
    """Every InferencePlan of the file. Raises InvalidInput naming the field."""
    import yaml

    from inferplan_operator.api.v1alpha1 import parse_plan

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with open_input(arguments.file) as handle:
        try:
            documents = [d for d in yaml.load_all(handle.read(), Loader=loader) if d is not None]
        except yaml.YAMLError as error:
            raise InvalidInput(f"{arguments.file}: not YAML: {error}") from error
    if not documents:
        raise InvalidInput(f"{arguments.file}: no document in it")
    for document in documents:
        if not isinstance(document, dict):
            raise InvalidInput(f"{arguments.file}: an InferencePlan is a mapping, got {type(document).__name__}")
        if document.get("kind") != "InferencePlan":
            raise InvalidInput(f"{arguments.file}: kind {document.get('kind')!r} is not InferencePlan")
        metadata = document.setdefault("metadata", {})
        if isinstance(metadata, dict) and not metadata.get("namespace"):
            metadata["namespace"] = arguments.namespace or "default"
    return [parse_plan(document) for document in documents]


def _inputs(arguments: argparse.Namespace) -> tuple[Inputs, str]:
    """The inputs, and in words what they are."""
    from inferplan.hardware import catalog, catalog_version
    from inferplan.planning import Inputs

    if arguments.inputs is None:
        built_in = Inputs(gpus=catalog(), catalog_version=catalog_version())
        return built_in, f"built-in inputs: GPU catalogue {catalog_version()}, list prices, any number of GPUs"
    from inferplan.planning.document import inputs_hash, read_inputs

    if arguments.inputs == "cluster":
        from inferplan_operator.cluster.plans import published_inputs

        text = published_inputs(_connection(arguments), _OPERATOR_NAMESPACE)
    else:
        with open_input(arguments.inputs) as handle:
            text = handle.read()
    inputs = read_inputs(text)
    return inputs, f"inputs {inputs_hash(inputs)[:19]}… of {arguments.inputs}"


def _answer(plan: InferencePlan, inputs: Inputs, said: str, models: ModelLookup) -> _Answer:
    from inferplan.planning import Recommendation, recommend
    from inferplan.report.view import Heading
    from inferplan_operator.lifecycle import command_to_approve, make_offer, request_of

    model = models.facts(plan.spec.model.id, plan.spec.model.revision)
    outcome = recommend(request_of(plan, model), inputs)
    offer = make_offer(plan, outcome, inputs) if isinstance(outcome, Recommendation) else None
    metadata = plan.metadata
    digest = offer.digest if offer else ""
    heading = Heading(
        name=metadata.name,
        namespace=metadata.namespace,
        model=model.id,
        revision=model.revision,
        digest=digest,
        inputs=said,
        approve_command=command_to_approve(metadata.name, metadata.namespace, digest),
    )
    return _Answer(plan, inputs, outcome, offer, heading)


def _rendered(answer: _Answer, output: str) -> str:
    from inferplan.planning import Infeasible

    if output == "markdown":
        from inferplan.report.markdown import infeasible_markdown, recommendation_markdown

        if isinstance(answer.outcome, Infeasible):
            return infeasible_markdown(answer.outcome, answer.heading)
        return recommendation_markdown(answer.outcome, answer.heading)
    if output == "table":
        from inferplan.report.table import render_infeasible, render_recommendation

        width, color = _terminal()
        if isinstance(answer.outcome, Infeasible):
            return render_infeasible(answer.outcome, answer.heading, width, color=color)
        return render_recommendation(answer.outcome, answer.heading, width, color=color)
    document = _document(answer)
    if output == "json":
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    import yaml

    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120))


def _terminal() -> tuple[int | None, bool]:
    """Width and colour of standard output; plain when it is no terminal or NO_COLOR is set."""
    import shutil

    if not sys.stdout.isatty():
        return None, False
    return shutil.get_terminal_size().columns, "NO_COLOR" not in os.environ


def _document(answer: _Answer) -> dict[str, Any]:
    """The whole answer with the rendered manifests: what a script reads."""
    from dataclasses import asdict

    from inferplan.planning import Infeasible

    plan = answer.plan.metadata
    head = {"name": plan.name, "namespace": plan.namespace, "model": answer.heading.model}
    outcome = answer.outcome
    if isinstance(outcome, Infeasible) or answer.offer is None:
        return {**head, "feasible": False, **_plain(asdict(outcome))}
    content = json.loads(answer.offer.artifact)
    return {
        **head,
        "feasible": True,
        "digest": answer.offer.digest,
        "manifestsDigest": answer.offer.manifests_digest,
        "decision": content["decision"],
        "predicted": content["predicted"],
        "reasons": _plain([asdict(n) for n in outcome.reasons]),
        "alternatives": [{"summary": a.summary, "whyNot": asdict(a.why_not)} for a in outcome.alternatives],
        "warnings": _plain([asdict(n) for n in outcome.warnings]),
        "unmodelled": list(outcome.unmodelled),
        "candidates": outcome.candidates,
        "rejected": dict(outcome.rejected),
        "versions": content["versions"],
        "manifests": content["manifests"],
    }


def _plain(value: Any) -> Any:
    """Tuples as lists: what JSON and YAML know."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


# --- approve, status ----------------------------------------------------------------------------------------------


def _add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG or ~/.kube/config")
    parser.add_argument("--context", help="context of the kubeconfig (default: the current one)")


def _connection(arguments: argparse.Namespace) -> Connection:
    from inferplan_operator.cluster.plans import connect

    return connect(arguments.kubeconfig, arguments.context, arguments.namespace)


def _configure_approve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="the plan")
    parser.add_argument("-n", "--namespace", help="default: the context's")
    parser.add_argument("--digest", help="approve exactly this one, or nothing (default: what is on offer)")
    parser.add_argument("--pin", action="store_true", help="hold though the spec has changed since (a rollback)")
    parser.add_argument("--reason", help="why, for the record")
    parser.add_argument("-y", "--yes", action="store_true", help="don't ask")
    _add_cluster_arguments(parser)


def _run_approve(arguments: argparse.Namespace) -> int:
    from inferplan_operator.approval import approval_text, digest_to_approve
    from inferplan_operator.cluster.plans import approve_plan, get_plan

    connection = _connection(arguments)
    plan = get_plan(connection, arguments.name)
    digest = digest_to_approve(plan, arguments.digest)
    print(approval_text(plan, digest, pin=arguments.pin), end="")
    if not arguments.yes and not _confirmed():
        print("not approved", file=sys.stderr)
        return EXIT_NOT_APPROVED
    approve_plan(connection, arguments.name, digest, arguments.reason, pin=arguments.pin)
    print(f"approved {digest}")
    return EXIT_OK


def _confirmed() -> bool:
    """Ask on the terminal; no terminal is no."""
    if not sys.stdin.isatty():
        print("no terminal to ask on; use --yes", file=sys.stderr)
        return False
    return input("Approve exactly this? [y/N] ").strip().lower() in ("y", "yes")


def _configure_status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="the plan")
    parser.add_argument("-n", "--namespace", help="default: the context's")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    _add_cluster_arguments(parser)


def _run_status(arguments: argparse.Namespace) -> int:
    from inferplan_operator.approval import status_text
    from inferplan_operator.cluster.plans import get_plan

    plan = get_plan(_connection(arguments), arguments.name)
    if arguments.output == "json":
        print(json.dumps(plan.get("status") or {}, indent=2, ensure_ascii=False))
    else:
        print(status_text(plan), end="")
    return EXIT_OK


PLAN = Verb("plan", "recommend how to serve an InferencePlan, without a cluster", _configure_plan, _run_plan)
APPROVE = Verb("approve", "show what is on offer and what would change, ask, approve", _configure_approve, _run_approve)
STATUS = Verb("status", "show a plan: what is offered, what runs, what is measured", _configure_status, _run_status)
