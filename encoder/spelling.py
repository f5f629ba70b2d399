"""Spelling correction: finds the known word that is one edit from an unknown word.

An edit inserts, deletes or replaces one letter, or exchanges two neighbouring letters. Two words
that are one edit apart have a string in common after deleting at most one letter of each. So the
speller stores every known word and its deletions, and looks up those of an unknown word. Source:
Garbe, "1000x Faster Spelling Correction algorithm" (2012), known as SymSpell.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from encoder.texts.scripts import is_spaceless

MIN_UNKNOWN = 4
"""Shorter words are not corrected: too many known words are one edit away."""
MIN_KNOWN = 3
MAX_LENGTH = 64
"""Longer terms are ignored. Hashing their deletions takes quadratic time in their length."""


class Speller:
    """Corrects unknown words to the known words of `words`."""

    def __init__(self, words: Sequence[str], order: Sequence[float] | None = None) -> None:
        """Index the deletions of `words`.

        Of several words that are one edit away, :meth:`correct` returns the one with the least
        `order`. If that is equal or `order` is None, it returns the first in `words`.
        """
        ranks = range(len(words)) if order is None else np.argsort(order, kind="stable").tolist()
        self._words = [words[place] for place in ranks if _is_word(words[place], MIN_KNOWN)]
        hashes: list[int] = []
        counts = np.array([len(word) + 1 for word in self._words], dtype=np.int64)
        for word in self._words:
            hashes.extend(_hashes(word))
        # An equal hash only makes a word a candidate, which is then compared.
        keys = np.array(hashes, dtype=np.uint32)
        numbers = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        ascending = np.argsort(keys, kind="stable")
        self._keys, self._numbers = keys[ascending], numbers[ascending]

    def correct(self, word: str) -> str | None:
        """Return the known word one edit from `word`, or None if there is none.

        Words that are too short or too long, have digits, or are in a script without spaces are not
        corrected.
        """
        if not _is_word(word, MIN_UNKNOWN):
            return None
        hashes = np.array(_hashes(word), dtype=np.uint32)
        starts = np.searchsorted(self._keys, hashes, side="left").tolist()
        stops = np.searchsorted(self._keys, hashes, side="right").tolist()
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
    """Return the hashes of `word` and of every deletion of one of its letters."""
    deletions = (word[:place] + word[place + 1 :] for place in range(len(word)))
    return [crc32(string.encode()) for string in (word, *deletions)]
