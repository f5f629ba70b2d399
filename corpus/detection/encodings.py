"""The encoding of a text file, and files that are something else than their suffix says."""

from __future__ import annotations

import codecs
import io
import re
from collections import Counter
from collections.abc import Callable
from typing import BinaryIO, TypeAlias, cast

from corpus.lines import STREAM_ERRORS
from corpus.rows import BadLine, ReadError

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
    # Importing it takes longer than reading most files.
    from charset_normalizer import from_bytes  # noqa: PLC0415

    match = from_bytes(sample).best()
    if sum(byte > LAST_ASCII for byte in sample) < MIN_NON_ASCII_BYTES:
        return "cp1252"
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
    encodings that fit equally, those of `language` come first.
    """
    inside = Counter(_INSIDE_WORD.findall(sample))

    def fit(one: tuple[str, str, str]) -> tuple[int, bool]:
        name, letters, encoding = one
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
