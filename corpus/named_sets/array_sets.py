"""Readers of named data sets that are arrays: vectors, images and covariances."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from corpus.columns import Array, load_arrays
from corpus.document import Document
from corpus.matrices import upper_triangle
from corpus.rows import ReadError

# The covariance of a sequence of few frames has low rank. To make it positive definite, this share
# of the mean variance is added to the diagonal.
HDM05_RIDGE = 1e-3


def read_tmc(paths: list[Path], split: str) -> Iterator[Document]:
    """Yield vectors of 500 binary terms, each with all tags of the document."""
    (path,) = paths
    start, terms, tags = f"x_{split}_indptr", f"x_{split}_indices", f"y_{split}"
    arrays = load_arrays(path, (start, terms, tags, "feature_names", "label_names"))
    starts, names = arrays[start].tolist(), arrays["label_names"]
    _check_rows(path, tags, arrays[tags], len(starts) - 1)
    for place, has_tag in enumerate(arrays[tags]):
        vector = np.zeros(len(arrays["feature_names"]), dtype=np.float32)
        vector[arrays[terms][starts[place] : starts[place + 1]]] = 1.0
        labels = tuple(str(label) for label in names[np.flatnonzero(has_tag)])
        yield Document(id=f"{split}-{place:05d}", vector=vector, labels=labels)


def read_cifar10(paths: list[Path], split: str) -> Iterator[Document]:
    """Yield 256 principal components of each image's MobileNetV2 features."""
    (path,) = paths
    arrays = load_arrays(path, (split, f"{split}_index", f"y_{split}"))
    ids = [f"{split}-{index:05d}" for index in arrays[f"{split}_index"].tolist()]
    labels = arrays[f"y_{split}"]
    _check_rows(path, f"y_{split}", labels, len(ids))
    _check_rows(path, split, arrays[split], len(ids))
    for id_, vector, label in zip(ids, arrays[split], labels.tolist(), strict=True):
        yield Document(id=id_, vector=vector.astype(np.float32), labels=(str(label),))


def read_mnist(paths: list[Path], split: str) -> Iterator[Document]:
    """Yield the 784 grey values of each image, from 0 to 1."""
    (path,) = paths
    arrays = load_arrays(path, (f"x_{split}", f"y_{split}"))
    images, labels = arrays[f"x_{split}"], arrays[f"y_{split}"]
    _check_rows(path, f"y_{split}", labels, len(images))
    for place, (image, label) in enumerate(zip(images, labels.tolist(), strict=True)):
        vector = image.reshape(-1).astype(np.float32) / np.float32(255)
        yield Document(id=f"{split}-{place:05d}", vector=vector, labels=(str(label),))


def read_hdm05(paths: list[Path], split: str) -> Iterator[Document]:
    """Yield the covariance of the joints' coordinates in each sequence of a split."""
    (path,) = paths
    arrays = load_arrays(path, ("joints30", "offsets", "label", "split", "name"))
    starts = arrays["offsets"].tolist()
    for name in ("label", "split", "name"):
        _check_rows(path, name, arrays[name], len(starts) - 1)
    for place in np.flatnonzero(arrays["split"] == split).tolist():
        joints = arrays["joints30"][starts[place] : starts[place + 1]].astype(np.float64)
        relative = (joints - joints[:, :1]).reshape(len(joints), -1)
        covariance = np.cov(relative, rowvar=False)
        covariance += HDM05_RIDGE * covariance.trace() / len(covariance) * np.eye(len(covariance))
        label, name = str(arrays["label"][place]), str(arrays["name"][place])
        yield _matrix_document(path, name, covariance, label)


def read_eeg_erp(paths: list[Path], _split: str) -> Iterator[Document]:
    """Yield the covariance of each trial."""
    (path,) = paths
    arrays = load_arrays(path, ("cov", "label"))
    _check_rows(path, "label", arrays["label"], len(arrays["cov"]))
    for place, covariance in enumerate(arrays["cov"]):
        label = str(arrays["label"][place])
        yield _matrix_document(path, f"trial-{place:03d}", covariance, label)


def _matrix_document(path: Path, id_: str, matrix: Array, label: str) -> Document:
    try:
        vector = upper_triangle(matrix)
    except ValueError as error:
        raise ReadError(f"{path}: {id_}: {error}") from None
    return Document(id=id_, vector=vector, labels=(label,), is_matrix=True)


def _check_rows(path: Path, name: str, array: Array, length: int) -> None:
    if array.ndim == 0 or len(array) != length:
        found = f"{name} has shape {list(array.shape)}"
        raise ReadError(f"{path}: {found}; it must have {length:,} rows")
