"""InferencePlan: what a person asks for, what is offered, what runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, GetPydanticSchema, ValidationError
from pydantic_core import core_schema

from inferplan.errors import InvalidInput
from inferplan_operator.api.v1alpha1.fields import PATTERN_HELP, Rule, SpecModel
from inferplan_operator.api.v1alpha1.metadata import Metadata
from inferplan_operator.api.v1alpha1.spec import InferencePlanSpec
from inferplan_operator.api.v1alpha1.status import InferencePlanStatus

# Service and Deployment carry the plan's name, and a Service's name is an RFC 1035 label.
PLAN_NAME = r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"


def _status_or_none(value: Any) -> InferencePlanStatus | None:
    """A status that can't be read is none: it is made again from the spec, and one bad object stops nothing."""
    try:
        return None if value is None else InferencePlanStatus.model_validate(value)
    except ValidationError:
        return None


# Its validator is built only where there is a status to read: the command line mostly reads files without one.
Status = Annotated[
    InferencePlanStatus | None,
    GetPydanticSchema(lambda _source, _handler: core_schema.no_info_plain_validator_function(_status_or_none)),
]


class InferencePlan(SpecModel):
    """A model, its traffic and its objectives; a recommendation for them; and the approval that lets it run."""

    api_version: Literal["inferplan.io/v1alpha1"] = Field(description="inferplan.io/v1alpha1")
    kind: Literal["InferencePlan"] = Field(description="InferencePlan")
    metadata: Metadata = Field(description="Standard object's metadata.")
    spec: InferencePlanSpec = Field(description="What is asked for.")
    status: Status = Field(
        default=None, description="What is offered, what runs, and how the two compare. Written by the operator only."
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.metadata.name.matches('{PLAN_NAME}')",
            lambda self: re.match(PLAN_NAME, self.metadata.name) is not None,
            "metadata.name = {metadata.name} can't name a Service; use up to 63 lower-case letters, digits and '-', "
            "starting with a letter",
        ),
    )


def parse_plan(document: Mapping[str, Any]) -> InferencePlan:
    """The plan in a document (a YAML file's content, an object of the API server's).

    Raises InvalidInput naming every bad field, its value and what would work.
    """
    try:
        return InferencePlan.model_validate(document)
    except ValidationError as error:
        raise InvalidInput("; ".join(dict.fromkeys(_problems(error)))) from error


def _problems(error: ValidationError) -> list[str]:
    lines = []
    for problem in error.errors(include_url=False):
        field = _path(problem["loc"])
        context = problem.get("ctx", {})
        match problem["type"]:
            case "string_pattern_mismatch":
                lines.append(f'{field}: "{problem["input"]}" {PATTERN_HELP[context["pattern"]]}')
            case "value_error":
                lines.append(f"{field}: {context['error']}" if field else str(context["error"]))
            case "extra_forbidden":
                lines.append(f"{field}: unknown field; see `kubectl explain ipl.{_parent(field)}`")
            case "missing":
                lines.append(f"{field}: required")
            case "string_type":
                lines.append(f"{field}: {problem['input']!r} must be text; put it in quotes")
            case _:
                lines.append(f"{field}: {problem['input']!r}: {problem['msg'].removeprefix('Input ')}")
    return lines


def _path(location: tuple[int | str, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


def _parent(field: str) -> str:
    return field.rpartition(".")[0] or "spec"
