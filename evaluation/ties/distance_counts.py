"""How many documents lie at each distance from a query, and of which grades."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from encoder.codes import Codes, hamming_distance, whole_codes
from evaluation.relevance import Ids, Relevance, SparseTable
from evaluation.row_blocks import row_blocks
from evaluation.ties.expectation import TieGroups

Counts = npt.NDArray[np.int64]


class DistanceCounts:
    """Counts of a database's documents by distance, for metrics tie-averaged.

    Codes repeat and so do label sets: distances are computed once for each distinct code, which
    carries the number of its documents with each label set, and once for queries that are alike in
    both. `n_distinct` is the number of codes.
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
        levels = self._relevance.levels
        codes, sets, place = _distinct_queries(query_codes, query_sets)
        words = _as_words(codes)
        counts = np.zeros((len(codes), self._n_bits + 1), np.int64)
        by_grade = np.zeros((*counts.shape, len(levels)), np.int64)
        width = max(self.n_distinct, self._relevance.n_document_sets)
        for block in row_blocks(len(codes), width):
            distinct_sets, set_of_query = np.unique(sets[block], return_inverse=True)
            grades = self._relevance.grades(distinct_sets)
            sizes = [self._sizes_of_grade(grades, int(level)) for level in levels]
            for number, own in zip(range(block.start, block.stop), set_of_query, strict=True):
                # One query at a time: adding up holds the interpreter lock.
                distances = _distances(words[number], self._words)
                counts[number] = self._sum_by_distance(distances, self._sizes)
                for level, sizes_of_sets in enumerate(sizes):
                    sums = self._sum_by_distance(distances, sizes_of_sets[own])
                    by_grade[number, :, level] = sums
        counts, by_grade = counts[place], by_grade[place]
        if self_rows is not None:
            self._leave_out(self_rows, query_codes, query_sets, (counts, by_grade))
        relevant_from = self._relevance.relevant_from
        return TieGroups(counts, by_grade, levels, by_grade.sum(axis=1), relevant_from)

    def _sum_by_distance(
        self, distances: npt.NDArray[np.intp], sizes: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """Add up `sizes` by distance, float64[n_bits + 1]."""
        sums: npt.NDArray[np.float64] = np.bincount(distances, sizes, self._n_bits + 1)  # type: ignore[assignment]
        return sums

    def _sizes_of_grade(self, grades: SparseTable, level: int) -> npt.NDArray[np.float64]:
        """Return how many documents of each distinct code have a grade, float64[S, distinct]."""
        held = (grades == level).astype(np.int64)
        sizes: npt.NDArray[np.float64] = (held @ self._sizes_by_set).toarray().astype(np.float64)
        return sizes

    def _leave_out(
        self, rows: Ids, query_codes: Codes, query_sets: Ids, counts: tuple[Counts, Counts]
    ) -> None:
        """Take the document `rows` of each query out of the counts, in place."""
        stored = np.flatnonzero(rows >= 0)
        distances = hamming_distance(query_codes[stored], self._codes[rows[stored]])
        grades = self._relevance.grade_pairs(query_sets[stored], rows[stored])
        counts[0][stored, distances] -= 1
        counts[1][stored, distances] -= grades[:, None] == self._relevance.levels

    def rank_all(self, query_codes: Codes) -> Ids:
        """Return all documents in the order (distance, row) for each query, int64[Q, N]."""
        distances = np.stack([_distances(one, self._words) for one in _as_words(query_codes)])
        # A stable sort of so short integers counts instead of comparing.
        short = np.uint8 if self._n_bits < 256 else np.uint16
        small = distances.astype(short)[:, self._code_of_document]
        return np.argsort(small, axis=1, kind="stable")


def _distinct_codes(codes: Codes) -> tuple[Codes, Ids]:
    """Return the distinct codes and, for each document, the position of its code among them."""
    _, first, place = np.unique(whole_codes(codes), return_index=True, return_inverse=True)
    return codes[first], place


def _distinct_queries(codes: Codes, sets: Ids) -> tuple[Codes, Ids, Ids]:
    """Return the distinct pairs of a code and a set, and which of them each query is."""
    pairs = np.hstack([codes, np.ascontiguousarray(sets[:, None]).view(np.uint8)])
    distinct, place = _distinct_codes(pairs)
    size = codes.shape[1]
    return distinct[:, :size], np.ascontiguousarray(distinct[:, size:]).view(np.int64)[:, 0], place


def _as_words(codes: Codes) -> npt.NDArray[np.unsignedinteger]:
    """Return codes as the widest words that fit, for fewer operations on a pair of codes."""
    size = next(size for size in (8, 4, 2, 1) if codes.shape[1] % size == 0)
    return np.ascontiguousarray(codes).view(np.dtype(f"u{size}"))


def _distances(
    query: npt.NDArray[np.unsignedinteger], words: npt.NDArray[np.unsignedinteger]
) -> npt.NDArray[np.intp]:
    """Return the Hamming distances of the words of one code from `words`, intp[distinct]."""
    distances = np.zeros(len(words), dtype=np.intp)
    for column, word in enumerate(query):
        distances += np.bitwise_count(words[:, column] ^ word)
    return distances
