"""Features of a text: a sparse row over the vocabulary, never made dense."""

from __future__ import annotations

import functools
import os
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.analyzers import (
    BOUNDARY,
    PIECE_LENGTH,
    WORDS,
    Analyzer,
    joined_words,
    short_groups,
    with_plain_signs,
    word_ngram_lists,
    word_ngrams,
)
from hummingbit.encoder.spelling import Corrections, QueryTerms, Speller
from hummingbit.foundation.arrays import runs_in_order, sorted_distinct
from hummingbit.foundation.errors import InputError
from hummingbit.foundation.memo import Memo

# The optional compiled forward pass of a few queries.
#
# It is written in C, in ``native/``, and pip builds it if there is a compiler. Without it, numpy
# computes the same bits; see :func:`hummingbit.encoder.encoder.forward_row`.
# ``HUMMINGBIT_KERNEL=off`` switches it off, as it does the kernel of searches
# (:mod:`hummingbit.index.engines.kernel`).


try:
    from hummingbit.encoder import _layers
except ImportError:  # it was not built
    built: Any = None
else:
    built = _layers

VARIABLE = "HUMMINGBIT_KERNEL"
OFF = "off"

native: Any = None if os.environ.get(VARIABLE) == OFF else built
"""The compiled code, or None."""


# The title, the summary and the sentences of a text.


# Only so many characters of a title and of a sentence are read.
SEARCHED_LENGTH = 1000
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]")
_CLAUSE_END = re.compile(r"[.!?;:](?=\s)|[\n。！？；：]")
# Longer sentences are cut into pieces of this many words.
_MAX_SENTENCE_WORDS = 30
_SENTENCE_OR_LINE_END = re.compile(rf"{_SENTENCE_END.pattern}|\n")


def title_of(text: str) -> str | None:
    """Return the first line of a text, or None if it has only one; blank lines do not count."""
    first, _, rest = text.lstrip().partition("\n")
    return first if rest and not rest.isspace() else None


def summary_of(text: str) -> str:
    """Return the title of a text, if it has one, and the first sentence that follows.

    A sentence also ends where its line ends. So a text of one sentence is its own summary.
    """
    title, sentence, _ = _parts(text)
    return sentence if title is None else f"{title[:SEARCHED_LENGTH]}\n{sentence}"


def proper_summary(text: str) -> str:
    """Return the summary of a text, or nothing if the summary is the whole text."""
    # A short text that ends nowhere else than at its end is all of it.
    if len(text) <= SEARCHED_LENGTH and not text[-1:].isspace():
        before = text[:-1]
        # Looking for each character takes a third of the time of the expression.
        has_none = not ("." in before or "\n" in text or "?" in before or "!" in before)
        if (has_none and text.isascii()) or not _SENTENCE_OR_LINE_END.search(text):
            return ""
    summary = summary_of(text)
    return "" if summary == text.strip() else summary


def sentences_after_summary(text: str) -> list[str]:
    """Return the sentences and lines of a text that are not in its summary."""
    _, _, rest = _parts(text)
    return [sentence for sentence in _SENTENCE_OR_LINE_END.split(rest) if sentence.strip()]


def split_sentences(text: str) -> list[str]:
    """Return the sentences of `text`, at most thirty words each, in order."""
    sentences: list[str] = []
    for sentence in _CLAUSE_END.split(text):
        words = sentence.split()
        starts = range(0, len(words), _MAX_SENTENCE_WORDS)
        sentences.extend(" ".join(words[start : start + _MAX_SENTENCE_WORDS]) for start in starts)
    return sentences


def _parts(text: str) -> tuple[str | None, str, str]:
    """Return the title, the first sentence after it, and the rest."""
    title = title_of(text)
    after_title = text.lstrip()[len(title or "") :].lstrip()
    line = after_title[:SEARCHED_LENGTH].partition("\n")[0]
    end = _SENTENCE_END.search(line)
    stop = end.end() if end else len(line)
    return title, line[:stop], after_title[stop:]


# The scaling of sparse rows to unit length.


def scale_to_unit_length(rows: Any, selected: npt.NDArray[np.bool_] | None = None) -> None:
    """Scale the rows of a ``csr_array`` to length 1, in place; rows of zeros stay.

    With `selected`, bool ``(N,)``, only these rows are scaled.
    """
    lengths = np.diff(rows.indptr)
    squares = np.bincount(
        np.repeat(np.arange(rows.shape[0]), lengths), rows.data**2, minlength=rows.shape[0]
    )
    norms = np.sqrt(squares).astype(np.float32)
    norms[norms == 0] = 1.0
    if selected is not None:
        norms[~selected] = 1.0
    rows.data /= np.repeat(norms, lengths)


# Features of a text: a sparse row over the vocabulary, never made dense.


Floats = npt.NDArray[np.float32]
SparseRows = Any
"""A ``scipy.sparse.csr_array`` of shape ``(N, V)`` and dtype float32."""

TermWeighting = Literal["count", "log", "binary"]

# Known terms that are counted between two checkpoints.
TERMS_AT_ONCE = 10_000
# Words that others are corrected to: training writes the frequent ones first.
MAX_SPELLED = 100_000
FEW_TERMS = 64  # the compiled code weighs a query of fewer


PIECE_MARK = "##"
"""Precedes the pieces of words that do not begin a word."""
_RUN = re.compile(r"[^\W\d_]+|\d+")
WORDS_KEPT = 1 << 14
_LONGEST_IN_PIECES = 64  # looking for pieces takes quadratic time in the length of a word


class TextRow(NamedTuple):
    """The features of one text: a row of a matrix without its zeros."""

    columns: npt.NDArray[np.intp]
    """``[M]``, ascending: the terms of the text that are in the vocabulary."""
    values: Floats
    """``[M]``"""


def _no_correction(word: str) -> None:
    """Correct no word."""


def _sum_of_rows(row: TextRow, other: TextRow) -> TextRow:
    columns = sorted_distinct(np.concatenate([row.columns, other.columns]))
    values = np.zeros(len(columns), dtype=np.float32)
    values[np.searchsorted(columns, row.columns)] = row.values
    values[np.searchsorted(columns, other.columns)] += other.values
    return TextRow(columns, values)


class _KnownTerms(NamedTuple):
    """The columns of the known terms of texts, concatenated, and the number of each text."""

    columns: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int64]


@dataclass(frozen=True)
class TextFeatures:
    """Weighted counts of the terms of an analyzer, over a fixed vocabulary.

    If a term occurs tf times in a text, its weight is g(tf) · idf, where g(tf) is tf (``count``),
    ln(1 + tf) (``log``) or 1 (``binary``), and idf is 1 if `idf` is None. With `l2_normalize` every
    row is then scaled to unit length. Terms outside the vocabulary are ignored; a text without any
    known term is a row of zeros.

    With `pieces`, the vocabulary also has pieces of words, those that do not begin a word with
    ``##`` before them, as in BERT's WordPiece. An unknown word is then read as its longest known
    pieces from the left, each of its runs of letters and of digits by itself: ``read_csv`` as
    ``read``, ``cs`` and ``##v``. Without `corrections`, unknown words of queries are read as those
    of documents are, and not corrected.

    A `summary_weight` is that of the title and the first sentence of a document, where the network
    of an encoder reads it (:meth:`add_summaries`).

    Raises:
        ValueError: if there is a `summary_weight` without `l2_normalize`.
    """

    vocabulary: Sequence[str]
    weighting: TermWeighting = "log"
    max_words: int = 1
    idf: Floats | None = None
    l2_normalize: bool = False
    analyzer: Analyzer = WORDS
    summary_weight: float = 0.0
    pieces: bool = False
    corrections: bool = True
    _columns: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.summary_weight and not self.l2_normalize:
            raise ValueError("summary_weight needs l2_normalize")
        columns = dict(zip(self.vocabulary, range(len(self.vocabulary)), strict=True))
        object.__setattr__(self, "_columns", columns)

    @property
    def dimension(self) -> int:
        """V, the number of terms."""
        return len(self.vocabulary)

    @property
    def n_distinct(self) -> int:
        """The number of distinct terms, which is V unless the vocabulary is damaged."""
        return len(self._columns)

    def prepare(self) -> None:
        """Build the speller, which takes a tenth of a second for a vocabulary of 20,000 terms."""
        if self.corrections:
            _ = self._speller

    def terms(self, text: str) -> list[str]:
        """Return the terms of `text`, known and unknown, repeats included."""
        return word_ngrams(self.analyzer.terms(text), self.max_words)

    def count_terms(self, texts: Sequence[str]) -> SparseRows:
        """Return tf, float32 of shape ``(N, V)``, columns sorted within a row."""
        return self._count(map(self._look_up_together, short_groups(texts)))

    def weigh(self, counts: SparseRows) -> SparseRows:
        """Return the features for term counts; `counts` is not changed."""
        rows = counts.copy()
        self._weigh(rows.data, rows.indices)
        if self.l2_normalize:
            scale_to_unit_length(rows)
        return rows

    def transform(self, texts: Sequence[str]) -> SparseRows:
        """Return the features of `texts`, float32 of shape ``(N, V)``, without summaries.

        Raises:
            InputError: if `texts` is not a sequence of strings.
        """
        self._check(texts)
        return self.weigh(self.count_terms(texts))

    def add_summaries(self, rows: SparseRows, texts: Sequence[str]) -> SparseRows:
        """Return x + m s, scaled to unit length, for `rows` x, the features of `texts`.

        s are the features of the summaries (:func:`hummingbit.encoder.text_features.summary_of`),
        and m is the `summary_weight`. If m is 0, `rows` are returned.
        """
        if not self.summary_weight:
            return rows
        summaries = self.weigh(self.count_terms([proper_summary(text) for text in texts]))
        rows = rows + self.summary_weight * summaries
        # A row without a summary keeps its bits, which a second scaling could change.
        scale_to_unit_length(rows, np.diff(summaries.indptr) > 0)
        return rows

    def knows(self, word: str) -> bool:
        """Tell whether a term of a word is in the vocabulary."""
        return not self._columns.keys().isdisjoint(self.analyzer.terms(word))

    def correct(self, word: str) -> str | None:
        """Return the known word one edit from a word, or None; see :class:`.Speller`."""
        return self._speller.correct(word) if self.corrections else None

    def transform_queries(
        self, texts: Sequence[str], *, correct: bool = True
    ) -> tuple[SparseRows, list[QueryTerms]]:
        """Return the features of `texts` as queries, float32 ``(N, V)``, and the terms of each.

        The terms are those of :meth:`count_query_terms`.

        Raises:
            InputError: if `texts` is not a sequence of strings.
        """
        counts, terms = self.count_query_terms(texts, correct=correct)
        self._weigh(counts.data, counts.indices)
        if self.l2_normalize:
            scale_to_unit_length(counts)
        return counts, terms

    def count_query_terms(
        self, texts: Sequence[str], *, correct: bool = True
    ) -> tuple[SparseRows, list[QueryTerms]]:
        """Return tf of `texts` as queries, ``(N, V)``, and the terms of each.

        Without `correct`, they are read as they are. Otherwise, an unknown identifier
        (:mod:`hummingbit.encoder.spelling`) counts as its words if one of them is known. Any other
        unknown word of four letters or more counts as the known word one edit away, if there is
        one. Of several, it is the most frequent, which has the least idf, and then the first in the
        vocabulary. Only the first :data:`~hummingbit.encoder.spelling.MAX_CORRECTIONS` unknown
        words of a text are looked up.

        Raises:
            InputError: if `texts` is not a sequence of strings.
        """
        self._check(texts)
        corrections = [self._corrections(correct=correct) for _ in texts]
        lists = map(
            functools.partial(self._corrected_term_lists, correct=correct), texts, corrections
        )
        counts = self._count([self._look_up_each(lists)])
        recognized = np.diff(counts.indptr).tolist()
        return counts, [
            QueryTerms(n, correction.pairs, correction.n_unknown)
            for n, correction in zip(recognized, corrections, strict=True)
        ]

    def read_query(self, text: str, *, correct: bool = True) -> tuple[TextRow, QueryTerms]:
        """Return what :meth:`transform_queries` does for one text, bit for bit, without a matrix.

        Making a scipy matrix takes longer than all the rest of encoding a short text.

        Raises:
            InputError: if `text` is not a string.
        """
        if not isinstance(text, str):
            self._check([text])
        if len(text) > PIECE_LENGTH:
            rows, (query_terms,) = self.transform_queries([text], correct=correct)
            return TextRow(rows.indices.astype(np.intp), rows.data), query_terms
        corrected: tuple[tuple[str, str], ...] = ()
        n_unknown = 0
        terms = self.terms(text)
        columns = [column for column in map(self._columns.get, terms) if column is not None]
        if len(columns) < len(terms):
            corrections = self._corrections(correct=correct)
            if correct:
                terms = self.terms(corrections.split_identifiers(text))
            columns = self._columns_of(corrections.replace(terms))
            corrected, n_unknown = corrections.pairs, corrections.n_unknown
        row = self._weigh_one(columns)
        return row, QueryTerms(len(row.columns), corrected, n_unknown)

    def read_document(self, text: str) -> tuple[TextRow, TextRow]:
        """Return what :meth:`transform` and :meth:`add_summaries` do for a text, without scipy.

        Sums may be rounded otherwise.
        """
        row = self._weigh_one(self._columns_in(text))
        summary = proper_summary(text) if self.summary_weight else ""
        if not summary:
            return row, row
        columns, values = self._weigh_one(self._columns_in(summary))
        if not len(columns):
            return row, row
        weighted = TextRow(columns, np.float32(self.summary_weight) * values)
        both, sums = _sum_of_rows(row, weighted)
        return row, TextRow(both, sums / np.linalg.norm(sums))

    def _columns_in(self, text: str) -> list[int]:
        return [column for terms in self._term_lists(text) for column in self._columns_of(terms)]

    def _weigh_one(self, columns: list[int]) -> TextRow:
        """Return the features of a text whose known terms have the `columns`, repeats included."""
        gains, idf = self._factors
        if native is not None and len(columns) < len(gains):
            row, values = np.empty(len(columns), np.intp), np.empty(len(columns), np.float32)
            n = native.weigh(row, values, columns, gains, idf, self.l2_normalize)
            return TextRow(row[:n], values[:n])
        counts = Counter(columns)
        row = np.array(sorted(counts), dtype=np.intp)
        values = np.array([counts[column] for column in row.tolist()], dtype=np.float32)
        self._weigh(values, row)
        if self.l2_normalize and len(row):
            # Summed in order in float64, as in scale_to_unit_length; a sum may round otherwise.
            squares = np.cumsum(values**2, dtype=np.float64)[-1]
            values /= np.float32(np.sqrt(squares)) or np.float32(1)
        return TextRow(row, values)

    def _weigh(self, counts: Floats, columns: npt.NDArray[np.integer[Any]]) -> None:
        """Turn the counts of the terms in `columns` into weights, in place."""
        if self.weighting == "log":
            np.log1p(counts, out=counts)
        elif self.weighting == "binary":
            counts.fill(1.0)
        if self.idf is not None:
            counts *= self.idf[columns]

    def _check(self, texts: Sequence[str]) -> None:
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise InputError("text", "must be a sequence of strings")

    def _term_lists(self, text: str) -> Iterable[list[str]]:
        """Return the terms of a text; those of a long text in several lists."""
        if len(text) <= PIECE_LENGTH:
            return (self.terms(text),)
        if self.max_words == 1:
            return self.analyzer.term_lists(text)
        return word_ngram_lists(self.analyzer.terms(text), self.max_words)

    def _corrections(self, *, correct: bool) -> Corrections:
        return Corrections(self._columns, self.terms, self.correct if correct else _no_correction)

    def _columns_of(self, terms: Sequence[str]) -> list[int]:
        """Return the columns of `terms`; with `pieces`, also those of unknown words."""
        found = [*map(self._columns.get, terms)]
        if None not in found:
            return found  # type: ignore[return-value]
        if not self.pieces:
            return [column for column in found if column is not None]
        columns: list[int] = []
        for term, column in zip(terms, found, strict=True):
            if column is not None:
                columns.append(column)
            elif " " not in term:
                columns += self._known_pieces[term[:_LONGEST_IN_PIECES]]
        return columns

    @functools.cached_property
    def _known_pieces(self) -> Memo[list[int]]:
        """The pieces of the latest unknown words; most occur again."""
        return Memo(self._pieces_of, WORDS_KEPT)

    def _pieces_of(self, word: str) -> list[int]:
        """Return the columns of the longest known pieces of a word, from the left."""
        columns: list[int] = []
        for part in _RUN.findall(word):
            start = 0
            while start < len(part):
                mark = PIECE_MARK if start else ""
                for end in range(len(part), start, -1):
                    column = self._columns.get(mark + part[start:end])
                    if column is not None:
                        columns.append(column)
                        break
                else:
                    break  # a character that no piece has; the rest of the run is not read
                start = end
        return columns

    def _corrected_term_lists(
        self, text: str, corrections: Corrections, *, correct: bool
    ) -> Iterator[list[str]]:
        for terms in self._term_lists(corrections.split_identifiers(text) if correct else text):
            yield corrections.replace(terms)

    def _look_up_together(self, texts: Sequence[str]) -> _KnownTerms:
        """Look up the terms of a group of texts, those of ASCII texts at once if they are short."""
        if self._compiled is not None:
            return self._look_up_compiled(texts, self._compiled)
        is_long = len(texts) == 1 and len(texts[0]) > PIECE_LENGTH
        is_joined = not is_long and self.max_words == 1 and not self.pieces
        terms = self.analyzer.terms_of_all(texts) if is_joined else None
        if terms is None:
            return self._look_up_each(map(self._term_lists, texts))
        unknown, end = -1, self.dimension
        found = map(self._columns_and_end.get, terms, repeat(unknown))
        columns = np.fromiter(found, dtype=np.int32, count=len(terms))
        columns = columns[columns != unknown]
        ends = np.flatnonzero(columns == end)
        return _KnownTerms(columns[columns != end], np.diff(ends, prepend=-1) - 1)

    def _look_up_compiled(self, texts: Sequence[str], vocabulary: tuple[Any, ...]) -> _KnownTerms:
        """Look up the terms of a group of texts, those of ASCII texts by the compiled code."""
        joined = joined_words(texts)
        if joined is None:
            texts = [text if text.isascii() else with_plain_signs(text) for text in texts]
            is_plain = np.array([text.isascii() and BOUNDARY not in text for text in texts])
            plain, others = (
                [texts[at] for at in np.flatnonzero(chosen).tolist()]
                for chosen in (is_plain, ~is_plain)
            )
            columns, lengths = self._look_up_each(map(self._term_lists, others))
            if plain:
                found = self._look_up_compiled(plain, vocabulary)
                columns = np.concatenate([found.columns, columns])
                lengths = np.concatenate([found.lengths, lengths])
            # The plain ones came first.
            order = np.argsort(np.argsort(~is_plain, kind="stable"))
            return _KnownTerms(runs_in_order(columns, lengths, order), lengths[order])
        columns = np.empty(len(joined) * self.max_words, dtype=np.int32)
        lengths = np.empty(len(texts), dtype=np.int64)
        n = native.known_terms(
            *vocabulary,
            self.max_words,
            self.pieces,
            joined,
            ord(BOUNDARY),
            columns,
            lengths,
        )
        return _KnownTerms(columns[:n], lengths)

    @functools.cached_property
    def _compiled(self) -> tuple[Any, ...] | None:
        """The vocabulary for the compiled code; None if it cannot read these terms."""
        if native is None or self.analyzer.language or self.analyzer.grams:
            return None
        encoded = [term.encode("utf-8", "surrogatepass") for term in self.vocabulary]
        starts = np.zeros(len(encoded) + 1, dtype=np.int32)
        np.cumsum([len(term) + 1 for term in encoded], out=starts[1:])
        cells = np.zeros(1 << (2 * len(encoded)).bit_length(), dtype=np.uint64)
        text = b"\n".join([*encoded, b""])
        native.fill_cells(text, starts, cells)
        return text, starts, cells

    def _look_up_each(self, texts: Iterable[Iterable[list[str]]]) -> _KnownTerms:
        """Look up the terms of texts, each of which comes as lists of terms."""
        columns, lengths = array("i"), array("q")
        end_of_slice = TERMS_AT_ONCE
        for lists in texts:
            before = len(columns)
            for terms in lists:
                columns.extend(self._columns_of(terms))
            lengths.append(len(columns) - before)
            if len(columns) > end_of_slice:
                end_of_slice = len(columns) + TERMS_AT_ONCE
        return _KnownTerms(
            np.frombuffer(columns, dtype=np.int32), np.frombuffer(lengths, dtype=np.int64)
        )

    def _count(self, groups: Iterable[_KnownTerms]) -> SparseRows:
        """Return how often each known term occurs in each text, float32 ``(N, V)``."""
        columns, lengths = array("i"), array("q", [0])
        for group in groups:
            columns.frombytes(group.columns.tobytes())
            lengths.frombytes(group.lengths.tobytes())
        indices = np.frombuffer(columns, dtype=np.int32)
        ends = np.cumsum(np.frombuffer(lengths, dtype=np.int64), dtype=np.int32)
        ones = np.ones(len(indices), dtype=np.float32)
        from scipy.sparse import csr_array  # noqa: PLC0415 - it takes longer than a search

        counts = csr_array((ones, indices, ends), shape=(len(ends) - 1, self.dimension))
        counts.sum_duplicates()
        return counts

    @functools.cached_property
    def _factors(self) -> tuple[Floats, Floats]:
        """g(tf) for each tf below :data:`FEW_TERMS`, and the idf of each term."""
        tf = np.arange(FEW_TERMS, dtype=np.float32)
        gains = {"count": tf, "log": np.log1p(tf), "binary": np.ones_like(tf)}[self.weighting]
        idf = np.ones(self.dimension) if self.idf is None else self.idf
        return gains, np.ascontiguousarray(idf, dtype=np.float32)

    @functools.cached_property
    def _columns_and_end(self) -> dict[str, int]:
        """The column of every term, and V for the end of a text."""
        columns = self._columns
        if self.analyzer.language is None:
            # Single letters are terms only where the stemmer shortened a word to one.
            columns = {term: column for term, column in columns.items() if len(term) > 1}
        return {**columns, BOUNDARY: self.dimension}

    @functools.cached_property
    def _speller(self) -> Speller:
        words = self.vocabulary[:MAX_SPELLED]
        return Speller(words, None if self.idf is None else self.idf[:MAX_SPELLED].tolist())
