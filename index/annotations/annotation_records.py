"""A label of a document and a judgement of an answer, with who gave it, when, and its grade.

One person has at most one label record of a document and one judgement of a (query, document) pair.
A later one replaces it. Several people may say different things of the same document.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from foundation.errors import InputError
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

    `grade` says how well they fit, 1 by default; 0 says that they do not fit. A document that
    belongs to none of the classes has no `labels`.
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
            raise InputError("labels", f"are {len(self.labels):,}; at most {MAX_LABELS} are taken")
        for label in self.labels:
            _check_text("labels", label, MAX_LABEL_LENGTH)
        if len(set(self.labels)) != len(self.labels):
            raise InputError("labels", "hold the same label twice")
        _check_grade(self.grade, 0)
        _check_who_and_when(self.who, self.when)

    @property
    def key(self) -> tuple[str, ...]:
        """What there is one record for."""
        return (self.id, self.who)

    @property
    def value(self) -> tuple[object, ...]:
        """What the person said."""
        return (self.labels, self.grade)


@dataclass(frozen=True, slots=True)
class Judgement:
    """How well a document answers a query, in a person's eyes; a grade above 0 is relevant."""

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
        """What there is one record for."""
        return (self.query, self.id, self.who)

    @property
    def value(self) -> tuple[object, ...]:
        """What the person said."""
        return (self.grade,)


def parse_label(record: object) -> DocumentLabel:
    """Make a :class:`DocumentLabel` of decoded JSON; ``label`` stands for a list of one.

    Raises:
        InputError: naming the field, its value and what would be right.
    """
    fields = _fields(record, ("id", "label", "labels", "grade", "who", "when"))
    one, several = fields.get("label"), fields.get("labels")
    if (one is None) == (several is None):
        raise InputError("label", "exactly one of label and labels must be given")
    labels = [one] if several is None else several
    if not isinstance(labels, list):
        raise InputError("labels", f"is {_show(labels)}; it must be a list of strings")
    return DocumentLabel(
        fields.get("id", ""),
        tuple(labels),
        fields.get("who") or ANONYMOUS,
        fields.get("grade", 1),
        fields.get("when") or now(),
    )


def parse_judgement(record: object) -> Judgement:
    """Make a :class:`Judgement` of decoded JSON.

    Raises:
        InputError: naming the field, its value and what would be right.
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
    """Return what :func:`parse_label` takes."""
    return {
        "id": label.id,
        "labels": list(label.labels),
        "grade": label.grade,
        "who": label.who,
        "when": label.when,
    }


def judgement_to_json(judgement: Judgement) -> dict[str, Any]:
    """Return what :func:`parse_judgement` takes."""
    return {
        "query": judgement.query,
        "id": judgement.id,
        "grade": judgement.grade,
        "who": judgement.who,
        "when": judgement.when,
    }


def agreed_labels(records: Iterable[DocumentLabel]) -> dict[str, tuple[str, ...]]:
    """Return, by document, the labels that most of the people who labelled it gave it.

    Of several answers given equally often, the latest counts. Records of grade 0 are left out.
    """
    given: dict[str, list[DocumentLabel]] = {}
    for record in records:
        if record.grade > 0:
            given.setdefault(record.id, []).append(record)
    agreed = {}
    for id_, answers in given.items():
        votes = Counter(frozenset(one.labels) for one in answers)
        best = max(answers, key=lambda one: (votes[frozenset(one.labels)], one.when, one.who))
        agreed[id_] = best.labels
    return agreed


def is_storable(text: str) -> bool:
    """Tell whether SQLite takes a text as it is: it holds no lone surrogate and no NUL."""
    return _NOT_STORABLE.search(text) is None


def _fields(record: object, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(record, Mapping):
        raise InputError("record", f"is {_show(record)}; it must be an object")
    unknown = sorted(set(map(str, record)) - set(known))
    if unknown:
        raise InputError(unknown[0], f"is not a field; the fields are {', '.join(known)}")
    return record


def _check_text(field: str, value: object, longest: int) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        rule = f"it must be a string of 1 to {longest:,} characters"
        raise InputError(field, f"is {_show(value)}; {rule}")
    if not is_storable(value):
        raise InputError(field, f"is {_show(value)}, which holds a lone surrogate or a NUL")


def _check_grade(grade: object, least: int) -> None:
    if type(grade) is not int or not least <= grade <= MAX_GRADE:
        rule = f"it must be a whole number from {least} to {MAX_GRADE:,}"
        raise InputError("grade", f"is {_show(grade)}; {rule}")


def _check_who_and_when(who: object, when: object) -> None:
    _check_text("who", who, MAX_WHO_LENGTH)
    try:
        moment = datetime.fromisoformat(when) if isinstance(when, str) and when else None
    except ValueError:
        moment = None
    if when != "" and (moment is None or moment.tzinfo is None):
        rule = "it must be a time with its zone, such as 2026-01-31T12:00:00+00:00"
        raise InputError("when", f"is {_show(when)}; {rule}")


def _show(value: object) -> str:
    shown = ascii(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
