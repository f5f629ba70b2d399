"""The lexical index of a collection at one moment, and how the next one is made of it.

As in :mod:`index.engines.segments`, most documents lie in a large segment, the base, and what was
added since in small ones. A write makes the next index and leaves this one as it is; readers take
one and need no lock. The statistics that scores are made of are those of the live documents of that
moment, so that an index gives the same scores however it came about.

Every match is scored. Adding up a million postings takes about three milliseconds, and the
standardised scores of a hybrid ranking need the scores of all matches anyway, so nothing would be
gained by passing over documents that cannot be among the best.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from encoder.analyzers import Analyzer
from foundation.slices import checkpoint
from index.engines.protocol import Rows, places_of
from index.engines.segments import GROWTH, MIN_FOLD, needs_compaction
from index.lexical.bm25_formula import UNIT, inverse_frequency
from index.lexical.segment import Scores, Segment, build_segment, join_segments

# A build takes in so many documents at a time, which bounds its memory.
DOCUMENTS_AT_ONCE = 100_000
BLOCK = 1024


class WeighedTerm(NamedTuple):
    """A term of a query."""

    term: str
    idf: float
    """0 where no document has the term."""
    repeats: int
    """How often the query has it."""


class WeighedQuery(NamedTuple):
    """A query's distinct terms, in the order of the text, and all else that its scores depend on.

    With it, documents score as they did when the terms were weighed, whatever is written later.
    """

    terms: list[WeighedTerm]
    average_length: float

    @property
    def statistics(self) -> tuple[float, ...]:
        """Return what :meth:`LexicalIndex.weigh` takes to weigh the same text alike later."""
        return (self.average_length, *(term.idf for term in self.terms))


class ScoredRows(NamedTuple):
    """Documents and their scores, in units of :data:`index.lexical.bm25_formula.UNIT`."""

    rows: Rows
    scores: npt.NDArray[np.int64]


class Matches:
    """The score of every document for one query."""

    def __init__(self, parts: Sequence[tuple[Rows, Scores]]) -> None:
        """Take ascending rows and their scores, 0 where no term is found or nothing is."""
        self.parts = parts

    def best(self, k: int, allowed: Rows | None = None) -> ScoredRows:
        """Return the `k` highest scores above 0, by (score descending, row ascending)."""
        found = []
        for rows, scores in self.parts:
            if allowed is None:
                places = best(scores, k)
            else:
                among = places_of(rows, allowed)
                places = among[best(scores[among], k)]
            found.append((rows[places], scores[places].astype(np.int64)))
        rows, scores = _joined(found)
        order = np.lexsort((rows, -scores))[:k]
        return ScoredRows(rows[order], scores[order])

    def reaching(self, least: int, allowed: Rows | None = None) -> ScoredRows:
        """Return the documents that score at least `least`, which is above 0, by row."""
        found = []
        for rows, scores in self.parts:
            if allowed is None:
                places = np.flatnonzero(scores >= least)
            else:
                places = places_of(rows, allowed)
                places = places[scores[places] >= least]
            found.append((rows[places], scores[places].astype(np.int64)))
        return ScoredRows(*_joined(found))

    def of(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Return the scores of `rows`, in any order, 0 for those that have no text."""
        totals = np.zeros(len(rows), dtype=np.int64)
        for held, scores in self.parts:
            if len(held):
                places = np.searchsorted(held, rows).clip(max=len(held) - 1)
                totals += np.where(held[places] == rows, scores[places], 0)
        return totals


@dataclass(frozen=True, eq=False)
class LexicalIndex:
    """Documents with texts, ranked by BM25. It never changes; a write makes the next.

    Documents without a text are not in it.
    """

    number: int
    """The generation of the collection that it is of."""
    analyzer: Analyzer
    vocabulary: defaultdict[str, int]
    """The numbers of terms; indexes made of one another share it, and it only grows."""
    segments: tuple[Segment, ...]

    @classmethod
    def build(
        cls, number: int, analyzer: Analyzer, documents: Iterable[tuple[int, str]]
    ) -> LexicalIndex:
        """Make the index of a generation of `documents`, pairs (row, text) in ascending order."""
        vocabulary: defaultdict[str, int] = defaultdict()
        vocabulary.default_factory = vocabulary.__len__
        index = cls(number, analyzer, vocabulary, ())
        given, segments = iter(documents), [index._segment_of([])]
        while batch := list(islice(given, DOCUMENTS_AT_ONCE)):
            segments.append(index._segment_of(batch))
        return replace(index, segments=(join_segments(segments),))

    def __len__(self) -> int:
        return self._totals[0]

    @property
    def average_length(self) -> float:
        """The mean number of terms of a document; 1 where no document has any."""
        n_documents, total_length = self._totals
        return total_length / n_documents if total_length else 1.0

    @property
    def nbytes(self) -> int:
        """The memory of the posting lists; the vocabulary comes on top."""
        return sum(segment.nbytes for segment in self.segments)

    @property
    def needs_compaction(self) -> bool:
        """Whether :meth:`compacted` would make searches faster or give much memory back."""
        return needs_compaction(self.segments)

    def rows(self) -> Rows:
        """Return the rows of all documents with a text, ascending."""
        return np.concatenate(
            [one.rows if one.live is None else one.rows[one.live] for one in self.segments]
        )

    def compacted(self) -> LexicalIndex:
        """Return an index that finds the same, made of one base."""
        return replace(self, segments=(join_segments(self.segments),))

    def with_changes(
        self, number: int, documents: Sequence[tuple[int, str]], removed: Rows
    ) -> LexicalIndex:
        """Return the index of generation `number`: with `documents`, without the rows `removed`.

        `documents` are pairs (row, text); the rows ascend and lie above every row of this index.
        Rows of `removed` that are not there are ignored.
        """
        base, *deltas = (segment.without(removed) for segment in self.segments)
        deltas = [delta for delta in deltas if len(delta)]
        added = [self._segment_of(documents)]
        if len(added[0]):
            while deltas and len(deltas[-1]) < max(MIN_FOLD, GROWTH * sum(map(len, added))):
                added.insert(0, deltas.pop())
            if not deltas and len(base) < MIN_FOLD:
                base, added = join_segments([base, *added]), []
            deltas += [join_segments(added)] if added else []
        return replace(self, number=number, segments=(base, *deltas))

    def weigh(self, text: str, statistics: Sequence[float] | None = None) -> WeighedQuery:
        """Weigh the terms of a query, or do as when it had these `statistics`."""
        counts: Counter[str] = Counter()
        for terms in self.analyzer.term_lists(text):
            counts.update(terms)
        if statistics is None:
            statistics = (self.average_length, *map(self._idf, counts))
        average_length, *idfs = statistics
        pairs = zip(counts.items(), idfs, strict=True)
        return WeighedQuery([WeighedTerm(term, idf, n) for (term, n), idf in pairs], average_length)

    def matches(self, query: WeighedQuery) -> Matches:
        """Score every document."""
        numbered = [
            (number, term)
            for term in query.terms
            if term.idf and (number := self.vocabulary.get(term.term)) is not None
        ]
        bound = UNIT * sum(term.idf * term.repeats for _, term in numbered)
        dtype = np.int32 if bound + len(numbered) < 2**31 else np.int64
        saturations = self._saturations
        if query.average_length != self.average_length:
            saturations = [one.saturations(query.average_length) for one in self.segments]
        parts = []
        for segment, kinds in zip(self.segments, saturations, strict=True):
            scores = np.zeros(len(segment.rows), dtype=dtype)
            for number, term in numbered:
                checkpoint()
                segment.add_term(scores, number, (term.idf, term.repeats), kinds)
            if segment.live is not None:
                scores[~segment.live] = 0
            parts.append((segment.rows, scores))
        return Matches(parts)

    def rank(self, text: str, k: int, allowed: Rows | None = None) -> ScoredRows:
        """Return the `k` documents that score highest by (score descending, row ascending).

        Documents without a term of `text` are not found. Where `allowed` is given, only these rows
        are, ``int64[M]`` ascending; the scores are the same with and without it.
        """
        return self.matches(self.weigh(text)).best(k, allowed)

    @cached_property
    def _totals(self) -> tuple[int, int]:
        """The number of live documents and of their terms."""
        documents = sum(len(segment) for segment in self.segments)
        return documents, sum(segment.total_length for segment in self.segments)

    def _idf(self, term: str) -> float:
        number = self.vocabulary.get(term)
        if number is None:
            return 0.0
        frequency = sum(segment.frequency(number) for segment in self.segments)
        return inverse_frequency(len(self), frequency) if frequency else 0.0

    @cached_property
    def _saturations(self) -> list[npt.NDArray[np.float64]]:
        return [segment.saturations(self.average_length) for segment in self.segments]

    def _segment_of(self, documents: Sequence[tuple[int, str]]) -> Segment:
        number_of, lists_of = self.vocabulary.__getitem__, self.analyzer.term_lists
        numbers, lengths = array("i"), array("q")
        for _, text in documents:
            before = len(numbers)
            for terms in lists_of(text):
                numbers.extend(map(number_of, terms))
            lengths.append(len(numbers) - before)
        return build_segment(
            np.array([row for row, _ in documents], dtype=np.int64),
            np.frombuffer(lengths, dtype=np.int64),
            np.frombuffer(numbers, dtype=np.int32),
        )


def best(scores: Scores, k: int) -> npt.NDArray[np.int64]:
    """Return the places of the `k` highest scores above 0, by (score descending, place)."""
    found = np.flatnonzero(scores >= max(1, _reached(scores, k)))
    values = scores[found]
    if k < len(found):
        # Many may score alike, and they are in order as they lie: only what is above is sorted.
        least = np.partition(values, len(found) - k)[len(found) - k]
        above = np.flatnonzero(values > least)
        equal = np.flatnonzero(values == least)[: k - len(above)]
        found, values = found[np.concatenate([above, equal])], values[above]
        return np.concatenate([found[np.argsort(-values, kind="stable")], found[len(above) :]])
    return found[np.argsort(-values, kind="stable")]


def _reached(scores: Scores, k: int) -> int:
    """Return a score that at least `k` places reach, 0 if none is known.

    The highest scores of blocks are read off fast, and each is the score of a place of its own.
    """
    width = min(BLOCK, len(scores) // (2 * k))
    if width < 2:
        return 0
    n_blocks = len(scores) // width
    highest = scores[: n_blocks * width].reshape(n_blocks, width).max(axis=1)
    return int(np.partition(highest, n_blocks - k)[n_blocks - k])


def _joined(found: Sequence[tuple[Rows, npt.NDArray[np.int64]]]) -> tuple[Rows, Rows]:
    rows, scores = (np.concatenate(column) for column in zip(*found, strict=True))
    return rows, scores
