"""Lines of a stream, plain or compressed, and the texts that they make.

Lines are streamed: memory holds a few at a time, however long the file is.
"""

from __future__ import annotations

import lzma
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from corpus.detection.compressions import open_bytes
from corpus.rows import BadLine, ReadError, Row
from foundation.errors import HummingbitError

# Room for the longest text of a document, written in JSON escapes, and for a payload.
MAX_LINE_BYTES = 16 * 1024 * 1024
# Lines of a few hundred bytes are read by the hundred; a long line is read by itself.
BLOCK_BYTES = 32 * 1024

# What is unpacked at once may be so many times as large as the packed file. Texts are 3 to 30.
MAX_RATIO = 100
# Small files may be unpacked to this size in any case.
MAX_UNPACKED_BYTES = 64 * 1024 * 1024
_UNPACK = f"no more is unpacked where that is more than {MAX_RATIO} times the packed file"

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# The exceptions of a stream that is truncated or has the wrong suffix.
STREAM_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)

_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*?)(?:\s+#+)?\s*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def open_source(path: Path) -> BinaryIO:
    """Open a file for reading, decompressed.

    Raises:
        ReadError: if it cannot be opened.
    """
    try:
        return open_bytes(path)
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror or error}") from None


class LineError(HummingbitError, ValueError):
    """A line is invalid. The lines after it can still be read."""


class Lines:
    """The lines of a byte stream as text; `number` is that of the last line read, from 1.

    This is a class because a generator could not continue after a line that raised. Bytes that are
    not UTF-8 become surrogates, which :func:`check_utf8` finds.
    """

    def __init__(self, stream: BinaryIO, source: str) -> None:
        self._stream = stream
        self.source = source
        self.number = 0
        self._raised: Exception | None = None

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        """Read the next line.

        Raises:
            LineError: if it is longer than :data:`MAX_LINE_BYTES`.
            ReadError: if the stream is truncated or has the wrong suffix.
        """
        return as_text(self.next_bytes())

    def next_bytes(self) -> bytes:
        """Read the next line as :meth:`__next__` does, but return its bytes."""
        line = self._read()
        if not line:
            raise StopIteration
        self.number += 1
        if len(line) > MAX_LINE_BYTES:
            while line and not line.endswith(b"\n"):
                line = self._read()
            raise LineError(f"is longer than {MAX_LINE_BYTES:,} bytes")
        return line.removeprefix(BYTE_ORDER_MARK) if self.number == 1 else line

    def next_block(self) -> tuple[int, list[bytes]]:
        """Read the next lines, :data:`BLOCK_BYTES` of them or one; return the first's number, too.

        Raises:
            Exception: as :meth:`next_bytes`, for the line after the lines of the last block.
        """
        if self._raised is not None:
            raised, self._raised = self._raised, None
            raise raised
        first, block, size = self.number + 1, list[bytes](), 0
        while size < BLOCK_BYTES:
            try:
                line = self.next_bytes()
            except (StopIteration, LineError, ReadError) as error:
                if not block:
                    raise
                self._raised = error
                break
            block.append(line)
            size += len(line)
        return first, block

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    def _read(self) -> bytes:
        try:
            return self._stream.readline(MAX_LINE_BYTES + 1)
        except STREAM_ERRORS as error:
            bad_line = BadLine(self.source, self.number + 1, f"cannot be read: {error}")
            raise ReadError(str(bad_line)) from None


def as_text(line: bytes) -> str:
    """Return the text of a line; bytes that are not UTF-8 become surrogates."""
    return line.decode("utf-8", "surrogateescape")


def read_all(stream: BinaryIO, source: str) -> bytes:
    """Return the rest of a stream.

    Raises:
        ReadError: if it is truncated, or compressed more than any text of documents is.
    """
    try:
        status = os.fstat(stream.fileno())
        most = most_unpacked(status.st_size) if stat.S_ISREG(status.st_mode) else -1
    except OSError:  # it is not a file
        most = -1
    try:
        raw = stream.read(most)
        is_whole = most < 0 or not stream.read(1)
    except STREAM_ERRORS as error:
        raise ReadError(f"{source}: cannot be read: {error}") from None
    if not is_whole:
        raise ReadError(f"{source}: has more than {most:,} bytes once unpacked; {_UNPACK}")
    return raw


def most_unpacked(compressed_bytes: int) -> int:
    """Return how many bytes may be unpacked of a file of so many bytes."""
    return max(MAX_UNPACKED_BYTES, MAX_RATIO * compressed_bytes)


def read_text_lines(stream: BinaryIO, source: str) -> Iterator[Row]:
    """Yield one row, with the field `text`, for each line that is not blank; close the stream.

    Raises:
        ReadError: if the stream is truncated.
    """
    with closing(Lines(stream, source)) as lines:
        while True:
            try:
                line = next(lines).strip()
                check_utf8(line)
                if line:
                    yield Row(lines.number, {"text": line})
            except StopIteration:
                return
            except LineError as error:
                yield Row(lines.number, reason=str(error))


def read_markdown(stream: BinaryIO, source: str) -> Iterator[Row]:
    """Yield one row for each section with text of a Markdown file; close the stream.

    A section extends from one heading (``#`` to ``######``) to the next. Its `text` includes the
    heading; its `heading` also has those of the sections that contain it. The lines before the
    first heading are a section too, except YAML between lines of ``---``.

    Raises:
        ReadError: if the stream is truncated.
    """
    path: list[str] = []
    start, body, fence, in_yaml = 1, list[str](), "", False
    with closing(Lines(stream, source)) as lines:
        while True:
            try:
                line = next(lines, None)
                check_utf8(line or "")
            except LineError as error:
                yield Row(lines.number, reason=str(error))
                continue
            title = None if line is None or fence or in_yaml else _HEADING.match(line)
            if line is None or title:
                text = "\n".join([*path[-1:], "".join(body).strip()]).strip()
                if "".join(body).strip():
                    heading = " › ".join(filter(None, path))
                    yield Row(start, {"text": text, **({"heading": heading} if heading else {})})
                if line is None:
                    return
                start, body = lines.number, []
            if title:
                level = len(title[1])
                path = [*path[: level - 1], *[""] * (level - 1 - len(path)), title[2].strip()]
                continue
            if line.strip() == "---" and (in_yaml or lines.number == 1):
                in_yaml = not in_yaml
                continue
            mark = _FENCE.match(line)
            if mark and (not fence or (mark[1].startswith(fence) and not mark[2].strip())):
                fence = "" if fence else mark[1]
            if not in_yaml:
                body.append(line)


def check_utf8(text: str) -> None:
    """Raise LineError if `text` has a surrogate, which stands for a byte that is not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) - 0xDC00
        message = f"is not UTF-8: byte 0x{byte:02x} at character {error.start + 1}"
        raise LineError(message) from None
