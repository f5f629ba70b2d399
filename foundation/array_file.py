"""Files of arrays as they are in memory, which a process maps instead of reading.

::

    magic | length of the header, 8 bytes | CRC-32 of the header, 4 bytes, and 4 zeros
    header, JSON | arrays, each at a multiple of 64 bytes

They hold what can be made anew, so one that is damaged or does not fit is not used. Each array has
a checksum.
"""

from __future__ import annotations

import json
import math
import mmap
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from hummingbit.foundation.files import replacing

Arrays = Mapping[str, npt.NDArray[Any]]

ALIGNMENT = 64
MAX_HEADER = 1 << 20
PAGE = 1 << 12
PAGES_AT_ONCE = 1 << 12
DTYPES = frozenset({"|u1", "|b1", "<u2", "<u4", "<u8", "<i4", "<i8"})
ARRAYS = "arrays"
"""The key of the header with the type, the shape, the offset and the checksum of each array."""


def write_arrays(path: Path, magic: bytes, header: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a file of contiguous arrays in one step; several processes may do so at once.

    Raises:
        OSError: if it cannot be written.
    """
    entries: dict[str, tuple[str, list[int], int, int]] = {}
    offset = 0
    for name, array in arrays.items():
        entries[name] = array.dtype.str, list(array.shape), offset, checksum(array)
        offset += _aligned(array.nbytes)
    raw = json.dumps({**header, ARRAYS: entries}).encode()
    with replacing(path, one_of_several=True) as partial, partial.open("wb") as file:
        file.write(magic + len(raw).to_bytes(8, "little") + zlib.crc32(raw).to_bytes(8, "little"))
        file.write(raw)
        begin = _aligned(file.tell())
        for name, array in arrays.items():
            file.seek(begin + entries[name][2])
            file.write(array.data.cast("B") if array.size else b"")
        file.truncate(begin + offset)


def read_header(file: BinaryIO, magic: bytes) -> dict[str, Any]:
    """Return the header of a file, which begins with `magic`.

    Raises:
        ValueError: if it is another file, or damaged.
    """
    start = file.read(len(magic) + 16)
    length = int.from_bytes(start[len(magic) : len(magic) + 8], "little")
    if not start.startswith(magic) or length > MAX_HEADER:
        raise ValueError(f"it does not begin with {magic.decode().strip()!r}")
    raw = file.read(length)
    if len(raw) < length or zlib.crc32(raw).to_bytes(8, "little") != start[-8:]:
        raise ValueError("its header is damaged")
    header: dict[str, Any] = json.loads(raw)
    return header


def map_arrays(file: BinaryIO, entries: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays that follow a header that was read; the system reads them when used.

    Raises:
        ValueError: if the file is truncated, or an array does not match its checksum.
    """
    begin = _aligned(file.tell())
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, (dtype, shape, offset, crc) in entries.items():
        count = math.prod(shape)
        if dtype not in DTYPES or begin + offset + count * np.dtype(dtype).itemsize > len(mapped):
            raise ValueError("it is truncated")
        array = np.frombuffer(mapped, dtype, count, begin + offset).reshape(shape)
        if checksum(array) != crc:
            raise ValueError(f"{name} does not match its checksum")
        arrays[name] = array
    return arrays


def checksum(array: npt.NDArray[Any]) -> int:
    """Return the CRC-32 of the sums of the 64-bit words of each page of an array.

    It reads memory several times as fast as a CRC-32 of the array itself. It finds a changed bit,
    and pages that are missing, zero, of another file or in another place.
    """
    raw = np.frombuffer(array.data.cast("B"), np.uint8) if array.size else np.empty(0, np.uint8)
    crc = zlib.crc32(array.nbytes.to_bytes(8, "little"))
    whole = len(raw) // PAGE * PAGE
    for start in range(0, whole, PAGE * PAGES_AT_ONCE):
        pages = raw[start : min(whole, start + PAGE * PAGES_AT_ONCE)].view("<u8")
        crc = zlib.crc32(pages.reshape(-1, PAGE // 8).sum(axis=1).tobytes(), crc)
    return zlib.crc32(raw[whole:].tobytes(), crc)


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
