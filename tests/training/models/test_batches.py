from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from hummingbit.training.batches import (
    SparseBatch,
    add_noise,
    drop_words,
    share_of_terms,
    shuffled_batches,
    word_distribution,
)

seeds = st.integers(0, 2**32 - 1)


def random_rows(seed: int, rows: int = 6, columns: int = 9) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, 4, size=(rows, columns)) * (rng.random((rows, columns)) < 0.4)
    return sparse.csr_array(dense.astype(np.float32))


def dense(batch: SparseBatch, columns: int) -> np.ndarray:
    rows = np.zeros((len(batch.lengths), columns), dtype=np.float32)
    for i, (start, length) in enumerate(zip(batch.starts, batch.lengths, strict=True)):
        place = slice(int(start), int(start + length))
        np.add.at(rows[i], batch.columns[place].numpy(), batch.values[place].numpy())
    return rows


@given(seeds)
def test_a_batch_holds_the_rows_it_was_made_of(seed: int) -> None:
    matrix = random_rows(seed)
    rows = np.random.default_rng(seed).integers(0, 6, size=4)
    assert np.array_equal(dense(SparseBatch.of_rows(matrix, rows), 9), matrix.toarray()[rows])


@given(seeds)
def test_dropping_words_removes_some_and_keeps_the_length_of_what_is_left(seed: int) -> None:
    matrix = random_rows(seed)
    batch = SparseBatch.of_rows(matrix, np.arange(6))
    before = matrix.toarray()
    after = dense(drop_words(batch, 0.4, torch.Generator().manual_seed(seed)), 9)
    assert not after[before == 0].any()
    for row, shortened in zip(before, after, strict=True):
        if shortened.any():
            growth = np.linalg.norm(row) / np.linalg.norm(row[shortened > 0])
            expected = np.where(shortened > 0, row * growth, 0)
            np.testing.assert_allclose(shortened, expected, rtol=1e-5)


def test_every_document_loses_words_at_a_rate_of_its_own() -> None:
    batch = SparseBatch.of_rows(sparse.csr_array(np.ones((400, 500), np.float32)), np.arange(400))
    lengths = drop_words(batch, 0.5, torch.Generator().manual_seed(0)).lengths.numpy() / 500
    # Rates are uniform on [0, 1]: so are their deciles, within five standard errors.
    deciles = np.quantile(lengths, np.arange(1, 10) / 10)
    np.testing.assert_allclose(deciles, np.arange(1, 10) / 10, atol=5 * 0.5 / np.sqrt(400))


def test_the_noise_on_a_vector_is_in_proportion_to_it() -> None:
    x = torch.randn((400, 500), generator=torch.Generator().manual_seed(1))
    x *= torch.logspace(-2, 2, 400)[:, None]
    noise = add_noise(x, 0.75, torch.Generator().manual_seed(0)) - x
    shares = (noise.norm(dim=1) / x.norm(dim=1)).numpy()
    # Uniform on [0, 1.5]: so are their deciles, within five standard errors.
    deciles = np.quantile(shares, np.arange(1, 10) / 10)
    np.testing.assert_allclose(deciles, 0.15 * np.arange(1, 10), atol=5 * 0.75 / np.sqrt(400))
    assert add_noise(x, 0.0, torch.Generator()) is x


def test_a_vector_of_zeros_stays_one() -> None:
    assert not add_noise(torch.zeros(3, 4), 1.0, torch.Generator().manual_seed(0)).any()


def test_no_dropout_leaves_a_batch_as_it_is() -> None:
    batch = SparseBatch.of_rows(random_rows(0), np.arange(6))
    assert drop_words(batch, 0.0, torch.Generator()) is batch


@given(seeds)
def test_word_distributions_sum_to_one_or_are_empty(seed: int) -> None:
    matrix = random_rows(seed)
    idf = np.random.default_rng(seed).random(9).astype(np.float32) + 1
    for weights, weight in ((None, np.ones(9)), (idf, idf)):
        weighted = matrix.toarray() * weight
        expected = weighted / np.maximum(weighted.sum(axis=1, keepdims=True), 1e-9)
        np.testing.assert_allclose(
            word_distribution(matrix, weights).toarray(), expected, rtol=1e-5
        )


@given(st.integers(1, 50), st.integers(1, 20), seeds)
def test_batches_hold_every_row_once(rows: int, size: int, seed: int) -> None:
    batches = list(shuffled_batches(rows, size, np.random.default_rng(seed)))
    assert sorted(np.concatenate(batches).tolist()) == list(range(rows))
    assert all(len(batch) == size for batch in batches[:-1])


def test_the_share_of_terms_is_their_mean_and_nowhere_0() -> None:
    rows = sparse.csr_array(np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    found = share_of_terms(rows)
    # The sums are 1.5, 0.5 and 0, their mean 2/3; the last becomes a thousandth of that.
    whole = 2 + 2 / 3000
    assert found.tolist() == pytest.approx([1.5 / whole, 0.5 / whole, 2 / 3000 / whole])
