"""The result of an evaluation, the error for input that cannot be evaluated, and blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.foundation.errors import HummingbitError

# Results


PerQuery = npt.NDArray[np.float64]
"""One value of a metric for each query, shape ``(Q,)``."""


class EvaluationError(HummingbitError, ValueError):
    """The queries or the database cannot be evaluated; the message says what is needed."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Metrics over a set of queries: as served, and over the orders of tied documents.

    `per_query`, `expected_per_query`, `best_per_query` and `worst_per_query` hold float64[Q] by
    metric name. `metrics`, `expected`, `best` and `worst` are their means over *all* queries. A
    query without a relevant document scores 0; `queries_without_relevant` counts these queries.

    `per_query` measures the lists as served, with ties ordered by row. `expected_per_query` is the
    expectation if documents at equal distance are in uniformly random order, and best and worst are
    the extremes over those orders. All four agree if there are no ties. If they differ much, the
    served value is partly luck.

    `distinct_codes` counts the distinct codes of the database; None if it has no codes. `query_ids`
    names the queries in order; empty if they have no names. `notes` has a sentence for each oddity
    of the input that did not stop the evaluation, such as judgements of documents that are not
    stored. `warning` is a sentence if the encoder learned from all of the queries, so that the
    values are of training data. `ceiling_per_query` has the values of the ideal ranking; it is
    empty where there is none. `pairs_by_distance`, int64[2, n_bits + 1], counts the pairs of a
    query and a relevant document, and the other pairs, at each Hamming distance; it is empty
    if the ranking is another.
    """

    per_query: Mapping[str, PerQuery]
    expected_per_query: Mapping[str, PerQuery]
    queries: int
    documents: int
    queries_without_relevant: int
    distinct_codes: int | None = None
    best_per_query: Mapping[str, PerQuery] = field(default_factory=dict)
    worst_per_query: Mapping[str, PerQuery] = field(default_factory=dict)
    query_ids: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    warning: str | None = None
    ceiling_per_query: Mapping[str, PerQuery] = field(default_factory=dict)
    pairs_by_distance: npt.NDArray[np.int64] = field(
        default_factory=lambda: np.zeros((2, 0), dtype=np.int64)
    )

    @property
    def metrics(self) -> dict[str, float]:
        """The mean of each metric over the queries, as served."""
        return means_of(self.per_query)

    @property
    def expected(self) -> dict[str, float]:
        """The mean of each metric over the queries, tie-averaged."""
        return means_of(self.expected_per_query)

    @property
    def best(self) -> dict[str, float]:
        """The mean of each metric over the queries, in the best order of ties of each query."""
        return means_of(self.best_per_query)

    @property
    def worst(self) -> dict[str, float]:
        """The mean of each metric over the queries, in the worst order of ties of each query."""
        return means_of(self.worst_per_query)

    @property
    def ceiling(self) -> dict[str, float]:
        """The mean of each metric over the queries if every ranking were ideal."""
        return means_of(self.ceiling_per_query)

    def take(self, queries: npt.NDArray[np.int64]) -> Evaluation:
        """Return the values of some of the queries, by their positions, and the same counts."""
        values = ("per_query", "expected_per_query", "best_per_query", "worst_per_query")
        taken: dict[str, Any] = {
            kind: {name: of_all[queries] for name, of_all in getattr(self, kind).items()}
            for kind in (*values, "ceiling_per_query")
        }
        ids = tuple(self.query_ids[row] for row in queries) if self.query_ids else ()
        return replace(self, **taken, queries=len(queries), query_ids=ids)

    def to_dict(self) -> dict[str, Any]:
        """Return the means, counts and notes as plain JSON values, without values by query.

        The `warning` comes first, and only if there is one.
        """
        return {
            **({} if self.warning is None else {"warning": self.warning}),
            "metrics": self.metrics,
            "expected": self.expected,
            "best": self.best,
            "worst": self.worst,
            "queries": self.queries,
            "documents": self.documents,
            "queries_without_relevant": self.queries_without_relevant,
            "distinct_codes": self.distinct_codes,
            "notes": list(self.notes),
        }


def means_of(per_query: Mapping[str, PerQuery]) -> dict[str, float]:
    """Return the mean of each metric or ranking over the queries."""
    return {name: float(values.mean()) for name, values in per_query.items()}


# Blocks of rows, so that a table of queries by documents never exists as a whole


BLOCK_ENTRIES = 2_000_000
"""Entries of a table in one block. A few arrays of this size are in memory together."""


def row_blocks(n_rows: int, row_width: int) -> Iterator[slice]:
    """Yield slices of `n_rows` rows that hold at most :data:`BLOCK_ENTRIES` entries each.

    A row has `row_width` entries. A row is never cut: if it is wider than that, a block is one row.
    """
    step = max(1, BLOCK_ENTRIES // max(1, row_width))
    for start in range(0, n_rows, step):
        check_cancelled()
        yield slice(start, min(start + step, n_rows))
