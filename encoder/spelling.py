"""What replaces the unknown words of a query: the parts of an identifier, or a known word."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from hummingbit.encoder.analyzers import is_spaceless

# Spelling correction: finds the known word that is one edit from an unknown word.
#
# An edit inserts, deletes or replaces one letter, or exchanges two neighbouring letters. Two words
# that are one edit apart have a string in common after deleting at most one letter of each. So the
# speller stores every known word and its deletions, and looks up those of an unknown word. Source:
# Garbe, "1000x Faster Spelling Correction algorithm" (2012), known as SymSpell.


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
        self._words = [
            words[position] for position in ranks if _is_word(words[position], MIN_KNOWN)
        ]
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

        What is not :func:`is_correctable` is not corrected.
        """
        if not is_correctable(word):
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


def is_one_edit(word: str, other: str) -> bool:
    """Return whether the words differ by one insertion, deletion, replacement or exchange."""
    if word == other or abs(len(word) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(word), len(other)) and word[start] == other[start]:
        start += 1
    word, other = word[start:], other[start:]
    if len(word) == len(other):
        return word[1:] == other[1:] or (word[1::-1] + word[2:] == other)
    longer, shorter = (word, other) if len(word) > len(other) else (other, word)
    return longer[1:] == shorter


def is_within_two_edits(word: str, other: str) -> bool:
    """Return whether two edits, or one, turn a word into another."""
    if word == other or abs(len(word) - len(other)) > 2:
        return False
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(word, 1):
        earlier, before, row = before, row, [i]
        for j, known in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != known))
            is_exchanged = i > 1 and j > 1 and letter == other[j - 2] and word[i - 2] == known
            row.append(min(cost, earlier[j - 2] + 1) if is_exchanged else cost)
        if min(row) > 2:
            return False
    return row[-1] <= 2


def is_correctable(word: str) -> bool:
    """Return whether a word may be misspelt if neither a document nor an encoder has it.

    Words that are too short or too long, have digits, or are in a script without spaces are not
    corrected, and neither are frequent words of English: "email" is not "emil".
    """
    return _is_word(word, MIN_UNKNOWN) and word not in english_words()


@cache
def english_words() -> frozenset[str]:
    """Return 30,000 frequent words of English of four letters or more, in lower case.

    They are the first of the vocabulary of the encoder that ships. Frequent misspellings follow in
    it from the 36,000th on.
    """
    listed = Path(__file__).with_name("english_words.txt").read_text(encoding="ascii")
    return frozenset(listed.split())


def _is_word(term: str, least: int) -> bool:
    return least <= len(term) <= MAX_LENGTH and term.isalpha() and not is_spaceless(term)


def _hashes(word: str) -> list[int]:
    """Return the hashes of `word` and of every deletion of one of its letters."""
    deletions = (word[:position] + word[position + 1 :] for position in range(len(word)))
    return [crc32(string.encode()) for string in (word, *deletions)]


# What replaces the unknown words of a query: the words of an identifier, or a known word.
#
# Identifiers are the names in program code, which join words, such as `readCsv` and `read_csv`.


MAX_CORRECTIONS = 64
"""How many unknown words of a query are looked up. A typed query has fewer misspelt words."""
MAX_TEXT_LENGTH = 256
"""Identifiers of longer texts are left alone: such a query is a document, not typed."""

# Words of up to 128 ASCII characters with a capital after a small letter, or with an underscore
# between letters or digits.
_IDENTIFIER = re.compile(
    r"\b(?=\w{0,127}?(?:[a-z][A-Z]|[A-Za-z0-9]_+[A-Za-z0-9]))[A-Za-z0-9_]{3,128}\b"
)
# "HTTPServer2" consists of "HTTP", "Server" and "2".
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


class QueryTerms(NamedTuple):
    """What an encoder knows of the text of a query."""

    recognized_terms: int
    """The number of distinct terms in the vocabulary, corrected ones included."""
    corrected: tuple[tuple[str, str], ...]
    """Each corrected word with what replaces it: identifiers first, each in the order of the text.

    An identifier such as ``readCsv`` is replaced by its words, another word by a known word.
    """
    n_unknown: int = 0
    """How many words, repeats included, the vocabulary has neither as they are nor corrected."""


class Corrections:
    """The replacements of the unknown words of one query.

    Only the first :data:`MAX_CORRECTIONS` of them are looked up.
    """

    def __init__(
        self,
        vocabulary: Container[str],
        terms_of: Callable[[str], list[str]],
        correct: Callable[[str], str | None],
    ) -> None:
        """Begin a query; `correct` is :meth:`hummingbit.encoder.spelling.Speller.correct`."""
        self._vocabulary = vocabulary
        self._terms_of = terms_of
        self._correct = correct
        self._replacements: dict[str, str | None] = {}
        self.n_unknown = 0
        """How many words, repeats included, are still unknown."""

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Each replaced word and what replaces it."""
        return tuple((word, known) for word, known in self._replacements.items() if known)

    def split_identifiers(self, text: str) -> str:
        """Return `text` with each unknown identifier replaced by its words, if one is known."""
        return replace_identifiers(text, self._words_of)

    def replace(self, terms: list[str]) -> list[str]:
        """Return `terms` with unknown ones replaced by known ones."""
        unknown = [term for term in terms if term not in self._vocabulary]
        for term in unknown:
            if term not in self._replacements and len(self._replacements) < MAX_CORRECTIONS:
                self._replacements[term] = self._correct(term)
        if not unknown:
            return terms
        replaced = [self._replacements.get(term) or term for term in terms]
        # Several words together are unknown more often than not.
        self.n_unknown += sum(" " not in term and term not in self._vocabulary for term in replaced)
        return replaced

    def _words_of(self, identifier: str, words: str) -> str:
        is_new = identifier not in self._replacements
        if is_new and len(self._replacements) >= MAX_CORRECTIONS:
            return identifier
        if self._knows(identifier) or not self._knows(words):
            return identifier
        self._replacements[identifier] = words
        return words

    def _knows(self, text: str) -> bool:
        return any(term in self._vocabulary for term in self._terms_of(text))


def replace_identifiers(text: str, replacement: Callable[[str, str], str]) -> str:
    """Replace each identifier by `replacement(identifier, its words with spaces between them)`."""
    if len(text) > MAX_TEXT_LENGTH:
        return text
    return _IDENTIFIER.sub(
        lambda match: replacement(match[0], " ".join(_PART.findall(match[0]))), text
    )
