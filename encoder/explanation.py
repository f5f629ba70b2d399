"""Why a query has the code that it has: what each term of its text does to the bits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from encoder.encoder import Encoder
from encoder.features import TextFeatures

# Terms beyond these, by weight, are not tried.
MAX_TERMS = 256


class TermInfluence(NamedTuple):
    """A term of a text, and what becomes of the code without it."""

    term: str
    weight: float
    """Its feature, such as TF-IDF."""
    influence: float
    """Σ_b |p_b − p′_b|: the probabilities of the bits, with the term and without."""
    flipped_bits: list[int]
    """The bits that are others without it, bit 0 being the first of the code."""


def explain_text(encoder: Encoder, text: str, most: int = 10) -> list[TermInfluence]:
    """Return the terms that weigh most in the code of `text`, the most influential first.

    The text is read as a query is, unknown words corrected. Each term is left out in turn, and what
    is left encoded: p_b = σ(w_b) of :meth:`encoder.encoder.Encoder.query_weights`.

    Raises:
        TypeError: if the encoder takes no texts.
    """
    features = encoder.features
    if not isinstance(features, TextFeatures):
        raise TypeError("the encoder takes vectors; it has no terms")
    counts, _ = features.count_query_terms([text])
    weights = features.weigh(counts).data
    tried = np.argsort(-weights, kind="stable")[:MAX_TERMS]
    # Row 0 is the text; in row i > 0 its i-th term is left out.
    counts_without = np.repeat(counts.data[None, :], len(tried) + 1, axis=0)
    counts_without[np.arange(len(tried)) + 1, tried] = 0
    starts = np.arange(len(tried) + 2) * counts.nnz
    columns = np.tile(counts.indices, len(tried) + 1)
    shape = (len(tried) + 1, features.dimension)
    without = sparse.csr_array((counts_without.ravel(), columns, starts), shape=shape)
    without.eliminate_zeros()
    weights_of_bits = encoder.query_weights_of_rows(features.weigh(without))
    probabilities = 1 / (1 + np.exp(-weights_of_bits.astype(np.float64)))
    influences = np.abs(probabilities[1:] - probabilities[0]).sum(axis=1)
    flipped = (weights_of_bits[1:] > 0) != (weights_of_bits[0] > 0)
    order = np.argsort(-influences, kind="stable")[:most]
    return [
        TermInfluence(
            term=features.vocabulary[counts.indices[tried[at]]],
            weight=float(weights[tried[at]]),
            influence=float(influences[at]),
            flipped_bits=np.flatnonzero(flipped[at]).tolist(),
        )
        for at in order
    ]
