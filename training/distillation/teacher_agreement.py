"""How far an encoder's Hamming distances agree with a teacher's dissimilarities, without labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from encoder.codes import Codes, unpack_codes
from encoder.encoder import Encoder
from encoder.features import Floats
from training.data import TrainingData
from training.objectives.dissimilarity import cosine_dissimilarity
from training.objectives.perception_coherence import coherence_levels
from training.pipeline import Split

NEIGHBOURS, NEAREST = 100, 10
MAX_QUERIES = 1000
MAX_DOCUMENTS = 10_000


@dataclass(frozen=True)
class Agreement:
    """How far a student and a teacher agree, from 0 to 1.

    `coherence` is the mean coherence level of the queries, with half of the ties counted, since
    Hamming distances have few values
    (:func:`training.objectives.perception_coherence.coherence_levels`). `neighbours` is the share
    of the teacher's 100 nearest documents among the student's 100, and `nearest` that of its ten
    nearest among the student's 100, with ties ordered by row.
    """

    coherence: float
    neighbours: float
    nearest: float
    queries: int
    documents: int

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain JSON values."""
        return {
            "level": self.coherence,
            "neighbours": self.neighbours,
            "nearest": self.nearest,
            "queries": self.queries,
            "documents": self.documents,
        }


def measure_agreement(
    query_codes: Codes,
    database_codes: Codes,
    query_vectors: Floats,
    database_vectors: Floats,
    seed: int = 0,
) -> Agreement:
    """Compare how codes and a teacher's vectors rank a database for each query.

    Codes rank by Hamming distance, and vectors by cosine dissimilarity. At most 1,000 queries and
    10,000 documents are used, drawn with `seed`.

    Raises:
        ValueError: if there is no query or fewer than two documents, or a vector is zero or
            contains NaN.
    """
    if not len(query_codes) or len(database_codes) < 2:
        found = f"{len(query_codes)} queries and {len(database_codes)} documents"
        raise ValueError(f"there are {found}; at least one query and two documents are needed")
    rng = np.random.default_rng(seed)
    queries = _sample(len(query_codes), MAX_QUERIES, rng)
    documents = _sample(len(database_codes), MAX_DOCUMENTS, rng)
    student_QN = _hamming(query_codes[queries], database_codes[documents])
    teacher_QN = cosine_dissimilarity(
        torch.from_numpy(query_vectors[queries]), torch.from_numpy(database_vectors[documents])
    )
    levels = coherence_levels(student_QN, teacher_QN, ties="middle")
    found_QK, expected_QK = (_nearest(d_QN, NEIGHBOURS) for d_QN in (student_QN, teacher_QN))
    return Agreement(
        float(levels.mean()),
        _overlap(found_QK, expected_QK),
        _overlap(found_QK, expected_QK[:, :NEAREST]),
        len(queries),
        len(documents),
    )


def held_out_agreement(
    encoder: Encoder, data: TrainingData, vectors: Floats, parts: Split
) -> dict[str, Any] | None:
    """Return how far codes and `vectors` agree on the held-out documents; None if there are none.

    The held-out documents are the queries, and they rank the training documents; see
    :func:`measure_agreement`.
    """
    if not len(parts.validation):
        return None
    agreement = measure_agreement(
        encoder.encode_uncorrected_queries(data.take(parts.validation)),
        encoder.encode(data.take(parts.training)),
        vectors[parts.validation],
        vectors[parts.training],
    )
    return agreement.to_dict()


def _sample(count: int, limit: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    return np.arange(count) if count <= limit else np.sort(rng.permutation(count)[:limit])


def _hamming(x: Codes, y: Codes) -> Tensor:
    signs_x, signs_y = (
        torch.from_numpy(unpack_codes(codes).astype(np.float32) * 2 - 1) for codes in (x, y)
    )
    return (signs_x.shape[1] - signs_x @ signs_y.T) / 2


def _nearest(d_QN: Tensor, k: int) -> Tensor:
    return d_QN.sort(dim=1, stable=True).indices[:, :k]


def _overlap(found_QK: Tensor, expected_QK: Tensor) -> float:
    """Return the share of the expected documents that were found, a mean over queries."""
    rows = zip(found_QK.numpy(), expected_QK.numpy(), strict=True)
    return float(np.mean([len(np.intersect1d(x, y)) / len(y) for x, y in rows]))
