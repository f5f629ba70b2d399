"""Immutable posting lists of a run of documents.

A posting says that a document has a term. It takes six bytes in most collections: four for the
document's place in the segment, and two for its *kind*, the number of a triple: how often the term
occurs in the document, how often in its opening, and how long the document is. What a term adds to
a score depends on nothing else. So each search computes it once for each kind, with the statistics
of its generation, and looks it up for each posting. No write makes a posting list out of date.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from foundation.arrays import sorted_distinct
from foundation.slices import checkpoint
from index.engines.protocol import Rows, places_of
from index.lexical.bm25_formula import OPENING, part_of_term, saturation
from index.lexical.posting_kinds import (
    ONCE,
    Kinds,
    join_kinds,
    number_distinct,
    number_kinds,
    smallest_type,
)

Integers = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]
Scores = npt.NDArray[Any]
"""Scores in units of :mod:`~index.lexical.bm25_formula`: ``int32[n]`` or ``int64[n]``."""


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """The posting lists of documents under ascending `rows`, ``int64[n]``.

    The postings of the term number ``terms[i]`` are those from ``starts[i]`` to ``starts[i + 1]``:
    `places` ascend within them. `live` marks the documents that are not tombstones; None means that
    all are live.
    """

    rows: Rows
    lengths: Places
    terms: Integers
    starts: Integers
    places: Places
    kind_of: npt.NDArray[Any]
    kinds: Kinds
    live: npt.NDArray[np.bool_] | None = None
    summary_sizes: Places | None = None
    """The sizes of the documents that are summaries, 0 for others; None if there are none."""
    _frequencies: dict[int, int] = field(default_factory=dict, repr=False)
    """How many live documents have a term, cached if the segment has tombstones."""
    _occurrences: dict[int, int] = field(default_factory=dict, repr=False)
    """How often the live documents contain a term, cached."""
    _places_among: list[tuple[Rows, Places | None]] = field(default_factory=list, repr=False)
    """The rows and the places of :meth:`places_among`, cached."""

    def __len__(self) -> int:
        return len(self.rows) if self.live is None else int(np.count_nonzero(self.live))

    @property
    def n_dead(self) -> int:
        """The number of tombstones: removed documents that still take memory."""
        return len(self.rows) - len(self)

    def total_length(self, *, opening_twice: bool) -> int:
        """Return the number of terms of all live documents, repeats included."""
        lengths = self.lengths if self.live is None else self.lengths[self.live]
        total = int(lengths.sum(dtype=np.int64))
        return total + (int(_opening_lengths(lengths).sum(dtype=np.int64)) if opening_twice else 0)

    @property
    def nbytes(self) -> int:
        """The memory of the segment in bytes."""
        documents = self.rows.nbytes + self.lengths.nbytes
        documents += 0 if self.live is None else self.live.nbytes
        documents += 0 if self.summary_sizes is None else self.summary_sizes.nbytes
        postings = self.terms.nbytes + self.starts.nbytes + self.places.nbytes
        kinds = 3 * self.kinds.counts.nbytes + self.kind_of.nbytes
        return int(documents + postings + kinds)

    def frequency(self, term: int) -> int:
        """Return how many live documents have the term of this number."""
        postings = self._postings(term)
        if self.live is None:
            return int(postings.stop - postings.start)
        if term not in self._frequencies:
            live = self.live.take(self.places[postings])
            self._frequencies[term] = int(np.count_nonzero(live))
        return self._frequencies[term]

    def occurrences(self, term: int) -> int:
        """Return how often the live documents contain the term of this number."""
        if term not in self._occurrences:
            postings = self._postings(term)
            kind_of = self.kind_of[postings]
            if self.live is not None:
                kind_of = kind_of[self.live.take(self.places[postings])]
            self._occurrences[term] = int(self.kinds.counts.take(kind_of).sum())
        return self._occurrences[term]

    def saturations(self, average_length: float, *, opening_twice: bool) -> npt.NDArray[np.float64]:
        """Return :func:`index.lexical.bm25_formula.saturation` of each kind."""
        counts, lengths = self.kinds.counts, self.kinds.lengths
        if opening_twice:
            counts, lengths = counts + self.kinds.openings, lengths + _opening_lengths(lengths)
        return saturation(counts, lengths, average_length)

    def add_term(
        self,
        scores: Scores,
        term: int,
        weight: tuple[float, int],
        kinds: npt.NDArray[np.float64],
        targets: Places | None = None,
    ) -> None:
        """Add the part of a term to the `scores` of the documents that have it.

        `weight` is the term's idf and how often the query has it; `kinds` are the saturations.
        `targets` are the positions of the documents in `scores` if these hold others, too.
        """
        postings = self._postings(term)
        if postings.start == postings.stop:
            return
        kind_of, (idf, repeats) = self.kind_of[postings], weight
        # Both branches give the same numbers; the shorter array is computed.
        if len(kind_of) < len(kinds):
            parts = part_of_term(idf, kinds.take(kind_of)).astype(scores.dtype)
        else:
            parts = part_of_term(idf, kinds).astype(scores.dtype).take(kind_of)
        if repeats > 1:
            parts *= repeats
        places = self.places[postings]
        np.add.at(scores, places if targets is None else targets.take(places), parts)

    def sums(self, weights: Sequence[tuple[int, int]]) -> npt.NDArray[np.int32]:
        """Return for each document the sum of the weights of its terms; tombstones have 0.

        `weights` are numbers of terms and their weights, which add up to less than 2**31.
        """
        sums = np.zeros(len(self.rows), dtype=np.int32)
        for term, weight in weights:
            checkpoint()
            sums[self.places[self._postings(term)]] += weight
        if self.live is not None:
            sums[~self.live] = 0
        return sums

    def sums_over_terms(self, values: Integers) -> Integers:
        """Return for each document the sum of the `values` of its distinct terms.

        `values` belong to :attr:`terms`, and no sum is above 2**53.
        """
        of_postings = np.repeat(values, np.diff(self.starts))
        sums = np.bincount(self.places, weights=of_postings, minlength=len(self.rows))
        return sums.astype(np.int64)

    def places_among(self, rows: Rows) -> Places | None:
        """Return the places of the documents among ascending `rows`, or None unless all are there.

        Those among the last `rows` are kept, four bytes a document.
        """
        for known_rows, places in self._places_among[:1]:
            if known_rows is rows:
                return places
        places = np.searchsorted(rows, self.rows).astype(np.int32)
        if len(places) and not (places[-1] < len(rows) and np.array_equal(rows[places], self.rows)):
            places = None
        self._places_among[:1] = [(rows, places)]
        return places

    def without(self, rows: Rows) -> Segment:
        """Return the segment without `rows`; unknown rows are ignored."""
        places = places_of(self.rows, rows)
        if not len(places):
            return self
        live = np.ones(len(self.rows), np.bool_) if self.live is None else self.live.copy()
        live[places] = False
        return replace(self, live=live, _frequencies={}, _occurrences={}, _places_among=[])

    def renumbered(self, numbers: Integers) -> Segment:
        """Return the segment with i in place of the term ``numbers[i]``; `numbers` ascend."""
        terms = np.searchsorted(numbers, self.terms)
        return replace(self, terms=terms, _frequencies={}, _occurrences={}, _places_among=[])

    def _postings(self, term: int) -> slice:
        at = int(np.searchsorted(self.terms, term))
        if at == len(self.terms) or self.terms[at] != term:
            return slice(0, 0)
        return slice(int(self.starts[at]), int(self.starts[at + 1]))


def build_segment(rows: Rows, lengths: Integers, numbers: npt.NDArray[np.int32]) -> Segment:
    """Make a segment of documents with these `lengths`; `numbers` are all their terms, in order."""
    terms, columns = number_distinct(numbers)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    place_in_text = np.arange(len(numbers)) - np.repeat(ends[:-1], lengths)
    counted = np.int32(ONCE) + (place_in_text < OPENING).astype(np.int32)
    table = sparse.csr_array((counted, columns, ends), shape=(len(rows), len(terms)))
    table.sum_duplicates()
    table = table.tocsc()
    counts, places = table.data.astype(np.int64), table.indices.astype(np.int32)
    kinds, kind_of = number_kinds(counts, lengths[places])
    starts = table.indptr.astype(np.int64)
    return Segment(rows, lengths.astype(np.int32), terms, starts, places, kind_of, kinds)


def join_segments(segments: Sequence[Segment]) -> Segment:
    """Join segments whose rows follow one another, without their tombstones.

    Time and memory are proportional to the number of postings, none of which is sorted.
    """
    parts = [_without_dead(segment) for segment in segments]
    if len(parts) == 1:
        return parts[0]
    terms = sorted_distinct(np.concatenate([part.terms for part in parts]))
    spots = [np.searchsorted(terms, part.terms) for part in parts]
    sizes = np.zeros((len(parts), len(terms)), dtype=np.int64)
    for number, (part, at) in enumerate(zip(parts, spots, strict=True)):
        sizes[number, at] = np.diff(part.starts)
    starts = np.concatenate([[0], np.cumsum(sizes.sum(axis=0))])
    begins = starts[:-1] + np.cumsum(sizes, axis=0) - sizes
    kinds, numbers = join_kinds([part.kinds for part in parts])
    places = np.empty(starts[-1], dtype=np.int32)
    kind_of = np.empty(starts[-1], dtype=smallest_type(len(kinds)))
    before = 0
    for number, (part, at) in enumerate(zip(parts, spots, strict=True)):
        moved = np.repeat(begins[number, at] - part.starts[:-1], np.diff(part.starts))
        moved += np.arange(len(moved))
        places[moved] = part.places + np.int32(before)
        kind_of[moved] = numbers[number].take(part.kind_of)
        before += len(part.rows)
    rows = np.concatenate([part.rows for part in parts])
    lengths = np.concatenate([part.lengths for part in parts])
    joined = Segment(rows, lengths, terms, starts, places, kind_of, kinds)
    return replace(joined, summary_sizes=_join_summary_sizes(parts))


def _join_summary_sizes(parts: Sequence[Segment]) -> Places | None:
    if all(part.summary_sizes is None for part in parts):
        return None
    return np.concatenate(
        [
            np.zeros(len(part.rows), np.int32) if part.summary_sizes is None else part.summary_sizes
            for part in parts
        ]
    )


def _without_dead(segment: Segment) -> Segment:
    if segment.live is None:
        return segment
    live = segment.live
    is_live = live.take(segment.places)
    passed = np.concatenate([[0], np.cumsum(is_live)])
    sizes = np.diff(passed[segment.starts])
    moved = np.cumsum(live, dtype=np.int32) - np.int32(1)
    return Segment(
        segment.rows[live],
        segment.lengths[live],
        segment.terms[sizes > 0],
        np.concatenate([[0], np.cumsum(sizes[sizes > 0])]),
        moved.take(segment.places[is_live]),
        segment.kind_of[is_live],
        segment.kinds,
        summary_sizes=None if segment.summary_sizes is None else segment.summary_sizes[live],
    )


def _opening_lengths(lengths: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the number of terms in the openings of documents with these `lengths`."""
    return np.asarray(np.minimum(lengths, OPENING))
