"""The syntax of a text query: phrases, prefixes, words to exclude, and conditions on fields.

    ================================  =====================================================
    ``"dead letter" queue``           documents with the two words next to each other
    ``+python``                       documents with the word as it is
    ``kubern*``                       words that begin like this
    ``forest -regressor``             no document with the word
    ``forest -"random forest"``       no document with the phrase
    ``label:numpy year:1990``         documents whose payload has these values
    ``customer.plan:"Pro 2"``         the field ``plan`` inside ``customer`` has this value
    ``"Order date":2024``             a field whose name has spaces or other signs
    ``price:<50``, ``price:>=10``     numbers, or dates, below or above another
    ``price:[10 TO 50]``, ``10..50``  from one to another, both included; ``{10 TO 50}`` is
                                      without them, and ``*`` or nothing leaves an end open
    ``released:2024-09``              dates and times of that year, month or day
    ``sku:HB-*``, ``due:*``           values that begin like this; any value
    ``id:a17``                        the document with this id, if no payload has a field ``id``
    ``-brand:Sony``                   documents whose payload has no such value
    ``brand:Sony OR year:2024``       at least one of the conditions that ``OR`` stands between
    ``NOT brand:Sony``, ``NOT word``  as ``-brand:Sony``, ``-word``; ``NOT NULL`` is words
    ================================  =====================================================

Everything else is words. Words in quotes and after ``+`` match as they are, without others of
similar meaning. Only typed queries have a syntax: short ones of one line. A word is
excluded only beside other words, if it has three letters or more, and a condition is one only if
documents have the field, so that flags of programs and times of day stay words.

A value without quotes is compared in the capitals that it has, and in small, first and all
capitals; one in quotes as it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hummingbit.encoder.analyzers import VISIBLE, WordExpression
from hummingbit.foundation.errors import InputError
from hummingbit.index.filters import (
    And,
    AnyOf,
    Exists,
    Filter,
    HasId,
    HasText,
    InRange,
    Not,
    Or,
    Scalar,
    check_field,
    instant_of,
    json_number,
)

LONGEST_TYPED = 256
"""Longer queries are texts, which have no syntax."""
LABEL_FIELDS = ("label", "labels")
"""A condition on the label holds for documents with several labels, too."""
ID = "id"
MAX_FIELDS = 8
"""Conditions on further fields are words, since each field is looked for in the documents."""

_TOKEN = WordExpression(
    r"""(?<!\S)(?P<not>-)?(?:"(?P<quoted>[^"]*?\w[^"]*)"|(?P<field>(?:[^\W\d_]|_)(?:\w|[.-])*))"""
    r""":(?P<value>(?:[<>]=?|=)?"[^"]+"|[\[{]\s*\S+\s+TO\s+\S+?\s*[\]}]|(?![:/\\])[^\s"]+)(?!\S)"""
    r"""|(?<!\S)(?P<minus>-)?"(?P<phrase>[^"]*?\w[^"]*)"(?!\w)"""
    r"""|(?<!\S)\+(?P<exact>[^\W\d_]\w+)(?!\S)"""
    r"""|(?<!\S)-(?P<excluded>[^\W\d_]\w{2,})(?!\S)"""
)
_WORD = WordExpression(r"\w")
_OR, _NOT = "OR", "NOT"
# "NOT NULL" and "NOT FOUND" are words.
_NEGATED = re.compile(rf'(?<!\S){_NOT}\s+(?=["\w])(?![A-Z]+(?!\S))')
_CONDITION = "\0"
"""What stands for a condition until the words around it are read; it is no part of a word."""
_JOINED = re.compile(rf"(?<={_CONDITION})\s+(?:{_OR}|AND)\s+(?={_CONDITION})")
_SIGNS = frozenset('"-:+')
_COMPARED = re.compile(r"([<>]=?|=)(.+)")
_BETWEEN = re.compile(r"([\[{])\s*(\S+)\s+TO\s+(\S+?)\s*([\]}])")
_DOTS = re.compile(r"(?=.*[^.])([^.](?:.*?[^.])?)?\.\.([^.].*)?")
_BOUNDS = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_PERIOD = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class QueryText:
    """A text query, read by its syntax."""

    text: str
    """The words to search for, those of phrases included, normalized."""
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    """Words and phrases that no hit has."""
    filter: Filter | None = None
    unread: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Words that look like a condition, each with why it is none."""

    @property
    def is_plain(self) -> bool:
        """Whether the query consists of words alone."""
        return not (self.phrases or self.excluded or self.filter)

    @property
    def is_only_filter(self) -> bool:
        """Whether the query consists of conditions alone."""
        return self.filter is not None and not self.text


def has_signs(text: str) -> bool:
    """Tell quickly whether a text may have a syntax."""
    return not _SIGNS.isdisjoint(text) or _NOT in text or not text.isascii()


def read_query_text(text: str, has_field: Callable[[str], bool]) -> QueryText:
    """Return a query read by its syntax; `has_field` tells whether documents have a field."""
    text = VISIBLE.normalize(text)
    if len(text) > LONGEST_TYPED or "\n" in text or not has_signs(text):
        return QueryText(text)
    reader = _Reader(has_field)
    signed = _NEGATED.sub("-", text)
    rest = _TOKEN.of(signed).sub(reader.read, signed)
    words = " ".join(_JOINED.sub("", rest).replace(_CONDITION, " ").split())
    phrases, excluded, conditions = reader.phrases, reader.excluded, reader.conditions
    if not _WORD.of(words).search(words):  # nothing is left to search for
        if not conditions or excluded:
            return QueryText(text, unread=reader.unread)
        words = ""
    if not (phrases or excluded or conditions):
        return QueryText(text, unread=reader.unread)
    return QueryText(words, tuple(phrases), tuple(excluded), both(*conditions), reader.unread)


class _Reader:
    """What is read of one query."""

    def __init__(self, has_field: Callable[[str], bool]) -> None:
        self._has_field = has_field
        self._fields: dict[str, list[str]] = {}
        """The fields of documents that each name in a condition means."""
        self.phrases: list[str] = []
        self.excluded: list[str] = []
        self.conditions: list[Filter] = []
        self._end_of_condition = 0
        self.unread: dict[str, str] = {}

    def read(self, match: re.Match[str]) -> str:
        """Read a phrase, an excluded word or a condition; return the words that it leaves."""
        if excluded := match["excluded"] or (match["minus"] and match["phrase"]):
            self.excluded.append(excluded)
            return " "
        if phrase := match["phrase"] or match["exact"]:
            self.phrases.append(phrase)
            return f" {phrase} "
        name, value = match["field"] or match["quoted"], match["value"]
        if reason := self._why_unread(name):
            self.unread[match[0]] = reason
            if match["quoted"]:
                self.phrases.append(name)
            return match[0]
        conditions = [condition_of(field, value) for field in self._fields[name]]
        condition = _any(conditions) if conditions else HasId((_unquoted(value),))
        if match["not"]:
            condition = Not(condition)
        if self.conditions and match.string[self._end_of_condition : match.start()].strip() == _OR:
            condition = _any([self.conditions.pop(), condition])
        self.conditions.append(condition)
        self._end_of_condition = match.end()
        return _CONDITION

    def _why_unread(self, name: str) -> str:
        """Return why a name has no condition, or nothing if it has."""
        if name not in self._fields:
            if len(self._fields) == MAX_FIELDS:
                return f"a query has conditions on at most {MAX_FIELDS} fields"
            fields = LABEL_FIELDS if name == LABEL_FIELDS[0] else (name,)
            self._fields[name] = [*filter(self._has_field, filter(_is_field, fields))]
        if self._fields[name] or name == ID:
            return ""
        return f"no document has the field {name!r}"


def both(*filters: Filter | None) -> Filter | None:
    """Return the filter that all of some filters make together."""
    given = [filter_ for filter_ in filters if filter_ is not None]
    return given[0] if len(given) == 1 else And(tuple(given)) if given else None


# Conditions.


def _is_field(name: str) -> bool:
    with suppress(InputError):
        check_field(name, "field")
        return True
    return False


def condition_of(field: str, value: str) -> Filter:
    """Return the condition that a query writes as ``field:value``."""
    if compared := _COMPARED.fullmatch(value):
        sign, bound = compared.groups()
        if sign == "=":
            return _equal(field, bound)
        return _any(_in_range(field, {_BOUNDS[sign]: _unquoted(bound)}))
    if between := _BETWEEN.fullmatch(value):
        begin, first, last, end = between.groups()
        low, high = ("gt" if begin == "{" else "gte"), ("lt" if end == "}" else "lte")
        return _between(field, {low: first, high: last})
    if (dots := _DOTS.fullmatch(value)) and all(_is_ordered(end) for end in dots.groups() if end):
        return _between(field, {"gte": dots[1] or "*", "lte": dots[2] or "*"})
    return _equal(field, value)


def _between(field: str, bounds: Mapping[str, str]) -> Filter:
    given = {name: _unquoted(bound) for name, bound in bounds.items() if bound != "*"}
    return _any(_in_range(field, given)) if given else Exists(field)


def _equal(field: str, value: str) -> Filter:
    """Return the condition that a field has a value, as a string or as what it says."""
    if value.startswith('"'):
        return AnyOf(field, (_unquoted(value),))
    if value == "*":
        return Exists(field)
    if value.endswith("*"):
        return HasText(field, value[:-1], is_prefix=True)
    spelled = (value, value.lower(), value.capitalize(), value.title(), value.upper())
    values: list[Scalar] = [*dict.fromkeys(spelled)]
    if value in {"true", "false"}:
        values.append(value == "true")
    if (number := _number(value)) is not None:
        values.append(number)
    equal = AnyOf(field, tuple(values))
    period = _period(value)
    return equal if period is None else _any([equal, InRange(field, gte=period[0], lt=period[1])])


def _in_range(field: str, bounds: Mapping[str, str]) -> list[Filter]:
    """Return ranges of what bounds can say: numbers, dates, or else strings."""
    ranges: list[Filter] = []
    numbers = {name: _number(bound) for name, bound in bounds.items()}
    if None not in numbers.values():
        ranges.append(InRange(field, **numbers))
    instants: dict[str, str] = {}
    for name, bound in bounds.items():
        period = _period(bound)
        if period is not None:
            # After a day, and up to a day, begin where the day ends.
            first, after = period
            instants |= {
                "gt": {"gte": after},
                "gte": {"gte": first},
                "lt": {"lt": first},
                "lte": {"lt": after},
            }[name]
        elif instant_of(bound) is not None:
            instants[name] = bound
    if len(instants) == len(bounds):
        ranges.append(InRange(field, **instants))
    return ranges or [InRange(field, **bounds)]


def _any(filters: Sequence[Filter]) -> Filter:
    return filters[0] if len(filters) == 1 else Or(tuple(filters))


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value


def _is_ordered(value: str) -> bool:
    return _number(value) is not None or instant_of(value) is not None or bool(_period(value))


def _number(value: str) -> float | None:
    """Return the number that a value is, or None."""
    if not _NUMBER.fullmatch(value):
        return None
    number = json_number(int(value)) if value.lstrip("+-").isdigit() else float(value)
    return number if math.isfinite(number) else None


def _period(value: str) -> tuple[str, str] | None:
    """Return the first day of a year, a month or a day, and the first day after it."""
    match = _PERIOD.fullmatch(value)
    if match is None:
        return None
    year, month, day = (int(part or 1) for part in match.groups())
    try:
        first = datetime(year, month, day, tzinfo=UTC)
        if match[3]:
            after = first + timedelta(days=1)
        elif match[2]:
            after = first.replace(year=year + month // 12, month=month % 12 + 1)
        else:
            after = first.replace(year=year + 1)
    except (ValueError, OverflowError):  # there is no such day, or none after it
        return None
    return first.date().isoformat(), after.date().isoformat()


def words_in_order(words: Sequence[Sequence[str]], phrase: Sequence[str]) -> bool:
    """Tell whether the terms of a phrase follow each other in a text.

    `words` has the terms of each word of the text.
    """
    n, first = len(phrase), phrase[0]
    return any(
        first in terms
        and all(term in some for term, some in zip(phrase, words[at : at + n], strict=False))
        and at + n <= len(words)
        for at, terms in enumerate(words)
    )
