"""The distinct codes of a collection, with statistics of the documents of each."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes, whole_codes
from foundation.slices import checkpoint
from index.backend import CollectionBackend

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]

UNLABELLED = -1
ROWS_AT_ONCE = 1 << 16


class DistinctCodes(NamedTuple):
    """The D distinct codes of N documents, in ascending order of their bytes."""

    codes: Codes
    """``uint8[D, C]``."""
    code_of: npt.NDArray[np.intp]
    """``intp[N]``: the code of each document, as an index of `codes`."""

    @classmethod
    def of(cls, codes: Codes) -> Self:
        """Find the distinct ones of the documents' `codes`, ``uint8[N, C]``."""
        checkpoint()
        if not len(codes):
            return cls(codes, np.empty(0, dtype=np.intp))
        distinct, code_of = np.unique(whole_codes(codes), return_inverse=True)
        checkpoint()
        packed = np.frombuffer(distinct.tobytes(), dtype=np.uint8)
        return cls(packed.reshape(-1, codes.shape[1]), code_of)


@dataclass(frozen=True, slots=True)
class CodeTable:
    """The D distinct codes of N documents, in ascending order of their bytes.

    A document with several labels counts for each of them.
    """

    generation: int
    codes: Codes
    """``uint8[D, C]``."""
    documents: Integers
    """``int64[D]``: the number of documents with each code."""
    age: Numbers
    """``float64[D]``: the mean position of the code's documents in the order of insertion, 0 to 1.
    """
    labels: tuple[str, ...]
    """All labels, by frequency descending, then by name."""
    label: Integers
    """``int64[D]``: the most frequent label of the code's documents, as an index of `labels`."""
    labelled: Integers
    """``int64[D]``: the number of the code's documents with a label."""
    purity: Numbers
    """``float64[D]``: the share of these with `label`; NaN if there are none."""
    label_documents: Integers
    """``int64[L]``: the number of documents with each label."""


def code_table(collection: CollectionBackend, label_field: str = "label") -> CodeTable:
    """Read a collection and group its documents by their codes.

    Raises:
        InputError: if the field holds something that is no label in some document.
    """
    generation = collection.generation
    codes, labels = collection.labelled_codes(label_field)
    return table_of(DistinctCodes.of(codes), labels, generation)


def table_of(
    distinct: DistinctCodes, labels: Sequence[Sequence[str]], generation: int = 0
) -> CodeTable:
    """Group documents by their codes; `labels` has those of each document."""
    codes, code_of = distinct
    n = len(code_of)
    documents = np.bincount(code_of, minlength=len(codes)).astype(np.int64)
    age = np.bincount(code_of, np.arange(n) / max(n - 1, 1), len(codes)) / documents
    names, pairs = _pairs(labels, code_of)
    checkpoint()
    label, most, labelled, label_documents = _majorities(pairs, len(names), len(codes))
    order = sorted(range(len(names)), key=lambda place: (-label_documents[place], names[place]))
    places = np.empty(len(names) + 1, dtype=np.int64)
    places[order] = np.arange(len(names))
    places[UNLABELLED] = UNLABELLED
    with np.errstate(invalid="ignore"):
        purity = most / np.where(labelled > 0, labelled, np.nan)
    return CodeTable(
        generation=generation,
        codes=codes,
        documents=documents,
        age=age,
        labels=tuple(names[place] for place in order),
        label=places[label],
        labelled=labelled,
        purity=purity,
        label_documents=label_documents[order],
    )


def _pairs(
    labels: Sequence[Sequence[str]], code_of: npt.NDArray[np.intp]
) -> tuple[list[str], tuple[Integers, Integers, Integers]]:
    """Return the names of labels; and code, label and document of each (document, label)."""
    numbers: dict[str, int] = {}
    # Lists of a million numbers would be freed, and converted, without a break.
    rows, label_numbers = array("q"), array("q")
    for row, of_one in enumerate(labels):
        if not row % ROWS_AT_ONCE:
            checkpoint()
        for name in dict.fromkeys(of_one):
            rows.append(row)
            label_numbers.append(numbers.setdefault(name, len(numbers)))
    documents = np.frombuffer(rows, dtype=np.int64)
    of_pairs = np.frombuffer(label_numbers, dtype=np.int64)
    return list(numbers), (code_of[documents].astype(np.int64), of_pairs, documents)


def _majorities(
    pairs: tuple[Integers, Integers, Integers], n_labels: int, n_codes: int
) -> tuple[Any, Any, Any, Any]:
    """Return the majority label of each code, how many documents have it, and how many any."""
    codes, labels, documents = pairs
    label = np.full(n_codes, UNLABELLED, dtype=np.int64)
    most = np.zeros(n_codes, dtype=np.int64)
    first = np.flatnonzero(np.diff(documents, prepend=-1))
    labelled = np.bincount(codes[first], minlength=n_codes)
    keys, counts = np.unique(codes * max(n_labels, 1) + labels, return_counts=True)
    code, name = np.divmod(keys, max(n_labels, 1))
    # The last assignment wins: the highest count, and among equal counts the label seen first.
    order = np.lexsort((-name, counts))
    label[code[order]] = name[order]
    most[code[order]] = counts[order]
    return label, most, labelled, np.bincount(labels, minlength=n_labels)
