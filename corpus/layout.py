"""How a source is laid out: which of its fields hold the id, the text and the label."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from corpus.document import CONTENT_FIELDS, FIELDS
from corpus.rows import ReadError

Record = dict[str, Any]

_FIELDS = frozenset(FIELDS)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the parts of a document are in the records of a source.

    A part that is not named here is in the field of its own name (``id``, ``text``, ``label`` …).
    Several text fields are joined, one a line. Fields that hold no part join the payload: all of
    them, or those of `payload_fields`. The label's field joins it, too, so that filters know it by
    its own name. `encoding` and `has_header` are for CSV, TSV and plain text; an `encoding` of
    None is found out.
    """

    id_field: str | None = None
    text_fields: tuple[str, ...] = ()
    label_field: str | None = None
    payload_fields: tuple[str, ...] | None = None
    encoding: str | None = None
    has_header: bool = True

    def check(self, names: Collection[str], source: str) -> None:
        """Check the columns of a source against what is asked of it.

        Raises:
            ReadError: if a field that was named is no column, or no column holds any content.
        """
        named = (self.id_field, *self.text_fields, self.label_field, *(self.payload_fields or ()))
        shown = ", ".join(map(ascii, names))
        for name in named:
            if name is not None and name not in names:
                raise ReadError(f"{source}: has no field {name!a}; it has {shown}")
        if not self.text_fields and not set(names) & set(CONTENT_FIELDS):
            contents = ", ".join(CONTENT_FIELDS)
            message = f"has none of the fields {contents}; it has {shown}"
            raise ReadError(f"{source}: {message}. --text-field names the one that holds the text")

    def document_record(self, raw: Mapping[str, Any], default_id: str | None) -> Mapping[str, Any]:
        """Return the record of a document, as :func:`corpus.document.parse_document` takes it.

        `default_id` is the id of a record that has none. Integers are taken as ids and labels.
        """
        if self._is_document(raw):
            return raw
        rest = dict(raw)
        record: Record = {}
        id_ = rest.pop(self.id_field or "id", None)
        record["id"] = default_id if id_ is None else _as_string(id_)
        self._take_content(rest, record)
        self._take_labels(rest, record)
        given = rest.pop("payload", None)
        if self.payload_fields is not None:
            rest = {name: raw[name] for name in self.payload_fields if name in raw}
        payload = {name: value for name, value in rest.items() if value is not None}
        if given is not None and not isinstance(given, Mapping):
            record["payload"] = given  # refused where documents are checked
        elif payload or given:
            record["payload"] = {**payload, **(given or {})}
        return record

    def _is_document(self, raw: Mapping[str, Any]) -> bool:
        """Tell whether a record is that of a document as it is, as most are."""
        if self.id_field or self.text_fields or self.label_field or self.payload_fields is not None:
            return False
        if not raw.keys() <= _FIELDS or type(raw.get("id")) is not str or "labels" in raw:
            return False
        return type(raw.get("label", "")) is str

    def _take_content(self, rest: Record, record: Record) -> None:
        if not self.text_fields:
            for name in CONTENT_FIELDS:
                if name in rest:
                    record[name] = rest.pop(name)
            return
        parts = [rest.pop(name, None) for name in self.text_fields]
        odd = [part for part in parts if isinstance(part, Mapping | list | tuple | bool)]
        if odd:
            record["text"] = odd[0]  # refused where documents are checked
        elif any(part is not None for part in parts):
            record["text"] = "\n".join(str(part) for part in parts if part not in (None, ""))

    def _take_labels(self, rest: Record, record: Record) -> None:
        field = self.label_field
        own: Record = {name: rest.pop(name) for name in ("label", "labels") if name in rest}
        given = None if field is None else own.get(field, rest.get(field))
        if given is not None:
            # Labels beside it are left out: a payload with another would hide the one asked for.
            value = _as_strings(given)
            record["labels" if isinstance(value, list) else "label"] = value
        elif field is None:
            record.update({name: _as_strings(value) for name, value in own.items()})
            if isinstance(record.get("label"), list) and "labels" not in own:
                record["labels"] = record.pop("label")


class Numbering:
    """Ids for the documents of a source that has none: ``NAME:LINE``."""

    def __init__(self, name: str, notice: Callable[[str], object] | None) -> None:
        """`notice` is told once, when the first record turns out to have no id."""
        self._name = name
        self._notice = notice
        self._is_on: bool | None = None

    def default_id(self, has_id: bool, line: int) -> str | None:
        """Return the id of the record on `line`, or None where records bring their own.

        The first record decides. Where it has an id, a record without one is in error.
        """
        if self._is_on is None:
            self._is_on = not has_id
            if self._is_on and self._notice is not None:
                first = f"{self._name}:{line}"
                self._notice(f"documents have no id; they are numbered by line, from {first}")
        return f"{self._name}:{line}" if self._is_on else None


def _as_string(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _as_strings(value: object) -> object:
    return [_as_string(one) for one in value] if isinstance(value, list) else _as_string(value)
