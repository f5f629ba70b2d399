"""The number of documents at each distance from a query, by grade."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from encoder.codes import Codes, hamming_distance, whole_codes
from evaluation.relevance import Ids, Relevance
from evaluation.row_blocks import row_blocks
from evaluation.ties.expectation import TieGroups
from index.engines.distance_sums import SizedCodes

Counts = npt.NDArray[np.int64]


class DistanceCounts:
    """Counts of a database's documents by distance, for tie-averaged metrics.

    Codes and label sets repeat. Distances are computed once for each distinct code, with the
    numbers of its documents by label set, and once for queries of the same code and label set.
    `n_distinct` is the number of distinct codes.
    """

    def __init__(self, codes: Codes, relevance: Relevance) -> None:
        distinct, code_of_document = _distinct_codes(codes)
        self.n_distinct = len(distinct)
        self._distinct = distinct
        self._n_bits = codes.shape[1] * 8
        self._relevance = relevance
        self._codes = codes
        self._code_of_document = code_of_document
        self._all = SizedCodes(distinct, np.bincount(code_of_document))
        ones = np.ones(len(codes), dtype=np.int64)
        positions = (relevance.document_sets, code_of_document)
        shape = (relevance.n_document_sets, self.n_distinct)
        # Documents by label set and code. The conversion to csr sums the ones at each position.
        self._sizes_by_set = sparse.csr_array((ones, positions), shape=shape)

    def count(self, query_codes: Codes, query_sets: Ids, self_rows: Ids | None = None) -> TieGroups:
        """Count the documents, and those of each grade, at each distance from each query.

        `query_codes` is uint8[Q, code_size]. `query_sets`, int64[Q], are the sets of the queries as
        the relevance numbers them. Group d of the result counts the documents at distance d, 0 to
        n_bits. `self_rows`, int64[Q], is the row of the document that is the query itself, which is
        not counted, or -1 if there is none.
        """
        levels = self._relevance.levels
        codes, sets, positions = _distinct_queries(query_codes, query_sets)
        counts = self._all.by_distance(codes)
        by_grade = np.zeros((*counts.shape, len(levels)), np.int64)
        # Queries of one set are adjacent.
        starts = np.flatnonzero(np.append(True, sets[1:] != sets[:-1])[: len(sets)])
        ends = np.append(starts[1:], len(sets))
        width = max(self.n_distinct, self._relevance.n_document_sets)
        for block in row_blocks(len(starts), width):
            grades = self._relevance.grades(sets[starts[block]])
            for level, grade in enumerate(levels):
                sizes = (grades == grade).astype(np.int64) @ self._sizes_by_set
                for row, (start, end) in enumerate(zip(starts[block], ends[block], strict=True)):
                    entries = slice(sizes.indptr[row], sizes.indptr[row + 1])
                    graded = SizedCodes(self._distinct[sizes.indices[entries]], sizes.data[entries])
                    by_grade[start:end, :, level] = graded.by_distance(codes[start:end])
        counts, by_grade = counts[positions], by_grade[positions]
        if self_rows is not None:
            self._subtract(self_rows, query_codes, query_sets, (counts, by_grade))
        relevant_from = self._relevance.relevant_from
        return TieGroups(counts, by_grade, levels, by_grade.sum(axis=1), relevant_from)

    def _subtract(
        self, rows: Ids, query_codes: Codes, query_sets: Ids, counts: tuple[Counts, Counts]
    ) -> None:
        """Subtract the document `rows` of each query from the counts, in place; -1 is none."""
        queries = np.flatnonzero(rows >= 0)
        distances = hamming_distance(query_codes[queries], self._codes[rows[queries]])
        grades = self._relevance.grade_pairs(query_sets[queries], rows[queries])
        counts[0][queries, distances] -= 1
        counts[1][queries, distances] -= grades[:, None] == self._relevance.levels

    def rank_all(self, query_codes: Codes) -> Ids:
        """Return the rows of all documents by (distance, row) for each query, int64[Q, N]."""
        distances = self._all.distances(query_codes)
        # For integers this short, numpy's stable sort is a radix sort.
        short = np.uint8 if self._n_bits < 256 else np.uint16
        small = distances.astype(short)[:, self._code_of_document]
        return np.argsort(small, axis=1, kind="stable")


def _distinct_codes(codes: Codes) -> tuple[Codes, Ids]:
    """Return the distinct codes and, for each document, the position of its code among them."""
    _, first, positions = np.unique(whole_codes(codes), return_index=True, return_inverse=True)
    return codes[first], positions


def _distinct_queries(codes: Codes, sets: Ids) -> tuple[Codes, Ids, Ids]:
    """Return the codes and the sets of the distinct pairs, and the pair of each query.

    Pairs of one set are adjacent.
    """
    pairs = np.hstack([np.ascontiguousarray(sets[:, None]).view(np.uint8), codes])
    distinct, positions = _distinct_codes(pairs)
    size = sets.itemsize
    distinct_sets = np.ascontiguousarray(distinct[:, :size]).view(np.int64)[:, 0]
    return distinct[:, size:], distinct_sets, positions
