"""The layout of a source: which of its fields hold the id, the text and the label."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from corpus.detection.markup import plain_text
from corpus.document import CONTENT_FIELDS, FIELDS
from corpus.rows import ReadError

Record = dict[str, Any]

_FIELDS = frozenset(FIELDS)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which fields of a source's records hold the parts of a document.

    A part whose field is None is in the field of its own name (``id``, ``text``, ``label`` …).
    ``meta.body`` is the field ``body`` of the object in ``meta``, unless a field has that whole
    name. Several text fields are joined, one on each line. The remaining fields go to the payload:
    all of them, or those of `payload_fields`. The label's field goes there too, so that filters can
    use its name. If `html`, texts are in HTML, and documents have its text without the tags.
    `encoding` and `has_header` are for CSV, TSV and plain text; an `encoding` of None is detected.
    """

    id_field: str | None = None
    text_fields: tuple[str, ...] = ()
    label_field: str | None = None
    payload_fields: tuple[str, ...] | None = None
    encoding: str | None = None
    has_header: bool = True
    html: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether every part of a document is in the field of its own name, as it is."""
        fields = (self.id_field, self.label_field, self.payload_fields)
        return not self.text_fields and fields == (None, None, None) and not self.html

    def check(self, names: Collection[str], source: str) -> None:
        """Check that a source with the columns `names` fits this layout.

        Raises:
            ReadError: if a field of the layout is not a column, or no column holds content.
        """
        fields = (self.id_field, *self.text_fields, self.label_field, *(self.payload_fields or ()))
        columns = ", ".join(map(repr, names))
        for field in fields:
            if field is not None and not {field, field.partition(".")[0]} & {*names}:
                raise ReadError(f"{source}: has no field {field!r}; it has {columns}")
        if not self.text_fields and not set(names) & set(CONTENT_FIELDS):
            contents = ", ".join(CONTENT_FIELDS)
            message = f"has none of the fields {contents}; it has {columns}"
            raise ReadError(f"{source}: {message}. Name the field of the text with --text-field")

    def document_record(self, raw: Mapping[str, Any], default_id: str | None) -> Mapping[str, Any]:
        """Return `raw` in the form that :func:`corpus.document.parse_document` takes.

        A record without an id gets `default_id`. Ids and labels that are integers become strings. A
        blank label is none, as a blank cell of a table is.
        """
        if self._is_document(raw):
            return raw
        rest = dict(raw)
        record: Record = {}
        id_ = _take(rest, "id" if self.id_field is None else self.id_field)
        record["id"] = default_id if id_ is None else _as_string(id_)
        self._move_content(rest, record)
        if self.html and isinstance(record.get("text"), str):
            record["text"] = plain_text(record["text"])
        self._move_labels(rest, record)
        own_payload = rest.pop("payload", None)
        if self.payload_fields is not None:
            rest = {name: raw[name] for name in self.payload_fields if name in raw}
        payload = {name: value for name, value in rest.items() if value is not None}
        if own_payload is not None and not isinstance(own_payload, Mapping):
            record["payload"] = own_payload  # parse_document refuses it
        elif payload or own_payload:
            record["payload"] = {**payload, **(own_payload or {})}
        return record

    def _is_document(self, raw: Mapping[str, Any]) -> bool:
        """Return whether a record, like most, already has the form of a document."""
        if not self.is_plain:
            return False
        if not raw.keys() <= _FIELDS or type(raw.get("id")) is not str or "labels" in raw:
            return False
        label = raw.get("label", "none")
        return type(label) is str and not _is_blank(label)

    def _move_content(self, rest: Record, record: Record) -> None:
        if not self.text_fields:
            for name in CONTENT_FIELDS:
                if name in rest:
                    record[name] = rest.pop(name)
            return
        parts = [_take(rest, name) for name in self.text_fields]
        invalid = [part for part in parts if isinstance(part, Mapping | list | tuple | bool)]
        if invalid:
            record["text"] = invalid[0]  # parse_document refuses it
        elif any(part is not None for part in parts):
            record["text"] = "\n".join(str(part) for part in parts if part not in (None, ""))

    def _move_labels(self, rest: Record, record: Record) -> None:
        field = self.label_field
        usual: Record = {name: rest.pop(name) for name in ("label", "labels") if name in rest}
        label = None if field is None else usual.get(field, value_at(rest, field))
        value = _as_strings(label)
        if value is not None:
            # The usual fields are dropped: a label of theirs in the payload would hide this one.
            record["labels" if isinstance(value, list) else "label"] = value
        elif field is None:
            record.update({name: _as_strings(value) for name, value in usual.items()})
            if isinstance(record.get("label"), list) and "labels" not in usual:
                record["labels"] = record.pop("label")


class Numbering:
    """Gives ids to the documents of a source without ids: ``NAME:LINE``."""

    def __init__(self, name: str, notice: Callable[[str], object] | None) -> None:
        """`notice` is called once, if the first record has no id."""
        self._name = name
        self._notice = notice
        self._is_on: bool | None = None

    def default_id(self, has_id: bool, line: int) -> str | None:
        """Return the id for the record on `line`, or None if records have ids.

        The first record decides. If it has an id, a later record without one is an error.
        """
        if self._is_on is None:
            self._is_on = not has_id
            if self._is_on and self._notice is not None:
                first = f"{self._name}:{line}"
                self._notice(f"documents have no id; they are numbered by line, from {first}")
        return f"{self._name}:{line}" if self._is_on else None


def value_at(record: Mapping[str, Any], name: str | None) -> Any:
    """Return what a record holds in a field, or at a path such as ``meta.body``, or None."""
    if name is None or name in record:
        return None if name is None else record[name]
    head, dot, rest = name.partition(".")
    below = record.get(head)
    return value_at(below, rest) if dot and isinstance(below, Mapping) else None


def _take(record: Record, name: str) -> Any:
    """Remove what :func:`value_at` returns, and return it; objects inside `record` stay as are."""
    head, dot, rest = name.partition(".")
    below = record.get(head)
    if name in record or not dot or not isinstance(below, Mapping):
        return record.pop(name, None)
    record[head] = below = dict(below)
    value = _take(below, rest)
    if not below:
        del record[head]
    return value


def _as_string(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _as_strings(value: object) -> object:
    """Return a label or a list of labels as strings, blank ones left out, or None."""
    if isinstance(value, list):
        return [_as_string(item) for item in value if not _is_blank(item)]
    return None if _is_blank(value) else _as_string(value)


def _is_blank(label: object) -> bool:
    return isinstance(label, str) and not label.strip()
