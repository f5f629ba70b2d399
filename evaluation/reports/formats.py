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
    """One way to write a finished job, and what the outside calls it."""

    file: str
    media_type: str
    write: Callable[[Job, Report | None], str | None]
    """Called with a job and the report of a baseline; returns None where there is no such format
    of the job."""


FORMATS: Mapping[str, Format] = {
    "json": Format("report.json", "application/json", lambda job, _: write_report(job.report)),
    "markdown": Format("report.md", "text/markdown", lambda job, _: to_markdown(job.report)),
    "junit": Format("junit.xml", "application/xml", lambda job, _: to_junit(job.report)),
    "trec": Format("run.trec", "text/plain", lambda job, _: None if job.run is None else job.run()),
    "html": Format("index.html", "text/html", lambda job, baseline: to_html(job.report, baseline)),
}


def write_folder(job: Job, folder: Path, baseline: Report | None = None) -> None:
    """Write a job to `folder` in every format; the folder is made, files there are replaced.

    Raises:
        PlotError: if matplotlib is not installed; every other format is written by then.
        OSError: if the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for one in FORMATS.values():
        text = one.write(job, baseline)
        if text is not None:
            (folder / one.file).write_text(text, encoding="utf-8")
