"""The parts of a code: the class code, and the bits of content."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from encoder.class_code import ClassCode, count_entries, log_odds
from encoder.encoder import Features, Inputs, Layer
from encoder.features import Floats, TextFeatures
from encoder.recipes import ICT, ClassCodeRecipe, Recipe
from foundation.errors import counted
from training.class_codes.class_maps import ClassMaps, row_slices
from training.class_codes.codewords import far_codewords
from training.class_codes.teaching import fit_teacher
from training.class_codes.word_vectors import WordTable, learned_columns
from training.data import TrainingDataError
from training.linear_codes import fit_itq, itq_of_terms

# Where content finds texts by words, short queries are ranked by content rather than by a class
# that is uncertain: the temperature of a query's class probabilities, and the exponent of the
# highest of them in the weight of the certainty bits, which is halved: a text is found by its words
# among those of its class, and not by how clearly it is of the class. The root mean square of the
# content's logits is below 1, or documents of a query's class would come later.
_QUERY_TEMPERATURE = 1.5
_CERTAINTY_POWER = 4.0
_CERTAINTY_WEIGHT = 0.5
_WORDS_RMS = 0.8
# A vector as a query has the codeword of its likeliest class. The mean of two codewords, which a
# document between two classes has, is far from the documents of either.
_VECTOR_TEMPERATURE = 0.25
# A query of fewer terms than this, and than a sixth of a document has, is a question: little is
# known of its class. If documents are as short as queries, queries are asked for their class.
_FEW_TERMS, _FEW_SHARE = 10, 1 / 6
# What the class of a query says about the document, its content says too, and does so better the
# fewer its terms are. So class bits have half of their weight for a query of two terms, or of 4 in
# 10 of the terms of a question.
_HALF_TERMS, _HALF_SHARE = 2.0, 0.4
# The class bits bring near the documents that resemble each other, so the content is to tell a
# document from those: less of its target goes to other documents than where it is the whole code.
_SHARED = 0.5


def class_code(
    maps: ClassMaps,
    rows: Any,
    query_classifier: str,
    widths: Sequence[int],
    recipe: ClassCodeRecipe,
) -> ClassCode:
    """Return the class code of `maps`, with certainty thresholds from the documents `rows`.

    Documents use support vector machines and naive Bayes if queries do, or else ridge regression
    and naive Bayes. `widths` are the numbers of bits of a codeword and for certainty. Documents are
    ordered by the log-odds of their class and divided into K + 1 equal parts. Of the K certainty
    bits, the k-th is 1 for the k most certain parts.
    """
    documents = maps.of_documents("svm" if query_classifier == "svm" else "both")
    queries = maps.of(query_classifier)
    power, weight, half_terms, few_terms = 0.0, 1.0, 0.0, 0
    if recipe.content == ICT:
        power, weight = _CERTAINTY_POWER, _CERTAINTY_WEIGHT
        few_terms = min(_FEW_TERMS, int(np.median(count_entries(rows)) * _FEW_SHARE))
        half_terms = max(_HALF_TERMS, _HALF_SHARE * few_terms)
        queries = queries.soften(_QUERY_TEMPERATURE)
    elif not maps.is_text:
        queries = queries.soften(_VECTOR_TEMPERATURE)
    n_certainty = widths[1]
    odds = np.concatenate([log_odds(documents.scores(rows[at])) for at in row_slices(rows)])
    shares = np.arange(n_certainty, 0, -1) / (n_certainty + 1)
    return ClassCode(
        documents=documents,
        queries=queries,
        codewords=far_codewords(len(documents.bias), widths[0], recipe.seed),
        certainty=np.quantile(odds, shares).astype(np.float32),
        certainty_power=power,
        certainty_weight=weight,
        half_terms=half_terms,
        few_terms=few_terms,
    )


class ContentLayers:
    """The layers of content bits, each fitted to the training documents when it is first used.

    `rows` are the `features` of the `inputs`, ``(N, F)``. The logits of all rows have a root mean
    square of 1, or of 0.8 if they are learned by ict, which gives content bits about the weight of
    class bits in a query. With `taught`, a teacher's vectors ``(N, E)`` of texts, ITQ rotates the
    vectors that the terms predict, if they have more numbers than the content has bits. `words` are
    word vectors of further terms, which predict nothing.

    Raises:
        TrainingDataError: if the content is to be learned by ict, and the inputs are not texts.
    """

    def __init__(
        self,
        features: Features,
        inputs: Inputs,
        rows: Any,
        recipe: ClassCodeRecipe,
        *,
        words: WordTable | None = None,
        taught: Floats | None = None,
    ) -> None:
        if recipe.content == ICT and not isinstance(features, TextFeatures):
            raise TrainingDataError("content: ict learns from the words of texts; use itq")
        self._features, self._inputs, self._recipe = features, inputs, recipe
        self.rows = rows
        """What the layers read of the documents: their features with summaries, if these count."""
        if isinstance(features, TextFeatures):
            self.rows = features.add_summaries(rows, [str(text) for text in inputs])
        self._words, self._taught = words, taught
        self._layers: dict[int, Layer] = {}

    def of(self, n_bits: int) -> Layer:
        """Return the layer of `n_bits`.

        Raises:
            TrainingDataError: if there are no more documents or features than bits.
        """
        if n_bits not in self._layers:
            self._layers[n_bits] = self._fit(n_bits)
        return self._layers[n_bits]

    def _fit(self, n_bits: int) -> Layer:
        rows, seed = self.rows, self._recipe.seed
        if min(rows.shape) <= n_bits:
            found = f"{counted(rows.shape[0], 'document')} with {counted(rows.shape[1], 'feature')}"
            problem = f"{n_bits} bits for content are more than {found} can fill"
            raise TrainingDataError(f"n_bits: {problem}")
        if self._recipe.content == ICT and isinstance(self._features, TextFeatures):
            from training.class_codes.cloze_content import (  # noqa: PLC0415 - torch takes a second
                fit_cloze,
            )

            texts = [str(text) for text in self._inputs]
            ict = Recipe(
                method=ICT,
                seed=seed,
                epochs=self._recipe.epochs,
                min_steps=self._recipe.min_steps,
                cloze_shared=_SHARED,
            )
            return _scale(rows, *fit_cloze(self._features, texts, rows, n_bits, ict), _WORDS_RMS)
        if isinstance(rows, np.ndarray):
            return _scale(rows, *fit_itq(rows, n_bits, seed))
        if self._taught is not None and self._taught.shape[1] > n_bits:
            predicted = np.concatenate([rows[at] @ self._teacher for at in row_slices(rows)])
            weight, thresholds = fit_itq(predicted, n_bits, seed)
            return _scale(rows, self._teacher @ weight, thresholds)
        weight_and_thresholds = itq_of_terms(rows, n_bits, seed)
        assert weight_and_thresholds is not None  # noqa: S101 - checked above
        return _layer(*weight_and_thresholds)

    @cached_property
    def _teacher(self) -> Floats:
        """The weights of terms that predict the teacher's vectors, ``(V, E)``."""
        assert self._taught is not None  # noqa: S101 - checked above
        learned = learned_columns(self.rows, self._words)
        return fit_teacher(learned, self._taught, self.rows.shape[1])


def _scale(rows: Any, weight: Floats, thresholds: Floats, target: float = 1.0) -> Layer:
    """Return the layer x W − t, scaled to the root mean square `target` over all `rows`."""
    squares = sum(float(np.square(rows[at] @ weight - thresholds).sum()) for at in row_slices(rows))
    size = np.sqrt(squares / (rows.shape[0] * len(thresholds))) or 1.0
    return _layer(weight * (target / size), thresholds * (target / size))


def _layer(weight: Floats, thresholds: Floats) -> Layer:
    return Layer(np.asarray(weight, dtype=np.float32), -thresholds.astype(np.float32), "identity")
