"""Models are asked for once, never by a path, and a status says the same about them every time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferplan.errors import InvalidInput, ModelNotFound
from inferplan.model import ModelFacts
from inferplan_operator.cluster.models import ModelQuestion, Models


class Counted:
    def __init__(self) -> None:
        self.results: list[str] = []

    def __call__(self, result: str) -> None:
        self.results.append(result)


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture
def models(counted: Counted) -> Iterator[Models]:
    models = Models("never", counted)
    yield models
    models.close()


async def test_the_same_question_asked_by_many_is_asked_once(models: Models, counted: Counted) -> None:
    question = ModelQuestion("Qwen/Qwen3-8B")
    answers = await asyncio.gather(*(models.ask(question) for _ in range(20)))
    assert len({id(answer.facts) for answer in answers}) == 1
    assert counted.results == ["catalogue"]


async def test_a_model_without_a_pinned_commit_is_said_in_the_same_words_every_time(models: Models) -> None:
    facts = (await models.ask(ModelQuestion("Qwen/Qwen3-8B", "main"))).facts
    assert isinstance(facts, ModelFacts)
    assert facts.warnings == (
        (
            "RevisionUnpinned",
            "Qwen/Qwen3-8B is taken from the bundled catalogue, no commit is pinned (revision 'main' was asked for): "
            "the hub gave no answer",
        ),
    )


async def test_an_unknown_model_is_an_answer(models: Models) -> None:
    assert isinstance((await models.ask(ModelQuestion("no-such/model"))).facts, ModelNotFound)


@pytest.mark.parametrize("name", ["/etc", "../secrets", "~/x", "./models/x", "a/b/c", "a b"])
async def test_a_path_is_never_read(models: Models, name: str, tmp_path: Path) -> None:
    assert isinstance((await models.ask(ModelQuestion(name))).facts, InvalidInput)


def test_a_token_is_never_shown() -> None:
    assert "hf_secret" not in repr(ModelQuestion("a/b", None, "hf_secret"))
