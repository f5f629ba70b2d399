"""A report as Markdown, short enough for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.metrics.metric_names import dialects
from evaluation.reports.metric_table import format_share, metric_rows
from evaluation.reports.report import Report
from foundation.errors import counted

MAX_CLASSES = 10
MARKS = {"passed": "✅", "failed": "❌", "warned": "⚠️"}


def to_markdown(report: Report) -> str:
    """Return the metrics, the gate, the notes and the hardest classes of a report."""
    parts = [_title(report), _metrics(report), _gate(report), _notes(report), _classes(report)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _title(report: Report) -> str:
    subject = report.subject
    verdict = ""
    if report.gate is not None:
        verdict = MARKS["passed" if report.passed else "failed"] + " "
    source = "codes that came with the documents"
    if subject.encoder is not None:
        source = f"encoder {_code(subject.encoder)} `{(subject.fingerprint or '')[:12]}`"
    queries = counted(report.queries, "query", "queries")
    return (
        f"### {verdict}Retrieval evaluation of {_code(subject.name)}\n\n"
        f"{queries}, {counted(subject.documents, 'document')}, {subject.n_bits} bits, "
        f"{source}; relevant: {_cell(report.relevance)}."
    )


def _metrics(report: Report) -> str:
    head, rows = metric_rows(report)
    suffix = {False: "", True: ", classifier baseline"}
    table = _table(head, [[row.name + suffix[row.is_baseline], *row.cells] for row in rows])
    return "\n\n".join([table, *dialects(metric.name for metric in report.metrics)])


def _gate(report: Report) -> str:
    if not report.gate:
        return ""
    rows = [
        [
            f"{MARKS[result.status]} {result.status}",
            result.metric,
            result.condition,
            _cell(result.sentence),
        ]
        for result in report.gate
    ]
    return _table(["gate", "metric", "condition", "result"], rows, numbers=False)


def _notes(report: Report) -> str:
    return "\n".join(f"- {_cell(note)}" for note in report.notes)


def _classes(report: Report) -> str:
    name = report.metrics[0].name
    hardest = sorted(report.classes, key=lambda figures: figures.expected[name])[:MAX_CLASSES]
    rows = [
        [
            _cell(figures.label),
            f"{figures.queries:,}",
            f"{figures.documents:,}",
            format_share(figures.expected[name]),
        ]
        for figures in hardest
    ]
    if not rows:
        return ""
    title = f"<details><summary>The {len(rows)} hardest classes, tie-averaged</summary>"
    return f"{title}\n\n{_table(['class', 'queries', 'documents', name], rows)}\n\n</details>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = True) -> str:
    rule = "---:" if numbers else "---"
    lines = [head, ["---"] + [rule] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(text: str) -> str:
    """Return untrusted text on one line, with Markdown's special characters escaped."""
    escaped = " ".join(text.split())
    for mark in "\\`*_[]<>|#@":
        escaped = escaped.replace(mark, _ENTITIES.get(mark, f"\\{mark}"))
    return escaped


_ENTITIES = {"<": "&lt;", ">": "&gt;", "@": "&#64;"}


def _code(name: str) -> str:
    return "`" + name.replace("`", "'").replace("|", "¦") + "`"
