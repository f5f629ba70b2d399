"""Documents by their vectors: the cosine of a query's vector and the kept ones.

The vectors lie on disk and are read for the candidates of a search only. The score of a document is

    q · x / (|q| |x|),

from -1 to 1, and 0 if one of the two is zero. A document without a vector of the query's length has
the score -1. Before they are multiplied, the numbers of a vector are rounded to multiples of
2^(e - b), where 2^e bounds the largest of them and b = (53 - ⌈log2 D⌉) / 2, so 22 bits for 384
numbers. The sums are then whole numbers below 2^53, which float64 adds without an error in any
order. So the scores are the same on every processor, and in every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from corpus.document import Vector
from foundation.errors import InputError
from foundation.slices import checkpoint
from index.engines.protocol import Rows
from index.errors import RowsRemoved
from index.kept_vectors import NONE, packed_size, unpack_vectors
from index.rankings.protocol import RankedRows, Scores
from index.records import EncodedQueries

VECTORS = "vectors"
"""The name in requests of rescoring by vectors."""

LEAST_SCORE = -1.0
# Numbers of vectors in memory at a time, and the most rows that one statement reads.
NUMBERS_AT_ONCE = 1 << 20
ROWS_AT_ONCE = 500

Floats = npt.NDArray[np.float64]
ReadVectors = Callable[[Sequence[int]], Mapping[int, bytes | None]]
"""Returns what is stored of the vectors of rows; rows that were removed are missing."""


class CosineScorer:
    """A :class:`~index.rankings.protocol.RowScorer` by the kept vectors of a collection."""

    def __init__(self, read_vectors: ReadVectors, form: str) -> None:
        """Score rows of vectors kept in `form`, one of :data:`index.kept_vectors.FORMS`.

        Raises:
            InputError: if the collection keeps no vectors.
        """
        if form == NONE:
            message = f"by is {VECTORS!r}, but the collection keeps no vectors (keep_vectors: none)"
            raise InputError("rescore", message)
        self._read_vectors = read_vectors
        self._form = form

    def score(self, queries: EncodedQueries, rows: Sequence[Rows]) -> list[Scores]:
        """See :meth:`index.rankings.protocol.RowScorer.score`.

        Raises:
            RowsRemoved: if a row is no longer stored.
        """
        pairs = zip(queries.vectors, rows, strict=True)
        return [self._score(vector, some) for vector, some in pairs]

    def hit_scores(self, queries: EncodedQueries, found: Sequence[RankedRows]) -> list[list[float]]:  # noqa: ARG002
        """Return the scores unchanged."""
        return [some.scores.tolist() for some in found]

    def anchors(
        self,
        queries: EncodedQueries,  # noqa: ARG002
        found: Sequence[RankedRows],
    ) -> list[tuple[float, float]]:
        """Return the cosines of vectors at a right angle and of equal ones."""
        return [(0.0, 1.0)] * len(found)

    def _score(self, vector: Vector | None, rows: Rows) -> Floats:
        """Return the scores of `rows` for one query, ``float64[len(rows)]``."""
        if vector is None:
            raise ValueError("a query without a vector has no cosine")
        query = whole_numbers(vector[None])[0]
        scores = np.full(len(rows), LEAST_SCORE)
        step = max(1, min(ROWS_AT_ONCE, NUMBERS_AT_ONCE // len(query)))
        for start in range(0, len(rows), step):
            if start:
                checkpoint()
            some: list[int] = rows[start : start + step].tolist()
            stored = self._read_vectors(some)
            if len(stored) < len(some):
                raise RowsRemoved("a candidate was removed while its vector was read")
            size = packed_size(len(query), self._form)
            places = [at for at, row in enumerate(some) if len(stored[row] or b"") == size]
            if places:
                packed = [stored[some[at]] or b"" for at in places]
                documents = whole_numbers(unpack_vectors(packed, self._form))
                scores[[start + at for at in places]] = cosines(query, documents)
        return scores


def whole_numbers(vectors: npt.NDArray[np.float32]) -> Floats:
    """Return vectors ``(N, D)`` as whole numbers whose products add up without rounding.

    Each vector is scaled by a power of two, which changes no cosine.
    """
    bits = (53 - (vectors.shape[1] - 1).bit_length()) // 2
    x = vectors.astype(np.float64)
    exponents = np.frexp(np.abs(x).max(axis=1, keepdims=True))[1]
    return np.asarray(np.rint(np.ldexp(x, bits - exponents)))


def cosines(query: Floats, documents: Floats) -> Floats:
    """Return the cosines of `query` ``(D,)`` and `documents` ``(N, D)``, all whole numbers."""
    norms = np.sqrt(np.einsum("nd,nd->n", documents, documents)) * np.sqrt(query @ query)
    products = documents @ query
    quotients = np.divide(products, norms, out=np.zeros_like(norms), where=norms > 0)
    return np.asarray(np.clip(quotients, -1.0, 1.0))
