"""What turns a text into the terms of the lexical index.

An analyzer is known by its name, so that a collection can say which one its texts are indexed with.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

import Stemmer

from encoder.features import split_terms


class Analyzer(Protocol):
    """Turns a text into terms; the same text gives the same terms. Thread-safe."""

    @property
    def name(self) -> str:
        """What it is known by."""

    def terms(self, text: str) -> list[str]:
        """Return the terms of `text` in order, repeats included."""


class Words:
    """Lower-case words of two characters or more, as the encoders' own features split them."""

    name = "words"

    def terms(self, text: str) -> list[str]:
        """See :meth:`Analyzer.terms`."""
        return split_terms(text)


class EnglishStems:
    """Words without their English endings: "searches" and "searching" become "search".

    The stemmer is Snowball's English one ("Porter2"), https://snowballstem.org/algorithms/english.
    """

    name = "english"

    def __init__(self) -> None:
        # A stemmer holds a buffer that two threads must not share.
        self._of_thread = threading.local()

    def terms(self, text: str) -> list[str]:
        """See :meth:`Analyzer.terms`."""
        try:
            stem = self._of_thread.stem
        except AttributeError:
            stem = self._of_thread.stem = Stemmer.Stemmer("english").stemWords
        stems: list[str] = stem(split_terms(text))
        return stems


ANALYZERS: Mapping[str, Analyzer] = MappingProxyType(
    {analyzer.name: analyzer for analyzer in (Words(), EnglishStems())}
)
DEFAULT_ANALYZER = EnglishStems.name
