"""One field of the documents: all that is indexed of them, their titles, or their summaries.

As in :mod:`index.engines.segments`, most documents are in a large segment, the base, and later ones
in small segments. A write makes the next field and leaves this one unchanged, so readers need no
lock. Statistics are those of the live documents only, so they do not depend on how it was built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from foundation.slices import checkpoint
from index.engines.protocol import Rows
from index.engines.segments import GROWTH, MIN_FOLD, needs_compaction
from index.lexical.bm25_formula import (
    BURSTINESS,
    inverse_frequency,
    residual_inverse_frequency,
)
from index.lexical.matches import Matches
from index.lexical.segment import Places, Scores, Segment, join_segments


class TermWeight(NamedTuple):
    """What a term of a query counts in a field."""

    number: int
    weight: float
    repeats: int
    """How often the term occurs in the query."""


@dataclass(frozen=True, eq=False)
class Field:
    """The posting lists of the documents that have the field."""

    segments: tuple[Segment, ...]
    """The base and the later segments."""

    @classmethod
    def of(cls, segments: Sequence[Segment]) -> Field:
        """Join segments whose rows follow one another to one base."""
        return cls((join_segments(segments),))

    def __len__(self) -> int:
        return self._n_documents

    @property
    def nbytes(self) -> int:
        """The memory of the posting lists in bytes."""
        return sum(segment.nbytes for segment in self.segments)

    @property
    def needs_compaction(self) -> bool:
        """Whether :meth:`compacted` would make searches faster or free much memory."""
        return needs_compaction(self.segments)

    def rows(self) -> Rows:
        """Return the rows of all documents, ascending."""
        return np.concatenate(
            [one.rows if one.live is None else one.rows[one.live] for one in self.segments]
        )

    @property
    def n_terms(self) -> int:
        """How many terms the segments have; one that is in several of them counts for each."""
        return sum(len(segment.terms) for segment in self.segments)

    def terms(self) -> npt.NDArray[np.int64]:
        """Return the numbers of the terms of each segment in turn, ascending in each."""
        return np.concatenate([segment.terms for segment in self.segments])

    def renumbered(self, numbers: npt.NDArray[np.int64]) -> Field:
        """Return the field for a vocabulary in which the term ``numbers[i]`` has the number i.

        `numbers` ascend, and have every term of the field.
        """
        return Field(tuple(segment.renumbered(numbers) for segment in self.segments))

    def compacted(self) -> Field:
        """Return an equivalent field that consists of one base."""
        return Field.of(self.segments)

    def with_changes(self, added: Segment, removed: Rows) -> Field:
        """Return the field with `added`, whose rows follow all others, and without `removed`."""
        base, *deltas = (segment.without(removed) for segment in self.segments)
        deltas = [delta for delta in deltas if len(delta)]
        newest = [added]
        if len(added):
            while deltas and len(deltas[-1]) < max(MIN_FOLD, GROWTH * sum(map(len, newest))):
                newest.insert(0, deltas.pop())
            if not deltas and len(base) < MIN_FOLD:
                base, newest = join_segments([base, *newest]), []
            deltas += [join_segments(newest)] if newest else []
        return Field((base, *deltas))

    def average_length(self, *, opening_twice: bool = False) -> float:
        """Return the mean number of terms of a document; 1 if no document has any."""
        total_length = self._total_lengths[opening_twice]
        return total_length / len(self) if total_length else 1.0

    def frequency(self, number: int) -> int:
        """Return how many documents have the term of this number."""
        return sum(segment.frequency(number) for segment in self.segments)

    def idf(self, number: int, *, bursty: bool = False) -> float:
        """Return the idf of a term, 0 if no document has it; more with `bursty`, if they repeat it.

        Both formulas are in :mod:`index.lexical.bm25_formula`.
        """
        frequency = self.frequency(number)
        if not frequency:
            return 0.0
        idf = inverse_frequency(len(self), frequency)
        if not bursty:
            return idf
        occurrences = sum(segment.occurrences(number) for segment in self.segments)
        residual = residual_inverse_frequency(len(self), frequency, occurrences)
        return idf * (1 + BURSTINESS * residual)

    def matches(
        self,
        terms: Sequence[TermWeight],
        average_length: float,
        dtype: type[np.signedinteger],
        *,
        opening_twice: bool = False,
    ) -> Matches:
        """Score every document, in integers of type `dtype`."""
        saturations = self._saturations(average_length, opening_twice=opening_twice)
        parts: list[tuple[Rows, Scores]] = []
        for segment, kinds in zip(self.segments, saturations, strict=True):
            parts.append((segment.rows, _scores_of(segment, terms, kinds, dtype)))
        return Matches(parts)

    def add_to(self, matches: Matches, terms: Sequence[TermWeight], average_length: float) -> None:
        """Add the scores of this field to the `matches` of another one of the same documents."""
        all_rows, all_scores = matches.parts[0]
        saturations = self._saturations(average_length, opening_twice=False)
        for segment, kinds in zip(self.segments, saturations, strict=True):
            places = None if segment.live is not None else segment.places_among(all_rows)
            if places is None:
                scores = _scores_of(segment, terms, kinds, all_scores.dtype)
                matches.add(Matches([(segment.rows, scores)]).at_least(1))
            else:
                _add_terms(segment, all_scores, terms, kinds, places)

    @cached_property
    def summary_sizes(self) -> tuple[int, int]:
        """How many live documents are summaries, and the sum of their sizes."""
        number = total = 0
        for segment in self.segments:
            if segment.summary_sizes is not None:
                sizes = segment.summary_sizes
                live = sizes if segment.live is None else sizes[segment.live]
                number += int(np.count_nonzero(live))
                total += int(live.sum(dtype=np.int64))
        return number, total

    @cached_property
    def _n_documents(self) -> int:
        return sum(len(segment) for segment in self.segments)

    @cached_property
    def _total_lengths(self) -> tuple[int, int]:
        """The number of terms of the live documents: counted once, and with openings twice."""
        once, twice = (
            sum(one.total_length(opening_twice=opening_twice) for one in self.segments)
            for opening_twice in (False, True)
        )
        return once, twice

    def _saturations(
        self, average_length: float, *, opening_twice: bool
    ) -> list[npt.NDArray[np.float64]]:
        """Return the saturations of each segment's kinds; those of this field are cached."""
        cache = self._saturations_cache
        if average_length != self.average_length(opening_twice=opening_twice):
            cache = {}  # the statistics of an earlier generation
        if opening_twice not in cache:
            cache[opening_twice] = [
                one.saturations(average_length, opening_twice=opening_twice)
                for one in self.segments
            ]
        return cache[opening_twice]

    @cached_property
    def _saturations_cache(self) -> dict[bool, list[npt.NDArray[np.float64]]]:
        return {}


def _scores_of(
    segment: Segment,
    terms: Sequence[TermWeight],
    kinds: npt.NDArray[np.float64],
    dtype: npt.DTypeLike,
) -> Scores:
    """Return the scores of the documents of a segment; those of tombstones are 0."""
    scores = np.zeros(len(segment.rows), dtype=dtype)
    _add_terms(segment, scores, terms, kinds)
    if segment.live is not None:
        scores[~segment.live] = 0
    return scores


def _add_terms(
    segment: Segment,
    scores: Scores,
    terms: Sequence[TermWeight],
    kinds: npt.NDArray[np.float64],
    targets: Places | None = None,
) -> None:
    for number, weight, repeats in terms:
        checkpoint()
        segment.add_term(scores, number, (weight, repeats), kinds, targets)
