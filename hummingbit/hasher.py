"""Semantic hashing as a scikit-learn estimator."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import (
    check_is_fitted,
    check_random_state,
    validate_data,
)

from encoder.artifact import install_artifact
from encoder.codes import Codes, unpack_codes
from encoder.encoder import Encoder, Inputs
from encoder.features import Floats
from evaluation.retrieval import evaluate_codes
from hummingbit.inputs import label_sets, texts_of
from training.data import TrainingData, tags_of
from training.linear_codes import LINEAR_METHODS, train_linear
from training.recipe import METHODS, LinearRecipe, Recipe, default_method

Bits = npt.NDArray[np.uint8]


class SemanticHasher(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learn short binary codes of texts or vectors; search them by Hamming distance.

    It is a scikit-learn transformer: pipelines, grid search and ``clone`` work. Training needs the
    extra ``hummingbit[train]`` unless the method is one of itq, pca-sign and lsh.

    Parameters
    ----------
    n_bits : int, default=64
        Bits in a code, a multiple of 8.
    method : str, default="auto"
        One of the methods of ``hummingbit train``. "auto" takes ssb-vae where rows of two classes
        are labelled; else ict for texts and itq for vectors, or lsh where the vectors or the rows
        are fewer than the bits.
    epochs : int, default=15
        Passes over the rows; the linear methods need none.
    analyzer : str, default="unicode"
        What splits texts into terms, as in ``hummingbit train --analyzer``.
    max_terms : int, default=10000
        Terms in the vocabulary of a text encoder.
    validation_fraction : float, default=0.0
        Share of the labelled rows to hold out and to judge the codes by; see `validation_`.
    output : {"packed", "bits"}, default="packed"
        Whether :meth:`transform` returns bytes of eight bits each, or a column a bit.
    random_state : int, RandomState or None, default=0
        Seed of everything that is drawn.
    settings : mapping, default=None
        Further settings of the method's recipe, such as ``{"word_dropout": 0.1}``.

    Attributes
    ----------
    encoder_ : Encoder
        The encoder, as it is saved.
    method_ : str
        The method that was used.
    classes_ : ndarray of str
        The labels that were shown, in order.
    validation_ : mapping
        Figures on the rows held out; empty where none were.
    warnings_ : tuple of str
        What is wrong with the codes, a sentence each.

    Examples
    --------
    >>> from hummingbit import SemanticHasher
    >>> texts = ["a cat and a dog", "dogs and cats", "stocks and bonds", "a bond or a stock"] * 10
    >>> hasher = SemanticHasher(n_bits=16, method="lsh").fit(texts)
    >>> hasher.transform(["a dog", "a stock"]).shape
    (2, 2)
    >>> hasher.encoder_.n_bits
    16
    """

    def __init__(
        self,
        n_bits: int = 64,
        *,
        method: str = "auto",
        epochs: int = 15,
        analyzer: str = "unicode",
        max_terms: int = 10_000,
        validation_fraction: float = 0.0,
        output: str = "packed",
        random_state: Any = 0,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.method = method
        self.epochs = epochs
        self.analyzer = analyzer
        self.max_terms = max_terms
        self.validation_fraction = validation_fraction
        self.output = output
        self.random_state = random_state
        self.settings = settings

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn codes of `X`, and of the labels `y` where there are any.

        `X` is a sequence of N texts (a list, an array or a pandas Series), or an array ``(N, D)``
        of finite numbers. `y` has a label for each row, and -1, None, NaN or "" where a row is
        unlabelled; rows of several labels have a collection of them, or `y` is an indicator matrix
        ``(N, C)``.

        Raises:
            ValueError: if `X` or `y` is none of these, a parameter is out of its range, or the rows
                are too few to learn from.
        """
        self._check_output()
        inputs = self._check_inputs(X, reset=True)
        labels = label_sets(y, len(inputs))
        names = tuple(map(str, range(len(labels))))
        data = TrainingData(names, inputs, *tags_of(labels))
        recipe = self._recipe(data)
        with tempfile.TemporaryDirectory(prefix="hummingbit-") as scratch:
            out = Path(scratch) / "encoder"
            trained = _train(data, recipe, out)
            self._files = {path.name: path.read_bytes() for path in sorted(out.iterdir())}
        self.encoder_: Encoder = trained.encoder
        self.method_: str = recipe.method
        self.classes_ = np.array(data.classes, dtype=np.str_)
        self.validation_: Mapping[str, Any] = trained.validation
        self.warnings_: tuple[str, ...] = trained.warnings
        shown = np.flatnonzero(data.tags.any(axis=1))
        self._shown_labels = [labels[row] for row in shown]
        self._shown_codes = self.encoder_.encode(data.take(shown))
        return self

    def transform(self, X: Any) -> Codes | Bits:
        """Return the codes of `X`: ``uint8 (N, n_bits / 8)``, or ``uint8 (N, n_bits)`` as bits.

        Bit b of a code is bit 7 - b % 8 of byte b // 8, as ``numpy.packbits`` has it.

        Raises:
            ValueError: if `X` is not of the kind that was fitted.
        """
        check_is_fitted(self)
        self._check_output()
        codes = self.encoder_.encode(self._check_inputs(X, reset=False))
        return codes if self.output == "packed" else unpack_codes(codes)

    def query_weights(self, X: Any) -> Floats:
        """Return what each bit of a document weighs for queries `X`, ``float32 (N, n_bits)``.

        The asymmetric ranking orders documents by ``weights @ (2 bits - 1)``; see
        :meth:`encoder.encoder.Encoder.query_weights`.
        """
        check_is_fitted(self)
        return self.encoder_.query_weights(self._check_inputs(X, reset=False))

    def score(self, X: Any, y: Any) -> float:
        """Return mAP@100 of `X` as queries among the labelled rows that were fitted, tie-averaged.

        A row is relevant to a query if they have a label in common. Queries without a label are
        left out.

        Raises:
            ValueError: if no row that was fitted, or no query, has a label.
        """
        check_is_fitted(self)
        inputs = self._check_inputs(X, reset=False)
        labels = label_sets(y, len(inputs))
        queries = [row for row, own in enumerate(labels) if own]
        if not queries or not self._shown_labels:
            side = (
                "y holds no label" if self._shown_labels else "no row that was fitted has a label"
            )
            raise ValueError(f"{side}; a score needs labels on both sides")
        found = evaluate_codes(
            self.encoder_.encode(inputs)[queries],
            [labels[row] for row in queries],
            self._shown_codes,
            self._shown_labels,
            ["mAP@100"],
        )
        return found.expected["mAP@100"]

    def save(self, folder: str | Path) -> Path:
        """Write the encoder to `folder`, which must not exist, and return its path.

        ``hummingbit encoder add``, :func:`hummingbit.load_encoder` and
        :meth:`hummingbit.Collection.create` take it.

        Raises:
            ArtifactError: if `folder` exists or cannot be written.
        """
        check_is_fitted(self)
        with tempfile.TemporaryDirectory(prefix="hummingbit-") as scratch:
            for name, contents in self._files.items():
                (Path(scratch) / name).write_bytes(contents)
            install_artifact(Path(scratch), Path(folder))
        return Path(folder)

    @property
    def _n_features_out(self) -> int:
        """Columns of what :meth:`transform` returns; scikit-learn names them."""
        n_bits = self.encoder_.n_bits
        return n_bits if self.output == "bits" else n_bits // 8

    def __sklearn_tags__(self) -> Any:
        """Say that vectors and texts are taken, and labels where there are any."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.target_tags.required = False
        tags.transformer_tags.preserves_dtype = []  # codes are bytes whatever comes in
        return tags

    def _check_output(self) -> None:
        if self.output not in ("packed", "bits"):
            raise ValueError(f"output is {self.output!r}; it must be packed or bits")

    def _check_inputs(self, X: Any, *, reset: bool) -> Inputs:
        """Return `X` as a list of texts or as ``float32 (N, D)``."""
        texts = texts_of(X)
        if not reset and (texts is not None) != (self.encoder_.kind == "text"):
            given = "X holds texts" if texts is not None else "X holds no texts"
            raise ValueError(f"{given}; the encoder takes {self.encoder_.kind}s")
        if texts is not None:
            return texts
        checked: Floats = validate_data(self, X, reset=reset, dtype=np.float32)
        return checked

    def _recipe(self, data: TrainingData) -> Recipe | LinearRecipe:
        method = self.method
        if method == "auto":
            width = None if data.is_text else np.shape(data.inputs)[1]
            method = default_method(len(data.classes), width, len(data), self.n_bits)
        elif method not in METHODS and method not in LINEAR_METHODS:
            known = ", ".join(["auto", *METHODS, *LINEAR_METHODS])
            raise ValueError(f"method is {method!r}; it must be one of {known}")
        kind: type[Recipe | LinearRecipe] = LinearRecipe if method in LINEAR_METHODS else Recipe
        taken = {one.name for one in fields(kind)}
        given: dict[str, Any] = {
            "n_bits": self.n_bits,
            "epochs": self.epochs,
            "analyzer": self.analyzer,
            "max_terms": self.max_terms,
            "validation_share": self.validation_fraction,
            "seed": _seed(self.random_state),
        }
        further = dict(self.settings or {})
        wrong = sorted(set(further) - taken | (set(further) & {*given, "method"}))
        if wrong:
            known = ", ".join(sorted(taken - {*given, "method"}))
            raise ValueError(f"settings: {wrong[0]!r} is not one of {known}")
        own = {name: value for name, value in given.items() if name in taken}
        return kind(method=method, **own, **further)


def _train(data: TrainingData, recipe: Recipe | LinearRecipe, out: Path) -> Any:
    if isinstance(recipe, LinearRecipe):
        return train_linear(data, recipe, out)
    try:
        from training.semi_supervised import train  # noqa: PLC0415 - torch takes a second
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        hint = "install hummingbit[train], or choose one of the methods itq, pca-sign and lsh"
        raise ModuleNotFoundError(f"{recipe.method} needs torch; {hint}", name="torch") from error
    return train(data, recipe, out, progress=False)


def _seed(random_state: Any) -> int:
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
