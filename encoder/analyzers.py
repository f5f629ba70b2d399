"""Analyzers split a text into terms, for encoders and for lexical search."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import Stemmer

from hummingbit.foundation.errors import HummingbitError

# ``characters.txt`` lists the characters of words, so that every machine splits a text alike.
#
# Python's own tables grow with its version. These are those of Unicode 14.0: the categories L*, M*
# and N* and the underscore, without variation selectors. Characters of later versions of Unicode
# separate words, on every version of Python.


# Characters are hexadecimal code points, and ranges of them that include both ends.
INVISIBLE = "ad 34f 61c 180b-180f 200b-200f 202a-202e 2060-206f fe00-fe0f feff e0000-e0fff"
"""Soft hyphens, zero-width spaces and joiners, marks of direction, variation selectors and tags.

They are the characters with the property Default_Ignorable_Code_Point that occur in words of
several scripts (Unicode 14.0, DerivedCoreProperties.txt).
"""
FORMERLY_INVISIBLE = "ad 34f 200d 2060 fe00-fe0f feff e0100-e01ef"
"""Those that the analyzer ``unicode`` removes."""


def character_class(ranges: str) -> str:
    """Return the inside of a regular expression's ``[…]`` for ranges in the notation above."""
    # Python reads characters three times as fast as their numbers.
    ends = (part.partition("-") for part in ranges.split())
    pairs = ((chr(int(first, 16)), chr(int(last or first, 16))) for first, _, last in ends)
    return "".join(f"{re.escape(first)}-{re.escape(last)}" for first, last in pairs)


@cache
def word_characters() -> tuple[str, str]:
    """Return the characters of words in scripts with and without spaces between words.

    The latter are Han, Kana and Bopomofo, Thai, Lao, Myanmar, Khmer, Tai, Javanese, Yi, Tangut,
    Nushu and Khitan.
    """
    listed = Path(__file__).with_name("characters.txt").read_text(encoding="ascii")
    spaced, spaceless = listed.split("\n\n")
    return spaced, spaceless


# Texts beyond ASCII: normalization, words, and pairs of characters in scripts without spaces.


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
        for position in range(1, len(piece)):
            if not may_combine(piece[position]):
                yield piece[start:position]
                start = position
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
    starts = [position for position, char in enumerate(run) if unicodedata.category(char)[0] != "M"]
    if not starts or starts[0]:
        starts.insert(0, 0)
    return [*starts, len(run)]


def is_spaceless(text: str) -> bool:
    """Return whether `text` has a character of a script without spaces."""
    return not text.isascii() and expressions().spaceless.search(text) is not None


class WordExpression:
    r"""A regular expression whose ``\w`` and ``[^\W\d_]`` match combining marks, too.

    Python's ``\w`` leaves out the vowel signs of Devanagari and Tamil, the points of Hebrew, and
    accents that no letter is composed with. The pattern has ``\w`` outside of brackets only. It is
    for normalized texts (:meth:`Analyzer.normalize`).
    """

    def __init__(self, pattern: str) -> None:
        """Compile a pattern for plain texts; that for others is compiled when one comes."""
        self._pattern = pattern
        self._plain = re.compile(pattern)

    def of(self, text: str) -> re.Pattern[str]:
        """Return the expression for a text."""
        is_plain = text.isascii() or not _NOT_PLAIN.search(text)
        return self._plain if is_plain else self._of_any_script

    @cached_property
    def _of_any_script(self) -> re.Pattern[str]:
        characters = "".join(map(character_class, word_characters()))
        pattern = self._pattern.replace(r"[^\W\d_]", r"(?:(?![\d_])\w)")
        return re.compile(pattern.replace(r"\w", f"[{characters}]"))


class _Expressions(NamedTuple):
    run: re.Pattern[str]
    """Group 1 is a run of characters in scripts without spaces, group 2 any other word."""
    spaceless: re.Pattern[str]
    separator: re.Pattern[str]


@cache
def expressions() -> _Expressions:
    """Compile the expressions, which takes milliseconds and only texts beyond Latin need."""
    spaced, spaceless = map(character_class, word_characters())
    return _Expressions(
        re.compile(f"([{spaceless}]+)|([{spaced}]{{2,}})"),
        re.compile(f"[{spaceless}]"),
        re.compile(f"[^{spaceless}{spaced}]"),
    )


# Analyzers split a text into terms, for encoders and for lexical search.
#
# An artifact or a collection stores only the name of its analyzer:
#
# - ``words``: lower-case words of two characters or more, as in the first artifacts;
# - ``visible``, the default: the same for ASCII text. Any other text is first normalized to NFKC,
#   so that full-width letters and letters with separate accents match the usual ones. Accents and
#   vowel signs belong to words. In a script without spaces, every pair of neighbouring characters
#   is a term: "北京大学" becomes 北京, 京大 and 大学. Characters that a reader does not see, such
#   as soft hyphens and zero-width spaces, are removed, so they split no word;
# - ``unicode``: the former ``visible``, which removes only some of these characters;
# - any of them with ``+`` and a language, such as ``visible+english``: words stemmed by Snowball's
#   stemmer for that language;
# - any of them with a suffix such as ``+3-5grams``: besides the words, their n-grams of 3 to 5
#   characters, where "<" and ">" mark the ends of a word.


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

    def normalize(self, text: str) -> str:
        """Return the text as its words are read: in NFKC, without invisible characters.

        It keeps capitals. The analyzer ``words`` reads a text as it is.
        """
        if self.words == "words" or text.isascii():
            return text
        invisible = _INVISIBLE[self.words]
        return nfkc("".join(invisible.sub("", piece) for piece in _pieces(text)))

    def split(self, text: str) -> list[str]:
        """Return the words and pairs of characters of `text` in order, repeats included."""
        if len(text) > PIECE_LENGTH:
            return [word for words in self._word_lists(text) for word in words]
        if text.isascii():
            return ascii_words(text)
        if self.words == "words":
            return _WORD.findall(text.lower())
        visible = self.normalize(text).lower()
        plain = not _NOT_PLAIN.search(visible)
        return _WORD.findall(visible) if plain else words_of_any_script(visible)

    def terms(self, text: str) -> list[str]:
        """Return the terms of `text`, repeats included: words in order, then character n-grams."""
        words = self.split(text)
        terms = words if self.language is None else self._stem(words)
        return terms if self.grams is None else terms + list(_character_ngrams(words, *self.grams))

    def spans(self, text: str) -> Iterator[tuple[int, int, str, str]]:
        """Yield where each term of `text` begins and ends in it, its word and the term.

        The terms are those of :meth:`terms`, in the same order, without character n-grams. A span
        parts no character from the marks after it, and holds the invisible characters inside it.
        Only where more than 64 marks follow each other may terms differ.
        """
        start = 0
        while start < len(text):
            cut = _SPACE.search(text, start + LOCATED_AT_ONCE)
            piece = text[start : cut.start() if cut else len(text)]
            lowered, begins, ends = self._located(piece)
            if self.words == "words" or not _NOT_PLAIN.search(lowered):
                found = [match.span() for match in _WORD.finditer(lowered)]
            else:
                found = list(spans_of_any_script(lowered))
            words = [lowered[first:last] for first, last in found]
            terms = words if self.language is None else self._stem(words)
            for (first, last), word, term in zip(found, words, terms, strict=True):
                end = start + ends[last - 1]
                while end < len(text) and (may_combine(text[end]) or text[end] in _JOINERS):
                    end += 1
                yield start + begins[first], end, word, term
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
            kept = [position for position, char in enumerate(text) if not invisible.match(char)]
            visible = "".join(text[position] for position in kept)
        form = visible if self.words == "words" else nfkc(visible)
        lowered = form.lower()
        if form == text and len(lowered) == len(text):
            return lowered, kept, range(1, len(text) + 1)
        begins: list[int] = []
        ends: list[int] = []
        position = 0
        for cluster in clusters(visible):
            positions = kept[position : position + len(cluster)]
            position += len(cluster)
            cluster_form = cluster
            if self.words != "words" and not cluster.isascii():
                cluster_form = unicodedata.normalize("NFKC", cluster)
            length = len(cluster_form.lower())
            is_kept = cluster_form == cluster and length == len(cluster)
            begins.extend(positions if is_kept else [positions[0]] * length)
            ends.extend([positions[-1] + 1] * length)
        return lowered, begins, ends

    def term_lists(self, text: str) -> Iterable[list[str]]:
        """Return the terms of `text`, repeats included; those of a long text in several lists.

        Going through one list of a million terms would take long, and so would freeing it.
        """
        return (self.terms(text),) if len(text) <= PIECE_LENGTH else self._long_term_lists(text)

    def word_lists(self, text: str) -> Iterable[list[str]]:
        """Return the words of :meth:`split`; those of a long text in several lists."""
        return (self.split(text),) if len(text) <= PIECE_LENGTH else self._word_lists(text)

    def stem(self, words: list[str]) -> list[str]:
        """Return the terms of words of :meth:`split`, one each."""
        return words if self.language is None else self._stem(words)

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
        visible, separator = self.normalize(text), _SEPARATOR
        is_plain = self.words == "words" or text.isascii()
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


# Signs of texts in English, and those of ASCII that words and their other forms read alike.
_SIGNS = {
    "\u2019": "'",
    "\u2018": '"',
    "\u201c": '"',
    "\u201d": '"',
    "\u2026": "...",
    "\u00a0": " ",
}
_DASHES = "\u2013\u2014"


def with_plain_signs(text: str) -> str:
    """Return a text with signs of ASCII for usual quotation marks, dashes and ellipses.

    Its words and other forms (:mod:`hummingbit.index.word_forms`) are the same, unless the analyzer
    reads texts without normalizing them.
    """
    for sign, plain in _SIGNS.items():
        text = text.replace(sign, plain)
    # A dash is no part of names such as "C++" and "AT&T", as a hyphen is.
    if not ("+" in text or "#" in text or "&" in text):
        for dash in _DASHES:
            text = text.replace(dash, "-")
    return text


def ascii_words(text: str) -> list[str]:
    r"""Return the words of an ASCII text in lower case, as ``\b\w\w+\b`` finds them.

    Translating and splitting takes a quarter of the expression's time.
    """
    words = text.encode("ascii").translate(_WORDS).decode("ascii").split()
    return [word for word in words if len(word) > 1]


def joined_words(texts: Sequence[str]) -> bytes | None:
    """Return the words of ASCII texts in lower case, between spaces, a BOUNDARY after each text.

    Single characters, which are no words, are included. Return None if some text is not ASCII or
    contains a BOUNDARY.
    """
    joined = f" {BOUNDARY} ".join([*texts, ""])
    if not joined.isascii() or joined.count(BOUNDARY) != len(texts):
        return None
    return joined.encode("ascii").translate(_WORDS_AND_BOUNDARIES)


def _ascii_tokens(texts: Sequence[str]) -> list[str] | None:
    """Return what :func:`joined_words` does as a list, or None."""
    joined = joined_words(texts)
    return None if joined is None else joined.decode("ascii").split()


def short_groups(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split texts into groups of at most 65,536 characters; a longer text is its own group."""
    start = size = 0
    for position, text in enumerate(texts):
        size += len(text)
        if size > MAX_JOINED_LENGTH:
            if start < position:
                yield texts[start:position]
            start, size = position, len(text)
    if start < len(texts):
        yield texts[start:]
