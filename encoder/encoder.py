"""An encoder: text, vectors or matrices in, packed binary codes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from encoder.codes import Codes, pack_bits
from encoder.features import Features, Floats, InputError, QueryTerms, SpdFeatures, TextFeatures
from encoder.network import Layer, forward

# Rows encoded at a time: large enough for the matrix products, small enough to stay in cache.
_BATCH = 512

Inputs = Sequence[str] | Floats


class ReadQueries(NamedTuple):
    """Queries as an encoder reads them."""

    weights: Floats
    """See :meth:`Encoder.query_weights`, float32 of shape ``(N, n_bits)``."""
    terms: Sequence[QueryTerms | None]
    """What is known of each query that is a text; None for a vector."""


@dataclass(frozen=True)
class Encoder:
    """Features, a network and thresholds: bit b of a code is 1 where logit_b > threshold_b.

    `metadata` says what the encoder was trained on and how; `fingerprint` identifies the artifact
    it was loaded from, and is empty for one that was never written.
    """

    features: Features
    layers: Sequence[Layer]
    thresholds: Floats
    metadata: Mapping[str, Any]
    fingerprint: str = ""

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

    def check_vector(self, vector: Floats) -> None:
        """Check that the encoder, which takes vectors, takes this one of finite numbers.

        Raises:
            InputError: if it has another length, or is to hold the upper triangle of a positive
                definite matrix and does not.
        """
        if len(vector) != self.dimension:
            message = f"vector: has {len(vector)} numbers; it must have {self.dimension}"
            raise InputError(message)
        if isinstance(self.features, SpdFeatures):
            self.features.matrices(vector[None])

    def logits(self, inputs: Inputs) -> Floats:
        """Return the network's output for `inputs`, float32 of shape ``(N, n_bits)``.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        parts = [forward(self.layers, self._transform(batch)) for batch in _batches(inputs)]
        return np.concatenate(parts) if parts else np.empty((0, self.n_bits), dtype=np.float32)

    def encode(self, inputs: Inputs) -> Codes:
        """Return the packed codes of `inputs`, uint8 of shape ``(N, code_size)``.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        return pack_bits(self.logits(inputs) > self.thresholds)

    def encode_queries(self, inputs: Inputs) -> Codes:
        """Return the packed codes of `inputs` as queries, uint8 of shape ``(N, code_size)``.

        Bit b is 1 where the query weight of b is positive; see :meth:`query_weights`.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        return pack_bits(self.query_weights(inputs) > 0)

    def query_weights(self, inputs: Inputs) -> Floats:
        """Return the real values that weigh a document's bits, float32 of shape ``(N, n_bits)``.

        They are ``w_b = logit_b - threshold_b``. The asymmetric ranking orders documents by
        ``sum_b w_b (2 bit_b - 1)``. Where bit b of a document is 1 with the probability
        ``sigmoid(w_b)``, independently of the others, that is twice the logarithm of the
        probability of all its bits, up to a constant of the query.

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
            return ReadQueries(self.logits(inputs) - self.thresholds, [None] * len(inputs))
        weights, terms = [np.empty((0, self.n_bits), dtype=np.float32)], []
        for batch in _batches(inputs):
            rows, known = self.features.transform_queries(batch)  # type: ignore[arg-type]
            weights.append(forward(self.layers, rows) - self.thresholds)
            terms += known
        return ReadQueries(np.concatenate(weights), terms)

    def _transform(self, inputs: Inputs) -> Any:
        return self.features.transform(inputs)  # type: ignore[arg-type]  # each checks its own


def _batches(inputs: Inputs) -> Iterator[Inputs]:
    for start in range(0, len(inputs), _BATCH):
        yield inputs[start : start + _BATCH]
