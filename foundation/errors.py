"""Errors that say in a sentence what is wrong or lacking. Any other exception is a defect."""

from __future__ import annotations

import re
from pathlib import Path
from shlex import quote
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


ROOT = Path(__file__).parents[2]
_OF_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w.-]+)['"]""")


_OWN_EXTRAS = re.compile(r"hummingbit\[([\w.,-]+)\]")


def install_command(*extras: str, group: str | None = None) -> str:
    """Return the command that installs the packages of `extras`.

    From a checkout it installs the checkout, as hummingbit is not on PyPI, and a dependency `group`
    of it, which exists nowhere else. Where hummingbit was installed, it names the packages.
    """
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415 - rarely needed

    names = ",".join(extras)
    if (ROOT / "pyproject.toml").is_file():
        command = f"pip install -e {quote(f'{ROOT}[{names}]')}"
        return f"{command} --group {quote(f'{ROOT}/pyproject.toml:{group}')}" if group else command
    try:
        listed = [requirement.partition(";") for requirement in requires("hummingbit") or []]
    except PackageNotFoundError:
        listed = []
    packages, wanted = set(), [*extras]
    for name in wanted:
        for package, _, marker in listed:
            if not ((extra := _OF_EXTRA.search(marker)) and extra[1] == name):
                continue
            if own := _OWN_EXTRAS.match(package):
                wanted += [part for part in own[1].split(",") if part not in wanted]
            else:
                packages.add(package.strip())
    if not packages:
        return f"pip install '.[{names}]' in a checkout of hummingbit"
    return f"pip install {' '.join(map(quote, sorted(packages)))}"
