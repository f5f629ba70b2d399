"""Where an encoder does not rank as its teacher does: the coherence level of each document.

Source: perception coherence (Nguyen et al. 2026), Definitions 3.2 and 3.3, with exact ranks. For N
documents, teacher dissimilarities d₂ and the encoder's d₁, the level of document i is

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

from hummingbit.encoder.codes import Codes, unpack_codes
from hummingbit.encoder.encoder import Encoder, Inputs
from hummingbit.encoder.text_features import Floats
from hummingbit.evaluation.result import EvaluationError
from hummingbit.evaluation.significance import Interval, bootstrap_intervals
from hummingbit.foundation.cancellation import check_cancelled

CodeRanking = Literal["hamming", "asymmetric"]
NORMAL_QUANTILE = 1.96
"""Of an interval of 95 %."""
# Dissimilarities of this many pairs are ranked at a time, which takes some 200 MB.
_PAIRS_AT_A_TIME = 2_000_000


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
    encoder: Encoder, inputs: Inputs, vectors: Floats, ranking: CodeRanking = "hamming"
) -> DocumentLevels:
    """Compare how an encoder and a teacher rank the other documents of `inputs` for each.

    `vectors`, ``float32[N, E]``, are the teacher's, compared by cosine dissimilarity. The encoder
    ranks by the Hamming distance of codes or, with ``asymmetric``, by the sum of the real-valued
    weights of document i over the bits of document j, as searches do.

    Raises:
        InputError: if the encoder does not take the documents.
        EvaluationError: if there are fewer than three documents, or a vector is zero or not finite.
    """
    weights = encoder.query_weights(inputs) if ranking == "asymmetric" else None
    return levels_of_codes(encoder.encode(inputs), vectors, weights)


def levels_of_codes(codes: Codes, vectors: Floats, weights: Floats | None = None) -> DocumentLevels:
    """Compare how `codes`, uint8[N, C], and a teacher's `vectors` rank documents for each other.

    Codes rank by Hamming distance or, with `weights`, ``float32[N, B]``, by their sums over bits.

    Raises:
        EvaluationError: if there are fewer than three documents, or a vector is zero or not finite.
    """
    n = len(codes)
    if n < 3:
        raise EvaluationError(f"there are {n} documents; coherence needs at least 3")
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and lengths.all()):
        raise EvaluationError("a vector is zero or not finite; cosines need a direction")
    signs = unpack_codes(codes).astype(np.float64) * 2 - 1
    queries = signs if weights is None else weights.astype(np.float64)
    unit = vectors.astype(np.float64) / lengths
    parts = [
        _block_levels(rows, queries, signs, unit) for rows in _blocks(n, _PAIRS_AT_A_TIME // n)
    ]
    return DocumentLevels(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def mean_by_class(
    found: DocumentLevels, classes: Sequence[str], tags: npt.NDArray[np.bool_], least: int = 5
) -> list[tuple[str, int, Interval]]:
    """Return name, number of documents and mean level of each class, the lowest first.

    `tags`, bool[N, C], are the `classes` of each document. Classes of fewer than `least` documents
    are left out: their mean says little.
    """
    means = []
    for column, name in enumerate(classes):
        rows = np.flatnonzero(tags[:, column])
        if len(rows) >= least:
            interval = bootstrap_intervals({name: found.levels[rows]})[name]
            means.append((name, len(rows), interval))
    return sorted(means, key=lambda mean: mean[2].mean)


def _blocks(n: int, size: int) -> Iterator[npt.NDArray[np.int64]]:
    for start in range(0, n, max(size, 1)):
        check_cancelled()
        yield np.arange(start, min(start + max(size, 1), n))


def _block_levels(
    rows: npt.NDArray[np.int64],
    queries: npt.NDArray[np.float64],
    signs: npt.NDArray[np.float64],
    unit: npt.NDArray[np.float64],
) -> Sequence[npt.NDArray[np.float64] | npt.NDArray[np.int64]]:
    """Return the columns of :class:`DocumentLevels` for the documents `rows`."""
    n = len(signs)
    is_other = rows[:, None] != np.arange(n)
    columns = np.broadcast_to(np.arange(n), is_other.shape)[is_other].reshape(len(rows), n - 1)
    # Doubles rounded to floats, so that what is equally far is equally far in spite of rounding.
    of_encoder, of_teacher = (
        (-(x[rows] @ y.T)).astype(np.float32)[is_other].reshape(columns.shape)
        for x, y in ((queries, signs), (unit, unit))
    )
    differences = np.abs(_ranks(of_encoder) - _ranks(of_teacher)) / (n - 1)
    every = np.arange(len(rows))
    nearest = of_teacher.argmin(axis=1)
    distance = of_encoder[every, nearest][:, None]
    nearer, tied = (of_encoder < distance).sum(axis=1), (of_encoder == distance).sum(axis=1)
    return (
        1 - differences.mean(axis=1),
        NORMAL_QUANTILE * differences.std(axis=1, ddof=1) / np.sqrt(n - 1),
        columns[every, nearest],
        columns[every, of_encoder.argmin(axis=1)],
        nearer + (tied + 1) / 2,
    )


def _ranks(distances: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return how many of a row are nearer, and half of those that are as near, with itself."""
    ranks = np.empty(distances.shape)
    for row, values in enumerate(distances):
        ordered = np.sort(values)
        below, up_to = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
        ranks[row] = (below + up_to) / 2
    return ranks
