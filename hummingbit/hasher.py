"""Semantic hashing as a scikit-learn estimator.

scikit-learn, torch and what trains are imported when they are used: scikit-learn alone takes
several times as long as numpy. The estimator therefore has scikit-learn's interface without its
base classes.
"""

from __future__ import annotations

import inspect
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.document import DocumentError, parse_text
from hummingbit.corpus.labels import is_missing, names_of
from hummingbit.encoder.artifact import install_artifact
from hummingbit.encoder.codes import Codes, unpack_codes
from hummingbit.encoder.encoder import Encoder, Inputs
from hummingbit.encoder.recipes import (
    CLASS_CODES,
    DEFAULT_BITS,
    MODEL,
    RECIPES,
    STATIC,
    BaseRecipe,
    ClassCodeRecipe,
    former_names,
)
from hummingbit.encoder.text_features import Floats
from hummingbit.foundation.errors import counted, install_command
from hummingbit.inputs import check_several, is_unlabelled

if TYPE_CHECKING:
    from hummingbit.evaluation.relevance import LabelSet
    from hummingbit.training.data import TrainingData
    from hummingbit.training.pipeline import Trained

# Parses what users of the estimator pass in: X of texts, and y of labels.


SAMPLED_ROWS = 100
"""So many rows of a table are looked at for texts."""


def texts_of(x: Any) -> list[str] | None:
    """Return a sequence of texts as a checked list, or None if it holds no texts.

    Raises:
        ValueError: if `x` is empty or a single text, or an item is not a text that can be encoded.
    """
    if isinstance(x, str):
        raise ValueError("X is one text; it must be a sequence of texts")  # noqa: TRY004
    if hasattr(x, "columns"):
        _refuse_columns_of_texts(x)
    elif hasattr(x, "to_pylist"):
        x = x.to_pylist()
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


def _refuse_columns_of_texts(frame: Any) -> None:
    """Raise ValueError if a table has columns of strings; it says which one to choose."""
    lengths = {}
    columns = getattr(frame, "column_names", frame.columns)
    for name in columns:
        values = frame[name][:SAMPLED_ROWS]
        strings = [value for value in check_several("X", values) if isinstance(value, str)]
        if strings:
            lengths[name] = sum(map(len, strings)) / len(strings)
    if lengths:
        best = max(lengths, key=lengths.__getitem__)
        names = ", ".join(map(repr, columns))
        message = f"X is a table with the columns {names}; pass one column of texts"
        raise ValueError(f"{message}: {best!r} has the longest, as frame[{best!r}]")


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
    if is_unlabelled(value):
        return ()
    if isinstance(value, float | np.floating) and not (is_missing(value) or value == value // 1):
        raise ValueError(f"y[{row}] is {value}; a label must be a string or an integer")
    try:
        return names_of(value)
    except ValueError as error:
        raise ValueError(f"y[{row}] {error}") from None


# Semantic hashing as a scikit-learn estimator.


Bits = npt.NDArray[np.uint8]


class SemanticHasher:
    """Learn short binary codes of texts or vectors; search them by Hamming distance.

    It is a scikit-learn transformer: pipelines, grid search and ``clone`` work. Training needs
    torch, the extra ``train``, unless the method is one of itq, pca-sign and lsh, or class-codes
    whose content is not learned by ict.

    Parameters
    ----------
    n_bits : int, optional
        The number of bits in a code, a multiple of 8. By default it is that of the method: 128 for
        codes of a language model, and 64 for all others.
    method : str, default="auto"
        One of the methods of ``hummingbit train``. If the labels have two classes or more, "auto"
        chooses class-codes, or ssb-vae if `settings` has one that class-codes does not know, or
        class-codes does not take such rows: vectors of several labels, say, or more bits than rows.
        Otherwise it chooses ict for texts and sne for vectors, or lsh if there are fewer dimensions
        or fewer rows than bits.
    epochs : int, default=None
        Passes over the rows; the linear methods and class-codes ignore it. None is the default of
        the method, as in ``hummingbit train``.
    analyzer : str, default=None
        How texts are split into terms, as in ``hummingbit train --analyzer``.
    max_terms : int, default=None
        The number of terms in the vocabulary of a text encoder. None is the default of the method:
        100,000 for class-codes and 10,000 for the others.
    validation_fraction : float, default=0.0
        The share of the labelled rows to hold out and to evaluate the codes on; see `validation_`.
    output : {"packed", "bits"}, default="packed"
        Whether :meth:`transform` returns bytes of eight bits each, or one column for each bit.
    random_state : int, RandomState or None, default=0
        The seed of all random numbers.
    model : str or path, default=None
        The folder of a language model that reads the texts, as sentence-transformers saves it; the
        method is then "model". It needs the extra ``hummingbit[model]``. "auto" takes the one
        that ``hummingbit quickstart`` would take, if any: for texts without labels, that of the
        variable ``HUMMINGBIT_MODEL``, or the first in the folder ``models`` of the environment. If
        there is none and hummingbit-models is installed, the method is "static".
    settings : mapping, default=None
        Further settings of the method's recipe, such as ``{"word_dropout": 0.1}``.

    Attributes
    ----------
    encoder_ : Encoder
        The encoder that :meth:`save` writes.
    method_ : str
        The method that was used.
    classes_ : ndarray of str
        The labels in `y`, sorted.
    validation_ : mapping
        Metrics on the rows held out; empty if there were none.
    warnings_ : tuple of str
        Problems of the codes, one sentence each. `fit` also warns of them.

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
        n_bits: int | None = None,
        *,
        method: str = "auto",
        epochs: int | None = None,
        analyzer: str | None = None,
        max_terms: int | None = None,
        validation_fraction: float = 0.0,
        output: str = "packed",
        random_state: Any = 0,
        model: str | Path | None = None,
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
        self.model = model
        self.settings = settings

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn codes from `X` and, if there are any, the labels `y`.

        `X` is a sequence of N texts (a list, an array or a column of a table), or an array
        ``(N, D)`` of finite numbers. `y` has a label for each row, which is -1, None, NaN or "" if
        the row is unlabelled. For several labels a row, an entry is a collection of them, or `y` is
        an indicator matrix ``(N, C)``.

        Raises:
            ValueError: if `X` or `y` has another form, a parameter is out of its range, or there
                are too few rows to learn from.
        """
        # Imported here and below, as the module says.
        from hummingbit.training.data import TrainingData, tags_of  # noqa: PLC0415

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
        for sentence in self.warnings_:
            warnings.warn(sentence, stacklevel=2)
        labelled = np.flatnonzero(data.tags.any(axis=1))
        self._shown_labels = [labels[row] for row in labelled]
        self._shown_codes = self.encoder_.encode(data.take(labelled))
        return self

    def transform(self, X: Any) -> Any:
        """Return the codes of `X`: ``uint8 (N, n_bits / 8)``, or ``uint8 (N, n_bits)`` as bits.

        Bit b of a code is bit 7 - b % 8 of byte b // 8, as in ``numpy.packbits``. After
        :meth:`set_output` the codes are a table.

        Raises:
            ValueError: if `X` is not of the kind that the hasher was fitted on.
        """
        self._check_fitted()
        self._check_output()
        codes = self.encoder_.encode(self._check_inputs(X, reset=False))
        return self._in_container(X, codes if self.output == "packed" else unpack_codes(codes))

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn codes from `X` and `y` as :meth:`fit` does, and return the codes of `X`."""
        return self.fit(X, y).transform(X)

    def query_weights(self, X: Any) -> Floats:
        """Return the weight of each bit of a document for queries `X`, ``float32 (N, n_bits)``.

        The asymmetric ranking orders documents by ``weights @ (2 bits - 1)``; see
        :meth:`hummingbit.encoder.encoder.Encoder.query_weights`.
        """
        self._check_fitted()
        return self.encoder_.query_weights(self._check_inputs(X, reset=False))

    def score(self, X: Any, y: Any) -> float:
        """Return the tie-averaged mAP@100 of the queries `X` among the fitted, labelled rows.

        A row is relevant to a query if they have a label in common. Queries without a label are
        left out, and so are those that the hasher was fitted on, unless there are no others. A
        warning of Python says so.

        Raises:
            ValueError: if no fitted row or no query has a label.
        """
        from hummingbit.evaluation.evaluate import evaluate_codes, unseen  # noqa: PLC0415
        from hummingbit.evaluation.relevance import Labelled  # noqa: PLC0415

        self._check_fitted()
        inputs = self._check_inputs(X, reset=False)
        labels = label_sets(y, len(inputs))
        queries = [row for row, row_labels in enumerate(labels) if row_labels]
        if not queries or not self._shown_labels:
            problem = (
                "y has no label" if self._shown_labels else "no row that was fitted has a label"
            )
            raise ValueError(f"{problem}; a score needs labels of both")
        labelled, learned = unseen(self.encoder_, Labelled(inputs, labels).take(queries))
        for sentence in (learned.warning, *learned.notes):
            if sentence is not None:
                warnings.warn(sentence, stacklevel=2)
        evaluation = evaluate_codes(
            self.encoder_.encode_uncorrected_queries(labelled.inputs),
            labelled.labels,
            self._shown_codes,
            self._shown_labels,
            ["mAP@100"],
        )
        return evaluation.expected["mAP@100"]

    def save(self, folder: str | Path) -> Path:
        """Write the encoder to `folder`, which must not exist, and return its path.

        ``hummingbit encoder install``, :func:`hummingbit.load_encoder` and
        :meth:`hummingbit.Collection.create` take it.

        Raises:
            ArtifactError: if `folder` exists or cannot be written.
        """
        self._check_fitted()
        with tempfile.TemporaryDirectory(prefix="hummingbit-") as scratch:
            for name, contents in self._files.items():
                (Path(scratch) / name).write_bytes(contents)
            install_artifact(Path(scratch), Path(folder))
        return Path(folder)

    # scikit-learn's interface.

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the parameters by name; none of them is an estimator, whatever `deep` says."""
        return {name: getattr(self, name) for name in PARAMETERS}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, and return the hasher.

        Raises:
            ValueError: if there is no parameter of a name.
        """
        for name, value in params.items():
            if name not in PARAMETERS:
                known = ", ".join(PARAMETERS)
                raise ValueError(
                    f"there is no parameter {name!r} of SemanticHasher; known: {known}"
                )
            setattr(self, name, value)
        return self

    def set_output(self, *, transform: str | None = None) -> Self:
        """Let :meth:`transform` return a table of `transform`: "pandas", "polars" or "default"."""
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    def get_feature_names_out(
        self,
        input_features: Any = None,  # noqa: ARG002
    ) -> npt.NDArray[np.object_]:
        """Return the names of the columns that :meth:`transform` returns: semantichasher0, …"""
        self._check_fitted()
        n_bits = self.encoder_.n_bits
        columns = n_bits if self.output == "bits" else n_bits // 8
        names = [f"{type(self).__name__.lower()}{column}" for column in range(columns)]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        """Declare that the estimator takes vectors and texts, and labels optionally."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags  # noqa: PLC0415

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            # Codes are bytes whatever comes in.
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(string=True),
        )

    def __repr__(self) -> str:
        """Return the call that makes a hasher of these parameters."""
        given = {
            name: value
            for name, value in self.get_params().items()
            if not (value is PARAMETERS[name] or value == PARAMETERS[name])
        }
        written = ", ".join(f"{name}={value!r}" for name, value in given.items())
        return f"{type(self).__name__}({written})"

    def _in_container(self, X: Any, codes: Codes | Bits) -> Any:
        """Return codes as :meth:`set_output`, or else scikit-learn's configuration, asks for."""
        from sklearn import get_config  # noqa: PLC0415

        config = getattr(self, "_sklearn_output_config", {})
        kind = config.get("transform", get_config()["transform_output"])
        if kind == "default":
            return codes
        names = [*self.get_feature_names_out()]
        if kind == "pandas":
            import pandas as pd  # noqa: PLC0415 - an extra

            # A list has an `index`, too, which is a method.
            index = X.index if isinstance(X, pd.DataFrame | pd.Series) else None
            return pd.DataFrame(codes, columns=names, index=index)
        import polars as pl  # noqa: PLC0415 - not needed otherwise

        return pl.DataFrame(codes, schema=names)

    def _check_fitted(self) -> None:
        if not hasattr(self, "encoder_"):
            from sklearn.exceptions import NotFittedError  # noqa: PLC0415

            raise NotFittedError("this SemanticHasher is not fitted yet; call fit first")

    def _check_output(self) -> None:
        if self.output not in ("packed", "bits"):
            raise ValueError(f"output is {self.output!r}; it must be packed or bits")

    def _check_inputs(self, X: Any, *, reset: bool) -> Inputs:
        """Return `X` as a list of texts or as ``float32 (N, D)``."""
        texts = texts_of(X)
        if not reset and (texts is not None) != (self.encoder_.kind == "text"):
            kind = "texts" if texts is not None else "no texts"
            raise ValueError(f"X holds {kind}; the encoder takes {self.encoder_.kind}s")
        if texts is not None:
            return texts
        from sklearn.utils.validation import validate_data  # noqa: PLC0415

        vectors: Floats = validate_data(self, X, reset=reset, dtype=np.float32)
        return vectors

    def _recipe(self, data: TrainingData) -> BaseRecipe:
        from hummingbit.training_methods import METHOD_NAMES  # noqa: PLC0415

        settings = dict(self.settings or {})
        method = self.method
        model = self._chosen_model(data)
        if model == STATIC:
            method = STATIC
        elif model is not None:
            settings["model"] = model
        if method == "auto":
            method = self._default_method(data, settings)
        elif method not in METHOD_NAMES:
            methods = ", ".join(["auto", *METHOD_NAMES])
            raise ValueError(f"method is {method!r}; it must be one of {methods}")
        kind = RECIPES[method]
        recipe_fields = _names(kind)
        settings = _with_current_names(kind, settings)
        parameters: dict[str, Any] = {
            "n_bits": self.n_bits,
            "epochs": self.epochs,
            "analyzer": self.analyzer,
            "max_terms": self.max_terms,
            "validation_share": self.validation_fraction,
            "seed": _seed(self.random_state),
        }
        allowed = recipe_fields - {*parameters, "method"}
        unknown = sorted(set(settings) - allowed)
        if unknown:
            names = ", ".join(sorted(allowed))
            raise ValueError(f"settings: {unknown[0]!r} is not one of {names}")
        known = recipe_fields & parameters.keys()
        used = {name: parameters[name] for name in known if parameters[name] is not None}
        return kind(method=method, **used, **settings)

    def _chosen_model(self, data: TrainingData) -> str | None:
        from hummingbit.training_methods import choose_model  # noqa: PLC0415

        if self.model != "auto":
            return None if self.model is None else str(self.model)
        if not data.is_text or self.method not in ("auto", MODEL):
            return None
        has_labels = self.method == "auto" and len(data.classes) > 1
        texts = map(str, data.inputs)
        model = choose_model(None, texts, has_labels=has_labels, n_bits=self.n_bits).model
        return None if (model, self.method) == (STATIC, MODEL) else model

    def _default_method(self, data: TrainingData, settings: Mapping[str, Any]) -> str:
        from hummingbit.training_methods import default_method  # noqa: PLC0415

        if "model" in settings:
            return MODEL
        method = default_method(data, self.n_bits or DEFAULT_BITS)
        known = _names(ClassCodeRecipe) | former_names(ClassCodeRecipe).keys()
        if method == CLASS_CODES and not settings.keys() <= known:
            return "ssb-vae"
        return method


PARAMETERS = {
    name: parameter.default
    for name, parameter in inspect.signature(SemanticHasher).parameters.items()
}
"""The parameters of the estimator, and their defaults."""


def _with_current_names(kind: type[BaseRecipe], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings by their current names; warn of the former ones."""
    current = former_names(kind)
    for name in settings.keys() & current.keys():
        message = f"settings: {name!r} is now {current[name]!r}; use that name"
        warnings.warn(message, FutureWarning, stacklevel=3)
    return {current.get(name, name): value for name, value in settings.items()}


def _names(kind: type[BaseRecipe]) -> set[str]:
    return {field.name for field in fields(kind)}


def _train(data: TrainingData, recipe: BaseRecipe, out: Path) -> Trained:
    from hummingbit.training_methods import train_by  # noqa: PLC0415

    try:
        return train_by(data, recipe, out, progress=False)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        hint = f"install it with: {install_command('train')}; the methods class-codes (of rows with"
        hint += " labels), itq, pca-sign and lsh need none"
        raise ModuleNotFoundError(f"{recipe.method} needs torch; {hint}", name="torch") from error


def _seed(random_state: Any) -> int:
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    from sklearn.utils import check_random_state  # noqa: PLC0415

    return int(check_random_state(random_state).randint(2**31 - 1))
