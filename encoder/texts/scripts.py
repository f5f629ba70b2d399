"""Texts beyond ASCII: normalization, words, and pairs of characters in scripts without spaces."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
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
    if len(text) <= NORMALIZED_AT_ONCE:
        return unicodedata.normalize("NFKC", text)
    parts, start = [], 0
    while start < len(text):
        end = start + NORMALIZED_AT_ONCE
        last = end + MAX_MARKS
        while end < min(last, len(text)) and _may_combine(text[end]):
            end += 1
        parts.append(unicodedata.normalize("NFKC", text[start:end]))
        start = end
    return "".join(parts)


def _may_combine(character: str) -> bool:
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


def _pairs(run: str) -> list[str]:
    """Return the pairs of neighbouring characters of `run`, or `run` if it is one character.

    Marks stay with the character before them: the vowels of Thai stand above consonants.
    """
    starts = [place for place, char in enumerate(run) if unicodedata.category(char)[0] != "M"]
    if not starts or starts[0]:
        starts.insert(0, 0)
    units = [run[start:end] for start, end in pairwise([*starts, len(run)])]
    return [a + b for a, b in pairwise(units)] or units


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
