from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from training.batches import SparseBatch, drop_words, normalized_counts, shuffled_batches

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
def test_dropping_words_keeps_or_removes_each_and_scales_the_kept(seed: int) -> None:
    matrix = random_rows(seed)
    batch = SparseBatch.of_rows(matrix, np.arange(6))
    dropped = dense(drop_words(batch, 0.75, torch.Generator().manual_seed(seed)), 9)
    assert np.isin(dropped / np.maximum(matrix.toarray(), 1), [0.0, 4.0]).all()


def test_dropping_words_keeps_the_expected_value() -> None:
    matrix = sparse.csr_array(np.ones((200, 200), dtype=np.float32))
    batch = SparseBatch.of_rows(matrix, np.arange(200))
    values = drop_words(batch, 0.5, torch.Generator().manual_seed(0)).values
    # 40,000 coins: the mean of 2 · Ber(½) lies within five standard errors of 1.
    assert abs(values.sum().item() / 40_000 - 1) < 5 / 200
    assert drop_words(batch, 0.0, torch.Generator()) is batch


@given(seeds)
def test_normalized_rows_sum_to_one_or_are_empty(seed: int) -> None:
    matrix = random_rows(seed)
    normalized = normalized_counts(matrix).toarray()
    sums = matrix.toarray().sum(axis=1, keepdims=True)
    np.testing.assert_allclose(normalized, matrix.toarray() / np.maximum(sums, 1), rtol=1e-6)


@given(st.integers(1, 50), st.integers(1, 20), seeds)
def test_batches_hold_every_row_once(rows: int, size: int, seed: int) -> None:
    batches = list(shuffled_batches(rows, size, np.random.default_rng(seed)))
    assert sorted(np.concatenate(batches).tolist()) == list(range(rows))
    assert all(len(batch) == size for batch in batches[:-1])
