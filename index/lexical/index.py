"""The lexical index of one generation of a collection, and how the next one is made from it.

It has three fields: the texts, the titles of those that have one, and the summaries of those that
are not their own. A write makes the next index and leaves this one unchanged.

Every match is scored. Adding up a million postings takes about three milliseconds, and the
standardized scores of a hybrid ranking need the scores of all matches anyway, so skipping documents
that cannot be among the best would save nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from encoder.analyzers import Analyzer
from encoder.texts.openings import summary_of, title_of
from index.engines.protocol import Rows
from index.lexical.bm25_formula import (
    OPENING,
    SUMMARY_TERMS,
    SUMMARY_WEIGHT,
    TITLE_WEIGHT,
    UNIT,
    B,
    part_of_summary,
    saturation,
)
from index.lexical.field import Field, TermWeight
from index.lexical.matches import Matches, ScoredRows
from index.lexical.segment import Segment
from index.lexical.summaries import (
    MARK,
    average_size,
    has_several_sentences,
    score_summaries,
    summary_terms,
)
from index.lexical.term_rows import TermRows, Vocabulary

# A vocabulary with fewer terms is not worth a compaction of its own; it takes some megabytes.
MIN_UNUSED = 1 << 16
# A build reads so many documents at a time, which limits its memory.
DOCUMENTS_AT_ONCE = 100_000


class WeighedTerm(NamedTuple):
    """A term of a query."""

    term: str
    idf: float
    """The idf, with a factor in the hybrid ranking; 0 if no document has the term."""
    repeats: int
    """How often the term occurs in the query."""
    title_idf: float = 0.0
    """The idf among titles; 0 if no title has the term, and in other rankings than the hybrid."""


class WeighedQuery(NamedTuple):
    """A query's terms and whatever else its scores depend on.

    The distinct terms of the text come in its order, and those of its corrections after them. It
    keeps the scores of documents constant, whatever is written later.
    """

    terms: list[WeighedTerm]
    average_length: float
    average_title_length: float | None = None
    """None in other rankings than the hybrid, where openings count twice and titles count."""
    average_summary_size: float | None = None
    """None in other rankings than the hybrid; 0 if summaries do not count."""

    @property
    def hybrid(self) -> bool:
        """Whether scores are those of :mod:`index.rankings.hybrid`."""
        return self.average_title_length is not None

    @property
    def statistics(self) -> tuple[float, ...]:
        """The statistics with which :meth:`LexicalIndex.weigh` gives the same weights later."""
        of_texts = (self.average_length, *(term.idf for term in self.terms))
        if self.average_title_length is None or self.average_summary_size is None:
            return of_texts
        of_titles = (self.average_title_length, *(term.title_idf for term in self.terms))
        return (*of_texts, *of_titles, self.average_summary_size)


@dataclass(frozen=True, eq=False)
class LexicalIndex:
    """An immutable index of the documents with a text, ranked by BM25."""

    number: int
    """The number of the generation."""
    analyzer: Analyzer
    vocabulary: Vocabulary
    """The number of each term. Indexes made from one another share it, up to a compaction."""
    texts: Field
    titles: Field
    summaries: Field

    @classmethod
    def build(
        cls, number: int, analyzer: Analyzer, documents: Iterable[tuple[int, str]]
    ) -> LexicalIndex:
        """Index the `documents` of a generation, pairs (row, text) in ascending order of rows."""
        index = cls(number, analyzer, Vocabulary(), Field(()), Field(()), Field(()))
        remaining, segments = iter(documents), [index._segments_of([])]
        while batch := list(islice(remaining, DOCUMENTS_AT_ONCE)):
            segments.append(index._segments_of(batch))
        texts, titles, summaries = map(Field.of, zip(*segments, strict=True))
        return replace(index, texts=texts, titles=titles, summaries=summaries)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def nbytes(self) -> int:
        """The memory of the posting lists in bytes, without the vocabulary."""
        return sum(field.nbytes for field in self._fields)

    @property
    def needs_compaction(self) -> bool:
        """Whether :meth:`compacted` would make searches faster or free much memory."""
        return any(field.needs_compaction for field in self._fields) or self._has_unused_terms

    def rows(self) -> Rows:
        """Return the rows of all documents with a text, ascending."""
        return self.texts.rows()

    def compacted(self) -> LexicalIndex:
        """Return an equivalent index whose fields consist of one base each.

        It has a vocabulary of its own, without the terms that no document has any more.
        """
        fields = [field.compacted() for field in self._fields]
        used = np.unique(np.concatenate([field.terms() for field in fields]))
        texts, titles, summaries = (field.renumbered(used) for field in fields)
        return replace(
            self,
            vocabulary=self.vocabulary.of_numbers(used),
            texts=texts,
            titles=titles,
            summaries=summaries,
        )

    def with_changes(
        self, number: int, documents: Sequence[tuple[int, str]], removed: Rows
    ) -> LexicalIndex:
        """Return the index of generation `number`: with `documents`, without the rows `removed`.

        `documents` are pairs (row, text); the rows ascend and follow every row of this index.
        Unknown rows in `removed` are ignored.
        """
        texts, titles, summaries = (
            field.with_changes(segment, removed)
            for field, segment in zip(self._fields, self._segments_of(documents), strict=True)
        )
        return replace(self, number=number, texts=texts, titles=titles, summaries=summaries)

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
        repeats = [*counts.items(), *((term, 1) for _, term in replaced)]
        if statistics is None:
            known = [*counts, *(None if self._has_word(word) else term for word, term in replaced)]
            statistics = self._statistics(known, hybrid=hybrid)
        width = 1 + len(repeats)
        if len(statistics) != (2 * width + 1 if hybrid else width):
            raise ValueError(f"{len(statistics)} statistics do not fit {len(repeats)} terms")
        of_texts, of_titles = statistics[:width], statistics[width : 2 * width]
        title_idfs = of_titles[1:] if hybrid else [0.0] * len(repeats)
        weighed = [
            WeighedTerm(term, idf, n, title_idf)
            for (term, n), idf, title_idf in zip(repeats, of_texts[1:], title_idfs, strict=True)
        ]
        if not hybrid:
            return WeighedQuery(weighed, of_texts[0])
        return WeighedQuery(weighed, of_texts[0], of_titles[0], statistics[-1])

    def matches(self, query: WeighedQuery) -> Matches:
        """Score every document."""
        numbered = [
            (number, term)
            for term in query.terms
            if term.idf and (number := self.vocabulary.get(term.term)) is not None
        ]
        in_texts = [TermWeight(number, term.idf, term.repeats) for number, term in numbered]
        in_titles = [
            TermWeight(number, TITLE_WEIGHT * term.title_idf, term.repeats)
            for number, term in numbered
            if term.title_idf
        ]
        highest = sum(one.weight * one.repeats for one in in_texts)
        bound = UNIT * (highest + sum(one.weight * one.repeats for one in in_titles))
        bound += UNIT * highest * SUMMARY_WEIGHT / (1 - B) if query.hybrid else 0
        dtype = np.int32 if bound + 2 * len(numbered) < 2**31 else np.int64
        matches = self.texts.matches(
            in_texts, query.average_length, dtype, opening_twice=query.hybrid
        )
        if query.average_title_length is not None and in_titles:
            self.titles.add_to(matches, in_titles, query.average_title_length)
        if query.average_summary_size and in_texts:
            weights = [(one.number, one.weight) for one in in_texts]
            for some in (self.texts, self.summaries):
                for found in score_summaries(some, weights, highest, query.average_summary_size):
                    matches.add(found)
        return matches

    def own_score(self, query: WeighedQuery) -> int:
        """Return the score of a text of one line that consists of the terms of a query, in units.

        Terms that no document has are left out.
        """
        terms = [term for term in query.terms if term.idf]
        if not terms:
            return 0
        counts = np.array([term.repeats for term in terms], dtype=np.float64)
        if query.hybrid:
            opening = np.clip(OPENING - np.concatenate([[0], np.cumsum(counts)[:-1]]), 0, counts)
            frequencies = counts + opening
        else:
            frequencies = counts
        lengths = np.full(len(terms), frequencies.sum())
        saturations = saturation(frequencies, lengths, query.average_length)
        weights = np.array([term.idf for term in terms])
        total = float(np.rint(weights * UNIT * saturations) @ counts)
        if query.average_summary_size:
            size = np.array([sum(len(term.term) ** 2 for term in terms)])
            highest = float(weights @ counts)
            total += float(
                part_of_summary(highest, np.ones(1), size, query.average_summary_size)[0]
            )
        return round(total)

    def rank(self, text: str, k: int, allowed: Rows | None = None) -> ScoredRows:
        """Return the `k` best documents by (score descending, row ascending).

        Documents without a term of `text` are not found. If `allowed` is given, ``int64[M]``
        ascending, only these rows are found; it does not change scores.
        """
        return self.matches(self.weigh(text)).best(k, allowed)

    def _statistics(self, terms: Sequence[str | None], *, hybrid: bool) -> list[float]:
        """Return the :attr:`~WeighedQuery.statistics` of a query; None has no weight."""
        numbers = [None if term is None else self.vocabulary.get(term) for term in terms]
        of_texts = [0.0 if one is None else self.texts.idf(one, bursty=hybrid) for one in numbers]
        statistics = [self.texts.average_length(opening_twice=hybrid), *of_texts]
        if hybrid:
            of_titles = (0.0 if one is None else self.titles.idf(one) for one in numbers)
            statistics += [self.titles.average_length(), *of_titles]
            statistics.append(self._average_summary_size())
        return statistics

    def _average_summary_size(self) -> float:
        """Return the mean size of all summaries; 0 unless a text has a title or two sentences."""
        mark = self.vocabulary.get(MARK)
        has_several = mark is not None and self.summaries.frequency(mark) > 0
        return (
            average_size((self.texts, self.summaries)) if has_several or len(self.titles) else 0.0
        )

    def _has_word(self, word: str) -> bool:
        """Return whether a document has a term of `word`."""
        numbers = map(self.vocabulary.get, self.analyzer.terms(word))
        return any(number is not None and self.texts.frequency(number) for number in numbers)

    @property
    def _has_unused_terms(self) -> bool:
        """Whether most terms of the vocabulary, and many, are certainly in no document."""
        most_used = sum(field.n_terms for field in self._fields)
        return len(self.vocabulary) > max(MIN_UNUSED, 2 * most_used)

    @property
    def _fields(self) -> tuple[Field, Field, Field]:
        return self.texts, self.titles, self.summaries

    def _segments_of(
        self, documents: Sequence[tuple[int, str]]
    ) -> tuple[Segment, Segment, Segment]:
        """Return a segment of the texts, one of the titles that they have, and one of summaries.

        A short text of one sentence, with or without a title, is its own summary, so its summary is
        not indexed again.
        """
        texts, titles, summaries = (TermRows(self.vocabulary) for _ in range(3))
        for row, text in documents:
            title, summary = title_of(text), summary_of(text)
            if title is not None:
                titles.add(row, self.analyzer.term_lists(title))
            longest = SUMMARY_TERMS if summary == text.strip() else 0
            lists = self.analyzer.term_lists(text)
            if not texts.add(row, lists, longest_summary=longest):
                marked = title is None and has_several_sentences(text, summary)
                terms = summary_terms(self.analyzer.terms(summary), marked=marked)
                summaries.add(row, (terms,), longest_summary=SUMMARY_TERMS + 1)
        return texts.segment(), titles.segment(), summaries.segment()
