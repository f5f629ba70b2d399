"""A report as one HTML page that needs nothing else: no network, no script, no other file."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from string import Template

from evaluation.reports.metric_table import format_share, metric_rows
from evaluation.reports.plots import draw_plots
from evaluation.reports.report import GateResult, Report, WorstQuery

SHOWN_CLASSES = 100

PLOTS = {
    "precision-recall": (
        "Precision and recall",
        "All pairs of query and document within a Hamming radius; the numbers are radii.",
    ),
    "precision-at-k": (
        "Precision at k",
        "Mean over the queries. The band is what the order of ties could make of it.",
    ),
    "distances": (
        "Distances",
        "Pairs of query and document by Hamming distance, each kind adding up to 1.",
    ),
    "buckets": (
        "Bucket occupancy",
        "How many documents share their code; above each bar, the number of codes.",
    ),
    "bits": (
        "Bit balance",
        "The share of documents in which each bit is 1; a bit near 0 or 1 tells little.",
    ),
}

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>$title</title>
<style>
:root { --ink: #2b3244; --soft: #69718a; --line: #e6e9f0; --accent: #3454d1; --good: #1d7a4c;
  --bad: #b3261e; --warn: #9a6a00; }
* { box-sizing: border-box; }
body { margin: 0; background: #f5f6fa; color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { margin: 0 0 4px; font-size: 26px; letter-spacing: -0.01em; }
h2 { margin: 0 0 4px; font-size: 17px; }
p { margin: 0 0 12px; }
.soft { color: var(--soft); }
section, figure { margin: 0 0 20px; padding: 20px 22px; background: #fff;
  border: 1px solid var(--line); border-radius: 10px; overflow-x: auto; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 20px; }
.grid figure { margin: 0; }
#bits { grid-column: 1 / -1; }
.grid + section { margin-top: 20px; }
figure svg { display: block; width: 100%; height: auto; }
figure figcaption { color: var(--soft); font-size: 13.5px; margin-bottom: 8px; }
figure svg text { font-family: inherit !important; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: 500; font-size: 13px; white-space: nowrap; }
th, td { padding: 6px 14px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.n { text-align: right; white-space: nowrap; }
tbody tr:last-child td { border-bottom: 0; }
.bar { width: 30%; min-width: 120px; vertical-align: middle; }
.bar i { display: block; height: 9px; border-radius: 3px; background: var(--accent); opacity: .75; }
.big { font-weight: 600; }
.tag { display: inline-block; padding: 1px 9px; border-radius: 99px; font-size: 13px;
  background: #eef0f6; color: var(--ink); white-space: nowrap; }
.passed { background: #e2f4ea; color: var(--good); }
.failed { background: #fbe7e5; color: var(--bad); }
.warned { background: #fdf1d6; color: var(--warn); }
dl { display: flex; flex-wrap: wrap; gap: 8px 36px; margin: 14px 0 0; }
dt { color: var(--soft); font-size: 13px; }
dd { margin: 0; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
ul { margin: 0; padding-left: 20px; }
details { border-top: 1px solid var(--line); padding: 10px 0; }
summary { cursor: pointer; }
summary .tag { margin-left: 6px; }
.clip { overflow-wrap: anywhere; }
@media print { body { background: #fff; } section, figure { break-inside: avoid; } }
</style>
</head>
<body>
<main>
$body
</main>
</body>
</html>
""")


def to_html(report: Report, baseline: Report | None = None) -> str:
    """Write a report as a page; the curves of `baseline` are drawn behind its own.

    Raises:
        PlotError: if matplotlib is not installed.
    """
    plots = draw_plots(report, baseline)
    figures = "\n".join(
        f'<figure id="{name}"><h2>{title}</h2><figcaption>{caption}</figcaption>\n{plots[name]}'
        "</figure>"
        for name, (title, caption) in PLOTS.items()
    )
    body = "\n".join(
        part
        for part in (
            _head(report),
            _metrics(report),
            _gate(report.gate or []),
            _notes(report.notes),
            f'<div class="grid">\n{figures}\n</div>',
            _classes(report),
            _worst_queries(report),
        )
        if part
    )
    return _PAGE.substitute(title=escape(f"Evaluation of {report.subject.name}"), body=body)


def _head(report: Report) -> str:
    subject = report.subject
    facts = {
        "queries": f"{report.queries:,}",
        "documents": f"{subject.documents:,}",
        "bits": str(subject.n_bits),
        "distinct codes": "–" if subject.distinct_codes is None else f"{subject.distinct_codes:,}",
        "relevant": report.relevance,
        "encoder": subject.encoder or "none: documents bring their codes",
        "fingerprint": (subject.fingerprint or "")[:16],
        "generation": "" if subject.generation is None else f"{subject.generation:,}",
    }
    shown = "".join(
        f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>"
        for name, value in facts.items()
        if value
    )
    verdict = ""
    if report.gate is not None:
        kind, word = ("passed", "gate passed") if report.passed else ("failed", "gate failed")
        verdict = f' <span class="tag {kind}">{word}</span>'
    return f"<section><h1>{escape(subject.name)}{verdict}</h1>\n<dl>{shown}</dl></section>"


def _metrics(report: Report) -> str:
    head, found = metric_rows(report)
    rows = []
    for one in found:
        kind, suffix = ("soft", ", classifier baseline") if one.is_baseline else ("big", "")
        rows.append(_row(f'<td class="{kind}">{escape(one.name)}{suffix}</td>', one.cells))
    return f'<section id="metrics"><h2>Metrics</h2>\n{_table(head, rows)}</section>'


def _gate(results: list[GateResult]) -> str:
    if not results:
        return ""
    rows = [
        f'<tr><td><span class="tag {one.status}">{one.status}</span></td>'
        f"<td>{escape(one.metric)}</td><td>{one.condition}</td>"
        f"<td>{escape(one.sentence)}</td></tr>"
        for one in results
    ]
    table = _table(["", "metric", "condition", "found"], rows, numbers=False)
    return f'<section id="gate"><h2>Gate</h2>\n{table}</section>'


def _notes(notes: list[str]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<section id="notes"><h2>Notes</h2>\n<ul>{items}</ul></section>'


def _classes(report: Report) -> str:
    names = [one.name for one in report.metrics]
    classes = sorted(report.classes, key=lambda one: one.expected[names[0]])
    rows = []
    for one in classes[:SHOWN_CLASSES]:
        cells = [f"{one.queries:,}", f"{one.documents:,}"]
        cells += [format_share(one.expected[name]) for name in names]
        width = 100 * max(0.0, min(1.0, one.expected[names[0]]))
        bar = f'<td class="bar"><i style="width:{width:.1f}%"></i></td>'
        rows.append(_row(f'<td class="clip">{escape(one.label)}</td>', cells, bar))
    more = len(classes) - SHOWN_CLASSES
    note = f'<p class="soft">{more:,} better classes are in report.json.</p>' if more > 0 else ""
    head = ["class", "queries", "documents", *names]
    table = _table(head, rows, last=f"<th>{escape(names[0])}</th>")
    caption = '<p class="soft">Over ties, the hardest class first.</p>'
    return f'<section id="classes"><h2>Classes</h2>{caption}\n{table}{note}</section>'


def _worst_queries(report: Report) -> str:
    queries = "\n".join(_worst_query(one) for one in report.worst_queries)
    name = escape(report.metrics[0].name)
    caption = f'<p class="soft">By {name}, tie-averaged, with what each found first.</p>'
    return f'<section id="worst-queries"><h2>Worst queries</h2>{caption}\n{queries}</section>'


def _worst_query(query: WorstQuery) -> str:
    rows = [
        f'<tr><td>{hit.distance}</td><td><span class="tag {"passed" if hit.relevant else ""}">'
        f"{escape(', '.join(hit.labels) or 'no label')}</span></td>"
        f'<td class="clip">{escape(hit.id)}</td><td class="clip soft">{escape(hit.text)}</td></tr>'
        for hit in query.hits
    ]
    title = (
        f'<summary><span class="big">{format_share(query.value)}</span> {escape(query.id)}'
        f'<span class="tag">{escape(", ".join(query.labels))}</span></summary>'
    )
    text = f'<p class="clip">{escape(query.text)}</p>' if query.text else ""
    table = _table(["distance", "labels", "document", ""], rows, numbers=False)
    return f"<details open>{title}{text}{table}</details>"


def _table(head: list[str], rows: Iterable[str], *, last: str = "", numbers: bool = True) -> str:
    first, *others = (escape(one) for one in head)
    kind = ' class="n"' if numbers else ""
    cells = f"<th>{first}</th>" + "".join(f"<th{kind}>{one}</th>" for one in others)
    body = "\n".join(rows)
    return f"<table><thead><tr>{cells}{last}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"


def _row(first: str, cells: Iterable[str], last: str = "") -> str:
    numbers = "".join(f'<td class="n">{escape(cell)}</td>' for cell in cells)
    return f"<tr>{first}{numbers}{last}</tr>"
