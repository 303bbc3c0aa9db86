"""What the models are made of: the base classes, text types with what would work, and rules across fields.

Every rule stands here or beside its model once, in two forms that a test on the real API server holds equal: CEL for
the CRD (`hack/generate_crds.py` writes it there), Python for the command line, which has no API server to ask.
Validators are few and models are built on first use: reading a plan must not slow the command line down.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

_PLACEHOLDER = re.compile(r"\{([a-zA-Z0-9_.]+)\}")


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition on one object. `message` may name fields of the object in braces: `p50 {p50} is above …`.

    `cel` speaks the API's names (`self.maxGPUs`), `holds` the model's (`self.max_gpus`).
    """

    cel: str
    holds: Callable[[Any], bool]
    message: str

    @property
    def message_cel(self) -> str | None:
        """The message as a CEL expression; None where it names no field."""
        fields = _PLACEHOLDER.findall(self.message)
        text = _PLACEHOLDER.sub("%s", self.message.replace("%", "%%"))
        return cel_format(text, *(f"self.{field}" for field in fields)) if fields else None

    def message_for(self, subject: BaseModel) -> str:
        return _PLACEHOLDER.sub(lambda found: str(_by_alias(subject, found.group(1))), self.message)


def cel_text(text: str) -> str:
    """`text` as a CEL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def cel_format(text: str, *values: str) -> str:
    """`text` with %s filled in. Not by `+`: the API server can't bound the length of `string(…)`, and refuses it."""
    return f"{cel_text(text)}.format([{', '.join(values)}])"


def _by_alias(subject: BaseModel, path: str) -> object:
    value: object = subject
    for alias in path.split("."):
        fields = type(value).model_fields if isinstance(value, BaseModel) else {}
        value = getattr(value, next(name for name, field in fields.items() if (field.alias or name) == alias))
    return value


class SpecModel(BaseModel):
    """A part of a spec: what a person writes. Unknown fields are errors, values never change."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, defer_build=True
    )
    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _rules_hold(self) -> Self:
        for rule in self.rules:
            if not rule.holds(self):
                raise ValueError(rule.message_for(self))
        return self


class StatusModel(BaseModel):
    """A part of a status: what the operator writes. Fields of other versions are ignored, nothing is required."""

    model_config = ConfigDict(
        extra="ignore", frozen=True, alias_generator=to_camel, populate_by_name=True, defer_build=True
    )


# Text types. The patterns stay within what RE2 (CEL) and pydantic's engine read alike.
MODEL_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?$"
REVISION = r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$"
DNS_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
DATA_KEY = r"^[-._a-zA-Z0-9]{1,253}$"
PVC_PATH = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$"
POSITIVE_DECIMAL = r"^([0-9]*[1-9][0-9]*(\.[0-9]{1,6})?|[0-9]+\.[0-9]{0,5}[1-9])$"
FRACTION = r"^(0(\.[0-9]{1,6})?|1(\.0{1,6})?)$"
DIGEST = r"^sha256:[0-9a-f]{64}$"
GPU_NAME = r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$"
ENGINE_NAME = r"^[a-z0-9][a-z0-9_.-]*$"
IMAGE = r"^[a-z0-9][a-zA-Z0-9._:/@-]*$"
DURATION = r"^([1-9][0-9]{0,4}(s|m|h))$"
LABEL_VALUE = r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
PRINTABLE = r"^[^\x00-\x1f\x7f]*$"
DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"

# Pattern → what would work; both the CRD's messages and the command line's are made of it.
PATTERN_HELP: dict[str, str] = {
    MODEL_ID: "is no model id; write it as the hub does, like Qwen/Qwen3-8B (letters, digits, '.', '_', '-', one '/')",
    REVISION: "is no revision; give a commit SHA, branch or tag like main",
    DNS_LABEL: "is no Kubernetes name; use lower-case letters, digits and '-'",
    DNS_SUBDOMAIN: "is no Kubernetes name; use lower-case letters, digits, '-' and '.'",
    DATA_KEY: "is no key of a ConfigMap or Secret; use letters, digits, '.', '_' and '-'",
    PVC_PATH: "is no path inside a volume; give a relative path like models/qwen3-8b, without '..'",
    POSITIVE_DECIMAL: 'must be a positive decimal number in quotes, like "2.5"',
    FRACTION: 'must be a fraction from 0 to 1 in quotes, like "0.25"',
    DIGEST: "is no digest; copy it from status.recommendation.digest (sha256: and 64 hexadecimal digits)",
    GPU_NAME: "is no GPU type; use a catalogue name like H100-SXM or L40S",
    ENGINE_NAME: "is no name that the engine knows; use lower-case letters, digits, '.', '_' and '-', like fp8",
    IMAGE: "is no container image; give one like docker.io/vllm/vllm-openai:v0.33.0",
    DURATION: "is no duration; give a whole number and a unit, like 30m or 2h",
    LABEL_VALUE: "can't be a label's value; use up to 63 letters, digits, '-', '_' and '.'",
    PRINTABLE: "has a control character; use one line of plain text",
    DATE: "is no date; write it like 2026-01-31",
}

ModelId = Annotated[str, Field(pattern=MODEL_ID, max_length=193)]
Revision = Annotated[str, Field(pattern=REVISION, max_length=128)]
DNSLabel = Annotated[str, Field(pattern=DNS_LABEL, max_length=63)]
DNSSubdomain = Annotated[str, Field(pattern=DNS_SUBDOMAIN, max_length=253)]
DataKey = Annotated[str, Field(pattern=DATA_KEY, max_length=253)]
PVCPath = Annotated[str, Field(pattern=PVC_PATH, max_length=255)]
PositiveDecimal = Annotated[str, Field(pattern=POSITIVE_DECIMAL, max_length=16)]
Fraction = Annotated[str, Field(pattern=FRACTION, max_length=8)]
Digest = Annotated[str, Field(pattern=DIGEST, max_length=71)]
GPUName = Annotated[str, Field(pattern=GPU_NAME, max_length=64)]
EngineName = Annotated[str, Field(pattern=ENGINE_NAME, max_length=32)]
Image = Annotated[str, Field(pattern=IMAGE, max_length=512)]
Duration = Annotated[str, Field(pattern=DURATION, max_length=6)]
LabelValue = Annotated[str, Field(pattern=LABEL_VALUE, max_length=63)]
Line = Annotated[str, Field(pattern=PRINTABLE, max_length=512)]
Date = Annotated[str, Field(pattern=DATE, max_length=10)]
