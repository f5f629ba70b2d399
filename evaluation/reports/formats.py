"""The formats of a report by name, and a folder with all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluation.reports.collection_report import Job
from evaluation.reports.html import to_html
from evaluation.reports.junit import to_junit
from evaluation.reports.markdown import to_markdown
from evaluation.reports.report import Report, write_report


@dataclass(frozen=True, slots=True)
class Format:
    """A format of a finished job: its file name, media type and writer."""

    file: str
    media_type: str
    write: Callable[[Job, Report | None], str | None]
    """Called with a job and the report of a baseline. Returns None if the job lacks the format."""


FORMATS: Mapping[str, Format] = {
    "json": Format("report.json", "application/json", lambda job, _: write_report(job.report)),
    "markdown": Format("report.md", "text/markdown", lambda job, _: to_markdown(job.report)),
    "junit": Format("junit.xml", "application/xml", lambda job, _: to_junit(job.report)),
    "trec": Format("run.trec", "text/plain", lambda job, _: None if job.run is None else job.run()),
    "html": Format("index.html", "text/html", lambda job, baseline: to_html(job.report, baseline)),
}


def write_folder(job: Job, folder: Path, baseline: Report | None = None) -> None:
    """Write a job to `folder` in every format. Creates the folder, and replaces existing files.

    Raises:
        PlotError: if matplotlib or jinja2 is not installed. All other formats are written before.
        OSError: if the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for format_ in FORMATS.values():
        text = format_.write(job, baseline)
        if text is not None:
            (folder / format_.file).write_text(text, encoding="utf-8")
