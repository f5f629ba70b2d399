"""Errors that say in a sentence what is wrong. Any other exception is a defect."""

from __future__ import annotations

from typing import Any

MAX_SHOWN = 60


def abbreviate(value: object) -> str:
    """Return ``repr(value)``, one printable line, for a message; cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun for a message, such as "1 document" or "2,000 documents"."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


class HummingbitError(Exception):
    """An error that a user or an operator can correct.

    `reason` says what is wrong. `field` names the field or file that is wrong; it is None where
    the reason names it. `position` is the index of the item, where the input is a list of items.
    """

    def __init__(
        self, reason: str, *, field: str | None = None, position: int | None = None
    ) -> None:
        super().__init__(reason if field is None else f"{field}: {reason}")
        self.reason = reason
        self.field = field
        self.position = position

    def __reduce__(self) -> tuple[Any, ...]:
        # Worker processes pickle errors; this restores one whatever its constructor takes.
        return type(self).__new__, (type(self), *self.args), self.__dict__


class InputError(HummingbitError, ValueError):
    """The caller's input is invalid; `field` names the part that is."""

    field: str

    def __init__(self, field: str, reason: str, position: int | None = None) -> None:
        super().__init__(reason, field=field, position=position)
