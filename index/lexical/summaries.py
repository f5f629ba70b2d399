"""The title and the summary of a text, and what a summary adds to a score in the hybrid ranking.

The formula is in :mod:`index.lexical.bm25_formula`.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from index.lexical.bm25_formula import LEAST_SHARE, SUMMARY_TERMS, part_of_summary
from index.lexical.field import Field
from index.lexical.matches import ScoredRows
from index.lexical.segment import Segment
from index.lexical.term_rows import TermRows

# Only so many characters of a title and of a sentence are read.
SEARCHED_LENGTH = 1000
# Shares are whole multiples of one part of this number, so that their sums are exact.
SHARE_UNIT = 2**24
# A term that no text has. It marks the texts that have a title or several sentences.
MARK = ""
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]")


def title_of(text: str) -> str | None:
    """Return the first line of a text, or None if it has only one; blank lines do not count."""
    first, _, rest = text.lstrip().partition("\n")
    return first if rest and not rest.isspace() else None


def summary_of(text: str) -> str:
    """Return the title of a text, if it has one, and the first sentence that follows.

    A sentence also ends where its line ends. So a text of one sentence is its own summary.
    """
    title = title_of(text)
    after_title = text.lstrip()[len(title or "") :].lstrip()
    line = after_title[:SEARCHED_LENGTH].partition("\n")[0]
    end = _SENTENCE_END.search(line)
    stop = end.end() if end else len(line)
    if title is not None:
        return f"{title[:SEARCHED_LENGTH]}\n{line[:stop]}"
    return line[:stop]


def has_several_sentences(text: str, summary: str) -> bool:
    """Return whether a text without a title goes on after its summary."""
    # A long sentence is cut, and so has the greatest length.
    return len(summary) < min(len(text.strip()), SEARCHED_LENGTH)


class SummaryRows:
    """Rows and the terms of their summaries, collected to become a segment.

    A term occurs once in a summary. The segment's lengths are the sizes of the summaries.
    """

    def __init__(self, vocabulary: defaultdict[str, int]) -> None:
        """Number terms by `vocabulary`."""
        self._terms = TermRows(vocabulary)
        self._sizes = array("i")

    def add(self, row: int, terms: Sequence[str], *, marked: bool) -> None:
        """Add a row, which follows all others, unless its summary has no terms.

        `marked` says whether the text has a title or several sentences.
        """
        if terms:
            distinct = dict.fromkeys(terms[:SUMMARY_TERMS])
            self._terms.add(row, ((MARK, *distinct) if marked else distinct,))
            self._sizes.append(sum(len(term) ** 2 for term in distinct))

    def segment(self) -> Segment:
        """Return the segment of all rows."""
        return replace(self._terms.segment(), lengths=np.frombuffer(self._sizes, dtype=np.int32))


def score_summaries(
    summaries: Field, weights: Sequence[tuple[int, float]], highest: float, average_size: float
) -> ScoredRows:
    """Return what the summaries add to the scores of documents, where it is not 0, by row.

    `weights` are the numbers of the query's terms and their weights; `highest` is the sum of the
    weights with repetitions.
    """
    total = sum(weight**2 for _, weight in weights)
    shares = [(number, round(SHARE_UNIT * (weight**2 / total))) for number, weight in weights]
    least = math.ceil(SHARE_UNIT * LEAST_SHARE)
    found_rows, found_scores = [], []
    for segment, sums in summaries.sums(shares):
        places = np.flatnonzero(sums >= least)
        sizes = segment.lengths[places]
        parts = part_of_summary(highest, sums[places] / SHARE_UNIT, sizes, average_size)
        found_rows.append(segment.rows[places])
        found_scores.append(parts.astype(np.int64))
    return ScoredRows(np.concatenate(found_rows), np.concatenate(found_scores))
