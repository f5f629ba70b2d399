"""The documents trained on, as a network takes them: features in, what is to be rebuilt out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from encoder.encoder import Inputs
from encoder.features import Features, SpdFeatures, TextFeatures
from training.batches import SparseBatch, add_noise, drop_words, word_distribution
from training.data import Rows


class TrainingInputs:
    """Features of N documents and the targets of their reconstruction, taken batch by batch.

    The target of a text is the distribution of its words, weighed by idf with `idf_target`; that of
    a vector is the vector, with `scale_target` brought to a mean squared length of 1. Matrices stay
    as they are, float64: their features are learned.
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
        self._targets: Any
        if isinstance(features, TextFeatures):
            counts = features.count_terms([str(text) for text in inputs])
            self.x = features.weigh(counts)
            self._targets = word_distribution(counts, features.idf if idf_target else None)
        elif isinstance(features, SpdFeatures):
            self.x = self._targets = features.matrices(np.asarray(inputs))
        else:
            self.x = self._targets = features.transform(np.asarray(inputs))
            if scale_target and self.x.any():
                self._target_scale = float(np.sqrt(len(self.x)) / np.linalg.norm(self.x))

    def batch(
        self,
        rows: Rows,
        word_dropout: float,
        generator: torch.Generator,
        vector_noise: float = 0.0,
    ) -> tuple[SparseBatch | Tensor, SparseBatch | Tensor]:
        """Return the features of `rows`, texts with words left out, and their targets.

        With `vector_noise`, a mean size, vectors are shown through noise.
        """
        if isinstance(self.x, np.ndarray):
            x_ND = torch.from_numpy(self.x[rows])
            return add_noise(x_ND, vector_noise, generator), self._target_scale * x_ND
        x = drop_words(SparseBatch.of_rows(self.x, rows), word_dropout, generator)
        return x, SparseBatch.of_rows(self._targets, rows)


def vector_scale(features: Features, inputs: Inputs) -> float:
    """Return what brings the entries of vectors to a mean square of 1; 1 for texts."""
    if isinstance(features, TextFeatures):
        return 1.0
    rows = features.transform(np.asarray(inputs))
    return float(np.sqrt(rows.size) / np.linalg.norm(rows)) if rows.any() else 1.0
