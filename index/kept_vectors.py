"""How a collection keeps the vectors of its documents: whole, rounded, or not at all.

===========  ========================================================================  ===========
form         what is stored of a vector x of D numbers                                 bytes
===========  ========================================================================  ===========
``float32``  ``<f4[D]``: x itself                                                      4 D
``float16``  ``<f4`` s, ``<f2[D]`` h with x ≈ s h, where s is the power of two for     2 D + 4
             which the largest |h| is from 1 to 2
``int8``     ``<f4`` s, ``i1[D]`` i with x ≈ s i, where s is max |x| / 127,            D + 4
             rounded up to 16 significant bits
``none``     nothing; the document has only its code                                   0
===========  ========================================================================  ===========

A rounded vector that is read and stored again is stored as the same bytes, because s has so few
bits that s h and s i are float32 numbers. So an export and an import change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.document import Vector
from hummingbit.foundation.errors import InputError
from hummingbit.index.errors import StoreError
from hummingbit.index.names import FLOAT16, FLOAT32, FORMS, INT8, NONE

SCALE_BYTES = 4
_TYPES: dict[str, np.dtype[Any]] = {
    FLOAT32: np.dtype("<f4"),
    FLOAT16: np.dtype("<f2"),
    INT8: np.dtype("i1"),
}
_LARGEST = float(np.finfo(np.float32).max)
_SIGNIFICANT_BITS = 16
# float32 numbers are multiples of 2 to this power.
_LEAST_EXPONENT = -149


def check_form(form: str) -> None:
    """Raise InputError unless a form has that name."""
    if form not in FORMS:
        raise InputError("keep_vectors", f"is {form[:40]!r}; it must be one of {', '.join(FORMS)}")


def pack_vector(vector: Vector | None, form: str) -> bytes | None:
    """Return what is stored of a vector of finite numbers; None if nothing is."""
    if vector is None or form == NONE:
        return None
    if form == FLOAT32:
        return np.asarray(vector, dtype="<f4").tobytes()
    x = np.asarray(vector, dtype=np.float64)
    scale, numbers = (_to_float16 if form == FLOAT16 else _to_int8)(x)
    return np.array(scale, dtype="<f4").tobytes() + numbers.tobytes()


def packed_size(dimension: int, form: str) -> int:
    """Return the number of bytes that are stored of a vector of `dimension` numbers."""
    if form == NONE:
        return 0
    return dimension * _TYPES[form].itemsize + (0 if form == FLOAT32 else SCALE_BYTES)


def unpack_vectors(stored: Sequence[bytes], form: str) -> npt.NDArray[np.float32]:
    """Return vectors of one length from what is stored of them, ``float32[N, D]``.

    Raises:
        StoreError: if the bytes are not those of vectors in this form.
    """
    raw = np.frombuffer(b"".join(stored), dtype=np.uint8).reshape(len(stored), -1)
    head = 0 if form == FLOAT32 else SCALE_BYTES
    if form == NONE or raw.shape[1] <= head or (raw.shape[1] - head) % _TYPES[form].itemsize:
        message = f"a vector of {raw.shape[1]} bytes is damaged; the collection keeps {form}"
        raise StoreError(message)
    numbers = np.ascontiguousarray(raw[:, head:]).view(_TYPES[form])
    if form == FLOAT32:
        return np.asarray(numbers, dtype=np.float32)
    scales = np.ascontiguousarray(raw[:, :head]).view("<f4").astype(np.float64)
    x = np.clip(numbers.astype(np.float64) * scales, -_LARGEST, _LARGEST)
    return np.asarray(x, dtype=np.float32)


def unpack_vector(stored: bytes, form: str) -> Vector:
    """Return one vector; see :func:`unpack_vectors`."""
    vector: Vector = unpack_vectors([stored], form)[0]
    return vector


def _to_float16(x: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float16]]:
    """Return the scale and the numbers of a vector in the form ``float16``."""
    largest = float(np.abs(x).max())
    scale = 2.0 ** (int(np.frexp(largest)[1]) - 1) if largest else 1.0
    numbers = (x / scale).astype("<f2")
    if np.abs(numbers).max() == 2 and 2 * scale <= _LARGEST:
        # The largest number was rounded up to 2, from which another scale follows.
        scale *= 2
        numbers = (x / scale).astype("<f2")
    return scale, numbers


def _to_int8(x: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.int8]]:
    """Return the scale and the numbers of a vector in the form ``int8``."""
    quotient = float(np.abs(x).max()) / 127
    if not quotient:
        return 1.0, np.zeros(len(x), dtype=np.int8)
    exponent = int(np.frexp(quotient)[1])
    unit = 2.0 ** max(exponent - _SIGNIFICANT_BITS, _LEAST_EXPONENT)
    scale = float(np.ceil(quotient / unit)) * unit
    return scale, np.rint(x / scale).astype(np.int8)
