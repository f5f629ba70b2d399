"""Rank a database of codes for every query, and measure the rankings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized

import numpy as np

from encoder.codes import Codes
from evaluation.metrics.lists import RankedLists, measure
from evaluation.metrics.metric_names import DEFAULT_METRICS, Metric, parse_metrics
from evaluation.qrels import name_some
from evaluation.relevance import Ids, Relevance
from evaluation.result import Evaluation, EvaluationError, PerQuery
from evaluation.row_blocks import row_blocks
from evaluation.ties.distance_counts import DistanceCounts
from evaluation.ties.expectation import TieGroups, best, expect, worst
from foundation.errors import counted
from index.engines.choice import build
from index.engines.protocol import CodeIndex


def evaluate_ranking(
    query_codes: Codes,
    database_codes: Codes,
    relevance: Relevance,
    metrics: Iterable[str] = DEFAULT_METRICS,
    *,
    self_rows: Ids | None = None,
    query_ids: Sequence[str] = (),
    notes: Sequence[str] = (),
    index: Callable[[], CodeIndex] | None = None,
) -> Evaluation:
    """Rank the database for every query by (Hamming distance, row) and measure by `relevance`.

    `self_rows`, int64[Q], is the row of the document that is the query itself, -1 if there is none.
    That document is neither ranked nor counted for its query. `query_ids` names the queries.
    `notes` are copied to the result. `index` returns an index of the `database_codes` by row; if it
    is not passed, an index is built.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric.
        EvaluationError: if the shapes do not fit.
    """
    parsed_metrics = parse_metrics(metrics)
    _check_shapes(query_codes, database_codes, relevance, self_rows)
    code_index = build_index(database_codes) if index is None else index()
    ranking = _Ranking(query_codes, database_codes, relevance, self_rows, code_index)
    values = _measure(parsed_metrics, ranking)
    without = np.flatnonzero(ranking.n_relevant == 0)
    names = [query_ids[row] if query_ids else str(row) for row in without.tolist()]
    queries = counted(len(without), "query", "queries")
    note = f"{queries} without a relevant document, scored as 0: {name_some(names)}"
    return Evaluation(
        per_query=values["served"],
        expected_per_query=values["expected"],
        best_per_query=values["best"],
        worst_per_query=values["worst"],
        queries=len(query_codes),
        documents=len(database_codes),
        queries_without_relevant=len(without),
        distinct_codes=ranking.counts.n_distinct,
        query_ids=tuple(query_ids),
        notes=(*notes, note) if len(without) else tuple(notes),
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
    return build(codes, np.arange(len(codes), dtype=np.int64)).engine


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


def _measure(metrics: list[Metric], ranking: _Ranking) -> dict[str, dict[str, PerQuery]]:
    """Return float64[Q] by kind (served, expected, best, worst) and metric name."""
    n_queries = len(ranking.query_codes)
    values = {
        kind: {metric.name: np.empty(n_queries) for metric in metrics}
        for kind in ("served", "expected", "best", "worst")
    }
    depth = max(metric.depth(ranking.n_documents) for metric in metrics)
    n_levels = len(ranking.relevance.levels) + 1
    width = max(depth, ranking.relevance.n_document_sets)
    group_entries = ranking.query_codes.shape[1] * 8 * n_levels**2
    for block in row_blocks(n_queries, width + group_entries):
        groups = ranking.groups(block)
        lists = ranking.lists(block, depth, groups)
        for metric in metrics:
            expected = expect(metric, groups)
            # A metric of distances alone does not depend on the order of ties.
            served = expected if metric.needs_codes else measure(metric, lists)
            values["served"][metric.name][block] = served
            values["expected"][metric.name][block] = expected
            values["best"][metric.name][block] = best(metric, groups)
            values["worst"][metric.name][block] = worst(metric, groups)
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
