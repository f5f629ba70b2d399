"""The kinds of postings: how often a term occurs in a document of which length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from index.lexical.bm25_formula import OPENING

Integers = npt.NDArray[np.int64]
# One integer holds both counts of a term in a document: in the lowest bits its occurrences in the
# opening, and above them all its occurrences.
ONCE = 1 << OPENING.bit_length()


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """Distinct triples: a term's counts in a document and in its opening, and the length."""

    counts: Integers
    openings: Integers
    lengths: Integers

    def __len__(self) -> int:
        return len(self.counts)


def number_distinct(numbers: npt.NDArray[Any]) -> tuple[Integers, npt.NDArray[np.int32]]:
    """Return the distinct numbers, ascending, and the position of each number among them."""
    largest = int(numbers.max(initial=-1))
    if len(numbers) < largest:
        terms, columns = np.unique(numbers, return_inverse=True)
        return terms.astype(np.int64), columns.astype(np.int32)
    occurs = np.bincount(numbers, minlength=largest + 1) > 0
    return np.flatnonzero(occurs), (np.cumsum(occurs, dtype=np.int32) - np.int32(1)).take(numbers)


def number_kinds(counts: Integers, lengths: Integers) -> tuple[Kinds, npt.NDArray[Any]]:
    """Return the distinct kinds and the number of the kind of each posting.

    `counts` hold both counts of a term in one integer; see :data:`ONCE`.
    """
    width = int(lengths.max(initial=0)) + 1
    distinct, kind_of = number_distinct(counts * width + lengths)
    counts, lengths = distinct // width, distinct % width
    kinds = Kinds(counts // ONCE, counts % ONCE, lengths)
    return kinds, kind_of.astype(smallest_type(len(kinds)))


def join_kinds(kinds: Sequence[Kinds]) -> tuple[Kinds, list[npt.NDArray[Any]]]:
    """Return the distinct kinds of all segments, and the number of each kind of each segment."""
    counts = np.concatenate([one.counts * ONCE + one.openings for one in kinds])
    lengths = np.concatenate([one.lengths for one in kinds])
    joined, numbers = number_kinds(counts, lengths)
    ends = np.cumsum([len(one) for one in kinds])[:-1]
    return joined, np.split(numbers, ends)


def smallest_type(n_kinds: int) -> type[np.unsignedinteger[Any]]:
    """Return the smallest type for the numbers of so many kinds."""
    if n_kinds <= 2**8:
        return np.uint8
    return np.uint16 if n_kinds <= 2**16 else np.uint32
