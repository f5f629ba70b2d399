"""The family of errors that say in a sentence what is wrong; any other exception is a defect."""

from __future__ import annotations

from typing import Any


class HummingbitError(Exception):
    """Something that a user or an operator can put right.

    `reason` says what is wrong. `field` names what it is wrong with, a field of the input or a
    file, and is None where the reason says so itself. `position` is the place of the item in a
    list of several.
    """

    def __init__(
        self, reason: str, *, field: str | None = None, position: int | None = None
    ) -> None:
        super().__init__(reason if field is None else f"{field}: {reason}")
        self.reason = reason
        self.field = field
        self.position = position

    def __reduce__(self) -> tuple[Any, ...]:
        # Worker processes send errors back, whatever their constructors take.
        return type(self).__new__, (type(self), *self.args), self.__dict__


class InputError(HummingbitError, ValueError):
    """A caller gave something that cannot be taken; `field` names the part of it."""

    field: str

    def __init__(self, field: str, reason: str, position: int | None = None) -> None:
        super().__init__(reason, field=field, position=position)
