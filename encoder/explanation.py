"""Explains the code of a query: how each term of its text changes the bits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from encoder.encoder import Encoder
from encoder.features import TextFeatures
from encoder.text_model import TextModel

# Only this many terms, those with the highest weights, are left out in turn.
MAX_TERMS = 256


class TermInfluence(NamedTuple):
    """A term of a text, and how the code changes without it."""

    term: str
    weight: float
    """The value of its feature, such as TF-IDF."""
    influence: float
    """Σ_b |p_b − p′_b|, with the probabilities of the bits p with the term and p′ without it."""
    flipped_bits: list[int]
    """The bits that change without it; bit 0 is the first of the code."""


def explain_text(encoder: Encoder, text: str, limit: int = 10) -> list[TermInfluence]:
    """Return up to `limit` terms of `text`, those with the most influence on its code first.

    A language model reads a text as a whole, so there are none.

    The text is read as a query, with unknown words corrected. Each term is left out in turn, and
    the rest is encoded: p_b = σ(w_b), w being :meth:`encoder.encoder.Encoder.query_weights`.

    Raises:
        TypeError: if the encoder does not take text.
    """
    features = encoder.features
    if isinstance(features, TextModel):
        return []
    if not isinstance(features, TextFeatures):
        raise TypeError("the encoder takes vectors; it has no terms")
    counts, _ = features.count_query_terms([text])
    weights = features.weigh(counts).data
    heaviest = np.argsort(-weights, kind="stable")[:MAX_TERMS]
    # Row 0 has all terms of the text; row i > 0 lacks the i-th of the heaviest.
    counts_without = np.repeat(counts.data[None, :], len(heaviest) + 1, axis=0)
    counts_without[np.arange(len(heaviest)) + 1, heaviest] = 0
    starts = np.arange(len(heaviest) + 2) * counts.nnz
    columns = np.tile(counts.indices, len(heaviest) + 1)
    shape = (len(heaviest) + 1, features.dimension)
    rows = sparse.csr_array((counts_without.ravel(), columns, starts), shape=shape)
    rows.eliminate_zeros()
    bit_weights = encoder.query_weights_of_rows(features.weigh(rows))
    probabilities = 1 / (1 + np.exp(-bit_weights.astype(np.float64)))
    influences = np.abs(probabilities[1:] - probabilities[0]).sum(axis=1)
    flips = (bit_weights[1:] > 0) != (bit_weights[0] > 0)
    most_influential = np.argsort(-influences, kind="stable")[:limit]
    return [
        TermInfluence(
            term=features.vocabulary[counts.indices[heaviest[place]]],
            weight=float(weights[heaviest[place]]),
            influence=float(influences[place]),
            flipped_bits=np.flatnonzero(flips[place]).tolist(),
        )
        for place in most_influential
    ]
