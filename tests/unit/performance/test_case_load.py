"""The load of a case as benchmark clients write it: an infinite request rate is a limit that another field sets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inferplan.cases import answer_cases

BASE = {"model": "Qwen/Qwen3-8B", "gpu": "H100-SXM", "isl": 500, "osl": 100}


def asked(**load: Any) -> dict[str, Any]:
    return next(iter(answer_cases([json.dumps(BASE | load)], "never")))


@pytest.mark.parametrize("rate", ["inf", "Infinity", float("inf")])
def test_an_infinite_rate_of_so_many_requests_is_all_at_once(rate: Any) -> None:
    assert asked(request_rate=rate, num_requests=40) == asked(num_requests=40)


def test_an_infinite_rate_with_limited_concurrency_is_a_closed_loop() -> None:
    assert asked(request_rate="inf", concurrency=8, num_requests=40) == asked(concurrency=8)


def test_an_infinite_rate_alone_is_refused_with_what_would_work() -> None:
    message = asked(request_rate="inf")["error"]["message"]
    assert "request_rate='inf'" in message
    assert "num_requests" in message


@pytest.mark.parametrize("rate", ["fast", -1, 0, "nan", float("-inf")])
def test_other_rates_that_are_no_rates_name_the_field(rate: Any) -> None:
    assert "request_rate" in asked(request_rate=rate)["error"]["message"]


def test_a_context_that_does_not_fit_still_says_how_many_requests_would() -> None:
    """Llama-3.1's 131,072 tokens don't fit one L4 beside the weights; short requests do, a few."""
    found = asked(model="meta-llama/Meta-Llama-3.1-8B", gpu="L4", isl=2000, osl=500, concurrency=64)
    assert not found["starts"]
    assert 1 <= found["running_requests"] < 64
