"""How alike pairs of documents are, from their labels or as a user lists them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from corpus.lines import open_bytes, read_json_lines
from corpus.rows import ReadError
from training.data import Rows, Tags, TrainingDataError
from training.similarities.label_tree import Table

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Pairs:
    """M pairs among the N documents of a batch, by their places in it, and how alike they are.

    `first` and `second` are int64[M], `similarity` float32[M] from 0 to 1.
    """

    first: Rows
    second: Rows
    similarity: Floats

    @property
    def spread(self) -> float:
        """The greatest less the least similarity; 0 where there is nothing to tell apart."""
        return float(np.ptp(self.similarity)) if len(self.similarity) else 0.0


class PairSource(Protocol):
    """Where batches come from: units that are drawn, and the documents and pairs they stand for."""

    def __len__(self) -> int:
        """How many units there are to draw."""

    def batch(self, units: Rows) -> tuple[Rows, Pairs]:
        """Return the documents of a batch, int64[N] rows of the corpus, and the pairs among them.

        `units` are distinct numbers from 0 to below the number of units.
        """


class LabelledPairs:
    """Units are labelled documents; the pairs of a batch are all pairs of its documents.

    `classes_NN` says how alike classes are, ``float32[C, C]``. Of documents with several classes
    the most similar ones count.

    Raises:
        TrainingDataError: if fewer than two classes occur.
    """

    def __init__(self, tags: Tags, classes_CC: Table) -> None:
        self._rows: Rows = np.flatnonzero(tags.any(axis=1))
        self._tags = tags[self._rows]
        self._table = classes_CC
        found = int(self._tags.any(axis=0).sum())
        if found < 2:
            raise TrainingDataError(
                f"label: the labelled documents have {found} of the classes; pairs of one class are"
                " all equally alike, and at least two classes are needed"
            )

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, units: Rows) -> tuple[Rows, Pairs]:
        """See :class:`PairSource`."""
        tags = self._tags[units]
        first, second = np.triu_indices(len(units), k=1)
        if (tags.sum(axis=1) == 1).all():
            classes = tags.argmax(axis=1)
            similarity = self._table[classes[first], classes[second]]
        else:
            # How like each class the most similar one of i is, then the most over the classes of j.
            nearest_NC = np.stack([self._table[row].max(axis=0) for row in tags])
            nearest_NN = np.stack([np.where(tags, row, 0).max(axis=1) for row in nearest_NC])
            similarity = nearest_NN[first, second]
        return self._rows[units], Pairs(first, second, similarity)


class ListedPairs:
    """Units are pairs of documents; those of a batch are the ones drawn.

    Raises:
        TrainingDataError: if all are equally alike.
    """

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        if pairs.spread == 0:
            raise TrainingDataError(
                f"similarity: all {len(pairs.similarity):,} pairs are equally alike; there must be"
                " at least two degrees of similarity"
            )

    def __len__(self) -> int:
        return len(self._pairs.similarity)

    def batch(self, units: Rows) -> tuple[Rows, Pairs]:
        """See :class:`PairSource`."""
        ends = np.concatenate([self._pairs.first[units], self._pairs.second[units]])
        rows, places = np.unique(ends, return_inverse=True)
        first, second = np.split(places.astype(np.int64), 2)
        return rows, Pairs(first, second, self._pairs.similarity[units])


def equal_classes(classes: Sequence[str]) -> Table:
    """Return 1 for the same class and 0 for any other, ``float32[C, C]``."""
    return np.eye(len(classes), dtype=np.float32)


def graded_classes(classes: Sequence[str]) -> Table:
    """Return 1 − |g − g'| / (greatest − least grade) of classes that are numbers.

    Raises:
        TrainingDataError: if a class is not a finite number, or all are the same number.
    """
    grades = np.array([_grade(name) for name in classes])
    spread = float(np.ptp(grades)) if len(grades) else 0.0
    if spread == 0:
        raise TrainingDataError("label: all grades are the same; there must be two")
    table: Table = (1 - np.abs(grades[:, None] - grades) / spread).astype(np.float32)
    return table


def read_pairs(path: Path, ids: Sequence[str]) -> Pairs:
    """Read JSON lines ``{"a": ID, "b": ID, "similarity": 0 to 1}``; places are those in `ids`.

    Raises:
        TrainingDataError: naming the line, if it is no such object, an id is not one of `ids`, both
            are the same, or the similarity is not a number from 0 to 1; if the file cannot be read
            or is empty.
    """
    place = {id_: row for row, id_ in enumerate(ids)}
    found: list[tuple[int, int, float]] = []
    try:
        with open_bytes(path) as stream:
            for row in read_json_lines(stream, str(path)):
                where = f"pairs: {path}:{row.line}"
                if row.reason is not None:
                    raise TrainingDataError(f"{where}: {row.reason}")
                found.append(_parse_pair(row.record, place, where))
    except (OSError, ReadError) as error:
        raise TrainingDataError(f"pairs: {path}: cannot be read: {error}") from None
    if not found:
        raise TrainingDataError(f"pairs: {path}: is empty; it must hold at least two pairs")
    first, second, similarity = zip(*found, strict=True)
    return Pairs(
        np.array(first, dtype=np.int64),
        np.array(second, dtype=np.int64),
        np.array(similarity, dtype=np.float32),
    )


def _parse_pair(record: Any, place: dict[str, int], where: str) -> tuple[int, int, float]:
    if not isinstance(record, dict) or set(record) != {"a", "b", "similarity"}:
        raise TrainingDataError(f"{where}: must be an object with the fields a, b and similarity")
    for field in ("a", "b"):
        if not isinstance(record[field], str) or record[field] not in place:
            message = f"{field} is {record[field]!a:.60}, which is no document's id"
            raise TrainingDataError(f"{where}: {message}")
    if record["a"] == record["b"]:
        raise TrainingDataError(f"{where}: a and b are both {record['a']!a:.60}")
    similarity = record["similarity"]
    is_number = isinstance(similarity, int | float) and not isinstance(similarity, bool)
    if not is_number or not 0 <= similarity <= 1:
        message = f"similarity is {similarity!a:.60}; it must be a number from 0 to 1"
        raise TrainingDataError(f"{where}: {message}")
    return place[record["a"]], place[record["b"]], float(similarity)


def _grade(name: str) -> float:
    try:
        grade = float(name)
    except ValueError:
        grade = math.nan
    if not math.isfinite(grade):
        raise TrainingDataError(f"label: {name!a:.60} is not a number; graded labels must be")
    return grade
