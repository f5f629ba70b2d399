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
    ======================  ==============================================

A term of letters only is stemmed like any other word. Other forms count neither in the length of a
text nor in its opening (:mod:`hummingbit.index.lexical`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

# Signs that end a name. A comma between digits belongs to a number.
_SEPARATORS = re.compile(r"[\"`´‘“”„«»()\[\]{}<>;!?…*|=~^%$\\]+|(?<!\d),|,(?!\d)")
# Signs that belong to a name inside it, and at its edges to the sentence. "#", "@", "." and "+" can
# belong to it at an edge, too.
_EDGES = "'’:/-–—"
# Signs inside a name that people leave out or replace by a space.
_JOINERS = re.compile(r"[-./&_:+'’·\u2010-\u2015]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PART_OF_ANY_SCRIPT = re.compile(r"[^\W\d_]+|\d+")
_GROUPED = re.compile(r"\d{1,3}(?:[,.'’ \u00a0\u202f]\d{3})+")
_VERSION = re.compile(r"[vV]?(\d+(?:\.\d+)+)")
_DECIMAL = re.compile(r"\d+,\d+")
_HEXADECIMAL = re.compile(r"0[xX]([0-9A-Fa-f]{3,16})")
_SIGNED = re.compile(r"\.?\w[\w.-]*(?:\+\+|#)|(?<!\w)(?:[#@]|\.(?=[^\W\d]))\w+")

MAX_LENGTH = 64
"""Longer chunks, such as addresses and hashes, have no other forms."""
MAX_PARTS = 6
"""Nor do those with more parts."""
LONGEST_RUN = 3
"""So many words of a query may be one word in a document."""


def other_forms(text: str) -> list[str]:
    """Return the other forms of the words of a text in lower case, repeats included."""
    return [form for _, forms in forms_of_chunks(text) for form in forms]


def forms_of_chunks(text: str) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield the parts of a text between spaces that are no plain words, and their other forms."""
    for chunk in text.split():
        if chunk.isalpha() and (chunk.islower() or chunk[1:].islower()) and len(chunk) > 1:
            continue
        yield chunk, _forms_of(chunk)


def parts_of(word: str) -> list[str]:
    """Return the runs of letters and of digits of a word in lower case, split at capitals, too."""
    part = _PART if word.isascii() else _PART_OF_ANY_SCRIPT
    parts = [part.lower() for part in part.findall(word)]
    return parts if 1 < len(parts) <= MAX_PARTS else []


def _forms_of(chunk: str) -> Iterator[str]:
    if len(chunk) > MAX_LENGTH:
        return
    signed = [form.lower() for form in _SIGNED.findall(chunk)]
    yield from signed
    names = [bare for name in _SEPARATORS.split(chunk) if (bare := _bare(name))]
    for name in names:
        if len(name) == 1:
            # Single letters of an expression, such as f(x), are no words that people type.
            if len(names) == 1 and (name.isdigit() or (name.isalpha() and not signed)):
                yield name.lower()
        elif not name.isdigit() and not (name.isalpha() and _is_plain(name)):
            number = _number(name)
            yield from _forms_of_name(name) if number is None else (number,)


def _bare(name: str) -> str:
    return name.strip(_EDGES).lstrip(".#@").rstrip(".+#").strip(_EDGES)


def _forms_of_name(name: str) -> Iterator[str]:
    pieces = [piece for piece in _JOINERS.split(name) if piece]
    if len(pieces) > MAX_PARTS or "'" in name or "’" in name:
        return
    if len(pieces) > 1:
        yield "".join(pieces).lower()
    if len(pieces) > 2:
        yield from ((first + second).lower() for first, second in pairwise(pieces))
    if "&" in name:
        yield name.lower()
    for piece in pieces:
        parts = parts_of(piece)
        yield from (part for part in parts if len(part) > 1)
        # Words hold no single characters, and no parts of what an underscore joins.
        if len(pieces) > 1 and (len(piece) == 1 or ("_" in name and not parts)):
            yield piece.lower()


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
