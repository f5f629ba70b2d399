"""An encoder: text, vectors or matrices in, packed binary codes out.

Its network is fully connected layers in numpy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from encoder.class_code import ClassCode
from encoder.codes import Codes, pack_bits
from encoder.features import Floats, QueryTerms, SparseRows, TextFeatures
from encoder.spd_features import SpdFeatures
from encoder.vector_features import VectorFeatures
from foundation.errors import InputError
from foundation.slices import checkpoint

# Rows encoded at a time: large enough for the matrix products, small enough to stay in cache.
_BATCH = 512

# Queries that are read one by one; more are read together, as documents are.
_FEW_TEXTS = 16
# A text of more terms is multiplied by scipy, which does not copy the rows that it adds up.
_FEW_TERMS = 64

Features = TextFeatures | VectorFeatures | SpdFeatures
Inputs = Sequence[str] | Floats
Activation = Literal["relu", "identity"]


@dataclass(frozen=True)
class Layer:
    """act(x W + b), with `weight` W of shape ``(inputs, outputs)`` and `bias` b ``(outputs,)``."""

    weight: Floats
    bias: Floats
    activation: Activation

    def __call__(self, x: Floats | SparseRows) -> Floats:
        """Apply the layer to rows ``(N, inputs)``.

        A sparse x gathers only the rows of W whose terms occur, so a short text costs its own
        length and not the vocabulary's.
        """
        return self.activated(np.asarray(x @ self.weight))

    def activated(self, products: Floats) -> Floats:
        """Return act(x W + b) for the products x W, which are overwritten."""
        products += self.bias
        if self.activation == "relu":
            np.maximum(products, 0.0, out=products)
        return products


class ReadQueries(NamedTuple):
    """Queries as an encoder reads them."""

    weights: Floats
    """See :meth:`Encoder.query_weights`, float32 of shape ``(N, n_bits)``."""
    terms: Sequence[QueryTerms | None]
    """What is known of each query that is a text; None for a vector."""


@dataclass(frozen=True)
class Encoder:
    """Features, a network and thresholds: bit b of a code is 1 where logit_b > threshold_b.

    With a `class_code` its bits come first, and the network has the logits of the others.
    `metadata` says what the encoder was trained on and how; `fingerprint` identifies the artifact
    it was loaded from, and is empty for one that was never written.
    """

    features: Features
    layers: Sequence[Layer]
    thresholds: Floats
    metadata: Mapping[str, Any]
    fingerprint: str = ""
    class_code: ClassCode | None = None

    @property
    def n_bits(self) -> int:
        """Bits in a code."""
        return len(self.thresholds)

    @property
    def code_size(self) -> int:
        """Bytes in a packed code."""
        return self.n_bits // 8

    @property
    def kind(self) -> Literal["text", "vector"]:
        """What the encoder takes; a matrix is given as the vector of its upper triangle."""
        return "text" if isinstance(self.features, TextFeatures) else "vector"

    @property
    def dimension(self) -> int | None:
        """Length of the vectors it takes; None for text."""
        return None if isinstance(self.features, TextFeatures) else self.features.dimension

    def prepare(self) -> None:
        """Make what the first query with an unknown word would wait for."""
        if isinstance(self.features, TextFeatures):
            self.features.prepare()

    def check_vector(self, vector: Floats) -> None:
        """Check that the encoder, which takes vectors, takes this one of finite numbers.

        Raises:
            InputError: if it has another length, or is to hold the upper triangle of a positive
                definite matrix and does not.
        """
        if len(vector) != self.dimension:
            reason = f"has {len(vector)} numbers; it must have {self.dimension}"
            raise InputError("vector", reason)
        if isinstance(self.features, SpdFeatures):
            self.features.matrices(vector[None])

    def logits(self, inputs: Inputs) -> Floats:
        """Return the network's output for `inputs`, float32 of shape ``(N, n_bits)``.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        parts = [self.logits_of_rows(self._transform(batch)) for batch in _batches(inputs)]
        return self._joined(parts)

    def logits_of_rows(self, rows: Any) -> Floats:
        """Return the logits of documents whose features are `rows`, float32 ``(N, n_bits)``."""
        found = forward(self.layers, rows)
        if self.class_code is None:
            return found
        return np.hstack([self.class_code.logits(rows), found])

    def encode(self, inputs: Inputs) -> Codes:
        """Return the packed codes of `inputs`, uint8 of shape ``(N, code_size)``.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        return pack_bits(self.logits(inputs) > self.thresholds)

    def margins(self, inputs: Inputs) -> Floats:
        """Return ``logit_b - threshold_b`` of `inputs`, float32 of shape ``(N, n_bits)``.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        return self.logits(inputs) - self.thresholds

    def encode_queries(self, inputs: Inputs) -> Codes:
        """Return the packed codes of `inputs` as queries, uint8 of shape ``(N, code_size)``.

        Bit b is 1 where the query weight of b is positive; see :meth:`query_weights`.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        return pack_bits(self.query_weights(inputs) > 0)

    def encode_as_queries(self, inputs: Inputs) -> Codes:
        """Return what :meth:`encode_queries` does where no word of a text is corrected.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        return pack_bits(self._weights_as_read(inputs) > 0)

    def query_weights(self, inputs: Inputs) -> Floats:
        """Return the real values that weigh a document's bits, float32 of shape ``(N, n_bits)``.

        They are ``w_b = logit_b - threshold_b``, but for the bits of a class code
        (:meth:`encoder.class_code.ClassCode.query_weights`). The asymmetric ranking orders
        documents by ``sum_b w_b (2 bit_b - 1)``. Where bit b of a document is 1 with the
        probability ``sigmoid(w_b)``, independently of the others, that is twice the logarithm of
        the probability of all its bits, up to a constant of the query.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        return self.read_queries(inputs).weights

    def read_queries(self, inputs: Inputs) -> ReadQueries:
        """Return the query weights of `inputs`, and what is known of each that is a text.

        Unknown words of a text are corrected first; see
        :meth:`encoder.features.TextFeatures.transform_queries`. Documents are encoded as they are.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        if not isinstance(self.features, TextFeatures):
            return ReadQueries(self._weights_as_read(inputs), [None] * len(inputs))
        few = 0 < len(inputs) <= _FEW_TEXTS and self.class_code is None
        if few and not isinstance(inputs, str):
            return self._read_few(self.features, inputs)  # type: ignore[arg-type]
        weights, terms = [], []
        for batch in _batches(inputs):
            rows, known = self.features.transform_queries(batch)  # type: ignore[arg-type]
            weights.append(self.query_weights_of_rows(rows))
            terms += known
        return ReadQueries(self._joined(weights), terms)

    def query_weights_of_rows(self, rows: Any) -> Floats:
        """Return :meth:`query_weights` of queries whose features are `rows`, ``(N, n_bits)``."""
        if self.class_code is None:
            return forward(self.layers, rows) - self.thresholds
        content = forward(self.layers, rows) - self.thresholds[self.class_code.n_bits :]
        return np.hstack([self.class_code.query_weights(rows), content])

    def _weights_as_read(self, inputs: Inputs) -> Floats:
        """Return :meth:`query_weights` where no word of a text is corrected."""
        found = [self.query_weights_of_rows(self._transform(batch)) for batch in _batches(inputs)]
        return self._joined(found)

    def _joined(self, parts: list[Floats]) -> Floats:
        return np.concatenate(parts) if parts else np.empty((0, self.n_bits), dtype=np.float32)

    def _read_few(self, features: TextFeatures, texts: Sequence[str]) -> ReadQueries:
        """Read queries without a matrix of scipy, which takes longer to make than to multiply.

        The rows of the first weight matrix are added up in the order in which scipy does.
        """
        first, *others = self.layers
        hidden, terms = [], []
        for text in texts:
            (columns, values), known = features.read_query(text)
            if len(columns) > _FEW_TERMS:
                ends = np.array([0, len(columns)])
                row = sparse.csr_array((values, columns, ends), shape=(1, features.dimension))
                hidden.append(np.asarray(row @ first.weight))
            else:
                rows = first.weight.take(columns, axis=0)
                rows *= values[:, None]
                hidden.append(np.add.reduce(rows, axis=0, keepdims=True))
            terms.append(known)
        together = hidden[0] if len(hidden) == 1 else np.concatenate(hidden)
        return ReadQueries(forward(others, first.activated(together)) - self.thresholds, terms)

    def _transform(self, inputs: Inputs) -> Any:
        return self.features.transform(inputs)  # type: ignore[arg-type]  # each checks its own


def forward(layers: Sequence[Layer], x: Floats | SparseRows) -> Floats:
    """Return the output of the last layer, float32 of shape ``(N, outputs)``."""
    for layer in layers:
        x = layer(x)
    return np.asarray(x, dtype=np.float32)


def _batches(inputs: Inputs) -> Iterator[Inputs]:
    for start in range(0, len(inputs), _BATCH):
        checkpoint()
        yield inputs[start : start + _BATCH]
