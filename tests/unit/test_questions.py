"""docs/questions.md: each command answers as the page shows, line by line, in order."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from inferplan.engine import memory, refusals
from inferplan_operator import cli

DOCS = Path(__file__).parents[2] / "docs"


def questions() -> dict[str, list[tuple[str, list[str]]]]:
    """Question → its commands, each with the lines of output that the page shows."""
    found: dict[str, list[tuple[str, list[str]]]] = {}
    for section in (DOCS / "questions.md").read_text().split("\n## ")[1:]:
        title = section.splitlines()[0]
        for block in re.findall(r"```console\n(.*?)```", section, flags=re.DOTALL):
            commands = found.setdefault(title, [])
            for line in block.splitlines():
                if line.startswith("$ "):
                    commands.append((line.removeprefix("$ "), []))
                else:
                    commands[-1][1].append(line)
    return found


@pytest.mark.parametrize("question", questions())
def test_the_command_answers_as_the_page_says(
    question: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, shown in questions()[question]:
        assert shown, f"{command}: the page shows no answer"
        monkeypatch.setattr(sys, "argv", [*shlex.split(command), "--hub", "never"])
        assert cli.main() == 0
        answered = iter(line.rstrip() for line in capsys.readouterr().out.splitlines())
        for line in shown:
            assert line in answered, f"{command}: {line!r} is not in the answer, or not in this order"


def test_every_start_up_code_is_documented() -> None:
    sources = "".join(Path(str(module.__file__)).read_text() for module in (memory, refusals))
    codes = set(re.findall(r'"((?:[A-Z]+[a-z]+){2,})"', sources))
    page = (DOCS / "predict.md").read_text()
    assert codes
    assert {code for code in codes if f"`{code}`" not in page} == set()
