"""The syntax of a text query: phrases, prefixes, words to exclude, and conditions on fields.

    ==========================  ====================================================
    ``"dead letter" queue``     documents with the two words next to each other
    ``kubern*``                 words that begin like this
    ``forest -regressor``       no document with the word
    ``forest -"random forest"`` no document with the phrase
    ``label:numpy year:1990``   documents whose payload has these values
    ==========================  ====================================================

Everything else is words. Only typed queries have a syntax: short ones of one line. A word is
excluded only beside other words, if it has three letters or more, and a condition is one only if
documents have a field of that name, so that flags of programs and times of day stay words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from hummingbit.index.filters import And, AnyOf, Filter, Scalar

PLAIN, QUERY = "plain", "query"
SYNTAXES = (QUERY, PLAIN)
"""How a text query is read: with this syntax, or as words alone."""

LONGEST_TYPED = 256
"""Longer queries are texts, which have no syntax."""

_TOKEN = re.compile(
    r"""(?<!\S)(?P<minus>-)?"(?P<phrase>[^"]*\w[^"]*)"(?!\w)"""
    r"""|(?<!\S)-(?P<excluded>[^\W\d_]\w{2,})(?!\S)"""
    r"""|(?<!\S)(?P<field>[^\W\d]\w*):(?:"(?P<quoted>[^"]+)"|(?P<value>[^\s:/"]+))(?!\S)"""
)


@dataclass(frozen=True, slots=True)
class QueryText:
    """A text query, read by its syntax."""

    text: str
    """The words to search for, those of phrases included."""
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    """Words and phrases that no hit has."""
    filter: Filter | None = None
    unread: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Words that look like a condition, each with its field, which conditions cannot have."""

    @property
    def is_plain(self) -> bool:
        """Whether the query consists of words alone."""
        return not (self.phrases or self.excluded or self.filter)


def has_signs(text: str) -> bool:
    """Tell quickly whether a text may have a syntax."""
    return '"' in text or "-" in text or ":" in text


def read_query_text(text: str, fields: Collection[str] = ()) -> QueryText:
    """Return a query read by its syntax; `fields` are those that conditions can have."""
    if len(text) > LONGEST_TYPED or "\n" in text or not has_signs(text):
        return QueryText(text)
    phrases: list[str] = []
    excluded: list[str] = []
    conditions: list[Filter] = []
    unread: dict[str, str] = {}

    def read(match: re.Match[str]) -> str:
        if match["phrase"]:
            if match["minus"]:
                excluded.append(match["phrase"])
                return " "
            phrases.append(match["phrase"])
            return f" {match['phrase']} "
        if match["excluded"]:
            excluded.append(match["excluded"])
            return " "
        if match["field"] not in fields:
            unread[match[0]] = match["field"]
            return match[0]
        conditions.append(_condition(match["field"], match["quoted"] or match["value"]))
        return " "

    words = " ".join(_TOKEN.sub(read, text).split())
    if not re.search(r"\w", words):  # nothing is left to search for
        return QueryText(text)
    if not (phrases or excluded or conditions):
        return QueryText(text, unread=unread)
    return QueryText(words, tuple(phrases), tuple(excluded), both(*conditions), unread)


def unread_conditions(read: QueryText) -> list[str]:
    """Return a sentence for each word of a query that looks like a condition and is none."""
    return [
        f"{word!r} is searched for as words: {field!r} is not an indexed field"
        for word, field in read.unread.items()
    ]


def both(*filters: Filter | None) -> Filter | None:
    """Return the filter that all of some filters make together."""
    given = [filter_ for filter_ in filters if filter_ is not None]
    return given[0] if len(given) == 1 else And(tuple(given)) if given else None


def _condition(field: str, value: str) -> Filter:
    """Return the condition that a field has a value, as a string or as what it says."""
    values: list[Scalar] = [value]
    if value in {"true", "false"}:
        values.append(value == "true")
    with suppress(ValueError):  # it is no number
        values.append(float(value))
    return AnyOf(field, tuple(values))


def words_in_order(words: Sequence[str], phrase: Sequence[str]) -> bool:
    """Tell whether the terms of a phrase follow each other in a text's terms."""
    n, first = len(phrase), phrase[0]
    return any(
        word == first and list(words[at : at + n]) == list(phrase) for at, word in enumerate(words)
    )
