"""The scores of all documents for one query, and the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.engines.protocol import Rows, places_of
from index.lexical.segment import Scores

BLOCK = 1024


class ScoredRows(NamedTuple):
    """Documents and their scores, in units of :data:`index.lexical.bm25_formula.UNIT`."""

    rows: Rows
    scores: npt.NDArray[np.int64]


class Matches:
    """The score of every document for one query."""

    def __init__(self, parts: Sequence[tuple[Rows, Scores]]) -> None:
        """Take ascending rows and their scores, 0 where no term is found or nothing is."""
        self.parts = parts

    def best(self, k: int, allowed: Rows | None = None) -> ScoredRows:
        """Return the `k` highest scores above 0, by (score descending, row ascending)."""
        found = []
        for rows, scores in self.parts:
            if allowed is None:
                places = best(scores, k)
            else:
                among = places_of(rows, allowed)
                places = among[best(scores[among], k)]
            found.append((rows[places], scores[places].astype(np.int64)))
        rows, scores = _joined(found)
        order = np.lexsort((rows, -scores))[:k]
        return ScoredRows(rows[order], scores[order])

    def reaching(self, least: int, allowed: Rows | None = None) -> ScoredRows:
        """Return the documents that score at least `least`, which is above 0, by row."""
        found = []
        for rows, scores in self.parts:
            if allowed is None:
                places = np.flatnonzero(scores >= least)
            else:
                places = places_of(rows, allowed)
                places = places[scores[places] >= least]
            found.append((rows[places], scores[places].astype(np.int64)))
        return ScoredRows(*_joined(found))

    def of(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Return the scores of `rows`, in any order, 0 for those that have no text."""
        totals = np.zeros(len(rows), dtype=np.int64)
        for held, scores in self.parts:
            if len(held):
                places = np.searchsorted(held, rows).clip(max=len(held) - 1)
                totals += np.where(held[places] == rows, scores[places], 0)
        return totals


def best(scores: Scores, k: int) -> npt.NDArray[np.int64]:
    """Return the places of the `k` highest scores above 0, by (score descending, place)."""
    found = np.flatnonzero(scores >= max(1, _reached(scores, k)))
    values = scores[found]
    if k < len(found):
        # Many may score alike, and they are in order as they lie: only what is above is sorted.
        least = np.partition(values, len(found) - k)[len(found) - k]
        above = np.flatnonzero(values > least)
        equal = np.flatnonzero(values == least)[: k - len(above)]
        found, values = found[np.concatenate([above, equal])], values[above]
        return np.concatenate([found[np.argsort(-values, kind="stable")], found[len(above) :]])
    return found[np.argsort(-values, kind="stable")]


def _reached(scores: Scores, k: int) -> int:
    """Return a score that at least `k` places reach, 0 if none is known.

    The highest scores of blocks are read off fast, and each is the score of a place of its own.
    """
    width = min(BLOCK, len(scores) // (2 * k))
    if width < 2:
        return 0
    n_blocks = len(scores) // width
    highest = scores[: n_blocks * width].reshape(n_blocks, width).max(axis=1)
    return int(np.partition(highest, n_blocks - k)[n_blocks - k])


def _joined(found: Sequence[tuple[Rows, npt.NDArray[np.int64]]]) -> tuple[Rows, Rows]:
    rows, scores = (np.concatenate(column) for column in zip(*found, strict=True))
    return rows, scores
