"""Evaluate codes, or a collection, with labelled or judged queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from corpus.document import Document
from encoder.codes import Codes, codes_from_hex
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

# Parsing codes holds the interpreter lock until it is done.
CODES_AT_ONCE = 10_000


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

    `query_codes` is uint8[Q, code_size] and `database_codes` uint8[N, code_size]. Labels are tuples
    of tags, one tuple for each row. A document is relevant to a query if they share a tag. With
    `hierarchy`, it is relevant if a prefix that their tags have in common is `relevant_from` levels
    deep or more; see :mod:`evaluation.relevance`. A document without labels is ranked, and relevant
    to no query. `self_rows` is as in :func:`evaluation.code_rankings.evaluate_ranking`; without it,
    a query that is also a document of the database finds itself.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric.
        EvaluationError: if the shapes do not fit, there are no queries, a query has no label, no
            document has one, or `relevant_from` is below 1 or set without `hierarchy`.
    """
    names = [metric.name for metric in parse_metrics(metrics)]
    check_rows(query_codes, query_labels, "query")
    check_rows(database_codes, database_labels, "database")
    check_labels(query_labels, database_labels)
    relevance = _relevance_by_labels(query_labels, database_labels, hierarchy, relevant_from)
    return evaluate_ranking(query_codes, database_codes, relevance, names, self_rows=self_rows)


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

    Texts of `queries` are encoded as queries, without correction of their spelling.

    Raises:
        MetricError, EvaluationError: as :func:`evaluate_codes`.
        InputError: if the encoder does not take such inputs.
    """
    names = [metric.name for metric in parse_metrics(metrics)]
    check_labels(queries.labels, database.labels)
    query_codes = encoder.encode_uncorrected_queries(queries.inputs)
    codes = encoder.encode(database.inputs)
    return evaluate_codes(
        query_codes,
        queries.labels,
        codes,
        database.labels,
        names,
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

    Documents are relevant by label as in :func:`evaluate_codes`. With `qrels` (grades by query id
    and document id), they are relevant as judged, and labels are ignored. The labels of a stored
    document are in the `label_field` of its payload. The labels of a query are its own or, if it
    has none, those in the same field of its payload.

    With `exclude_self`, a query does not find the stored document that has its id.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric.
        EvaluationError: if there are no queries; the collection is empty; by label, a query has no
            label or no document has one; by qrels, as :func:`evaluation.qrels.relevance_by_qrels`;
            or both `hierarchy` and `qrels` are set.
        InputError: if the collection's encoder does not accept a query, or the `label_field` of a
            document holds something other than labels.
    """
    names = [metric.name for metric in parse_metrics(metrics)]
    query_ids = [query.id for query in queries]
    stored = _read_stored_documents(collection, label_field, ids=qrels is not None or exclude_self)
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
        names,
        self_rows=self_rows,
        query_ids=query_ids,
        notes=notes,
    )


def encode_queries(collection: CollectionBackend, queries: Sequence[Document]) -> EncodedQueries:
    """Encode the text, vector or code of each query as a search of the collection does.

    Raises:
        InputError: if the collection's encoder does not accept a query.
    """
    return collection.encode_queries(
        [Query(text=query.text, vector=query.vector, code=query.code) for query in queries]
    )


def rows_of(query_ids: Sequence[str], stored_ids: Sequence[str]) -> Ids:
    """Return the row of the stored document with the id of each query, -1 if there is none."""
    rows = {id_: row for row, id_ in enumerate(stored_ids)}
    return np.array([rows.get(id_, -1) for id_ in query_ids], dtype=np.int64)


def query_labels(queries: Sequence[Document], label_field: str = "label") -> list[LabelSet]:
    """Return the labels of each query: its own or, if it has none, its payload's.

    Raises:
        InputError: if the `label_field` of a payload holds something other than labels.
    """
    return [query.labels or labels_of(query.payload, label_field) for query in queries]


class StoredDocuments(NamedTuple):
    """Codes, labels and ids of a collection by row; `ids` may be empty if labels are enough."""

    codes: Codes
    labels: list[LabelSet]
    ids: list[str]


def to_stored_documents(
    documents: Sequence[StoredDocument], n_bits: int, label_field: str
) -> StoredDocuments:
    """Return codes, labels and ids of a collection's documents.

    Raises:
        InputError: if the `label_field` of a document holds something other than labels.
    """
    codes = np.empty((len(documents), n_bits // 8), dtype=np.uint8)
    for start in range(0, len(documents), CODES_AT_ONCE):
        some = documents[start : start + CODES_AT_ONCE]
        codes[start : start + len(some)] = codes_from_hex([one.code for one in some], n_bits)
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
    """Return the relevance of `stored` documents to `queries`, and a sentence for each oddity.

    Raises:
        EvaluationError: as :func:`evaluate_collection`.
        InputError: if the `label_field` of a query holds something other than labels.
    """
    query_ids = [query.id for query in queries]
    if qrels is None:
        labels = query_labels(queries, label_field)
        check_labels(labels, stored.labels)
        relevance = _relevance_by_labels(labels, stored.labels, hierarchy, relevant_from)
        return relevance, [*_notes_of_ids(query_ids), *_notes_of_labels(stored.labels)]
    if hierarchy:
        message = "hierarchy and qrels are both set; relevance is by one of the two"
        raise EvaluationError(message)
    return relevance_by_qrels(qrels, query_ids, stored.ids, relevant_from)


def _notes_of_ids(query_ids: Sequence[str]) -> list[str]:
    repeated = duplicates(query_ids)
    note = f"{len(repeated):,} query ids occur more than once: {name_some(repeated)}"
    return [note] if repeated else []


def _notes_of_labels(labels: Sequence[LabelSet]) -> list[str]:
    n_unlabelled = sum(not one for one in labels)
    note = (
        f"{n_unlabelled:,} of {len(labels):,} documents have no label, so they count as relevant to"
        " no query, and values are lower than if they had their labels"
    )
    return [note] if n_unlabelled else []


def _read_stored_documents(
    collection: CollectionBackend, label_field: str, *, ids: bool
) -> StoredDocuments:
    if ids:
        return to_stored_documents(collection.all_documents(), collection.n_bits, label_field)
    return StoredDocuments(*collection.labelled_codes(label_field), [])


def _relevance_by_labels(
    query_labels: Sequence[LabelSet],
    database_labels: Sequence[LabelSet],
    hierarchy: bool,
    relevant_from: int,
) -> Relevance:
    if hierarchy:
        return relevance_by_hierarchy(query_labels, database_labels, relevant_from)
    if relevant_from != 1:
        message = f"relevant_from is {relevant_from}; without a hierarchy it must be 1"
        raise EvaluationError(message)
    return relevance_by_label(query_labels, database_labels)
