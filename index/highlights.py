"""The passage of a text in which the terms of a query are close together, and their positions.

Positions are numbers, not markup, so a passage can be escaped like any other text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from hummingbit.encoder.analyzers import Analyzer, may_combine
from hummingbit.index.word_forms import MAX_LENGTH, forms_of_chunks, without_accents

PASSAGE = 240
"""The most characters of a passage."""
LONG_WORD = 24
"""A word with more characters is cut, rather than left out."""
# Only so many characters of a text are searched for a passage.
SEARCHED_LENGTH = 200_000
# What a mark leaves out at the ends of a name.
_BEFORE = "\"'`´‘’“”„«»()[]{}<>;:,!?…*|=~^%$\\/-–—"
_AFTER = f"{_BEFORE}."
_CHUNK = re.compile(r"\S+")


class Highlight(NamedTuple):
    """A passage of a text."""

    passage: str
    start: int
    """The position of the passage in the text, in characters (Unicode code points)."""
    marks: list[tuple[int, int]]
    """The start and end of each term of the query within the passage, in order."""


class _Match(NamedTuple):
    start: int
    end: int
    term: str


def highlight(text: str, weights: Mapping[str, float], analyzer: Analyzer) -> Highlight:
    """Return the passage of `text` that best matches the terms in `weights`.

    It has the largest total weight of distinct terms; among equals, the most matches; among those,
    it is the first. It begins and ends between words. Without a match, it is the beginning of the
    text.
    """
    searched = text[:SEARCHED_LENGTH]
    found = (_words(searched, weights, analyzer), _names(searched, weights, analyzer))
    matches = sorted(chain.from_iterable(found))
    first, last = _best_run(matches, weights)
    if not matches:
        begin, end = 0, 0
    else:
        begin, end = matches[first].start, matches[last].end
    start, stop = _widen(text, begin, end)
    inside = (match for match in matches if start <= match.start and match.end <= stop)
    marks = _merge_overlaps((match.start - start, match.end - start) for match in inside)
    return Highlight(text[start:stop], start, marks)


def _words(text: str, weights: Mapping[str, float], analyzer: Analyzer) -> Iterator[_Match]:
    """Yield where a text has terms of a query as words, with or without their accents."""
    for start, end, word, own_term in analyzer.spans(text):
        term = own_term
        if term not in weights and (bare := without_accents(word, analyzer)):
            (term,) = analyzer.stem([bare])
        if term in weights:
            yield _Match(start, end, term)


def _names(text: str, weights: Mapping[str, float], analyzer: Analyzer) -> Iterator[_Match]:
    """Yield where a text has terms of a query as other forms of names and numbers."""
    for match in _CHUNK.finditer(text):
        chunk = match[0]
        is_plain = chunk.isalpha() and (chunk.islower() or chunk[1:].islower())
        if (is_plain and len(chunk) > 1) or len(chunk) > 2 * MAX_LENGTH:
            continue
        forms = [form for _, forms in forms_of_chunks(chunk, analyzer) for form in forms]
        found = [term for term in analyzer.stem(forms) if term in weights]
        if found:
            start = match.start() + len(chunk) - len(chunk.lstrip(_BEFORE))
            end = match.end() - len(chunk) + len(chunk.rstrip(_AFTER))
            while start > match.start() and may_combine(text[start]):
                start -= 1
            yield _Match(start, end, max(found, key=weights.__getitem__))


def excerpt(text: str, width: int, at: int = 0) -> str:
    """Return at most `width` characters of `text` as one line, those around position `at`.

    White space becomes single spaces. A text that is longer is cut between words, or between
    characters where words are long or the script has none, and … stands for what is left out.
    """
    whole = " ".join(text.split())
    if len(whole) <= width:
        return whole
    begin = len(" ".join(text[:at].split()))
    start = max(0, min(begin - width // 4, len(whole) - width + 2))
    if start > 0:
        space = whole.find(" ", start - 1, begin + 1)
        start = start if space < 0 else space + 1
    before = "… " if start else ""
    stop = start + width - len(before)
    if stop >= len(whole):
        return before + whole[start:]
    stop -= 2
    space = whole.rfind(" ", max(begin, stop - LONG_WORD) + 1, stop + 1)
    return f"{before}{whole[start : stop if space < 0 else space]} …"


def _best_run(matches: list[_Match], weights: Mapping[str, float]) -> tuple[int, int]:
    """Return the positions of the first and last match of the best run that fits a passage."""
    best, best_run = (-1.0, 0), (0, 0)
    counts: dict[str, int] = {}
    weight, first = 0.0, 0
    for last, match in enumerate(matches):
        if not counts.get(match.term):
            weight += weights[match.term]
        counts[match.term] = counts.get(match.term, 0) + 1
        while first < last and match.end - matches[first].start > PASSAGE:
            dropped = matches[first].term
            counts[dropped] -= 1
            if not counts[dropped]:
                weight -= weights[dropped]
            first += 1
        # The rounding of sums must not decide.
        value = (round(weight, 6), last - first)
        if value > best:
            best, best_run = value, (first, last)
    return best_run


def _widen(text: str, begin: int, end: int) -> tuple[int, int]:
    """Return the bounds of a passage around the characters `begin` to `end`, cut between words."""
    room = max(0, PASSAGE - (end - begin))
    start = max(0, min(begin - room // 4, len(text) - PASSAGE))
    stop = min(len(text), start + PASSAGE)
    if start > 0:
        space = re.compile(r"\s").search(text, start - 1, begin)
        start = start if space is None else space.end()
    if stop < len(text) and not text[stop].isspace():
        cut = max(text.rfind(blank, end, stop) for blank in " \n\t")
        stop = stop if cut < 0 else cut
    # In scripts without spaces, a passage at least parts no character from its marks.
    while start < begin and may_combine(text[start]):
        start += 1
    while end < stop < len(text) and may_combine(text[stop]):
        stop -= 1
    return start, stop


def _merge_overlaps(spans: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge spans that overlap."""
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
