from __future__ import annotations

import functools

import numpy as np
import pytest

from hummingbit.encoder.codes import hamming_distance
from hummingbit.index.code_layout import Method, best_method, lay_out, principal_plane


def clusters(n: int, n_bits: int = 64, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Distinct codes around four far centres, and the centre of each."""
    rng = np.random.default_rng(seed)
    centres = rng.integers(0, 2, (4, n_bits))
    which = rng.integers(0, 4, n)
    bits = centres[which] ^ (rng.random((n, n_bits)) < 0.06)
    codes, first = np.unique(np.packbits(bits, axis=1), axis=0, return_index=True)
    return codes, which[first]


def test_the_principal_plane_is_that_of_an_eigendecomposition() -> None:
    codes, _ = clusters(300)
    bits = np.unpackbits(codes, axis=1).astype(float)
    centred = bits - bits.mean(axis=0)
    _, values, rows = np.linalg.svd(centred, full_matrices=False)
    found = principal_plane(codes)
    expected = centred @ rows[:2].T
    for axis in range(2):
        together = abs(np.corrcoef(found[:, axis], expected[:, axis])[0, 1])
        assert together == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=0), values[:2])


def test_squared_distances_of_bits_are_hamming_distances() -> None:
    codes, _ = clusters(40)
    bits = np.unpackbits(codes, axis=1).astype(float)
    squared = ((bits[:1] - bits) ** 2).sum(axis=1)
    np.testing.assert_array_equal(hamming_distance(codes[:1], codes), squared)


@functools.cache
def places_of_clusters(method: Method) -> np.ndarray:
    """Where 260 codes lie; t-SNE takes seconds for them, so tests share the places."""
    return lay_out(clusters(260)[0], method)


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_codes_of_a_cluster_lie_together(method: Method) -> None:
    if method == "tsne":
        pytest.importorskip("openTSNE")
    codes, which = clusters(260)
    places = places_of_clusters(method)
    assert places.dtype == np.float32
    assert places.shape == (len(codes), 2)
    assert np.abs(places).max() == pytest.approx(1)
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    assert (which[apart.argmin(axis=1)] == which).mean() > 0.95


def test_the_same_codes_and_seed_give_the_same_places() -> None:
    codes, _ = clusters(260)
    method = best_method()
    np.testing.assert_array_equal(lay_out(codes, method), places_of_clusters(method))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_codes_are_laid_out_too(n: int) -> None:
    codes = np.arange(n, dtype=np.uint8)[:, None]
    places = lay_out(codes, best_method())
    assert places.shape == (n, 2)
    assert np.isfinite(places).all()
