from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyriemann.geometry.distance import distance_riemann
from pyriemann.geometry.tangentspace import upper
from scipy.linalg import logm
from torch import Tensor
from torch.autograd import gradcheck

from hummingbit.training.spd import (
    AFFINE_INVARIANT,
    affine_invariant_distance,
    half_vectors,
    matrix_logarithm,
    rectify_eigenvalues,
)
from tests.support.matrices import spd_matrices


def tensors(count: int, order: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(spd_matrices(count, order, seed))


def turned(*eigenvalues: float) -> Tensor:
    """A matrix with these eigenvalues that is not diagonal."""
    rotation, _ = torch.linalg.qr(torch.from_numpy(spd_matrices(1, len(eigenvalues))[0]))
    diagonal = torch.tensor(eigenvalues, dtype=torch.float64).diag()
    whole: Tensor = rotation @ diagonal @ rotation.T
    return whole


REPEATED = {
    "the identity": turned(1.0, 1.0, 1.0, 1.0),
    "two pairs": turned(0.5, 0.5, 2.0, 2.0),
    "nearly the same": turned(1.0, 1.0 + 1e-9, 1.0 + 1e-6, 3.0),
    "a little apart": turned(1.0, 1.0001, 1.01, 3.0),
    "far apart": turned(0.05, 1.0, 3.0, 20.0),
}


def symmetric(x: Tensor) -> Tensor:
    return (x + x.mT) / 2


@pytest.mark.parametrize("x", REPEATED.values(), ids=REPEATED)
@pytest.mark.parametrize(
    "function",
    [
        matrix_logarithm,
        lambda x: matrix_logarithm(x, 0.7),
        lambda x: rectify_eigenvalues(x, 0.7),
        lambda x: affine_invariant_distance(x, turned(0.3, 1.0, 2.0, 2.0)),
    ],
    ids=["log", "log with a floor", "rectified", "affine-invariant"],
)
def test_gradients_equal_finite_differences_at_repeated_eigenvalues(
    function: Callable[[Tensor], Tensor], x: Tensor
) -> None:
    step = 1e-6 * float(torch.linalg.eigvalsh(x)[0])
    moving = x.clone().requires_grad_()
    assert gradcheck(lambda x: function(symmetric(x)), moving, eps=step, atol=1e-4, rtol=1e-3)


def test_the_gradient_at_the_identity_is_that_of_the_trace() -> None:
    x = torch.eye(5, dtype=torch.float64).requires_grad_()
    matrix_logarithm(x).trace().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(x.grad, torch.eye(5, dtype=torch.float64))


def test_logarithms_are_those_of_scipy() -> None:
    x = tensors(4, 6)
    expected = np.stack([logm(item) for item in x.numpy()])
    torch.testing.assert_close(matrix_logarithm(x), torch.from_numpy(expected))


def test_rectified_matrices_keep_their_eigenvectors() -> None:
    rectified = rectify_eigenvalues(turned(0.1, 0.4, 2.0), 0.5)
    torch.testing.assert_close(rectified, turned(0.5, 0.5, 2.0))


def test_distances_are_those_of_pyriemann() -> None:
    a, b = tensors(3, 5, seed=0), tensors(4, 5, seed=1)
    pairs = [[(x.numpy(), y.numpy()) for y in b] for x in a]
    expected = [[float(distance_riemann(x, y)) for x, y in row] for row in pairs]
    torch.testing.assert_close(
        affine_invariant_distance(a[:, None], b[None]), torch.tensor(expected, dtype=torch.float64)
    )


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_the_affine_invariant_distance_does_not_change_by_congruence(seed: int, order: int) -> None:
    a, b = tensors(2, order, seed)
    w = torch.from_numpy(np.random.default_rng(seed).standard_normal((order, order)))
    w = w + 3 * torch.eye(order)
    moved = affine_invariant_distance(symmetric(w.mT @ a @ w), symmetric(w.mT @ b @ w))
    torch.testing.assert_close(moved, affine_invariant_distance(a, b), rtol=1e-6, atol=1e-6)
    inverted = affine_invariant_distance(symmetric(a.inverse()), symmetric(b.inverse()))
    torch.testing.assert_close(inverted, affine_invariant_distance(b, a), rtol=1e-6, atol=1e-6)


def test_a_distance_of_nothing_has_no_gradient() -> None:
    (x,) = tensors(1, 4)
    moving = x.clone().requires_grad_()
    affine_invariant_distance(moving, x).backward()  # type: ignore[no-untyped-call]
    assert moving.grad is not None
    assert float(moving.grad.abs().max()) < 1e-6


def test_the_mean_of_the_geometry_is_karchers() -> None:
    x = tensors(7, 4)
    mean = AFFINE_INVARIANT.mean(x)
    moving = mean.clone().requires_grad_()
    affine_invariant_distance(x, moving[None]).square().sum().backward()  # type: ignore[no-untyped-call]
    assert moving.grad is not None
    assert float(moving.grad.abs().max()) < 1e-5
    arithmetic = affine_invariant_distance(x, x.mean(dim=0)[None]).square().sum()
    assert float(affine_invariant_distance(x, mean[None]).square().sum()) < float(arithmetic)


def test_half_vectors_are_as_long_as_matrices() -> None:
    x = matrix_logarithm(tensors(5, 4))
    vectors = half_vectors(x)
    torch.testing.assert_close(vectors.norm(dim=1), x.flatten(1).norm(dim=1))
    torch.testing.assert_close(vectors, torch.from_numpy(upper(x.numpy())))
