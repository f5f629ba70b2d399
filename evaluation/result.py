"""What an evaluation found, and the error for input that cannot be evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

PerQuery = npt.NDArray[np.float64]
"""One value of a metric for each query, shape ``(Q,)``."""


class EvaluationError(ValueError):
    """The queries or the database cannot be evaluated; the message says what would be right."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Metrics over a set of queries, as served and in expectation over ties.

    `per_query` and `expected_per_query` hold float64[Q] by metric name. `metrics` and `expected`
    are their means over *all* queries: a query that no document is relevant to scores 0, and
    `queries_without_relevant` says how many of those there are.

    `per_query` comes from the lists as they are served, ties ordered by row. `expected_per_query`
    is the expectation where documents at equal distance come in uniformly random order. The two
    agree where nothing is tied; where they differ much, the served figure is partly luck.

    `distinct_codes` counts the distinct codes of the database, None where it has no codes.
    """

    per_query: Mapping[str, PerQuery]
    expected_per_query: Mapping[str, PerQuery]
    queries: int
    documents: int
    queries_without_relevant: int
    distinct_codes: int | None = None

    @property
    def metrics(self) -> dict[str, float]:
        """The mean of each metric over the queries, as served."""
        return {name: float(values.mean()) for name, values in self.per_query.items()}

    @property
    def expected(self) -> dict[str, float]:
        """The mean of each metric over the queries, in expectation over ties."""
        return {name: float(values.mean()) for name, values in self.expected_per_query.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the figures and counts as plain JSON values, without those of single queries."""
        return {
            "metrics": self.metrics,
            "expected": self.expected,
            "queries": self.queries,
            "documents": self.documents,
            "queries_without_relevant": self.queries_without_relevant,
            "distinct_codes": self.distinct_codes,
        }
