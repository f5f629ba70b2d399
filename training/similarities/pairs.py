"""Similarities of pairs of documents, from their labels or from a file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from corpus.detection.compressions import open_bytes
from corpus.json_rows import read_json_lines
from corpus.rows import ReadError
from training.data import Rows, Tags, TrainingDataError
from training.similarities.label_tree import Table

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Pairs:
    """M pairs among N documents, with their similarities.

    `first` and `second`, int64[M], are the positions of the documents, and `similarity` is
    float32[M], from 0 to 1.
    """

    first: Rows
    second: Rows
    similarity: Floats

    @property
    def spread(self) -> float:
        """The greatest similarity minus the least; 0 if all are equal or there are no pairs."""
        return float(np.ptp(self.similarity)) if len(self.similarity) else 0.0


class PairSource(Protocol):
    """The source of batches: items to draw, each a document or a pair of documents."""

    def __len__(self) -> int:
        """Return the number of items."""

    def batch(self, items: Rows) -> tuple[Rows, Pairs]:
        """Return the documents of a batch, int64[N] rows of the corpus, and the pairs among them.

        `items` are distinct numbers, from 0 to the number of items − 1.
        """


class LabelledPairs:
    """Items are labelled documents; the pairs of a batch are all pairs of its documents.

    `classes_CC` has the similarities of classes, ``float32[C, C]``. For documents with several
    classes, the most similar classes count.

    Raises:
        TrainingDataError: if fewer than two classes occur.
    """

    def __init__(self, tags: Tags, classes_CC: Table) -> None:
        self._rows: Rows = np.flatnonzero(tags.any(axis=1))
        self._tags = tags[self._rows]
        self._table = classes_CC
        n_classes = int(self._tags.any(axis=0).sum())
        if n_classes < 2:
            raise TrainingDataError(
                f"label: the labelled documents have {n_classes} of the classes; pairs of one class"
                " are all equally similar, so at least two classes are needed"
            )

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, items: Rows) -> tuple[Rows, Pairs]:
        """See :class:`PairSource`."""
        tags = self._tags[items]
        first, second = np.triu_indices(len(items), k=1)
        if (tags.sum(axis=1) == 1).all():
            classes = tags.argmax(axis=1)
            similarity = self._table[classes[first], classes[second]]
        else:
            # The maximum over the classes of each document, then over the classes of the other.
            nearest_NC = np.stack([self._table[row].max(axis=0) for row in tags])
            nearest_NN = np.stack([np.where(tags, row, 0).max(axis=1) for row in nearest_NC])
            similarity = nearest_NN[first, second]
        return self._rows[items], Pairs(first, second, similarity)


class ListedPairs:
    """Items are pairs of documents; the pairs of a batch are its items.

    Raises:
        TrainingDataError: if all pairs are equally similar.
    """

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        if pairs.spread == 0:
            raise TrainingDataError(
                f"similarity: all {len(pairs.similarity):,} pairs are equally similar; there must"
                " be at least two degrees of similarity"
            )

    def __len__(self) -> int:
        return len(self._pairs.similarity)

    def batch(self, items: Rows) -> tuple[Rows, Pairs]:
        """See :class:`PairSource`."""
        documents = np.concatenate([self._pairs.first[items], self._pairs.second[items]])
        rows, positions = np.unique(documents, return_inverse=True)
        first, second = np.split(positions.astype(np.int64), 2)
        return rows, Pairs(first, second, self._pairs.similarity[items])


def equal_classes(classes: Sequence[str]) -> Table:
    """Return 1 for the same class and 0 for any other, ``float32[C, C]``."""
    return np.eye(len(classes), dtype=np.float32)


def graded_classes(classes: Sequence[str]) -> Table:
    """Return 1 − |g − g'| / (greatest − least grade) of classes that are numbers.

    Raises:
        TrainingDataError: if a class is not a finite number, or all classes are the same number.
    """
    grades = np.array([_grade(name) for name in classes])
    spread = float(np.ptp(grades)) if len(grades) else 0.0
    if spread == 0:
        raise TrainingDataError("label: all grades are the same; there must be at least two")
    table: Table = (1 - np.abs(grades[:, None] - grades) / spread).astype(np.float32)
    return table


def read_pairs(path: Path, ids: Sequence[str]) -> Pairs:
    """Read JSON lines ``{"a": ID, "b": ID, "similarity": 0 to 1}``; positions are those in `ids`.

    Raises:
        TrainingDataError: if a line is not such an object, an id is not one of `ids`, both are the
            same, or the similarity is not a number from 0 to 1 (the message names the line); or if
            the file cannot be read or is empty.
    """
    positions = {id_: position for position, id_ in enumerate(ids)}
    pairs: list[tuple[int, int, float]] = []
    try:
        with open_bytes(path) as stream:
            for row in read_json_lines(stream, str(path)):
                location = f"pairs: {path}:{row.line}"
                if row.reason is not None:
                    raise TrainingDataError(f"{location}: {row.reason}")
                pairs.append(_parse_pair(row.record, positions, location))
    except (OSError, ReadError) as error:
        raise TrainingDataError(f"pairs: {path}: cannot be read: {error}") from None
    if not pairs:
        raise TrainingDataError(f"pairs: {path}: is empty; it must hold at least two pairs")
    first, second, similarity = zip(*pairs, strict=True)
    return Pairs(
        np.array(first, dtype=np.int64),
        np.array(second, dtype=np.int64),
        np.array(similarity, dtype=np.float32),
    )


def _parse_pair(record: Any, positions: dict[str, int], location: str) -> tuple[int, int, float]:
    if not isinstance(record, dict) or set(record) != {"a", "b", "similarity"}:
        raise TrainingDataError(f"{location}: must be an object with fields a, b and similarity")
    for field in ("a", "b"):
        if not isinstance(record[field], str) or record[field] not in positions:
            message = f"{field} is {record[field]!r:.60}; it must be the id of a document"
            raise TrainingDataError(f"{location}: {message}")
    if record["a"] == record["b"]:
        message = f"a and b are both {record['a']!r:.60}; they must differ"
        raise TrainingDataError(f"{location}: {message}")
    similarity = record["similarity"]
    is_number = isinstance(similarity, int | float) and not isinstance(similarity, bool)
    if not is_number or not 0 <= similarity <= 1:
        message = f"similarity is {similarity!r:.60}; it must be a number from 0 to 1"
        raise TrainingDataError(f"{location}: {message}")
    return positions[record["a"]], positions[record["b"]], float(similarity)


def _grade(name: str) -> float:
    try:
        grade = float(name)
    except ValueError:
        grade = math.nan
    if not math.isfinite(grade):
        raise TrainingDataError(
            f"label: {name!r:.60} is not a number; graded labels must be numbers"
        )
    return grade
