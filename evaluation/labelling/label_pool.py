"""The documents from which the next to label are chosen, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from encoder.features import Floats
from evaluation.labelling.classes import (
    Classes,
    Probabilities,
    class_probabilities,
    class_scores,
)

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Documents to choose from, with the labels so far.

    `vectors` is ``float32[N, D]`` with rows of unit length. `buckets`, ``int64[N]``, are equal for
    documents of one code. `labelled` lists the rows that have a label, and `classes` their classes,
    from 0 to `n_classes` − 1. The rows in `excluded` are never chosen.
    """

    vectors: Floats
    buckets: Classes
    labelled: Rows
    classes: Classes
    n_classes: int
    excluded: Rows = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def available(self) -> Rows:
        """The rows to choose from, ascending."""
        unavailable = np.concatenate([self.labelled, self.excluded])
        return np.delete(np.arange(len(self.vectors)), unavailable)

    def probabilities(self) -> Probabilities | None:
        """Return the probabilities of the classes, ``float64[N, C]``; None without any label."""
        if not len(self.labelled):
            return None
        return class_probabilities(
            class_scores(self.vectors, self.labelled, self.classes, self.n_classes)
        )
