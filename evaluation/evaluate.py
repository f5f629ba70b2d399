"""Evaluates codes, scores and runs with labelled or judged queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.qrels import check_qrels
from hummingbit.encoder.codes import Codes
from hummingbit.encoder.encoder import Encoder
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
    find_encoded_ids,
    name_some,
    relevance_by_label,
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
from hummingbit.foundation.errors import counted
from hummingbit.index.engines.choice import build
from hummingbit.index.engines.protocol import CodeIndex
from hummingbit.index.maps import DistinctCodes


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
) -> Evaluation:
    """Rank the database for every query by (score descending, row) and measure the lists.

    `score_blocks` yields the scores of consecutive queries for the whole database, float[q, N] a
    block. A block may have any number of queries, so the whole table need not be in memory.
    Documents of exactly equal score are tied. A document of score −∞ is not found: it is in no
    list, but still counts among the relevant documents. `self_rows`, int64[Q], is the row of the
    document that is the query itself, or -1 if there is none; it is neither ranked nor counted.

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
        lists, ties = _rank_scores(
            scores, depth, relevance, block, None if self_rows is None else self_rows[block]
        )
        n_without_relevant += int((ties.n_relevant == 0).sum())
        values.measure(block, lists, ties)
        start = block.stop
    if start != n_queries:
        message = f"score_blocks has scores of {start:,} queries; there are {n_queries:,} queries"
        raise EvaluationError(message)
    return values.evaluation(documents=n_documents, queries_without_relevant=n_without_relevant)


def _parse_metrics(metrics: Iterable[str], why: str = "scores have none") -> list[Metric]:
    parsed_metrics = parse_metrics(metrics)
    for metric in parsed_metrics:
        if metric.needs_codes:
            raise MetricError(f"{metric.name} is defined by Hamming distances; {why}")
    return parsed_metrics


def _rank_scores(
    scores: Scores, depth: int, relevance: Relevance, block: slice, self_rows: Ids | None
) -> tuple[RankedLists, TieGroups]:
    """Rank the database for a block of queries; `self_rows` has the row of the query, or -1."""
    query_sets = relevance.query_sets[block]
    totals, table = relevance.totals(query_sets), relevance.grades(query_sets).toarray()
    if self_rows is not None:
        scores = np.where(self_rows[:, None] == np.arange(scores.shape[1]), -np.inf, scores)
        totals = totals.copy()
        for query in np.flatnonzero(self_rows >= 0):
            own_grade = table[query, relevance.document_sets[self_rows[query]]]
            totals[query] -= relevance.levels == own_grade
    ranked = []
    for row, grades_of_sets in zip(scores, table, strict=True):
        rows = _first_rows(row, depth)
        ranked.append((row[rows], grades_of_sets[relevance.document_sets[rows]]))
    return _lists_and_ties(ranked, depth, relevance.levels, totals, relevance.relevant_from)


def _first_rows(scores: Scores, depth: int) -> Ids:
    """Return the first `depth` documents in order, and all that are tied with the last of them."""
    n = len(scores)
    worst = np.partition(scores, n - depth)[n - depth]
    candidates = np.flatnonzero((scores >= worst) & (scores > -np.inf))
    # The sort is stable and the candidates ascend, so ties are ordered by row.
    return candidates[np.argsort(-scores[candidates], kind="stable")]


def _lists_and_ties(
    ranked: Sequence[tuple[Scores, Counts]],
    depth: int,
    levels: Counts,
    totals: Counts,
    relevant_from: int,
) -> tuple[RankedLists, TieGroups]:
    """Return the first `depth` grades of each query, and its groups of documents of equal score.

    `ranked` has the scores and grades of each query's documents, best first, and ends with a whole
    group. `totals`, int64[Q, G], counts the documents of each of the grades `levels` in all.
    """
    counts, graded = [], []
    for scores, grades in ranked:
        group = np.cumsum(np.diff(scores, prepend=scores[:1]) != 0)
        counts.append(np.bincount(group))
        graded.append(
            np.stack(
                [
                    np.bincount(group[grades == level], minlength=len(counts[-1]))
                    for level in levels
                ],
                axis=1,
            )
        )
    lists = np.zeros((len(ranked), depth), dtype=np.int64)
    for line, (_, grades) in zip(lists, ranked, strict=True):
        line[: len(grades)] = grades[:depth]
    return (
        RankedLists(lists, totals, levels, relevant_from),
        TieGroups(_stack(counts), _stack(graded), levels, totals, relevant_from),
    )


def _stack(lists: list[Counts]) -> Counts:
    """Stack lists of unequal length, padded with zeros."""
    table = np.zeros((len(lists), max(map(len, lists)), *lists[0].shape[1:]), dtype=np.int64)
    for line, values in zip(table, lists, strict=True):
        line[: len(values)] = values
    return table


def _check_block(scores: Scores, block: slice, n_queries: int, n_documents: int) -> None:
    if scores.ndim != 2 or scores.shape[1] != n_documents or not 1 <= block.stop <= n_queries:
        raise EvaluationError(
            f"the block of scores from query {block.start} on has shape {list(scores.shape)}; it"
            f" must be [q, {n_documents}], for {n_queries} queries in all"
        )
    if np.isnan(scores).any():
        raise EvaluationError(f"scores of queries {block.start} to {block.stop - 1} contain NaN")


# Rankings by Hamming distance


def evaluate_ranking(
    query_codes: Codes,
    database: Codes | CodedDocuments,
    relevance: Relevance,
    metrics: Iterable[str] = DEFAULT_METRICS,
    *,
    self_rows: Ids | None = None,
    query_ids: Sequence[str] = (),
) -> Evaluation:
    """Rank the database for every query by (Hamming distance, row) and measure by `relevance`.

    `self_rows`, int64[Q], is the row of the document that is the query itself, -1 if there is none.
    That document is neither ranked nor counted for its query. `query_ids` names the queries.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric.
        EvaluationError: if the shapes do not fit.
    """
    parsed_metrics = parse_metrics(metrics)
    documents = database if isinstance(database, CodedDocuments) else CodedDocuments(database)
    _check_shapes(query_codes, documents.codes, relevance, self_rows)
    ranking = _Ranking(query_codes, documents, relevance, self_rows)
    values = _Values(parsed_metrics, len(query_codes))
    depth = max(metric.depth(ranking.n_documents) for metric in parsed_metrics)
    group_entries = query_codes.shape[1] * 8 * (len(relevance.levels) + 1) ** 2
    width = max(depth, relevance.n_document_sets) + group_entries
    for block in row_blocks(len(query_codes), width):
        groups = ranking.groups(block)
        values.measure(block, ranking.lists(block, depth, groups), groups)
    without = np.flatnonzero(ranking.n_relevant == 0)
    names = [query_ids[row] if query_ids else str(row) for row in without.tolist()]
    queries = counted(len(without), "query", "queries")
    note = f"{queries} without a relevant document, scored as 0: {name_some(names)}"
    return values.evaluation(
        documents=len(documents.codes),
        queries_without_relevant=len(without),
        distinct_codes=len(documents.distinct.codes),
        pairs_by_distance=ranking.pairs_by_distance,
        query_ids=tuple(query_ids),
        notes=(note,) if len(without) else (),
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


class CodedDocuments:
    """The codes of a database, ``uint8[N, C]``, with what is derived of them once."""

    def __init__(self, codes: Codes) -> None:
        self.codes = codes

    @cached_property
    def index(self) -> CodeIndex:
        """An index whose hits are rows of the codes."""
        return build(self.codes, np.arange(len(self.codes), dtype=np.int64)).code_index

    @cached_property
    def distinct(self) -> DistinctCodes:
        """The distinct codes."""
        return DistinctCodes.of(self.codes)


class _Ranking:
    """The rankings of the database, computed for blocks of queries."""

    def __init__(
        self,
        query_codes: Codes,
        documents: CodedDocuments,
        relevance: Relevance,
        self_rows: Ids | None,
    ) -> None:
        self.query_codes, self.relevance, self._self_rows = query_codes, relevance, self_rows
        self.counts = DistanceCounts(documents.codes, documents.distinct, relevance)
        self.n_relevant = np.zeros(len(query_codes), dtype=np.int64)
        self.n_documents = len(documents.codes)
        self.pairs_by_distance = np.zeros((2, query_codes.shape[1] * 8 + 1), dtype=np.int64)
        self._documents = documents

    def groups(self, block: slice) -> TieGroups:
        """Count the documents at each distance, and add them to those of all queries."""
        self_rows = None if self._self_rows is None else self._self_rows[block]
        sets = self.relevance.query_sets[block]
        groups = self.counts.count(self.query_codes[block], sets, self_rows)
        self.n_relevant[block] = groups.n_relevant
        relevant = groups.relevant.sum(axis=0)
        self.pairs_by_distance += np.stack([relevant, groups.n.sum(axis=0) - relevant])
        return groups

    def lists(self, block: slice, depth: int, groups: TieGroups) -> RankedLists:
        """Return the first `depth` documents or more of each ranking, without the query itself."""
        codes, relevance = self.query_codes[block], self.relevance
        if depth == 0:
            rows = np.empty((len(codes), 0), dtype=np.int64)
        elif depth == self.n_documents:
            rows = self.counts.rank_all(codes)
        else:
            nearest = self._documents.index.search(codes, depth + (self._self_rows is not None))
            rows = np.stack([neighbours.rows for neighbours in nearest])
        grades = relevance.grade_lists(relevance.query_sets[block], rows)
        if self._self_rows is not None:
            is_self = rows == self._self_rows[block, None]
            # The query itself moves to the end of the list, where grade 0 changes nothing.
            order = np.argsort(is_self, axis=1, kind="stable")
            grades = np.take_along_axis(np.where(is_self, 0, grades), order, axis=1)
        return RankedLists(grades, groups.totals, groups.levels, groups.relevant_from)


def _check_shapes(
    query_codes: Codes, codes: Codes, relevance: Relevance, self_rows: Ids | None
) -> None:
    check_rows(query_codes, relevance.query_sets, "query")
    check_rows(codes, relevance.document_sets, "database")
    if query_codes.shape[1] != codes.shape[1]:
        raise EvaluationError(
            f"query codes have {query_codes.shape[1] * 8} bits and database codes"
            f" {codes.shape[1] * 8}; they must come from the same encoder"
        )
    if self_rows is None:
        return
    if (
        self_rows.shape != (len(query_codes),)
        or not ((self_rows >= -1) & (self_rows < len(codes))).all()
    ):
        raise EvaluationError("self_rows must hold a row of the database, or -1, for each query")


# Codes, or an encoder, with labelled queries


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
    relevance = relevance_by_label(
        query_labels, database_labels, hierarchy=hierarchy, relevant_from=relevant_from
    )
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


# A TREC run, the ranked lists of any system, by qrels


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
        InputError: if a grade is invalid (:func:`hummingbit.corpus.grades.check_grade`).
    """
    parsed_metrics = _parse_metrics(metrics, "a run has none")
    qrels = check_qrels(qrels)
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
    levels = np.array(sorted(grades))
    ranked, totals = [], np.zeros((len(query_ids), len(levels)), dtype=np.int64)
    for row, query in enumerate(query_ids):
        totals[row] = (np.array(list(qrels[query].values()))[:, None] == levels).sum(axis=0)
        ranked.append(_ranked_list(query, run.get(query, {}), qrels[query]))
    longest = max(1, *(len(scores) for scores, _ in ranked))
    lists, ties = _lists_and_ties(ranked, longest, levels, totals, relevant_from)
    values = _Values(parsed_metrics, len(query_ids))
    values.measure(slice(None), lists, ties)
    return values.evaluation(
        documents=len(retrieved),
        queries_without_relevant=int((ties.n_relevant == 0).sum()),
        query_ids=tuple(query_ids),
        notes=_oddities(run, query_ids, ties.n_relevant),
    )


def _ranked_list(
    query: str, retrieved: Mapping[str, float], judged: Mapping[str, int]
) -> tuple[Scores, Counts]:
    """Return the scores and the grades of the documents of a list, best first."""
    scores = np.array(list(retrieved.values()), dtype=np.float64)
    if np.isnan(scores).any():
        raise EvaluationError(f"a score of query {query!r} is NaN; every score must be a number")
    order = np.argsort(-scores, kind="stable")
    grades = np.array([judged.get(document, 0) for document in retrieved], dtype=np.int64)
    return scores[order], grades[order]


def _oddities(
    run: Mapping[str, Mapping[str, float]], query_ids: list[str], n_relevant: Counts
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
