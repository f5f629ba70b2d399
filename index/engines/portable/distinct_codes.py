"""The distinct codes among many, and the rows of each: its posting list.

Learned codes repeat: a million documents may have thirty thousand distinct codes. The engines with
posting lists search distinct codes only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes
from index.engines.portable.flat import pad

Integers = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]
"""Positions in an index's rows, and numbers of its codes, in four bytes to save memory."""
Words = npt.NDArray[np.unsignedinteger[Any]]
"""Codes as numbers: one of 32 or 64 bits, or several of 64."""


class Postings(NamedTuple):
    """The places of distinct code c, ascending: ``places[offsets[c]:offsets[c + 1]]``."""

    code_of: Places
    """The distinct code of each place."""
    offsets: Integers
    places: Places


def as_words(codes: Codes) -> Words:
    """Return codes as numbers, ``(N, W)``, padded with zero bytes; W is 1 up to 64 bits."""
    padded = pad(codes)
    return padded.view(f"<u{min(padded.shape[1], 8)}")


def group(words: Words) -> tuple[Words, Postings]:
    """Return the distinct codes of ``(N, W)`` words in ascending order and their posting lists."""
    order = np.argsort(words[:, 0]) if words.shape[1] == 1 else np.lexsort(words.T)
    in_order = words[order]
    begins = np.ones(len(words), dtype=np.bool_)
    begins[1:] = (in_order[1:] != in_order[:-1]).any(axis=1)
    distinct = in_order[begins]
    code_of = np.empty(len(words), dtype=np.int32)
    code_of[order] = np.cumsum(begins, dtype=np.int32) - 1
    del order, in_order, begins
    return distinct, posting_lists(code_of, len(distinct))


def distinct_codes(codes: Codes) -> tuple[Codes, Postings]:
    """Return the distinct ones of `codes`, ``uint8[D, C]``, and their posting lists."""
    words, postings = group(as_words(codes))
    return words.view(np.uint8)[:, : codes.shape[1]], postings


def posting_lists(code_of: npt.NDArray[Any], n_codes: int) -> Postings:
    """Return the posting lists of `n_codes` codes, given the code of each place."""
    # Each key has the code in its high bits and the place in its low bits: numpy sorts such numbers
    # several times faster than argsort runs, and equal codes stay in the order of their places.
    keys = code_of.astype(np.uint64) << np.uint64(32)
    keys |= np.arange(len(code_of), dtype=np.uint64)
    keys.sort()
    offsets = np.zeros(n_codes + 1, dtype=np.int64)
    offsets[1:] = np.cumsum(np.bincount(code_of, minlength=n_codes))
    return Postings(code_of, offsets, keys.astype(np.uint32).view(np.int32))
