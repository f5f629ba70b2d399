"""The terms of documents, collected before they are indexed."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from index.lexical.segment import Segment, build_segment


class TermRows:
    """Rows and their terms, collected to become a segment."""

    def __init__(self, vocabulary: defaultdict[str, int]) -> None:
        """Number terms by `vocabulary`, which gives each unknown one the next number."""
        self._number_of = vocabulary.__getitem__
        self._rows, self._lengths, self._numbers = array("q"), array("q"), array("i")

    def add(self, row: int, term_lists: Iterable[Iterable[str]]) -> None:
        """Add a row, which follows all others, with its terms in one or several lists."""
        before = len(self._numbers)
        for terms in term_lists:
            self._numbers.extend(map(self._number_of, terms))
        self._rows.append(row)
        self._lengths.append(len(self._numbers) - before)

    def segment(self) -> Segment:
        """Return the segment of all rows."""
        return build_segment(
            np.array(self._rows, dtype=np.int64),
            np.frombuffer(self._lengths, dtype=np.int64),
            np.frombuffer(self._numbers, dtype=np.int32),
        )
