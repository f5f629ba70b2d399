"""The parts of a report besides the metrics: distances, codes, classes and the worst queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from encoder.codes import Codes, unpack_codes, whole_codes
from evaluation.relevance import Ids, LabelSet, Relevance
from evaluation.reports.report import Bucket, ClassFigures
from evaluation.result import PerQuery
from evaluation.row_blocks import row_blocks
from evaluation.ties.distance_counts import DistanceCounts

MAX_TEXT = 200


def pairs_by_distance(
    codes: Codes, query_codes: Codes, relevance: Relevance, self_rows: Ids | None = None
) -> tuple[list[int], list[int]]:
    """Count the pairs of query and document at each distance from 0 to n_bits.

    Returns the counts of relevant pairs and of the others. `self_rows`, int64[Q], is the row of the
    document that is the query itself, which is not counted, or -1 if there is none.
    """
    counts = DistanceCounts(codes, relevance)
    n_distances = codes.shape[1] * 8 + 1
    relevant, total = np.zeros(n_distances, np.int64), np.zeros(n_distances, np.int64)
    for block in row_blocks(len(query_codes), n_distances * max(1, len(relevance.levels))):
        block_self_rows = None if self_rows is None else self_rows[block]
        groups = counts.count(query_codes[block], relevance.query_sets[block], block_self_rows)
        relevant += groups.relevant.sum(axis=0)
        total += groups.n.sum(axis=0)
    return relevant.tolist(), (total - relevant).tolist()


def bucket_occupancy(codes: Codes) -> list[Bucket]:
    """Group the distinct codes by how many documents share them: 1, 2 to 3, 4 to 7, and so on.

    Empty groups are left out.
    """
    _, sizes = np.unique(whole_codes(codes), return_counts=True)
    group = np.floor(np.log2(sizes)).astype(np.int64)
    return [
        Bucket(
            smallest=2 ** int(number),
            largest=2 ** (int(number) + 1) - 1,
            codes=int((group == number).sum()),
            documents=int(sizes[group == number].sum()),
        )
        for number in np.unique(group)
    ]


def bit_balance(codes: Codes) -> list[float]:
    """Return the share of documents in which each bit is 1, by bit."""
    ones = np.zeros(codes.shape[1] * 8, dtype=np.int64)
    for block in row_blocks(len(codes), len(ones)):
        ones += unpack_codes(codes[block]).sum(axis=0, dtype=np.int64)
    return list(map(float, ones / len(codes)))


def class_figures(
    query_labels: Sequence[LabelSet],
    document_labels: Sequence[LabelSet],
    expected: Mapping[str, PerQuery],
) -> list[ClassFigures]:
    """Average metrics over the queries of each label, sorted by label.

    A query with several labels counts for each of them.
    """
    queries: dict[str, list[int]] = {}
    for row, labels in enumerate(query_labels):
        for label in labels:
            queries.setdefault(label, []).append(row)
    documents = Counter(label for labels in document_labels for label in labels)
    return [
        ClassFigures(
            label=label,
            queries=len(rows),
            documents=documents[label],
            expected={name: float(values[rows].mean()) for name, values in expected.items()},
        )
        for label, rows in sorted(queries.items())
    ]


def worst_queries(values: PerQuery, count: int) -> list[int]:
    """Return the rows of the `count` lowest values, lowest first; ties are ordered by row."""
    return list(map(int, np.argsort(values, kind="stable")[:count]))


def shorten(text: str | None) -> str:
    """Return a text on one line, cut to :data:`MAX_TEXT` characters."""
    line = " ".join((text or "")[: 4 * MAX_TEXT].split())
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"
