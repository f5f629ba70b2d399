"""Array operations that numpy lacks, or performs while it holds the interpreter lock."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Number = TypeVar("Number", bound=np.generic)


def sorted_distinct(values: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return the distinct elements of `values`, ``[N]``, in ascending order.

    :func:`numpy.unique` hashes them and holds the interpreter lock meanwhile. For a million values
    that takes a tenth of a second, in which no other thread runs. It also imports masked arrays,
    which takes as long as a search.
    """
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def unit_rows(rows: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float32]:
    """Return `rows` scaled to unit Euclidean length, ``float32[N, D]``; a row of zeros stays."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.ascontiguousarray(rows / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def numbers_of_runs(
    starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return runs of numbers, one after another: from each of `starts`, as many as its length."""
    begins = np.cumsum(lengths) - lengths
    return np.asarray(np.arange(lengths.sum()) + np.repeat(starts - begins, lengths))


def runs_in_order(
    values: npt.NDArray[Any], lengths: npt.NDArray[np.int64], order: npt.NDArray[np.intp]
) -> npt.NDArray[Any]:
    """Return `values`, runs of these `lengths` one after the other, with the runs in `order`."""
    starts = np.cumsum(lengths) - lengths
    return values[numbers_of_runs(starts[order], lengths[order])]
