"""Codes as files of FAISS: an IndexBinaryFlat, or an IndexBinaryIVF, in an IndexBinaryIDMap.

The numbers of the map are lines of the file of ids beside it, from 0; a line is a JSON string. The
file of codes is read here, not by FAISS: a file can come from anybody, and FAISS trusts it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.document import Document
from hummingbit.corpus.lines import BadLine, ReadError
from hummingbit.encoder.codes import Codes
from hummingbit.foundation.errors import InputError, counted
from hummingbit.index.backend import AnyCollection
from hummingbit.index.collection import pages_of
from hummingbit.index.encoding import WITHOUT_CODES

Numbers = npt.NDArray[np.int64]

IDS_SUFFIX = ".ids"
LISTS_SEARCHED = 8
"""A search reads one in so many lists of an IndexBinaryIVF, unless its `nprobe` is set."""
MAX_LISTS = 1 << 16
MAX_NESTED = 4
"""Indexes in indexes; an IndexBinaryIVF in an IndexBinaryIDMap has two levels below it."""
HASH_TABLE = 2
"""The direct map of an IndexBinaryIVF that is stored as pairs of numbers."""


# Writes a collection.


def write_faiss(
    collection: AnyCollection,
    codes: BinaryIO,
    ids: BinaryIO,
    lists: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> int:
    """Write the codes of one generation to `codes`, and the ids to `ids`; return their number.

    With `lists`, the index is an IndexBinaryIVF of so many lists, and else an IndexBinaryFlat.

    Raises:
        InputError: if the collection has no codes or several for a document, or fewer documents
            than `lists`.
        StoreError: if a document cannot be read or is damaged.
        OSError: if the files cannot be written.
    """
    if collection.n_bits == 0:
        raise InputError("collection", f"has nothing for FAISS: {WITHOUT_CODES}")
    if collection.passages is not None:
        several = "has several codes for a document, those of its passages"
        raise InputError("collection", f"{several}; a file of FAISS has one for an id")
    packed = bytearray()
    with collection.reading():
        for page in pages_of(collection):
            packed += bytes.fromhex("".join([document.code for document in page]))
            for document in page:
                ids.write(json.dumps(document.id, ensure_ascii=False).encode() + b"\n")
            if progress is not None:
                progress(len(page))
    array = np.frombuffer(packed, np.uint8).reshape(-1, collection.n_bits // 8)
    codes.write(_index_of(array, lists))
    return len(array)


def _index_of(codes: Codes, lists: int | None) -> bytes:
    import faiss  # noqa: PLC0415 - takes as long as a search

    n_bits = codes.shape[1] * 8
    index: Any = faiss.IndexBinaryFlat(n_bits)
    if lists is not None:
        if not 1 <= lists <= min(MAX_LISTS, len(codes)):
            documents, most = counted(len(codes), "document"), min(MAX_LISTS, len(codes))
            raise InputError("lists", f"is {lists}; with {documents}, it must be from 1 to {most}")
        quantizer = index  # FAISS does not keep it
        index = faiss.IndexBinaryIVF(quantizer, n_bits, lists)
        index.cp.min_points_per_centroid = 1  # no warning about few documents
        index.train(codes)
        index.nprobe = -(-lists // LISTS_SEARCHED)
    with_numbers = faiss.IndexBinaryIDMap(index)
    with_numbers.add_with_ids(codes, np.arange(len(codes)))
    return bytes(faiss.serialize_index_binary(with_numbers))


# Reads such files, and those that others wrote with FAISS.


class FaissCodes(NamedTuple):
    """The codes of a file, ``uint8[N, C]``, and the number of each, ascending."""

    codes: Codes
    numbers: Numbers

    @property
    def n_bits(self) -> int:
        """The length of a code."""
        return int(self.codes.shape[1]) * 8


def read_faiss(data: bytes, source: str) -> FaissCodes:
    """Return the codes of a file of FAISS; `source` is its name in errors.

    Raises:
        ReadError: if it is damaged, holds another kind of index, or two codes with one number.
    """
    codes, numbers = _Reader(memoryview(data), source).index()
    order = np.argsort(numbers, kind="stable")
    codes, numbers = codes[order], numbers[order]
    (twice,) = np.nonzero(np.diff(numbers) == 0)
    if len(twice):
        number = numbers[twice[0]]
        raise ReadError(f"{source}: has several codes of number {number}; a document has one")
    return FaissCodes(codes, numbers)


def read_ids(stream: BinaryIO, source: str) -> list[str]:
    """Return the ids of a file that :func:`write_faiss` wrote; `source` is its name in errors.

    Raises:
        ReadError: if a line is not a string of JSON.
    """
    ids = []
    for number, line in enumerate(stream, 1):
        try:
            id_ = json.loads(line)
        except ValueError:  # UnicodeDecodeError among them
            id_ = None
        if not isinstance(id_, str):
            raise ReadError(str(BadLine(source, number, "must be a JSON string, the id")))
        ids.append(id_)
    return ids


def documents_of_codes(found: FaissCodes, ids: list[str] | None, source: str) -> Iterator[Document]:
    """Yield a document for each code; without `ids`, its id is its number in FAISS.

    Raises:
        ReadError: if a number has no id; `source` is the name of the file of ids.
    """
    if ids is not None and len(found.numbers):
        first, last = found.numbers[0], found.numbers[-1]
        if first < 0 or last >= len(ids):
            have = counted(len(ids), "id")
            raise ReadError(f"{source}: has {have}; the codes have numbers from {first} to {last}")
    digits = found.codes.tobytes().hex()
    size = 2 * found.codes.shape[1]
    for position, number in enumerate(found.numbers.tolist()):
        id_ = str(number) if ids is None else ids[number]
        yield Document(id_, code=digits[position * size : (position + 1) * size])


class _Reader:
    """Reads an index from bytes, none of which it trusts."""

    def __init__(self, data: memoryview, source: str) -> None:
        self._data = data
        self._source = source
        self._at = 0

    def index(self, depth: int = 0) -> tuple[Codes, Numbers]:
        """Return the codes of the index that begins here, and their numbers."""
        numbers: Numbers
        kind = bytes(self._take(4))
        if depth > MAX_NESTED:
            raise self._error("holds indexes in indexes in indexes")
        if kind not in (b"IBxF", b"IBMp", b"IBM2", b"IBwF"):
            known = "IndexBinaryFlat, IndexBinaryIVF and an IndexBinaryIDMap of them"
            raise self._error(f"is no file of FAISS with {known}; it begins with {kind!r}")
        n_bits, code_size, total, *_ = self._numbers("<iiq?i")
        if n_bits <= 0 or n_bits % 8 or code_size != n_bits // 8 or total < 0:
            raise self._error(f"is damaged: {total} codes of {n_bits} bits in {code_size} bytes")
        if kind == b"IBxF":
            codes = self._array(np.uint8)
            numbers = np.arange(len(codes) // code_size)
        elif kind == b"IBwF":
            codes, numbers = self._lists(code_size, depth)
        else:
            codes, inner = self.index(depth + 1)
            numbers = self._array(np.int64)
            if inner.size and not 0 <= inner.min() <= inner.max() < len(numbers):
                raise self._error("is damaged: a code has no number")
            numbers = numbers[inner]
        if codes.size != total * code_size or len(numbers) != total:
            raise self._error(f"is damaged: it does not hold the {counted(total, 'code')} it names")
        return codes.reshape(total, code_size), numbers

    def _lists(self, code_size: int, depth: int) -> tuple[Codes, Numbers]:
        n_lists, _ = self._numbers("<QQ")
        self.index(depth + 1)  # the centroids
        (direct_map,) = self._numbers("<b")
        self._array(np.int64)
        if direct_map == HASH_TABLE:
            self._array(np.int64, 2)
        kind = bytes(self._take(4))
        if kind != b"ilar":
            raise self._error(f"keeps its lists elsewhere: {kind!r}")
        n_stored, stored_size = self._numbers("<QQ")
        layout = bytes(self._take(4))
        if layout not in (b"full", b"sprs") or (n_stored, stored_size) != (n_lists, code_size):
            raise self._error("is damaged: its lists are not those of its codes")
        sizes = self._array(np.int64)
        if layout == b"sprs":
            sizes = sizes[1::2]
        codes, numbers = [np.empty(0, np.uint8)], [np.empty(0, np.int64)]
        for size in sizes.tolist():
            codes.append(np.frombuffer(self._take(size * code_size), np.uint8))
            numbers.append(np.frombuffer(self._take(size * 8), "<i8"))
        return np.concatenate(codes), np.concatenate(numbers)

    def _array(self, dtype: npt.DTypeLike, width: int = 1) -> npt.NDArray[Any]:
        (size,) = self._numbers("<Q")
        kind = np.dtype(dtype).newbyteorder("<")
        return np.frombuffer(self._take(size * width * kind.itemsize), kind)

    def _numbers(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))

    def _take(self, size: int) -> memoryview:
        if not 0 <= size <= len(self._data) - self._at:
            raise self._error("is cut short or damaged")
        self._at += size
        return self._data[self._at - size : self._at]

    def _error(self, what: str) -> ReadError:
        return ReadError(f"{self._source}: {what}")
