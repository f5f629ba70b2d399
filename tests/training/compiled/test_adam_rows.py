"""Adam's update of rows, compiled and by torch, against single numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.training import optimizers
from hummingbit.training.optimizers import Factors, update_copies
from tests.support.commands import run

ROOT = Path(__file__).parents[3]
needs_compiled = pytest.mark.skipif(optimizers.built is None, reason="it was not built")
Array = npt.NDArray[np.float32]


def reference(matrices: list[Array], gradient: Array, rows: list[int], factors: Factors) -> None:
    """Update one number after the other, rounded to float32 after each operation."""
    of_gradient, of_square, step, epsilon = map(np.float32, factors)
    weight, mean, square = matrices
    for i, row in enumerate(rows):
        for j, g in enumerate(gradient[i]):
            m = mean[row, j] + of_gradient * (g - mean[row, j])
            v = square[row, j] + of_square * (g * g - square[row, j])
            mean[row, j], square[row, j] = m, v
            weight[row, j] -= step * m / (np.sqrt(v) + epsilon)


def with_torch(
    weight: Array, mean: Array, square: Array, gradient: Array, rows: Any, *factors: float
) -> None:
    matrices = tuple(torch.from_numpy(item) for item in (weight, mean, square))
    of_rows = (torch.from_numpy(gradient), torch.from_numpy(rows))
    update_copies(matrices, *of_rows, Factors(*factors))


def compiled(*arguments: Any) -> None:
    optimizers.built.update_rows(*arguments)


@pytest.mark.parametrize("update", [with_torch, pytest.param(compiled, marks=needs_compiled)])
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.tuples(st.integers(1, 20), st.integers(1, 40)),
    scale=st.sampled_from([1e-12, 1.0, 1e6]),
    data=st.data(),
)
def test_every_operation_is_rounded_on_its_own(
    update: Any, seed: int, sizes: tuple[int, int], scale: float, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    n_rows, n_columns = sizes
    rows = sorted(data.draw(st.sets(st.integers(0, n_rows - 1), min_size=1)))
    factors = Factors(1 - 0.9, 1 - 0.999, 0.004 * data.draw(st.floats(0.1, 10)), 1e-8)
    weight, mean, gradient = (
        (scale * rng.standard_normal((n, n_columns))).astype(np.float32)
        for n in (n_rows, n_rows, len(rows))
    )
    gradient[rng.random(gradient.shape) < 0.3] = 0
    square = (np.abs(mean) * np.float32(scale)).astype(np.float32)
    expected = [weight.copy(), mean.copy(), square.copy()]
    reference(expected, gradient, rows, factors)
    update(weight, mean, square, gradient, np.array(rows), *factors)
    for found, wanted in zip((weight, mean, square), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@needs_compiled
def test_arguments_that_do_not_fit_change_nothing() -> None:
    matrices = [np.ones((4, 3), dtype=np.float32) for _ in range(3)]
    gradient, rows = np.ones((2, 3), dtype=np.float32), np.array([0, 3])
    factors = (0.1, 0.001, 0.004, 1e-8)
    misfits: list[tuple[Any, ...]] = [
        (matrices[0], matrices[1][:3], matrices[2], gradient, rows),
        (matrices[0], matrices[1], matrices[2][:3], gradient, rows),
        (*matrices, gradient, np.array([0, 4])),
        (*matrices, gradient, np.array([-1, 3])),
        (*matrices, gradient, rows[:0]),
        (*matrices, gradient[:0], rows),
        (*matrices, gradient.ravel()[:5].copy(), rows),
        (*matrices, np.ones((2, 5), dtype=np.float32), rows),
    ]
    for arguments in misfits:
        with pytest.raises(ValueError, match="fit"):
            optimizers.built.update_rows(*arguments, *factors)
    read_only = matrices[0].copy()
    read_only.flags.writeable = False
    mistakes: list[tuple[Any, ...]] = [
        (read_only, *matrices[1:], gradient, rows, *factors),
        (matrices[0].T, *matrices[1:], gradient, rows, *factors),
        (*matrices, gradient, None, *factors),
        (*matrices, gradient, rows, *factors[:3]),
    ]
    for arguments in mistakes:
        with pytest.raises((TypeError, ValueError, BufferError)):
            optimizers.built.update_rows(*arguments)
    for matrix in matrices:
        np.testing.assert_array_equal(matrix, 1)


@needs_compiled
def test_a_variable_switches_it_off() -> None:
    show = "from hummingbit.training import optimizers; print(optimizers.native is None)"
    assert run(sys.executable, "-c", show, cwd=ROOT, HUMMINGBIT_KERNEL="off") == "True\n"
