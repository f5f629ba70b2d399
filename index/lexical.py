"""The lexical index: posting lists of one generation, scored by BM25.

A :class:`LexicalIndex` consists of immutable segments, as the index of codes does: a write makes
the next index, which shares segments with this one and leaves it unchanged. A query is weighed with
the statistics of the generation, the part of each term is computed once for each impact, and
:class:`Matches` holds the sums.

Every match is scored. Adding up a million postings takes about three milliseconds. The kernel does
so in one call for each segment, because numpy's calls take longer than the sums where there are few
documents.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import groupby, islice
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.analyzers import (
    BOUNDARY,
    WORDS,
    Analyzer,
    with_plain_signs,
)
from hummingbit.foundation.arrays import runs_in_order, sorted_distinct
from hummingbit.index.confidence import WordEvidence
from hummingbit.index.engines import kernel
from hummingbit.index.engines.protocol import Rows, positions_of
from hummingbit.index.engines.segments import GROWTH, MIN_FOLD, needs_compaction
from hummingbit.index.languages import stop_terms
from hummingbit.index.query_syntax import QueryText, words_in_order
from hummingbit.index.questions import UNKNOWN, EncoderWords, KnownTerm, Question, Reader
from hummingbit.index.vocabulary import Numbers, Vocabulary
from hummingbit.index.word_forms import other_forms, split_words, without_accents

ANALYZERS: Mapping[str, Analyzer] = MappingProxyType(
    {"words": WORDS, "english": Analyzer("visible", "english")}
)
DEFAULT_ANALYZER = "english"


# The formula of BM25, in the dialect of Lucene since version 8, with exact lengths.
#
# The score of a document d is the sum over the terms t of a query, with repetitions,
#
#     score(d) = Σ_t idf(t) · tf / (tf + k1 · (1 - b + b · |d| / avg)),
#     idf(t) = ln(1 + (N - n + ½) / (n + ½)),
#
# where tf counts t in d, |d| is the number of terms of d, avg its mean over the N documents that
# have a text, and n the number of those with t. A factor k1 + 1, which other dialects have, would
# not change the order. Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25
# and Beyond" (2009), equation 3.15; Kamphuis et al., "Which BM25 Do You Mean?" (2020), table 1.
#
# *Openings.* In the hybrid ranking, the first :data:`OPENING` terms of a document count twice, in
# tf, |d| and avg: the first words of a text, such as a heading, say what it is about. This is BM25
# of two weighted fields, the text and its opening. Source: Robertson, Zaragoza and Taylor, "Simple
# BM25 Extension to Multiple Weighted Fields" (2004), section 3.2.
#
# *Small collections.* In the hybrid ranking, and where scores say how sure a hit is, idf is that of
# :data:`LEAST_DOCUMENTS` documents where there are fewer. Among ten documents, idf hardly tells a
# rare word from a frequent one, and codes alone would decide.
#
# In both rankings, the part of each term is rounded to a multiple of 1 / :data:`UNIT`. So scores
# are sums of integers, which do not depend on the order of addition.


K1 = 1.2
B = 0.75
UNIT = 2**20
OPENING = 12
"""The number of terms at the beginning of a text that can count twice."""
LEAST_DOCUMENTS = 1000
"""Fewer documents count as a sample of so many."""

# What a word of a query matches is found before (:mod:`hummingbit.index.questions`). Of the terms
# that stand for one word, the one with the largest part in a document counts.

# Several words can have one term.
SPARE_COMPLETIONS = 8


def inverse_frequency(n_documents: int, frequency: int) -> float:
    """Return idf of a term that `frequency` of `n_documents` documents have."""
    return math.log(1 + (n_documents - frequency + 0.5) / (frequency + 0.5))


def saturation(
    counts: npt.NDArray[Any], lengths: npt.NDArray[Any], average_length: float
) -> npt.NDArray[np.float64]:
    """Return tf / (tf + k1 · (1 - b + b · |d| / avg)), elementwise; it lies between 0 and 1."""
    tf = counts.astype(np.float64)
    return np.asarray(tf / (tf + half_count(lengths, average_length)))


def half_count(length: Any, average_length: float) -> Any:
    """Return k1 · (1 - b + b · |d| / avg), the tf at which the saturation is one half.

    `length` is that of one text, or an array.
    """
    return K1 * (1 - B + B * (length / average_length))


def part_of_term(idf: float, saturations: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return what a term adds to scores, in units, as integers."""
    return np.rint(idf * UNIT * saturations)


# The impacts of postings, as Lucene calls what a posting's score depends on.


Integers = npt.NDArray[np.int64]
# One integer holds both counts of a term in a document: in the lowest bits its occurrences in the
# opening, and above them all its occurrences.
ONCE = 1 << OPENING.bit_length()


@dataclass(frozen=True, slots=True, eq=False)
class Impacts:
    """Distinct triples: a term's counts in a document and in its opening, and the length."""

    counts: Integers
    openings: Integers
    lengths: Integers

    def __len__(self) -> int:
        return len(self.counts)


def number_distinct(numbers: npt.NDArray[Any]) -> tuple[Integers, npt.NDArray[np.int32]]:
    """Return the distinct numbers, ascending, and the position of each number among them."""
    largest = int(numbers.max(initial=-1))
    if len(numbers) < largest:
        terms, columns = np.unique(numbers, return_inverse=True)
        return terms.astype(np.int64), columns.astype(np.int32)
    occurs = np.bincount(numbers, minlength=largest + 1) > 0
    return np.flatnonzero(occurs), (np.cumsum(occurs, dtype=np.int32) - np.int32(1)).take(numbers)


def number_impacts(counts: Integers, lengths: Integers) -> tuple[Impacts, npt.NDArray[Any]]:
    """Return the distinct impacts and the number of the impact of each posting.

    `counts` hold both counts of a term in one integer; see :data:`ONCE`.
    """
    width = int(lengths.max(initial=0)) + 1
    distinct, impact_of = number_distinct(counts * width + lengths)
    counts, lengths = distinct // width, distinct % width
    impacts = Impacts(counts // ONCE, counts % ONCE, lengths)
    return impacts, impact_of.astype(smallest_type(len(impacts)))


def join_impacts(of_segments: Sequence[Impacts]) -> tuple[Impacts, list[npt.NDArray[Any]]]:
    """Return the distinct impacts of all segments, and the number of each one of a segment."""
    counts = np.concatenate([impacts.counts * ONCE + impacts.openings for impacts in of_segments])
    lengths = np.concatenate([impacts.lengths for impacts in of_segments])
    joined, numbers = number_impacts(counts, lengths)
    ends = np.cumsum([len(impacts) for impacts in of_segments])[:-1]
    return joined, np.split(numbers, ends)


def smallest_type(n_impacts: int) -> type[np.unsignedinteger[Any]]:
    """Return the smallest type for the numbers of so many impacts."""
    if n_impacts <= 2**8:
        return np.uint8
    return np.uint16 if n_impacts <= 2**16 else np.uint32


# Immutable posting lists of a run of documents.
#
# A posting says that a document has a term. It takes six bytes in most collections: four for the
# document's position in the segment, and two for the number of its *impact*: how often the term
# occurs in the document, how often in its opening, and how long the document is. What a term adds
# to a score depends on nothing else. So each search computes it once for each impact, with the
# statistics of its generation, and looks it up for each posting. No write makes a posting list out
# of date.


Positions = npt.NDArray[np.int32]
Scores = npt.NDArray[Any]
"""Scores in multiples of 1 / :data:`UNIT`: ``int32[n]`` or ``int64[n]``."""


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """The posting lists of documents under ascending `rows`, ``int64[n]``.

    The postings of the term number ``terms[i]`` are those from ``starts[i]`` to ``starts[i + 1]``:
    `positions` ascend within them. `live` marks the documents that are not tombstones; None means
    that all are live.
    """

    rows: Rows
    lengths: Positions
    terms: Integers
    starts: Integers
    positions: Positions
    impact_of: npt.NDArray[Any]
    impacts: Impacts
    live: npt.NDArray[np.bool_] | None = None
    # Caches, which a segment made from this one does not have.
    _frequencies: dict[int, int] = field(default_factory=dict, init=False, repr=False)
    """How many live documents have a term, cached if the segment has tombstones."""
    _lists: tuple[Any, ...] = field(init=False, repr=False)
    _impacts: tuple[Any, ...] = field(init=False, repr=False)
    """The arguments of the kernel that every search has."""

    def __post_init__(self) -> None:
        sizes = len(self.rows), len(self.terms), len(self.positions)
        lists = (*sizes, self.terms, self.starts, self.positions)
        object.__setattr__(self, "_lists", lists)
        object.__setattr__(self, "_impacts", (self.impact_of.itemsize, self.impact_of))

    def __len__(self) -> int:
        return len(self.rows) if self.live is None else int(np.count_nonzero(self.live))

    @property
    def n_dead(self) -> int:
        """The number of tombstones: removed documents that still take memory."""
        return len(self.rows) - len(self)

    def of_live(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return those of `values`, one for each document, that belong to live documents."""
        return values if self.live is None else values[self.live]

    def live_positions(self, positions: Positions) -> Positions:
        """Return those of `positions` that are of live documents."""
        return positions if self.live is None else positions[self.live.take(positions)]

    def frequency(self, term: int) -> int:
        """Return how many live documents have the term of this number."""
        postings = self._postings(term)
        if self.live is None:
            return int(postings.stop - postings.start)
        if term not in self._frequencies:
            self._frequencies[term] = len(self.live_positions(self.positions[postings]))
        return self._frequencies[term]

    def rows_with(self, term: int) -> Rows:
        """Return the rows of the live documents that have the term of this number, ascending."""
        return self.rows[self.live_positions(self.positions[self._postings(term)])]

    def rows_with_all(self, terms: Sequence[int]) -> Rows:
        """Return the rows of the live documents that have all terms of these numbers, ascending."""
        if kernel.native is None:
            in_order = sorted((self._postings(term) for term in terms), key=_length)
            positions = self.positions[in_order[0]]
            for postings in in_order[1:]:
                others = self.positions[postings]
                positions = np.intersect1d(positions, others, assume_unique=True)
        else:
            room = min(map(_length, map(self._postings, terms)))
            positions = np.empty(room, dtype=np.int32)
            arguments = (*self._lists, len(terms), array("q", terms), room, positions)
            positions = positions[: kernel.native.with_all(*arguments)]
        return self.rows[self.live_positions(positions)]

    def saturations(self, average_length: float, *, opening_twice: bool) -> npt.NDArray[np.float64]:
        """Return the :func:`saturation` of each impact."""
        counts, lengths = self.impacts.counts, self.impacts.lengths
        if opening_twice:
            counts, lengths = counts + self.impacts.openings, lengths + _opening_lengths(lengths)
        return saturation(counts, lengths, average_length)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The posting lists as arguments of the kernel; the impacts of postings follow."""
        return (*self._lists, *self._impacts)

    def add_word(
        self,
        scores: Scores,
        terms: Sequence[WeighedTerm],
        saturations: npt.NDArray[np.float64],
    ) -> None:
        """Add the largest part of the terms of a word to the `scores` of the documents with one.

        `saturations` are by impact.
        """
        largest = np.zeros(len(self.rows), dtype=np.int64)
        for term in terms:
            postings = self._postings(term.number)
            if postings.start == postings.stop:
                continue
            impact_of = self.impact_of[postings]
            # Both branches give the same numbers; the shorter array is computed.
            if len(impact_of) < len(saturations):
                parts = part_of_term(term.weight, saturations.take(impact_of))
            else:
                parts = part_of_term(term.weight, saturations).take(impact_of)
            np.maximum.at(largest, self.positions[postings], parts.astype(np.int64))
        positions = np.flatnonzero(largest)
        scores[positions] += (largest[positions] * terms[0].repeats).astype(scores.dtype)

    def without(self, rows: Rows) -> Segment:
        """Return the segment without `rows`; unknown rows are ignored."""
        positions = positions_of(self.rows, rows)
        if not len(positions):
            return self
        live = np.ones(len(self.rows), np.bool_) if self.live is None else self.live.copy()
        live[positions] = False
        return replace(self, live=live)

    def renumbered(self, numbers: Integers) -> Segment:
        """Return the segment with i in place of the term ``numbers[i]``; `numbers` ascend."""
        return replace(self, terms=np.searchsorted(numbers, self.terms))

    def _postings(self, term: int) -> slice:
        at, n_terms = term, len(self.terms)
        # A base mostly has all terms, each in its own place.
        if at >= n_terms or self.terms.item(at) != term:
            at = int(np.searchsorted(self.terms, term))
            if at == n_terms or self.terms.item(at) != term:
                return slice(0, 0)
        return slice(self.starts.item(at), self.starts.item(at + 1))


def _length(some: slice) -> int:
    return int(some.stop - some.start)


def build_segment(
    rows: Rows,
    lengths: Integers,
    numbers: npt.NDArray[np.int32],
    totals: Integers | None = None,
) -> Segment:
    """Make a segment of documents with these `lengths`; `numbers` are all their terms, in order.

    `totals` are the numbers of their terms, if some terms after the others do not count in lengths.
    """
    totals = lengths if totals is None else totals
    terms, columns = number_distinct(numbers)
    ends = np.concatenate([[0], np.cumsum(totals)])
    position_in_text = np.arange(len(numbers)) - np.repeat(ends[:-1], totals)
    in_opening = position_in_text < np.repeat(_opening_lengths(lengths), totals)
    counted = np.int32(ONCE) + in_opening.astype(np.int32)
    from scipy.sparse import csr_array  # noqa: PLC0415 - it takes longer than a search

    table = csr_array((counted, columns, ends), shape=(len(rows), len(terms)))
    table.sum_duplicates()
    table = table.tocsc()
    counts, positions = table.data.astype(np.int64), table.indices.astype(np.int32)
    impacts, impact_of = number_impacts(counts, lengths[positions])
    starts = table.indptr.astype(np.int64)
    return Segment(rows, lengths.astype(np.int32), terms, starts, positions, impact_of, impacts)


def join_segments(segments: Sequence[Segment]) -> Segment:
    """Join segments whose rows follow one another, without their tombstones.

    Time and memory are proportional to the number of postings, none of which is sorted.
    """
    parts = [_without_dead(segment) for segment in segments]
    if len(parts) == 1:
        return parts[0]
    terms = sorted_distinct(np.concatenate([part.terms for part in parts]))
    spots = [np.searchsorted(terms, part.terms) for part in parts]
    counts = np.zeros(len(terms), dtype=np.int64)
    for part, at in zip(parts, spots, strict=True):
        counts[at] += np.diff(part.starts)
    starts = np.concatenate([[0], np.cumsum(counts)])
    begins = starts[:-1].copy()
    impacts, numbers = join_impacts([part.impacts for part in parts])
    positions = np.empty(starts[-1], dtype=np.int32)
    impact_of = np.empty(starts[-1], dtype=smallest_type(len(impacts)))
    before = 0
    for number, (part, at) in enumerate(zip(parts, spots, strict=True)):
        sizes = np.diff(part.starts)
        moved = np.repeat(begins[at] - part.starts[:-1], sizes)
        begins[at] += sizes
        moved += np.arange(len(moved))
        positions[moved] = part.positions + np.int32(before)
        impact_of[moved] = numbers[number].take(part.impact_of)
        before += len(part.rows)
    rows = np.concatenate([part.rows for part in parts])
    lengths = np.concatenate([part.lengths for part in parts])
    return Segment(rows, lengths, terms, starts, positions, impact_of, impacts)


def _without_dead(segment: Segment) -> Segment:
    if segment.live is None:
        return segment
    live = segment.live
    is_live = live.take(segment.positions)
    passed = np.concatenate([[0], np.cumsum(is_live)])
    sizes = np.diff(passed[segment.starts])
    moved = np.cumsum(live, dtype=np.int32) - np.int32(1)
    return Segment(
        segment.rows[live],
        segment.lengths[live],
        segment.terms[sizes > 0],
        np.concatenate([[0], np.cumsum(sizes[sizes > 0])]),
        moved.take(segment.positions[is_live]),
        segment.impact_of[is_live],
        segment.impacts,
    )


def _opening_lengths(lengths: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the number of terms in the openings of documents with these `lengths`."""
    return np.asarray(np.minimum(lengths, OPENING))


class TermRows:
    """Rows and their terms, collected to become a segment."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Number words by `vocabulary`."""
        self._vocabulary = vocabulary
        self._rows, self._lengths, self._numbers = array("q"), array("q"), array("i")
        self._totals = array("q")

    def add(self, row: int, word_lists: Iterable[Iterable[str]], forms: Iterable[str] = ()) -> None:
        """Add a row, with its words in one or several lists; rows come in any order.

        Their other `forms` (:mod:`hummingbit.index.word_forms`) do not count in its length.
        """
        number_of = self._vocabulary.words.__getitem__
        before = len(self._numbers)
        for words in word_lists:
            self._numbers.extend(map(number_of, words))
        self._lengths.append(len(self._numbers) - before)
        self._numbers.extend(map(number_of, forms))
        self._rows.append(row)
        self._totals.append(len(self._numbers) - before)

    def add_together(self, rows: Rows, texts: Sequence[str], *, forms: bool) -> None:
        """Add rows of ASCII texts without a BOUNDARY, with their other forms if `forms`.

        The kernel finds the distinct words, so that Python handles no others.
        """
        numbers, distinct, lengths, totals = split_texts(texts, forms=forms)
        number_of = np.array([*self._vocabulary.numbers_of(distinct).values()], dtype=np.int32)
        self._rows.frombytes(rows.tobytes())
        self._lengths.frombytes(lengths.tobytes())
        self._totals.frombytes(totals.tobytes())
        self._numbers.frombytes(number_of.take(numbers).tobytes())

    def segment(self) -> Segment:
        """Return the segment of all rows."""
        rows, lengths, totals = (
            np.frombuffer(numbers, dtype=np.int64)
            for numbers in (self._rows, self._lengths, self._totals)
        )
        numbers = np.frombuffer(self._numbers, dtype=np.int32)
        if (rows[1:] < rows[:-1]).any():
            order = np.argsort(rows)
            numbers = runs_in_order(numbers, totals, order)
            rows, lengths, totals = rows[order], lengths[order], totals[order]
        return build_segment(rows, lengths, numbers, totals)


# How many terms of a query are added up between two checkpoints.
TERMS_AT_ONCE = 64
# The kernel keeps at most so many of the best in a heap.
MOST_IN_HEAP = 1024

BLOCK = 64
"""The scores whose highest the kernel keeps."""
# A group is every n-th of n * GROUP documents. Groups of neighbours would take six times as long.
GROUP = 256


class ScoredRows(NamedTuple):
    """Documents and their scores, in multiples of 1 / :data:`UNIT`."""

    rows: Rows
    scores: npt.NDArray[np.int64]


class Matches:
    """The score of every document for one query."""

    def __init__(self, parts: Sequence[tuple[Rows, Scores]]) -> None:
        """Hold ascending rows and their scores, which are 0 for documents without a match.

        Scores are added before any of them is searched for.
        """
        self.parts = parts
        self.highest_of_blocks: list[Integers] = []
        """The highest scores of the blocks of each part, once the kernel has found the best."""

    def best(self, k: int, allowed_rows: Rows | None = None) -> ScoredRows:
        """Return the `k` highest scores above 0, by (score descending, row ascending)."""
        if allowed_rows is not None:
            chosen = [positions_of(rows, allowed_rows) for rows, _ in self.parts]
            both = zip(self.parts, chosen, strict=True)
            return Matches([(rows[some], scores[some]) for (rows, scores), some in both]).best(k)
        if k > MOST_IN_HEAP or kernel.native is None:
            return _best_of([_best_by_numpy(*part, k) for part in self.parts], k)
        best_of_parts = []
        for rows, scores in self.parts:
            highest = np.empty(-(-len(scores) // BLOCK), dtype=np.int64)
            best, of_best = np.empty(k, dtype=np.int64), np.empty(k, dtype=np.int64)
            n = kernel.native.best_by_words(
                *_as_arguments(scores), None, rows, highest, k, best, of_best
            )
            self.highest_of_blocks.append(highest)
            best_of_parts.append(ScoredRows(best[:n], of_best[:n]))
        return _best_of(best_of_parts, k)

    def after(self, score: float, row: int) -> Matches:
        """Return the matches after a position in the order; those up to it have the score 0."""
        parts = []
        for rows, scores in self.parts:
            later, first = scores.copy(), int(np.searchsorted(rows, row, side="right"))
            later[:first][scores[:first] >= score] = 0
            later[first:][scores[first:] > score] = 0
            parts.append((rows, later))
        return Matches(parts)

    def at_least(self, least: int, allowed_rows: Rows | None = None) -> ScoredRows:
        """Return the documents with a score of at least `least`, which is above 0, by row."""
        all_rows, all_scores = [], []
        for rows, scores in self.parts:
            if allowed_rows is None:
                positions = np.flatnonzero(scores >= least)
            else:
                positions = positions_of(rows, allowed_rows)
                positions = positions[scores[positions] >= least]
            all_rows.append(rows[positions])
            all_scores.append(scores[positions].astype(np.int64))
        return ScoredRows(np.concatenate(all_rows), np.concatenate(all_scores))

    def scores_of(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Return the scores of `rows`, in any order; rows without a text have 0."""
        totals = np.zeros(len(rows), dtype=np.int64)
        for part_rows, scores in self.parts:
            if len(part_rows):
                positions = np.searchsorted(part_rows, rows).clip(max=len(part_rows) - 1)
                totals += np.where(part_rows[positions] == rows, scores[positions], 0)
        return totals


def _best_by_numpy(rows: Rows, scores: Scores, k: int) -> ScoredRows:
    """Return the `k` highest scores above 0, by (score descending, position), without the kernel.

    The highest score of each group bounds the k-th of all, so most scores need not be sorted.
    """
    bound, n_groups = 1, len(scores) // GROUP
    if n_groups >= 2 * k:
        highest = scores[: n_groups * GROUP].reshape(GROUP, n_groups).max(axis=0)
        bound = max(1, int(np.partition(highest, n_groups - k)[n_groups - k]))
    positions = np.flatnonzero(scores >= bound)
    if len(positions) > k:
        values = scores[positions]
        positions = positions[values >= np.partition(values, len(values) - k)[len(values) - k]]
    positions = positions[np.argsort(-scores[positions], kind="stable")[:k]]
    return ScoredRows(rows[positions], scores[positions].astype(np.int64))


def _best_of(best_of_parts: Sequence[ScoredRows], k: int) -> ScoredRows:
    """Return the `k` best of the best of each part."""
    if len(best_of_parts) == 1:
        return best_of_parts[0]
    rows, scores = map(np.concatenate, zip(*best_of_parts, strict=True))
    order = np.lexsort((rows, -scores))[:k]
    return ScoredRows(rows[order], scores[order])


# The posting lists of all documents.
#
# As in :mod:`hummingbit.index.engines.segments`, most documents are in a large segment, the base,
# and later ones in small segments. Statistics are those of the live documents only, so they do not
# depend on how the index was built.


class WeighedTerm(NamedTuple):
    """A term that a word of a query matches."""

    number: int
    """The number of the term; -1 if it adds nothing."""
    weight: float
    """What it counts: an idf times a factor; 0 if no document has the term."""
    repeats: int
    """How often the word occurs in the query."""
    word: int
    """The number of the word; those of one word follow each other."""
    term: str = ""


@dataclass(frozen=True, eq=False)
class PostingLists:
    """The posting lists of all documents with a text."""

    segments: tuple[Segment, ...]
    """The base and the later segments."""

    @classmethod
    def of(cls, segments: Sequence[Segment]) -> PostingLists:
        """Join segments whose rows follow one another to one base."""
        return cls((join_segments(segments),))

    def __len__(self) -> int:
        return self._n_documents

    @property
    def needs_compaction(self) -> bool:
        """Whether :meth:`compacted` would make searches faster or free much memory."""
        return needs_compaction(self.segments)

    def rows(self) -> Rows:
        """Return the rows of all documents, ascending."""
        return np.concatenate([segment.of_live(segment.rows) for segment in self.segments])

    def terms(self) -> list[Integers]:
        """Return the numbers of the terms of each segment, ascending in each."""
        return [segment.terms for segment in self.segments]

    def renumbered(self, numbers: npt.NDArray[np.int64]) -> PostingLists:
        """Return the lists for a vocabulary in which the term ``numbers[i]`` has the number i.

        `numbers` ascend, and have every term of these lists.
        """
        return PostingLists(tuple(segment.renumbered(numbers) for segment in self.segments))

    def compacted(self) -> PostingLists:
        """Return equivalent lists that consist of one base."""
        return PostingLists.of(self.segments)

    def with_changes(self, added: Segment, removed: Rows) -> PostingLists:
        """Return the lists with `added`, whose rows follow all others, and without `removed`."""
        base, *deltas = (segment.without(removed) for segment in self.segments)
        deltas = [delta for delta in deltas if len(delta)]
        newest = [added]
        if len(added):
            while deltas and len(deltas[-1]) < max(MIN_FOLD, GROWTH * sum(map(len, newest))):
                newest.insert(0, deltas.pop())
            if not deltas and len(base) < MIN_FOLD:
                base, newest = join_segments([base, *newest]), []
            deltas += [join_segments(newest)] if newest else []
        return PostingLists((base, *deltas))

    def average_length(self, *, opening_twice: bool = False) -> float:
        """Return the mean number of terms of a document; 1 if no document has any."""
        total_length = self._total_lengths[opening_twice]
        return total_length / len(self) if total_length else 1.0

    def frequency(self, number: int) -> int:
        """Return how many documents have the term of this number."""
        return sum([segment.frequency(number) for segment in self.segments])

    def frequencies(self, n_terms: int) -> Integers:
        """Return how many documents have each term, ``int64[n_terms]``."""
        counts = np.zeros(n_terms, np.int64)
        for segment in self.segments:
            starts = segment.starts
            if segment.live is not None:
                passed = np.concatenate([[0], np.cumsum(segment.live.take(segment.positions))])
                starts = passed[starts]
            counts[segment.terms] += np.diff(starts)
        return counts

    def rows_with(self, number: int) -> Rows:
        """Return the rows of the documents that have the term of this number, ascending."""
        return _joined([segment.rows_with(number) for segment in self.segments])

    def rows_with_all(self, numbers: Sequence[int]) -> Rows:
        """Return the rows of the documents that have all terms of these numbers, ascending."""
        if not numbers:
            return np.empty(0, dtype=np.int64)
        return _joined([segment.rows_with_all(numbers) for segment in self.segments])

    def matches(
        self,
        terms: Sequence[WeighedTerm],
        average_length: float,
        dtype: type[np.signedinteger],
        *,
        opening_twice: bool = False,
    ) -> Matches:
        """Score every document, in integers of type `dtype`."""
        saturations = self._saturations(average_length, opening_twice=opening_twice)
        parts = []
        for segment, of_segment in zip(self.segments, saturations, strict=True):
            parts.append((segment.rows, _scores_of(segment, terms, of_segment, dtype)))
        return Matches(parts)

    def best(
        self,
        terms: Sequence[WeighedTerm],
        average_length: float,
        k: int,
        allowed_rows: Rows | None = None,
    ) -> ScoredRows:
        """Return the `k` best documents, as :meth:`Matches.best` of :meth:`matches` does.

        The kernel finds them in one call, which takes 18 µs in place of 24 for a question to 5,217
        docstrings, and as long among 100,000 short texts (``python -m benchmarks.lexical``).
        """
        if not terms or len(terms) > TERMS_AT_ONCE or k > MOST_IN_HEAP or kernel.native is None:
            return self.matches(terms, average_length, np.int64).best(k, allowed_rows)
        query, best_of_parts = _terms_as_arguments(terms), []
        saturations = self._saturations(average_length, opening_twice=False)
        for at, segment in enumerate(self.segments):
            best, scores = np.empty(k, dtype=np.int64), np.empty(k, dtype=np.int64)
            lists = *segment.arguments, len(saturations[at]), saturations[at]
            live = segment.live if allowed_rows is None else self.marks(allowed_rows)[at]
            n = kernel.native.best_by_terms(*lists, *query, live, segment.rows, k, best, scores)
            best_of_parts.append(ScoredRows(best[:n], scores[:n]))
        return _best_of(best_of_parts, k)

    def marks(self, rows: Rows) -> list[npt.NDArray[np.bool_]]:
        """Tell which documents of each segment are live and have one of the ascending `rows`.

        The answer for the last rows is kept, unless they can be written to.
        """
        for last, marks in self._last_marks:
            if last is rows:
                return marks
        marks = []
        for segment in self.segments:
            marked = np.zeros(len(segment.rows), dtype=np.bool_)
            marked[positions_of(segment.rows, rows)] = True
            marks.append(marked if segment.live is None else marked & segment.live)
        if not rows.flags.writeable:
            self._last_marks[:] = [(rows, marks)]
        return marks

    @cached_property
    def _last_marks(self) -> list[tuple[Rows, list[npt.NDArray[np.bool_]]]]:
        return []

    @cached_property
    def _n_documents(self) -> int:
        return sum(len(segment) for segment in self.segments)

    @cached_property
    def _total_lengths(self) -> tuple[int, int]:
        """The number of terms of the live documents: counted once, and with openings twice."""
        lengths = [segment.of_live(segment.lengths) for segment in self.segments]
        once = sum(int(some.sum(dtype=np.int64)) for some in lengths)
        return once, once + sum(int(_opening_lengths(some).sum(dtype=np.int64)) for some in lengths)

    def _saturations(
        self, average_length: float, *, opening_twice: bool
    ) -> list[npt.NDArray[np.float64]]:
        """Return the saturations of each segment's impacts; those of these lists are cached."""
        kept = self._saturations_kept.get(opening_twice)
        if kept is not None and kept[0] == average_length:
            return kept[1]
        saturations = [
            segment.saturations(average_length, opening_twice=opening_twice)
            for segment in self.segments
        ]
        # Other lengths are those of an earlier generation, in a cursor.
        if average_length == self.average_length(opening_twice=opening_twice):
            self._saturations_kept[opening_twice] = average_length, saturations
        return saturations

    @cached_property
    def _saturations_kept(self) -> dict[bool, tuple[float, list[npt.NDArray[np.float64]]]]:
        return {}


def _joined(rows: Sequence[Rows]) -> Rows:
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def _scores_of(
    segment: Segment,
    terms: Sequence[WeighedTerm],
    saturations: npt.NDArray[np.float64],
    dtype: npt.DTypeLike,
) -> Scores:
    """Return the scores of the documents of a segment; those of tombstones are 0."""
    scores = np.zeros(len(segment.rows), dtype=dtype)
    for some in _at_once(terms):
        if kernel.native is None:
            for _, of_word in groupby(some, key=attrgetter("word")):
                segment.add_word(scores, [*of_word], saturations)
        else:
            of_segment = *segment.arguments, len(saturations), saturations
            kernel.native.add_terms(*_as_arguments(scores), *of_segment, *_terms_as_arguments(some))
    if segment.live is not None:
        scores[~segment.live] = 0
    return scores


def _at_once(terms: Sequence[WeighedTerm]) -> list[Sequence[WeighedTerm]]:
    """Split terms into runs of at most :data:`TERMS_AT_ONCE`; those of a word stay together."""
    runs = []
    while len(terms) > TERMS_AT_ONCE:
        end = TERMS_AT_ONCE
        while end > 1 and terms[end].word == terms[end - 1].word:
            end -= 1
        runs.append(terms[:end])
        terms = terms[end:]
    return [*runs, terms] if terms else runs


def _terms_as_arguments(terms: Sequence[WeighedTerm]) -> tuple[Any, ...]:
    """Return at most :data:`TERMS_AT_ONCE` terms as arguments of the kernel."""
    numbers, weights, repeats, words, _ = zip(*terms, strict=True)
    in_units = array("d", [weight * UNIT for weight in weights])
    return len(terms), array("q", numbers), in_units, array("q", repeats), array("q", words)


def _as_arguments(scores: Scores) -> tuple[int, bool, Scores]:
    """Return scores as arguments of the kernel."""
    return len(scores), scores.itemsize == 8, scores


# The lexical index of one generation of a collection, and how the next one is made from it.


# A vocabulary with fewer terms is not worth a compaction of its own; it takes some megabytes.
MIN_UNUSED = 1 << 16
# How many terms an index keeps what it found for.
NUMBERS_KEPT = 1 << 14
# Characters of texts that are split together: many more than all their distinct words have.
JOINED_AT_ONCE = 1 << 25
# A build reads so many documents at a time, which limits its memory.
DOCUMENTS_AT_ONCE = 100_000


class WeighedWord(NamedTuple):
    """A word of a query; of its terms, the one with the largest part in a document counts."""

    terms: tuple[WeighedTerm, ...]
    repeats: int
    idf: float
    """That of its own term; 0 if no document has it."""
    weight: float
    """The most that it counts."""
    is_added: bool = False
    """Whether it is another form of words, and no word of the text."""


class WeighedQuery(NamedTuple):
    """A query's words and whatever else its scores depend on.

    It keeps the scores of documents constant, whatever is written later.
    """

    words: tuple[WeighedWord, ...]
    average_length: float
    opening_twice: bool = False
    """Whether openings count twice, as in the hybrid ranking."""

    @property
    def terms(self) -> list[WeighedTerm]:
        """What the terms that documents have count."""
        return [
            term for word in self.words for term in word.terms if term.weight and term.number >= 0
        ]

    @property
    def highest(self) -> float:
        """More than a text can score."""
        highest = 0.0
        for word in self.words:
            highest += word.weight * word.repeats
        return highest

    @property
    def statistics(self) -> dict[str, Any]:
        """The query as JSON values, from which :meth:`LexicalIndex.weigh_again` makes it later."""
        words = [
            [word.repeats, word.idf, word.is_added, [[term[4], term[1]] for term in word.terms]]
            for word in self.words
        ]
        return {
            "average_length": self.average_length,
            "opening_twice": self.opening_twice,
            "words": words,
        }


@dataclass(frozen=True, eq=False)
class LexicalIndex:
    """An immutable index of the documents with a text, ranked by BM25."""

    number: int
    """The number of the generation."""
    analyzer: Analyzer
    vocabulary: Vocabulary
    """The number of each term. Indexes made from one another share it, up to a compaction."""
    texts: PostingLists
    forms: bool = False
    """Whether it has the other forms of words (:mod:`hummingbit.index.word_forms`)."""

    @classmethod
    def build(
        cls,
        number: int,
        analyzer: Analyzer,
        documents: Iterable[tuple[int, str]],
        *,
        forms: bool = False,
    ) -> LexicalIndex:
        """Index the `documents` of a generation, pairs (row, text) in ascending order of rows."""
        index = cls(number, analyzer, Vocabulary(analyzer.stem), PostingLists(()), forms)
        remaining, segments = iter(documents), [index._segment_of([])]
        while batch := list(islice(remaining, DOCUMENTS_AT_ONCE)):
            segments.append(index._segment_of(batch))
        vocabulary = index.vocabulary.sorted()
        return replace(index, vocabulary=vocabulary, texts=PostingLists.of(segments))

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def needs_compaction(self) -> bool:
        """Whether :meth:`compacted` would make searches faster or free much memory."""
        # A term that is in several segments counts for each.
        most_used = sum(map(len, self.texts.terms()))
        has_unused_terms = len(self.vocabulary) > max(MIN_UNUSED, 2 * most_used)
        return has_unused_terms or self.texts.needs_compaction

    def rows(self) -> Rows:
        """Return the rows of all documents with a text, ascending."""
        return self.texts.rows()

    @property
    def is_compact(self) -> bool:
        """Whether it consists of one base, and the vocabulary is sorted."""
        return len(self.texts.segments) == 1 and self.vocabulary.is_sorted

    def compacted(self) -> LexicalIndex:
        """Return an equivalent index that consists of one base.

        It has a vocabulary of its own, without the terms that no document has any more.
        """
        texts = self.texts.compacted()
        used = np.unique(np.concatenate(texts.terms()))
        vocabulary = self.vocabulary.of_numbers(used)
        return replace(self, texts=texts.renumbered(used), vocabulary=vocabulary)

    def with_changes(
        self, number: int, documents: Sequence[tuple[int, str]], removed: Rows
    ) -> LexicalIndex:
        """Return the index of generation `number`: with `documents`, without the rows `removed`.

        `documents` are pairs (row, text); the rows ascend and follow every row of this index.
        Unknown rows in `removed` are ignored.
        """
        if not len(documents) and not len(removed):
            return replace(self, number=number)
        texts = self.texts.with_changes(self._segment_of(documents), removed)
        return replace(self, number=number, texts=texts)

    def read(self, text: str) -> Question:
        """Return the question that a plain text asks, by the words of the documents alone."""
        return self.reader(None).read(QueryText(self.analyzer.normalize(text)))

    def reader(self, encoder: EncoderWords | None) -> Reader:
        """Return what reads questions by these words and those of an encoder; the last is kept."""
        for reader in self._last_reader:
            if reader.encoder is encoder:
                return reader
        reader = Reader(self, encoder)
        self._last_reader[:] = [reader]
        return reader

    def weigh(self, question: Question | str, *, hybrid: bool = False) -> WeighedQuery:
        """Weigh the words of a question, or of a text that is read as one.

        With `hybrid`, openings count twice, and few documents as a sample of more.
        """
        if isinstance(question, str):
            question = self.read(question)
        if question.words is None:
            raise ValueError("a question that was not read by the words of documents has no words")
        words: list[WeighedWord] = []
        look_up = self.look_up
        more = self._idf_of_more if hybrid else 0.0
        for alternatives, repeats, is_added in question.words:
            weighed: list[WeighedTerm] = []
            own = own_weight = most = 0.0
            for term, factor, is_capped in alternatives:
                number, _, idf, _ = look_up(term)
                idf = idf + more if idf else 0.0
                if not weighed:
                    own, own_weight = idf, factor * idf
                weight = factor * (own if is_capped and 0 < own < idf else idf)
                at = number if idf else -1
                weighed.append(WeighedTerm(at, weight, repeats, len(words), term))
                most = max(most, weight)
            words.append(WeighedWord(tuple(weighed), repeats, own_weight, most, is_added))
        return WeighedQuery(tuple(words), self.texts.average_length(opening_twice=hybrid), hybrid)

    def weigh_again(self, statistics: Mapping[str, Any]) -> WeighedQuery:
        """Return a query with the :attr:`WeighedQuery.statistics` of an earlier generation.

        Raises:
            ValueError, TypeError, KeyError: if they are not statistics of a query.
        """
        words: list[WeighedWord] = []
        for repeats, idf, is_added, of_word in statistics["words"]:
            terms = [
                WeighedTerm(
                    self.look_up(term).number if weight else -1,
                    float(weight),
                    int(repeats),
                    len(words),
                    str(term),
                )
                for term, weight in of_word
            ]
            if not terms:
                raise ValueError("a word of the query has no terms")
            most = max([term.weight for term in terms])
            words.append(WeighedWord(tuple(terms), int(repeats), float(idf), most, bool(is_added)))
        average_length, twice = float(statistics["average_length"]), statistics["opening_twice"]
        return WeighedQuery(tuple(words), average_length, bool(twice))

    @cached_property
    def _idf_of_more(self) -> float:
        """By how much idf is higher among :data:`LEAST_DOCUMENTS`, if there are fewer."""
        return math.log((max(len(self), LEAST_DOCUMENTS) + 1) / (len(self) + 1))

    @cached_property
    def _last_reader(self) -> list[Reader]:
        return []

    @cached_property
    def look_up(self) -> Callable[[str], KnownTerm]:
        """Returns what the index knows of a term; the last terms are kept, as words repeat."""
        number_of, texts, stop = self.vocabulary.get, self.texts, self._stop_terms
        n_documents = len(texts)

        def look_up(term: str) -> KnownTerm:
            number = number_of(term)
            if number is None:
                return KnownTerm(-1, 0, 0.0, is_stop=True) if term in stop else UNKNOWN
            frequency = texts.frequency(number)
            idf = inverse_frequency(n_documents, frequency) if frequency else 0.0
            return KnownTerm(number, frequency, idf, term in stop)

        return lru_cache(NUMBERS_KEPT)(look_up)

    @cached_property
    def term_of(self) -> Callable[[str], str]:
        """Returns the term of a word; those of the last words are kept."""
        stem = self.analyzer.stem
        return lru_cache(NUMBERS_KEPT)(lambda word: stem([word])[0])

    def complete(self, prefix: str, limit: int) -> list[str]:
        """Return words that begin with `prefix`, in lower case, one for each term.

        Those whose terms most documents have come first, and then in alphabetical order.
        """
        most = SPARE_COMPLETIONS * limit
        completions: list[tuple[int, str, int]] = []
        for word_at, numbers in self.vocabulary.words_with_prefix(prefix):
            counts = self._frequencies_of(numbers)
            least = 1
            if len(counts) > most:
                least = max(1, int(np.partition(counts, -most)[-most]))
            places = np.flatnonzero(counts >= least)[: 4 * most].tolist()
            completions += [(-int(counts[at]), word_at(at), int(numbers[at])) for at in places]
        distinct: dict[int, str] = {}
        for _, word, number in sorted(completions):
            distinct.setdefault(number, word)
        return [*distinct.values()][:limit]

    def similar(self, word: str, edits: int) -> list[str]:
        """Return the words within one edit of a word, or two, that documents had at some time."""
        return self.vocabulary.similar(word, edits)

    def rows_with_all(self, terms: Sequence[str]) -> Rows:
        """Return the rows of the documents that have all `terms`, ascending."""
        numbers = [self.look_up(term).number for term in dict.fromkeys(terms)]
        return self.texts.rows_with_all(() if -1 in numbers else numbers)

    def rows_with(self, term: str) -> Rows:
        """Return the rows of the documents that have a term, ascending."""
        number = self.look_up(term).number
        return self.texts.rows_with(number) if number >= 0 else np.empty(0, np.int64)

    def _frequencies_of(self, numbers: npt.NDArray[np.int32]) -> Integers:
        """Return how many documents have the terms of these numbers."""
        # A later index of the same vocabulary may have added terms.
        counts = self._frequencies
        return np.where(numbers < len(counts), counts[np.minimum(numbers, len(counts) - 1)], 0)

    @cached_property
    def _frequencies(self) -> Integers:
        """How many documents have each term, by its number; 0 at the end."""
        return self.texts.frequencies(len(self.vocabulary) + 1)

    @cached_property
    def _stop_terms(self) -> frozenset[str]:
        return stop_terms(self.analyzer)

    def matches(self, query: WeighedQuery) -> Matches:
        """Score every document."""
        terms = query.terms
        dtype = np.int32 if UNIT * query.highest + 2 * len(terms) < 2**31 else np.int64
        return self.texts.matches(
            terms, query.average_length, dtype, opening_twice=query.opening_twice
        )

    def best(self, query: WeighedQuery, k: int, allowed_rows: Rows | None = None) -> ScoredRows:
        """Return the `k` best documents of all, or of the allowed ones: best :meth:`matches`."""
        if not query.opening_twice:
            return self.texts.best(query.terms, query.average_length, k, allowed_rows)
        return self.matches(query).best(k, allowed_rows)

    def own_score(self, query: WeighedQuery) -> int:
        """Return the score of a text that consists of the words of a query, in units.

        A word that no document has is the heaviest of those that stand for it, if there are any.
        """
        if not query.average_length:
            return 0
        # saturation() takes longer for so few numbers.
        words: list[tuple[WeighedWord, int]] = []
        before = length = 0
        for word in query.words:
            if word.weight:
                tf = word.repeats
                if query.opening_twice:
                    tf += min(max(OPENING - before, 0), word.repeats)
                words.append((word, tf))
                before += word.repeats
                length += tf
        half, score = half_count(length, query.average_length), 0
        for word, tf in words:
            score += round(word.weight * UNIT * (tf / (tf + half))) * word.repeats
        return score

    def evidence(self, query: WeighedQuery) -> WordEvidence:
        """Return what the words of a query say of its scores, without what was added to them."""
        more = 0.0 if query.opening_twice else self._idf_of_more
        words = [
            (word.idf + more if word.idf else 0.0, word.repeats)
            for word in query.words
            if not word.is_added
        ]
        most = inverse_frequency(max(len(self.texts), LEAST_DOCUMENTS), 0)
        return WordEvidence.of(words, self.own_score(query) / UNIT, most)

    def rank(self, text: str, k: int, allowed_rows: Rows | None = None) -> ScoredRows:
        """Return the `k` best documents by (score descending, row ascending).

        Documents without a term of `text` are not found. If `allowed_rows` is given, ``int64[M]``
        ascending, only these rows are found; it does not change scores.
        """
        return self.best(self.weigh(text), k, allowed_rows)

    def words_of(self, text: str) -> list[tuple[str, ...]]:
        """Return the terms of each word of a text: its own, and that without accents.

        A number with a point is one word.
        """
        if not self.forms:
            return [(term,) for term in self.analyzer.terms(text)]
        words, stem = split_words(text, self.analyzer), self.analyzer.stem
        bare = (without_accents(word, self.analyzer) for word in words)
        pairs = zip(stem(words), bare, strict=True)
        return [(term, *stem([form] if form else [])) for term, form in pairs]

    def have_phrase(self, texts: Sequence[str], phrase: Sequence[str]) -> list[bool]:
        """Tell which texts have the terms of a phrase, two or more, next to each other.

        The kernel splits ASCII texts together. A single digit or ``1,299`` is one word here and
        none or two there, so what it finds beside such numbers is checked. Numbers with a point
        also part what stands beside them, as in ``2.0beta``; such texts are read one by one.
        """
        have = [True] * len(texts)
        together = [
            at
            for at, text in enumerate(texts)
            if _can_be_joined(text) and not _NUMBER_WITH_POINT.search(text)
        ]
        for start, some in _joined_at_once([texts[at] for at in together]):
            for at, is_there in enumerate(self._may_have_phrase(some, phrase), start):
                have[together[at]] = is_there
        are_checked = set(range(len(texts))).difference(together)
        are_checked.update(at for at in together if have[at] and _OTHER_NUMBER.search(texts[at]))
        for at in are_checked:
            have[at] = words_in_order(self.words_of(texts[at]), phrase)
        return have

    def _may_have_phrase(self, texts: Sequence[str], phrase: Sequence[str]) -> list[bool]:
        """Tell which ASCII texts have a phrase, if numbers are words as the analyzer has them."""
        numbers, distinct, _, lengths = split_texts(texts, forms=False)
        number_of = {term: number for number, term in enumerate(phrase)}
        terms = [number_of.get(term, -1) for term in self.analyzer.stem(distinct)]
        in_texts = np.array(terms, dtype=np.int32).take(numbers)
        n = max(0, len(in_texts) - len(phrase) + 1)
        begins = np.ones(n, dtype=np.bool_)
        for offset, term in enumerate(phrase):
            begins &= in_texts[offset : offset + n] == number_of[term]
        positions, ends = np.flatnonzero(begins), np.cumsum(lengths)
        text_of = np.searchsorted(ends, positions, side="right")
        have = np.zeros(len(texts), dtype=np.bool_)
        have[text_of[positions + len(phrase) <= ends[text_of]]] = True
        return have.tolist()

    def _segment_of(self, documents: Sequence[tuple[int, str]]) -> Segment:
        """Return a segment of the texts of documents."""
        analyzer, collected = self.analyzer, TermRows(self.vocabulary)
        together: list[tuple[int, str]] = []
        is_normalized = analyzer.words != "words"
        for row, text in documents:
            plain = with_plain_signs(text) if is_normalized and not text.isascii() else text
            if _can_be_joined(plain):
                together.append((row, plain))
                continue
            forms = other_forms(text, analyzer) if self.forms else ()
            collected.add(row, analyzer.word_lists(text), forms)
        rows = np.array([row for row, _ in together], dtype=np.int64)
        for start, texts in _joined_at_once([text for _, text in together]):
            of_texts = rows[start : start + len(texts)]
            collected.add_together(of_texts, texts, forms=self.forms)
        return collected.segment()


_NUMBER_WITH_POINT = re.compile(r"\d\.\d")
_OTHER_NUMBER = re.compile(r"(?<!\w)\d(?!\w)|\d[,']\d")


def _can_be_joined(text: str) -> bool:
    return kernel.native is not None and text.isascii() and BOUNDARY not in text


def _joined_at_once(texts: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Split texts into groups of at most :data:`JOINED_AT_ONCE` characters, with their starts."""
    start = size = 0
    for at, text in enumerate(texts):
        size += len(text) + 1
        if size > JOINED_AT_ONCE and start < at:
            yield start, texts[start:at]
            start, size = at, len(text) + 1
    if start < len(texts):
        yield start, texts[start:]


def split_texts(
    texts: Sequence[str], *, forms: bool
) -> tuple[Numbers, list[str], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Split ASCII texts without a :data:`BOUNDARY`, with the other forms of words if `forms`.

    Returns:
        The numbers of the words of each text and then of their forms, ``int32[n]``; the distinct
        words, by number; how many words each text has, and how many numbers, ``int64[N]``.
    """
    joined = BOUNDARY.join([*texts, ""]).encode("ascii")
    lengths, totals = np.empty((2, len(texts)), dtype=np.int64)
    numbers, strings = kernel.native.split_texts(
        len(joined), joined, ord(BOUNDARY), len(texts), forms, lengths, totals
    )
    return (
        np.frombuffer(numbers, dtype=np.int32),
        strings.decode("ascii").splitlines(),
        lengths,
        totals,
    )
