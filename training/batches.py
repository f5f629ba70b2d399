"""Mini-batches: rows of a sparse or dense matrix as tensors, with word dropout or noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hummingbit.encoder.encoder import Features, Inputs
from hummingbit.encoder.text_features import Floats, TextFeatures
from hummingbit.encoder.vector_features import SpdFeatures
from hummingbit.foundation.arrays import numbers_of_runs
from hummingbit.training.data import Rows


@dataclass(frozen=True)
class SparseBatch:
    """N sparse rows: row i is the ``lengths[i]`` `columns` and `values` from ``starts[i]`` on."""

    columns: Tensor
    values: Tensor
    starts: Tensor
    lengths: Tensor

    @classmethod
    def of_rows(cls, matrix: Any, rows: npt.NDArray[np.int64]) -> SparseBatch:
        """Return `rows` of a CSR matrix as a batch; only these are copied."""
        entries, lengths = entries_of(matrix.indptr, rows)
        return cls.of_entries(matrix.indices[entries], matrix.data[entries], lengths)

    @classmethod
    def of_matrix(cls, matrix: Any) -> SparseBatch:
        """Return all rows of a CSR matrix as a batch."""
        return cls.of_entries(matrix.indices, matrix.data, np.diff(matrix.indptr))

    @classmethod
    def of_entries(cls, columns: Any, values: Any, lengths: Any) -> SparseBatch:
        """Return the rows that have so many of the entries each, one row after the other."""
        lengths = lengths.astype(np.int64, copy=False)
        return cls(
            columns=torch.from_numpy(columns.astype(np.int64, copy=False)),
            values=torch.from_numpy(values.astype(np.float32, copy=False)),
            starts=torch.from_numpy(lengths.cumsum() - lengths),
            lengths=torch.from_numpy(lengths),
        )

    def followed_by(self, other: SparseBatch) -> SparseBatch:
        """Return the rows of this batch and, after them, those of `other`."""
        return SparseBatch(
            columns=torch.cat([self.columns, other.columns]),
            values=torch.cat([self.values, other.values]),
            starts=torch.cat([self.starts, other.starts + len(self.columns)]),
            lengths=torch.cat([self.lengths, other.lengths]),
        )

    def row_of_entries(self) -> npt.NDArray[np.int64]:
        """Return the row of each entry, ``int64[M]``; the batch must be on the CPU."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths.numpy())

    def to(self, device: torch.device) -> SparseBatch:
        """Return the batch on `device`."""
        tensors = (self.columns, self.values, self.starts, self.lengths)
        return SparseBatch(*(tensor.to(device) for tensor in tensors))


def drop_words(batch: SparseBatch, mean_rate: float, generator: torch.Generator) -> SparseBatch:
    """Drop entries of each row at a rate of its own, and preserve the length of the row.

    The rate of a row is drawn from U(0, 2 · `mean_rate`). So a network sees documents at every
    length, from the whole text to a word or two, as in a short query. The remaining entries are
    scaled to the original Euclidean length of the row.
    """
    if mean_rate == 0:
        return batch
    # numpy selects entries in a fraction of torch's time.
    n_rows, row, values = len(batch.lengths), batch.row_of_entries(), batch.values.numpy()
    rate_N = 2 * mean_rate * torch.rand(n_rows, generator=generator).numpy()
    keep = torch.rand(batch.values.shape, generator=generator).numpy() >= rate_N[row]
    kept = np.flatnonzero(keep)
    of_kept, kept_values = row[kept], values[kept]
    before_N = np.bincount(row, values * values, n_rows)
    after_N = np.bincount(of_kept, kept_values * kept_values, n_rows)
    growth_N = np.sqrt(before_N / np.maximum(after_N, 1e-12)).astype(np.float32)
    return SparseBatch.of_entries(
        batch.columns.numpy()[kept],
        kept_values * growth_N[of_kept],
        np.bincount(of_kept, minlength=n_rows),
    )


def entries_of(
    indptr: npt.NDArray[Any], rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the numbers of the entries of `rows` of a CSR matrix, and how many each row has.

    scipy takes several times as long to select a few rows.
    """
    starts, ends = indptr[rows].astype(np.int64), indptr[rows + 1].astype(np.int64)
    lengths = ends - starts
    return numbers_of_runs(starts, lengths), lengths


def add_noise(x_ND: Tensor, mean_size: float, generator: torch.Generator) -> Tensor:
    """Add Gaussian noise to each row, u times as long as the row, with u ~ U(0, 2 · `mean_size`).

    It corresponds to :func:`drop_words` for texts: a network sees documents at several distances.
    The length of the noise is its root mean square.
    """
    if mean_size == 0:
        return x_ND
    size_N1 = 2 * mean_size * torch.rand((len(x_ND), 1), generator=generator)
    entry_N1 = x_ND.square().mean(dim=1, keepdim=True).sqrt()
    return x_ND + size_N1 * entry_N1 * torch.randn(x_ND.shape, generator=generator)


def word_distribution(counts: Any, idf: Floats | None = None) -> Any:
    """Return t_v = tf_v · idf_v / Σ tf · idf for each row of a CSR matrix; empty rows stay 0."""
    weighted = counts.copy()
    if idf is not None:
        weighted.data *= idf[weighted.indices]
    sums = np.add.reduceat(np.append(weighted.data, 0.0), weighted.indptr[:-1])
    weighted.data /= np.repeat(sums, np.diff(weighted.indptr))
    return weighted


def share_of_terms(distributions: Any) -> Floats:
    """Return the mean of distributions over terms, a CSR matrix ``(N, V)``, without zeros."""
    total = np.asarray(distributions.sum(axis=0), dtype=np.float64).ravel()
    total = np.maximum(total, 1e-3 * total.mean())
    return np.asarray(total / total.sum(), dtype=np.float32)


def shuffled_batches(
    rows: int, batch_size: int, rng: np.random.Generator
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the numbers 0 … rows − 1 in random order, `batch_size` at a time.

    A last row that would be alone joins the batch before it, since losses compare rows.
    """
    order = rng.permutation(rows)
    starts = list(range(0, rows, batch_size))
    if rows % batch_size == 1 and len(starts) > 1:
        starts.pop()
    for start, end in zip(starts, [*starts[1:], rows], strict=True):
        yield order[start:end]


class TrainingInputs:
    """Features of N documents and the targets of their reconstruction, in batches.

    The target of a text is the distribution of its words, weighted by idf with `idf_target`. The
    target of a vector is the vector, scaled with `scale_target` to a mean squared length of 1.
    Matrices are not transformed, float64, since their features are learned.
    """

    def __init__(
        self,
        features: Features,
        inputs: Inputs,
        *,
        idf_target: bool = True,
        scale_target: bool = False,
    ) -> None:
        self.x: Any
        """The features, sparse for texts."""
        self._target_scale = 1.0
        self.targets: Any
        """The targets of the decoder, before `scale_target`."""
        if isinstance(features, TextFeatures):
            texts = [str(text) for text in inputs]
            counts = features.count_terms(texts)
            self.x = features.add_summaries(features.weigh(counts), texts)
            self.targets = word_distribution(counts, features.idf if idf_target else None)
        elif isinstance(features, SpdFeatures):
            self.x = self.targets = features.matrices(np.asarray(inputs))
        else:
            self.x = self.targets = features.transform(np.asarray(inputs))  # type: ignore[arg-type]
            if scale_target and self.x.any():
                self._target_scale = float(np.sqrt(len(self.x)) / np.linalg.norm(self.x))

    def batch(
        self,
        rows: Rows,
        word_dropout: float,
        generator: torch.Generator,
        vector_noise: float = 0.0,
    ) -> tuple[SparseBatch | Tensor, SparseBatch | Tensor]:
        """Return the features of `rows` and their targets.

        Words of texts drop out at the mean rate `word_dropout`. Vectors get noise of the mean size
        `vector_noise`.
        """
        if isinstance(self.x, np.ndarray):
            x_ND = torch.from_numpy(self.x[rows])
            return add_noise(x_ND, vector_noise, generator), self._target_scale * x_ND
        x = drop_words(SparseBatch.of_rows(self.x, rows), word_dropout, generator)
        return x, SparseBatch.of_rows(self.targets, rows)


def vector_scale(features: Features, inputs: Inputs) -> float:
    """Return the scale that makes the mean square of the entries of vectors 1; 1 for texts."""
    if isinstance(features, TextFeatures):
        return 1.0
    rows = features.transform(np.asarray(inputs))  # type: ignore[arg-type]
    return float(np.sqrt(rows.size) / np.linalg.norm(rows)) if rows.any() else 1.0


def touches_few_terms(features: Features, inputs: Inputs, batch_size: int) -> bool:
    """Return whether a batch of texts has at most half as many words as the vocabulary has terms.

    The gradient of the first layer is then sparse, and rows of other terms are not touched. With
    more words, summing those of the same term costs more than processing all rows. The number of
    words in a text is estimated from the first thousand texts.
    """
    if not isinstance(features, TextFeatures):
        return False
    first = [str(text) for text in inputs[:1000]]
    words = features.count_terms(first).nnz / len(first)
    return bool(batch_size * words <= features.dimension / 2)
