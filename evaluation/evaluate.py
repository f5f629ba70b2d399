"""Evaluate codes, or a collection, against queries whose labels are known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from corpus.document import Document
from encoder.codes import Codes
from encoder.encoder import Encoder
from evaluation.blocks import row_blocks
from evaluation.distance_counts import DistanceCounts
from evaluation.metrics import DEFAULT_METRICS, Metric, measure, parse_metrics
from evaluation.relevance import Ids, Labelled, LabelSet, Relevance, check_labels
from evaluation.result import Evaluation, EvaluationError, PerQuery
from evaluation.ties import expect
from index.collection import Collection
from index.distinct import DistinctIndex
from index.labels import labels_of
from index.protocol import Neighbours
from index.records import Query


def evaluate_codes(
    query_codes: Codes,
    query_labels: Sequence[LabelSet],
    database_codes: Codes,
    database_labels: Sequence[LabelSet],
    metrics: Iterable[str] = DEFAULT_METRICS,
) -> Evaluation:
    """Rank the database for every query by (Hamming distance, row) and measure the lists.

    `query_codes` is uint8[Q, code_size] and `database_codes` uint8[N, code_size]; labels are
    tuples of tags, one tuple a row. Relevance is as in :class:`evaluation.relevance.Relevance`.
    A document of the database may be without labels: it is ranked, and relevant to nothing. A
    query that also is a document of the database finds itself.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric.
        EvaluationError: if the shapes do not fit, there are no queries, a query has no label, or
            no document has one.
    """
    chosen = parse_metrics(metrics)
    _check_rows(query_codes, query_labels, "query")
    _check_rows(database_codes, database_labels, "database")
    check_labels(query_labels, database_labels)
    if query_codes.shape[1] != database_codes.shape[1]:
        message = (
            f"query codes have {query_codes.shape[1] * 8} bits and database codes"
            f" {database_codes.shape[1] * 8}; they must come from one encoder"
        )
        raise EvaluationError(message)
    relevance = Relevance(query_labels, database_labels)
    counts = DistanceCounts(database_codes, relevance)
    index = DistinctIndex(database_codes, np.arange(len(database_codes), dtype=np.int64))
    return Evaluation(
        per_query=_measure_served(chosen, index, query_codes, relevance),
        expected_per_query=_measure_expected(chosen, counts, query_codes, relevance),
        queries=len(query_codes),
        documents=len(database_codes),
        queries_without_relevant=relevance.count_queries_without_relevant(),
        distinct_codes=counts.n_distinct,
    )


def evaluate_encoder(
    encoder: Encoder,
    database: Labelled,
    queries: Labelled,
    metrics: Iterable[str] = DEFAULT_METRICS,
) -> Evaluation:
    """Encode `database` and `queries` with `encoder` and evaluate their codes.

    Raises:
        MetricError, EvaluationError: as :func:`evaluate_codes`.
        InputError: if the encoder does not take such inputs.
    """
    chosen = [metric.name for metric in parse_metrics(metrics)]
    check_labels(queries.labels, database.labels)
    query_codes, codes = encoder.encode(queries.inputs), encoder.encode(database.inputs)
    return evaluate_codes(query_codes, queries.labels, codes, database.labels, chosen)


def evaluate_collection(
    collection: Collection,
    queries: Sequence[Document],
    metrics: Iterable[str] = DEFAULT_METRICS,
    label_field: str = "label",
) -> Evaluation:
    """Evaluate the codes of `collection` against `queries`, documents whose labels are known.

    The labels of the collection's documents are those of their payload's `label_field`; see
    :meth:`index.collection.Collection.labelled_codes`. A query's labels are its own or, where it
    has none, those of the same field of its payload. Its text, vector or code is searched with;
    its id is not looked at. The rest is as in :func:`evaluate_codes`.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric.
        EvaluationError: if there are no queries, a query has no label, the collection is empty or
            none of its documents has a label.
        InputError: if a query is nothing that the collection's encoder takes, or `label_field`
            holds something else than labels in some document.
    """
    chosen = [metric.name for metric in parse_metrics(metrics)]
    asked_labels = query_labels(queries, label_field)
    codes, labels = collection.labelled_codes(label_field)
    check_labels(asked_labels, labels)
    query_codes = collection.encode_queries(
        [Query(text=query.text, vector=query.vector, code=query.code) for query in queries]
    )
    return evaluate_codes(query_codes, asked_labels, codes, labels, chosen)


def query_labels(queries: Sequence[Document], label_field: str = "label") -> list[LabelSet]:
    """Return the labels of each query: its own or, where it has none, its payload's.

    Raises:
        InputError: if the payload's `label_field` holds something else than labels.
    """
    return [query.labels or labels_of(query.payload, label_field) for query in queries]


def _measure_served(
    metrics: list[Metric], index: DistinctIndex, query_codes: Codes, relevance: Relevance
) -> dict[str, PerQuery]:
    depth = min(max(metric.k for metric in metrics), len(index))
    values = {metric.name: np.empty(len(query_codes)) for metric in metrics}
    for block in row_blocks(len(query_codes), max(depth, relevance.n_document_sets)):
        lists = _as_table(index.search(query_codes[block], depth))
        relevant = relevance.relevant(relevance.query_sets[block], lists)
        for metric in metrics:
            values[metric.name][block] = measure(metric, relevant)
    return values


def _measure_expected(
    metrics: list[Metric], counts: DistanceCounts, query_codes: Codes, relevance: Relevance
) -> dict[str, PerQuery]:
    values = {metric.name: np.empty(len(query_codes)) for metric in metrics}
    depth = max(metric.k for metric in metrics)
    for block in row_blocks(len(query_codes), depth + query_codes.shape[1] * 8):
        at_distance = counts.count(query_codes[block], relevance.query_sets[block])
        for metric in metrics:
            values[metric.name][block] = expect(metric, *at_distance)
    return values


def _as_table(found: list[Neighbours]) -> Ids:
    """Stack lists of one length, which lists without a radius have; int64[Q, k]."""
    table: npt.NDArray[np.int64] = np.stack([neighbours.rows for neighbours in found])
    return table


def _check_rows(codes: Codes, labels: Sequence[LabelSet], whose: str) -> None:
    if codes.dtype != np.uint8 or codes.ndim != 2:
        message = f"{whose} codes are {codes.dtype}{codes.shape}; they must be uint8[N, code_size]"
        raise EvaluationError(message)
    if len(codes) != len(labels):
        message = f"{whose}: {len(codes):,} codes and {len(labels):,} labels; there must be as many"
        raise EvaluationError(message)
