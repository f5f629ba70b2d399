"""What turns a text into terms, for encoders and for lexical search alike.

An analyzer is known by its name, which is all that an artifact or a collection has to keep:

- ``words``: lower-case words of two characters or more, as the first artifacts have them;
- ``unicode``: the same for plain ASCII text. Any other text is brought to NFKC first, so that
  letters in full width or with their accents apart are what they look like. Accents and vowel signs
  belong to words, and text in a script without spaces becomes the pairs of neighbouring characters:
  "北京大学" becomes 北京, 京大 and 大学;
- either followed by ``+`` and a language, such as ``unicode+english``: words without their endings,
  by Snowball's stemmer of that language;
- either followed by ``+3-5grams`` or the like: besides words, the runs of 3 to 5 characters in
  them, "<" and ">" marking the ends of a word.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Literal, NamedTuple

import Stemmer

from encoder.characters import SPACED, SPACELESS, character_class

# Words of two characters or more, digits and underscores included, as scikit-learn splits them.
_WORD = re.compile(r"\b\w\w+\b")

# Latin, Greek and Cyrillic letters and usual punctuation, which Python's own tables will not take
# otherwise. A text of these alone is split by the expression above, the same and much faster.
_NOT_PLAIN = re.compile(
    "[^\x00-\xac\xae-\u02ff\u0391-\u03a1\u03a3-\u0481\u048a-\u052f\u2010-\u205e\u20ac]"
)
# Soft hyphens, joiners and what only chooses a glyph: nothing that a reader sees.
_INVISIBLE = re.compile("[\xad\u034f\u200d\u2060\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef]")
_GRAMS = re.compile(r"([1-9])-([1-9])grams")
# What begins the term of a run of characters, so that it is never taken for a word.
GRAM_MARK = "~"


class AnalyzerError(ValueError):
    """No analyzer has such a name."""


@dataclass(frozen=True)
class Analyzer:
    """Turns a text into terms; the same text gives the same terms on every machine. Thread-safe.

    Raises:
        AnalyzerError: if there is no stemmer of such a language, or the lengths of runs descend.
    """

    words: Literal["words", "unicode"] = "unicode"
    language: str | None = None
    """Whose endings words lose; None keeps them."""
    grams: tuple[int, int] | None = None
    """The least and greatest length of runs of characters; None is without."""
    _stemmers: threading.local = field(
        default_factory=threading.local, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.language is not None and self.language not in Stemmer.algorithms():
            languages = ", ".join(Stemmer.algorithms())
            raise AnalyzerError(f"has no stemmer of {self.language!a}; there are {languages}")
        if self.grams and not 1 <= self.grams[0] <= self.grams[1] <= 9:
            raise AnalyzerError(f"lengths of runs are {self.grams}; they must ascend from 1 to 9")

    @classmethod
    def named(cls, name: str) -> Analyzer:
        """Return the analyzer of this name; see the head of this module.

        Raises:
            AnalyzerError: if there is none.
        """
        words, *rest = name.split("+")
        if words not in ("words", "unicode"):
            raise AnalyzerError(f"{name!a} must begin with words or unicode, as unicode+english")
        language, grams = None, None
        for part in rest:
            if (lengths := _GRAMS.fullmatch(part)) and grams is None:
                grams = int(lengths[1]), int(lengths[2])
            elif not lengths and language is None:
                language = part
            else:
                raise AnalyzerError(f"{name!a} names two languages or two ranges of lengths")
        try:
            # The comparison tells mypy what "words" may be.
            return cls("words" if words == "words" else "unicode", language, grams)
        except AnalyzerError as error:
            raise AnalyzerError(f"{name!a} {error}") from None

    @property
    def name(self) -> str:
        """What it is known by; :meth:`named` returns it for this name."""
        grams = f"{self.grams[0]}-{self.grams[1]}grams" if self.grams else None
        return "+".join(part for part in (self.words, self.language, grams) if part)

    @property
    def stemmer_version(self) -> str | None:
        """The version of the library whose stemmer this machine has; None without a language."""
        return None if self.language is None else str(Stemmer.version())

    def split(self, text: str) -> list[str]:
        """Return the words and pairs of characters of `text` in order, repeats included."""
        if self.words == "words" or text.isascii():
            return _WORD.findall(text.lower())
        return _split_unicode(text)

    def terms(self, text: str) -> list[str]:
        """Return the terms of `text`, repeats included: words in order, then runs of characters."""
        words = self.split(text)
        terms = words if self.language is None else self._stem(words)
        return terms if self.grams is None else terms + list(_runs(words, *self.grams))

    def _stem(self, words: list[str]) -> list[str]:
        try:
            stem: Callable[[list[str]], list[str]] = self._stemmers.stem
        except AttributeError:
            # A stemmer holds a buffer that two threads must not share.
            stem = self._stemmers.stem = Stemmer.Stemmer(self.language).stemWords
        return stem(words)

    def __reduce__(self) -> tuple[Callable[[str], Analyzer], tuple[str]]:
        return Analyzer.named, (self.name,)


WORDS = Analyzer("words")
"""The analyzer of the artifacts that name none."""
UNICODE = Analyzer("unicode")


def with_runs_of_words(words: list[str], max_words: int) -> list[str]:
    """Return `words`, then the runs of 2 to `max_words` of them with spaces in between."""
    if max_words == 1:
        return words
    terms = list(words)
    for length in range(2, max_words + 1):
        runs = zip(*(words[start:] for start in range(length)), strict=False)
        terms.extend(map(" ".join, runs))
    return terms


def is_spaceless(text: str) -> bool:
    """Return whether `text` has a character of a script without spaces."""
    return not text.isascii() and _expressions().spaceless.search(text) is not None


class _Expressions(NamedTuple):
    run: re.Pattern[str]
    """A run in a script without spaces, or else a word of two characters or more."""
    spaceless: re.Pattern[str]


@cache
def _expressions() -> _Expressions:
    """Compile, in some milliseconds, what only texts beyond Latin need."""
    spaceless, spaced = character_class(SPACELESS), character_class(SPACED)
    return _Expressions(
        re.compile(f"([{spaceless}]+)|([{spaced}]{{2,}})"), re.compile(f"[{spaceless}]")
    )


def _split_unicode(text: str) -> list[str]:
    seen = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).lower()
    if not _NOT_PLAIN.search(seen):
        return _WORD.findall(seen)
    terms: list[str] = []
    for spaceless, word in _expressions().run.findall(seen):
        if word:
            terms.append(word)
        else:
            terms.extend(_pairs(spaceless))
    return terms


def _pairs(run: str) -> list[str]:
    """Return the pairs of neighbouring characters of `run`, a lone one as it is.

    A character has the marks that follow it with it: the vowels of Thai stand above consonants.
    """
    units: list[str] = []
    for character in run:
        if units and unicodedata.category(character)[0] == "M":
            units[-1] += character
        else:
            units.append(character)
    return [a + b for a, b in pairwise(units)] or units


def _runs(words: Iterable[str], least: int, greatest: int) -> Iterable[str]:
    for word in words:
        marked = f"<{word}>"
        for length in range(least, min(greatest, len(marked)) + 1):
            for start in range(len(marked) - length + 1):
                yield GRAM_MARK + marked[start : start + length]
