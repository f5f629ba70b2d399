"""Parses what users of the estimator pass in: X of texts, and y of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from corpus.document import DocumentError, parse_text
from evaluation.relevance import LabelSet
from foundation.errors import counted
from hummingbit.inputs import UNLABELLED, as_list, is_missing, label_name


def texts_of(x: Any) -> list[str] | None:
    """Return a sequence of texts as a checked list, or None if it holds no texts.

    Raises:
        ValueError: if `x` is empty or a single text, or an item is not a text that can be encoded.
    """
    if isinstance(x, str):
        raise ValueError("X is one text; it must be a sequence of texts")  # noqa: TRY004
    is_sequence = isinstance(x, Sequence | np.ndarray) or hasattr(x, "to_numpy")
    if not is_sequence or getattr(x, "ndim", 1) != 1:
        return None
    values = list(x)
    if not values:
        raise ValueError("X is empty; it must hold texts or vectors")
    if not any(isinstance(value, str) for value in values):
        return None
    try:
        return [parse_text(value, f"X[{row}]") for row, value in enumerate(values)]
    except DocumentError as error:
        raise ValueError(str(error)) from None


def label_sets(y: Any, rows: int) -> list[LabelSet]:
    """Return the labels of each row of a scikit-learn target; ``()`` for an unlabelled row.

    `y` is None, or has a label or a collection of labels for each row, or is an indicator matrix
    ``(N, C)``.

    Raises:
        ValueError: if `y` does not have as many rows as `rows`, or a label is not a whole number.
    """
    if y is None:
        return [()] * rows
    array = np.asarray(y) if hasattr(y, "__array__") else None
    if array is not None and array.ndim == 2 and array.shape[1] > 1:
        labels = [tuple(map(str, np.flatnonzero(row))) for row in array]
    else:
        values = list(y) if array is None else list(array.ravel())
        labels = [_label_set(value, row) for row, value in enumerate(values)]
    if len(labels) != rows:
        message = (
            f"y has {counted(len(labels), 'row')} and X has {rows:,}; the numbers must be equal"
        )
        raise ValueError(message)
    return labels


def _label_set(value: Any, row: int) -> LabelSet:
    value = as_list(value)
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(dict.fromkeys(map(str, value)))
    if is_missing(value) or value in ("", UNLABELLED):
        return ()
    if isinstance(value, float | np.floating) and not float(value).is_integer():
        raise ValueError(f"y[{row}] is {value}; a label must be a string or an integer")
    return (label_name(value),)
