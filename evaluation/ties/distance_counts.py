"""How many documents lie at each distance from a query, and of which grades."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from encoder.codes import Codes, hamming_distance
from evaluation.blocks import row_blocks
from evaluation.relevance import Ids, Relevance, SparseTable
from evaluation.ties.expectation import TieGroups

Counts = npt.NDArray[np.int64]


class DistanceCounts:
    """Counts of a database's documents by distance, for metrics tie-averaged.

    Codes repeat and so do label sets: distances are computed once for each distinct code, which
    carries the number of its documents with each label set. `n_distinct` is the number of codes.
    """

    def __init__(self, codes: Codes, relevance: Relevance) -> None:
        distinct, code_of_document = _distinct_codes(codes)
        self.n_distinct = len(distinct)
        self._n_bits = codes.shape[1] * 8
        self._words = _as_words(distinct)
        self._relevance = relevance
        self._codes = codes
        self._code_of_document = code_of_document
        self._sizes = np.bincount(code_of_document).astype(np.float64)
        one_each = np.ones(len(codes), dtype=np.int64)
        places = (relevance.document_sets, code_of_document)
        shape = (relevance.n_document_sets, self.n_distinct)
        # Documents by label set and code; converting to csr adds up the ones of a place.
        self._sizes_by_set = sparse.csr_array((one_each, places), shape=shape)

    def count(self, query_codes: Codes, query_sets: Ids, self_rows: Ids | None = None) -> TieGroups:
        """Count the documents, and those of each grade, at each distance from each query.

        `query_codes` is uint8[Q, code_size] and `query_sets`, int64[Q], the sets of the queries as
        the relevance numbers them. Group d of the result holds what is at distance d, 0 to n_bits.
        `self_rows`, int64[Q], is the document that is the query itself and does not count, -1 where
        there is none.
        """
        words = _as_words(query_codes)
        levels = self._relevance.levels
        counts = np.zeros((len(query_codes), self._n_bits + 1), np.int64)
        by_grade = np.zeros((*counts.shape, len(levels)), np.int64)
        width = max(self.n_distinct, self._relevance.n_document_sets)
        for block in row_blocks(len(query_codes), width):
            distances = _distances(words[block], self._words)
            counts[block] = _sum_by_distance(distances, self._sizes, self._n_bits)
            grades = self._relevance.grades(query_sets[block])
            for number, level in enumerate(levels):
                sizes = self._sizes_of_grade(grades, int(level))
                by_grade[block, :, number] = _sum_by_distance(distances, sizes, self._n_bits)
        if self_rows is not None:
            self._leave_out(self_rows, query_codes, query_sets, (counts, by_grade))
        relevant_from = self._relevance.relevant_from
        return TieGroups(counts, by_grade, levels, by_grade.sum(axis=1), relevant_from)

    def _sizes_of_grade(self, grades: SparseTable, level: int) -> npt.NDArray[np.float64]:
        """Return how many documents of each distinct code have a grade, float64[Q, distinct]."""
        held = (grades == level).astype(np.int64)
        sizes: npt.NDArray[np.float64] = (held @ self._sizes_by_set).toarray().astype(np.float64)
        return sizes

    def _leave_out(
        self, rows: Ids, query_codes: Codes, query_sets: Ids, counts: tuple[Counts, Counts]
    ) -> None:
        """Take the document `rows` of each query out of the counts, in place."""
        asked = np.flatnonzero(rows >= 0)
        distances = hamming_distance(query_codes[asked], self._codes[rows[asked]])
        grades = self._relevance.grade_pairs(query_sets[asked], rows[asked])
        counts[0][asked, distances] -= 1
        counts[1][asked, distances] -= grades[:, None] == self._relevance.levels

    def rank_all(self, query_codes: Codes) -> Ids:
        """Return all documents in the order (distance, row) for each query, int64[Q, N]."""
        distances = _distances(_as_words(query_codes), self._words)
        # A stable sort of so short integers counts instead of comparing.
        short = np.uint8 if self._n_bits < 256 else np.uint16
        small = distances.astype(short)[:, self._code_of_document]
        return np.argsort(small, axis=1, kind="stable")


def _distinct_codes(codes: Codes) -> tuple[Codes, Ids]:
    """Return the distinct codes and, for each document, the position of its code among them."""
    # One opaque value for each code sorts far faster than rows of bytes do.
    whole = np.ascontiguousarray(codes).view(np.dtype((np.void, codes.shape[1])))[:, 0]
    _, first, place = np.unique(whole, return_index=True, return_inverse=True)
    return codes[first], place


def _as_words(codes: Codes) -> npt.NDArray[np.unsignedinteger]:
    """Return codes as the widest words that fit, for fewer operations on a pair of codes."""
    size = next(size for size in (8, 4, 2, 1) if codes.shape[1] % size == 0)
    return np.ascontiguousarray(codes).view(np.dtype(f"u{size}"))


def _distances(
    queries: npt.NDArray[np.unsignedinteger], words: npt.NDArray[np.unsignedinteger]
) -> npt.NDArray[np.intp]:
    """Return the Hamming distances of all pairs, shape [Q, distinct]."""
    distances = np.zeros((len(queries), len(words)), dtype=np.intp)
    for column in range(words.shape[1]):
        differing = np.bitwise_xor(queries[:, column, None], words[None, :, column])
        distances += np.bitwise_count(differing)
    return distances


def _sum_by_distance(
    distances: npt.NDArray[np.intp], sizes: npt.NDArray[np.float64], n_bits: int
) -> Counts:
    """Add up `sizes`, [Q, distinct] or [distinct], by distance; int64[Q, n_bits + 1]."""
    n_queries, n_distances = len(distances), n_bits + 1
    places = distances + n_distances * np.arange(n_queries)[:, None]
    weights = np.broadcast_to(sizes, distances.shape)
    sums = np.bincount(places.ravel(), weights.ravel(), minlength=n_queries * n_distances)
    return sums.astype(np.int64).reshape(n_queries, n_distances)
