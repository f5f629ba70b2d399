"""How well clusters agree with classes: NMI and pairwise F1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sklearn.metrics import normalized_mutual_info_score

from hummingbit.evaluation.result import EvaluationError

Assignment = Sequence[str] | Sequence[int] | npt.NDArray[np.int64]
"""The cluster or the class of each document."""


def normalized_mutual_information(classes: Assignment, clusters: Assignment) -> float:
    """Return ``NMI = 2 I(classes; clusters) / (H(classes) + H(clusters))``, from 0 to 1.

    The mean of the entropies is arithmetic, as in H. O. Song et al. 2016, "Deep Metric Learning via
    Lifted Structured Feature Embedding". It is 1 where both have a single group.

    Raises:
        EvaluationError: if there are no documents, or `classes` and `clusters` differ in length.
    """
    _check(classes, clusters)
    return float(normalized_mutual_info_score(list(classes), list(clusters)))


def pairwise_f1(classes: Assignment, clusters: Assignment) -> float:
    """Return ``F1 = 2 P R / (P + R)`` over pairs of documents.

    Of the pairs in the same cluster, P is the share that is of the same class. Of the pairs of the
    same class, R is the share that is in the same cluster. F1 is 0 where no pair is both. As in the
    metric-learning literature (Song et al. 2016; C. Manning, P. Raghavan and H. Schütze 2008,
    "Introduction to Information Retrieval", 16.3). It is counted from the table of classes by
    clusters, not from pairs.

    Raises:
        EvaluationError: if there are no documents, or `classes` and `clusters` differ in length.
    """
    _check(classes, clusters)
    _, class_of = np.unique(np.asarray(classes), return_inverse=True)
    _, cluster_of = np.unique(np.asarray(clusters), return_inverse=True)
    _, sizes = np.unique(np.stack([class_of, cluster_of]), axis=1, return_counts=True)
    both = _count_pairs(sizes)
    either = _count_pairs(np.bincount(class_of)) + _count_pairs(np.bincount(cluster_of))
    # 2 P R / (P + R) with P = both / same cluster and R = both / same class.
    return 2 * both / either if either else 0.0


def _count_pairs(sizes: npt.NDArray[np.int64]) -> int:
    """Return the number of pairs within groups of these sizes."""
    return int((sizes * (sizes - 1) // 2).sum())


def _check(classes: Assignment, clusters: Assignment) -> None:
    if len(classes) != len(clusters) or not len(classes):
        found = f"classes has {len(classes):,} entries and clusters {len(clusters):,}"
        raise EvaluationError(f"{found}; they must have the same length, at least 1")
