"""The words that an encoder's table says are nearest in meaning to a word.

The first layer of an encoder of words has a row for each word, and the code of a text is made of
the sum of its rows. So words with similar rows have similar codes: "mirror" and "reflection",
"phone" and "mobile". The word index uses them (:mod:`hummingbit.index.questions`).

Words of one stem are one term of the word index, so the vector of a term is the mean of the rows of
its words ("average", "averages", "averaging"), each of length 1. The terms with the largest cosines
are found among those whose signs agree most, which reads 32 bytes of each term in place of a
thousand. What was found for a term is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.foundation.memo import Memo

Floats = npt.NDArray[np.float32]

MOST_NEIGHBOURS = 64
"""How many neighbours a term has at most; a word index has some of them."""
LEAST_COSINE = 0.35
N_CANDIDATES = 128
"""So many terms whose signs agree most are compared."""
TERMS_KEPT = 1 << 15
TERMS_AT_ONCE = 1024


class Neighbour(NamedTuple):
    """A term, the shortest word that an encoder knows of it, and its cosine to another term."""

    term: str
    word: str
    cosine: float


class TermTable:
    """The terms that the words of an encoder have; pieces of words and runs of words have none."""

    def __init__(
        self, words: Sequence[str], rows: Floats, stem: Callable[[list[str]], list[str]]
    ) -> None:
        """Hold the `rows`, ``float32[V, D]``, of words, whose terms `stem` returns."""
        columns = [at for at, word in enumerate(words) if len(word) > 1 and word.isalpha()]
        numbers: dict[str, int] = {}
        of_columns = [
            numbers.setdefault(term, len(numbers)) for term in stem([words[at] for at in columns])
        ]
        self._numbers, self._terms = numbers, [*numbers]
        self._words = words
        # The columns of the words of term i are those from starts[i] to starts[i + 1].
        terms = np.array(of_columns, dtype=np.int64)
        self._columns = np.array(columns, dtype=np.int64)[np.argsort(terms, kind="stable")]
        self._starts = np.zeros(len(numbers) + 1, dtype=np.int64)
        np.cumsum(np.bincount(terms, minlength=len(numbers)), out=self._starts[1:])
        self._rows = rows
        lengths = np.sqrt(np.einsum("vd,vd->v", rows, rows))
        self._scales = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        self._signs = self._signs_of_terms()
        self._known = Memo(self._find, TERMS_KEPT)

    def neighbours(self, term: str) -> tuple[Neighbour, ...]:
        """Return the terms nearest to a term, nearest first, without itself.

        There are at most :data:`MOST_NEIGHBOURS`, with cosines of at least :data:`LEAST_COSINE`,
        and none if the encoder has no word of the term.
        """
        return self._known[term]

    def _find(self, term: str) -> tuple[Neighbour, ...]:
        number = self._numbers.get(term)
        if number is None:
            return ()
        own = self._vectors(np.array([number]))
        differing = np.zeros(len(self._terms), dtype=np.uint16)
        for some, of_term in zip(self._signs, _signs_of(own), strict=True):
            differing += np.bitwise_count(some ^ of_term)
        reached = np.cumsum(np.bincount(differing)) >= min(N_CANDIDATES, len(differing))
        near = np.flatnonzero(differing <= int(reached.argmax()))
        vectors, own = self._vectors(near).astype(np.float64), own.astype(np.float64)
        lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors) * (own**2).sum())
        cosines = np.divide(vectors @ own[0], lengths, out=np.zeros(len(near)), where=lengths > 0)
        # Rounded, so that no processor orders them otherwise.
        cosines = np.round(cosines, 6)
        order = np.lexsort((near, -cosines))[: MOST_NEIGHBOURS + 1]
        found = zip(near[order].tolist(), cosines[order].tolist(), strict=True)
        return tuple(
            Neighbour(self._terms[other], self._shortest_word(other), cosine)
            for other, cosine in found
            if other != number and cosine >= LEAST_COSINE
        )

    def _shortest_word(self, number: int) -> str:
        columns = self._columns[self._starts[number] : self._starts[number + 1]].tolist()
        shortest: str = min((self._words[at] for at in columns), key=_length)
        return shortest

    def _vectors(self, numbers: npt.NDArray[np.int64]) -> Floats:
        """Return the vectors of terms, ``float32[n, D]``, but for a factor."""
        starts, counts = self._starts[numbers], self._starts[numbers + 1] - self._starts[numbers]
        vectors = self._scaled(starts)
        # Most terms have one word, so this adds whole rows some times, not each term's apart.
        for at in range(1, counts.max(initial=1)):
            (longer,) = (counts > at).nonzero()
            vectors[longer] += self._scaled(starts[longer] + at)
        return vectors

    def _scaled(self, positions: npt.NDArray[np.int64]) -> Floats:
        """Return the rows of the words at `positions` of the columns, each of length 1."""
        columns = self._columns[positions]
        return np.asarray(self._rows[columns] * self._scales[columns, None])

    def _signs_of_terms(self) -> npt.NDArray[np.uint64]:
        """Return the signs of all vectors, 64 numbers of all terms in a row."""
        # Most terms have one word, whose row has the same signs at any length.
        signs = _signs_of(self._rows)[:, self._columns[self._starts[:-1]]]
        (several,) = (np.diff(self._starts) > 1).nonzero()
        for start in range(0, len(several), TERMS_AT_ONCE):
            some = several[start : start + TERMS_AT_ONCE]
            signs[:, some] = _signs_of(self._vectors(some))
        return np.ascontiguousarray(signs)


def _length(word: str) -> tuple[int, str]:
    return len(word), word


def _signs_of(vectors: Floats) -> npt.NDArray[np.uint64]:
    """Return the signs of vectors ``(N, D)``, 64 numbers in each integer, ``uint64[D / 64, N]``."""
    packed = np.packbits(vectors > 0, axis=1)
    padded: Any = np.zeros((len(vectors), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return np.ascontiguousarray(padded.view(np.uint64).T)
