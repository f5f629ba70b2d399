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
from index.engines.protocol import Rows
from index.engines.segments import GROWTH, MIN_FOLD, needs_compaction
from index.lexical.bm25_formula import UNIT, inverse_frequency
from index.lexical.matches import Matches, ScoredRows
from index.lexical.segment import Segment, build_segment, join_segments

# A build takes in so many documents at a time, which bounds its memory.
DOCUMENTS_AT_ONCE = 100_000


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
    opening_twice: bool = False
    """Whether the terms in the opening of a document count twice."""

    @property
    def statistics(self) -> tuple[float, ...]:
        """Return what :meth:`LexicalIndex.weigh` takes to weigh the same text alike later."""
        return (self.average_length, *(term.idf for term in self.terms))


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
        return self._n_documents

    def average_length(self, *, opening_twice: bool = False) -> float:
        """Return the mean number of terms of a document; 1 where no document has any."""
        total_length = self._total_lengths[opening_twice]
        return total_length / len(self) if total_length else 1.0

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

    def weigh(
        self,
        text: str,
        statistics: Sequence[float] | None = None,
        *,
        opening_twice: bool = False,
    ) -> WeighedQuery:
        """Weigh the terms of a query, or do as when it had these `statistics`.

        Raises:
            ValueError: if the statistics are not those of a query of so many distinct terms.
        """
        counts: Counter[str] = Counter()
        for terms in self.analyzer.term_lists(text):
            counts.update(terms)
        if statistics is None:
            average_length = self.average_length(opening_twice=opening_twice)
            statistics = (average_length, *map(self._idf, counts))
        average_length, *idfs = statistics
        pairs = zip(counts.items(), idfs, strict=True)
        weighed = [WeighedTerm(term, idf, n) for (term, n), idf in pairs]
        return WeighedQuery(weighed, average_length, opening_twice)

    def matches(self, query: WeighedQuery) -> Matches:
        """Score every document."""
        numbered = [
            (number, term)
            for term in query.terms
            if term.idf and (number := self.vocabulary.get(term.term)) is not None
        ]
        bound = UNIT * sum(term.idf * term.repeats for _, term in numbered)
        dtype = np.int32 if bound + len(numbered) < 2**31 else np.int64
        saturations = self._saturations(query.average_length, opening_twice=query.opening_twice)
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
    def _n_documents(self) -> int:
        return sum(len(segment) for segment in self.segments)

    @cached_property
    def _total_lengths(self) -> tuple[int, int]:
        """The number of terms of the live documents: plain, and with openings twice."""
        plain, twice = (
            sum(one.total_length(opening_twice=opening_twice) for one in self.segments)
            for opening_twice in (False, True)
        )
        return plain, twice

    def _idf(self, term: str) -> float:
        number = self.vocabulary.get(term)
        if number is None:
            return 0.0
        frequency = sum(segment.frequency(number) for segment in self.segments)
        return inverse_frequency(len(self), frequency) if frequency else 0.0

    def _saturations(
        self, average_length: float, *, opening_twice: bool
    ) -> list[npt.NDArray[np.float64]]:
        """Return the saturations of each segment's kinds; those of this moment are remembered."""
        known = self._known_saturations
        if average_length != self.average_length(opening_twice=opening_twice):
            known = {}  # of an earlier moment
        if opening_twice not in known:
            known[opening_twice] = [
                one.saturations(average_length, opening_twice=opening_twice)
                for one in self.segments
            ]
        return known[opening_twice]

    @cached_property
    def _known_saturations(self) -> dict[bool, list[npt.NDArray[np.float64]]]:
        return {}

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
