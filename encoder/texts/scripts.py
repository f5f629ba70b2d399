"""Texts beyond ASCII: normalization, words, and pairs of characters in scripts without spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from encoder.texts.characters import SPACED, SPACELESS, character_class

# Normalization takes quadratic time in the length of a sequence of marks, so a long text is
# normalized in pieces. A cut is put off for up to MAX_MARKS characters, in order not to part a
# character from its marks.
NORMALIZED_AT_ONCE = 1024
MAX_MARKS = 64


def nfkc(text: str) -> str:
    """Return the NFKC form of `text`."""
    return "".join(unicodedata.normalize("NFKC", piece) for piece in _normalized_at_once(text))


def clusters(text: str) -> Iterator[str]:
    """Split `text` into characters, each with the marks and vowels that combine with it.

    The NFKC forms of the clusters, joined, are the NFKC form of the text.
    """
    for piece in _normalized_at_once(text):
        start = 0
        for place in range(1, len(piece)):
            if not may_combine(piece[place]):
                yield piece[start:place]
                start = place
        yield piece[start:]


def _normalized_at_once(text: str) -> Iterator[str]:
    if len(text) <= NORMALIZED_AT_ONCE:
        if text:
            yield text
        return
    start = 0
    while start < len(text):
        end = start + NORMALIZED_AT_ONCE
        last = end + MAX_MARKS
        while end < min(last, len(text)) and may_combine(text[end]):
            end += 1
        yield text[start:end]
        start = end


@lru_cache(4096)
def may_combine(character: str) -> bool:
    """Return whether a character may combine with the one before it, as marks and vowels do."""
    first = unicodedata.normalize("NFKD", character)[0]
    is_mark = unicodedata.category(first)[0] == "M" or unicodedata.combining(first) > 0
    return is_mark or "\u1160" <= first <= "\u11ff"


def words_of_any_script(text: str) -> list[str]:
    """Return the words of a text, and pairs of characters where a script has no spaces."""
    terms: list[str] = []
    for spaceless, word in expressions().run.findall(text):
        if word:
            terms.append(word)
        else:
            terms.extend(_pairs(spaceless))
    return terms


def spans_of_any_script(text: str) -> Iterator[tuple[int, int]]:
    """Yield where in `text` the terms of :func:`words_of_any_script` begin and end, in order."""
    for match in expressions().run.finditer(text):
        if match[2]:
            yield match.span()
            continue
        bounds = [match.start() + bound for bound in _unit_bounds(match[1])]
        yield from zip(bounds, bounds[2:] or bounds[1:], strict=False)


def _pairs(run: str) -> list[str]:
    """Return the pairs of neighbouring characters of `run`, or `run` if it is one character."""
    units = [run[start:end] for start, end in pairwise(_unit_bounds(run))]
    return [a + b for a, b in pairwise(units)] or units


def _unit_bounds(run: str) -> list[int]:
    """Return where the characters of `run` begin, and its end.

    Marks stay with the character before them: the vowels of Thai stand above consonants.
    """
    starts = [place for place, char in enumerate(run) if unicodedata.category(char)[0] != "M"]
    if not starts or starts[0]:
        starts.insert(0, 0)
    return [*starts, len(run)]


def is_spaceless(text: str) -> bool:
    """Return whether `text` has a character of a script without spaces."""
    return not text.isascii() and expressions().spaceless.search(text) is not None


class _Expressions(NamedTuple):
    run: re.Pattern[str]
    """Group 1 is a run of characters in scripts without spaces, group 2 any other word."""
    spaceless: re.Pattern[str]
    separator: re.Pattern[str]


@cache
def expressions() -> _Expressions:
    """Compile the expressions, which takes milliseconds and only texts beyond Latin need."""
    spaceless, spaced = character_class(SPACELESS), character_class(SPACED)
    return _Expressions(
        re.compile(f"([{spaceless}]+)|([{spaced}]{{2,}})"),
        re.compile(f"[{spaceless}]"),
        re.compile(f"[^{spaceless}{spaced}]"),
    )
