"""What replaces the unknown words of a query: the words of an identifier, or a known word.

Identifiers are the names in program code, which join words, such as `readCsv` and `read_csv`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import NamedTuple

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
        """Begin a query; `correct` is :meth:`encoder.spelling.Speller.correct`."""
        self._vocabulary = vocabulary
        self._terms_of = terms_of
        self._correct = correct
        self._replacements: dict[str, str | None] = {}

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
        return [self._replacements.get(term) or term for term in terms] if unknown else terms

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
    return _IDENTIFIER.sub(lambda one: replacement(one[0], " ".join(_PART.findall(one[0]))), text)
