"""The principal directions of texts: latent semantic analysis of weighted terms.

Source: Deerwester et al., "Indexing by Latent Semantic Analysis" (1990).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from encoder.features import Floats

_DIRECTIONS = 200
# Finding them takes several times the memory of the texts' places along them.
_ROWS_FOR_DIRECTIONS = 100_000


def principal_directions(rows: Any, seed: int) -> tuple[Floats, Floats]:
    """Return at most 200 directions ``(K, V)`` and the places along them of `rows`, ``(N, K)``.

    `rows` are weighted terms, a scipy matrix ``(N, V)``. Of more than a hundred thousand, so many
    drawn at random tell the directions.
    """
    from sklearn.decomposition import TruncatedSVD  # noqa: PLC0415 - takes a second

    size = max(1, min(_DIRECTIONS, rows.shape[0] - 1, rows.shape[1] - 1))
    svd = TruncatedSVD(size, random_state=seed)
    if rows.shape[0] <= _ROWS_FOR_DIRECTIONS:
        places = svd.fit_transform(rows)
    else:
        rng = np.random.default_rng(seed)
        chosen = rng.choice(rows.shape[0], _ROWS_FOR_DIRECTIONS, replace=False)
        places = svd.fit(rows[np.sort(chosen)]).transform(rows)
    return np.asarray(svd.components_), np.asarray(places)
