"""How many documents lie at each distance from a query, and of which grades."""

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
    """Counts of a database's documents by distance, for metrics tie-averaged.

    Codes repeat and so do label sets: distances are computed once for each distinct code, which
    carries the number of its documents with each label set, and once for queries that are alike in
    both. `n_distinct` is the number of codes.
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
        counts = self._all.by_distance(codes)
        by_grade = np.zeros((*counts.shape, len(levels)), np.int64)
        # Queries of one set lie side by side.
        starts = np.flatnonzero(np.append(True, sets[1:] != sets[:-1])[: len(sets)])
        ends = np.append(starts[1:], len(sets))
        width = max(self.n_distinct, self._relevance.n_document_sets)
        for block in row_blocks(len(starts), width):
            grades = self._relevance.grades(sets[starts[block]])
            for level, grade in enumerate(levels):
                held = (grades == grade).astype(np.int64) @ self._sizes_by_set
                for number, (start, end) in enumerate(zip(starts[block], ends[block], strict=True)):
                    own = slice(held.indptr[number], held.indptr[number + 1])
                    graded = SizedCodes(self._distinct[held.indices[own]], held.data[own])
                    by_grade[start:end, :, level] = graded.by_distance(codes[start:end])
        counts, by_grade = counts[place], by_grade[place]
        if self_rows is not None:
            self._leave_out(self_rows, query_codes, query_sets, (counts, by_grade))
        relevant_from = self._relevance.relevant_from
        return TieGroups(counts, by_grade, levels, by_grade.sum(axis=1), relevant_from)

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
        distances = self._all.distances(query_codes)
        # A stable sort of so short integers counts instead of comparing.
        short = np.uint8 if self._n_bits < 256 else np.uint16
        small = distances.astype(short)[:, self._code_of_document]
        return np.argsort(small, axis=1, kind="stable")


def _distinct_codes(codes: Codes) -> tuple[Codes, Ids]:
    """Return the distinct codes and, for each document, the position of its code among them."""
    _, first, place = np.unique(whole_codes(codes), return_index=True, return_inverse=True)
    return codes[first], place


def _distinct_queries(codes: Codes, sets: Ids) -> tuple[Codes, Ids, Ids]:
    """Return the distinct pairs of a code and a set, set by set, and which each query is."""
    pairs = np.hstack([np.ascontiguousarray(sets[:, None]).view(np.uint8), codes])
    distinct, place = _distinct_codes(pairs)
    size = sets.itemsize
    return distinct[:, size:], np.ascontiguousarray(distinct[:, :size]).view(np.int64)[:, 0], place
