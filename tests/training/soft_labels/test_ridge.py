from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import Ridge

from hummingbit.training.soft_labels import fit_ridge


def _drawn(n_rows: int, n_columns: int, n_targets: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    rows = sparse.random_array(
        (n_rows, n_columns), density=0.1, rng=rng, dtype=np.float32, format="csr"
    )
    return rows, rng.dirichlet(np.full(n_targets, 0.2), n_rows)


@given(
    n_rows=st.integers(2, 400),
    n_columns=st.integers(1, 400),
    n_targets=st.integers(1, 9),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 1000),
)
def test_the_weights_are_scikit_learns(
    n_rows: int, n_columns: int, n_targets: int, dtype: type, seed: int
) -> None:
    rows, targets = _drawn(n_rows, n_columns, n_targets, seed)
    targets = targets.astype(dtype)
    # A target that is the same for all rows has no weights.
    targets[:, 0] = 0.5
    expected = Ridge(solver="sparse_cg").fit(rows, targets)
    found = fit_ridge(rows, targets)
    np.testing.assert_array_equal(found.weight, expected.coef_.reshape(n_targets, -1).T)
    np.testing.assert_array_equal(found.bias, expected.intercept_)
    np.testing.assert_array_equal(found(rows), expected.predict(rows).reshape(n_rows, -1))


@pytest.mark.parametrize("shape", [(60, 20), (20, 60)])
def test_the_weights_minimize_the_loss(shape: tuple[int, int]) -> None:
    rows, targets = _drawn(*shape, 3, seed=0)
    weight, bias = fit_ridge(rows.astype(np.float64), targets)
    # The exact solution, with the column of ones not penalized.
    dense = np.hstack([rows.toarray(), np.ones((shape[0], 1))]).astype(np.float64)
    penalty = np.diag([1.0] * shape[1] + [0.0])
    exact = np.linalg.solve(dense.T @ dense + penalty, dense.T @ targets)
    np.testing.assert_allclose(np.vstack([weight, bias]), exact, atol=1e-4)


def test_rows_without_terms_score_the_mean_of_the_targets() -> None:
    rows = sparse.csr_array((5, 3), dtype=np.float32)
    targets = np.eye(5, 2, dtype=np.float32)
    np.testing.assert_allclose(fit_ridge(rows, targets)(rows), [targets.mean(axis=0)] * 5)
