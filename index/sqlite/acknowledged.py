"""The last generation that a store acknowledged, in a small file beside it.

SQLite reads its write-ahead log up to the first incomplete frame and takes that for the end. So a
damaged byte in the log after a crash, or a deleted log, undoes every later write without an error.
The number in this file shows such a loss.

The number is written after the commit, so it is never ahead of the disk. It is not synced with each
write, which would double the time that a small write waits for the disk. It survives the end of the
process, and a power failure once the system has written it back, usually within half a minute.
Until then it may be too low: a loss goes unnoticed, but no loss is reported that did not happen.
"""

from __future__ import annotations

import logging
import os
import re
import zlib
from pathlib import Path

from foundation.files import sync_folder

SUFFIX = "-acknowledged"

_RECORD = re.compile(rb"([0-9]{20}) ([0-9a-f]{8})\n")
_log = logging.getLogger("hummingbit.index")


def path_of(store: Path) -> Path:
    """Return the path of the file that holds the number of a store."""
    return store.with_name(store.name + SUFFIX)


def read_acknowledged(store: Path) -> int | None:
    """Return the generation, or None if no number was ever written.

    Raises:
        ValueError: if the file is damaged.
        OSError: if it cannot be read.
    """
    try:
        raw = path_of(store).read_bytes()
    except FileNotFoundError:
        return None
    match = _RECORD.fullmatch(raw)
    if match is None or raw != _record(int(match[1])):
        raise ValueError(f"{path_of(store).name} is damaged")
    return int(match[1])


class Acknowledged:
    """The number of one store, open for writing."""

    def __init__(self, store: Path, generation: int) -> None:
        """Open the number of the store at a path, and set it to the store's `generation`.

        Raises:
            OSError: if it cannot be written.
        """
        self.generation = generation
        path = path_of(store)
        exists = path.exists()
        binary = getattr(os, "O_BINARY", 0)  # Windows would otherwise change line ends
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | binary, 0o644)
        try:
            if not exists or os.read(self._descriptor, 64) != _record(generation):
                self._write(generation)
                os.ftruncate(self._descriptor, len(_record(generation)))
                os.fsync(self._descriptor)
            if not exists:
                sync_folder(path.parent)
        except BaseException:
            os.close(self._descriptor)
            raise

    def record(self, generation: int) -> None:
        """Write the generation of a commit that has returned."""
        self.generation = generation
        try:
            self._write(generation)
        except OSError as error:
            # The commit itself is on the disk, so the write stays acknowledged.
            _log.warning("writing the last acknowledged generation failed: %s", error)

    def _write(self, generation: int) -> None:
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, _record(generation))

    def close(self) -> None:
        """Sync the number and close its file."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            _log.warning("syncing the last acknowledged generation failed: %s", error)
        finally:
            os.close(self._descriptor)


def _record(generation: int) -> bytes:
    number = b"%020d" % generation
    return b"%s %08x\n" % (number, zlib.crc32(number))
