from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.codes import unpack_codes
from hummingbit.encoder.recipes import LinearRecipe
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.training import networks
from hummingbit.training.data import TrainingDataError, gather
from hummingbit.training.linear_codes import (
    LINEAR_METHODS,
    fit_itq,
    fit_lsh,
    fit_pca,
    itq_of_terms,
    train_linear,
)
from tests.support.corpora import topic_documents, topic_vectors


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learn neighbours with as many steps as vectors: what is tested here shows after a few."""
    monkeypatch.setattr(networks, "LEAST_STEPS", 20)


def random_rows(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(500, 12)) * np.linspace(3, 0.5, 12) + rng.normal(size=12)
    return rows.astype(np.float32)


def centred(rows: np.ndarray, weight: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    return np.asarray(rows @ weight - thresholds)


def test_directions_are_principal_and_thresholds_the_means() -> None:
    rows = random_rows() - random_rows().mean(axis=0)
    weight, thresholds = fit_pca(rows, 8, seed=0)
    reference = PCA(8).fit(rows).components_.T
    cosines = np.abs((weight * reference).sum(axis=0))
    np.testing.assert_allclose(cosines, 1, atol=1e-2)
    np.testing.assert_allclose(thresholds, rows.mean(axis=0) @ weight, atol=1e-5)


def test_itq_turns_the_principal_plane_and_loses_less_in_rounding() -> None:
    rows = random_rows()
    before, after = centred(rows, *fit_pca(rows, 8, seed=0)), centred(rows, *fit_itq(rows, 8, 0))
    np.testing.assert_allclose(
        np.linalg.norm(before, axis=1), np.linalg.norm(after, axis=1), rtol=1e-3
    )

    def loss(projected: np.ndarray) -> float:
        return float(np.square(np.sign(projected) - projected).sum())

    assert loss(after) < loss(before)


def test_itq_of_terms_turns_the_exact_directions_and_scales_the_places() -> None:
    rows = random_rows()
    start = itq_of_terms(rows, 8, seed=0)
    assert start is not None
    weight, thresholds = start
    # Directions of rows that are not centred: the right singular vectors.
    exact = np.linalg.svd(rows, full_matrices=False)[2][:8].T
    np.testing.assert_allclose(exact @ (exact.T @ weight), weight, atol=1e-2)
    logits = centred(rows, weight, thresholds)
    np.testing.assert_allclose(logits.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(np.square(logits).mean(), 1, atol=1e-4)
    unturned = rows @ exact - (rows @ exact).mean(axis=0)
    unturned /= np.sqrt(np.square(unturned).mean())
    np.testing.assert_allclose(
        np.linalg.norm(logits, axis=1), np.linalg.norm(unturned, axis=1), rtol=1e-2
    )
    losses = [np.square(np.sign(item) - item).sum() for item in (logits, unturned)]
    assert losses[0] < losses[1]


def test_there_is_no_itq_of_as_many_bits_as_rows_or_terms() -> None:
    assert itq_of_terms(random_rows()[:8], 8, seed=0) is None
    assert itq_of_terms(random_rows()[:, :8], 8, seed=0) is None


def test_random_hyperplanes_split_as_angles_do() -> None:
    rows = np.random.default_rng(0).normal(size=(200, 600)).astype(np.float32)
    rows[:20] += 2 * rows[20:40]  # so that some angles are not right ones
    rows -= rows.mean(axis=0)
    weight, thresholds = fit_lsh(rows, 512, seed=0)
    bits = centred(rows[:40], weight, thresholds) > 0
    unit = rows[:40] / np.linalg.norm(rows[:40], axis=1, keepdims=True)
    angles = np.arccos(np.clip(unit @ unit.T, -1, 1)) / np.pi
    differing = (bits[:, None] != bits[None]).mean(axis=2)
    assert angles[np.arange(20), np.arange(20, 40)].max() < 0.25
    # Five standard errors of a share of 512 hyperplanes.
    np.testing.assert_allclose(differing, angles, atol=5 * 0.5 / np.sqrt(512))


@pytest.mark.parametrize("method", LINEAR_METHODS)
@pytest.mark.parametrize("documents", [topic_documents, topic_vectors])
def test_an_encoder_finds_documents_of_the_same_topic(
    method: str, documents: object, tmp_path: Path
) -> None:
    data, queries = gather(documents(150)), gather(documents(40, seed=1))  # type: ignore[operator]
    trained = train_linear(data, LinearRecipe(method, n_bits=8), tmp_path / "e")
    encoder = load_encoder(tmp_path / "e")
    assert encoder.fingerprint == trained.encoder.fingerprint
    found = evaluate_encoder(encoder, data.labelled(), queries.labelled(), ["P@10"])
    # A third is chance; random hyperplanes see little more than that in short texts.
    assert found.expected["P@10"] > 0.4
    assert unpack_codes(encoder.encode(data.inputs)).any(axis=0).all()


@pytest.mark.parametrize("method", LINEAR_METHODS)
def test_a_run_repeats_bit_for_bit(method: str, tmp_path: Path) -> None:
    data, recipe = gather(topic_vectors(60)), LinearRecipe(method, n_bits=8)
    once, again = (train_linear(data, recipe, tmp_path / name) for name in ("once", "again"))
    assert once.encoder.fingerprint == again.encoder.fingerprint


def test_more_bits_than_features_are_refused(tmp_path: Path) -> None:
    recipe = LinearRecipe("itq", n_bits=16)
    with pytest.raises(TrainingDataError, match=r"n_bits is 16, more than .* 8 features can fill"):
        train_linear(gather(topic_vectors(100)), recipe, tmp_path / "e")


def test_labels_are_not_needed(tmp_path: Path) -> None:
    bare = gather([replace(d, labels=()) for d in topic_documents(100)])
    assert train_linear(bare, LinearRecipe("lsh", n_bits=16), tmp_path / "e").validation == {}


def test_texts_are_split_as_the_recipe_says(tmp_path: Path) -> None:
    data = gather(topic_documents(200))
    recipe = LinearRecipe("lsh", n_bits=16, analyzer="unicode+english+3-4grams")
    train_linear(data, recipe, tmp_path / "e")
    features = load_encoder(tmp_path / "e").features
    assert isinstance(features, TextFeatures)
    assert features.analyzer.name == recipe.analyzer
    assert any(term.startswith("~") for term in features.vocabulary)


def short_texts(n_texts: int, n_words: int = 8) -> list[str]:
    rng = np.random.default_rng(0)
    return [
        " ".join(f"w{number}" for number in rng.integers(0, 5000, n_words)) for _ in range(n_texts)
    ]


def test_signatures_find_a_text_by_any_three_of_its_words(tmp_path: Path) -> None:
    texts = short_texts(3000)
    data = gather(Document(id=str(at), text=text) for at, text in enumerate(texts))
    recipe = LinearRecipe("signature", n_bits=64)
    encoder = train_linear(data, recipe, tmp_path / "e").encoder
    bits = unpack_codes(encoder.encode(texts))
    assert 0.3 < bits.mean() < 0.6
    for text, own in zip(texts[:50], bits, strict=False):
        words = unpack_codes(encoder.encode(text.split()))
        assert np.array_equal(own, words.any(axis=0))
    queries = [" ".join(text.split()[:3]) for text in texts[:200]]
    scores = encoder.query_weights(queries) @ np.where(bits, 1.0, -1.0).T
    own = scores[np.arange(200), np.arange(200)]
    assert np.mean((scores > own[:, None]).sum(axis=1) < 10) > 0.98


@pytest.mark.parametrize(
    ("documents", "reason"),
    [
        (
            [
                Document(id="a", vector=np.ones(3, np.float32)),
                Document(id="b", vector=np.ones(3, np.float32)),
            ],
            "vector",
        ),
        ([Document(id=str(at), text=text) for at, text in enumerate(short_texts(9, 90))], "words"),
    ],
)
def test_signatures_need_short_texts(
    tmp_path: Path, documents: list[Document], reason: str
) -> None:
    with pytest.raises(TrainingDataError, match=reason):
        train_linear(gather(documents), LinearRecipe("signature", n_bits=16), tmp_path / "e")
