"""Packed binary codes. Only this module knows the bit order.

A batch of codes is ``uint8[N, code_size]`` with ``code_size = n_bits / 8``. Bit 0 of a code is the
most significant bit of its first byte, as in :func:`numpy.packbits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.limits import CodeError, Packing, check_n_bits

Codes = npt.NDArray[np.uint8]
"""Packed codes, shape ``(N, code_size)``."""

Bits = npt.NDArray[np.uint8]
"""Unpacked codes, shape ``(N, n_bits)``, every entry 0 or 1."""

_WORD = 8
"""The bytes of the longest numbers that numpy sorts."""


def pack_bits(bits: npt.NDArray[np.bool_] | Bits) -> Codes:
    """Pack 0/1 entries of shape ``(N, n_bits)`` into codes of shape ``(N, n_bits / 8)``."""
    check_n_bits(bits.shape[1])
    return np.packbits(bits, axis=1)


pack_rows = partial(np.packbits, axis=1)
"""Pack bits as :func:`pack_bits` does, without checking the length of the rows."""


def codes_of_vectors(vectors: Any, packing: Packing) -> Codes:
    """Return the codes that vectors of shape ``(N, D)`` represent, ``uint8[N, n_bits / 8]``.

    `sign`: D real numbers; bit b is 1 where number b is positive. `ubinary`: D bytes of eight bits
    each, the most significant bit first. `binary`: the same bytes less 128, as int8. These are the
    formats of ``sentence_transformers.quantization.quantize_embeddings`` and, under the same names,
    of the embedding services of Cohere and Voyage.

    Raises:
        CodeError: if a number is not finite or not such a byte, or codes cannot have this length.
    """
    rows = np.asarray(vectors)
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":
        raise CodeError("vector", "is not a list of numbers")
    if packing == "sign":
        if not np.isfinite(rows).all():
            raise CodeError("vector", "holds NaN or infinity; every number must be finite")
        return pack_bits(rows > 0)
    check_n_bits(8 * rows.shape[1])
    low = 0 if packing == "ubinary" else -128
    invalid = (rows < low) | (rows > low + 255) | (rows != np.floor(rows))
    if invalid.any():
        position = tuple(np.argwhere(invalid)[0])
        rule = f"{packing} must be whole numbers from {low} to {low + 255}"
        raise CodeError("vector", f"holds {rows[position]} at position {position[1]}; {rule}")
    return (rows.astype(np.int64) - low).astype(np.uint8)


def unpack_codes(codes: Codes) -> Bits:
    """Return the bits of packed codes; the inverse of :func:`pack_bits`."""
    return np.unpackbits(codes, axis=1)


def whole_codes(codes: Codes) -> npt.NDArray[np.void]:
    """Return `codes`, ``uint8[N, code_size]``, as N opaque values, one for each code.

    They sort into the same order as rows of bytes, far faster and without the interpreter lock.
    """
    if not codes.shape[1]:  # empty codes are equal
        return np.zeros(len(codes), dtype="V1")
    scalars: npt.NDArray[np.void] = np.ascontiguousarray(codes).view(f"V{codes.shape[1]}")[:, 0]
    return scalars


def distinct_codes(codes: Codes) -> tuple[Codes, npt.NDArray[np.intp]]:
    """Return the distinct ones of `codes`, in the order of their bytes, and which one each is.

    Returns:
        ``uint8[D, code_size]``, and ``intp[N]`` with the position among these of each code.
    """
    size = codes.shape[1]
    if not size:
        return codes[:1], np.zeros(len(codes), dtype=np.intp)
    if size > _WORD:
        distinct, code_of = np.unique(whole_codes(codes), return_inverse=True)
        return np.frombuffer(distinct.tobytes(), dtype=np.uint8).reshape(-1, size), code_of
    # Numbers sort in a third of the time.
    padded = np.zeros((len(codes), _WORD), dtype=np.uint8)
    padded[:, :size] = codes
    words, code_of = np.unique(padded.view(">u8")[:, 0].astype(np.uint64), return_inverse=True)
    return words.astype(">u8")[:, None].view(np.uint8)[:, :size], code_of


def hamming_distance(a: Codes, b: Codes) -> npt.NDArray[np.int64]:
    """Return the number of bits in which codes differ, over the last axis; other axes broadcast."""
    differing: npt.NDArray[np.uint8] = np.bitwise_count(np.bitwise_xor(a, b))
    return np.asarray(differing.sum(axis=-1, dtype=np.int64))


def code_to_hex(code: Codes) -> str:
    """Return packed codes, usually one, as lower-case hexadecimal digits."""
    return code.tobytes().hex()


def code_from_hex(text: str, n_bits: int) -> Codes:
    """Parse one packed code of `n_bits` bits; the inverse of :func:`code_to_hex`.

    Raises:
        CodeError: if `text` is not exactly ``n_bits / 4`` hexadecimal digits.
    """
    try:
        raw = bytes.fromhex(text) if text.isascii() and text.isalnum() else b""
    except ValueError:
        raw = b""
    if len(raw) * 8 != n_bits:
        excerpt = text if len(text) <= 40 else text[:40] + "…"
        rule = f"{n_bits // 4} hexadecimal digits ({n_bits} bits)"
        raise CodeError("code", f"{excerpt!r} is not {rule}")
    return np.frombuffer(raw, dtype=np.uint8)


def codes_from_hex(texts: Sequence[str], n_bits: int) -> Codes:
    """Parse packed codes, ``uint8[N, n_bits / 8]``, each as :func:`code_from_hex` does.

    Raises:
        CodeError: for the first text that is not exactly ``n_bits / 4`` hexadecimal digits.
    """
    joined = "".join(texts)
    if set(map(len, texts)) <= {n_bits // 4} and joined.isascii() and joined.isalnum():
        with suppress(ValueError):
            raw = bytearray.fromhex(joined)
            return np.frombuffer(raw, dtype=np.uint8).reshape(len(texts), n_bits // 8)
    codes = [code_from_hex(text, n_bits) for text in texts]
    return np.array(codes, dtype=np.uint8).reshape(len(texts), n_bits // 8)
