"""The other forms of a word: joined or split, without its signs, or with them.

A word index holds the words of a text as its analyzer splits them. People type codes and names
otherwise: ``DDF484`` for ``DDF484Z``, ``wifi`` for ``Wi-Fi``, ``cross_entropy`` for
``CrossEntropyLoss``. :func:`other_forms` returns further terms of a text, which a query has in
common with it however both are written:

    ======================  ==============================================
    text                    other forms
    ======================  ==============================================
    ``Wi-Fi``               wifi
    ``HB-0840-ZN``          hb0840zn, hb0840, 0840zn
    ``DDF484Z``             ddf, 484
    ``CrossEntropyLoss``    cross, entropy, loss
    ``cross_entropy``       cross, entropy, crossentropy
    ``C++``, ``.NET``       c++, .net
    ``AT&T``                at&t, att
    ``1,000,000``           1000000
    ``v2.17.1``             2.17.1
    ``0x80070005``          80070005
    ``t-test``, ``plan B``  t, ttest; b
    ``np.sum(a_b).``        npsum; ab, a, b
    ``crème brûlée``        creme, brulee
    ======================  ==============================================

A term of letters only is stemmed like any other word. Other forms count neither in the length of a
text nor in its opening (:mod:`hummingbit.index.lexical`).

Texts are normalized first (:meth:`hummingbit.encoder.analyzers.Analyzer.normalize`), so a letter
with its marks is a letter, whether or not Unicode composes them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import pairwise

from hummingbit.encoder.analyzers import VISIBLE, Analyzer, WordExpression

# Signs that end a name. A comma between digits belongs to a number.
_SEPARATORS = re.compile(r"[\"`´‘“”„«»()\[\]{}<>;!?…*|=~^%$\\]+|(?<!\d),|,(?!\d)")
# Signs that belong to a name inside it, and at its edges to the sentence. "#", "@", "." and "+" can
# belong to it at an edge, too.
_EDGES = "'’:/-–—"
# Signs inside a name that people leave out or replace by a space.
_JOINERS = re.compile(r"[-./&_:+'’·\u2010-\u2015]+")
_JOINERS_OF_WORDS = re.compile(r"[-./&:+'’·\u2010-\u2015]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PART_OF_ANY_SCRIPT = WordExpression(r"[^\W\d_]+|\d+")
_WORD = WordExpression(r"\w\w+")
_RUN = WordExpression(r"(?:(?!_)\w)+")
_DIGIT = re.compile(r"[0-9]")
_GROUPED = re.compile(r"\d{1,3}(?:[,.'’ \u00a0\u202f]\d{3})+")
_VERSION = re.compile(r"[vV]?(\d+(?:\.\d+)+)")
_DECIMAL = re.compile(r"\d+,\d+")
# A number inside a name, such as that of "python3.11" and of "3.5-inch".
_INNER_NUMBER = re.compile(r"(?<![\d.])\d+(?:\.\d+)+")
_HEXADECIMAL = re.compile(r"0[xX]([0-9A-Fa-f]{3,16})")
_SIGNED = WordExpression(r"\.?\w(?:\w|[.-])*(?:\+\+|#)|(?<!\w)(?:[#@]|\.(?=[^\W\d_]|_))\w+")

MAX_LENGTH = 64
"""Longer chunks, such as addresses and hashes, have no other forms."""
CHUNKS_KEPT = 1 << 14
"""The forms of so many chunks are kept, some 3 MB."""
MAX_PARTS = 6
"""Nor do those with more parts."""
LONGEST_RUN = 3
"""So many words of a query may be one word in a document."""


def other_forms(text: str, analyzer: Analyzer = VISIBLE) -> list[str]:
    """Return the other forms of the words of a text in lower case, repeats included."""
    return [form for _, forms in forms_of_chunks(text, analyzer) for form in forms]


def forms_of_chunks(
    text: str, analyzer: Analyzer = VISIBLE, *, parts: bool = True
) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield the parts of a text between spaces that are no plain words, and their other forms.

    With `parts`, these include the parts of words (:func:`parts_of_words`).
    """
    for chunk in analyzer.normalize(text).split():
        if not chunk.isascii():
            yield chunk, _with_unaccented(chunk, analyzer, parts=parts)
        elif not _is_plain_chunk(chunk):
            yield chunk, _forms_of(chunk, parts=parts)


def _is_plain_chunk(chunk: str) -> bool:
    """Tell quickly that an ASCII part of a text between spaces has no other forms."""
    return chunk.isalpha() and (chunk.islower() or chunk[1:].islower()) and len(chunk) > 1


def split_words(text: str, analyzer: Analyzer) -> list[str]:
    """Return the words of a query or a phrase; a number with a point or a comma is one of them.

    The analyzer has the digits on either side as words. A version of which only these agree is
    another version.
    """
    visible = analyzer.normalize(text)
    if not has_digit(visible):
        return analyzer.split(visible)
    words: list[str] = []
    for chunk in visible.split():
        for name, number in _numbers_in(chunk):
            words += analyzer.split(name) if number is None else (number,)
    return words


def split_pieces(text: str, analyzer: Analyzer) -> list[str]:
    """Return the runs of letters and digits of a text, in which a number is one run."""
    visible = analyzer.normalize(text).lower()
    if not has_digit(visible):
        return _RUN.of(visible).findall(visible)
    pieces: list[str] = []
    for chunk in visible.split():
        for name, number in _numbers_in(chunk):
            runs = _RUN.of(name).findall(name)
            pieces += runs if number is None else ("".join(runs),)
    return pieces


def has_digit(text: str) -> bool:
    """Tell whether a text has a digit of any script."""
    return bool(_DIGIT.search(text)) if text.isascii() else any(map(str.isdigit, text))


def _numbers_in(chunk: str) -> Iterator[tuple[str, str | None]]:
    """Yield the names in a part of a text between spaces, and the numbers that some of them are."""
    if not has_digit(chunk):
        yield chunk, None
        return
    for name in _SEPARATORS.split(chunk):
        if (number := _number(_bare(name))) is not None:
            yield name, number
            continue
        start = 0
        for inner in _INNER_NUMBER.finditer(name):
            yield name[start : inner.start()], None
            yield inner[0], inner[0]
            start = inner.end()
        yield name[start:], None


def _with_unaccented(chunk: str, analyzer: Analyzer, *, parts: bool) -> Iterator[str]:
    """Yield the other forms of a part of a text, and then its words and forms without accents."""
    forms = _forms_of(chunk, parts=parts)
    yield from forms
    if len(chunk) <= MAX_LENGTH:
        words = _WORD.of(chunk).findall(chunk.lower())
        unaccented = (without_accents(word, analyzer) for word in (*words, *forms))
        yield from (form for form in unaccented if form)


# Words without their accents.


# Letters that no accent is taken from, in the languages of which they are letters of their own. The
# stemmers of German and Russian make one of ä and a, and of ё and е, by themselves.
_OWN_LETTERS = {
    "danish": "æøå",
    "estonian": "õäöü",
    "finnish": "åäö",
    "german": "äöüß",
    "norwegian": "æøå",
    "swedish": "åäö",
}
_UNCOMPOSED = {
    "æ": "ae",
    "œ": "oe",
    "ø": "o",
    "ß": "ss",
    "đ": "d",
    "ð": "d",
    "ħ": "h",
    "ı": "i",
    "ł": "l",
    "ŧ": "t",
    "þ": "th",
    "ё": "е",
    "\u0640": "",
    "\u093c": "",
}
"""Letters of which no accent can be taken, and what people write instead.

With them the stroke that stretches an Arabic word, and the nukta of Devanagari."""
# Accents of Latin and Greek letters, points of Hebrew, vowel signs and hamza of Arabic.
_ACCENTS = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670]"
)
_ACCENTED = re.compile("[\u00c0-\u024f\u1e00-\u1eff\u0370-\u03ff\u1f00-\u1fff\u0622-\u0626]")
"""Letters that can lose an accent: Latin, Greek and Arabic ones. Cyrillic й is not и."""


class _Unaccented(dict[int, str]):
    """What each character becomes without its accents, for :meth:`str.translate`."""

    def __init__(self, own_letters: str) -> None:
        super().__init__({ord(letter): letter for letter in own_letters})

    def __missing__(self, number: int) -> str:
        letter = chr(number)
        bare = _UNCOMPOSED.get(letter, letter)
        if _ACCENTED.match(letter):
            # What is left may be such a letter, too: ǿ is ø with an accent.
            parts = _ACCENTS.sub("", unicodedata.normalize("NFD", letter))
            bare = "".join(_UNCOMPOSED.get(part, part) for part in parts)
        elif _ACCENTS.match(letter):
            bare = ""
        self[number] = bare
        return bare


@cache
def _unaccented_characters(language: str | None) -> _Unaccented:
    return _Unaccented(_OWN_LETTERS.get(language or "", ""))


@lru_cache(1 << 14)
def without_accents(word: str, analyzer: Analyzer) -> str:
    """Return a word in lower case without the accents that people leave out.

    It is empty if there are none, or if the stemmer leaves them out anyway.
    """
    if word.isascii():
        return ""
    bare = word.translate(_unaccented_characters(analyzer.language))
    if bare == word or not bare:
        return ""
    term, bare_term = analyzer.stem([word, bare])
    return "" if term == bare_term else bare


# The parts of names.


def _parts_of(word: str) -> list[str]:
    """Return the runs of letters and of digits of a word in lower case, split at capitals, too."""
    part = _PART if word.isascii() else _PART_OF_ANY_SCRIPT.of(word)
    parts = [part.lower() for part in part.findall(word)]
    return parts if 1 < len(parts) <= MAX_PARTS else []


def _forms_of(chunk: str, *, parts: bool) -> tuple[str, ...]:
    """Return the other forms of a chunk; most chunks of texts repeat, such as ``said.``."""
    return () if len(chunk) > MAX_LENGTH else _read_forms(chunk, parts)


@lru_cache(CHUNKS_KEPT)
def _read_forms(chunk: str, parts: bool) -> tuple[str, ...]:
    return tuple(_find_forms(chunk, parts=parts))


def _find_forms(chunk: str, *, parts: bool) -> Iterator[str]:
    signed = [form.lower() for form in _SIGNED.of(chunk).findall(chunk)]
    yield from signed
    names = [bare for name in _SEPARATORS.split(chunk) if (bare := _bare(name))]
    for name in names:
        if len(name) == 1:
            # Single letters of an expression, such as f(x), are no words that people type.
            if len(names) == 1 and (name.isdigit() or (name.isalpha() and not signed)):
                yield name.lower()
        elif not name.isdigit() and not (name.isalpha() and _is_plain(name)):
            number = _number(name)
            yield from _forms_of_name(name, parts=parts) if number is None else (number,)


def _bare(name: str) -> str:
    return name.strip(_EDGES).lstrip(".#@").rstrip(".+#").strip(_EDGES)


def _forms_of_name(name: str, *, parts: bool) -> Iterator[str]:
    yield from _INNER_NUMBER.findall(name)
    pieces = [piece for piece in _JOINERS.split(name) if piece]
    if len(pieces) > MAX_PARTS or "'" in name or "’" in name:
        return
    if len(pieces) > 1:
        yield "".join(pieces).lower()
    if len(pieces) > 2:
        yield from ((first + second).lower() for first, second in pairwise(pieces))
    if "&" in name:
        yield name.lower()
    if len(pieces) > 1:  # words hold no single characters
        yield from (piece.lower() for piece in pieces if len(piece) == 1)
    if parts:
        for _, of_word in _parts_of_name(name):
            yield from of_word


def _parts_of_name(name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the words of a name that have parts of two characters or more, and these."""
    for word in _JOINERS_OF_WORDS.split(name):
        pieces = [piece for piece in word.split("_") if piece]
        parts = [part for piece in pieces for part in _parts_of(piece) or (piece.lower(),)]
        if len(parts) > 1:
            yield word.lower(), [part for part in parts if len(part) > 1]


def parts_of_words(text: str, analyzer: Analyzer) -> Iterator[tuple[str, list[str]]]:
    """Yield the words of a query that have parts, and these; a number has none."""
    for chunk in analyzer.normalize(text).split():
        for name, number in _numbers_in(chunk):
            if number is None and len(chunk) <= MAX_LENGTH:
                yield from _parts_of_name(_bare(name))


def _number(bare: str) -> str | None:
    """Return a number without its separators, a version without its letter, hexadecimal digits."""
    if grouped := _GROUPED.fullmatch(bare):
        return re.sub(r"\D", "", grouped[0])
    if version := _VERSION.fullmatch(bare):
        return version[1]
    if _DECIMAL.fullmatch(bare):
        return bare.replace(",", ".")
    hexadecimal = _HEXADECIMAL.fullmatch(bare)
    return hexadecimal[1].lower() if hexadecimal else None


def _is_plain(word: str) -> bool:
    """Tell whether a word of letters has no capital after a small letter."""
    return word.islower() or word[1:].islower() or word.isupper()
