"""Lines of a stream, plain or compressed, in any encoding, and the rows that readers yield."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import re
import stat
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias, cast

from hummingbit.foundation.errors import HummingbitError

# Rows, which the readers of every format yield, and the errors that they report.


# Enough for what is done once a block; texts may have a million characters.
ROWS_AT_ONCE = 32


class ReadError(HummingbitError, ValueError):
    """A source cannot be read; the message gives the file, the line if there is one, and why."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of a source that is not a document: where it is, and what is wrong with it.

    `n_lines` counts the lines that were read with it.
    """

    source: str
    line: int
    reason: str
    n_lines: int = 1

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.reason}"


class Row(NamedTuple):
    """A record of a source before it is checked, or the reason why it cannot be read.

    `line` is the line on which the record starts, from 1, or the row in a format without lines.
    `n_lines` counts its lines if it cannot be read. `part` is the place of a record, from 1, in the
    list of another one.
    """

    line: int
    record: object = None
    reason: str | None = None
    n_lines: int = 1
    part: int | None = None


def in_blocks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Yield rows in lists of :data:`ROWS_AT_ONCE`; those before an exception come before it."""
    block: list[Row] = []
    try:
        for row in rows:
            block.append(row)
            if len(block) == ROWS_AT_ONCE:
                yield block
                block = []
    except Exception:
        yield block
        raise
    yield block


# The compression of a file, by its suffix.


COMPRESSIONS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


def suffixes_of(path: Path) -> tuple[str, str]:
    """Return the suffix of the format and that of the compression, in lower case, or ''."""
    last = path.suffix.lower()
    if last in COMPRESSIONS:
        return path.with_suffix("").suffix.lower(), last
    return last, ""


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading; decompress it if its suffix is `.gz`, `.xz` or `.bz2`.

    Raises:
        OSError: if it cannot be opened.
    """
    decompress = COMPRESSIONS.get(path.suffix.lower())
    return path.open("rb") if decompress is None else cast("BinaryIO", decompress(path, "rb"))


# Lines of a stream, plain or compressed, and the texts that they make.
#
# Lines are streamed: memory holds a few at a time, however long the file is.


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
    first heading are a section too, except YAML between lines of ``---`` and TOML between ``+++``.

    Raises:
        ReadError: if the stream is truncated.
    """
    path: list[str] = []
    front: str | None = None
    start, body, fence = 1, list[str](), ""
    with closing(Lines(stream, source)) as lines:
        while True:
            try:
                line = next(lines, None)
                check_utf8(line or "")
            except LineError as error:
                yield Row(lines.number, reason=str(error))
                continue
            title = None if line is None or fence or front else _HEADING.match(line)
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
            if line.strip() == front or (lines.number == 1 and line.strip() in ("---", "+++")):
                front = None if front else line.strip()
                continue
            mark = _FENCE.match(line)
            if mark and (not fence or (mark[1].startswith(fence) and not mark[2].strip())):
                fence = "" if fence else mark[1]
            if not front:
                body.append(line)


def check_utf8(text: str) -> None:
    """Raise LineError if `text` has a surrogate, which stands for a byte that is not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) - 0xDC00
        raise LineError(f"is not UTF-8: byte 0x{byte:02x} at character {error.start + 1}") from None


# The encoding of a text file, and files that are something else than their suffix says.


SAMPLE_BYTES = 256 * 1024
# Fewer bytes that are not ASCII say too little about the language.
MIN_NON_ASCII_BYTES = 20
LAST_ASCII = 0x7F
_INSIDE_WORD = re.compile(rb"(?<=[A-Za-z])([\x80-\xFF])(?=[A-Za-z])")

# Encodings of Latin letters are told apart by what stands between two letters of ASCII. These are
# the letters of languages, and their encodings; of several that fit, the first is taken.
_WESTERN = "àáâãäåæçèéêëìíîïñòóôõöøùúûüßœ’–—"
LATIN_LETTERS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("", _WESTERN, ("cp1252", "cp850", "mac_roman")),
    ("Icelandic", "áðéíóúýþæö", ("cp1252",)),
    ("Polish", "ąćęłńóśźż", ("cp1250", "iso8859_2", "cp852")),
    ("Czech", "áčďéěíňóřšťúůýž", ("cp1250", "iso8859_2", "cp852")),
    ("Slovak", "áäčďéíĺľňóôŕšťúýž", ("cp1250", "iso8859_2", "cp852")),
    ("Hungarian", "áéíóöőúüű", ("cp1250", "iso8859_2", "cp852")),
    ("Romanian", "ăâîşţ", ("cp1250", "iso8859_2")),
    ("Croatian", "ćčđšž", ("cp1250", "iso8859_2")),
    ("Turkish", "âçğıîöşüû", ("cp1254", "cp857")),
    ("Lithuanian", "ąčęėįšųūž", ("cp1257",)),
    ("Latvian", "āčēģīķļņšūž", ("cp1257",)),
)
_HUNGARIAN_BYTES = {letter.encode("cp1250") for letter in "áéíóöőúüű"}
# Text in Latin letters is taken for one of these.
LATIN = {"cp1250", "cp1252", "cp1254", "cp1257", "cp437", "cp775", "cp850", "cp852", "cp857"}
LATIN |= {"cp858", "cp860", "cp861", "cp863", "cp865", "hp_roman8", "latin_1", "mac_iceland"}
LATIN |= {"mac_latin2", "mac_roman", "mac_turkish", "iso8859_2", "iso8859_3", "iso8859_4"}
LATIN |= {"iso8859_9", "iso8859_10", "iso8859_13", "iso8859_14", "iso8859_15", "iso8859_16"}
# The small letters of KOI8-R are half-width katakana in Japanese encodings.
JAPANESE = {"cp932", "shift_jis", "shift_jis_2004", "shift_jisx0213"}
KATAKANA = range(0xFF61, 0xFFA0)

# Bytes that are not UTF-8 pass as they are; the reader of lines finds them.
UTF8 = ("utf-8", "surrogateescape")

MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order marks; that of UTF-32 begins like that of UTF-16."""
# Text in UTF-16 has a NUL in every other place, except where it is Chinese, say.
LEAST_NULS = 0.2
_CONTROLS = bytes([*range(9), *range(0x0E, 0x1B)])
MAX_CONTROLS = 0.02
"""A file with a larger share of these bytes, which no encoding gives to a letter, is no text."""

OTHER_FORMATS = {
    b"PK\x03\x04": "a ZIP archive, perhaps a spreadsheet; unpack it, or save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "a file of Microsoft Office; save the sheet as CSV",
    b"\x1f\x8b": "compressed by gzip; name it .csv.gz",
    b"BZh": "compressed by bzip2; name it .csv.bz2",
    b"\xfd7zXZ": "compressed by xz; name it .csv.xz",
    b"(\xb5/\xfd": "compressed by Zstandard; decompress it first",
    b"PAR1": "a Parquet file; name it .parquet",
    b"%PDF": "a PDF; save its text as .txt",
    b"SQLite format 3": "a database of SQLite; export a table as CSV",
}
"""How files begin that are no text, and what to do with them."""
HINTS = {
    **dict.fromkeys((".xlsx", ".xls", ".ods", ".numbers"), "save the sheet as CSV"),
    **dict.fromkeys((".docx", ".doc", ".odt", ".pdf", ".html", ".htm"), "save its text as .txt"),
    **dict.fromkeys((".zip", ".7z", ".rar", ".tar", ".zst"), "decompress it first"),
    **dict.fromkeys((".mbox", ".eml", ".msg"), "save the text of each message as .txt"),
    **dict.fromkeys((".db", ".sqlite", ".sqlite3", ".sql"), "export a table as CSV"),
    ".log": "name it .txt, of which each line is a document",
    ".faiss": "hummingbit index import NAME --faiss FILE reads it",
    **dict.fromkeys((".pkl", ".pickle", ".joblib", ".pt"), "save it as Parquet or JSON lines"),
}
"""What to do with files that cannot be read, by their suffix."""

Decoder: TypeAlias = "codecs.IncrementalDecoder | io.IncrementalNewlineDecoder"
Buffered: TypeAlias = "io.BufferedReader[io.RawIOBase]"


def open_text(
    stream: BinaryIO, source: str, encoding: str | None, notice: Callable[[str], object]
) -> tuple[BinaryIO, bytes]:
    """Return `stream` as a stream of UTF-8, which the caller closes, and a sample of its beginning.

    The sample is not consumed. If `encoding` is None it is detected: by a byte order mark, or as
    UTF-8 if most bytes of the sample that are not ASCII are valid UTF-8, or else by
    charset-normalizer. `notice` is called if it is not UTF-8.

    Raises:
        ReadError: if there is no such encoding, the stream is truncated, or it is no text.
    """
    buffered: Buffered = io.BufferedReader(cast("io.RawIOBase", stream), SAMPLE_BYTES)
    sample = _peek(buffered, source)
    for beginning, explanation in OTHER_FORMATS.items():
        if sample.startswith(beginning):
            raise ReadError(f"{source}: is {explanation}")
    if encoding is None:
        encoding = _find_encoding(sample)
        if not encoding.startswith("utf") and _is_binary(sample):
            rule = "if it is, name its encoding with --encoding"
            raise ReadError(f"{source}: is no text; {rule}")
        if encoding != "utf-8":
            notice(f"is not UTF-8; it is read as {encoding}")
    try:
        codec = codecs.lookup(encoding)
    except LookupError:
        raise ReadError(f"{source}: there is no encoding {encoding!r}; try utf-8") from None
    if codec.name in ("utf-8", "utf-8-sig"):
        return buffered, sample
    decoded: Buffered = io.BufferedReader(
        _Transcoder(buffered, codec.incrementaldecoder(), codec.name), SAMPLE_BYTES
    )
    return decoded, _peek(decoded, source)


def _is_binary(sample: bytes) -> bool:
    return len(sample) - len(sample.translate(None, _CONTROLS)) > MAX_CONTROLS * len(sample)


def _peek(stream: Buffered, source: str) -> bytes:
    try:
        return stream.peek(SAMPLE_BYTES)[:SAMPLE_BYTES]
    except STREAM_ERRORS as error:
        raise ReadError(str(BadLine(source, 1, f"cannot be read: {error}"))) from None


def _find_encoding(sample: bytes) -> str:
    for mark, name in MARKS.items():
        if sample.startswith(mark):
            return name
    if sample.count(0) > LEAST_NULS * len(sample):
        return "utf-16-le" if sample[1::2].count(0) > sample[::2].count(0) else "utf-16-be"
    return "utf-8" if _is_utf8(sample) else _find_older_encoding(sample)


def _is_utf8(sample: bytes) -> bool:
    # A few invalid bytes are damage. Text in another encoding is hardly ever valid UTF-8.
    decoded = sample.decode("utf-8", "replace")
    invalid = decoded.count("\ufffd")
    return sample.isascii() or sum(not char.isascii() for char in decoded) >= 2 * invalid


def _find_older_encoding(sample: bytes) -> str:
    if sum(byte > LAST_ASCII for byte in sample) < MIN_NON_ASCII_BYTES:
        return _find_latin_encoding(sample, "")
    # Importing it takes longer than reading most files.
    from charset_normalizer import from_bytes  # noqa: PLC0415

    match = from_bytes(sample).best()
    if match is None or match.encoding in LATIN:
        return _find_latin_encoding(sample, "" if match is None else match.language)
    if match.encoding in JAPANESE:
        letters = [ord(char) for char in sample.decode(match.encoding, "ignore")]
        others = sum(letter > LAST_ASCII for letter in letters)
        if 2 * sum(letter in KATAKANA for letter in letters) > others:
            return "koi8_r"
    return match.encoding


def _find_latin_encoding(sample: bytes, language: str) -> str:
    """Return the encoding by which most bytes inside words are letters of one language.

    Quotation marks of one encoding are letters of another, but they do not stand inside words. Of
    encodings that fit equally, those of `language` come first. Hungarian letters have the bytes of
    Western ones, so its own ő tells it: where cp1252 has õ, Portuguese has ç or ã, too.
    """
    inside = Counter(_INSIDE_WORD.findall(sample))
    if b"\xf5" in inside and inside.keys() <= _HUNGARIAN_BYTES:
        language = "Hungarian"

    def fit(candidate: tuple[str, str, str]) -> tuple[int, bool]:
        name, letters, encoding = candidate
        found = sum(inside[byte] for byte in inside if byte.decode(encoding, "ignore") in letters)
        return found, found > 0 and name == language

    pairs = [(name, letters, code) for name, letters, codes in LATIN_LETTERS for code in codes]
    return max(pairs, key=fit)[2]


def unify_line_ends(stream: BinaryIO) -> BinaryIO:
    """Return a stream of UTF-8 in which every line ends with a line feed alone."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")(UTF8[1]), True)
    return io.BufferedReader(_Transcoder(stream, decoder, "utf-8"), SAMPLE_BYTES)


class _Transcoder(io.RawIOBase):
    """A stream of bytes in another encoding, read as UTF-8."""

    def __init__(self, stream: BinaryIO, decoder: Decoder, name: str) -> None:
        super().__init__()
        self._stream = stream
        self._decoder = decoder
        self._name = name
        self._pending = b""

    def close(self) -> None:
        self._stream.close()
        super().close()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill `buffer`; raise OSError if bytes are invalid in the encoding."""
        while not self._pending:
            chunk = self._stream.read(len(buffer))
            try:
                self._pending = self._decoder.decode(chunk, final=not chunk).encode(*UTF8)
            except UnicodeError as error:
                raise OSError(f"is not {self._name}: {error}") from None
            if not chunk:
                break
        filling, self._pending = self._pending[: len(buffer)], self._pending[len(buffer) :]
        buffer[: len(filling)] = filling
        return len(filling)
