"""Linear codes: of nearest neighbours, ITQ, PCA, random hyperplanes, and signatures of words.

Each is a linear map of the features with a threshold for every bit, so the encoder is one layer.
Labels are used only for the evaluation.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.analyzers import Analyzer
from hummingbit.encoder.artifact import check_destination
from hummingbit.encoder.encoder import Encoder, Features, Layer
from hummingbit.encoder.recipes import MAX_KNOWN_TERMS, SIGNATURE, LinearRecipe
from hummingbit.encoder.text_features import Floats, TextFeatures
from hummingbit.foundation.errors import counted
from hummingbit.foundation.slices import begin_stage
from hummingbit.training.data import Rows, TrainingData, TrainingDataError
from hummingbit.training.pipeline import (
    Trained,
    choose_features,
    one_blas_thread,
    split,
    write_encoder,
)
from hummingbit.training.text_features import TermCounts, hashed_order, principal_directions

_DIRECTIONS = 384
OTHERS = 0.1
"""What a bit of no word of a query weighs against a document, relative to a bit of one word."""


class MadeQueries(NamedTuple):
    """Queries made of documents."""

    rows: npt.NDArray[np.int64]
    """The document of each query, ``int64[Q]``."""
    vectors: Floats
    """``float32[Q, D]``, of length 1"""


@one_blas_thread()
def train_linear(
    data: TrainingData, recipe: LinearRecipe, out: Path, *, overwrite: bool = False
) -> Trained:
    """Fit a linear method to `data` and write the encoder to `out`.

    Raises:
        TrainingDataError: if there are fewer documents or features than bits; for signatures, if
            there are no texts, or they have too many words.
        ArtifactError: if `out` exists and `overwrite` is false.
    """
    check_destination(out, overwrite=overwrite)
    parts = split(data, recipe)
    if recipe.method == SIGNATURE:
        encoder = fit_signatures(data, parts.training, recipe)
        return write_encoder(
            out, encoder, data, parts, settings=asdict(recipe), overwrite=overwrite
        )
    features = choose_features(data, parts.training, recipe.max_terms, analyzer=recipe.analyzer)
    rows: Any = features.transform(data.take(parts.training))  # type: ignore[arg-type]
    if recipe.method != "lsh" and min(rows.shape) < recipe.n_bits:
        found = f"{counted(rows.shape[0], 'document')} with {counted(rows.shape[1], 'feature')}"
        raise TrainingDataError(f"n_bits is {recipe.n_bits}, more than {found} can fill")
    encoder = fit_linear(recipe.method, features, rows, recipe.n_bits, recipe.seed)
    return write_encoder(out, encoder, data, parts, settings=asdict(recipe), overwrite=overwrite)


def fit_linear(method: str, features: Features, rows: Any, n_bits: int, seed: int) -> Encoder:
    """Return the encoder of one of :data:`LINEAR_METHODS`, fitted to `rows` of its `features`."""
    begin_stage(f"fitting {n_bits} bits by {method}")
    weight, thresholds = LINEAR_METHODS[method](rows, n_bits, seed)
    layer = Layer(weight, np.zeros(n_bits, dtype=np.float32), "identity")
    return Encoder(features, [layer], thresholds, {})


def fit_pca(rows: Any, n_bits: int, seed: int) -> tuple[Floats, Floats]:
    """Return the first principal directions ``(F, B)``, and the thresholds: the means along them.

    `rows` are not centred before the decomposition, so that sparse rows stay sparse. The thresholds
    subtract the means afterwards.
    """
    from sklearn.decomposition import TruncatedSVD  # noqa: PLC0415 - takes a second

    svd = TruncatedSVD(n_components=n_bits, random_state=seed).fit(rows)
    weight = np.ascontiguousarray(svd.components_.T, dtype=np.float32)
    return weight, _means(rows, weight)


def fit_itq(rows: Any, n_bits: int, seed: int) -> tuple[Floats, Floats]:
    """Return PCA's directions, rotated to minimize the quantization error, and the thresholds.

    Source: Gong and Lazebnik, "Iterative Quantization" (2011); the rotation is faiss's.
    """
    weight, means = fit_pca(rows, n_bits, seed)
    rotation = itq_rotation(np.asarray(rows @ weight) - means, seed)
    rotated = np.ascontiguousarray(weight @ rotation, dtype=np.float32)
    return rotated, np.asarray(means @ rotation, dtype=np.float32)


def fit_sne(rows: Any, n_bits: int, seed: int) -> tuple[Floats, Floats]:
    """Return ITQ's map, changed to keep the nearest neighbours, and the thresholds.

    Sparse rows ``(N, V)`` are learned from as their principal coordinates.

    Source: :func:`hummingbit.training.networks.fit_neighbour_map`.
    """
    from hummingbit.training.networks import fit_neighbour_map  # noqa: PLC0415 - imports torch

    if isinstance(rows, np.ndarray):
        return fit_neighbour_map(rows, *fit_itq(rows, n_bits, seed), seed)
    directions, coordinates = principal_directions(rows, seed, max(_DIRECTIONS, n_bits))
    weight, thresholds = fit_neighbour_map(coordinates, *fit_itq(coordinates, n_bits, seed), seed)
    return np.ascontiguousarray(directions.T @ weight, dtype=np.float32), thresholds


def itq_of_terms(rows: Any, n_bits: int, seed: int) -> tuple[Floats, Floats] | None:
    """Return ITQ of latent semantic analysis, scaled: weights ``(V, B)`` and thresholds ``(B,)``.

    `rows` are weighted terms, a scipy matrix ``(N, V)``. The distances of all rows from the
    thresholds have a mean square of 1. Returns None unless there are more rows and terms than bits.
    """
    if min(rows.shape) <= n_bits:
        return None
    return itq_of_directions(*principal_directions(rows, seed, n_bits), seed)


def itq_of_directions(directions: Floats, coordinates: Floats, seed: int) -> tuple[Floats, Floats]:
    """Return ITQ of rows whose `coordinates` ``(N, B)`` along `directions` ``(B, V)`` are known.

    The result is that of :func:`itq_of_terms`.
    """
    means = coordinates.mean(axis=0)
    rotation = itq_rotation(coordinates - means, seed)
    size = np.sqrt(np.square(coordinates - means).mean())
    weight = np.asarray(directions.T @ rotation / size, dtype=np.float32)
    return weight, np.asarray(means @ rotation / size, dtype=np.float32)


def itq_rotation(centred: Floats, seed: int) -> Floats:
    """Return the rotation ``(B, B)`` that minimizes the quantization error of rows ``(N, B)``."""
    import faiss  # noqa: PLC0415

    n_bits = centred.shape[1]
    itq = faiss.ITQMatrix(n_bits)
    itq.seed = seed + 1
    # The matrices are small: two threads that wait for each other take nine times as long.
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        itq.train(np.ascontiguousarray(centred, dtype=np.float32))
    finally:
        faiss.omp_set_num_threads(threads)
    # faiss stores A of y = A x, of shape (B, B), row by row.
    return np.asarray(faiss.vector_to_array(itq.A).reshape(n_bits, n_bits).T)


def fit_lsh(rows: Any, n_bits: int, seed: int) -> tuple[Floats, Floats]:
    """Return random directions through the mean of the rows.

    Source: Charikar, "Similarity Estimation Techniques from Rounding Algorithms" (2002); the
    directions are scikit-learn's.
    """
    from sklearn.exceptions import DataDimensionalityWarning  # noqa: PLC0415
    from sklearn.random_projection import GaussianRandomProjection  # noqa: PLC0415

    projection = GaussianRandomProjection(n_bits, random_state=seed)
    with warnings.catch_warnings():
        # Codes longer than the vectors need more directions than features.
        warnings.simplefilter("ignore", DataDimensionalityWarning)
        projection.fit(rows)
    weight = np.ascontiguousarray(projection.components_.T, dtype=np.float32)
    return weight, _means(rows, weight)


def fit_signatures(data: TrainingData, training: Rows, recipe: LinearRecipe) -> Encoder:
    """Return the encoder of superimposed codes of the words of texts.

    Each of the most frequent words, up to 300,000, has k bits, chosen by a hash of the word, and a
    text has the bits of all its words. A query weighs a bit by how many of its words have it, and
    :data:`OTHERS` less, so texts with other bits follow. With m different words in a text of B
    bits, k = ⌊B ln 2 / m⌋ sets half of the bits. A text never lacks a bit of its words, so it is
    found by any of them unless other texts have all these bits by chance.

    Source: Mooers, "Zatocoding applied to mechanical organization of knowledge" (1951); Bloom,
    "Space/time trade-offs in hash coding with allowable errors" (1970).

    Raises:
        TrainingDataError: if there are no texts, or their words would set more than half of a code.
    """
    if not data.is_text:
        found = f"vector: {SIGNATURE} has the words of texts"
        raise TrainingDataError(f"{found}; use texts, or itq")
    counts = TermCounts(MAX_KNOWN_TERMS, Analyzer.from_name(recipe.analyzer))
    begin_stage(f"counting the words of {len(training):,} texts")
    for text in data.take(training):
        counts.add(str(text))
    documents = counts.terms()
    if not documents:
        raise TrainingDataError("text: no document has a word")
    n_words = sum(documents.values()) / counts.n_texts
    n_set = int(recipe.n_bits * math.log(2) / n_words)
    if not n_set:
        most = int(recipe.n_bits * math.log(2))
        message = f"have {n_words:.0f} different words on average, and {recipe.n_bits} bits tell at"
        raise TrainingDataError(f"text: the texts {message} most {most}; use ict")
    terms = [*documents]
    chosen = hashed_order(terms, recipe.n_bits)[:, :n_set]
    weight = np.zeros((len(terms), recipe.n_bits), dtype=np.float32)
    np.put_along_axis(weight, chosen, 1.0, axis=1)
    features = TextFeatures(terms, weighting="binary", analyzer=counts.analyzer)
    layer = Layer(weight, np.zeros(recipe.n_bits, dtype=np.float32), "identity")
    thresholds = np.full(recipe.n_bits, OTHERS, dtype=np.float32)
    return Encoder(features, [layer], thresholds, {})


LINEAR_METHODS: Mapping[str, Callable[[Any, int, int], tuple[Floats, Floats]]] = {
    "sne": fit_sne,
    "itq": fit_itq,
    "pca-sign": fit_pca,
    "lsh": fit_lsh,
}


def _means(rows: Any, weight: Floats) -> Floats:
    return np.asarray((rows @ weight).mean(axis=0), dtype=np.float32)
