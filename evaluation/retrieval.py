"""Evaluate codes, or a collection, against queries whose labels are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from corpus.document import Document
from encoder.codes import Codes, code_from_hex
from encoder.encoder import Encoder
from evaluation.code_rankings import check_rows, evaluate_ranking
from evaluation.metrics.metric_names import DEFAULT_METRICS, parse_metrics
from evaluation.qrels import duplicates, name_some, relevance_by_qrels
from evaluation.relevance import (
    Ids,
    Labelled,
    LabelSet,
    Relevance,
    check_labels,
    relevance_by_hierarchy,
    relevance_by_label,
)
from evaluation.result import Evaluation, EvaluationError
from index.backend import CollectionBackend
from index.payload_labels import labels_of
from index.records import EncodedQueries, Query, StoredDocument


def evaluate_codes(
    query_codes: Codes,
    query_labels: Sequence[LabelSet],
    database_codes: Codes,
    database_labels: Sequence[LabelSet],
    metrics: Iterable[str] = DEFAULT_METRICS,
    *,
    hierarchy: bool = False,
    relevant_from: int = 1,
    self_rows: Ids | None = None,
) -> Evaluation:
    """Rank the database for every query by (Hamming distance, row) and measure the lists.

    `query_codes` is uint8[Q, code_size] and `database_codes` uint8[N, code_size]; labels are
    tuples of tags, one tuple a row. A document is relevant to a query when they share a tag or,
    with `hierarchy`, by the depth of the common prefix of their tags, from the depth
    `relevant_from` on; see :mod:`evaluation.relevance`. A document of the database may be without
    labels: it is ranked, and relevant to nothing. `self_rows` is as in
    :func:`evaluation.code_rankings.evaluate_ranking`; without it a query that also is a document
    of the database finds itself.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric.
        EvaluationError: if the shapes do not fit, there are no queries, a query has no label, no
            document has one, `relevant_from` is below 1 or set without `hierarchy`.
    """
    chosen = [metric.name for metric in parse_metrics(metrics)]
    check_rows(query_codes, query_labels, "query")
    check_rows(database_codes, database_labels, "database")
    check_labels(query_labels, database_labels)
    relevance = _by_labels(query_labels, database_labels, hierarchy, relevant_from)
    return evaluate_ranking(query_codes, database_codes, relevance, chosen, self_rows=self_rows)


def evaluate_encoder(
    encoder: Encoder,
    database: Labelled,
    queries: Labelled,
    metrics: Iterable[str] = DEFAULT_METRICS,
    *,
    hierarchy: bool = False,
    relevant_from: int = 1,
) -> Evaluation:
    """Encode `database` and `queries` with `encoder` and evaluate their codes.

    Queries are encoded as queries, but their words are taken as they are.

    Raises:
        MetricError, EvaluationError: as :func:`evaluate_codes`.
        InputError: if the encoder does not take such inputs.
    """
    chosen = [metric.name for metric in parse_metrics(metrics)]
    check_labels(queries.labels, database.labels)
    query_codes = encoder.encode_uncorrected_queries(queries.inputs)
    codes = encoder.encode(database.inputs)
    return evaluate_codes(
        query_codes,
        queries.labels,
        codes,
        database.labels,
        chosen,
        hierarchy=hierarchy,
        relevant_from=relevant_from,
    )


def evaluate_collection(
    collection: CollectionBackend,
    queries: Sequence[Document],
    metrics: Iterable[str] = DEFAULT_METRICS,
    label_field: str = "label",
    *,
    qrels: Mapping[str, Mapping[str, int]] | None = None,
    hierarchy: bool = False,
    relevant_from: int = 1,
    exclude_self: bool = False,
) -> Evaluation:
    """Evaluate the codes of `collection` against `queries`.

    Documents are relevant by label as in :func:`evaluate_codes` or, with `qrels` (grades by query
    id and document id), as judged; then labels are not looked at. The labels of the collection's
    documents are those of their payload's `label_field`; a query's labels are its own or, where it
    has none, those of the same field of its payload. Its text, vector or code is searched with.

    With `exclude_self` a query does not find the stored document that has its id.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric.
        EvaluationError: if there are no queries, the collection is empty, by label a query has no
            label or none of the documents has one, by qrels as
            :func:`evaluation.qrels.relevance_by_qrels`, or `hierarchy` is set beside `qrels`.
        InputError: if a query is nothing that the collection's encoder takes, or `label_field`
            holds something else than labels in some document.
    """
    chosen = [metric.name for metric in parse_metrics(metrics)]
    query_ids = [query.id for query in queries]
    stored = _read_stored(collection, label_field, ids=qrels is not None or exclude_self)
    relevance, notes = relevance_in(
        stored,
        queries,
        label_field,
        qrels=qrels,
        hierarchy=hierarchy,
        relevant_from=relevant_from,
    )
    query_codes = encode_queries(collection, queries).codes
    self_rows = rows_of(query_ids, stored.ids) if exclude_self else None
    return evaluate_ranking(
        query_codes,
        stored.codes,
        relevance,
        chosen,
        self_rows=self_rows,
        query_ids=query_ids,
        notes=notes,
    )


def encode_queries(collection: CollectionBackend, queries: Sequence[Document]) -> EncodedQueries:
    """Return the text, vector or code of each query as the collection searches with it.

    Raises:
        InputError: if a query is nothing that the collection's encoder takes.
    """
    return collection.encode_queries(
        [Query(text=query.text, vector=query.vector, code=query.code) for query in queries]
    )


def rows_of(query_ids: Sequence[str], stored_ids: Sequence[str]) -> Ids:
    """Return the row of the stored document that has the id of each query, -1 where none has."""
    place = {id_: row for row, id_ in enumerate(stored_ids)}
    return np.array([place.get(id_, -1) for id_ in query_ids], dtype=np.int64)


def query_labels(queries: Sequence[Document], label_field: str = "label") -> list[LabelSet]:
    """Return the labels of each query: its own or, where it has none, its payload's.

    Raises:
        InputError: if the payload's `label_field` holds something else than labels.
    """
    return [query.labels or labels_of(query.payload, label_field) for query in queries]


class StoredDocuments(NamedTuple):
    """The documents of a collection by row; `ids` may be left out where relevance is by label."""

    codes: Codes
    labels: list[LabelSet]
    ids: list[str]


def stored_of(
    documents: Sequence[StoredDocument], n_bits: int, label_field: str
) -> StoredDocuments:
    """Return codes, labels and ids of a collection's documents.

    Raises:
        InputError: if `label_field` holds something else than labels in some document.
    """
    held = [code_from_hex(document.code, n_bits) for document in documents]
    codes = np.stack(held) if held else np.empty((0, n_bits // 8), dtype=np.uint8)
    labels = [labels_of(document.payload, label_field) for document in documents]
    return StoredDocuments(codes, labels, [document.id for document in documents])


def relevance_in(
    stored: StoredDocuments,
    queries: Sequence[Document],
    label_field: str = "label",
    *,
    qrels: Mapping[str, Mapping[str, int]] | None = None,
    hierarchy: bool = False,
    relevant_from: int = 1,
) -> tuple[Relevance, list[str]]:
    """Return what is relevant among `stored`, and a sentence for each oddity.

    Raises:
        EvaluationError: as :func:`evaluate_collection`.
        InputError: if `label_field` holds something else than labels in some query.
    """
    query_ids = [query.id for query in queries]
    if qrels is None:
        asked_labels = query_labels(queries, label_field)
        check_labels(asked_labels, stored.labels)
        relevance = _by_labels(asked_labels, stored.labels, hierarchy, relevant_from)
        twice = duplicates(query_ids)
        notes = [f"{len(twice):,} ids of queries come more than once: {name_some(twice)}"]
        return relevance, notes if twice else []
    if hierarchy:
        message = "hierarchy is set beside qrels; relevance is by one of the two"
        raise EvaluationError(message)
    return relevance_by_qrels(qrels, query_ids, stored.ids, relevant_from)


def _read_stored(collection: CollectionBackend, label_field: str, *, ids: bool) -> StoredDocuments:
    if ids:
        return stored_of(collection.all_documents(), collection.n_bits, label_field)
    return StoredDocuments(*collection.labelled_codes(label_field), [])


def _by_labels(
    query_labels: Sequence[LabelSet],
    database_labels: Sequence[LabelSet],
    hierarchy: bool,
    relevant_from: int,
) -> Relevance:
    if hierarchy:
        return relevance_by_hierarchy(query_labels, database_labels, relevant_from)
    if relevant_from != 1:
        message = f"relevant_from is {relevant_from}; labels that are shared or not have grade 1"
        raise EvaluationError(message)
    return relevance_by_label(query_labels, database_labels)
