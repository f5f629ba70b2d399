"""What the summary of a text adds to its score in the hybrid ranking.

The formula is in :mod:`index.lexical.bm25_formula`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from encoder.texts.openings import SEARCHED_LENGTH
from index.lexical.bm25_formula import LEAST_SHARE, SUMMARY_TERMS, part_of_summary
from index.lexical.field import Field
from index.lexical.matches import ScoredRows

# Shares are whole multiples of one part of this number, so that their sums are exact.
SHARE_UNIT = 2**24
# A term that no text has. It marks the texts that have a title or several sentences.
MARK = ""


def has_several_sentences(text: str, summary: str) -> bool:
    """Return whether a text without a title goes on after its summary."""
    # A long sentence is cut, and so has the greatest length.
    return len(summary) < min(len(text.strip()), SEARCHED_LENGTH)


def summary_terms(terms: Sequence[str], *, marked: bool) -> Iterable[str]:
    """Return the distinct terms among the first of a summary, once each; with `marked`, the MARK.

    A summary without terms has no mark either.
    """
    distinct = dict.fromkeys(terms[:SUMMARY_TERMS])
    return (MARK, *distinct) if marked and distinct else distinct


def average_size(fields: Iterable[Field]) -> float:
    """Return the mean size of the summaries in all `fields`; 1 if there are none."""
    numbers, totals = zip(*(field.summary_sizes for field in fields), strict=True)
    return sum(totals) / sum(numbers) if sum(totals) else 1.0


def score_summaries(
    field: Field, weights: Sequence[tuple[int, float]], highest: float, average_size: float
) -> Iterator[ScoredRows]:
    """Yield what the summaries in a field add to the scores of documents, where it is not 0.

    `weights` are the numbers of the query's terms and their weights; `highest` is the sum of the
    weights with repetitions.
    """
    total = sum(weight**2 for _, weight in weights)
    shares = [(number, round(SHARE_UNIT * (weight**2 / total))) for number, weight in weights]
    least = math.ceil(SHARE_UNIT * LEAST_SHARE)
    for segment in field.segments:
        if segment.summary_sizes is not None:
            sums = segment.sums(shares)
            places = np.flatnonzero(sums >= least)
            places = places[segment.summary_sizes[places] > 0]
            sizes = segment.summary_sizes[places]
            parts = part_of_summary(highest, sums[places] / SHARE_UNIT, sizes, average_size)
            yield ScoredRows(segment.rows[places], parts.astype(np.int64))
