"""A passage of a text in which the terms of a query lie close together, and where they lie in it.

Places are given as numbers, never as markup: whoever shows a passage escapes it as any other text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from encoder.analyzers import Analyzer

PASSAGE = 240
"""The most characters of a passage."""
# So much of a text is looked at.
LOOKED_AT = 200_000

_WORD = re.compile(r"\w+")


class Highlight(NamedTuple):
    """A passage of a text."""

    passage: str
    start: int
    """Where in the text it begins, in characters (Unicode code points)."""
    marks: list[tuple[int, int]]
    """The characters of the passage that are terms of the query, from and up to, in order."""


class _Match(NamedTuple):
    start: int
    end: int
    term: str


def highlight(text: str, weights: Mapping[str, float], analyzer: Analyzer) -> Highlight:
    """Return the passage of `text` that has most of the terms whose `weights` are given.

    It is the one whose distinct terms weigh most together; then the one with the most matches, then
    the first. It begins and ends between words. Without a match it is the beginning of the text.
    """
    matches = list(_matches(text[:LOOKED_AT], weights, analyzer))
    first, last = _best_run(matches, weights)
    if not matches:
        begin, end = 0, 0
    else:
        begin, end = matches[first].start, matches[last].end
    start, stop = _widened(text, begin, end)
    inside = (match for match in matches if start <= match.start and match.end <= stop)
    marks = _joined((match.start - start, match.end - start) for match in inside)
    return Highlight(text[start:stop], start, marks)


def _matches(text: str, weights: Mapping[str, float], analyzer: Analyzer) -> Iterator[_Match]:
    for word in _WORD.finditer(text):
        terms = analyzer.terms(word.group())
        if len(terms) == 1:
            if terms[0] in weights:
                yield _Match(word.start(), word.end(), terms[0])
        elif terms:
            yield from _matches_within(text, word, weights, analyzer)


def _matches_within(
    text: str, word: re.Match[str], weights: Mapping[str, float], analyzer: Analyzer
) -> Iterator[_Match]:
    """Find the terms of a run of characters that has several, as where no spaces are written."""
    for start in range(word.start(), word.end() - 1):
        for term in analyzer.terms(text[start : start + 2]):
            if term in weights:
                yield _Match(start, start + 2, term)


def _best_run(matches: list[_Match], weights: Mapping[str, float]) -> tuple[int, int]:
    """Return the first and the last match of the best run that a passage can hold."""
    best, found = (-1.0, 0), (0, 0)
    counts: dict[str, int] = {}
    weight, first = 0.0, 0
    for last, match in enumerate(matches):
        if not counts.get(match.term):
            weight += weights[match.term]
        counts[match.term] = counts.get(match.term, 0) + 1
        while first < last and match.end - matches[first].start > PASSAGE:
            gone = matches[first].term
            counts[gone] -= 1
            if not counts[gone]:
                weight -= weights[gone]
            first += 1
        # Rounding in sums of weights must not decide.
        value = (round(weight, 6), last - first)
        if value > best:
            best, found = value, (first, last)
    return found


def _widened(text: str, begin: int, end: int) -> tuple[int, int]:
    """Return a passage around the characters from `begin` to `end`, cut between words."""
    room = max(0, PASSAGE - (end - begin))
    start = max(0, min(begin - room // 4, len(text) - PASSAGE))
    stop = min(len(text), start + PASSAGE)
    if start > 0:
        space = re.compile(r"\s").search(text, start - 1, begin)
        start = start if space is None else space.end()
    if stop < len(text) and not text[stop].isspace():
        cut = max(text.rfind(blank, end, stop) for blank in " \n\t")
        stop = stop if cut < 0 else cut
    return start, stop


def _joined(spans: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """Put spans that overlap together."""
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
