"""A report as Markdown, short enough for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.metrics.metric_names import dialects
from evaluation.reports.metric_table import format_share, metric_rows
from evaluation.reports.report import Report

SHOWN_CLASSES = 10
MARKS = {"passed": "✅", "failed": "❌", "warned": "⚠️"}


def to_markdown(report: Report) -> str:
    """Write the metrics, the gate, the notes and the hardest classes of a report."""
    parts = [_title(report), _metrics(report), _gate(report), _notes(report), _classes(report)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _title(report: Report) -> str:
    subject = report.subject
    verdict = ""
    if report.gate is not None:
        verdict = MARKS["passed" if report.passed else "failed"] + " "
    made_by = "codes brought along"
    if subject.encoder is not None:
        made_by = f"encoder {_code(subject.encoder)} `{(subject.fingerprint or '')[:12]}`"
    return (
        f"### {verdict}Retrieval evaluation of {_code(subject.name)}\n\n"
        f"{report.queries:,} queries, {subject.documents:,} documents, {subject.n_bits} bits, "
        f"{made_by}; relevant: {_cell(report.relevance)}."
    )


def _metrics(report: Report) -> str:
    head, rows = metric_rows(report)
    suffix = {False: "", True: ", classifier baseline"}
    table = _table(head, [[one.name + suffix[one.is_baseline], *one.cells] for one in rows])
    return "\n\n".join([table, *dialects(one.name for one in report.metrics)])


def _gate(report: Report) -> str:
    if not report.gate:
        return ""
    rows = [
        [f"{MARKS[one.status]} {one.status}", one.metric, one.condition, _cell(one.sentence)]
        for one in report.gate
    ]
    return _table(["gate", "metric", "condition", "found"], rows, numbers=False)


def _notes(report: Report) -> str:
    return "\n".join(f"- {_cell(note)}" for note in report.notes)


def _classes(report: Report) -> str:
    name = report.metrics[0].name
    hardest = sorted(report.classes, key=lambda one: one.expected[name])[:SHOWN_CLASSES]
    rows = [
        [_cell(one.label), f"{one.queries:,}", f"{one.documents:,}",
         format_share(one.expected[name])]
        for one in hardest
    ]  # fmt: skip
    if not rows:
        return ""
    title = f"<details><summary>The {len(rows)} hardest classes, tie-averaged</summary>"
    return f"{title}\n\n{_table(['class', 'queries', 'documents', name], rows)}\n\n</details>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = True) -> str:
    rule = "---:" if numbers else "---"
    lines = [head, ["---"] + [rule] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(text: str) -> str:
    """Write text from outside so that it stays text: in one line, its marks taken as they are."""
    plain = " ".join(text.split())
    for mark in "\\`*_[]<>|#@":
        plain = plain.replace(mark, f"\\{mark}" if mark not in "<>@" else _ENTITIES[mark])
    return plain


_ENTITIES = {"<": "&lt;", ">": "&gt;", "@": "&#64;"}


def _code(name: str) -> str:
    return "`" + name.replace("`", "'").replace("|", "¦") + "`"
