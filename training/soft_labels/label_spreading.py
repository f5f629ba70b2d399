"""Label spreading: documents take classes from their nearest neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from encoder.features import Floats
from foundation.arrays import unit_rows

Scores = npt.NDArray[np.float64]

_STEPS = 30

# From this number on, comparing all pairs of documents takes longer than training.
_MANY = 100_000


def smoothing_matrix(vectors: Floats, neighbours: int = 10) -> Any:
    """Return S = D^-½ W D^-½ of N `vectors` as a sparse matrix ``(N, N)``.

    W is the graph of the `neighbours` nearest neighbours by cosine, made symmetric; the weight of
    an edge is the fourth power of the cosine, and D is the diagonal of row sums. With 100,000
    documents or more, the search is approximate and misses a few neighbours; see :func:`_index`.
    """
    return _normalize(_neighbour_graph(vectors, neighbours))


def spread_labels(smoothing: Any, start_NC: Scores, share: float) -> Scores:
    """Return Σ_t (1 − α) αᵗ Sᵗ Y, the scores of each document for each class, ``(N, C)``.

    S is `smoothing`, a :func:`smoothing_matrix`. Y is `start_NC`, the known or estimated classes of
    each document, and α the `share` that a document takes from its neighbours at every step. The
    sum is truncated after 30 terms; with α = .9, where it is largest here, the scores still change
    by a few hundredths at most.

    Source: Zhou, Bousquet, Lal, Weston and Schölkopf, "Learning with Local and Global Consistency"
    (2004).
    """
    scores_NC = start_NC
    for _ in range(_STEPS):
        scores_NC = share * (smoothing @ scores_NC) + (1 - share) * start_NC
    return scores_NC


def _neighbour_graph(vectors: Floats, neighbours: int) -> Any:
    """Return the symmetric matrix of edge weights, CSR ``(N, N)``, without loops."""
    from scipy.sparse import csr_array  # noqa: PLC0415 - only soft labels of vectors need it

    rows = len(vectors)
    unit = unit_rows(vectors)
    # One more, since each document finds itself or a copy of itself.
    cosines, neighbour_rows = _index(unit).search(unit, min(neighbours + 1, rows))
    source, target = np.repeat(np.arange(rows), neighbour_rows.shape[1]), neighbour_rows.ravel()
    weights = np.maximum(cosines.ravel(), 0).astype(np.float64) ** 4
    # The target is -1 if the searched cells hold too few documents.
    others = (source != target) & (target >= 0)
    graph = csr_array(
        (weights[others], (source[others], target[others])), shape=(rows, rows), dtype=np.float64
    )
    return graph.maximum(graph.T)


def _index(unit: Floats) -> Any:
    """Return a faiss index that finds the rows with the largest inner products.

    From 100,000 rows on, rows are sorted into cells, four times the square root of their number,
    and a search covers only the 16 cells nearest to a row.
    """
    import faiss  # noqa: PLC0415

    rows, dimension = unit.shape
    index: Any
    if rows < _MANY:
        index = faiss.IndexFlatIP(dimension)
    else:
        cells = int(4 * np.sqrt(rows))
        cosine = faiss.METRIC_INNER_PRODUCT
        index = faiss.index_factory(dimension, f"IVF{cells},Flat", cosine)
        index.nprobe = 16
        # A sample is enough to compute the centres of the cells.
        index.train(unit[:: max(1, rows // (40 * cells))])
    index.add(unit)
    return index


def _normalize(graph: Any) -> Any:
    """Return D^-½ W D^-½; a document without neighbours has a row of zeros."""
    from scipy.sparse import diags_array  # noqa: PLC0415

    degrees = np.asarray(graph.sum(axis=1)).ravel()
    scale = diags_array(1 / np.sqrt(np.where(degrees > 0, degrees, 1)))
    return scale @ graph @ scale
