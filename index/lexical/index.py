"""The lexical index of one generation of a collection, and how the next one is made from it.

As in :mod:`index.engines.segments`, most documents are in a large segment, the base, and later ones
in small segments. A write makes the next index and leaves this one unchanged, so readers need no
lock. Scores use the statistics of the live documents only, so they do not depend on how an index
was built.

Every match is scored. Adding up a million postings takes about three milliseconds, and the
standardised scores of a hybrid ranking need the scores of all matches anyway, so skipping documents
that cannot be among the best would save nothing.
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
from index.lexical.bm25_formula import (
    BURSTINESS,
    UNIT,
    inverse_frequency,
    residual_inverse_frequency,
)
from index.lexical.matches import Matches, ScoredRows
from index.lexical.segment import Segment, build_segment, join_segments

# A build reads so many documents at a time, which limits its memory.
DOCUMENTS_AT_ONCE = 100_000


class WeighedTerm(NamedTuple):
    """A term of a query."""

    term: str
    idf: float
    """The idf, with a factor in the hybrid ranking; 0 if no document has the term."""
    repeats: int
    """How often the term occurs in the query."""


class WeighedQuery(NamedTuple):
    """A query's terms and whatever else its scores depend on.

    The distinct terms of the text come in its order, and those of its corrections after them. It
    keeps the scores of documents constant, whatever is written later.
    """

    terms: list[WeighedTerm]
    average_length: float
    hybrid: bool = False
    """Whether openings count twice, and bursty terms more, as in the hybrid ranking."""

    @property
    def statistics(self) -> tuple[float, ...]:
        """The statistics with which :meth:`LexicalIndex.weigh` gives the same weights later."""
        return (self.average_length, *(term.idf for term in self.terms))


@dataclass(frozen=True, eq=False)
class LexicalIndex:
    """An immutable index of the documents with a text, ranked by BM25."""

    number: int
    """The number of the generation."""
    analyzer: Analyzer
    vocabulary: defaultdict[str, int]
    """The number of each term. Indexes made from one another share it, and it only grows."""
    segments: tuple[Segment, ...]

    @classmethod
    def build(
        cls, number: int, analyzer: Analyzer, documents: Iterable[tuple[int, str]]
    ) -> LexicalIndex:
        """Index the `documents` of a generation, pairs (row, text) in ascending order of rows."""
        vocabulary: defaultdict[str, int] = defaultdict()
        vocabulary.default_factory = vocabulary.__len__
        index = cls(number, analyzer, vocabulary, ())
        remaining, segments = iter(documents), [index._segment_of([])]
        while batch := list(islice(remaining, DOCUMENTS_AT_ONCE)):
            segments.append(index._segment_of(batch))
        return replace(index, segments=(join_segments(segments),))

    def __len__(self) -> int:
        return self._n_documents

    def average_length(self, *, opening_twice: bool = False) -> float:
        """Return the mean number of terms of a document; 1 if no document has any."""
        total_length = self._total_lengths[opening_twice]
        return total_length / len(self) if total_length else 1.0

    @property
    def nbytes(self) -> int:
        """The memory of the posting lists in bytes, without the vocabulary."""
        return sum(segment.nbytes for segment in self.segments)

    @property
    def needs_compaction(self) -> bool:
        """Whether :meth:`compacted` would make searches faster or free much memory."""
        return needs_compaction(self.segments)

    def rows(self) -> Rows:
        """Return the rows of all documents with a text, ascending."""
        return np.concatenate(
            [one.rows if one.live is None else one.rows[one.live] for one in self.segments]
        )

    def compacted(self) -> LexicalIndex:
        """Return an equivalent index that consists of one base."""
        return replace(self, segments=(join_segments(self.segments),))

    def with_changes(
        self, number: int, documents: Sequence[tuple[int, str]], removed: Rows
    ) -> LexicalIndex:
        """Return the index of generation `number`: with `documents`, without the rows `removed`.

        `documents` are pairs (row, text); the rows ascend and follow every row of this index.
        Unknown rows in `removed` are ignored.
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
        corrected: Sequence[tuple[str, str]] = (),
        statistics: Sequence[float] | None = None,
        *,
        hybrid: bool = False,
    ) -> WeighedQuery:
        """Weigh the terms of a query; `statistics` of an earlier query reproduce its weights.

        `corrected` are words of the text that the encoder does not know, each with its correction,
        which has no weight if a document has the word as written. With `hybrid`, weights and scores
        are those of :mod:`index.rankings.hybrid`.

        Raises:
            ValueError: if the number of statistics does not fit the number of terms.
        """
        counts: Counter[str] = Counter()
        for terms in self.analyzer.term_lists(text):
            counts.update(terms)
        replaced = [
            (word, term) for word, known in corrected for term in self.analyzer.terms(known)
        ]
        if statistics is None:
            idfs = [self._idf(term, bursty=hybrid) for term in counts]
            idfs += [
                0.0 if self._has_word(word) else self._idf(term, bursty=hybrid)
                for word, term in replaced
            ]
            statistics = (self.average_length(opening_twice=hybrid), *idfs)
        average_length, *idfs = statistics
        pairs = zip([*counts.items(), *((term, 1) for _, term in replaced)], idfs, strict=True)
        weighed = [WeighedTerm(term, idf, n) for (term, n), idf in pairs]
        return WeighedQuery(weighed, average_length, hybrid)

    def matches(self, query: WeighedQuery) -> Matches:
        """Score every document."""
        numbered = [
            (number, term)
            for term in query.terms
            if term.idf and (number := self.vocabulary.get(term.term)) is not None
        ]
        bound = UNIT * sum(term.idf * term.repeats for _, term in numbered)
        dtype = np.int32 if bound + len(numbered) < 2**31 else np.int64
        saturations = self._saturations(query.average_length, opening_twice=query.hybrid)
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
        """Return the `k` best documents by (score descending, row ascending).

        Documents without a term of `text` are not found. If `allowed` is given, ``int64[M]``
        ascending, only these rows are found; it does not change scores.
        """
        return self.matches(self.weigh(text)).best(k, allowed)

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

    def _has_word(self, word: str) -> bool:
        """Return whether a document has a term of `word`."""
        return any(map(self._frequency, self.analyzer.terms(word)))

    def _frequency(self, term: str) -> int:
        """Return how many documents have the term."""
        number = self.vocabulary.get(term)
        return 0 if number is None else sum(one.frequency(number) for one in self.segments)

    def _idf(self, term: str, *, bursty: bool) -> float:
        frequency = self._frequency(term)
        if not frequency:
            return 0.0
        idf = inverse_frequency(len(self), frequency)
        if not bursty:
            return idf
        number = self.vocabulary[term]
        occurrences = sum(segment.occurrences(number) for segment in self.segments)
        residual = residual_inverse_frequency(len(self), frequency, occurrences)
        return idf * (1 + BURSTINESS * residual)

    def _saturations(
        self, average_length: float, *, opening_twice: bool
    ) -> list[npt.NDArray[np.float64]]:
        """Return the saturations of each segment's kinds; those of this index are cached."""
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
