"""What a source that nobody has described seems to hold, from its first records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from corpus.layout import Layout
from corpus.readers import read_rows
from corpus.rows import ReadError

SAMPLE = 2000
MAX_LABELS = 1000
TITLE_NAMES = ("title", "headline", "subject", "name", "summary")
TEXT_NAMES = (
    *("text", "body", "content", "contents", "document", "sentence", "question", "query"),
    *("utterance", "description", "abstract", "article", "message", "review", "comment", "post"),
)
LABEL_NAMES = (
    *("label", "labels", "category", "categories", "class", "topic", "topics", "intent", "genre"),
    *("genres", "tag", "tags", "section", "target", "subject_area", "department"),
)
_ID_NAME = re.compile(r".{0,12}id|key|uuid", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?\d[\d.,eE+-]*")


@dataclass(frozen=True, slots=True)
class _Field:
    """What the values of one field are like."""

    name: str
    count: int
    distinct: int
    mean_length: float
    """Characters of its strings; 0 where most values are no strings of words."""
    holds_objects: bool

    @property
    def is_unique(self) -> bool:
        return self.distinct == self.count

    @property
    def repeats(self) -> float:
        """How often a value comes, on average."""
        return self.count / max(self.distinct, 1)


@dataclass(frozen=True, slots=True)
class Survey:
    """A layout that fits a source, the names of its fields, and what else its label may be."""

    layout: Layout
    names: tuple[str, ...]
    label_candidates: tuple[str, ...]
    repeated_id: str | None
    """A field whose name says that it holds ids, although values repeat."""


class _Unchecked(Layout):
    """A layout that takes records as they come."""

    __slots__ = ()

    def check(self, names: Any, source: str) -> None:
        """Ask for nothing."""


def survey(source: Path, given: Layout) -> Survey:
    """Return the layout that the records of `source` suggest; what `given` names stays.

    The text is the field of a usual name, else the one with the longest strings that hardly
    repeat; a title beside it is joined to it. The label is a field of a usual name whose values
    repeat, else the only field whose values do. The id is a field of a usual name without repeats.

    Raises:
        ReadError: if the source cannot be read, or no field looks like text.
    """
    raw = _Unchecked(encoding=given.encoding, has_header=given.has_header)
    records = _sample(source, raw)
    if given.has_header and source.suffix.lower() in (".csv", ".tsv") and _no_header(records):
        raw = replace(raw, has_header=False)
        records = _sample(source, raw)
    if not records:
        raise ReadError(f"{source}: has no documents")
    fields = [_describe(name, records) for name in dict.fromkeys(n for one in records for n in one)]
    texts = given.text_fields or _find_texts(fields, source)
    rest = [one for one in fields if one.name not in texts]
    label, candidates = _find_label(rest, records)
    found = Layout(
        id_field=given.id_field or _find_id(rest),
        text_fields=() if texts == ("text",) else texts,
        label_field=given.label_field or (None if label in (None, "label", "labels") else label),
        payload_fields=given.payload_fields,
        encoding=given.encoding,
        has_header=raw.has_header,
    )
    repeated = [one.name for one in rest if one.repeats > 1 and _ID_NAME.fullmatch(one.name)]
    names = tuple(one.name for one in fields)
    return Survey(found, names, candidates, repeated[0] if repeated else None)


def _sample(source: Path, layout: Layout) -> list[Mapping[str, Any]]:
    rows = islice(read_rows(source, layout), SAMPLE)
    return [row.record for row in rows if isinstance(row.record, Mapping)]


def _no_header(records: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether the names of the columns look like the cells of a document."""
    names = list(records[0]) if records else []
    return any(_NUMBER.fullmatch(name) or len(name) > 60 or name.count(" ") > 5 for name in names)


def _describe(name: str, records: Iterable[Mapping[str, Any]]) -> _Field:
    values = [one[name] for one in records if one.get(name) is not None]
    strings = [value for value in values if isinstance(value, str)]
    words = [one for one in strings if not _NUMBER.fullmatch(one) and "://" not in one[:12]]
    mean = sum(map(len, words)) / len(words) if len(words) * 2 > len(values) else 0.0
    objects = any(isinstance(value, Mapping) for value in values)
    return _Field(name, len(values), len({repr(value) for value in values}), mean, objects)


def _find_texts(fields: Sequence[_Field], source: Path) -> tuple[str, ...]:
    said = {one.name.lower(): one for one in fields if one.mean_length}
    usual = [said[name] for name in TEXT_NAMES if name in said and said[name].repeats < 3]
    long = [one for one in fields if one.mean_length >= 8 and one.repeats < 1.5]
    titles = [said[name] for name in TITLE_NAMES if name in said and said[name].repeats < 3]
    found = usual[:1] or sorted(long, key=lambda one: -one.mean_length)[:1] or titles[:1]
    if not found:
        names = ", ".join(ascii(one.name) for one in fields)
        message = f"no field looks like text; it has {names}. --text-field names one"
        objects = " or ".join(ascii(one.name) for one in fields if one.holds_objects)
        hint = f"; copy a text that is inside {objects} to a field of its own"
        raise ReadError(f"{source}: {message}{objects and hint}")
    beside = [one for one in titles[:1] if one.name != found[0].name]
    return tuple(one.name for one in (*beside, *found))


def _find_label(
    fields: Sequence[_Field], records: Sequence[Mapping[str, Any]]
) -> tuple[str | None, tuple[str, ...]]:
    """Return the field that holds labels, if one does, and all that may."""
    repeating = [
        one
        for one in fields
        if 2 <= one.distinct <= MAX_LABELS and one.repeats >= 3 and _are_labels(one.name, records)
    ]
    usual = [one.name for one in repeating if one.name.lower() in LABEL_NAMES]
    usual.sort(key=lambda name: LABEL_NAMES.index(name.lower()))
    candidates = tuple(one.name for one in repeating)
    if usual:
        return usual[0], candidates
    return (candidates[0] if len(candidates) == 1 else None), candidates


def _are_labels(name: str, records: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether the values of a field can be labels: strings, integers, or lists of them."""
    kinds = Counter(type(one[name]) for one in records if one.get(name) is not None)
    if kinds.keys() == {list}:
        return all(isinstance(entry, str | int) for one in records for entry in one.get(name) or ())
    return kinds.keys() <= {str, int}


def _find_id(fields: Sequence[_Field]) -> str | None:
    found = [one.name for one in fields if one.is_unique and _ID_NAME.fullmatch(one.name)]
    return None if "id" in found or not found else found[0]
