"""Evaluations by a running service."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from corpus.document import Document
from evaluation.evaluation_input import RelevanceSettings
from evaluation.rankings import DEPTH, QUERIES_AT_ONCE, list_length, parse_ranking
from evaluation.reports.collection_report import Job
from evaluation.reports.report import ReportError, parse_report
from evaluation.result import Evaluation, EvaluationError
from evaluation.retrieval import StoredDocuments
from evaluation.scores import evaluate_by_score
from foundation.stages import begin_stage
from hummingbit.clients.client import Client
from hummingbit.clients.responses import Ranking
from hummingbit.clients.transport import ServiceError
from hummingbit.service_transfer import all_pages
from index.payload_labels import labels_of
from index.records import DEFAULT_OVERSAMPLE

POLL_SECONDS = 0.2
WAIT_SECONDS = 3600.0


def evaluate_remotely(url: str, collection: str, body: Mapping[str, Any]) -> Job:
    """Have the service at `url` evaluate one of its collections, and wait for the report.

    `body` is that of ``POST /v1/collections/{name}/evaluate``.

    Raises:
        ServiceError: if `url` does not begin with http:// or https://, or the service cannot be
            reached, refuses or fails; the message includes what it says.
    """
    with Client(url) as client:
        id_ = client.evaluate(collection, body)["id"]
        begin_stage(f"waiting for the service: evaluation {id_}")
        deadline = time.monotonic() + WAIT_SECONDS
        while (found := client.evaluation(id_))["status"] == "running":
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"{url}: evaluation {id_} is not finished after {WAIT_SECONDS:g} s"
                )
            time.sleep(POLL_SECONDS)
        if found["status"] != "done":
            raise ServiceError(f"{url}: {found['error']}")
        try:
            report = parse_report(json.dumps(found["report"]))
        except ReportError as error:
            raise ServiceError(f"{url}: {error}") from None
        run = client.trec_run(id_) if report.has_run else None
    return Job(report, None if run is None else lambda: run)


def evaluate_rankings_remotely(
    url: str,
    collection: str,
    queries: Sequence[Document],
    rankings: Iterable[str],
    *,
    metrics: Sequence[str],
    settings: RelevanceSettings,
    oversample: float = DEFAULT_OVERSAMPLE,
) -> dict[str, Evaluation]:
    """Measure rankings at a service, as :func:`evaluation.rankings.evaluate_rankings` does here.

    This reads the first :data:`DEPTH` hits of every ranking. If a group of ties continues beyond
    them, only the part within them is averaged.

    Raises:
        ServiceError: as for :func:`evaluate_remotely`.
        MetricError, EvaluationError: as for :func:`evaluation.rankings.evaluate_rankings`.
    """
    with Client(url) as client:
        begin_stage(f"reading the documents of {collection}")
        pages = all_pages(partial(client.scroll, collection, limit=DEPTH))
        documents = [one for page in pages for one in page["documents"]]
        labels = [labels_of(one["payload"], settings.label_field) for one in documents]
        stored = StoredDocuments(
            np.empty((len(documents), 0), np.uint8), labels, [d["id"] for d in documents]
        )
        relevance, _ = settings.apply(stored, queries)
        place = {id_: row for row, id_ in enumerate(stored.ids)}
        own = np.array([place.get(one.id, -1) for one in queries], dtype=np.int64)
        return {
            ranking: evaluate_by_score(
                _scores(
                    client,
                    collection,
                    queries,
                    ranking,
                    place,
                    oversample=oversample,
                    length=list_length(metrics) + settings.exclude_self,
                ),
                relevance,
                metrics,
                self_rows=own if settings.exclude_self else None,
                query_ids=[one.id for one in queries],
            )
            for ranking in dict.fromkeys(rankings)
        }


def _scores(
    client: Client,
    collection: str,
    queries: Sequence[Document],
    name: str,
    place: Mapping[str, int],
    *,
    oversample: float,
    length: int,
) -> Iterator[npt.NDArray[np.float64]]:
    """Yield the scores of all documents, ``float64[q, N]``; −∞ for those that are not hits."""
    begin_stage(f"searching {collection} by {name}")
    ranking, rescore = parse_ranking(name, oversample)
    limit = DEPTH if rescore is None else length
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        block = queries[start : start + QUERIES_AT_ONCE]
        searches = [{**_input(one), "limit": limit} for one in block]
        answers = client.search_batch(
            collection,
            searches,
            ranking=cast("Ranking", ranking),
            rescore=None if rescore is None else asdict(rescore),
        )
        table = np.full((len(block), len(place)), -np.inf)
        for line, answer in zip(table, answers, strict=True):
            for hit in answer["hits"]:
                if hit["id"] not in place:
                    message = f"collection {collection!r} was written to while it was evaluated"
                    raise EvaluationError(f"{message}; run the evaluation again")
                line[place[hit["id"]]] = hit["score"]
        yield table


def _input(query: Document) -> dict[str, Any]:
    vector = None if query.vector is None else query.vector.tolist()
    content = {"text": query.text, "vector": vector, "code": query.code}
    return {name: value for name, value in content.items() if value is not None}
