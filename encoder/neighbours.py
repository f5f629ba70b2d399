"""The words that an encoder's table says are nearest in meaning to a word.

The first layer of an encoder of words has a row for each word, and the code of a text is made of
the sum of its rows. So words with similar rows have similar codes: "mirror" and "reflection",
"phone" and "mobile". The word index uses them (:mod:`hummingbit.index.questions`).

Words of one stem are one term of the word index, so the vector of a term is the mean of the rows of
its words ("average", "averages", "averaging"), each of length 1. The terms with the largest cosines
are found among those whose signs agree most, which reads 32 bytes of each term in place of a
thousand. What was found for a term is kept.

To find the terms of all words takes as long as to import numpy, so a data folder keeps them in a
file beside the encoder (:func:`open_terms`), which is derived and can be made anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.text_features import native
from hummingbit.foundation.array_file import ARRAYS, map_arrays, read_header, write_arrays
from hummingbit.foundation.arrays import numbers_of_runs
from hummingbit.foundation.files import open_regular_file
from hummingbit.foundation.memo import Memo

Floats = npt.NDArray[np.float32]
RowsAt = Callable[[npt.NDArray[np.int64]], Floats]
"""Returns the rows, ``float32[n, D]``, of n words of an encoder by their columns."""

MOST_NEIGHBOURS = 64
"""How many neighbours a term has at most; a word index has some of them."""
LEAST_COSINE = 0.35
N_CANDIDATES = 128
"""So many terms whose signs agree most are compared."""
TERMS_KEPT = 1 << 15
ROWS_AT_ONCE = 1024
"""So many rows of 256 numbers stay in a processor's cache while their signs are taken."""

TERMS = ".terms"
"""Ends the names of files of terms."""
MAGIC = b"hummingbit term\n"
VERSION = 1
SEPARATOR = b"\n"
"""Before and after each term; no term has it."""

_log = logging.getLogger("hummingbit.encoder")


class Neighbour(NamedTuple):
    """A term, the shortest word that an encoder knows of it, and its cosine to another term."""

    term: str
    word: str
    cosine: float


class Terms(NamedTuple):
    """The terms that the words of an encoder have, by number; pieces and runs of words have none.

    The terms of words stand in the order of the words.
    """

    text: npt.NDArray[np.uint8]
    """The terms in UTF-8, with separators."""
    begins: npt.NDArray[np.int64]
    """``int64[n]``: where each term begins."""
    columns: npt.NDArray[np.int64]
    """The columns of all words: those of term i from ``starts[i]`` to ``starts[i + 1]``."""
    starts: npt.NDArray[np.int64]
    """``int64[n + 1]``"""
    signs: npt.NDArray[np.uint64]
    """``uint64[D / 64, n]``: the signs of the terms' vectors, 64 numbers of all terms in a row."""


def find_terms(words: Sequence[str], rows: RowsAt, stem: Callable[[list[str]], list[str]]) -> Terms:
    """Return the terms of words with `rows`, which `stem` returns."""
    columns = [at for at, word in enumerate(words) if len(word) > 1 and word.isalpha()]
    numbers: dict[str, int] = {}
    of_columns = [
        numbers.setdefault(term, len(numbers)) for term in stem([words[at] for at in columns])
    ]
    of_term = np.array(of_columns, dtype=np.int64)
    in_order = np.array(columns, dtype=np.int64)[np.argsort(of_term, kind="stable")]
    starts = np.zeros(len(numbers) + 1, dtype=np.int64)
    np.cumsum(np.bincount(of_term, minlength=len(numbers)), out=starts[1:])
    encoded = [term.encode("utf-8", "surrogatepass") for term in numbers]
    lengths = np.array([len(term) + 1 for term in encoded], dtype=np.int64)
    text = SEPARATOR + b"".join(term + SEPARATOR for term in encoded)
    begins = 1 + np.cumsum(lengths) - lengths
    signs = [
        _signs_of(
            _vectors(rows, in_order, starts, np.arange(at, min(at + ROWS_AT_ONCE, len(numbers))))
        )
        for at in range(0, len(numbers), ROWS_AT_ONCE)
    ]
    whole = np.hstack(signs) if signs else np.zeros((0, 0), dtype=np.uint64)
    return Terms(np.frombuffer(text, np.uint8), begins, in_order, starts, whole)


def _vectors(
    rows: RowsAt,
    columns: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.int64],
) -> Floats:
    """Return the vectors of terms, ``float32[n, D]``, but for a factor."""
    firsts, counts = starts[numbers], starts[numbers + 1] - starts[numbers]
    begins = np.cumsum(counts) - counts
    of_each = _unit_rows(rows, columns[numbers_of_runs(firsts, counts)])
    vectors = of_each[begins]
    # Most terms have one word. numpy's reduceat takes three times as long.
    for at in range(1, counts.max(initial=1)):
        (longer,) = (counts > at).nonzero()
        vectors[longer] += of_each[begins[longer] + at]
    return np.asarray(vectors)


def _unit_rows(rows: RowsAt, columns: npt.NDArray[np.int64]) -> Floats:
    """Return the rows of words, each of length 1."""
    some = rows(columns)
    lengths = np.sqrt(np.einsum("vd,vd->v", some, some))
    scales = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return np.asarray(some * scales[:, None])


def open_terms(path: Path, origin: Sequence[str | None], find: Callable[[], Terms]) -> Terms:
    """Return the terms that a file holds, or find them and write it.

    The `origin` is what they depend on: a file of another one is not used, nor is a damaged one.
    """
    begin = {"version": VERSION, "origin": [*origin]}
    try:
        with open_regular_file(path, follow_links=False) as file:
            header = read_header(file, MAGIC)
            if {name: header.get(name) for name in begin} == begin:
                return Terms(**map_arrays(file, header[ARRAYS]))
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.info("the terms in %s are not used: %s", path, error)
    terms = find()
    try:
        write_arrays(path, MAGIC, begin, terms._asdict())
    except OSError as error:
        _log.info("the terms are not kept: %s", error)
    return terms


class TermTable:
    """Finds the nearest of the terms of an encoder's words."""

    def __init__(self, words: Sequence[str], rows: RowsAt, terms: Terms) -> None:
        """Search `terms`, which :func:`find_terms` finds for the same words and rows."""
        self._words, self._rows, self._terms = words, rows, terms
        self._text = terms.text.tobytes()
        self._known = Memo(self._find, TERMS_KEPT)

    def neighbours(self, term: str) -> Iterator[Neighbour]:
        """Yield the terms nearest to a term, nearest first, without itself.

        There are at most :data:`MOST_NEIGHBOURS`, with cosines of at least :data:`LEAST_COSINE`,
        and none if the encoder has no word of the term.
        """
        for number, cosine in self._known[term]:
            yield Neighbour(self._term(number), self._shortest_word(number), cosine)

    def _find(self, term: str) -> list[tuple[int, float]]:
        """Return the numbers and the cosines of the terms nearest to one."""
        number = self._number(term)
        if number is None:
            return []
        own = self._vectors(np.array([number]))
        near = self._with_similar_signs(_signs_of(own)[:, 0])
        vectors, own = self._vectors(near).astype(np.float64), own.astype(np.float64)
        lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors) * (own**2).sum())
        cosines = np.divide(vectors @ own[0], lengths, out=np.zeros(len(near)), where=lengths > 0)
        # Rounded, so that no processor orders them otherwise.
        cosines = np.round(cosines, 6)
        order = np.lexsort((near, -cosines))[: MOST_NEIGHBOURS + 1]
        found = zip(near[order].tolist(), cosines[order].tolist(), strict=True)
        return [
            (other, cosine) for other, cosine in found if other != number and cosine >= LEAST_COSINE
        ]

    def _with_similar_signs(self, own: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Return the numbers of the terms whose signs differ least from some, with ties."""
        signs = self._terms.signs
        differing = np.empty(signs.shape[1], dtype=np.uint16)
        if native is not None:
            # Counting one bit after another takes numpy six times as long.
            bits = native.count_differing(differing, signs, own, N_CANDIDATES)
        else:
            differing = np.bitwise_count(signs ^ own[:, None]).sum(axis=0, dtype=np.uint16)
            within = np.cumsum(np.bincount(differing))
            bits = int((within >= min(N_CANDIDATES, len(differing))).argmax())
        return np.flatnonzero(differing <= bits)

    def _number(self, term: str) -> int | None:
        key = term.encode("utf-8", "surrogatepass")
        at = -1 if SEPARATOR in key else self._text.find(SEPARATOR + key + SEPARATOR)
        return None if at < 0 else int(np.searchsorted(self._terms.begins, at + 1))

    def _term(self, number: int) -> str:
        begin = self._terms.begins.item(number)
        end = self._text.index(SEPARATOR, begin)
        return self._text[begin:end].decode("utf-8", "surrogatepass")

    def _shortest_word(self, number: int) -> str:
        starts = self._terms.starts
        columns = self._terms.columns[starts[number] : starts[number + 1]].tolist()
        shortest: str = min((self._words[at] for at in columns), key=_length)
        return shortest

    def _vectors(self, numbers: npt.NDArray[np.int64]) -> Floats:
        return _vectors(self._rows, self._terms.columns, self._terms.starts, numbers)


def _length(word: str) -> tuple[int, str]:
    return len(word), word


def _signs_of(vectors: Floats) -> npt.NDArray[np.uint64]:
    """Return the signs of vectors ``(N, D)``, 64 numbers in each integer, ``uint64[D / 64, N]``."""
    packed = np.packbits(vectors > 0, axis=1)
    padded: Any = np.zeros((len(vectors), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return np.ascontiguousarray(padded.view(np.uint64).T)
