"""The job that evaluates a collection and saves the report."""

from __future__ import annotations

from typing import Any

from corpus.document import Document
from evaluation.evaluation_input import RelevanceSettings
from evaluation.reports.collection_report import read_training_labels, run_job
from evaluation.reports.report import write_report
from foundation.files import replace_file
from index.data_folder import DataFolder
from service.http.bodies.body_validation import validate
from service.http.bodies.json_parser import parse_json
from service.http.problems import invalid_field
from service.jobs.work import Progress
from service.schemas.checks import parse_item
from service.schemas.jobs.evaluations import EvaluateRequest
from service.settings import Settings

REQUEST_FILE = "request.json"
REPORT_FILE = "report.json"
RUN_FILE = "run.trec"


def evaluate(folder: DataFolder, limits: Settings, progress: Progress) -> dict[str, Any]:
    """Evaluate by the request in the job's folder, and write the report there."""
    raw = (progress.folder / REQUEST_FILE).read_bytes()
    # In slices, because requests wait meanwhile.
    body = validate(EvaluateRequest, parse_json(raw, limits.max_json_depth), limits.max_entries)
    queries, settings = parse_evaluation(body, limits)
    progress.step = "searching"
    progress.advance(total=len(queries))
    collection = folder.collection(progress.job.collection)
    evaluated = run_job(
        collection, queries, body.metrics, settings, read_training_labels(folder, collection)
    )
    if evaluated.run is not None:
        replace_file(progress.folder / RUN_FILE, evaluated.run())
    replace_file(progress.folder / REPORT_FILE, write_report(evaluated.report))
    progress.advance(len(queries))
    return {"report": f"/v1/evaluations/{progress.job.id}"}


def parse_evaluation(
    body: EvaluateRequest, limits: Settings
) -> tuple[list[Document], RelevanceSettings]:
    """Return the queries and the relevance settings of a request.

    Raises:
        ProblemError: pointing to the query that is invalid.
    """
    queries = [
        parse_item(item, limits, "queries", position, id=item.id or str(position))
        for position, item in enumerate(body.queries)
    ]
    for position, query in enumerate(queries):
        if not query.labels and body.qrels is None:
            raise invalid_field(
                "must have a label or labels, unless the request has qrels", "queries", position
            )
    names = ("label_field", "qrels", "hierarchy", "relevant_from", "exclude_self")
    return queries, RelevanceSettings(**{name: getattr(body, name) for name in names})
