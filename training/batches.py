"""Mini-batches: rows of a sparse or dense matrix as tensors, and word dropout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


@dataclass(frozen=True)
class SparseBatch:
    """N sparse rows: row i holds `columns` and `values` from ``starts[i]`` for ``lengths[i]``."""

    columns: Tensor
    values: Tensor
    starts: Tensor
    lengths: Tensor

    @classmethod
    def of_rows(cls, matrix: Any, rows: npt.NDArray[np.int64]) -> SparseBatch:
        """Take `rows` of a CSR matrix; only these are copied."""
        taken = matrix[rows]
        return cls(
            columns=torch.from_numpy(taken.indices.astype(np.int64)),
            values=torch.from_numpy(taken.data.astype(np.float32)),
            starts=torch.from_numpy(taken.indptr[:-1].astype(np.int64)),
            lengths=torch.from_numpy(np.diff(taken.indptr).astype(np.int64)),
        )


def drop_words(batch: SparseBatch, probability: float, generator: torch.Generator) -> SparseBatch:
    """Leave out each entry with `probability` and divide the kept ones by 1 − `probability`."""
    if probability == 0:
        return batch
    kept = torch.rand(batch.values.shape, generator=generator) >= probability
    row = torch.repeat_interleave(torch.arange(len(batch.lengths)), batch.lengths)
    lengths = torch.bincount(row[kept], minlength=len(batch.lengths))
    return SparseBatch(
        columns=batch.columns[kept],
        values=batch.values[kept] / (1 - probability),
        starts=lengths.cumsum(0) - lengths,
        lengths=lengths,
    )


def normalized_counts(counts: Any) -> Any:
    """Divide each row of a CSR matrix by its sum: t_v = tf_v / Σ tf. An empty row stays empty."""
    normalized = counts.copy()
    sums = np.add.reduceat(np.append(counts.data, 0.0), counts.indptr[:-1])
    normalized.data /= np.repeat(sums, np.diff(counts.indptr))
    return normalized


def shuffled_batches(
    rows: int, batch_size: int, rng: np.random.Generator
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the numbers 0 … rows − 1 in random order, `batch_size` at a time."""
    order = rng.permutation(rows)
    for start in range(0, rows, batch_size):
        yield order[start : start + batch_size]
