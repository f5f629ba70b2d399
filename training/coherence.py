"""Where an encoder does not rank as its teacher does: the coherence level of each document.

Source: perception coherence (Nguyen et al. 2026), Definitions 3.2 and 3.3, with the exact ranks of
:mod:`hummingbit.training.objectives.perception_coherence`. For N documents, teacher dissimilarities
d₂ and the encoder's d₁, the level of document i is

    φ(i) = 1 − (1/(N−1)) Σ_{j≠i} |F̂₁(i, j) − F̂₂(i, j)|
    F̂(i, j) = #{k ≠ i : d(i, k) ≤ d(i, j)} / (N−1)

Half of the ties count, since Hamming distances have few values. The document itself is left out: it
is nearest to itself for both, and would raise every level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hummingbit.encoder.codes import Codes, unpack_codes
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.text_features import Floats
from hummingbit.evaluation.result import EvaluationError
from hummingbit.evaluation.significance import Interval, bootstrap_intervals
from hummingbit.training.data import TrainingData
from hummingbit.training.objectives.dissimilarity import cosine_dissimilarity
from hummingbit.training.objectives.perception_coherence import rank_differences

RANKINGS = ("hamming", "asymmetric")
CodeRanking = Literal["hamming", "asymmetric"]
NORMAL_QUANTILE = 1.96
"""Of an interval of 95 %."""
# Dissimilarities of this many pairs are ranked at a time, which takes some 400 MB.
_PAIRS_AT_A_TIME = 4_000_000


@dataclass(frozen=True)
class DocumentLevels:
    """The coherence levels of N documents, by row of the data that was compared.

    ``levels`` is φ, float64[N]. ``margins`` is half the width of a 95 % interval of each, the
    normal approximation for the mean of its N − 1 terms: it covers the level among all documents
    where these N are a sample. ``teacher_nearest`` is the row of the document that the teacher
    has nearest, and ``nearest_rank`` that document's rank for the encoder, from 1, in the middle
    of its ties. ``encoder_nearest`` is the row of the encoder's nearest; ties go to the first row.
    """

    levels: npt.NDArray[np.float64]
    margins: npt.NDArray[np.float64]
    teacher_nearest: npt.NDArray[np.int64]
    encoder_nearest: npt.NDArray[np.int64]
    nearest_rank: npt.NDArray[np.float64]

    def mean(self) -> Interval:
        """Return the global level, the mean of the levels, with its bootstrap interval."""
        return bootstrap_intervals({"level": self.levels})["level"]

    def worst(self) -> npt.NDArray[np.int64]:
        """Return the rows from the lowest level to the highest; equal levels by row."""
        return np.argsort(self.levels, kind="stable")


def document_levels(
    encoder: Encoder, data: TrainingData, vectors: Floats, ranking: CodeRanking = "hamming"
) -> DocumentLevels:
    """Compare how an encoder and a teacher rank the other documents of `data` for each.

    `vectors`, ``float32[N, E]``, are the teacher's, compared by cosine dissimilarity. The encoder
    ranks by the Hamming distance of codes or, with ``asymmetric``, by the sum of the real-valued
    weights of document i over the bits of document j, as searches do.

    Raises:
        InputError: if the encoder does not take the documents.
        EvaluationError: if there are fewer than three documents.
        ValueError: if a vector is zero or not finite.
    """
    n = len(data)
    if n < 3:
        raise EvaluationError(f"there are {n} documents; coherence needs at least 3")
    codes = encoder.encode(data.inputs)
    signs = _signs(codes)
    queries = signs if ranking == "hamming" else _weights(encoder, data)
    teacher = torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float64))
    parts = [
        _block_levels(rows, queries, signs, teacher) for rows in _blocks(n, _PAIRS_AT_A_TIME // n)
    ]
    return DocumentLevels(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def mean_by_class(
    found: DocumentLevels, data: TrainingData, least: int = 5
) -> list[tuple[str, int, Interval]]:
    """Return name, number of documents and mean level of each class, the lowest first.

    Classes of fewer than `least` documents are left out: their mean says little.
    """
    means = []
    for column, name in enumerate(data.classes):
        rows = np.flatnonzero(data.tags[:, column])
        if len(rows) >= least:
            interval = bootstrap_intervals({name: found.levels[rows]})[name]
            means.append((name, len(rows), interval))
    return sorted(means, key=lambda mean: mean[2].mean)


def _signs(codes: Codes) -> Tensor:
    return torch.from_numpy(unpack_codes(codes).astype(np.float64) * 2 - 1)


def _weights(encoder: Encoder, data: TrainingData) -> Tensor:
    return torch.from_numpy(encoder.query_weights(data.inputs)).double()


def _blocks(n: int, size: int) -> Iterator[npt.NDArray[np.int64]]:
    for start in range(0, n, max(size, 1)):
        yield np.arange(start, min(start + max(size, 1), n))


def _block_levels(
    rows: npt.NDArray[np.int64], queries: Tensor, signs: Tensor, teacher: Tensor
) -> Sequence[npt.NDArray[np.float64] | npt.NDArray[np.int64]]:
    """Return the columns of :class:`DocumentLevels` for the documents `rows`."""
    n = len(signs)
    others_BN = torch.from_numpy(rows)[:, None] != torch.arange(n)
    columns_BM = torch.arange(n).expand(len(rows), n)[others_BN].reshape(len(rows), n - 1)
    # Doubles rounded to floats, so that what is equally far is equally far in spite of rounding.
    encoder_BM = (queries[rows] @ signs.T).neg().float().gather(1, columns_BM)
    teacher_BM = cosine_dissimilarity(teacher[rows], teacher).float().gather(1, columns_BM)
    differences_BM = rank_differences(encoder_BM, teacher_BM, ties="middle")
    nearest_B1 = teacher_BM.argmin(dim=1, keepdim=True)
    distance_B1 = encoder_BM.gather(1, nearest_B1)
    nearer_B = (encoder_BM < distance_B1).sum(dim=1)
    tied_B = (encoder_BM == distance_B1).sum(dim=1)
    margins_B = NORMAL_QUANTILE * differences_BM.std(dim=1) / np.sqrt(n - 1)
    return (
        (1 - differences_BM.mean(dim=1)).numpy(),
        margins_B.numpy(),
        columns_BM.gather(1, nearest_B1)[:, 0].numpy(),
        columns_BM.gather(1, encoder_BM.argmin(dim=1, keepdim=True))[:, 0].numpy(),
        (nearer_B + (tied_B + 1) / 2).numpy().astype(np.float64),
    )
