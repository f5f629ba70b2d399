"""The parts of a code: the class code, and the bits of content."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from encoder.class_code import ClassCode, log_odds
from encoder.encoder import Layer
from foundation.errors import counted
from training.class_codes.class_maps import ClassMaps, row_slices
from training.class_codes.class_recipe import ClassCodeRecipe
from training.class_codes.codewords import far_codewords
from training.data import TrainingDataError
from training.linear_codes import fit_itq, itq_of_terms

SHARED_CLASSIFIERS = ("both", "svm")
"""Query classifiers that documents use too. With any other, documents use "both"."""


def class_code(
    maps: ClassMaps,
    rows: Any,
    query_classifier: str,
    widths: Sequence[int],
    recipe: ClassCodeRecipe,
) -> ClassCode:
    """Return the class code of `maps`, with certainty thresholds from the documents `rows`.

    `widths` are the numbers of bits of a codeword and for certainty. Documents are ordered by the
    log-odds of their class and divided into K + 1 equal parts. Of the K certainty bits, the k-th is
    1 for the k most certain parts.
    """
    documents = maps.of("svm" if query_classifier == "svm" else "both")
    n_certainty = widths[1]
    odds = np.concatenate([log_odds(documents.scores(rows[at])) for at in row_slices(rows)])
    shares = np.arange(n_certainty, 0, -1) / (n_certainty + 1)
    return ClassCode(
        documents=documents,
        queries=documents if query_classifier in SHARED_CLASSIFIERS else maps.of(query_classifier),
        codewords=far_codewords(len(documents.bias), widths[0], recipe.seed),
        certainty=np.quantile(odds, shares).astype(np.float32),
    )


def content_layer(rows: Any, n_bits: int, seed: int) -> Layer:
    """Return the layer of the content bits: ITQ of latent semantic analysis, or of vectors.

    Raises:
        TrainingDataError: if there are no more documents or features than bits.
    """
    if min(rows.shape) <= n_bits:
        found = f"{counted(rows.shape[0], 'document')} with {counted(rows.shape[1], 'feature')}"
        raise TrainingDataError(f"n_bits: {n_bits} bits for content are more than {found} can fill")
    if isinstance(rows, np.ndarray):
        weight, means = fit_itq(rows, n_bits, seed)
        size = np.sqrt(np.square(rows @ weight - means).mean()) or 1.0
        weight, means = weight / size, means / size
    else:
        weight_and_means = itq_of_terms(rows, n_bits, seed)
        assert weight_and_means is not None  # noqa: S101 - checked above
        weight, means = weight_and_means
    return Layer(np.asarray(weight, dtype=np.float32), -means.astype(np.float32), "identity")
