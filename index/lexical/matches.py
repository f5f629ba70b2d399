"""The scores of all documents for one query, and the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.engines.protocol import Rows, places_of
from index.lexical.segment import Scores

# A group is every n-th of n * GROUP documents. The highest score of each group is kept, so that a
# search for high scores skips most documents. Groups of neighbours would take six times as long.
GROUP = 256


class ScoredRows(NamedTuple):
    """Documents and their scores, in units of :data:`index.lexical.bm25_formula.UNIT`."""

    rows: Rows
    scores: npt.NDArray[np.int64]


class Matches:
    """The score of every document for one query."""

    def __init__(self, parts: Sequence[tuple[Rows, Scores]]) -> None:
        """Hold ascending rows and their scores, which are 0 for documents without a match.

        Scores are added before any of them is searched for.
        """
        self.parts = parts

    def add(self, more: ScoredRows) -> None:
        """Add the scores of some documents, by row, all of which are held here."""
        for rows, scores in self.parts:
            if len(rows):
                start, stop = np.searchsorted(more.rows, (rows[0], rows[-1] + 1))
                scores[places_of(rows, more.rows[start:stop])] += more.scores[start:stop]

    def best(self, k: int, allowed: Rows | None = None) -> ScoredRows:
        """Return the `k` highest scores above 0, by (score descending, row ascending)."""
        best_of_parts = []
        for (rows, scores), highest in zip(self.parts, self._highest, strict=True):
            if allowed is None:
                places = best(scores, k, highest)
            else:
                among = places_of(rows, allowed)
                places = among[best(scores[among], k, _highest_of_groups(scores[among]))]
            best_of_parts.append((rows[places], scores[places].astype(np.int64)))
        rows, scores = _concatenate(best_of_parts)
        order = np.lexsort((rows, -scores))[:k]
        return ScoredRows(rows[order], scores[order])

    @cached_property
    def _highest(self) -> list[Scores]:
        """The highest scores of the groups of each part."""
        return [_highest_of_groups(scores) for _, scores in self.parts]

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
        for (rows, scores), highest in zip(self.parts, self._highest, strict=True):
            if allowed is None:
                places = _places_at_least(scores, least, highest)
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


def best(scores: Scores, k: int, highest: Scores) -> npt.NDArray[np.int64]:
    """Return the places of the `k` highest scores above 0, by (score descending, place).

    `highest` is the highest score of each group.
    """
    bound = 0
    if len(highest) >= 2 * k:
        # The k-th of the highest scores of groups, each of which belongs to another place.
        bound = int(np.partition(highest, len(highest) - k)[len(highest) - k])
    places = _places_at_least(scores, max(1, bound), highest)
    values = scores[places]
    if k < len(places):
        # Many may have the lowest score; they are in order already, so only the others are sorted.
        least = np.partition(values, len(places) - k)[len(places) - k]
        above = np.flatnonzero(values > least)
        equal = np.flatnonzero(values == least)[: k - len(above)]
        places, values = places[np.concatenate([above, equal])], values[above]
        return np.concatenate([places[np.argsort(-values, kind="stable")], places[len(above) :]])
    return places[np.argsort(-values, kind="stable")]


def _highest_of_groups(scores: Scores) -> Scores:
    """Return the highest score of each group; scores beyond whole groups are left out."""
    highest: Scores = _groups(scores).max(axis=0)
    return highest


def _groups(scores: Scores) -> Scores:
    """Return the scores of whole groups, a column for each."""
    n_groups = len(scores) // GROUP
    return scores[: n_groups * GROUP].reshape(GROUP, n_groups)


def _places_at_least(scores: Scores, least: int, highest: Scores) -> npt.NDArray[np.int64]:
    """Return the places whose scores are at least `least`, ascending."""
    reaching = np.flatnonzero(highest >= least)
    if 4 * len(reaching) > len(highest):
        return np.flatnonzero(scores >= least)
    row, column = np.nonzero(_groups(scores)[:, reaching] >= least)
    n_grouped = len(highest) * GROUP
    beyond = n_grouped + np.flatnonzero(scores[n_grouped:] >= least)
    return np.concatenate([row * len(highest) + reaching[column], beyond])


def _concatenate(found: Sequence[tuple[Rows, npt.NDArray[np.int64]]]) -> tuple[Rows, Rows]:
    rows, scores = (np.concatenate(column) for column in zip(*found, strict=True))
    return rows, scores
