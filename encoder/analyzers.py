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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import Stemmer

from encoder.scripts import expressions, nfkc, words_of_any_script
from foundation.errors import HummingbitError
from foundation.slices import checkpoint

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
# Expressions, normal forms and stemmers hold the interpreter lock until they are done, so a long
# text is worked on in pieces of about so many characters.
PIECE = 16_384
WORDS_AT_ONCE = 1024
_SEPARATOR = re.compile(r"\W")
# What begins the term of a run of characters, so that it is never taken for a word.
GRAM_MARK = "~"

BOUNDARY = "\x01"
"""What ends a text among the words of several; no word is like it."""

# Python's methods of strings hold the interpreter lock, and a cache holds so many characters.
JOINED = 64 * 1024
_WORD_BYTES = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
# Letters in lower case, digits and underscores as they are, and anything else a space.
_WORDS = bytes(byte if byte in _WORD_BYTES else 32 for byte in range(256)).lower()
_WORDS_AND_BOUNDARIES = _WORDS[:1] + BOUNDARY.encode() + _WORDS[2:]


class AnalyzerError(HummingbitError, ValueError):
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
        if len(text) > PIECE:
            return [word for words in self._word_lists(text) for word in words]
        if text.isascii():
            return ascii_words(text)
        if self.words == "words":
            return _WORD.findall(text.lower())
        seen = nfkc(_INVISIBLE.sub("", text)).lower()
        return words_of_any_script(seen) if _NOT_PLAIN.search(seen) else _WORD.findall(seen)

    def terms(self, text: str) -> list[str]:
        """Return the terms of `text`, repeats included: words in order, then runs of characters."""
        words = self.split(text)
        terms = words if self.language is None else self._stem(words)
        return terms if self.grams is None else terms + list(_runs(words, *self.grams))

    def term_lists(self, text: str) -> Iterable[list[str]]:
        """Return the terms of `text`, repeats included, those of a long text in several lists.

        To go through a list of a million terms takes long, and so does to free it.
        """
        return (self.terms(text),) if len(text) <= PIECE else self._long_term_lists(text)

    def terms_of_all(self, texts: Sequence[str]) -> list[str] | None:
        """Return the terms of short ASCII texts, each text's followed by a ``BOUNDARY``.

        Without endings to lose, single letters are among them, which are no terms. Return None if
        the texts have to be looked at one by one.
        """
        runs = None if self.grams else runs_of_all(texts)
        if runs is None or self.language is None:
            return runs
        return self._stem([run for run in runs if len(run) > 1 or run == BOUNDARY])

    def _long_term_lists(self, text: str) -> Iterator[list[str]]:
        for words in self._word_lists(text):
            for start in range(0, len(words), WORDS_AT_ONCE):
                some = words[start : start + WORDS_AT_ONCE]
                yield some if self.language is None else self._stem(some)
                if self.grams is not None:
                    yield list(_runs(some, *self.grams))

    def _word_lists(self, text: str) -> Iterator[list[str]]:
        """Yield the words that :meth:`split` returns, some at a time."""
        seen, separator = text, _SEPARATOR
        is_plain = self.words == "words" or text.isascii()
        if not is_plain:
            seen = nfkc("".join(_INVISIBLE.sub("", part) for part in _parts(text)))
        # Only of a sigma it matters what follows.
        whole = (seen,) if "\u03a3" in seen else _parts(seen)
        seen = "".join(part.lower() for part in whole)
        is_plain = is_plain or not _NOT_PLAIN.search(seen)
        if not is_plain:
            separator = expressions().separator
        start = 0
        while start < len(seen):
            cut = separator.search(seen, start + PIECE)
            piece = seen[start : cut.start() if cut else len(seen)]
            checkpoint()
            if piece.isascii():
                yield ascii_words(piece)
            else:
                yield _WORD.findall(piece) if is_plain else words_of_any_script(piece)
            start += len(piece)

    def _stem(self, words: list[str]) -> list[str]:
        try:
            stem: Callable[[list[str]], list[str]] = self._stemmers.stem
        except AttributeError:
            # A stemmer holds a buffer that two threads must not share.
            stem = self._stemmers.stem = Stemmer.Stemmer(self.language).stemWords
        if len(words) <= WORDS_AT_ONCE:
            return stem(words)
        starts = range(0, len(words), WORDS_AT_ONCE)
        return [
            stemmed for start in starts for stemmed in stem(words[start : start + WORDS_AT_ONCE])
        ]

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
        terms.extend(_runs_of_words(words, length))
    return terms


def lists_with_runs(words: list[str], max_words: int) -> Iterator[list[str]]:
    """Yield what :func:`with_runs_of_words` returns, in lists of a thousand or so.

    A million runs of words take half a second to make, during which no other thread would run.
    """
    for length in range(1, max_words + 1):
        for start in range(0, len(words) - length + 1, WORDS_AT_ONCE):
            checkpoint()
            some = words[start : start + WORDS_AT_ONCE + length - 1]
            yield some if length == 1 else [*_runs_of_words(some, length)]


def _runs_of_words(words: list[str], length: int) -> Iterable[str]:
    """Return the runs of `length` words, with spaces in between."""
    return map(" ".join, zip(*(words[start:] for start in range(length)), strict=False))


def _parts(text: str) -> Iterator[str]:
    for start in range(0, len(text), PIECE):
        yield text[start : start + PIECE]


def _runs(words: Iterable[str], least: int, greatest: int) -> Iterable[str]:
    for word in words:
        marked = f"<{word}>"
        for length in range(least, min(greatest, len(marked)) + 1):
            for start in range(len(marked) - length + 1):
                yield GRAM_MARK + marked[start : start + length]


def ascii_words(text: str) -> list[str]:
    r"""Return the words of an ASCII text in lower case, as ``\b\w\w+\b`` finds them.

    Translating and splitting takes a quarter of the time of the expression.
    """
    words = text.encode("ascii").translate(_WORDS).decode("ascii").split()
    return [word for word in words if len(word) > 1]


def runs_of_all(texts: Sequence[str]) -> list[str] | None:
    """Return the runs of letters of ASCII texts, :data:`BOUNDARY` after those of each text.

    Those of a single letter, which are no words, are among them. Return None if some text is not
    ASCII.
    """
    joined = f" {BOUNDARY} ".join([*texts, ""])
    if not joined.isascii() or joined.count(BOUNDARY) != len(texts):
        return None
    return joined.encode("ascii").translate(_WORDS_AND_BOUNDARIES).decode("ascii").split()


def short_groups(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Cut texts into groups of some ten thousand characters; a longer text is one by itself."""
    start = size = 0
    for place, text in enumerate(texts):
        size += len(text)
        if size > JOINED:
            if start < place:
                yield texts[start:place]
            start, size = place, len(text)
    if start < len(texts):
        yield texts[start:]
