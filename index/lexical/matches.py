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
        """Hold ascending rows and their scores, which are 0 for documents without a match."""
        self.parts = parts

    def add(self, more: ScoredRows) -> None:
        """Add the scores of some documents, by row, all of which are held here."""
        for rows, scores in self.parts:
            if len(rows):
                start, stop = np.searchsorted(more.rows, (rows[0], rows[-1] + 1))
                scores[places_of(rows, more.rows[start:stop])] += more.scores[start:stop]

    def add_field(self, field: Matches) -> None:
        """Add the scores of another field of the documents, all of which are held here."""
        for rows, scores in field.parts:
            for own_rows, own_scores in self.parts:
                if _are_same_run(own_rows, rows):
                    np.add(own_scores, scores, out=own_scores)
                    break
            else:
                self.add(Matches([(rows, scores)]).at_least(1))

    def best(self, k: int, allowed: Rows | None = None) -> ScoredRows:
        """Return the `k` highest scores above 0, by (score descending, row ascending)."""
        best_of_parts = []
        for rows, scores in self.parts:
            if allowed is None:
                places = best(scores, k)
            else:
                among = places_of(rows, allowed)
                places = among[best(scores[among], k)]
            best_of_parts.append((rows[places], scores[places].astype(np.int64)))
        rows, scores = _concatenate(best_of_parts)
        order = np.lexsort((rows, -scores))[:k]
        return ScoredRows(rows[order], scores[order])

    def after(self, score: float, row: int) -> Matches:
        """Return the matches after a place in the order; those up to it have the score 0."""
        parts = []
        for rows, scores in self.parts:
            later, first = scores.copy(), int(np.searchsorted(rows, row, side="right"))
            later[:first][scores[:first] >= score] = 0
            later[first:][scores[first:] > score] = 0
            parts.append((rows, later))
        return Matches(parts)

    def at_least(self, least: int, allowed: Rows | None = None) -> ScoredRows:
        """Return the documents with a score of at least `least`, which is above 0, by row."""
        matches = []
        for rows, scores in self.parts:
            if allowed is None:
                places = np.flatnonzero(scores >= least)
            else:
                places = places_of(rows, allowed)
                places = places[scores[places] >= least]
            matches.append((rows[places], scores[places].astype(np.int64)))
        return ScoredRows(*_concatenate(matches))

    def scores_of(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Return the scores of `rows`, in any order; rows without a text have 0."""
        totals = np.zeros(len(rows), dtype=np.int64)
        for part_rows, scores in self.parts:
            if len(part_rows):
                places = np.searchsorted(part_rows, rows).clip(max=len(part_rows) - 1)
                totals += np.where(part_rows[places] == rows, scores[places], 0)
        return totals


def best(scores: Scores, k: int) -> npt.NDArray[np.int64]:
    """Return the places of the `k` highest scores above 0, by (score descending, place)."""
    places = np.flatnonzero(scores >= max(1, _score_bound(scores, k)))
    values = scores[places]
    if k < len(places):
        # Many may have the lowest score; they are in order already, so only the others are sorted.
        least = np.partition(values, len(places) - k)[len(places) - k]
        above = np.flatnonzero(values > least)
        equal = np.flatnonzero(values == least)[: k - len(above)]
        places, values = places[np.concatenate([above, equal])], values[above]
        return np.concatenate([places[np.argsort(-values, kind="stable")], places[len(above) :]])
    return places[np.argsort(-values, kind="stable")]


def _are_same_run(one: Rows, other: Rows) -> bool:
    """Return whether both are the same rows without gaps."""
    if not len(one) or len(one) != len(other) or one[0] != other[0]:
        return False
    last = one[0] + len(one) - 1
    return bool(one[-1] == last == other[-1])


def _score_bound(scores: Scores, k: int) -> int:
    """Return a score that at least `k` places reach; 0 if none is known.

    It is the k-th of the highest scores of blocks, each of which belongs to another place.
    """
    width = min(BLOCK, len(scores) // (2 * k))
    if width < 2:
        return 0
    n_blocks = len(scores) // width
    highest = scores[: n_blocks * width].reshape(n_blocks, width).max(axis=1)
    return int(np.partition(highest, n_blocks - k)[n_blocks - k])


def _concatenate(found: Sequence[tuple[Rows, npt.NDArray[np.int64]]]) -> tuple[Rows, Rows]:
    rows, scores = (np.concatenate(column) for column in zip(*found, strict=True))
    return rows, scores
