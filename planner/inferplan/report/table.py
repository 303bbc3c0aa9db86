"""A recommendation in the terminal: honest without colour and in 80 columns."""

from __future__ import annotations

import io

from rich.box import SIMPLE
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from inferplan.planning import Infeasible, Notice, Recommendation
from inferplan.report.view import Heading, decision_rows, predicted_rows, summary

_PLAIN_WIDTH = 100


def render_recommendation(recommendation: Recommendation, heading: Heading, width: int | None, *, color: bool) -> str:
    """The whole answer as text; `width` None: as wide as reads well."""
    console = _console(width, color=color)
    console.print(Text(f"{heading.namespace}/{heading.name}", style="bold") + Text(f"  {heading.model}"))
    console.print(_two_columns("Decision", decision_rows(recommendation.choice.decision)))
    console.print(_predictions(recommendation))
    _notices(console, "Why", recommendation.reasons)
    _alternatives(console, recommendation)
    _rejected(console, recommendation.candidates, recommendation.rejected)
    _notices(console, "Warnings", recommendation.warnings)
    if recommendation.unmodelled:
        console.print(Text("Not modelled: ", style="bold") + Text(" ".join(recommendation.unmodelled)))
    console.print(Text("Rests on: ", style="bold") + Text(heading.inputs))
    console.print(Text("Digest:   ", style="bold") + Text(heading.digest), soft_wrap=True)
    console.print(Text("Approve:  ", style="bold") + Text(heading.approve_command), soft_wrap=True)
    return _text(console)


def render_infeasible(answer: Infeasible, heading: Heading, width: int | None, *, color: bool) -> str:
    """Why nothing fits and what would."""
    console = _console(width, color=color)
    console.print(Text(f"{heading.namespace}/{heading.name}", style="bold") + Text(f"  {heading.model}"))
    console.print(Text("Infeasible: ", style="bold red") + Text(f"{answer.code}: {answer.message}"))
    _notices(console, "What would work", answer.nearest)
    _rejected(console, answer.candidates, answer.rejected)
    _notices(console, "Warnings", answer.warnings)
    console.print(Text("Rests on: ", style="bold") + Text(heading.inputs))
    return _text(console)


def _console(width: int | None, *, color: bool) -> Console:
    return Console(
        file=io.StringIO(),
        width=width or _PLAIN_WIDTH,
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
        markup=False,
        emoji=False,
    )


def _text(console: Console) -> str:
    buffer = console.file
    assert isinstance(buffer, io.StringIO)  # noqa: S101  (made in _console)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE, show_header=bool(columns))
    for column in columns:
        table.add_column(column)
    return table


def _two_columns(title: str, rows: tuple[tuple[str, str], ...]) -> RenderableType:
    table = _table(title)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows:
        table.add_row(label, text)
    return table


def _predictions(recommendation: Recommendation) -> RenderableType:
    table = _table("Predicted", "", "Value", "90 % range", "Basis")
    for row in predicted_rows(recommendation.choice):
        table.add_row(*row)
    return table


def _alternatives(console: Console, recommendation: Recommendation) -> None:
    if not recommendation.alternatives:
        return
    table = _table("Alternatives and why not", "Alternative", "Why not")
    for alternative in recommendation.alternatives:
        decision = alternative.choice.decision
        kv = "" if decision.kv_cache_dtype == "auto" else f", {decision.kv_cache_dtype} KV"
        table.add_row(f"{summary(decision)}{kv}", f"{alternative.why_not.code}: {alternative.why_not.message}")
    console.print(table)


def _notices(console: Console, title: str, notices: tuple[Notice, ...]) -> None:
    if not notices:
        return
    console.print(Text(title, style="bold"))
    for notice in notices:
        console.print(Padding(Text(f"{notice.code}: {notice.message}"), (0, 0, 0, 2)))
    console.print()


def _rejected(console: Console, candidates: int, rejected: tuple[tuple[str, int], ...]) -> None:
    counts = ", ".join(f"{count} {code}" for code, count in rejected)
    console.print(Text(f"{candidates} candidates evaluated" + (f"; rejected: {counts}" if counts else "")))
