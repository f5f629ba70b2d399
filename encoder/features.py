"""Features of a text: a sparse row over the vocabulary, never made dense."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from encoder.analyzers import (
    BOUNDARY,
    PIECE,
    WORDS,
    Analyzer,
    lists_with_runs,
    short_groups,
    with_runs_of_words,
)
from encoder.spelling import Speller
from foundation.errors import InputError
from foundation.slices import checkpoint

Floats = npt.NDArray[np.float32]
SparseRows = Any
"""A ``scipy.sparse.csr_array`` of shape ``(N, V)`` and dtype float32."""

TermWeighting = Literal["count", "log", "binary"]

# Known terms that are counted between two checkpoints.
TERMS_AT_ONCE = 10_000

MAX_CORRECTED = 64
"""Unknown words of a query that are looked up. Who types a query mistypes fewer."""


class QueryTerms(NamedTuple):
    """What an encoder knows of the text of a query."""

    recognized_terms: int
    """How many distinct terms are in the vocabulary, those corrected included."""
    corrected: tuple[tuple[str, str], ...]
    """Unknown words, and the known ones that were taken for them, in the order of the text."""


class TextRow(NamedTuple):
    """The features of one text: a row of a matrix without its zeros."""

    columns: npt.NDArray[np.intp]
    """``[M]``, ascending: the terms of the text that are in the vocabulary."""
    values: Floats
    """``[M]``"""


class _Found(NamedTuple):
    """The columns of the known terms of texts, one after the other, and how many each text has."""

    columns: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int64]


@dataclass(frozen=True)
class TextFeatures:
    """Weighted term counts over a fixed vocabulary of the terms of an analyzer.

    With tf the count of a term in a text, the weight of the term is g(tf) · idf, g being tf
    (``count``), ln(1 + tf) (``log``) or 1 (``binary``), and idf 1 where `idf` is None. With
    `l2_normalize` every row is then scaled to unit length. Terms outside the vocabulary count for
    nothing; a text without any known term is a row of zeros.
    """

    vocabulary: Sequence[str]
    weighting: TermWeighting = "log"
    max_words: int = 1
    idf: Floats | None = None
    l2_normalize: bool = False
    analyzer: Analyzer = WORDS
    _columns: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        columns = {term: column for column, term in enumerate(self.vocabulary)}
        object.__setattr__(self, "_columns", columns)

    @property
    def dimension(self) -> int:
        """V, the number of terms."""
        return len(self.vocabulary)

    def prepare(self) -> None:
        """Make the speller: a tenth of a second, for a vocabulary of 20,000 terms."""
        _ = self._speller

    def terms(self, text: str) -> list[str]:
        """Return the terms of `text`, known and unknown, repeats included."""
        return with_runs_of_words(self.analyzer.terms(text), self.max_words)

    def count_terms(self, texts: Sequence[str]) -> SparseRows:
        """Return tf, float32 of shape ``(N, V)``, columns sorted within a row."""
        return self._counts(map(self._read_all, short_groups(texts)))

    def weigh(self, counts: SparseRows) -> SparseRows:
        """Turn term counts into features; `counts` is left as it is."""
        weighed = counts.copy()
        self._weigh(weighed.data, weighed.indices)
        if self.l2_normalize:
            _scale_to_unit_length(weighed)
        return weighed

    def transform(self, texts: Sequence[str]) -> SparseRows:
        """Return the features of `texts`, float32 of shape ``(N, V)``.

        Raises:
            InputError: if `texts` is not a sequence of strings.
        """
        self._check(texts)
        return self.weigh(self.count_terms(texts))

    def transform_queries(self, texts: Sequence[str]) -> tuple[SparseRows, list[QueryTerms]]:
        """Return the features of `texts` as queries, and what is known of each.

        Raises:
            InputError: if `texts` is not a sequence of strings.
        """
        counts, known = self.count_query_terms(texts)
        return self.weigh(counts), known

    def count_query_terms(self, texts: Sequence[str]) -> tuple[SparseRows, list[QueryTerms]]:
        """Return tf of `texts` as queries, ``(N, V)``, and what is known of each.

        An unknown word of four letters or more counts as the known word one edit from it, if there
        is one: of several the one with the least idf, the most frequent, and then the first in the
        vocabulary. Of each text, the first :data:`MAX_CORRECTED` unknown words are looked up.

        Raises:
            InputError: if `texts` is not a sequence of strings.
        """
        self._check(texts)
        changes: list[dict[str, str | None]] = [{} for _ in texts]
        pairs = zip(texts, changes, strict=True)
        lists = (self._corrected_lists(text, changed) for text, changed in pairs)
        counts = self._counts([self._read_each(lists)])
        recognized = np.diff(counts.indptr).tolist()
        return counts, [_query_terms(*one) for one in zip(recognized, changes, strict=True)]

    def read_query(self, text: str) -> tuple[TextRow, QueryTerms]:
        """Do as :meth:`transform_queries` for one text, with the same values, bit for bit.

        Making a matrix of scipy takes longer than all the rest of encoding a short text.

        Raises:
            InputError: if `text` is not a string.
        """
        if not isinstance(text, str):
            self._check([text])
        if len(text) > PIECE:
            rows, (known,) = self.transform_queries([text])
            return TextRow(rows.indices, rows.data), known
        changes: dict[str, str | None] = {}
        terms = self.terms(text)
        found = [*map(self._columns.get, terms)]
        if None in found:
            found = [*map(self._columns.get, self._corrected(terms, changes))]
        counts: dict[int, float] = {}
        for column in found:
            if column is not None:
                counts[column] = counts.get(column, 0.0) + 1.0
        ordered = sorted(counts)
        columns = np.array(ordered, dtype=np.intp)
        values = np.array([counts[column] for column in ordered], dtype=np.float32)
        self._weigh(values, columns)
        if self.l2_normalize and ordered:
            # Summed one after the other in float64, as in _scale_to_unit_length.
            (squares,) = np.bincount(np.zeros(len(ordered), dtype=np.intp), values**2)
            values /= np.float32(np.sqrt(squares)) or np.float32(1)
        return TextRow(columns, values), _query_terms(len(ordered), changes)

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
            raise InputError("text", "this encoder takes a sequence of strings")

    def _term_lists(self, text: str) -> Iterable[list[str]]:
        """Return the terms of a text, of a long one in several lists."""
        if len(text) <= PIECE:
            return (self.terms(text),)
        if self.max_words == 1:
            return self.analyzer.term_lists(text)
        return lists_with_runs(self.analyzer.terms(text), self.max_words)

    def _corrected_lists(self, text: str, changes: dict[str, str | None]) -> Iterator[list[str]]:
        """Yield the terms of a query, and note what each unknown one was taken for."""
        for terms in self._term_lists(text):
            yield self._corrected(terms, changes)

    def _corrected(self, terms: list[str], changes: dict[str, str | None]) -> list[str]:
        unknown = [term for term in terms if term not in self._columns]
        for term in unknown:
            if term not in changes and len(changes) < MAX_CORRECTED:
                changes[term] = self._speller.correct(term)
        return [changes.get(term) or term for term in terms] if unknown else terms

    def _read_all(self, texts: Sequence[str]) -> _Found:
        """Look up the terms of short texts together, where that can be."""
        is_long = len(texts) == 1 and len(texts[0]) > PIECE
        terms = None if is_long or self.max_words > 1 else self.analyzer.terms_of_all(texts)
        if terms is None:
            return self._read_each(map(self._term_lists, texts))
        unknown, end = -1, self.dimension
        found = map(self._columns_and_end.get, terms, repeat(unknown))
        columns = np.fromiter(found, dtype=np.int32, count=len(terms))
        columns = columns[columns != unknown]
        ends = np.flatnonzero(columns == end)
        return _Found(columns[columns != end], np.diff(ends, prepend=-1) - 1)

    def _read_each(self, texts: Iterable[Iterable[list[str]]]) -> _Found:
        column_of = self._columns.get
        columns, lengths = array("i"), array("q")
        end_of_slice = TERMS_AT_ONCE
        for lists in texts:
            before = len(columns)
            for terms in lists:
                found = map(column_of, terms)
                columns.extend([column for column in found if column is not None])
            lengths.append(len(columns) - before)
            if len(columns) > end_of_slice:
                end_of_slice = len(columns) + TERMS_AT_ONCE
                checkpoint()
        return _Found(
            np.frombuffer(columns, dtype=np.int32), np.frombuffer(lengths, dtype=np.int64)
        )

    def _counts(self, found: Iterable[_Found]) -> SparseRows:
        columns, lengths = array("i"), array("q", [0])
        for one in found:
            checkpoint()
            columns.frombytes(one.columns.tobytes())
            lengths.frombytes(one.lengths.tobytes())
        indices = np.frombuffer(columns, dtype=np.int32)
        ends = np.cumsum(np.frombuffer(lengths, dtype=np.int64), dtype=np.int32)
        ones = np.ones(len(indices), dtype=np.float32)
        shape = (len(ends) - 1, self.dimension)
        counts = sparse.csr_array((ones, indices, ends), shape=shape)
        counts.sum_duplicates()
        return counts

    @cached_property
    def _columns_and_end(self) -> dict[str, int]:
        """The column of every term, and V for the end of a text."""
        columns = self._columns
        if self.analyzer.language is None:
            # Single letters are no words, and only endings that are left out make terms of them.
            columns = {term: column for term, column in columns.items() if len(term) > 1}
        return {**columns, BOUNDARY: self.dimension}

    @cached_property
    def _speller(self) -> Speller:
        return Speller(self.vocabulary, None if self.idf is None else self.idf.tolist())


def _query_terms(count: int, changes: Mapping[str, str | None]) -> QueryTerms:
    if not changes:
        return QueryTerms(count, ())
    return QueryTerms(count, tuple((term, word) for term, word in changes.items() if word))


def _scale_to_unit_length(rows: SparseRows) -> None:
    lengths = np.diff(rows.indptr)
    squares = np.bincount(
        np.repeat(np.arange(rows.shape[0]), lengths), rows.data**2, minlength=rows.shape[0]
    )
    norms = np.sqrt(squares).astype(np.float32)
    norms[norms == 0] = 1.0
    rows.data /= np.repeat(norms, lengths)
