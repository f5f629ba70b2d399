"""Evaluate the searches that people make: what a collection lists, by any of its rankings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from corpus.document import Document
from evaluation.collection import RelevanceSettings
from evaluation.evaluate import query_labels
from evaluation.metrics.names import DEFAULT_METRICS, parse_metrics
from evaluation.qrels import duplicates, name_some
from evaluation.relevance import check_labels
from evaluation.result import Evaluation, EvaluationError
from evaluation.runs import evaluate_run
from index.backend import CollectionBackend
from index.labels import labels_of
from index.records import Query

QUERIES_AT_ONCE = 64
DEPTH = 1000
"""How many hits are asked for where a metric looks at the whole ranking."""


def evaluate_searches(
    collection: CollectionBackend,
    queries: Sequence[Document],
    metrics: Iterable[str] = DEFAULT_METRICS,
    ranking: str | None = None,
    settings: RelevanceSettings | None = None,
) -> Evaluation:
    """Search `collection` with every query and measure the hits in the order they come.

    `ranking` is as in a search, None being the collection's own. A metric that looks at the whole
    ranking sees the first :data:`DEPTH` hits. What is relevant is as in
    :func:`evaluation.evaluate.evaluate_collection`; `settings.hierarchy` is not looked at.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric, or of one of distances.
        EvaluationError: if an id of a query comes twice, by label as
            :func:`evaluation.relevance.check_labels`, or as :func:`evaluation.runs.evaluate_run`.
        InputError: if a query is nothing that the collection takes, or `ranking` is none.
    """
    chosen = parse_metrics(metrics)
    twice = duplicates([query.id for query in queries])
    if twice:
        message = f"{len(twice):,} ids of queries come more than once: {name_some(twice)}"
        raise EvaluationError(message)
    how = settings or RelevanceSettings()
    depth = max(metric.k or DEPTH for metric in chosen)
    asked = [Query(text=one.text, vector=one.vector, code=one.code) for one in queries]
    run: dict[str, dict[str, float]] = {}
    for start in range(0, len(asked), QUERIES_AT_ONCE):
        block = slice(start, start + QUERIES_AT_ONCE)
        found = collection.search(asked[block], depth + how.exclude_self, ranking=ranking)
        for query, hits in zip(queries[block], found.hits, strict=True):
            ids = [hit.id for hit in hits if not (how.exclude_self and hit.id == query.id)]
            # The rank stands for the score, so that the order is the one that was served.
            run[query.id] = {id_: -float(rank) for rank, id_ in enumerate(ids[:depth])}
    qrels = how.qrels if how.qrels is not None else _by_labels(collection, queries, how)
    # A run is measured by the queries that are judged; one without an answer counts, and scores 0.
    wanted = {query.id: qrels.get(query.id) or {"": 0} for query in queries}
    return evaluate_run(run, wanted, [metric.name for metric in chosen], how.relevant_from)


def _by_labels(
    collection: CollectionBackend, queries: Sequence[Document], settings: RelevanceSettings
) -> Mapping[str, Mapping[str, int]]:
    """Return grade 1 for every document that shares a label with the query."""
    documents = collection.contents()
    document_labels = [labels_of(one.payload, settings.label_field) for one in documents]
    asked_labels = query_labels(queries, settings.label_field)
    check_labels(asked_labels, document_labels)
    members: dict[str, list[str]] = {}
    for document, labels in zip(documents, document_labels, strict=True):
        for label in labels:
            members.setdefault(label, []).append(document.id)
    return {
        query.id: {
            id_: 1
            for label in labels
            for id_ in members.get(label, [])
            if not (settings.exclude_self and id_ == query.id)
        }
        for query, labels in zip(queries, asked_labels, strict=True)
    }
