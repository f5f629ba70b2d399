"""The terms of documents, collected before they are indexed."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from index.lexical.segment import Segment, build_segment

TERMS_AT_ONCE = 1 << 16


class Vocabulary(dict[str, int]):
    """The number of each term; an unknown term gets the next number.

    It never forgets a term, so that the indexes of several generations can share it;
    :meth:`of_numbers` makes a smaller one.
    """

    def __init__(self) -> None:
        """Begin without terms."""
        super().__init__()
        self._terms: list[str] = []

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self)
        self._terms.append(term)
        return number

    def sizes(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the squares of the terms' lengths in characters."""
        lengths = map(len, map(self._terms.__getitem__, numbers.tolist()))
        return np.fromiter(lengths, np.int64, len(numbers)) ** 2

    def of_numbers(self, numbers: npt.NDArray[np.int64]) -> Vocabulary:
        """Return a vocabulary of the terms with these numbers only, in their order."""
        smaller = Vocabulary()
        for start in range(0, len(numbers), TERMS_AT_ONCE):
            for number in numbers[start : start + TERMS_AT_ONCE].tolist():
                smaller[self._terms[number]]
        return smaller


class TermRows:
    """Rows and their terms, collected to become a segment."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Number terms by `vocabulary`."""
        self._vocabulary = vocabulary
        self._rows, self._lengths, self._numbers = array("q"), array("q"), array("i")
        self._summaries = bytearray()

    def add(
        self, row: int, term_lists: Iterable[Iterable[str]], *, longest_summary: int = 0
    ) -> bool:
        """Add a row, which follows all others, with its terms in one or several lists.

        It is a summary if it has at most `longest_summary` terms; return whether it is.
        """
        before = len(self._numbers)
        for terms in term_lists:
            self._numbers.extend(map(self._vocabulary.__getitem__, terms))
        length = len(self._numbers) - before
        self._rows.append(row)
        self._lengths.append(length)
        self._summaries.append(length <= longest_summary)
        return length <= longest_summary

    def segment(self) -> Segment:
        """Return the segment of all rows.

        The size of a summary is the sum of the sizes of its distinct terms.
        """
        segment = build_segment(
            np.array(self._rows, dtype=np.int64),
            np.frombuffer(self._lengths, dtype=np.int64),
            np.frombuffer(self._numbers, dtype=np.int32),
        )
        are_summaries = np.frombuffer(self._summaries, dtype=np.bool_)
        if not are_summaries.any():
            return segment
        sizes = segment.sums_over_terms(self._vocabulary.sizes(segment.terms))
        sizes[~are_summaries] = 0
        return replace(segment, summary_sizes=sizes.astype(np.int32))
