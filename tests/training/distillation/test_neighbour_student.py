from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.encoder.recipes import DistillationRecipe, default_objective
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.foundation.arrays import unit_rows
from hummingbit.training import distillation
from hummingbit.training.data import TrainingData, TrainingDataError, gather
from hummingbit.training.distillation import (
    NeighbourLoss,
    codes_of_terms,
    distill,
    nearest_documents,
)
from hummingbit.training.linear_codes import fit_itq
from hummingbit.training.teachers import Teacher
from tests.support.corpora import topic_documents, topic_vectors

RECIPE = DistillationRecipe(objective="neighbours", n_bits=16, epochs=4, max_terms=200)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few documents be several batches, and so many as the epochs need."""
    monkeypatch.setattr(distillation, "MIN_STEPS", 0)
    monkeypatch.setattr(distillation, "BATCH_SIZE", 32)


def sided_teacher(data: TrainingData) -> Teacher:
    """A teacher for which the documents of even and of odd rows are apart, whatever their words."""
    sides = np.where(np.arange(len(data)) % 2, 1.0, -1.0)[:, None]
    noise = np.random.default_rng(0).normal(size=(len(data), 20))
    return Teacher("sides", "vectors", "f" * 64, (4 * sides + noise).astype(np.float32))


def marked_corpus(count: int) -> TrainingData:
    """Documents of topics, where a word tells the parity of the row."""
    documents = [
        replace(document, text=f"{document.text} {('even', 'odd')[row % 2]} mark{row}", labels=())
        for row, document in enumerate(topic_documents(count))
    ]
    return gather(documents)


@pytest.fixture(scope="module")
def corpus() -> TrainingData:
    return marked_corpus(240)


def test_the_student_finds_what_is_near_for_the_teacher(
    corpus: TrainingData, tmp_path: Path
) -> None:
    recipe = replace(RECIPE, epochs=6)
    trained = distill(corpus, sided_teacher(corpus), recipe, tmp_path / "s", progress=False)
    sides = [(str(row % 2),) for row in range(len(corpus))]
    labelled = replace(corpus.labelled(), labels=sides)
    found = evaluate_encoder(trained.encoder, labelled, labelled, ["P@20"])
    assert found.metrics["P@20"] > 0.95
    assert trained.encoder.metadata["coherence"]["nearest"] > 0.5


def test_a_run_repeats_bit_for_bit(corpus: TrainingData, tmp_path: Path) -> None:
    first, again = (
        distill(corpus, sided_teacher(corpus), RECIPE, tmp_path / name, progress=False)
        for name in ("first", "again")
    )
    assert first.encoder.fingerprint == again.encoder.fingerprint


def loss_of(corpus: TrainingData, **settings: Any) -> NeighbourLoss:
    recipe = replace(RECIPE, **settings)
    return NeighbourLoss(corpus, sided_teacher(corpus).vectors, recipe, np.arange(len(corpus)))


def terms_of(loss: NeighbourLoss, rows: np.ndarray) -> Mapping[str, torch.Tensor]:
    return loss(rows, torch.Generator().manual_seed(3), 0.0)


def test_both_losses_reach_every_weight_of_the_batch_s_words(corpus: TrainingData) -> None:
    for name in ("neighbour_loss", "cloze_loss"):
        loss = loss_of(corpus)
        terms = terms_of(loss, np.arange(24))
        assert set(terms) == {"neighbour_loss", "cloze_loss"}
        terms[name].backward()  # type: ignore[no-untyped-call]
        for key, value in loss.model.named_parameters():
            gradient = value.grad
            assert gradient is not None, key
            assert float(gradient.to_dense().abs().sum()) > 0, key


def test_each_text_of_a_batch_brings_two_of_its_ten_nearest(corpus: TrainingData) -> None:
    loss, rows = loss_of(corpus), np.array([7, 3, 100, 41])
    searched = loss._add_nearest(rows, torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(searched[:4], rows)
    assert len(set(searched.tolist())) == len(searched) <= 12
    vectors = unit_rows(sided_teacher(corpus).vectors)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -2)
    nearest = set(np.argsort(-cosines[rows], axis=1)[:, :10].ravel().tolist())
    assert set(searched[4:].tolist()) <= nearest


@pytest.mark.parametrize(("least", "epochs"), [(100, 13), (3, RECIPE.epochs)])
def test_there_are_at_least_so_many_batches(
    corpus: TrainingData, least: int, epochs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 240 documents are eight batches of 32.
    monkeypatch.setattr(distillation, "MIN_STEPS", least)
    assert loss_of(corpus).schedule().epochs == epochs


@given(seed=st.integers(0, 2**31), n=st.integers(2, 12))
def test_the_nearest_are_those_of_a_full_sort_without_the_row_itself(seed: int, n: int) -> None:
    vectors = unit_rows(np.random.default_rng(seed).normal(size=(n, 5)).astype(np.float32))
    cosines, rows = nearest_documents(torch.from_numpy(vectors), 0)
    assert rows.shape == (n, n - 1)
    for row in range(n):
        others = [other for other in range(n) if other != row]
        expected = sorted(others, key=lambda other: -float(vectors[row] @ vectors[other]))
        # Equal cosines may come in either order.
        found = [float(vectors[row] @ vectors[other]) for other in rows[row]]
        assert sorted(rows[row].tolist()) == others
        assert found == pytest.approx([float(vectors[row] @ vectors[o]) for o in expected])
        assert cosines[row].tolist() == pytest.approx(found, abs=1e-6)


def test_of_many_documents_a_sample_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hummingbit.training.distillation._MOST_CANDIDATES", 50)
    monkeypatch.setattr("hummingbit.training.distillation._ROWS_AT_ONCE", 7)
    vectors = unit_rows(np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32))
    cosines, rows = nearest_documents(torch.from_numpy(vectors), 0)
    sample = np.unique(rows)
    assert len(sample) <= 50
    assert not (rows == np.arange(200)[:, None]).any()
    expected = vectors @ vectors[sample].T
    expected[np.arange(200)[:, None] == sample] = -2
    np.testing.assert_allclose(cosines[:, 0], expected.max(axis=1), atol=1e-6)


def test_the_start_is_the_ridge_regression_of_the_teacher_s_codes() -> None:
    rng = np.random.default_rng(0)
    terms = sp.random(120, 60, density=0.2, random_state=0, format="csr", dtype=np.float32)
    vectors = rng.normal(size=(120, 24)).astype(np.float32)
    start = codes_of_terms(terms, vectors, 16, seed=0)
    assert start is not None
    weight, thresholds = start
    map_, means = fit_itq(vectors, 16, 0)
    targets = (vectors @ map_ - means).astype(np.float64)
    x = terms.toarray().astype(np.float64)
    centred = x - x.mean(axis=0)
    solved = np.linalg.solve(
        centred.T @ centred + np.eye(60), centred.T @ (targets - targets.mean(axis=0))
    )
    predicted = centred @ solved + targets.mean(axis=0)
    predicted /= np.sqrt(np.square(predicted).mean())
    np.testing.assert_allclose(x @ weight - thresholds, predicted, atol=1e-2)


def test_a_teacher_of_few_numbers_gives_no_start(corpus: TrainingData) -> None:
    assert codes_of_terms(sp.eye(40, format="csr"), np.ones((40, 16), np.float32), 16, 0) is None
    loss = loss_of(corpus, n_bits=32)
    assert isinstance(loss.features, TextFeatures)
    for term in terms_of(loss, np.arange(8)).values():
        assert torch.isfinite(term)


def test_vectors_are_no_texts(tmp_path: Path) -> None:
    data = gather(topic_vectors(40))
    with pytest.raises(TrainingDataError, match="neighbours learns from the words of texts"):
        distill(data, sided_teacher(data), RECIPE, tmp_path / "s", progress=False)
    assert list(tmp_path.iterdir()) == []


def test_texts_have_another_default_than_vectors() -> None:
    assert default_objective(is_text=True) == "neighbours"
    assert default_objective(is_text=False) == "perception-coherence"
