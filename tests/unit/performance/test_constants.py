"""The stored constants: within what physics allows, complete, and what `validation/fit.py` says it fits."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from inferplan.performance.constants import EXTRAPOLATED, MIXTURE, Constants, constants, spread

ROOT = Path(__file__).parents[3]
STORED = json.loads((ROOT / "planner/inferplan/performance/data/constants.json").read_text())


@pytest.fixture(scope="module")
def fit() -> ModuleType:
    """validation/fit.py as a module: a script, so its folder is on the path while it loads."""
    folder = str(ROOT / "validation")
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("fit", ROOT / "validation/fit.py")
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(folder)


def test_every_constant_is_stored_and_within_the_bounds_it_was_fitted_in(fit: ModuleType) -> None:
    assert set(STORED["constants"]) == {f.name for f in dataclasses.fields(Constants)}
    for name, (low, high) in fit.BOUNDS.items():
        assert low <= STORED["constants"][name] <= high, name


def test_what_is_not_fitted_is_where_the_search_starts(fit: ModuleType) -> None:
    for name in set(STORED["constants"]) - set(fit.BOUNDS):
        assert STORED["constants"][name] == getattr(fit.START, name), name


def test_no_efficiency_beats_the_spec_sheet() -> None:
    found = constants()
    for name in ("weight_bandwidth", "packed_bandwidth", "kv_bandwidth", "compute", "attention_compute"):
        assert 0 < getattr(found, name) <= 1, name


@pytest.mark.parametrize("metric", ["ttft", "tpot", "throughput"])
@pytest.mark.parametrize("load", ["single", "batched", "queueing", EXTRAPOLATED, MIXTURE])
def test_every_load_has_residuals(metric: str, load: str) -> None:
    found = spread(metric, load)
    assert 0 < found.low <= found.high
    assert found.rows > 0


def test_extrapolation_is_never_narrower_at_the_pessimistic_end() -> None:
    assert spread("tpot", EXTRAPOLATED).high >= spread("tpot", "batched").high
    assert spread("ttft", EXTRAPOLATED).high >= spread("ttft", "batched").high
    assert spread("throughput", EXTRAPOLATED).low <= spread("throughput", "batched").low
