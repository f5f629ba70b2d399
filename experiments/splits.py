"""The documents of a named data set to train on and search, and its queries."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from hummingbit.corpus.readers import read_documents
from hummingbit.training.data import TrainingData, gather
from hummingbit.training.teachers import read_teacher


@cache
def read_split(
    dataset: str, data_root: Path | None, vectors: Path | None = None
) -> tuple[TrainingData, TrainingData]:
    """Return the documents to train on and search, and the queries.

    Raises:
        ReadError: if the data set or the file of vectors cannot be read.
        TeacherError: if the file lacks the vector of a document.
    """
    names = (f"{dataset}:train", f"{dataset}:test")
    train_data, test_data = (gather(read_documents(name, data_root=data_root)) for name in names)
    if vectors is None:
        return train_data, test_data
    return _with_vectors(train_data, vectors), _with_vectors(test_data, vectors)


def _with_vectors(data: TrainingData, path: Path) -> TrainingData:
    return replace(data, inputs=read_teacher(str(path), data).vectors)
