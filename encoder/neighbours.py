"""The words that an encoder's table says are nearest in meaning to a word.

The first layer of an encoder of words has a row for each term, and the code of a text is made of
the sum of its rows. So words with similar rows have similar codes: "mirror" and "reflection",
"phone" and "mobile". The word index uses them (:mod:`hummingbit.index.questions`).

The rows with the largest cosines are found among those whose signs agree most, which reads 32
bytes of each row in place of a thousand. What was found for a word is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

MOST_NEIGHBOURS = 64
"""How many neighbours a word has at most; a word index has some of them."""
LEAST_COSINE = 0.4
N_CANDIDATES = 256
"""So many rows whose signs agree most are compared."""
WORDS_KEPT = 1 << 15


class Neighbour(NamedTuple):
    """A term of an encoder, and the cosine of its row and that of another term."""

    term: str
    cosine: float


class WordTable:
    """The rows of an encoder's words: terms of letters, no pieces of words and no runs of them."""

    def __init__(
        self, vocabulary: Sequence[str], rows: Floats, column_of: Callable[[str], int | None]
    ) -> None:
        """Hold the `rows`, ``float32[V, D]``, of all terms of a vocabulary, and their places."""
        self._vocabulary = vocabulary
        self._rows = rows
        self._column_of = column_of
        self.neighbours = lru_cache(WORDS_KEPT)(self._neighbours)

    def _neighbours(self, term: str) -> tuple[Neighbour, ...]:
        """Return the words nearest to a term, nearest first, without itself.

        There are at most :data:`MOST_NEIGHBOURS`, with cosines of at least :data:`LEAST_COSINE`,
        and none if the term is not a word of the table.
        """
        column = self._column_of(term) if _is_word(term) else None
        if column is None:
            return ()
        words, signs = self._signs
        row = self._rows[column]
        differing = np.zeros(len(words), dtype=np.uint16)
        for some, own in zip(signs, _signs_of(row[None]), strict=True):
            differing += np.bitwise_count(some ^ own)
        reached = np.cumsum(np.bincount(differing)) >= min(N_CANDIDATES, len(words))
        near = np.flatnonzero(differing <= int(reached.argmax()))
        columns = words[near]
        candidates = self._rows[columns].astype(np.float64)
        lengths = np.sqrt((candidates**2).sum(axis=1) * (row.astype(np.float64) ** 2).sum())
        cosines = np.divide(
            candidates @ row, lengths, out=np.zeros_like(lengths), where=lengths > 0
        )
        # Rounded, so that no processor orders them otherwise.
        cosines = np.round(cosines, 6)
        order = np.lexsort((columns, -cosines))[: MOST_NEIGHBOURS + 1]
        found = zip(columns[order].tolist(), cosines[order].tolist(), strict=True)
        return tuple(
            Neighbour(self._vocabulary[other], cosine)
            for other, cosine in found
            if other != column and cosine >= LEAST_COSINE
        )

    @cached_property
    def _signs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
        """The columns of the words, and the signs of their rows, 64 numbers of all in a row."""
        words = np.flatnonzero([*map(_is_word, self._vocabulary)])
        at_once = range(0, len(words), 4096)
        signs = [_signs_of(self._rows[words[start : start + 4096]]) for start in at_once]
        return words, np.concatenate(signs, axis=1) if signs else np.empty((0, 0), np.uint64)


def _is_word(term: str) -> bool:
    return len(term) > 1 and term.isalpha()


def _signs_of(rows: Floats) -> npt.NDArray[np.uint64]:
    """Return the signs of rows ``(N, D)``, 64 numbers in each integer, ``uint64[D / 64, N]``."""
    packed = np.packbits(rows > 0, axis=1)
    padded: Any = np.zeros((len(rows), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return np.ascontiguousarray(padded.view(np.uint64).T)
