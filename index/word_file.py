"""The word index of a collection in a file beside its store, so that opening it indexes no text.

The file holds the arrays of a :class:`~hummingbit.index.lexical.LexicalIndex` as they are in
memory (:mod:`hummingbit.foundation.array_file`), and a process maps them instead of reading them.
It also holds the codes that the collection had, with their moments.

The store is the only source of truth, and the file may be behind it: rows that the store lost since
are removed, and those after the last row are added (:mod:`hummingbit.index.generations`). A file
that is damaged, that another version wrote, or that does not fit the store is not used, and the
index is built from the texts. These must fit:

- the incarnation of the store, and generations and rows that the store has reached;
- the codes of the rows that both have. A row of the index that has no code in the file is in doubt;
- how texts are analyzed: the analyzer, its versions, and :data:`ANALYSIS`.

A store that was set back to an earlier state is behind its file. Whoever opens it to write deletes
the file first (:func:`remove_later`).
"""

from __future__ import annotations

import json
import logging
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.analyzers import Analyzer
from hummingbit.encoder.codes import Codes
from hummingbit.foundation.array_file import ARRAYS, map_arrays, read_header, write_arrays
from hummingbit.foundation.files import open_regular_file
from hummingbit.index.engines.protocol import Rows
from hummingbit.index.lexical import Impacts, LexicalIndex, PostingLists, Segment
from hummingbit.index.moments import CodeMoments
from hummingbit.index.vocabulary import SortedStrings, Vocabulary

T = TypeVar("T")

FILE = "words.index"
MAGIC = b"hummingbit word\n"
VERSION = 2
LEAST_BYTES = 1 << 18
"""The words of a store of so many bytes are indexed in less than about 0.2 s."""
SHARE_BEHIND = 1 / 50
"""A file is written anew if it lacks more of the store than both allow."""
OF_SEGMENT = ("rows", "lengths", "terms", "starts", "positions", "impact_of", "live")
"""The arrays of a segment, by the names of its fields; the last may be missing."""
OF_IMPACTS = {"counts": "counts", "openings": "openings", "impact_lengths": "lengths"}
"""The arrays of a segment's impacts, and their fields."""
OF_STRINGS = ("text", "starts", "numbers")
ANALYSIS = 1
"""Counts the changes of how texts are analyzed; files of other numbers are not used.

It has one more when what ``tests/index/lexical/test_word_file.py`` holds of a sample changes.
"""

_log = logging.getLogger("hummingbit.index")


class Stamp(NamedTuple):
    """What identifies the state of a store."""

    incarnation: str
    generation: int
    last_row: int
    """The last row of a document that was assigned by then."""
    documents: int


@dataclass(frozen=True, eq=False)
class SavedWords:
    """A word index of a file, with the codes that the collection had, and their moments."""

    lexical: LexicalIndex
    rows: Rows
    codes: Codes
    moments: CodeMoments


class Header(NamedTuple):
    """What a file says of itself."""

    stamp: Stamp
    analysis: str
    forms: bool
    segments: int
    """The number of segments."""
    arrays: Mapping[str, tuple[str, list[int], int, int]]
    """The type, the shape, the offset and the checksum of each array."""


def analysis_of(analyzer: Analyzer, *, forms: bool) -> str:
    """Return a checksum of how texts are analyzed, here and with these versions of tables."""
    tables = analyzer.stemmer_version, unicodedata.unidata_version
    return f"{zlib.crc32(json.dumps([ANALYSIS, analyzer.name, forms, *tables]).encode()):08x}"


def is_far_behind(n_documents: int, n_missing: int, n_bytes: int) -> bool:
    """Tell whether a file is to be written anew that lacks so many documents of a store.

    The store has `n_documents` in `n_bytes`; a small one gets no file at all.
    """
    share = n_missing / max(n_documents, 1)
    return share * n_bytes > max(LEAST_BYTES, SHARE_BEHIND * n_bytes)


# Writing.


def save(folder: Path, stamp: Stamp, saved: SavedWords) -> None:
    """Write the file of a store in `folder`, in one step; several processes may do so at once.

    The codes are those of the generation that the stamp names, and its row is the last of a
    document that may be in the index. The vocabulary has no words but its sorted ones
    (:attr:`~hummingbit.index.lexical.LexicalIndex.is_compact`).

    Raises:
        OSError: if it cannot be written.
    """
    lexical = saved.lexical
    header = {
        "version": VERSION,
        **stamp._asdict(),
        "analysis": analysis_of(lexical.analyzer, forms=lexical.forms),
        "forms": lexical.forms,
        "segments": len(lexical.texts.segments),
    }
    write_arrays(folder / FILE, MAGIC, header, dict(_arrays_of(saved)))


def _arrays_of(saved: SavedWords) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    lexical, moments = saved.lexical, saved.moments
    for at, segment in enumerate(lexical.texts.segments):
        named = {name: getattr(segment, name) for name in OF_SEGMENT}
        named |= {name: getattr(segment.impacts, part) for name, part in OF_IMPACTS.items()}
        for name, array in named.items():
            if array is not None:
                yield f"{at}.{name}", np.ascontiguousarray(array)
    vocabulary = lexical.vocabulary
    for name, strings in (("terms", vocabulary.sorted_terms), ("words", vocabulary.sorted_words)):
        for part in OF_STRINGS:
            yield f"{name}.{part}", getattr(strings, part)
    yield "rows", np.ascontiguousarray(saved.rows)
    yield "codes", np.ascontiguousarray(saved.codes)
    yield "sums", moments.sums
    if moments.products is not None:
        yield "products", moments.products


# Reading.


def header_in(folder: Path) -> Header | None:
    """Return the header of the file in a folder, or None if there is no usable file."""
    return _read(folder, _read_header)


def _read(folder: Path, read: Callable[[BinaryIO], T]) -> T | None:
    """Return what `read` makes of the file in a folder, or None if there is no usable file."""
    try:
        with open_regular_file(folder / FILE, follow_links=False) as file:
            return read(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.info("the word index %s is not used: %s", folder / FILE, error)
        return None


def load(
    folder: Path, stamp: Stamp, analyzer: Analyzer, *, forms: bool, n_bits: int
) -> tuple[SavedWords, int] | None:
    """Map the file of the store in `folder`; None if there is none that can be trusted.

    Return it with the last row of a document that may be in it. The stamp is that of the store, of
    whose codes `n_bits` is the length. The codes must still be compared, by :func:`fits`.
    """

    def read(file: BinaryIO) -> tuple[SavedWords, int]:
        header = _read_header(file)
        _check_stamp(header.stamp, stamp)
        if header.analysis != analysis_of(analyzer, forms=forms) or header.forms != forms:
            raise ValueError("texts are analyzed otherwise")
        return _assemble(
            header, map_arrays(file, header.arrays), analyzer, n_bits
        ), header.stamp.last_row

    return _read(folder, read)


def fits(saved: SavedWords, rows: Rows, codes: Codes) -> bool:
    """Tell whether a store and a file have the same codes, ``uint8[N, C]``, of their common rows.

    `rows` are those of the codes, ascending.
    """
    if np.array_equal(saved.rows, rows):
        return _are_equal(saved.codes, codes)
    common, of_saved, of_store = np.intersect1d(
        saved.rows, rows, assume_unique=True, return_indices=True
    )
    if not _are_equal(saved.codes[of_saved], codes[of_store]):
        return False
    indexed = np.intersect1d(saved.lexical.rows(), rows, assume_unique=True)
    return bool(np.isin(indexed, common, assume_unique=True).all())


def _are_equal(codes: Codes, others: Codes) -> bool:
    """Tell whether codes of one length are equal; 64 bits at a time take a tenth of the time."""
    if codes.shape[1] and not codes.shape[1] % 8:
        return np.array_equal(codes.view(np.uint64), others.view(np.uint64))
    return np.array_equal(codes, others)


def moments_now(saved: SavedWords, rows: Rows, codes: Codes) -> CodeMoments:
    """Return the moments of the codes of a store that the file :func:`fits`."""
    if np.array_equal(saved.rows, rows):
        return saved.moments
    added = ~np.isin(rows, saved.rows, assume_unique=True)
    removed = ~np.isin(saved.rows, rows, assume_unique=True)
    if not added.any() and not removed.any():
        return saved.moments
    return saved.moments.with_changes(codes[added], saved.codes[removed])


def remove_later(folder: Path, stamp: Stamp) -> None:
    """Delete the file if the store has not reached it, and what a crash left of others.

    Raises:
        OSError: if it cannot be deleted.
    """
    for partial in folder.glob(f"{FILE}.*.partial"):
        partial.unlink(missing_ok=True)
    header = header_in(folder)
    if header is not None:
        with suppress(ValueError):
            _check_stamp(header.stamp, stamp)
            return
        (folder / FILE).unlink(missing_ok=True)


def _check_stamp(saved: Stamp, now: Stamp) -> None:
    if saved.incarnation != now.incarnation:
        raise ValueError("it is of another store")
    if saved.generation > now.generation or saved.last_row > now.last_row:
        raise ValueError("the store was set back to an earlier state")


def _read_header(file: BinaryIO) -> Header:
    header = read_header(file, MAGIC)
    if header["version"] != VERSION:
        raise ValueError("another version wrote it")
    return Header(
        Stamp(*(header[name] for name in Stamp._fields)),
        header["analysis"],
        header["forms"],
        int(header["segments"]),
        header[ARRAYS],
    )


def _assemble(
    header: Header, arrays: Mapping[str, npt.NDArray[Any]], analyzer: Analyzer, n_bits: int
) -> SavedWords:
    segments = []
    for at in range(header.segments):
        prefix = f"{at}."
        own = {
            name.removeprefix(prefix): array
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        impacts = Impacts(*map(own.pop, OF_IMPACTS))
        segments.append(Segment(**own, impacts=impacts))
    terms, words = (
        SortedStrings(*(arrays[f"{kind}.{part}"] for part in OF_STRINGS))
        for kind in ("terms", "words")
    )
    vocabulary = Vocabulary(analyzer.stem, terms, words)
    texts = PostingLists(tuple(segments))
    lexical = LexicalIndex(0, analyzer, vocabulary, texts, header.forms)
    rows, codes = arrays["rows"], arrays["codes"]
    if codes.shape != (len(rows), n_bits // 8):
        raise ValueError("its codes have another length")
    moments = CodeMoments(len(rows), arrays["sums"], arrays.get("products"))
    return SavedWords(lexical, rows, codes, moments)
