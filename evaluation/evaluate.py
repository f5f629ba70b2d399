"""Evaluates codes, scores, collections and runs with labelled or judged queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import Codes, codes_from_hex
from hummingbit.encoder.encoder import Content, Encoder
from hummingbit.evaluation.metrics import (
    DEFAULT_METRICS,
    Metric,
    MetricError,
    RankedLists,
    measure,
    parse_metrics,
)
from hummingbit.evaluation.relevance import (
    Ids,
    Labelled,
    LabelSet,
    Relevance,
    check_labels,
    duplicates,
    find_encoded_ids,
    name_some,
    relevance_by_hierarchy,
    relevance_by_label,
    relevance_by_qrels,
)
from hummingbit.evaluation.result import Evaluation, EvaluationError, row_blocks
from hummingbit.evaluation.ties import (
    Counts,
    DistanceCounts,
    TieGroups,
    best,
    ceiling,
    expect,
    worst,
)
from hummingbit.foundation.errors import InputError, counted
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.engines.choice import build
from hummingbit.index.engines.protocol import CodeIndex
from hummingbit.index.query_syntax import PLAIN
from hummingbit.index.records import EncodedQueries, Query, StoredDocument, labels_of


class _Values:
    """The values of each metric for each query: as served, tie-averaged, and their extremes."""

    def __init__(self, metrics: list[Metric], n_queries: int) -> None:
        self._metrics, self._n_queries = metrics, n_queries
        self._served, self._expected, self._best, self._worst, self._ceiling = (
            {metric.name: np.empty(n_queries) for metric in metrics} for _ in range(5)
        )

    def measure(self, block: slice, lists: RankedLists, ties: TieGroups) -> None:
        """Measure the lists of the queries of a block, and the orders of their tied documents."""
        for metric in self._metrics:
            expected = expect(metric, ties)
            # A metric of distances alone does not depend on the order of ties.
            served = expected if metric.needs_codes else measure(metric, lists)
            self._served[metric.name][block] = served
            self._expected[metric.name][block] = expected
            self._best[metric.name][block] = best(metric, ties)
            self._worst[metric.name][block] = worst(metric, ties)
            self._ceiling[metric.name][block] = ceiling(metric, ties)

    def evaluation(self, **others: Any) -> Evaluation:
        """Return the result, with the `others` of its fields."""
        return Evaluation(
            per_query=self._served,
            expected_per_query=self._expected,
            best_per_query=self._best,
            worst_per_query=self._worst,
            ceiling_per_query=self._ceiling,
            queries=self._n_queries,
            **others,
        )


# Rankings by a real-valued score, of baselines without codes or of codes


Scores = npt.NDArray[np.floating]


def evaluate_scores(
    score_blocks: Iterable[Scores],
    query_labels: Sequence[LabelSet],
    database_labels: Sequence[LabelSet],
    metrics: Iterable[str] = DEFAULT_METRICS,
) -> Evaluation:
    """Rank the database for every query by score and measure the lists by shared labels.

    The same as :func:`evaluate_by_score`, with relevance by label.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric, or needs Hamming distances.
        EvaluationError: if the blocks do not add up to [Q, N], a score is NaN, there are no
            queries, a query has no label, or no document has one.
    """
    names = [metric.name for metric in _parse_metrics(metrics)]
    check_labels(query_labels, database_labels)
    relevance = relevance_by_label(query_labels, database_labels)
    return evaluate_by_score(score_blocks, relevance, names)


def evaluate_by_score(
    score_blocks: Iterable[Scores],
    relevance: Relevance,
    metrics: Iterable[str] = DEFAULT_METRICS,
    *,
    self_rows: Ids | None = None,
    query_ids: Sequence[str] = (),
    notes: Sequence[str] = (),
    warning: str | None = None,
) -> Evaluation:
    """Rank the database for every query by (score descending, row) and measure the lists.

    `score_blocks` yields the scores of consecutive queries for the whole database, float[q, N] a
    block. A block may have any number of queries, so the whole table need not be in memory.
    Documents of exactly equal score are tied. A document of score −∞ is not found: it is in no
    list, but still counts among the relevant documents. `self_rows`, int64[Q], is the row of the
    document that is the query itself, or -1 if there is none; it is neither ranked nor counted.
    `notes` and `warning` are copied to the result.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric, or needs Hamming distances.
        EvaluationError: if the blocks do not add up to [Q, N], or a score is NaN.
    """
    parsed_metrics = _parse_metrics(metrics)
    n_queries, n_documents = len(relevance.query_sets), len(relevance.document_sets)
    depth = max(metric.depth(n_documents) for metric in parsed_metrics)
    values = _Values(parsed_metrics, n_queries)
    n_without_relevant = start = 0
    for scores in score_blocks:
        block = slice(start, start + len(scores))
        _check_block(scores, block, n_queries, n_documents)
        sets = relevance.query_sets[block]
        block_self_rows = np.full(len(scores), -1) if self_rows is None else self_rows[block]
        is_self = block_self_rows[:, None] == np.arange(n_documents)
        other_scores = np.where(is_self, -np.inf, scores)
        rankings = [_rank(row, depth) for row in other_scores]
        ties = _count_ties(other_scores, rankings, sets, relevance, block_self_rows)
        lists = RankedLists(
            _grade_lists(rankings, depth, sets, relevance),
            ties.totals,
            ties.levels,
            ties.relevant_from,
        )
        n_without_relevant += int((ties.n_relevant == 0).sum())
        values.measure(block, lists, ties)
        start = block.stop
    if start != n_queries:
        message = f"score_blocks has scores of {start:,} queries; there are {n_queries:,} queries"
        raise EvaluationError(message)
    return values.evaluation(
        documents=n_documents,
        queries_without_relevant=n_without_relevant,
        query_ids=tuple(query_ids),
        notes=tuple(notes),
        warning=warning,
    )


def _parse_metrics(metrics: Iterable[str]) -> list[Metric]:
    parsed_metrics = parse_metrics(metrics)
    for metric in parsed_metrics:
        if metric.needs_codes:
            message = f"{metric.name} is defined by Hamming distances; scores have none"
            raise MetricError(message)
    return parsed_metrics


def _rank(scores: Scores, depth: int) -> Ids:
    """Return the first `depth` documents in order, and all that are tied with the last of them."""
    n = len(scores)
    worst = np.partition(scores, n - depth)[n - depth]
    candidates = np.flatnonzero((scores >= worst) & (scores > -np.inf))
    # The sort is stable and the candidates ascend, so ties are ordered by row.
    return candidates[np.argsort(-scores[candidates], kind="stable")]


def _grade_lists(rankings: list[Ids], depth: int, query_sets: Ids, relevance: Relevance) -> Counts:
    """Return the grades of the first `depth` of each ranking, int64[q, depth], padded with 0."""
    rows = np.zeros((len(rankings), depth), dtype=np.int64)
    lengths = np.array([min(depth, len(ranking)) for ranking in rankings])
    for line, ranking, length in zip(rows, rankings, lengths, strict=True):
        line[:length] = ranking[:length]
    grades: Counts = relevance.grade_lists(query_sets, rows)
    return np.where(np.arange(depth) < lengths[:, None], grades, 0)


def _count_ties(
    scores: Scores, rankings: list[Ids], query_sets: Ids, relevance: Relevance, self_rows: Ids
) -> TieGroups:
    """Count the documents, and those of each grade, in each group of ties, best group first.

    Every ranking ends with a whole group. `self_rows` has the row of the query itself, or -1.
    """
    counts, graded = [], []
    totals = relevance.totals(query_sets).copy()
    table = relevance.grades(query_sets).toarray()
    for query in np.flatnonzero(self_rows >= 0):
        grade = table[query, relevance.document_sets[self_rows[query]]]
        totals[query] -= relevance.levels == grade
    for row, ranking, grades_of_sets in zip(scores, rankings, table, strict=True):
        group = np.cumsum(np.diff(row[ranking], prepend=row[ranking[:1]]) != 0)
        grades = grades_of_sets[relevance.document_sets[ranking]]
        counts.append(np.bincount(group))
        graded.append(
            np.stack(
                [
                    np.bincount(group[grades == level], minlength=len(counts[-1]))
                    for level in relevance.levels
                ],
                axis=1,
            )
        )
    return TieGroups(
        n=_stack(counts),
        by_grade=_stack(graded),
        levels=relevance.levels,
        totals=totals,
        relevant_from=relevance.relevant_from,
    )


def _stack(lists: list[Counts]) -> Counts:
    """Stack lists of unequal length, padded with zeros."""
    table = np.zeros((len(lists), max(map(len, lists)), *lists[0].shape[1:]), dtype=np.int64)
    for line, values in zip(table, lists, strict=True):
        line[: len(values)] = values
    return table


def _check_block(scores: Scores, block: slice, n_queries: int, n_documents: int) -> None:
    if scores.ndim != 2 or scores.shape[1] != n_documents or not 1 <= block.stop <= n_queries:
        message = (
            f"the block of scores from query {block.start} on has shape {list(scores.shape)}; it"
            f" must be [q, {n_documents}], for {n_queries} queries in all"
        )
        raise EvaluationError(message)
    if np.isnan(scores).any():
        message = f"scores of queries {block.start} to {block.stop - 1} contain NaN"
        raise EvaluationError(message)


# Rankings by Hamming distance


def evaluate_ranking(
    query_codes: Codes,
    database_codes: Codes,
    relevance: Relevance,
    metrics: Iterable[str] = DEFAULT_METRICS,
    *,
    self_rows: Ids | None = None,
    query_ids: Sequence[str] = (),
    notes: Sequence[str] = (),
    warning: str | None = None,
    index: Callable[[], CodeIndex] | None = None,
) -> Evaluation:
    """Rank the database for every query by (Hamming distance, row) and measure by `relevance`.

    `self_rows`, int64[Q], is the row of the document that is the query itself, -1 if there is none.
    That document is neither ranked nor counted for its query. `query_ids` names the queries.
    `notes` and `warning` are copied to the result. `index` returns an index of the `database_codes`
    by row; if it is not passed, an index is built.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric.
        EvaluationError: if the shapes do not fit.
    """
    parsed_metrics = parse_metrics(metrics)
    _check_shapes(query_codes, database_codes, relevance, self_rows)
    code_index = build_index(database_codes) if index is None else index()
    ranking = _Ranking(query_codes, database_codes, relevance, self_rows, code_index)
    values = _measure_codes(parsed_metrics, ranking)
    without = np.flatnonzero(ranking.n_relevant == 0)
    names = [query_ids[row] if query_ids else str(row) for row in without.tolist()]
    queries = counted(len(without), "query", "queries")
    note = f"{queries} without a relevant document, scored as 0: {name_some(names)}"
    return values.evaluation(
        documents=len(database_codes),
        queries_without_relevant=len(without),
        distinct_codes=ranking.counts.n_distinct,
        query_ids=tuple(query_ids),
        notes=(*notes, note) if len(without) else tuple(notes),
        warning=warning,
    )


def check_rows(codes: Codes, labels: Sized, whose: str) -> None:
    """Check that `codes` are packed codes, one for each of `labels`.

    Raises:
        EvaluationError: if they are not. `whose` is what the message calls them.
    """
    if codes.dtype != np.uint8 or codes.ndim != 2:
        message = f"{whose} codes are {codes.dtype}{codes.shape}; they must be uint8[N, code_size]"
        raise EvaluationError(message)
    if len(codes) != len(labels):
        found = f"{len(codes):,} codes and {len(labels):,} label sets"
        raise EvaluationError(f"{whose}: there are {found}; the numbers must be equal")


def build_index(codes: Codes) -> CodeIndex:
    """Return an index whose hits are rows of `codes`."""
    return build(codes, np.arange(len(codes), dtype=np.int64)).code_index


class _Ranking:
    """The rankings of the database, computed for blocks of queries."""

    def __init__(
        self,
        query_codes: Codes,
        codes: Codes,
        relevance: Relevance,
        self_rows: Ids | None,
        index: CodeIndex,
    ) -> None:
        self.query_codes, self.relevance, self._self_rows = query_codes, relevance, self_rows
        self.counts = DistanceCounts(codes, relevance)
        self.n_relevant = np.zeros(len(query_codes), dtype=np.int64)
        self.n_documents = len(codes)
        self._index = index

    def groups(self, block: slice) -> TieGroups:
        """Count the documents at each distance, and record how many are relevant."""
        self_rows = None if self._self_rows is None else self._self_rows[block]
        sets = self.relevance.query_sets[block]
        groups = self.counts.count(self.query_codes[block], sets, self_rows)
        self.n_relevant[block] = groups.n_relevant
        return groups

    def lists(self, block: slice, depth: int, groups: TieGroups) -> RankedLists:
        """Return the first `depth` documents or more of each ranking, without the query itself."""
        codes, relevance = self.query_codes[block], self.relevance
        if depth == 0:
            rows = np.empty((len(codes), 0), dtype=np.int64)
        elif depth == self.n_documents:
            rows = self.counts.rank_all(codes)
        else:
            nearest = self._index.search(codes, depth + (self._self_rows is not None))
            rows = np.stack([neighbours.rows for neighbours in nearest])
        grades = relevance.grade_lists(relevance.query_sets[block], rows)
        if self._self_rows is not None:
            is_self = rows == self._self_rows[block, None]
            # The query itself moves to the end of the list, where grade 0 changes nothing.
            order = np.argsort(is_self, axis=1, kind="stable")
            grades = np.take_along_axis(np.where(is_self, 0, grades), order, axis=1)
        return RankedLists(grades, groups.totals, groups.levels, groups.relevant_from)


def _measure_codes(metrics: list[Metric], ranking: _Ranking) -> _Values:
    n_queries = len(ranking.query_codes)
    values = _Values(metrics, n_queries)
    depth = max(metric.depth(ranking.n_documents) for metric in metrics)
    n_levels = len(ranking.relevance.levels) + 1
    width = max(depth, ranking.relevance.n_document_sets)
    group_entries = ranking.query_codes.shape[1] * 8 * n_levels**2
    for block in row_blocks(n_queries, width + group_entries):
        groups = ranking.groups(block)
        values.measure(block, ranking.lists(block, depth, groups), groups)
    return values


def _check_shapes(
    query_codes: Codes, codes: Codes, relevance: Relevance, self_rows: Ids | None
) -> None:
    check_rows(query_codes, relevance.query_sets, "query")
    check_rows(codes, relevance.document_sets, "database")
    if query_codes.shape[1] != codes.shape[1]:
        message = (
            f"query codes have {query_codes.shape[1] * 8} bits and database codes"
            f" {codes.shape[1] * 8}; they must come from the same encoder"
        )
        raise EvaluationError(message)
    if self_rows is None:
        return
    if (
        self_rows.shape != (len(query_codes),)
        or not ((self_rows >= -1) & (self_rows < len(codes))).all()
    ):
        message = "self_rows must hold a row of the database, or -1, for each query"
        raise EvaluationError(message)


# Codes or a collection, with labelled or judged queries


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
    deep or more; see :mod:`hummingbit.evaluation.relevance`. A document without labels is ranked,
    and relevant to no query. `self_rows` is as in
    :func:`hummingbit.evaluation.evaluate.evaluate_ranking`; without it, a query that is also a
    document of the database finds itself.

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
    keep_learned: bool = False,
) -> Evaluation:
    """Encode `database` and `queries` with `encoder` and evaluate their codes.

    Texts of `queries` are encoded as queries, without correction of their spelling. Queries that
    the encoder learned from are left out as :func:`split_learned` says, unless `keep_learned`
    asks for all, as the protocol of a paper does.

    Raises:
        MetricError, EvaluationError: as :func:`evaluate_codes`.
        InputError: if the encoder does not take such inputs.
    """
    names = [metric.name for metric in parse_metrics(metrics)]
    check_labels(queries.labels, database.labels)
    queries, learned = (queries, Learned()) if keep_learned else unseen(encoder, queries)
    query_codes = encoder.encode_uncorrected_queries(queries.inputs)
    codes = encoder.encode(database.inputs)
    evaluation = evaluate_codes(
        query_codes,
        queries.labels,
        codes,
        database.labels,
        names,
        hierarchy=hierarchy,
        relevant_from=relevant_from,
    )
    notes = (*learned.notes, *evaluation.notes)
    return replace(evaluation, notes=notes, warning=learned.warning)


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
            label or no document has one; by qrels, as
            :func:`hummingbit.evaluation.relevance.relevance_by_qrels`; or both `hierarchy` and
            `qrels` are set.
        InputError: if the collection's encoder does not accept a query, or the `label_field` of a
            document holds something other than labels.
    """
    names = [metric.name for metric in parse_metrics(metrics)]
    queries, learned = unseen_queries(collection, queries)
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
    if collection.encoder is None:
        for query in queries:
            if query.vector is None and query.code is None:
                message = f"of the query {query.id!r} cannot be compared with codes; add a code"
                raise InputError("text", message)
    query_codes = encode_queries(collection, queries).codes
    self_rows = rows_of(query_ids, stored.ids) if exclude_self else None
    return evaluate_ranking(
        query_codes,
        stored.codes,
        relevance,
        names,
        self_rows=self_rows,
        query_ids=query_ids,
        notes=[*learned.notes, *notes],
        warning=learned.warning,
    )


# Queries that the encoder learned from


class Learned(NamedTuple):
    """What an evaluation says about queries that the encoder learned from.

    `warning` is set if it learned from all of them; `notes` say how many were left out otherwise.
    """

    notes: tuple[str, ...] = ()
    warning: str | None = None


def split_learned(learned: npt.NDArray[np.bool_]) -> tuple[list[int], Learned]:
    """Return which queries to evaluate, given which the encoder learned from, bool[Q].

    These are the others. If there are no others, all are evaluated, with a warning.
    """
    n, rows = len(learned), np.flatnonzero(~learned).tolist()
    if len(rows) == n:
        return rows, Learned()
    if rows:
        left_out = counted(n - len(rows), "query", "queries")
        note = f"left out {left_out} of {n:,}: the encoder learned from these documents"
        return rows, Learned((note,))
    all_of = "the query" if n == 1 else f"all {n:,} queries"
    warning = (
        f"values of training data: the encoder learned from {all_of}; other queries will score"
        " lower"
    )
    return list(range(n)), Learned((), warning)


def unseen(encoder: Encoder, queries: Labelled) -> tuple[Labelled, Learned]:
    """Return the queries that the encoder did not learn from, as :func:`split_learned` says."""
    rows, learned = split_learned(encoder.learned.contain(queries.inputs))
    return queries if len(rows) == len(queries) else queries.take(rows), learned


def unseen_queries(
    collection: CollectionBackend,
    queries: Sequence[Document],
    documents: Sequence[StoredDocument] | None = None,
) -> tuple[list[Document], Learned]:
    """Return the queries that the collection's encoder did not learn from.

    All of them are returned if it learned from all; see :func:`split_learned`. `documents` are
    those of the collection, if they were read before. A query that is only a code is taken for one
    that it did not learn from.
    """
    encoder = collection.encoder
    if encoder is None or not encoder.learned or not queries:
        return list(queries), Learned()

    def content(document: Document | StoredDocument) -> Content | None:
        return document.text if encoder.kind == "text" else document.vector

    stored: list[tuple[str, Content | None]] = []
    if encoder.kind == "vector" or not len(encoder.learned.hashes):
        if documents is None:
            ids = collection.existing_ids(sorted(encoder.learned.labelled_ids))
            documents = [document for id_ in ids if (document := collection.get(id_)) is not None]
        stored = [(document.id, content(document)) for document in documents]
    is_learned = encoder.learned.contain(map(content, queries), stored)
    rows, learned = split_learned(is_learned)
    return [queries[row] for row in rows], learned


def encode_queries(collection: CollectionBackend, queries: Sequence[Document]) -> EncodedQueries:
    """Encode the text, vector or code of each query as a search of the collection does.

    Raises:
        InputError: if the collection's encoder does not accept a query.
    """
    encoded = [Query(text=query.text, vector=query.vector, code=query.code) for query in queries]
    return collection.encode_queries(encoded, PLAIN)


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
        codes[start : start + len(some)] = codes_from_hex(
            [document.code for document in some], n_bits
        )
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
    n_unlabelled = sum(not label_set for label_set in labels)
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


# A TREC run, the ranked lists of any system, by qrels


Table = npt.NDArray[np.int64]


def evaluate_run(
    run: Mapping[str, Mapping[str, float]],
    qrels: Mapping[str, Mapping[str, int]],
    metrics: Iterable[str] = DEFAULT_METRICS,
    relevant_from: int = 1,
) -> Evaluation:
    """Measure the lists of `run` for every query that `qrels` judge.

    Documents are ranked by descending score. Those of equal score are tied, and served in the order
    of the run. A document that was not retrieved has no rank, but counts among all relevant
    documents. A judged query without a list scores 0, and a list for a query without judgements is
    ignored. The notes count and name both.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric, or needs Hamming distances.
        EvaluationError: if the run has no list for any judged query, no judgement has a grade from
            `relevant_from` on, or a score is NaN.
    """
    parsed_metrics = parse_metrics(metrics)
    for metric in parsed_metrics:
        if metric.needs_codes:
            message = f"{metric.name} is defined by Hamming distances; a run has none"
            raise MetricError(message)
    retrieved = {document for scores in run.values() for document in scores}
    qrels = find_encoded_ids(qrels, run, retrieved)
    query_ids = [query for query, graded in qrels.items() if graded]
    if not any(query in run for query in query_ids):
        message = "the run has no list for any query of the qrels; they do not belong together"
        raise EvaluationError(message)
    grades = {grade for graded in qrels.values() for grade in graded.values() if grade > 0}
    if max(grades, default=0) < relevant_from or relevant_from < 1:
        message = f"no judgement has a grade of {relevant_from} or more; nothing is relevant"
        raise EvaluationError(message)
    lists, groups = _rank_lists(run, qrels, query_ids, np.array(sorted(grades)), relevant_from)
    n_relevant = groups.n_relevant
    return Evaluation(
        per_query={metric.name: measure(metric, lists) for metric in parsed_metrics},
        expected_per_query={metric.name: expect(metric, groups) for metric in parsed_metrics},
        best_per_query={metric.name: best(metric, groups) for metric in parsed_metrics},
        worst_per_query={metric.name: worst(metric, groups) for metric in parsed_metrics},
        ceiling_per_query={metric.name: ceiling(metric, groups) for metric in parsed_metrics},
        queries=len(query_ids),
        documents=len(retrieved),
        queries_without_relevant=int((n_relevant == 0).sum()),
        query_ids=tuple(query_ids),
        notes=_oddities(run, query_ids, n_relevant),
    )


def _rank_lists(
    run: Mapping[str, Mapping[str, float]],
    qrels: Mapping[str, Mapping[str, int]],
    query_ids: list[str],
    levels: Table,
    relevant_from: int,
) -> tuple[RankedLists, TieGroups]:
    longest = max(1, *(len(run.get(query, {})) for query in query_ids))
    grades = np.zeros((len(query_ids), longest), dtype=np.int64)
    n = np.zeros((len(query_ids), longest), dtype=np.int64)
    by_grade = np.zeros((len(query_ids), longest, len(levels)), dtype=np.int64)
    totals = np.zeros((len(query_ids), len(levels)), dtype=np.int64)
    for row, query in enumerate(query_ids):
        judged_grades = np.array(list(qrels[query].values()))
        totals[row] = (judged_grades[:, None] == levels).sum(axis=0)
        retrieved = run.get(query, {})
        scores = np.array(list(retrieved.values()), dtype=np.float64)
        if np.isnan(scores).any():
            message = f"a score of query {query!r} is NaN; every score must be a number"
            raise EvaluationError(message)
        order = np.argsort(-scores, kind="stable")
        list_grades = np.array(
            [qrels[query].get(document, 0) for document in retrieved], dtype=np.int64
        )[order]
        grades[row, : len(order)] = list_grades
        group = np.cumsum(np.diff(scores[order], prepend=scores[order[:1]]) != 0)
        np.add.at(n[row], group, 1)
        np.add.at(by_grade[row], group, list_grades[:, None] == levels)
    return (
        RankedLists(grades, totals, levels, relevant_from),
        TieGroups(n, by_grade, levels, totals, relevant_from),
    )


def _oddities(
    run: Mapping[str, Mapping[str, float]], query_ids: list[str], n_relevant: Table
) -> tuple[str, ...]:
    judged = set(query_ids)
    unjudged = [query for query in run if query not in judged]
    missing = [query for query in query_ids if query not in run]
    without_relevant = [q for q, count in zip(query_ids, n_relevant, strict=True) if not count]
    sentences = {
        "of the run without a judgement, ignored": unjudged,
        "with judgements but not in the run, scored as 0": missing,
        "without a relevant document, scored as 0": without_relevant,
    }
    return tuple(
        f"{counted(len(ids), 'query', 'queries')} {what}: {name_some(ids)}"
        for what, ids in sentences.items()
        if ids
    )
