"""The folder that a power cut leaves: what a program wrote, minus what it had not synced.

``power_cut.c``, loaded into a program by ``LD_PRELOAD``, records every change of a file or name
below a folder, every sync, and the program's standard output. :class:`Disk` applies these records
one after the other. The power can be cut after any of them:

- A file keeps what was synced; of later writes, each sector of 512 bytes is kept or lost.
- A folder keeps its synced names, and the first few of the later changes.

A folder that loses its own name is lost with its content. Linux's file systems keep more than this,
because they order changes of names across folders. So a program that survives this survives those.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).with_suffix(".c")
SECTOR = 512
_HEAD = struct.Struct("<cQqII")


class Record(NamedTuple):
    """A record of the trace; the head of ``power_cut.c`` lists the fields by operation."""

    operation: str
    inode: int
    number: int
    first: bytes
    second: bytes


@dataclass
class _File:
    """The synced bytes, and the later writes and truncations: a place, and bytes or None."""

    synced: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def sync(self) -> None:
        for place, data in self.pending:
            _apply(self.synced, place, data)
        self.pending = []

    def after_a_cut(self, chance: random.Random) -> bytes:
        found, share = bytearray(self.synced), chance.choice([0.0, 0.3, 0.7, 1.0])
        for place, data in self.pending:
            if data is None:
                if chance.random() < share:
                    _apply(found, place, None)
                continue
            start = 0
            while start < len(data):
                end = start + SECTOR - (place + start) % SECTOR
                if chance.random() < share:
                    _apply(found, place + start, data[start:end])
                start = end
        return bytes(found)


@dataclass
class _Folder:
    """The current names, the synced names, and the changes since."""

    names: dict[str, _File | _Folder] = field(default_factory=dict)
    synced: dict[str, _File | _Folder] = field(default_factory=dict)
    pending: list[Mapping[str, _File | _Folder | None]] = field(default_factory=list)

    def change(self, changes: Mapping[str, _File | _Folder | None]) -> None:
        self.pending.append(changes)
        _rename(self.names, changes)

    def sync(self) -> None:
        self.synced, self.pending = dict(self.names), []

    def after_a_cut(self, chance: random.Random) -> dict[str, _File | _Folder]:
        found = dict(self.synced)
        for changes in self.pending[: chance.randint(0, len(self.pending))]:
            _rename(found, changes)
        return found


class Disk:
    """The content of a folder, on disk and in memory, while a program writes to it."""

    def __init__(self, root: Path) -> None:
        """Start with the content of `root`, all of it on disk."""
        self._root = root
        self._of_inode: dict[int, _File | _Folder] = {}
        self._top = self._read(root)

    def take(self, record: Record) -> None:
        """Apply a record."""
        match record.operation:
            case "w" | "t":
                file = self._of_inode[record.inode]
                assert isinstance(file, _File)
                file.pending.append((record.number, record.first or None))
            case "s":
                self._of_inode[record.inode].sync()
            case "l":
                made = _Folder() if record.number else _File()
                self._of_inode[record.inode] = made
                self._name(record.first, made)
            case "k":
                self._name(record.first, self._of_inode[record.inode])
            case "u":
                self._name(record.first, None)
            case "r":
                self._rename(record.first, record.second)

    def cut(self, target: Path, chance: random.Random) -> None:
        """Create `target` with what a power cut leaves."""
        self._write(self._top, target, chance)

    def _read(self, path: Path) -> _Folder:
        folder = _Folder()
        self._of_inode[path.stat().st_ino] = folder
        for item in path.iterdir():
            if item.is_dir():
                folder.names[item.name] = self._read(item)
            else:
                file = _File(bytearray(item.read_bytes()))
                folder.names[item.name] = self._of_inode[item.stat().st_ino] = file
        folder.sync()
        return folder

    def _write(self, folder: _Folder, target: Path, chance: random.Random) -> None:
        target.mkdir()
        for name, item in folder.after_a_cut(chance).items():
            if isinstance(item, _Folder):
                self._write(item, target / name, chance)
            else:
                (target / name).write_bytes(item.after_a_cut(chance))

    def _folder_of(self, raw: bytes) -> tuple[_Folder, str]:
        path = Path(os.fsdecode(raw)).relative_to(self._root)
        folder = self._top
        for name in path.parts[:-1]:
            below = folder.names[name]
            assert isinstance(below, _Folder)
            folder = below
        return folder, path.name

    def _name(self, raw: bytes, what: _File | _Folder | None) -> None:
        folder, name = self._folder_of(raw)
        folder.change({name: what})

    def _rename(self, old: bytes, new: bytes) -> None:
        (source, before), (target, after) = self._folder_of(old), self._folder_of(new)
        moved = source.names[before]
        if source is target:
            source.change({before: None, after: moved})
        else:
            target.change({after: moved})
            source.change({before: None})


def shim(folder: Path) -> Path:
    """Compile the library into `folder`; skip the test if there is no compiler."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("there is no C compiler")
    library = folder / "power_cut.so"
    flags = ["-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl", "-pthread"]
    subprocess.run([compiler, *flags], check=True)
    return library


def traced(library: Path, root: Path, trace: Path) -> dict[str, str]:
    """Return the environment of a program whose changes below `root` are written to `trace`."""
    names = {"LD_PRELOAD": library, "POWER_CUT_ROOT": root, "POWER_CUT_TRACE": trace}
    return {**os.environ, **{name: str(path) for name, path in names.items()}}


def read_trace(trace: Path) -> Iterator[Record]:
    """Yield the records of a trace, without an incomplete last one after a kill."""
    with trace.open("rb") as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            operation, inode, number, first, second = _HEAD.unpack(head)
            content = file.read(first + second)
            if len(content) == first + second:
                yield Record(operation.decode(), inode, number, content[:first], content[first:])


def _apply(content: bytearray, place: int, data: bytes | None) -> None:
    """Write `data` at `place`, or with None truncate or extend the file to that size."""
    end = place if data is None else place + len(data)
    if data is None:
        del content[end:]
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if data is not None:
        content[place:end] = data


def _rename(
    names: dict[str, _File | _Folder], changes: Mapping[str, _File | _Folder | None]
) -> None:
    for name, what in changes.items():
        if what is None:
            names.pop(name, None)
        else:
            names[name] = what
