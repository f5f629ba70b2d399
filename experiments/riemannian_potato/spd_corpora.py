"""Labelled symmetric positive definite matrices, split into training and test."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from experiments.saved_tensors import content_sha256
from hummingbit.corpus.readers import read_documents
from hummingbit.encoder.vector_features import Matrices
from hummingbit.training.data import gather
from hummingbit.training.spd import matrices_of, whitening

Labels = npt.NDArray[np.int64]

# The parameters of the Wishart classes.
CLASSES = 6
ORDER = 16
SIGNAL = 4
DEGREES_OF_FREEDOM = 32
PER_CLASS = 60
SPREAD = 0.35
NUISANCE = 1.0


@dataclass(frozen=True)
class SpdCorpus:
    """Matrices ``[N, n, n]`` with class numbers ``[N]``, for training and test."""

    training: Matrices
    training_labels: Labels
    test: Matrices
    test_labels: Labels

    @cached_property
    def center(self) -> Matrices:
        """The matrix that centres the training matrices; see :func:`whitening`."""
        return whitening(self.training)

    @cached_property
    def sha256(self) -> str:
        """The hash of all matrices and labels."""
        return content_sha256(self.training, self.training_labels, self.test, self.test_labels)

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(max(self.training_labels.max(), self.test_labels.max())) + 1


def read_corpus(dataset: str, seed: int, data_root: Path | None) -> SpdCorpus:
    """Return `hdm05`, `erp` or `wishart`.

    HDM05 is split by person, the same way for every seed. Of the others, a random half of each
    class is the test; `seed` determines which.

    Raises:
        ReadError: if the data is not in `data_root`.
    """
    if dataset == "wishart":
        return draw_wishart(seed)
    if dataset == "hdm05":
        training = gather(read_documents("hdm05:train", data_root=data_root))
        test = gather(read_documents("hdm05:test", data_root=data_root))
        return SpdCorpus(
            matrices_of(np.asarray(training.inputs)),
            training.tags.argmax(axis=1),
            matrices_of(np.asarray(test.inputs)),
            test.tags.argmax(axis=1),
        )
    data = gather(read_documents("eeg-erp", data_root=data_root))
    return _split_in_halves(matrices_of(np.asarray(data.inputs)), data.tags.argmax(axis=1), seed)


def draw_wishart(seed: int) -> SpdCorpus:
    """Draw 6 classes of 60 matrices, half of them for the test.

    X = Q Aᵀ W A Qᵀ / ν with W ~ Wishart(I, ν). All matrices share the rotation Q. A has two blocks.
    One is 4 × 4 and belongs to the class: the exponential of a symmetric Gaussian matrix. The other
    belongs to the example: a diagonal of log-normal scales, larger and unrelated to the class. A
    network must find the subspace in which the classes differ.
    """
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.standard_normal((ORDER, ORDER)))
    blocks = [_exponential(SPREAD * rng.standard_normal((SIGNAL, SIGNAL))) for _ in range(CLASSES)]
    labels = np.repeat(np.arange(CLASSES), PER_CLASS)
    matrices = np.empty((len(labels), ORDER, ORDER))
    for row, label in enumerate(labels):
        a = np.diag(np.exp(NUISANCE * rng.standard_normal(ORDER)))
        a[:SIGNAL, :SIGNAL] = blocks[label]
        samples = rng.standard_normal((DEGREES_OF_FREEDOM, ORDER)) @ a @ rotation.T
        matrices[row] = samples.T @ samples / DEGREES_OF_FREEDOM
    return _split_in_halves(matrices, labels, seed)


def _exponential(matrix: Matrices) -> Matrices:
    """Return the exponential of the symmetric part of a matrix."""
    eigenvalues, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.exp(eigenvalues)) @ vectors.T)


def _split_in_halves(matrices: Matrices, labels: Labels, seed: int) -> SpdCorpus:
    """Split matrices: a random half of each class is the test."""
    rng = np.random.default_rng(seed)
    in_test = np.zeros(len(labels), dtype=np.bool_)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        in_test[rows[: len(rows) // 2]] = True
    return SpdCorpus(matrices[~in_test], labels[~in_test], matrices[in_test], labels[in_test])
