"""The encoder that ships as the start of ``hummingbit train static``.

The shipped encoder adds a row of numbers for every word, word piece and pair of words of a text
(:mod:`hummingbit.index.catalog` says where it is). Training takes its terms and rows, adds the
words of the corpus, and learns by the inverse cloze task how the rows of this corpus differ. Words
that the corpus lacks keep their rows, and follow what is learned along the shipped directions. So
a query may ask in words that no document has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.recipes import ClozeRecipe, RecipeError
from hummingbit.encoder.text_features import Floats, SparseRows, TextFeatures
from hummingbit.foundation.slices import begin_stage
from hummingbit.index.catalog import install_shipped, shipped_encoder
from hummingbit.training.data import TrainingDataError
from hummingbit.training.model_codes import fit_head
from hummingbit.training.text_features import (
    PAIR_WEIGHT,
    frequent_terms,
    inverse_document_frequency,
    summaries_tell,
)


@dataclass(frozen=True, eq=False)
class StaticStart:
    """Terms of a corpus and of the shipped encoder, and a vector for each."""

    features: TextFeatures
    vectors_VE: Floats
    """What a unit of each feature adds to the shipped logits, ``(V, E)``."""

    def codes(self, rows: SparseRows, n_bits: int, seed: int) -> tuple[Floats, Floats]:
        """Return weights ``(V, B)`` and thresholds ``(B,)`` of bits of the shipped vectors.

        `rows` are the features of the documents. With no more documents than bits, the bits are the
        first of the shipped ones. The distances of all rows from the thresholds have a mean square
        of 1.
        """
        weight, thresholds = self.vectors_VE[:, :n_bits], np.zeros(n_bits, dtype=np.float32)
        if rows.shape[0] > n_bits:
            coordinates = np.asarray(rows @ self.vectors_VE, dtype=np.float32)
            layer, thresholds = fit_head(coordinates, n_bits, seed, "itq")
            weight = self.vectors_VE @ layer.weight
        size = np.sqrt(np.square(rows @ weight - thresholds).mean()) or np.float32(1)
        weight = weight / size
        return np.asarray(weight, dtype=np.float32), np.asarray(thresholds / size, np.float32)


def load_shipped() -> tuple[TextFeatures, Encoder]:
    """Return the encoder that ships, and its features.

    Raises:
        TrainingDataError: if it is not installed, or does not read words.
    """
    folder = shipped_encoder()
    if folder is None:
        hint = f"install it: {install_shipped()}"
        raise TrainingDataError(f"static starts at the encoder that ships; {hint}")
    encoder = load_encoder(folder)
    if not isinstance(encoder.features, TextFeatures) or len(encoder.layers) != 1:
        raise TrainingDataError(f"{folder}: has no rows of words to start at")
    return encoder.features, encoder


def static_start(texts: Sequence[str], recipe: ClozeRecipe) -> StaticStart:
    """Return the terms and the vectors with which the training on `texts` begins.

    A word of the corpus that the shipped encoder does not know has the sum of its pieces.

    Raises:
        TrainingDataError: if no encoder ships here.
        RecipeError: if the recipe has another analyzer, or more bits than the shipped encoder.
    """
    known, encoder = load_shipped()
    if recipe.analyzer != known.analyzer.name:
        found = f"analyzer is {recipe.analyzer!r}"
        raise RecipeError(f"{found}; static reads texts by {known.analyzer.name}")
    if recipe.n_bits > encoder.n_bits:
        raise RecipeError(f"n_bits is {recipe.n_bits}; static has at most {encoder.n_bits}")
    begin_stage(f"choosing terms of {len(texts):,} texts")
    have = set(known.vocabulary)
    of_corpus = frequent_terms(texts, recipe.max_terms, known.analyzer, min_documents=1)
    more = [term for term in of_corpus if term not in have]
    rows = np.asarray(encoder.layers[0].weight)
    if known.idf is not None:
        rows = rows * known.idf[:, None]
    if more:
        pieces = known.count_terms(more)
        # A word that a text has once counts as its pieces do.
        pieces.data = np.log1p(pieces.data) / np.log1p(np.float32(1))
        rows = np.vstack([rows, np.asarray(pieces @ rows, dtype=np.float32)])
    features = replace(
        known,
        vocabulary=[*known.vocabulary, *more],
        # A word that a text repeats is more often asked for than the others.
        weighting="count",
        idf=None,
        summary_weight=0.0,
        corrections=True,
    )
    counts = features.count_terms(texts)
    n_texts = np.bincount(counts.indices, minlength=features.dimension)
    idf = inverse_document_frequency(n_texts, len(texts))
    idf[[" " in term for term in features.vocabulary]] *= PAIR_WEIGHT
    features = replace(features, idf=idf)
    if recipe.summary_weight and summaries_tell(texts, features):
        features = replace(features, summary_weight=recipe.summary_weight)
    vectors = np.asarray(rows / idf[:, None], dtype=np.float32)
    # Texts have a mean square of 1 along all directions together.
    lengths = np.linalg.norm(features.weigh(counts) @ vectors, axis=1)
    vectors /= np.sqrt(np.square(lengths).mean())
    return StaticStart(features, vectors)
