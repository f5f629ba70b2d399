"""Labels of documents and judgements of their relevance, with author, time and grade.

A person has at most one label record for a document and one judgement for a (query, document) pair;
a later record replaces it. People may disagree about a document.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from foundation.errors import InputError, abbreviate
from foundation.times import now

MAX_LABELS = 100
MAX_LABEL_LENGTH = 512
MAX_WHO_LENGTH = 64
MAX_QUERY_LENGTH = 10_000
MAX_GRADE = 1000
ANONYMOUS = "anonymous"

_NOT_STORABLE = re.compile("[\ud800-\udfff\0]")


@dataclass(frozen=True, slots=True)
class DocumentLabel:
    """The labels that a person gave a document.

    `grade` says how well they fit, 1 by default; 0 means that they do not fit. Empty `labels` mean
    that the document belongs to none of the classes.
    """

    id: str
    labels: tuple[str, ...]
    who: str = ANONYMOUS
    grade: int = 1
    when: str = ""
    """UTC, ISO 8601."""

    def __post_init__(self) -> None:
        _check_text("id", self.id, 512)
        if len(self.labels) > MAX_LABELS:
            message = f"has {len(self.labels):,} labels; it must have at most {MAX_LABELS}"
            raise InputError("labels", message)
        for label in self.labels:
            _check_text("labels", label, MAX_LABEL_LENGTH)
        if len(set(self.labels)) != len(self.labels):
            raise InputError("labels", "has the same label twice")
        _check_grade(self.grade, 0)
        _check_who_and_when(self.who, self.when)

    @property
    def key(self) -> tuple[str, ...]:
        """The key of the record, which is unique."""
        return (self.id, self.who)

    @property
    def value(self) -> tuple[object, ...]:
        """The content of the record, without its key and time."""
        return (self.labels, self.grade)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A person's judgement of a document for a query; a grade above 0 means relevant."""

    query: str
    id: str
    grade: int
    who: str = ANONYMOUS
    when: str = ""
    """UTC, ISO 8601."""

    def __post_init__(self) -> None:
        _check_text("query", self.query, MAX_QUERY_LENGTH)
        _check_text("id", self.id, 512)
        _check_grade(self.grade, -MAX_GRADE)
        _check_who_and_when(self.who, self.when)

    @property
    def key(self) -> tuple[str, ...]:
        """The key of the record, which is unique."""
        return (self.query, self.id, self.who)

    @property
    def value(self) -> tuple[object, ...]:
        """The content of the record, without its key and time."""
        return (self.grade,)


def parse_label(record: object) -> DocumentLabel:
    """Make a :class:`DocumentLabel` from decoded JSON; ``label`` is short for a list of one.

    Raises:
        InputError: if a field is invalid; it names the field, its value and what would be right.
    """
    fields = _fields(record, ("id", "label", "labels", "grade", "who", "when"))
    label, labels = fields.get("label"), fields.get("labels")
    if (label is None) == (labels is None):
        raise InputError("label", "exactly one of label and labels must be given")
    labels = [label] if labels is None else labels
    if not isinstance(labels, list):
        raise InputError("labels", f"is {abbreviate(labels)}; it must be a list of strings")
    return DocumentLabel(
        fields.get("id", ""),
        tuple(labels),
        fields.get("who") or ANONYMOUS,
        fields.get("grade", 1),
        fields.get("when") or now(),
    )


def parse_judgement(record: object) -> Judgement:
    """Make a :class:`Judgement` from decoded JSON.

    Raises:
        InputError: if a field is invalid; it names the field, its value and what would be right.
    """
    fields = _fields(record, ("query", "id", "grade", "who", "when"))
    return Judgement(
        fields.get("query", ""),
        fields.get("id", ""),
        fields.get("grade", ""),
        fields.get("who") or ANONYMOUS,
        fields.get("when") or now(),
    )


def label_to_json(label: DocumentLabel) -> dict[str, Any]:
    """Return the JSON object that :func:`parse_label` reads."""
    return {
        "id": label.id,
        "labels": list(label.labels),
        "grade": label.grade,
        "who": label.who,
        "when": label.when,
    }


def judgement_to_json(judgement: Judgement) -> dict[str, Any]:
    """Return the JSON object that :func:`parse_judgement` reads."""
    return {
        "query": judgement.query,
        "id": judgement.id,
        "grade": judgement.grade,
        "who": judgement.who,
        "when": judgement.when,
    }


def agreed_labels(records: Iterable[DocumentLabel]) -> dict[str, tuple[str, ...]]:
    """Return the labels of each document by majority of the people who labelled it.

    In a tie, the latest record wins. Records of grade 0 do not count.
    """
    by_document: dict[str, list[DocumentLabel]] = {}
    for record in records:
        if record.grade > 0:
            by_document.setdefault(record.id, []).append(record)
    agreed = {}
    for id_, document_records in by_document.items():
        votes = Counter(frozenset(one.labels) for one in document_records)
        winner = max(
            document_records, key=lambda one: (votes[frozenset(one.labels)], one.when, one.who)
        )
        agreed[id_] = winner.labels
    return agreed


def is_storable(text: str) -> bool:
    """Tell whether SQLite can store a text unchanged: without lone surrogates and NUL."""
    return _NOT_STORABLE.search(text) is None


def _fields(record: object, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(record, Mapping):
        raise InputError("record", f"is {abbreviate(record)}; it must be an object")
    unknown = sorted(set(map(str, record)) - set(known))
    if unknown:
        raise InputError(unknown[0], f"is not a field; the fields are {', '.join(known)}")
    return record


def _check_text(field: str, value: object, longest: int) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        rule = f"it must be a string of 1 to {longest:,} characters"
        raise InputError(field, f"is {abbreviate(value)}; {rule}")
    if not is_storable(value):
        rule = "it must not contain a lone surrogate or a NUL"
        raise InputError(field, f"is {abbreviate(value)}; {rule}")


def _check_grade(grade: object, least: int) -> None:
    if type(grade) is not int or not least <= grade <= MAX_GRADE:
        rule = f"it must be a whole number from {least} to {MAX_GRADE:,}"
        raise InputError("grade", f"is {abbreviate(grade)}; {rule}")


def _check_who_and_when(who: object, when: object) -> None:
    _check_text("who", who, MAX_WHO_LENGTH)
    try:
        moment = datetime.fromisoformat(when) if isinstance(when, str) and when else None
    except ValueError:
        moment = None
    if when != "" and (moment is None or moment.tzinfo is None):
        rule = "it must be a time with a time zone, such as 2026-01-31T12:00:00+00:00"
        raise InputError("when", f"is {abbreviate(when)}; {rule}")
