"""Analyzers split a text into terms, for encoders and for lexical search.

An artifact or a collection stores only the name of its analyzer:

- ``words``: lower-case words of two characters or more, as in the first artifacts;
- ``visible``, the default: the same for ASCII text. Any other text is first normalized to NFKC, so
  that full-width letters and letters with separate accents match the usual ones. Accents and vowel
  signs belong to words. In a script without spaces, every pair of neighbouring characters is a
  term: "北京大学" becomes 北京, 京大 and 大学. Characters that a reader does not see, such as soft
  hyphens and zero-width spaces, are removed, so they split no word;
- ``unicode``: the former ``visible``, which removes only some of these characters;
- any of them with ``+`` and a language, such as ``visible+english``: words stemmed by Snowball's
  stemmer for that language;
- any of them with a suffix such as ``+3-5grams``: besides the words, their n-grams of 3 to 5
  characters, where "<" and ">" mark the ends of a word.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import Stemmer

from encoder.texts.characters import FORMERLY_INVISIBLE, INVISIBLE, character_class
from encoder.texts.scripts import (
    clusters,
    expressions,
    may_combine,
    nfkc,
    spans_of_any_script,
    words_of_any_script,
)
from foundation.errors import HummingbitError
from foundation.slices import checkpoint

# Words of two characters or more, digits and underscores included, as scikit-learn splits them.
_WORD = re.compile(r"\b\w\w+\b")

# Matches all but Latin, Greek and Cyrillic letters and usual punctuation. Every version of Python
# classifies those alike, so a text of them alone is split by the faster expression above.
_NOT_PLAIN = re.compile(
    "[^\x00-\xac\xae-\u02ff\u0391-\u03a1\u03a3-\u0481\u048a-\u052f\u2010-\u205e\u20ac]"
)
_INVISIBLE = {
    "unicode": re.compile(f"[{character_class(FORMERLY_INVISIBLE)}]"),
    "visible": re.compile(f"[{character_class(INVISIBLE)}]"),
}
_GRAMS = re.compile(r"([1-9])-([1-9])grams")
# Regular expressions, normalization and stemmers hold the interpreter lock until they are done, so
# a long text is split in pieces of about this many characters.
PIECE_LENGTH = 16_384
WORDS_AT_ONCE = 1024
_SEPARATOR = re.compile(r"\W")
# Positions of words are found in pieces of about this many characters, which end at white space:
# only pieces that normalization changes take the longer way.
LOCATED_AT_ONCE = 128
_SPACE = re.compile(r"\s")
_JOINERS = "\u200c\u200d"
# The first character of a character n-gram, which no word begins with.
GRAM_MARK = "~"

BOUNDARY = "\x01"
"""Ends each text in the joined words of several texts; no word equals it."""

# Texts are joined up to this many characters: they fit a processor's cache, and Python's string
# methods hold the interpreter lock only briefly.
MAX_JOINED_LENGTH = 64 * 1024
_WORD_BYTES = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
# Translates letters to lower case, keeps digits and underscores, and makes the rest spaces.
_WORDS = bytes(byte if byte in _WORD_BYTES else 32 for byte in range(256)).lower()
_WORDS_AND_BOUNDARIES = _WORDS[:1] + BOUNDARY.encode() + _WORDS[2:]

Base = Literal["words", "unicode", "visible"]
_BASES: tuple[Base, ...] = get_args(Base)


class AnalyzerError(HummingbitError, ValueError):
    """There is no analyzer of this name."""


@dataclass(frozen=True)
class Analyzer:
    """Splits a text into terms; the same text gives the same terms on every machine. Thread-safe.

    Raises:
        AnalyzerError: if there is no stemmer for the language, or the lengths of n-grams are not
            ascending from 1 to 9.
    """

    words: Base = "visible"
    language: str | None = None
    """The language of the stemmer; None leaves words as they are."""
    grams: tuple[int, int] | None = None
    """The least and greatest length of character n-grams; None makes none."""
    _stemmers: threading.local = field(
        default_factory=threading.local, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.language is not None and self.language not in Stemmer.algorithms():
            languages = ", ".join(Stemmer.algorithms())
            message = f"has no stemmer for {self.language!r}; the languages are {languages}"
            raise AnalyzerError(message)
        if self.grams and not 1 <= self.grams[0] <= self.grams[1] <= 9:
            least, greatest = self.grams
            found = f"has n-grams of {least} to {greatest} characters"
            raise AnalyzerError(f"{found}; both must be from 1 to 9, the smaller first")

    @classmethod
    def from_name(cls, name: str) -> Analyzer:
        """Return the analyzer called `name`; the head of this module lists the names.

        Raises:
            AnalyzerError: if there is none.
        """
        words, *rest = name.split("+")
        base = next((base for base in _BASES if base == words), None)
        if base is None:
            raise AnalyzerError(
                f"{name!r} must begin with visible, unicode or words, such as visible+english"
            )
        language, grams = None, None
        for part in rest:
            if (lengths := _GRAMS.fullmatch(part)) and grams is None:
                grams = int(lengths[1]), int(lengths[2])
            elif not lengths and language is None:
                language = part
            else:
                raise AnalyzerError(
                    f"{name!r} has two languages or two ranges of n-grams; give at most one of each"
                )
        try:
            return cls(base, language, grams)
        except AnalyzerError as error:
            raise AnalyzerError(f"{name!r} {error}") from None

    @property
    def name(self) -> str:
        """The name from which :meth:`from_name` makes this analyzer."""
        grams = f"{self.grams[0]}-{self.grams[1]}grams" if self.grams else None
        return "+".join(part for part in (self.words, self.language, grams) if part)

    @property
    def stemmer_version(self) -> str | None:
        """The version of the installed PyStemmer; None without a language."""
        return None if self.language is None else str(Stemmer.version())

    def split(self, text: str) -> list[str]:
        """Return the words and pairs of characters of `text` in order, repeats included."""
        if len(text) > PIECE_LENGTH:
            return [word for words in self._word_lists(text) for word in words]
        if text.isascii():
            return ascii_words(text)
        if self.words == "words":
            return _WORD.findall(text.lower())
        visible = nfkc(_INVISIBLE[self.words].sub("", text)).lower()
        plain = not _NOT_PLAIN.search(visible)
        return _WORD.findall(visible) if plain else words_of_any_script(visible)

    def terms(self, text: str) -> list[str]:
        """Return the terms of `text`, repeats included: words in order, then character n-grams."""
        words = self.split(text)
        terms = words if self.language is None else self._stem(words)
        return terms if self.grams is None else terms + list(_character_ngrams(words, *self.grams))

    def spans(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield where each term of `text` begins and ends in it, and the term.

        The terms are those of :meth:`terms`, in the same order, without character n-grams. A span
        parts no character from the marks after it, and holds the invisible characters inside it.
        Only where more than 64 marks follow each other may terms differ.
        """
        start = 0
        while start < len(text):
            checkpoint()
            cut = _SPACE.search(text, start + LOCATED_AT_ONCE)
            piece = text[start : cut.start() if cut else len(text)]
            lowered, begins, ends = self._located(piece)
            if self.words == "words" or not _NOT_PLAIN.search(lowered):
                found = [match.span() for match in _WORD.finditer(lowered)]
            else:
                found = list(spans_of_any_script(lowered))
            words = [lowered[first:last] for first, last in found]
            terms = words if self.language is None else self._stem(words)
            for (first, last), term in zip(found, terms, strict=True):
                end = start + ends[last - 1]
                while end < len(text) and (may_combine(text[end]) or text[end] in _JOINERS):
                    end += 1
                yield start + begins[first], end, term
            start += len(piece)

    def _located(self, text: str) -> tuple[str, Sequence[int], Sequence[int]]:
        """Return the characters that words are made of, and where in `text` each begins and ends.

        The characters are normalized and in lower case, so one of `text` can become several, and
        several can become one.
        """
        kept: Sequence[int] = range(len(text))
        visible = text
        if self.words != "words" and _INVISIBLE[self.words].search(text):
            invisible = _INVISIBLE[self.words]
            kept = [place for place, char in enumerate(text) if not invisible.match(char)]
            visible = "".join(text[place] for place in kept)
        form = visible if self.words == "words" else nfkc(visible)
        lowered = form.lower()
        if form == text and len(lowered) == len(text):
            return lowered, kept, range(1, len(text) + 1)
        begins: list[int] = []
        ends: list[int] = []
        place = 0
        for cluster in clusters(visible):
            places = kept[place : place + len(cluster)]
            place += len(cluster)
            cluster_form = cluster
            if self.words != "words" and not cluster.isascii():
                cluster_form = unicodedata.normalize("NFKC", cluster)
            length = len(cluster_form.lower())
            is_kept = cluster_form == cluster and length == len(cluster)
            begins.extend(places if is_kept else [places[0]] * length)
            ends.extend([places[-1] + 1] * length)
        return lowered, begins, ends

    def term_lists(self, text: str) -> Iterable[list[str]]:
        """Return the terms of `text`, repeats included; those of a long text in several lists.

        Going through one list of a million terms would take long, and so would freeing it.
        """
        return (self.terms(text),) if len(text) <= PIECE_LENGTH else self._long_term_lists(text)

    def terms_of_all(self, texts: Sequence[str]) -> list[str] | None:
        """Return the terms of short ASCII texts, with a :data:`BOUNDARY` after those of each text.

        Without a language, the list also holds single letters, which are no terms. Return None if
        the texts must be split one by one.
        """
        tokens = None if self.grams else _ascii_tokens(texts)
        if tokens is None or self.language is None:
            return tokens
        return self._stem([token for token in tokens if len(token) > 1 or token == BOUNDARY])

    def _long_term_lists(self, text: str) -> Iterator[list[str]]:
        for words in self._word_lists(text):
            for start in range(0, len(words), WORDS_AT_ONCE):
                batch = words[start : start + WORDS_AT_ONCE]
                yield batch if self.language is None else self._stem(batch)
                if self.grams is not None:
                    yield list(_character_ngrams(batch, *self.grams))

    def _word_lists(self, text: str) -> Iterator[list[str]]:
        """Yield the words that :meth:`split` returns, in several lists."""
        visible, separator = text, _SEPARATOR
        is_plain = self.words == "words" or text.isascii()
        if not is_plain:
            invisible = _INVISIBLE[self.words]
            visible = nfkc("".join(invisible.sub("", piece) for piece in _pieces(text)))
        # The lower case of a capital sigma depends on what follows it; no other letter's does.
        pieces = (visible,) if "\u03a3" in visible else _pieces(visible)
        visible = "".join(piece.lower() for piece in pieces)
        is_plain = is_plain or not _NOT_PLAIN.search(visible)
        if not is_plain:
            separator = expressions().separator
        start = 0
        while start < len(visible):
            cut = separator.search(visible, start + PIECE_LENGTH)
            piece = visible[start : cut.start() if cut else len(visible)]
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
            # Two threads must not share its buffer. Its cache (0: none) takes longer than stemming.
            stem = self._stemmers.stem = Stemmer.Stemmer(self.language, 0).stemWords
        if len(words) <= WORDS_AT_ONCE:
            return stem(words)
        starts = range(0, len(words), WORDS_AT_ONCE)
        return [
            stemmed for start in starts for stemmed in stem(words[start : start + WORDS_AT_ONCE])
        ]

    def __reduce__(self) -> tuple[Callable[[str], Analyzer], tuple[str]]:
        return Analyzer.from_name, (self.name,)


WORDS = Analyzer("words")
"""The analyzer of artifacts that name none."""
VISIBLE = Analyzer("visible")


def word_ngrams(words: list[str], max_words: int) -> list[str]:
    """Return `words`, then their n-grams of 2 to `max_words` words, joined by spaces."""
    if max_words == 1:
        return words
    terms = list(words)
    for length in range(2, max_words + 1):
        terms.extend(_ngrams_of_length(words, length))
    return terms


def word_ngram_lists(words: list[str], max_words: int) -> Iterator[list[str]]:
    """Yield what :func:`word_ngrams` returns, in lists of about a thousand.

    Making a million n-grams takes half a second, during which no other thread would run.
    """
    for length in range(1, max_words + 1):
        for start in range(0, len(words) - length + 1, WORDS_AT_ONCE):
            checkpoint()
            batch = words[start : start + WORDS_AT_ONCE + length - 1]
            yield batch if length == 1 else [*_ngrams_of_length(batch, length)]


def _ngrams_of_length(words: list[str], length: int) -> Iterable[str]:
    return map(" ".join, zip(*(words[start:] for start in range(length)), strict=False))


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), PIECE_LENGTH):
        yield text[start : start + PIECE_LENGTH]


def _character_ngrams(words: Iterable[str], least: int, greatest: int) -> Iterable[str]:
    for word in words:
        marked = f"<{word}>"
        for length in range(least, min(greatest, len(marked)) + 1):
            for start in range(len(marked) - length + 1):
                yield GRAM_MARK + marked[start : start + length]


def ascii_words(text: str) -> list[str]:
    r"""Return the words of an ASCII text in lower case, as ``\b\w\w+\b`` finds them.

    Translating and splitting takes a quarter of the expression's time.
    """
    words = text.encode("ascii").translate(_WORDS).decode("ascii").split()
    return [word for word in words if len(word) > 1]


def _ascii_tokens(texts: Sequence[str]) -> list[str] | None:
    """Return the tokens of ASCII texts in lower case, with a BOUNDARY after those of each text.

    Tokens of a single character, which are no words, are included. Return None if some text is not
    ASCII or contains a BOUNDARY.
    """
    joined = f" {BOUNDARY} ".join([*texts, ""])
    if not joined.isascii() or joined.count(BOUNDARY) != len(texts):
        return None
    return joined.encode("ascii").translate(_WORDS_AND_BOUNDARIES).decode("ascii").split()


def short_groups(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split texts into groups of at most 65,536 characters; a longer text is its own group."""
    start = size = 0
    for place, text in enumerate(texts):
        size += len(text)
        if size > MAX_JOINED_LENGTH:
            if start < place:
                yield texts[start:place]
            start, size = place, len(text)
    if start < len(texts):
        yield texts[start:]
