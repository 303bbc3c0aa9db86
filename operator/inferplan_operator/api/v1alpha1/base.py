"""What the API's models share: camelCase on the wire, unknown fields refused in specs, bounded everywhere.

The pydantic models are the one source of the CRDs: `hack/generate_crds.py` turns their JSON schema and the CEL rules
listed here (`__cel__`) into `crds/*.yaml`, and a test holds both equal. The description of every field is what
`kubectl explain` shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule of the CRD: `message` names the field and what would work."""

    rule: str
    message: str


class SpecModel(BaseModel):
    """Part of a spec: an unknown field is an error, never ignored."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, protected_namespaces=()
    )
    cel_rules: ClassVar[tuple[Rule, ...]] = ()


class StatusModel(BaseModel):
    """Part of a status: tolerant, so that an older operator reads what a newer one wrote."""

    model_config = ConfigDict(
        extra="ignore", frozen=True, alias_generator=to_camel, populate_by_name=True, protected_namespaces=()
    )
    cel_rules: ClassVar[tuple[Rule, ...]] = ()


# Money and fractions are decimal strings: a float has no exact form, and a digest needs one.
Money = Annotated[str, Field(pattern=r"^[0-9]{1,9}(\.[0-9]{1,6})?$", max_length=16)]
Fraction = Annotated[str, Field(pattern=r"^(0(\.[0-9]{1,6})?|1(\.0{1,6})?)$", max_length=8)]
Rate = Annotated[str, Field(pattern=r"^[0-9]{1,7}(\.[0-9]{1,6})?$", max_length=14)]
Milliseconds = Annotated[int, Field(ge=1, le=3_600_000)]
Tokens = Annotated[int, Field(ge=1, le=100_000_000)]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$", max_length=71)]
ShortText = Annotated[str, Field(max_length=256)]
LongText = Annotated[str, Field(max_length=4096)]
