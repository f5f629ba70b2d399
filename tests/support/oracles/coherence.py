"""Perception coherence of two dissimilarities by scipy's ranks, and vectors to try it on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import rankdata

from hummingbit.training.objectives.perception_coherence import Ties

Floats = npt.NDArray[np.float64]


def coherence_levels_by_scipy(student: Floats, teacher: Floats, ties: Ties) -> Floats:
    """Return 1 − mean |F_student − F_teacher| of each row; F is a rank divided by their number."""
    difference: Floats = np.abs(_distribution(student, ties) - _distribution(teacher, ties))
    levels: Floats = 1 - difference.mean(axis=1)
    return levels


def _distribution(d: Floats, ties: Ties) -> Floats:
    ranks: Floats = np.stack(
        [rankdata(row, "max") if ties == "upper" else rankdata(row) - 0.5 for row in d]
    )
    shares: Floats = ranks / d.shape[1]
    return shares


def normal_vectors(n: int, dimension: int, seed: int) -> torch.Tensor:
    """Return vectors of the standard normal distribution, ``float64[n, dimension]``."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, dimension, dtype=torch.float64, generator=generator)
