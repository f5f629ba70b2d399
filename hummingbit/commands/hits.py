"""Prints the hits of a search for people to read.

A hit has a line with its rank, its title or id, and the probability that it answers the query; a
line with what tells the documents apart; and the line of its text that matches, with the words of
the query marked where the output is a terminal.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hummingbit.commands.printing import without_controls
from hummingbit.deferred import deferred_imports

with deferred_imports():
    from hummingbit.index.highlights import excerpt

TITLE_FIELDS = ("title", "name", "headline", "subject", "titel", "titre", "título", "标题")
"""Fields of payloads that hold a title, the first that a hit has."""
LABEL_FIELDS = ("label", "labels")
MAX_FIELDS = 3
"""More fields of a payload are not shown unless they are asked for."""
MAX_VALUE = 40
"""A longer value is not shown unless it is asked for."""
MAX_TITLE = 90
WIDTH = 100
"""The width of lines that go to a file or a program, and the largest on a terminal."""
INDENT = " " * 4
_SIGNS = " \t\r#%*=-_<>!|~`"
"""Signs of markup around a title."""
BEFORE, AFTER = "\ue000", "\ue001"
"""Characters for private use, which mark words until a line is cut."""
BOLD, DIM, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"

Json = Mapping[str, Any]


def print_hits(
    hits: Sequence[Json], *, fields: Sequence[str] | None = None, with_text: bool = True
) -> None:
    """Print the hits, best first; with `fields`, those of their payloads.

    Without, the fields are a few whose short values tell the hits apart.
    """
    printer = _Printer(fields if fields is not None else _telling_fields(hits), with_text)
    for rank, hit in enumerate(hits, 1):
        printer.print_hit(rank, hit, all_fields=fields is not None)


def _telling_fields(hits: Sequence[Json]) -> list[str]:
    """Return the names of a few fields whose short values differ between the hits."""
    payloads = [hit.get("payload") or {} for hit in hits]
    names = list(dict.fromkeys(name for payload in payloads for name in payload))
    told: dict[str, list[str | None]] = {}
    # A label is a copy of a field, whose own name says more.
    for name in sorted(names, key=lambda name: name in LABEL_FIELDS):
        values = [_written(payload.get(name)) for payload in payloads]
        is_known = name in TITLE_FIELDS or name == "id" or values in told.values()
        differ = len(set(values)) > 1 or len(hits) == 1
        if not is_known and None not in values and any(values) and differ:
            told[name] = values
    return [*told][:MAX_FIELDS]


def _written(value: object) -> str | None:
    """Return a value of a payload as it is shown, "" for none, and None if it is too long."""
    if value is None:
        return ""
    if isinstance(value, list):
        parts = [_written(part) for part in value]
        text = None if None in parts else ", ".join(map(str, parts))
    elif isinstance(value, dict):
        text = None
    else:
        text = value if isinstance(value, str) else json.dumps(value)
    return None if text is None or len(text) > MAX_VALUE else text


class _Printer:
    """Prints hits, all with the same fields."""

    def __init__(self, fields: Sequence[str], with_text: bool) -> None:
        self._fields = fields
        self._with_text = with_text
        self._is_terminal = sys.stdout.isatty()
        self._colours = self._is_terminal and "NO_COLOR" not in os.environ
        self._width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)

    def print_hit(self, rank: int, hit: Json, *, all_fields: bool) -> None:
        """Print the lines of a hit."""
        payload = hit.get("payload") or {}
        text, marks = _text_and_marks(hit) if self._with_text else ("", [])
        title = next((payload[name] for name in TITLE_FIELDS if _is_title(payload, name)), None)
        if title is None and self._with_text:
            title = _first_line(hit)
        text, marks = _without_first_line(text, marks, title or hit["id"])
        line = self._excerpt(text, marks)
        head, details = hit["id"], []
        if title is not None:
            head, details = " ".join(title.split()), [hit["id"]]
        elif line and len(" ".join(text.split())) <= self._width - len(INDENT) - 6:
            # The whole text is a line, so it says what the document is.
            head, line, details = "", "", [hit["id"]]
        shown = self._mark(text, marks) if not head else self._paint(BOLD, head)
        confidence = hit.get("confidence")
        sure = "" if confidence is None else f"  {confidence:.0%}"
        print(f"{rank:>2}  {shown}{sure}")
        details += [
            f"{name} {value}"
            for name in self._fields
            if (value := self._value(payload.get(name), all_fields=all_fields))
        ]
        if hit.get("code") is not None:
            details.append(f"code {hit['code']}")
        if details:
            print(INDENT + self._paint(DIM, without_controls(" · ".join(details))))
        if line:
            print(INDENT + line)

    def _value(self, value: object, *, all_fields: bool) -> str:
        written = _written(value)
        if written is None and all_fields:
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return written or ""

    def _excerpt(self, text: str, marks: Sequence[tuple[int, int]]) -> str:
        """Return the line of the text in which its first marks are, with these marked."""
        room = self._width - len(INDENT)
        if not marks:
            return without_controls(excerpt(text, room))
        signed = _with_signs(text, marks)
        return self._coloured(excerpt(signed, room, marks[0][0]))

    def _mark(self, text: str, marks: Sequence[tuple[int, int]]) -> str:
        return self._coloured(" ".join(_with_signs(text, marks).split()))

    def _coloured(self, signed: str) -> str:
        """Return a text with colours, if there are any, in place of the signs."""
        before, after = (BOLD, PLAIN) if self._colours else ("", "")
        # An excerpt may end within a mark.
        is_open = signed.rfind(BEFORE) > signed.rfind(AFTER)
        text = without_controls(signed + (AFTER if is_open else ""))
        return text.replace(BEFORE, before).replace(AFTER, after)

    def _paint(self, colour: str, text: str) -> str:
        text = without_controls(text)
        return f"{colour}{text}{PLAIN}" if self._colours else text


def _is_title(payload: Json, name: str) -> bool:
    value = payload.get(name)
    return isinstance(value, str) and 0 < len(value.strip()) <= MAX_TITLE


def _text_and_marks(hit: Json) -> tuple[str, list[tuple[int, int]]]:
    """Return the text of a hit, or its best passage, and where it has words of the query."""
    passage = hit.get("passage") or {"text": hit.get("text"), "start": 0}
    text = passage["text"] or ""
    highlight = hit.get("highlight")
    if not highlight:
        return text, []
    begin = highlight["start"] - passage["start"]
    marks = [(begin + start, begin + end) for start, end in highlight["marks"]]
    return text, [mark for mark in marks if mark[0] >= 0 and mark[1] <= len(text)]


def _first_line(hit: Json) -> str | None:
    """Return the first of several lines of a text if it may be its title.

    One that the id has in it says less than the id.
    """
    first, _, rest = (hit.get("text") or "").lstrip().partition("\n")
    first = first.strip(_SIGNS)
    is_title = 0 < len(first) <= MAX_TITLE and rest and not rest.isspace()
    return first if is_title and first.lower() not in hit["id"].lower() else None


def _without_first_line(
    text: str, marks: list[tuple[int, int]], shown: str
) -> tuple[str, list[tuple[int, int]]]:
    """Leave out the first line of a text, and its marks, if it is in the title or id `shown`."""
    first, _, rest = text.partition("\n")
    is_shown = first.strip(_SIGNS).lower() in shown.lower()
    if not is_shown or not rest or rest.isspace():
        return text, marks
    begin = len(first) + 1
    return rest, [(start - begin, end - begin) for start, end in marks if start >= begin]


def _with_signs(text: str, marks: Sequence[tuple[int, int]]) -> str:
    """Return a text with :data:`BEFORE` and :data:`AFTER` around its marks, and nowhere else."""
    text = text.replace(BEFORE, " ").replace(AFTER, " ")
    parts, at = [], 0
    for start, end in marks:
        parts += [text[at:start], BEFORE, text[start:end], AFTER]
        at = end
    return "".join([*parts, text[at:]])
