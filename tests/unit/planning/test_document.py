"""The inputs document: one text for one value, read back as the same value."""

from __future__ import annotations

import json

import pytest

from inferplan.errors import InvalidInput
from inferplan.hardware import catalog, catalog_version
from inferplan.planning import GPUPool, Inputs
from inferplan.planning.document import inputs_document, inputs_hash, read_inputs

INPUTS = Inputs(
    gpus=catalog(),
    catalog_version=catalog_version(),
    inventory=(GPUPool("H100-SXM", 2, 8),),
    prices=(("H100-SXM", 2.49),),
    price_date="2026-11-30",
)


def test_what_is_published_is_read_back_as_the_same_value() -> None:
    assert read_inputs(inputs_document(INPUTS)) == INPUTS


def test_an_unknown_inventory_stays_unknown_and_an_empty_one_empty() -> None:
    for inventory in (None, ()):
        inputs = Inputs(gpus=catalog()[:1], catalog_version="v", inventory=inventory)
        assert read_inputs(inputs_document(inputs)) == inputs


def test_another_price_is_another_hash() -> None:
    cheaper = Inputs(INPUTS.gpus, INPUTS.catalog_version, INPUTS.inventory, (("H100-SXM", 2.48),), INPUTS.price_date)
    assert inputs_hash(cheaper) != inputs_hash(INPUTS)
    assert inputs_hash(read_inputs(inputs_document(INPUTS))) == inputs_hash(INPUTS)


def test_a_damaged_document_is_refused_by_field() -> None:
    content = json.loads(inputs_document(INPUTS))
    content["inputs"]["inventory"][0]["nodes"] = "many"
    with pytest.raises(InvalidInput, match=r"inputs\.inventory.*nodes.*many"):
        read_inputs(json.dumps(content))
    with pytest.raises(InvalidInput, match=r"schema .something/else. can"):
        read_inputs('{"schema": "something/else"}')
