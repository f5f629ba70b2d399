"""Documents as training data: inputs and classes, the held-out split, and the masking of labels."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.document import Document
from hummingbit.encoder.encoder import Inputs
from hummingbit.evaluation.relevance import Labelled, LabelSet
from hummingbit.foundation.errors import HummingbitError

Rows = npt.NDArray[np.int64]
Tags = npt.NDArray[np.bool_]
"""The classes of each document, ``bool[N, C]``; a row without True is an unlabelled document."""


class TrainingDataError(HummingbitError, ValueError):
    """Documents are not a corpus that training accepts."""


@dataclass(frozen=True)
class TrainingData:
    """N documents: texts or ``float32[N, D]`` vectors, and the `classes` of each.

    `are_matrices` says that the vectors are the upper triangles of symmetric positive definite
    matrices, row by row.
    """

    ids: tuple[str, ...]
    inputs: Inputs
    classes: tuple[str, ...]
    tags: Tags
    are_matrices: bool = False

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_text(self) -> bool:
        """Whether the inputs are texts."""
        return not isinstance(self.inputs, np.ndarray)

    @property
    def is_multi_label(self) -> bool:
        """Whether any document has more than one class."""
        return bool((self.tags.sum(axis=1) > 1).any())

    @cached_property
    def sha256(self) -> str:
        """The hash of ids, classes and contents, in order."""
        digest = hashlib.sha256()
        for row, name in enumerate(self.ids):
            content = self.inputs[row]
            raw = content.encode() if isinstance(content, str) else content.tobytes()
            head = json.dumps([name, np.flatnonzero(self.tags[row]).tolist(), len(raw)])
            digest.update(head.encode() + raw)
        return digest.hexdigest()

    def take(self, rows: Rows) -> Inputs:
        """Return the inputs of `rows`."""
        if isinstance(self.inputs, np.ndarray):
            return self.inputs[rows]
        return [self.inputs[row] for row in rows]

    def select(self, rows: Rows, tags: Tags | None = None) -> TrainingData:
        """Return the documents of `rows`, with other `tags` if these are given."""
        ids = tuple(self.ids[row] for row in rows)
        tags = self.tags[rows] if tags is None else tags
        return replace(self, ids=ids, inputs=self.take(rows), tags=tags)

    def labelled(self, rows: Rows | None = None) -> Labelled:
        """Return the inputs and labels of `rows`, by default of all."""
        if rows is None:
            rows = np.arange(len(self))
        names = [
            tuple(self.classes[column] for column in np.flatnonzero(row)) for row in self.tags[rows]
        ]
        return Labelled(self.take(rows), names)

    def known(self, rows: Rows | None = None) -> Labelled:
        """Return the inputs and labels of those of `rows`, by default of all, that have a label.

        Whether the others are relevant to a query is not known, so no list is judged with them.
        """
        if rows is None:
            rows = np.arange(len(self))
        return self.labelled(rows[self.tags[rows].any(axis=1)])

    def rows_of(self, ids: Iterable[str]) -> Rows:
        """Return the rows of the documents with these ids, in ascending order."""
        return np.flatnonzero(np.isin(self.ids, list(ids)))


def gather(documents: Iterable[Document]) -> TrainingData:
    """Collect `documents` as training data, with classes in alphabetical order.

    Raises:
        TrainingDataError: if there are none, if texts, vectors and matrices are mixed, if vectors
            differ in length, or if a document has a code.
    """
    documents = list(documents)
    if not documents:
        raise TrainingDataError("there are no documents")
    for document in documents:
        if document.code is not None:
            found = f"document {document.id!r} is a code"
            raise TrainingDataError(f"{found}; training takes texts or vectors")
    classes, tags = tags_of([document.labels for document in documents])
    ids = tuple(document.id for document in documents)
    matrices = {document.is_matrix for document in documents}
    if len(matrices) > 1:
        raise TrainingDataError(
            "vector: some documents are matrices and some are not; train on one kind"
        )
    return TrainingData(ids, _inputs(documents), classes, tags, are_matrices=matrices.pop())


def tags_of(labels: Sequence[LabelSet]) -> tuple[tuple[str, ...], Tags]:
    """Return the classes among the labels of N documents, in alphabetical order, and the tags."""
    classes = tuple(sorted({label for label_set in labels for label in label_set}))
    columns = {name: column for column, name in enumerate(classes)}
    tags = np.zeros((len(labels), len(classes)), dtype=np.bool_)
    for row, label_set in enumerate(labels):
        tags[row, [columns[label] for label in label_set]] = True
    return classes, tags


def hold_out(tags: Tags, share: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Return the rows to train on, and a random `share` of the labelled rows for validation."""
    labelled = np.flatnonzero(tags.any(axis=1))
    validation = rng.permutation(labelled)[: round(share * len(labelled))]
    training = np.setdiff1d(np.arange(len(tags)), validation, assume_unique=True)
    return training, np.sort(validation)


def mask_labels(tags: Tags, label_fraction: float, rng: np.random.Generator) -> Tags:
    """Keep the labels of a share `label_fraction` (ρ) of the labelled rows; hide the rest.

    The rows are drawn regardless of class, as in the SSB-VAE paper's experiments.
    """
    labelled = np.flatnonzero(tags.any(axis=1))
    visible_rows = rng.permutation(labelled)[: round(label_fraction * len(labelled))]
    masked = np.zeros_like(tags)
    masked[visible_rows] = tags[visible_rows]
    return masked


def _inputs(documents: list[Document]) -> Inputs:
    vectors = [document.vector for document in documents if document.vector is not None]
    texts = [document.text for document in documents if document.text is not None]
    # Of documents with a text and a vector, an encoder takes the vectors.
    if len(texts) == len(documents) and not 0 < len(documents) == len(vectors):
        return texts
    if len(vectors) < len(documents):
        raise TrainingDataError(
            "text: some documents are texts and some are vectors; train on one kind"
        )
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        found = f"lengths differ, from {lengths[0]} to {lengths[-1]}"
        raise TrainingDataError(f"vector: {found}; all vectors must have the same length")
    return np.stack(vectors).astype(np.float32)
