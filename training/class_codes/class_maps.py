"""The maps from features to classes that a class code may have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from encoder.class_code import ClassMap
from encoder.features import Floats
from training.soft_labels.fair_classifier import fit_vectors, map_of_classes
from training.soft_labels.text_classifiers import bayes_weights, fit_ridge

# The mean deviation of a document's scores over the classes: sharp enough that a clear class has
# its own codeword, and soft enough that two likely ones share the bits that they have in common.
_SHARPNESS = 2.0
_ROWS = 4096


class ClassMaps:
    """The maps from rows of features to classes, each fitted when it is asked for.

    `rows` are features ``(N, F)`` and `targets` distributions over the classes, ``(N, C)``.
    """

    def __init__(self, rows: Any, targets: Floats, seed: int) -> None:
        self._rows = rows
        self._targets = targets
        self._seed = seed
        self.is_text = not isinstance(rows, np.ndarray)

    def of(self, name: str) -> ClassMap:
        """Return the map of a classifier, one of QUERY_CLASSIFIERS; vectors have one alone."""
        wanted = {"both": ("ridge", "bayes")}.get(name, (name,)) if self.is_text else ("vectors",)
        return self._sharpened([getattr(self, f"_{one}") for one in wanted])

    @cached_property
    def _vectors(self) -> tuple[Any, Any]:
        found = fit_vectors(self._rows, self._targets)
        return found.weights[0], found.biases[0]

    @cached_property
    def _ridge(self) -> tuple[Any, Any]:
        ridge = fit_ridge(self._rows, self._targets, self._seed)
        return np.asarray(ridge.coef_.T), np.asarray(ridge.intercept_)

    @cached_property
    def _bayes(self) -> tuple[Any, Any]:
        weight = bayes_weights(self._rows, self._targets)
        return weight - weight.mean(axis=1, keepdims=True), np.zeros(weight.shape[1])

    @cached_property
    def _svm(self) -> tuple[Any, Any]:
        """A support vector machine a class, each row weighing as much as its class is likely."""
        from sklearn.svm import LinearSVC  # noqa: PLC0415 - takes a second

        model = LinearSVC(dual="auto", random_state=self._seed)
        model.fit(self._rows, self._targets.argmax(axis=1), sample_weight=self._targets.max(axis=1))
        # Classes without a document are as far off as those that a document is surely not of.
        return map_of_classes(model, self._targets.shape[1], absent=-1, of_two=1)

    def _sharpened(self, maps: Sequence[tuple[Any, Any]]) -> ClassMap:
        """Return the sum of maps of one mean deviation over the classes, scaled to another."""
        weight, bias = 0.0, 0.0
        for one, offset in maps:
            size = _deviation(self._rows, one, offset)
            weight, bias = weight + one / size, bias + offset / size
        scale = _SHARPNESS / _deviation(self._rows, weight, bias)
        return ClassMap(
            *(np.ascontiguousarray(part * scale, dtype=np.float32) for part in (weight, bias))
        )


def row_slices(rows: Any) -> list[slice]:
    """Return slices of a few thousand rows each."""
    return [slice(at, at + _ROWS) for at in range(0, rows.shape[0], _ROWS)]


def _deviation(rows: Any, weight: Any, bias: Any) -> float:
    """Return the mean over rows of the standard deviation of x W + b over the classes."""
    total = sum(float((rows[at] @ weight + bias).std(axis=1).sum()) for at in row_slices(rows))
    return total / rows.shape[0] or 1.0
