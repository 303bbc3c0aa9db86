"""A recommendation as a pull-request comment: enough to decide from in a minute."""

from __future__ import annotations

from inferplan.planning import Infeasible, Notice, Recommendation
from inferplan.report.view import Heading, decision_rows, predicted_rows, summary


def recommendation_markdown(recommendation: Recommendation, heading: Heading) -> str:
    """GitHub-flavoured Markdown with the digest and the approve command."""
    decision = recommendation.choice.decision
    lines = [
        f"## {heading.namespace}/{heading.name}: {summary(decision)}",
        "",
        f"Model `{heading.model}`. {heading.inputs}",
        "",
        "| Predicted | Value | 90 % range | Basis |",
        "|---|---|---|---|",
        *(_row(*row) for row in predicted_rows(recommendation.choice)),
        "",
        *_bullets("Why", recommendation.reasons),
        *_bullets("Warnings", recommendation.warnings),
        "<details><summary>Decision</summary>",
        "",
        "| | |",
        "|---|---|",
        *(_row(label, text) for label, text in decision_rows(decision)),
        "",
        "</details>",
        "",
    ]
    if recommendation.alternatives:
        lines += ["<details><summary>Alternatives and why not</summary>", "", "| Alternative | Why not |", "|---|---|"]
        lines += [_row(a.summary, f"{a.why_not.code}: {a.why_not.message}") for a in recommendation.alternatives]
        lines += ["", "</details>", ""]
    if recommendation.unmodelled:
        lines += [f"Not modelled: `{' '.join(recommendation.unmodelled)}`", ""]
    lines += [f"Digest `{heading.digest}`", "", "```sh", heading.approve_command, "```"]
    return "\n".join(lines) + "\n"


def infeasible_markdown(answer: Infeasible, heading: Heading) -> str:
    """Why nothing fits and what would."""
    lines = [
        f"## {heading.namespace}/{heading.name}: infeasible",
        "",
        f"Model `{heading.model}`. {heading.inputs}",
        "",
        f"**{answer.code}**: {_cell(answer.message)}",
        "",
        *_bullets("What would work", answer.nearest),
        *_bullets("Warnings", answer.warnings),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _bullets(title: str, notices: tuple[Notice, ...]) -> list[str]:
    if not notices:
        return []
    return [f"**{title}**", "", *(f"- {n.code}: {_cell(n.message)}" for n in notices), ""]


def _row(*cells: str) -> str:
    return "| " + " | ".join(_cell(c) for c in cells) + " |"


def _cell(text: str) -> str:
    """Text that can't leave its cell or turn into markup."""
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
