"""The maps from features to classes that a class code can use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from encoder.class_code import ClassMap
from encoder.features import Floats
from training.class_codes.word_vectors import WordTable, learned_columns
from training.soft_labels.fair_classifier import fit_vectors
from training.soft_labels.machines import fit_machines
from training.soft_labels.naive_bayes import complement_weights, multinomial_weights
from training.soft_labels.ridge import fit_ridge

# The mean deviation of a document's scores over the classes. It is sharp enough that a document of
# a clear class gets its codeword. It is soft enough that a document between two classes keeps the
# bits that their codewords have in common.
_SHARPNESS = 2.0
_ROWS = 4096
# Multinomial naive Bayes errs on other texts than each of its partners, so all but ridge regression
# alone have it as a part.
_PARTS: Mapping[str, Sequence[str]] = {
    "both": ("ridge", "multinomial"),
    "bayes": ("complement", "multinomial"),
    "ridge": ("ridge",),
    "svm": ("machines", "multinomial"),
    "words": ("multinomial", "word_vectors"),
    "bayes-words": ("complement", "multinomial", "word_vectors"),
    "svm-words": ("machines", "multinomial", "word_vectors"),
}


class ClassMaps:
    """The maps from rows of features to classes, each fitted when it is first used.

    `rows` are features ``(N, F)`` and `targets` distributions over the classes, ``(N, C)``. With a
    table of word vectors, `words`, the further terms that it adds have no weight in the other
    classifiers. Texts that are `known`, ``bool[N]``, count `label_weight` times in the maps of
    documents, if others are not known.
    """

    def __init__(
        self,
        rows: Any,
        targets: Floats,
        seed: int,
        words: WordTable | None = None,
        *,
        known: npt.NDArray[np.bool_] | None = None,
        label_weight: int = 1,
    ) -> None:
        self._known = known
        self._label_weight = label_weight
        self._rows = rows
        self._targets = targets
        self._seed = seed
        self._words = words
        self._learned = learned_columns(rows, words)
        self._maps: dict[str, ClassMap] = {}
        self.is_text = not isinstance(rows, np.ndarray)

    def of(self, name: str) -> ClassMap:
        """Return the map of a query classifier of the recipe; vectors have a single map."""
        if name not in self._maps:
            of_texts = (getattr(self, f"_{part}") for part in _PARTS[name])
            self._maps[name] = self._combine(of_texts if self.is_text else self._vectors)
        return self._maps[name]

    def of_documents(self, name: str) -> ClassMap:
        """Return the map of the classifier `name` that documents use."""
        return self._of_documents.of(name)

    @cached_property
    def _of_documents(self) -> ClassMaps:
        known, weight = self._known, self._label_weight
        if weight == 1 or known is None or known.all() or not self.is_text:
            return self
        repeated = np.repeat(np.arange(len(known)), np.where(known, weight, 1))
        return ClassMaps(self._rows[repeated], self._targets[repeated], self._seed, self._words)

    @cached_property
    def _vectors(self) -> Sequence[tuple[Any, Any]]:
        classifier = fit_vectors(self._rows, self._targets)
        return list(zip(classifier.weights, classifier.biases, strict=True))

    @cached_property
    def _ridge(self) -> tuple[Any, Any]:
        return self._padded(*fit_ridge(self._learned, self._targets))

    @cached_property
    def _multinomial(self) -> tuple[Any, Any]:
        return self._padded(*_centred(multinomial_weights(self._learned, self._targets)))

    @cached_property
    def _complement(self) -> tuple[Any, Any]:
        return self._padded(*_centred(complement_weights(self._learned, self._targets)))

    @cached_property
    def _machines(self) -> tuple[Any, Any]:
        return self._padded(*fit_machines(self._learned, self._targets, self._seed))

    @cached_property
    def _word_vectors(self) -> tuple[Any, Any]:
        if self._words is None:
            raise ValueError("there are no word vectors")
        return self._words.fit(self._rows, self._targets)

    def _padded(self, weight: Any, bias: Any) -> tuple[Any, Any]:
        """Return the map with weights of 0 for the terms that only have a vector."""
        further = self._rows.shape[1] - len(weight)
        return (np.pad(weight, ((0, further), (0, 0))) if further else weight), bias

    def _combine(self, maps: Iterable[tuple[Any, Any]]) -> ClassMap:
        """Sum maps, scaled to equal deviations over the classes, and scale the sum."""
        weight, bias = 0.0, 0.0
        for map_weight, map_bias in maps:
            size = _deviation(self._rows, map_weight, map_bias)
            weight, bias = weight + map_weight / size, bias + map_bias / size
        scale = _SHARPNESS / _deviation(self._rows, weight, bias)
        return ClassMap(
            *(np.ascontiguousarray(part * scale, dtype=np.float32) for part in (weight, bias))
        )


def row_slices(rows: Any) -> list[slice]:
    """Return slices of a few thousand rows each."""
    return [slice(at, at + _ROWS) for at in range(0, rows.shape[0], _ROWS)]


def _centred(weight: Any) -> tuple[Any, Any]:
    return weight - weight.mean(axis=1, keepdims=True), np.zeros(weight.shape[1])


def _deviation(rows: Any, weight: Any, bias: Any) -> float:
    """Return the mean over rows of the standard deviation of x W + b over the classes."""
    total = sum(float((rows[at] @ weight + bias).std(axis=1).sum()) for at in row_slices(rows))
    return total / rows.shape[0] or 1.0
