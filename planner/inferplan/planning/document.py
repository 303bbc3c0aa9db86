"""The inputs of a recommendation as a document: what the operator publishes and `inferplan plan --inputs` takes.

One text for one value: JSON with sorted keys; floats as Python's shortest text that reads back as the same float
(the inputs are copied, never computed with, so the same bytes hold on every machine).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

from inferplan.errors import InvalidInput
from inferplan.planning.types import Inputs

SCHEMA = "inferplan.io/inputs/v1alpha1"


def inputs_document(inputs: Inputs) -> str:
    """Canonical JSON of the inputs; `read_inputs` is its inverse."""
    content = {"schema": SCHEMA, "inputs": asdict(inputs)}
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def inputs_hash(inputs: Inputs) -> str:
    """`sha256:<64 hex>` of the document."""
    return "sha256:" + hashlib.sha256(inputs_document(inputs).encode()).hexdigest()


def read_inputs(text: str) -> Inputs:
    """The inputs in a document. Raises InvalidInput naming the field."""
    from pydantic import TypeAdapter, ValidationError

    try:
        content: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"inputs: not JSON: {error}") from error
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise InvalidInput(f"inputs: schema {schema!r} can't be read here, {SCHEMA!r} is needed")
    try:
        return TypeAdapter(Inputs).validate_python(content.get("inputs"))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in problem["loc"])
        raise InvalidInput(f"inputs.{field} = {problem['input']!r}: {problem['msg']}") from error
