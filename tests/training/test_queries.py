from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.encoder.text_features import TextFeatures, split_sentences
from hummingbit.training.batches import SparseBatch, drop_words
from hummingbit.training.networks import EncoderNetwork, LinearEncoderNetwork, Shape
from hummingbit.training.objectives.neighbours import inverse_cloze_loss
from hummingbit.training.queries import ClozeTask, SentenceQueries, Similarities
from hummingbit.training.static import StaticStart
from hummingbit.training.text_features import fit_text_features
from tests.support.encoders import text_encoder

TEXTS = [
    "Solve a linear system. The matrix must be square; it is not changed.\nReturns the solution.",
    "Sort an array. The order of equal entries is kept.",
    "solution",
    "Zzz! Qqq?",
    "the matrix of a linear map, the order of a matrix, the entries of an array",
]


def fitted() -> TextFeatures:
    return fit_text_features(TEXTS + TEXTS, 100)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_sentences_end_at_marks_and_lines() -> None:
    assert split_sentences("One two. Three: four\nfive v1.5 six? 七。八") == [
        "One two",
        "Three",
        "four",
        "five v1.5 six",
        "七",
        "八",
    ]


def test_a_run_without_an_end_is_cut_every_thirty_words() -> None:
    lengths = [len(part.split()) for part in split_sentences(" ".join(["word"] * 70))]
    assert lengths == [30, 30, 10]


@given(seed=st.integers(0, 2**31), least=st.integers(1, 4), more=st.integers(0, 4))
def test_a_query_is_a_few_distinct_terms_of_one_sentence(seed: int, least: int, more: int) -> None:
    features = fitted()
    queries = SentenceQueries(features, TEXTS, least=least, most=least + more)
    rows = np.array([0, 1, 2, 4, 0, 1])
    drawn = queries.draw(rows, generator(seed))
    for row, query in zip(rows, drawn, strict=True):
        columns = set(query.indices.tolist())
        sentences = [
            set(features.count_terms([sentence]).indices.tolist())
            for sentence in split_sentences(TEXTS[row])
        ]
        fitting = [sentence for sentence in sentences if columns <= sentence]
        assert fitting
        assert any(
            len(columns) == len(item) or least <= len(columns) <= least + more for item in fitting
        )


def test_a_query_is_weighed_as_the_encoder_weighs_its_words() -> None:
    features = fitted()
    drawn = SentenceQueries(features, TEXTS).draw(np.array([0, 1]), generator())
    words = [" ".join(features.vocabulary[column] for column in item.indices) for item in drawn]
    np.testing.assert_allclose(
        drawn.toarray(), features.transform(words).toarray(), rtol=1e-6, atol=1e-7
    )


def test_a_text_without_known_terms_gives_an_empty_query() -> None:
    features = TextFeatures(["solution", "matrix"], l2_normalize=True)
    drawn = SentenceQueries(features, TEXTS).draw(np.array([3, 2, 3]), generator())
    assert np.diff(drawn.indptr).tolist() == [0, 1, 0]


def test_half_of_the_queries_are_of_the_first_three_sentences_and_half_of_any() -> None:
    features = TextFeatures(["aa", "bb", "cc", "dd", "ee", "ff"], l2_normalize=True)
    # The sentence of one word is left out. The first words tell the other five apart.
    queries = SentenceQueries(features, ["aa ff. bb ff. ff. cc ff. dd ff. ee ff"])
    drawn = queries.draw(np.zeros(6000, dtype=np.int64), generator()).toarray()
    expected = 6000 * np.array([1 / 6 + 1 / 10] * 3 + [1 / 10] * 2)
    # Six standard deviations of a binomial with 6,000 draws are at most 210.
    assert np.abs((drawn[:, :5] > 0).sum(axis=0) - expected).max() < 210


def test_without_a_share_of_the_first_every_sentence_comes_as_often_as_any_other() -> None:
    features = TextFeatures(["aa", "bb", "cc", "dd"], l2_normalize=True)
    queries = SentenceQueries(features, ["aa bb. " + "cc dd. " * 9], from_first=0.0)
    drawn = queries.draw(np.zeros(2000, dtype=np.int64), generator())
    first = drawn.toarray()[:, 0] > 0
    # Of 2,000 draws with a chance of a tenth, six standard deviations are 81.
    assert abs(int(first.sum()) - 200) < 81


def test_similarities_are_means_of_the_cosines_of_words_and_of_directions() -> None:
    features = fitted()
    rows = features.transform(TEXTS)
    queries = features.transform(["linear system", "order of an array"])
    found = Similarities(rows, seed=0).of(queries, np.array([4, 0, 1])).numpy()
    dense, asked = rows.toarray(), queries.toarray()
    # With as many directions as the rows have rank, latent semantics sees all of the row space.
    _, _, directions = np.linalg.svd(dense, full_matrices=False)
    rank = min(len(TEXTS) - 1, dense.shape[1] - 1)
    places, asked_places = dense @ directions[:rank].T, asked @ directions[:rank].T
    places /= np.linalg.norm(places, axis=1, keepdims=True).clip(1e-12)
    asked_places /= np.linalg.norm(asked_places, axis=1, keepdims=True).clip(1e-12)
    expected = (asked @ dense.T + asked_places @ places.T)[:, [4, 0, 1]] / 2
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_similarities_do_not_depend_on_the_lengths_of_rows() -> None:
    features = fit_text_features(TEXTS + TEXTS, 100, "log-tf")
    rows = features.transform(TEXTS)
    assert np.linalg.norm(rows.toarray(), axis=1).max() > 1.5
    of_itself = Similarities(rows, 0, unit_rows=features.l2_normalize).of(rows, np.arange(5))
    expected = np.diff(rows.indptr) > 0
    np.testing.assert_allclose(of_itself.diagonal().numpy(), expected, atol=1e-3)
    assert of_itself.abs().max() <= 1 + 1e-5


def test_terms_of_a_sentence_are_drawn_in_proportion_to_their_idf() -> None:
    texts = ["common rare", *["common"] * 50, "rare"]
    features = fit_text_features(texts, 10)
    assert features.idf is not None
    queries = SentenceQueries(features, texts, least=1, most=1)
    drawn = queries.draw(np.zeros(4000, dtype=np.int64), generator())
    shares = np.bincount(drawn.indices, minlength=2) / 4000
    # Five standard errors of a share of 4,000 draws.
    np.testing.assert_allclose(shares, features.idf / features.idf.sum(), atol=0.04)


def test_the_task_takes_cosines_of_rows_of_any_length() -> None:
    features = fit_text_features(TEXTS + TEXTS, 100, "log-tf")
    task = ClozeTask(features, TEXTS, features.transform(TEXTS), seed=0, shared=0.9)
    rows = np.arange(5)
    found = task._similarities.of(10 * features.transform(TEXTS), rows)
    assert found.abs().max() <= 1 + 1e-5


def test_without_two_queries_the_loss_is_zero() -> None:
    encoder = text_encoder()
    features = encoder.features
    assert isinstance(features, TextFeatures)
    texts = [features.vocabulary[0], "Zzz", "Qqq"]
    task = ClozeTask(features, texts, features.transform(texts), seed=0, shared=0.9)
    network = EncoderNetwork(Shape(features.dimension, 4, 8, classes=1, text=True))
    logits = torch.ones(3, 8, requires_grad=True)
    loss = task.loss(network, logits, np.arange(3), generator())
    assert loss.item() == 0
    loss.backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert not logits.grad.any()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("beside_classes", [False, True])
def test_queries_count_by_their_logits_or_beside_classes_by_the_tanh(
    beside_classes: bool, seed: int
) -> None:
    features = fitted()
    x, rows = features.transform(TEXTS), np.arange(len(TEXTS))
    network = LinearEncoderNetwork(Shape(features.dimension, 0, 8, classes=1, text=True))
    documents = torch.randn(len(TEXTS), 8, generator=generator(seed))
    task = ClozeTask(features, TEXTS, x, seed=0, shared=0.9, beside_classes=beside_classes)
    found = task.loss(network, documents, rows, generator(seed))

    queries = SentenceQueries(features, TEXTS).draw(rows, generator(seed))
    weight = network.logits.scaled_weight().detach().numpy()
    logits = torch.from_numpy(queries @ weight)
    expected = inverse_cloze_loss(
        torch.tanh(logits) if beside_classes else logits / 4,
        documents,
        Similarities(x, 0).of(queries, rows),
        scale=20.0,
        shared=0.9,
        temperature=0.05,
    )
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize(
    ("weighting", "beside_classes", "with_vectors"),
    [
        ("tf-idf", False, False),
        ("tf-idf", True, False),
        ("tf-idf", False, True),
        ("log-tf", False, True),
        ("log-tf", True, False),
    ],
)
def test_known_gradients_are_those_of_automatic_differentiation(
    weighting: str, beside_classes: bool, with_vectors: bool, is_sparse: bool
) -> None:
    features = fit_text_features(TEXTS + TEXTS, 100, weighting)
    x, rows = features.transform(TEXTS), np.array([4, 0, 2, 1])
    vectors = np.random.default_rng(0).standard_normal((features.dimension, 9), dtype=np.float32)
    static = StaticStart(features, vectors) if with_vectors else None
    task = ClozeTask(
        features, TEXTS, x, seed=0, shared=0.9, beside_classes=beside_classes, static=static
    )
    network = LinearEncoderNetwork(
        Shape(features.dimension, 0, 8, text=True, input_scale=3.0, sparse_gradient=is_sparse)
    )
    task.start(network, (vectors @ vectors[:8].T, np.linspace(-1, 1, 8, dtype=np.float32)))
    if network.along is not None:
        torch.nn.init.normal_(network.along.weight_KB, generator=generator(1))
    parameters = list(network.parameters())
    documents = SparseBatch.of_rows(x, rows)
    dropped = drop_words(documents, 0.5, generator(2))

    expected_loss = task.loss(network, network(dropped)[1], rows, generator(3))
    expected = torch.autograd.grad(2 * expected_loss, parameters)
    loss = task.loss_with_gradients(network, documents, dropped, rows, generator(3))
    assert loss.item() == pytest.approx(expected_loss.item(), rel=1e-5)
    for of_one, found in zip(expected, torch.autograd.grad(2 * loss, parameters), strict=True):
        torch.testing.assert_close(found.to_dense(), of_one.to_dense(), rtol=1e-4, atol=1e-5)


def test_texts_without_terms_in_a_sentence_have_no_queries() -> None:
    features = TextFeatures(["solution", "matrix"], l2_normalize=True)
    task = ClozeTask(features, TEXTS, features.transform(TEXTS), seed=0, shared=0.9)
    assert task.with_terms(np.array([4, 3, 0, 3])).tolist() == [4, 0]


@pytest.mark.parametrize("seed", range(3))
def test_the_same_generator_draws_the_same_queries(seed: int) -> None:
    queries = SentenceQueries(fitted(), TEXTS)
    one, other = (queries.draw(np.arange(5), generator(seed)) for _ in range(2))
    assert (one != other).nnz == 0
