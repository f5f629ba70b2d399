"""The scikit-learn estimator: its contract, its labels, and what it saves."""

from __future__ import annotations

import doctest
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import hummingbit.hasher
from hummingbit import SemanticHasher, load_encoder
from hummingbit.encoder.artifact import ArtifactError
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.evaluation.relevance import Labelled
from tests.support.encoders import class_encoder, random_texts
from tests.support.recipes import train_in_few_batches

PETS = ["a cat and a dog play", "the dog barks at a cat", "cats like milk", "dogs like bones"]
MONEY = ["stocks and bonds fall", "a bond pays interest", "banks lend money", "money buys stocks"]
TEXTS = [f"{text} {i}" for i in range(8) for text in PETS + MONEY]
LABELS = ["pets" if i % 8 < 4 else "money" for i in range(64)]


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ict and sne train with few batches; they take hundreds of however few rows."""
    train_in_few_batches(monkeypatch)


def without_array_api(check: Any) -> bool:
    """Tell whether a check runs without SciPy's switch for other kinds of arrays."""
    return bool(getattr(check, "func", check).__name__ != "check_array_api_input")


ESTIMATOR = SemanticHasher(n_bits=8, epochs=1)
with warnings.catch_warnings():
    # It has the interface without the base class, so that its import takes no scikit-learn.
    warnings.filterwarnings("ignore", message=".*does not inherit from `sklearn.base")
    ALL_CHECKS = [check for _, check in estimator_checks_generator(ESTIMATOR)]
CHECKS = [*filter(without_array_api, ALL_CHECKS)]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: getattr(check, "func", check).__name__)
def test_vectors_pass_every_check_of_scikit_learn(check: Any) -> None:
    check(clone(ESTIMATOR))


def test_fitting_a_data_frame_names_the_column_to_choose() -> None:
    frame = pd.DataFrame({"title": ["a b"] * 9, "body": ["the moon and the sea"] * 9, "year": 9})
    with pytest.raises(ValueError, match=r"'title', 'body', 'year'; .* as frame\['body'\]"):
        SemanticHasher(n_bits=16, method="lsh").fit(frame)
    numbers = pd.DataFrame({"x": np.arange(12.0), "y": np.arange(12.0)[::-1]})
    assert SemanticHasher(n_bits=8, method="lsh").fit(numbers).transform(numbers).shape == (12, 1)


def test_labelled_texts_get_codes_that_tell_their_classes(tmp_path: Path) -> None:
    hasher = SemanticHasher(n_bits=16, epochs=10).fit(TEXTS, LABELS)
    assert hasher.method_ == "class-codes"
    assert hasher.classes_.tolist() == ["money", "pets"]
    with pytest.warns(UserWarning, match="values of training data"):
        assert hasher.score(TEXTS, LABELS) > 0.9
    codes = hasher.transform(TEXTS)
    assert codes.shape == (64, 2)
    assert codes.dtype == np.uint8
    again = load_encoder(hasher.save(tmp_path / "saved"))
    np.testing.assert_array_equal(again.encode(TEXTS), codes)
    with pytest.raises(ArtifactError, match="already exists"):
        hasher.save(tmp_path / "saved")


def average_precision(relevant: npt.NDArray[np.bool_]) -> float:
    """Return the mean of P@r over the ranks r, from 1, at which something relevant is."""
    ranks = np.flatnonzero(relevant) + 1
    return float(np.mean([relevant[:rank].mean() for rank in ranks]))


def test_the_score_is_the_average_precision_over_random_orders_of_ties() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 16)), np.arange(30) % 3
    hasher = SemanticHasher(n_bits=16, method="itq").fit(X, y)
    bits = np.unpackbits(hasher.transform(X), axis=1)
    distances = (bits[:, None] != bits[None]).sum(axis=2)
    drawn = [
        average_precision(y[np.lexsort((rng.random(30), row))] == own)
        for _ in range(200)
        for row, own in zip(distances, y, strict=True)
    ]
    with pytest.warns(UserWarning, match="values of training data"):
        assert hasher.score(X, y) == pytest.approx(np.mean(drawn), abs=0.01)


def test_a_score_encodes_queries_as_queries() -> None:
    hasher = SemanticHasher(n_bits=32, method="lsh").fit(TEXTS, LABELS)
    encoder, texts = class_encoder(), random_texts(60)
    labels = [text.split()[0] for text in texts]
    hasher.encoder_ = encoder
    hasher._shown_codes, hasher._shown_labels = (
        encoder.encode(texts),
        [(label,) for label in labels],
    )
    rows = Labelled(texts, [(label,) for label in labels])
    expected = evaluate_encoder(encoder, rows, rows, ["mAP@100"]).expected["mAP@100"]
    assert hasher.score(texts, labels) == expected
    queries = encoder.encode_uncorrected_queries(texts)
    assert (queries != encoder.encode(texts)).any()


@pytest.mark.parametrize(
    ("y", "labelled"),
    [
        (["a", None, "b", ""] * 8, 16),
        (np.array([0, -1, 1, -1] * 8), 16),
        (np.array([0.0, np.nan, 1.0, -1.0] * 8), 16),
        (pd.Series(["a", None, "b", float("nan")] * 8, index=range(100, 132)), 16),
        ([("a", "b"), (), ("b",), []] * 8, 16),
        (np.array([[1, 0], [0, 0], [1, 1], [0, 1]] * 8), 24),
    ],
)
def test_rows_without_a_label_are_unlabelled(y: Any, labelled: int) -> None:
    hasher = SemanticHasher(n_bits=8, epochs=1).fit(TEXTS[:32], y)
    assert hasher.encoder_.metadata["trained_on"]["labelled"] == labelled
    assert len(hasher.classes_) == 2


@pytest.mark.filterwarnings("ignore:the codes were learned from 6 documents")
@pytest.mark.parametrize(
    ("X", "method"),
    [(TEXTS, "ict"), (np.eye(20), "sne"), (np.eye(20)[:, :4], "lsh"), (np.eye(20)[:6], "lsh")],
)
@pytest.mark.usefixtures("_short")
def test_without_labels_the_rows_choose_the_method(X: Any, method: str) -> None:
    assert SemanticHasher(n_bits=8, epochs=1).fit(X).method_ == method


@pytest.mark.usefixtures("_short")
def test_the_same_seed_gives_the_same_codes() -> None:
    makes = [SemanticHasher(n_bits=8, epochs=1, random_state=3) for _ in range(2)]
    one, other = (hasher.fit(TEXTS) for hasher in makes)
    np.testing.assert_array_equal(one.transform(TEXTS), other.transform(TEXTS))


def test_a_fitted_hasher_can_be_pickled_cloned_and_searched_over() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 8)), np.arange(60) % 3
    pipeline = make_pipeline(StandardScaler(), SemanticHasher(method="itq"))
    search = GridSearchCV(pipeline, {"semantichasher__n_bits": [8]}, cv=2).fit(X, y)
    best = search.best_estimator_
    again = pickle.loads(pickle.dumps(best))  # noqa: S301 - written a moment ago
    np.testing.assert_array_equal(again.transform(X), best.transform(X))
    assert not hasattr(clone(best[-1]), "encoder_")


def test_bits_come_with_names_for_pandas() -> None:
    hasher = SemanticHasher(n_bits=8, method="lsh", output="bits").set_output(transform="pandas")
    frame = hasher.fit(np.eye(10)).transform(np.eye(10))
    assert frame.shape == (10, 8)
    assert list(frame.columns)[:2] == ["semantichasher0", "semantichasher1"]


def test_texts_of_a_list_and_of_a_series_come_as_a_frame() -> None:
    hasher = SemanticHasher(n_bits=8, method="lsh").set_output(transform="pandas").fit(TEXTS)
    rows = pd.Series(TEXTS[:3], index=["a", "b", "c"])
    assert [*hasher.transform(rows).index] == ["a", "b", "c"]
    of_list = hasher.transform(TEXTS[:3])
    assert [*of_list.index] == [0, 1, 2]
    np.testing.assert_array_equal(of_list, hasher.transform(rows))


@pytest.mark.parametrize(
    ("make", "X", "y", "message"),
    [
        ({"n_bits": 12}, TEXTS, None, "n_bits"),
        ({"method": "magic"}, TEXTS, None, "it must be one of auto, ssb-vae"),
        ({"output": "hex"}, TEXTS, None, "output is 'hex'"),
        ({"settings": {"n_bits": 8}}, TEXTS, None, "'n_bits' is not one of"),
        ({"settings": {"colour": 1}}, TEXTS, None, "'colour' is not one of"),
        ({"method": "itq", "settings": {"epochs": 1}}, TEXTS, None, "'epochs' is not one of"),
        ({}, "one text", None, "X is one text"),
        ({}, [], None, "X is empty; it must hold texts or vectors"),
        ({}, ["a", 1], None, r"X\[1\]: is 1"),
        ({}, TEXTS, LABELS[:-1], "y has 63 rows and X has 64"),
        ({}, TEXTS, [0.5] * 64, r"y\[0\] is 0.5"),
        ({"method": "ssb-vae"}, TEXTS, None, "distinct labels"),
    ],
)
def test_what_cannot_be_is_named(make: dict[str, Any], X: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SemanticHasher(**make).fit(X, y)


def test_texts_are_not_taken_for_vectors() -> None:
    hasher = SemanticHasher(n_bits=8, method="lsh").fit(np.eye(10))
    with pytest.raises(ValueError, match="the encoder takes vectors"):
        hasher.transform(TEXTS)
    with pytest.raises(ValueError, match="no row that was fitted has a label"):
        hasher.score(np.eye(10), [1] * 10)


def test_settings_reach_the_recipe() -> None:
    hasher = SemanticHasher(n_bits=8, epochs=1, settings={"word_dropout": 0.1}).fit(TEXTS, LABELS)
    assert hasher.encoder_.metadata["recipe"]["word_dropout"] == 0.1


def test_former_names_of_settings_are_taken_with_a_warning() -> None:
    hasher = SemanticHasher(n_bits=8, method="itq", settings={"supervision": 0.5})
    with pytest.warns(FutureWarning, match="'supervision' is now 'label_fraction'"):
        hasher.fit(TEXTS)
    assert hasher.encoder_.metadata["recipe"]["label_fraction"] == 0.5


def test_methods_without_a_network_need_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "hummingbit.training.semi_supervised", raising=False)
    assert SemanticHasher(n_bits=8, method="itq").fit(np.eye(10)).method_ == "itq"
    with pytest.raises(ModuleNotFoundError, match="methods class-codes"):
        SemanticHasher(n_bits=8).fit(TEXTS)


def test_the_examples_of_its_docstring_hold() -> None:
    found = doctest.testmod(hummingbit.hasher)
    assert found.attempted > 0
    assert not found.failed


@pytest.mark.usefixtures("_short")
def test_fitting_few_rows_warns() -> None:
    with pytest.warns(UserWarning, match="learned from 3 documents, which say little about oth"):
        hasher = SemanticHasher(n_bits=8).fit(["a cat", "a dog", "stocks, bonds"])
    assert len(hasher.warnings_) == 1
    vectors = np.random.default_rng(0).normal(size=(12, 8))
    with pytest.warns(UserWarning, match="learned from 9 documents"):
        SemanticHasher(n_bits=8).fit(vectors[:9])
    assert SemanticHasher(n_bits=8).fit(vectors).warnings_ == ()
