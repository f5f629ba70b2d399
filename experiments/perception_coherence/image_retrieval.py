"""Retrieval figures of a network's features; images of the query's class are relevant."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from hummingbit.evaluation.metrics import interpolated_average_precision, precision_at_k

TOP = 100
_BLOCK_ELEMENTS = 1 << 24


@torch.no_grad()
def retrieval_figures(
    queries_QD: Tensor,
    query_labels_Q: Tensor,
    database_ND: Tensor,
    database_labels_N: Tensor,
    top: int = TOP,
) -> tuple[float, float]:
    """Return the 11-point interpolated mAP and the precision of the first `top`, by cosine.

    Both are means over queries of functions in :mod:`hummingbit.evaluation.metrics`. Documents with
    equal similarity are ordered by row.
    """
    queries, database = (functional.normalize(x, dim=1) for x in (queries_QD, database_ND))
    n_relevant = torch.bincount(database_labels_N, minlength=int(query_labels_Q.max()) + 1)
    average, precision = [], []
    rows = max(1, _BLOCK_ELEMENTS // len(database))
    for start in range(0, len(queries), rows):
        labels = query_labels_Q[start : start + rows]
        nearest = (queries[start : start + rows] @ database.T).argsort(
            dim=1, descending=True, stable=True
        )
        relevant = (database_labels_N[nearest] == labels[:, None]).cpu().numpy()
        counts = n_relevant[labels].cpu().numpy()
        average.append(interpolated_average_precision(relevant, counts))
        precision.append(precision_at_k(relevant, top))
    return float(np.concatenate(average).mean()), float(np.concatenate(precision).mean())
