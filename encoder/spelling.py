"""The known word that an unknown one is a slip of the keyboard away from.

Words are one edit apart if one letter is put in, left out or replaced, or two neighbouring ones
change places. Such words have a string in common after leaving out at most one letter of each, so
the strings that known words leave behind are kept, and those of an unknown word looked up. Source:
Garbe, "1000x Faster Spelling Correction algorithm" (2012), known as SymSpell.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from encoder.scripts import is_spaceless

MIN_UNKNOWN = 4
"""Shorter words are no slips: too many others lie one edit from them."""
MIN_KNOWN = 3
MAX_LENGTH = 64
"""Longer words are no words. Their hashes would take the square of their length."""


class Speller:
    """Finds the word of `words` that an unknown word was meant to be."""

    def __init__(self, words: Sequence[str], order: Sequence[float] | None = None) -> None:
        """Prepare for `words`; of several that are as near, the one with the least `order` wins.

        Where that is the same, or `order` is None, the first in `words` does.
        """
        ranks = range(len(words)) if order is None else np.argsort(order, kind="stable").tolist()
        self._words = [words[place] for place in ranks if _is_word(words[place], MIN_KNOWN)]
        hashes: list[int] = []
        counts = np.array([len(word) + 1 for word in self._words], dtype=np.int64)
        for word in self._words:
            hashes.extend(_hashes(word))
        # Equal hashes only make a candidate, which is checked.
        keys = np.array(hashes, dtype=np.uint32)
        numbers = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        sorted_ = np.argsort(keys, kind="stable")
        self._keys, self._numbers = keys[sorted_], numbers[sorted_]

    def correct(self, word: str) -> str | None:
        """Return the known word one edit from `word`, None if there is none or `word` is no word.

        Words with digits, in scripts without spaces, short ones and overlong ones are left alone.
        """
        if not _is_word(word, MIN_UNKNOWN):
            return None
        sought = np.array(_hashes(word), dtype=np.uint32)
        starts = np.searchsorted(self._keys, sought, side="left").tolist()
        stops = np.searchsorted(self._keys, sought, side="right").tolist()
        candidates = {
            number
            for start, stop in zip(starts, stops, strict=True)
            for number in self._numbers[start:stop].tolist()
        }
        near = (self._words[number] for number in sorted(candidates))
        return next((known for known in near if is_one_edit(word, known)), None)


def is_one_edit(one: str, other: str) -> bool:
    """Return whether the words differ by one insertion, deletion, replacement or exchange."""
    if one == other or abs(len(one) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    one, other = one[start:], other[start:]
    if len(one) == len(other):
        return one[1:] == other[1:] or (one[1::-1] + one[2:] == other)
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    return longer[1:] == shorter


def _is_word(term: str, least: int) -> bool:
    return least <= len(term) <= MAX_LENGTH and term.isalpha() and not is_spaceless(term)


def _hashes(word: str) -> list[int]:
    """Return the hashes of `word` and of what is left of it without one of its letters."""
    shortened = (word[:place] + word[place + 1 :] for place in range(len(word)))
    return [crc32(one.encode()) for one in (word, *shortened)]
