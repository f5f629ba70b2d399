"""Class codes: the first bits of a code encode a class and how certain it is.

A linear map and a softmax give the probabilities of C classes. The codeword bits are the signs of
the mean of the codewords, weighted by these probabilities. A certainty bit is 1 where the odds of
the likeliest class against the second exceed a threshold. Queries have a map of their own.

If the class of a query is clear, its certainty bits are 1. So among the documents of its class, the
certain ones are nearer than the uncertain ones.

A query of no clear class, often a question of a few words, is ranked by content. In the asymmetric
ranking its certainty bits count less. By Hamming distance every bit counts the same, so they
alternate between 0 and 1. Documents set their certainty bits one after the other, from the lowest
threshold to the highest, so their distances to alternating bits differ by one at most.

What the class of a short query says about the document, its content says too. So the fewer terms a
query has, the less its class and certainty bits count in the asymmetric ranking. By Hamming
distance they count in full: the signs of the mean codeword are nearer to some codewords by chance.
So a query of few terms and of no clear class has other signs, from which the codewords are about as
far as its class makes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.text_features import Floats, SparseRows, TextRow, native

# The highest of a million probabilities, raised to this power, is still a float32 above 0.
MAX_CERTAINTY_POWER = 6
LEAST_CERTAINTY_WEIGHT = 0.01
MAX_HALF_TERMS = 1000
MAX_FEW_TERMS = 1000

# A sign is not changed for a gain of variance that may be rounding.
_LEAST_GAIN = 1e-6

# Below this probability of its likeliest class, a query has no clear class.
_CLEAR = 0.5
_ONE = np.float32(1)


@dataclass(frozen=True, slots=True, eq=False)
class JointRows:
    """Rows u = [v; x] of texts: their `vectors` v float32[N, D], and their `words` x, CSR (N, V).

    They have what class maps need of a matrix (N, D + V), which is never made.
    """

    vectors: Floats
    words: SparseRows

    @property
    def shape(self) -> tuple[int, int]:
        """(N, D + V)."""
        return self.vectors.shape[0], self.vectors.shape[1] + self.words.shape[1]

    def __getitem__(self, rows: Any) -> JointRows:
        """Return the rows of a slice, a mask or an array of positions."""
        return JointRows(self.vectors[rows], self.words[rows])

    def __matmul__(self, weight: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return u W for W ``(D + V, C)``."""
        n_numbers = self.vectors.shape[1]
        return np.asarray(self.vectors @ weight[:n_numbers] + self.words @ weight[n_numbers:])


def joint_row(vector: Floats, words: TextRow) -> TextRow:
    """Return one of :class:`JointRows`, with all numbers of the vector and the terms of a text."""
    columns = np.concatenate([np.arange(len(vector)), words.columns + len(vector)])
    return TextRow(columns, np.concatenate([vector, words.values]))


AnyRows = Floats | SparseRows | JointRows


@dataclass(frozen=True, eq=False)
class ClassMap:
    """p = softmax(x W + b), with `weight` W float32[F, C] and `bias` b float32[C]."""

    weight: Floats
    bias: Floats

    def scores(self, rows: AnyRows) -> Floats:
        """Return x W + b for rows ``(N, F)``, float32[N, C]."""
        return np.asarray(rows @ self.weight, dtype=np.float32) + self.bias

    def scores_of_row(self, columns: npt.NDArray[np.intp], values: Floats) -> Floats:
        """Return the scores of one row that is 0 but for `values`, float32[C]."""
        if native is not None:
            scores_C = np.empty(len(self.bias), dtype=np.float32)
            native.forward(scores_C, columns, values, *self._native_layer)
            return scores_C
        products = self.weight.take(columns, axis=0) * values[:, None]
        return np.asarray(products.sum(axis=0) + self.bias)

    @cached_property
    def _native_layer(self) -> tuple[Any, ...]:
        """Thresholds of 0, the weight, the bias and no activation, for the compiled code."""
        weight, bias = (
            np.ascontiguousarray(array, np.float32) for array in (self.weight, self.bias)
        )
        return np.zeros_like(bias), weight, bias, False

    def soften(self, temperature: float) -> ClassMap:
        """Return the map p = softmax((x W + b) / `temperature`)."""
        scale = np.float32(1 / temperature)
        return ClassMap(self.weight * scale, self.bias * scale)

    def predict(self, rows: AnyRows) -> npt.NDArray[np.int64]:
        """Return the class of rows ``(N, F)``, int64[N]; of equal scores the first class wins."""
        return np.asarray(self.scores(rows).argmax(axis=1), dtype=np.int64)

    def probabilities(self, rows: AnyRows) -> Floats:
        """Return the distribution over classes of rows ``(N, F)``, float32[N, C]."""
        return probabilities(self.scores(rows))


@dataclass(frozen=True, eq=False)
class ClassCode:
    """The class bits of a code: a map for documents, one for queries, and what gives the bits.

    `codewords` is float32[C, W] of −1 and 1. `certainty` holds thresholds of the log-odds,
    float32[K]. `certainty_power` is the exponent in :meth:`query_weights` and `certainty_weight`
    the factor; with 0 and 1, certainty bits have the weight 1 for every query. The bits of a query
    of `half_terms` terms have half of their weight; with 0, all queries have the full weight.
    Signs are fitted (:func:`fit_signs`) for queries of fewer than `few_terms` terms that have no
    clear class; with 0, for none.

    Raises:
        ValueError: if the shapes do not fit together, a codeword has another entry,
            `certainty_power` is not from 0 to :data:`MAX_CERTAINTY_POWER`, `certainty_weight` not
            from :data:`LEAST_CERTAINTY_WEIGHT` to 1, `half_terms` not from 0 to
            :data:`MAX_HALF_TERMS`, or `few_terms` not from 0 to :data:`MAX_FEW_TERMS`.
    """

    documents: ClassMap
    queries: ClassMap
    codewords: Floats
    certainty: Floats
    certainty_power: float = 0.0
    certainty_weight: float = 1.0
    half_terms: float = 0.0
    few_terms: int = 0

    def __post_init__(self) -> None:
        classes = self.codewords.shape[:1]
        shapes = {self.documents.weight.shape, self.queries.weight.shape}
        biases = {self.documents.bias.shape, self.queries.bias.shape}
        if len(shapes) != 1 or biases != {classes} or shapes.pop()[1:] != classes:
            raise ValueError(f"the maps do not fit {classes[0]} codewords")
        if not np.isin(self.codewords, (-1, 1)).all():
            raise ValueError("codewords must have the entries -1 and 1")
        if not 0 <= self.certainty_power <= MAX_CERTAINTY_POWER:
            found = f"certainty_power is {self.certainty_power:g}"
            raise ValueError(f"{found}; it must be from 0 to {MAX_CERTAINTY_POWER}")
        if not LEAST_CERTAINTY_WEIGHT <= self.certainty_weight <= 1:
            found = f"certainty_weight is {self.certainty_weight:g}"
            raise ValueError(f"{found}; it must be from {LEAST_CERTAINTY_WEIGHT} to 1")
        if not 0 <= self.half_terms <= MAX_HALF_TERMS:
            found = f"half_terms is {self.half_terms:g}"
            raise ValueError(f"{found}; it must be from 0 to {MAX_HALF_TERMS}")
        if not 0 <= self.few_terms <= MAX_FEW_TERMS:
            found = f"few_terms is {self.few_terms}"
            raise ValueError(f"{found}; it must be from 0 to {MAX_FEW_TERMS}")

    @property
    def n_features(self) -> int:
        """F, the number of features that the maps take."""
        return int(self.documents.weight.shape[0])

    @cached_property
    def n_bits(self) -> int:
        """W + K, the number of bits for class and certainty."""
        return int(self.codewords.shape[1]) + len(self.certainty)

    def logits(self, rows: Any) -> Floats:
        """Return the logits of documents, float32[N, W + K]; a bit is 1 where its logit exceeds 0.

        They are ``[p · codewords, ln(p₁ / p₂) − certainty]``, with p₁ and p₂ the two highest of p.
        """
        scores_NC = self.documents.scores(rows)
        codeword_means = probabilities(scores_NC) @ self.codewords
        return np.hstack([codeword_means, log_odds(scores_NC)[:, None] - self.certainty])

    def logits_of_row(self, columns: npt.NDArray[np.intp], values: Floats) -> Floats:
        """Return the :meth:`logits` of one row, float32[W + K]: 0 but for `values`."""
        scores_1C = self.documents.scores_of_row(columns, values)[None]
        return np.hstack(
            [
                (probabilities(scores_1C) @ self.codewords)[0],
                log_odds(scores_1C) - self.certainty,
            ]
        )

    def query_weights(self, rows: Any) -> Floats:
        """Return the weights of a query's bits, float32[N, W + K]: ``h [q · codewords, w, …, w]``.

        w is `certainty_weight` times q₁ raised to `certainty_power`, and q₁ the highest of q. It is
        above 0, so the certainty bits of a query are 1. They alternate, ``[…, −w, w]``, if
        `certainty_power` is above 0 and q₁ below ½. h is n / (n + `half_terms`) for a query of n
        terms, the entries of its row that are not 0. Without terms, n counts as 1. If n is below
        `few_terms` and q₁ below ½, the weights of the class bits keep their size, and
        :func:`fit_signs` gives their signs.
        """
        return self._weights_of(self.queries.scores(rows), count_entries(rows))

    def weights_of_row(self, columns: npt.NDArray[np.intp], values: Floats) -> Floats:
        """Return the :meth:`query_weights` of one row, float32[W + K]: 0 but for `values`."""
        scores_C = self.queries.scores_of_row(columns, values)
        # The methods max and sum of an array do the same, and take longer.
        e_C = np.exp(scores_C - np.maximum.reduce(scores_C))
        q_C = e_C / np.add.reduce(e_C)
        q_1, n = np.maximum.reduce(q_C, keepdims=True), max(1, int(np.count_nonzero(values)))
        is_unclear, h = q_1.item() < _CLEAR, np.float32(n / (n + self.half_terms))
        weights = np.empty(self.n_bits, dtype=np.float32)
        n_class = self.codewords.shape[1]
        class_W = np.matmul(q_C, self.codewords, out=weights[:n_class])
        class_W *= h
        if is_unclear and n < self.few_terms:
            signs = _fit_signs_of_one(class_W, *self._covariance_and_diagonal)
            np.abs(class_W, out=class_W)
            class_W *= signs
        # numpy may round the power of a number otherwise than that of an array.
        w_1 = np.float32(self.certainty_weight) * q_1 ** np.float32(self.certainty_power)
        w_1 *= h
        alternates = is_unclear and self.certainty_power
        np.multiply(w_1, self._alternating if alternates else _ONE, out=weights[n_class:])
        return weights

    def _weights_of(self, scores_NC: Floats, terms_N: npt.NDArray[Any]) -> Floats:
        """Return :meth:`query_weights` of queries, by their class scores and numbers of terms."""
        q_NC = probabilities(scores_NC)
        q_N = q_NC.max(axis=1)
        n_N = np.maximum(terms_N, 1)
        h_N1 = np.asarray(n_N / (n_N + self.half_terms), dtype=np.float32)[:, None]
        class_NW = q_NC @ self.codewords * h_N1
        few_N = (q_N < _CLEAR) & (n_N < self.few_terms)
        class_NW[few_N] = np.abs(class_NW[few_N]) * fit_signs(class_NW[few_N], self._covariance)
        return np.hstack([class_NW, self._certainty_weights(q_N[:, None]) * h_N1])

    @property
    def _covariance(self) -> npt.NDArray[np.float64]:
        return self._covariance_and_diagonal[0]

    @cached_property
    def _covariance_and_diagonal(self) -> tuple[npt.NDArray[np.float64], ...]:
        covariance = covariance_of(self.codewords)
        return covariance, np.diag(covariance).copy()

    def _certainty_weights(self, q_N1: Floats) -> Floats:
        """Return ``[w, …, w]`` or ``[…, −w, w]`` of :meth:`query_weights`, float32[N, K]."""
        w_N1 = np.float32(self.certainty_weight) * q_N1 ** np.float32(self.certainty_power)
        are_unclear_N1 = (q_N1 < _CLEAR) & bool(self.certainty_power)
        return np.asarray(w_N1 * np.where(are_unclear_N1, self._alternating, _ONE))

    @cached_property
    def _alternating(self) -> Floats:
        """``[…, -1, 1]``, float32[K]."""
        return np.where(np.arange(len(self.certainty))[::-1] % 2, -_ONE, _ONE)


def covariance_of(codewords: Floats) -> npt.NDArray[np.float64]:
    """Return the covariance of the bits of codewords ``(C, W)``, float64[W, W]."""
    covariance = np.cov(codewords.astype(np.float64), rowvar=False, bias=True)
    return np.asarray(covariance).reshape(codewords.shape[1], -1)


def fit_signs(weights_NW: Floats, covariance: npt.NDArray[np.float64]) -> Floats:
    """Return signs z, float32[N, W], by which codewords are about as near as by the weights w.

    The signs of w itself are nearer to some codewords than others even where w is near 0. So the
    search starts there and changes the sign that lowers the variance of (z − w) · c over the
    codewords c most, until none lowers it: by Hamming distance, documents of two classes then
    differ about as much as in the asymmetric ranking.

    With the `covariance` G of the codewords, that variance is (z − w)ᵀ G (z − w). A change of the
    sign z_b lowers it by 4 z_b (G (z − w))_b − 4 G_bb.
    """
    z = np.where(weights_NW > 0, 1.0, -1.0)
    every_row = np.arange(len(z))
    while len(z):
        gains = 4 * (z * ((z - weights_NW) @ covariance) - np.diag(covariance))
        best = gains.argmax(axis=1)
        rows = np.flatnonzero(gains[every_row, best] > _LEAST_GAIN)
        if not len(rows):
            break
        z[rows, best[rows]] *= -1
    return z.astype(np.float32)


def _fit_signs_of_one(
    weights_W: Floats,
    covariance: npt.NDArray[np.float64],
    diagonal_W: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Return the :func:`fit_signs` of one query, bit for bit, in a third of the time."""
    if native is not None:
        signs = np.empty(len(weights_W))
        native.fit_signs(signs, weights_W, covariance, diagonal_W, _LEAST_GAIN)
        return signs
    z = np.where(weights_W > 0, 1.0, -1.0)
    while True:
        gains = (z - weights_W) @ covariance
        gains *= z
        gains -= diagonal_W
        best = gains.argmax()
        if not 4 * gains.item(best) > _LEAST_GAIN:
            return z
        z[best] *= -1


def count_entries(rows: Any) -> npt.NDArray[np.int64]:
    """Return the number of entries of each row that are not 0, int64[N]: the terms of a text."""
    if isinstance(rows, JointRows):
        return count_entries(rows.vectors) + count_entries(rows.words)
    return np.asarray((rows != 0).sum(axis=1), dtype=np.int64).ravel()


def probabilities(scores_NC: Floats) -> Floats:
    """Return the softmax of each row, float32[N, C]."""
    e_NC = np.exp(scores_NC - scores_NC.max(axis=1, keepdims=True))
    return np.asarray(e_NC / e_NC.sum(axis=1, keepdims=True), dtype=np.float32)


def log_odds(scores_NC: Floats) -> Floats:
    """Return the highest score of each row less the second highest, float32[N].

    With p = softmax(scores) this is ln(p₁ / p₂). It still distinguishes rows whose p₁ rounds to 1.
    """
    second_N, first_N = np.partition(scores_NC, -2, axis=1)[:, -2:].T
    return np.asarray(first_N - second_N, dtype=np.float32)
