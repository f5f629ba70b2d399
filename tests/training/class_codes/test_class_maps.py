from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import ComplementNB
from sklearn.svm import LinearSVC

from hummingbit.encoder.class_code import JointRows
from hummingbit.encoder.classifier import Classifier
from hummingbit.encoder.recipes import QUERY_CLASSIFIERS
from hummingbit.training import class_codes
from hummingbit.training.class_codes import ClassMaps, JointMaps
from hummingbit.training.soft_labels import fit_vectors
from hummingbit.training.word_vectors import WordTable


def drawn_rows(classes: int, seed: int = 0) -> tuple[sparse.csr_array, np.ndarray]:
    """Rows of terms, ten of each class's own and ten of all, and the classes."""
    rng = np.random.default_rng(seed)
    belongs = rng.integers(classes, size=200)
    counts = np.zeros((200, 10 * classes + 10), dtype=np.float32)
    for row, class_number in enumerate(belongs):
        counts[row, 10 * class_number + rng.integers(10, size=4)] = 1
        counts[row, -1 - rng.integers(10, size=4)] = 1
    return sparse.csr_array(counts / np.linalg.norm(counts, axis=1, keepdims=True)), belongs


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("name", QUERY_CLASSIFIERS)
def test_each_classifier_tells_classes_apart_as_sharply(name: str, classes: int) -> None:
    rows, belongs = drawn_rows(classes)
    found = ClassMaps(rows, np.eye(classes, dtype=np.float32)[belongs], 0).of(name)
    scores = found.scores(rows)
    assert (scores.argmax(axis=1) == belongs).mean() > 0.95
    assert scores.std(axis=1).mean() == pytest.approx(2, rel=1e-3)


def scores_of_one_size(part: str, rows: Any, belongs: Any) -> Any:
    """Return the scores of one classifier, by scikit-learn or from its definition."""
    if part == "ridge":
        reference = Ridge(solver="sparse_cg").fit(rows, np.eye(3)[belongs])
        scores = reference.predict(rows)
    elif part == "svm":
        scores = LinearSVC(random_state=0).fit(rows, belongs).decision_function(rows)
    elif part == "complement":
        scores = rows @ ComplementNB(alpha=0.3).fit(rows, belongs).feature_log_prob_.T
    else:
        sums = np.array([rows.toarray()[belongs == item].sum(axis=0) for item in range(3)])
        shares = sums / sums.sum(axis=1, keepdims=True)
        scores = rows @ np.log(0.3 * shares + 0.7 / rows.shape[1]).T
    if part in ("complement", "multinomial"):
        scores = scores - scores.mean(axis=1, keepdims=True)
    return np.asarray(scores / scores.std(axis=1).mean())


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("both", ("ridge", "multinomial")),
        ("bayes", ("complement", "multinomial")),
        ("ridge", ("ridge",)),
        ("svm", ("svm", "multinomial")),
    ],
)
def test_a_classifier_is_the_sum_of_parts_of_one_size(name: str, parts: tuple[str, ...]) -> None:
    rows, belongs = drawn_rows(3)
    found = ClassMaps(rows, np.eye(3, dtype=np.float32)[belongs], 0).of(name).scores(rows)
    total = sum(scores_of_one_size(part, rows, belongs) for part in parts)
    np.testing.assert_allclose(found, 2 * total / total.std(axis=1).mean(), atol=5e-3)


@pytest.mark.parametrize("name", QUERY_CLASSIFIERS)
def test_a_class_without_documents_is_not_predicted(name: str) -> None:
    rows, belongs = drawn_rows(3)
    targets = np.eye(4, dtype=np.float32)[belongs]
    scores = ClassMaps(rows, targets, 0).of(name).scores(rows)
    assert not (scores.argmax(axis=1) == 3).any()


def test_vectors_are_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, belongs = drawn_rows(3)
    fitted = []

    def fit(*given: np.ndarray) -> Classifier:
        fitted.append(given)
        return fit_vectors(*given)

    monkeypatch.setattr(class_codes, "fit_vectors", fit)
    maps = ClassMaps(rows.toarray(), np.eye(3, dtype=np.float32)[belongs], 0)
    first, second = maps.of("both"), maps.of("both")
    assert len(fitted) == 1
    np.testing.assert_array_equal(first.weight, second.weight)


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("words", ["multinomial"]),
        ("bayes-words", ["complement", "multinomial"]),
        ("svm-words", ["svm", "multinomial"]),
    ],
)
def test_word_vectors_are_a_part_of_the_sum(name: str, others: list[str]) -> None:
    rows, belongs = drawn_rows(3)
    targets = np.eye(3, dtype=np.float32)[belongs]
    vectors = np.random.default_rng(1).normal(size=(rows.shape[1] + 5, 8)).astype(np.float32)
    # Five terms have a vector and occur in no text.
    wide = sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=(200, len(vectors)))
    maps = ClassMaps(wide, targets, 0, WordTable(vectors, rows.shape[1]))
    by_vectors = Ridge(alpha=0.3).fit(wide @ vectors, targets).predict(wide @ vectors)
    total = by_vectors / by_vectors.std(axis=1).mean()
    total = total + sum(scores_of_one_size(other, rows, belongs) for other in others)
    found = maps.of(name).scores(wide)
    np.testing.assert_allclose(found, 2 * total / total.std(axis=1).mean(), atol=5e-3)


@pytest.mark.parametrize("name", QUERY_CLASSIFIERS)
def test_words_that_only_have_a_vector_change_no_other_classifier(name: str) -> None:
    rows, belongs = drawn_rows(3)
    targets = np.eye(3, dtype=np.float32)[belongs]
    wide = sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=(200, rows.shape[1] + 5))
    table = WordTable(np.ones((wide.shape[1], 2), dtype=np.float32), rows.shape[1])
    found, expected = (
        ClassMaps(wide, targets, 0, table).of(name),
        ClassMaps(rows, targets, 0).of(name),
    )
    np.testing.assert_array_equal(found.weight[: rows.shape[1]], expected.weight)
    assert not found.weight[rows.shape[1] :].any()


def test_known_texts_count_several_times_for_documents_alone() -> None:
    rows, belongs = drawn_rows(3)
    rng = np.random.default_rng(1)
    known = rng.random(200) < 0.2
    targets = np.eye(3, dtype=np.float32)[belongs]
    targets[~known] = rng.dirichlet(np.ones(3), size=(~known).sum())
    maps = ClassMaps(rows, targets, 0, known=known, label_weight=7)
    weights = np.where(known, 7, 1)
    ridge = Ridge(solver="sparse_cg").fit(rows, targets, sample_weight=weights).predict(rows)
    sums = (rows.T @ (weights[:, None] * targets)).T
    shares = sums / sums.sum(axis=1, keepdims=True)
    bayes = rows @ np.log(0.3 * shares + 0.7 / rows.shape[1]).T
    total = np.zeros((200, 3))
    for scores in (ridge, bayes - bayes.mean(axis=1, keepdims=True)):
        total += scores / np.average(scores.std(axis=1), weights=weights)
    total *= 2 / np.average(total.std(axis=1), weights=weights)
    np.testing.assert_allclose(maps.of_documents("both").scores(rows), total, atol=5e-3)
    alike = ClassMaps(rows, targets, 0).of("both")
    np.testing.assert_array_equal(maps.of("both").weight, alike.weight)


def test_texts_that_are_all_known_count_once() -> None:
    rows, belongs = drawn_rows(3)
    targets = np.eye(3, dtype=np.float32)[belongs]
    maps = ClassMaps(rows, targets, 0, known=np.ones(200, dtype=np.bool_), label_weight=7)
    assert maps.of_documents("both") is maps.of("both")


def test_a_classifier_by_word_vectors_needs_them() -> None:
    rows, belongs = drawn_rows(3)
    maps = ClassMaps(rows, np.eye(3, dtype=np.float32)[belongs], 0)
    with pytest.raises(ValueError, match="there are no word vectors"):
        maps.of("words")


@pytest.mark.parametrize("word_share", [0.0, 0.35, 1.0])
def test_words_beside_vectors_have_their_share(word_share: float) -> None:
    words, belongs = drawn_rows(3)
    vectors = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    vectors[:, :3] += np.eye(3)[belongs]
    targets = np.eye(3, dtype=np.float32)[belongs]
    both = ClassMaps(vectors, targets, 0), ClassMaps(words, targets, 0)
    rows = JointRows(vectors, words)
    found = JointMaps(*both, rows, word_share).of("bayes").scores(rows)
    of_vectors, of_words = both[0].of("bayes").scores(vectors), both[1].of("bayes").scores(words)
    for scores in (of_vectors, of_words):
        assert scores.std(axis=1).mean() == pytest.approx(2, rel=1e-3)
    total = (1 - word_share) * of_vectors + word_share * of_words
    np.testing.assert_allclose(found, 2 * total / total.std(axis=1).mean(), atol=1e-3)
