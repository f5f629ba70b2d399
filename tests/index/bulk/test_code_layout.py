from __future__ import annotations

import numpy as np
import pytest

from hummingbit.encoder.codes import hamming_distance
from hummingbit.index import code_layout
from hummingbit.index.code_layout import (
    Method,
    best_method,
    lay_out,
    pair_loss,
    principal_plane,
)


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


@pytest.mark.parametrize("method", ["pca", "tsne", "chl"])
def test_codes_of_a_cluster_lie_together(method: Method) -> None:
    if method == "tsne":
        pytest.importorskip("openTSNE")
    codes, which = clusters(120)
    places = lay_out(codes, method)
    assert places.dtype == np.float32
    assert places.shape == (len(codes), 2)
    assert np.abs(places).max() == pytest.approx(1)
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    assert (which[apart.argmin(axis=1)] == which).mean() > 0.95


@pytest.mark.parametrize("method", [best_method(), "chl"])
def test_the_same_codes_and_seed_give_the_same_places(
    method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_layout, "EXAGGERATED_ITERATIONS", 25)
    monkeypatch.setattr(code_layout, "ITERATIONS", 25)
    monkeypatch.setattr(code_layout, "STEPS", 40)
    codes, _ = clusters(260)
    np.testing.assert_array_equal(lay_out(codes, method), lay_out(codes, method))


@pytest.mark.parametrize("method", ["pca", "chl"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_codes_are_laid_out_too(n: int, method: Method) -> None:
    codes = np.arange(n, dtype=np.uint8)[:, None]
    places = lay_out(codes, method)
    assert places.shape == (n, 2)
    assert np.isfinite(places).all()


def kernel(distance: float, node: int, nodes: int) -> float:
    return max(0.0, 1 - abs(distance * (nodes - 1) - node))


def loss_by_loops(
    distances: np.ndarray, similarities: np.ndarray, weights: np.ndarray, nodes: int
) -> float:
    """The printed sums: the second pair is more similar, and at the same node or a farther one."""
    total = 0.0
    for d, z, w in zip(distances, similarities, weights, strict=True):
        for e, y, v in zip(distances, similarities, weights, strict=True):
            if y > z:
                total += (
                    w
                    * v
                    * sum(
                        kernel(d, r, nodes) * kernel(e, s, nodes)
                        for r in range(nodes)
                        for s in range(r, nodes)
                    )
                )
    return total


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("nodes", [2, 5, 9])
def test_the_loss_of_pairs_is_the_papers_and_its_derivative_that_of_differences(
    seed: int, nodes: int
) -> None:
    rng = np.random.default_rng(seed)
    distances = rng.uniform(0.01, 0.99, 12)
    similarities = rng.integers(0, 5, 12)
    weights = rng.dirichlet(np.ones(12))
    found = pair_loss(distances, similarities, weights, nodes=nodes)
    assert found.loss == pytest.approx(loss_by_loops(distances, similarities, weights, nodes))
    for position in range(12):
        step = np.zeros(12)
        step[position] = 1e-7
        after = loss_by_loops(distances + step, similarities, weights, nodes)
        before = loss_by_loops(distances - step, similarities, weights, nodes)
        assert found.gradient[position] == pytest.approx((after - before) / 2e-7, abs=1e-6)


def test_the_loss_of_pairs_at_the_borders_is_that_of_the_training_objective() -> None:
    torch = pytest.importorskip("torch")
    from experiments.continuous_histogram.histograms import (  # noqa: PLC0415 - needs torch
        histogram_gradient,
    )
    from hummingbit.training.objectives.continuous_histogram import (  # noqa: PLC0415
        continuous_histogram_loss,
    )

    rng = np.random.default_rng(0)
    distances = np.concatenate([[0.0, 1.0], rng.random(400)])
    similarities = rng.integers(0, 65, 402)
    similarities[:2] = 0, 64
    weights = np.full(402, 1 / 402)
    found = pair_loss(distances, similarities, weights)
    given = torch.from_numpy(distances), torch.from_numpy(similarities / 64)
    loss = continuous_histogram_loss(*given, bins=100, similarity_bins=65)
    gradient = histogram_gradient(*given, bins=100, similarity_bins=65)
    assert found.loss == pytest.approx(float(loss))
    np.testing.assert_allclose(found.gradient, np.asarray(gradient), atol=1e-12)


@pytest.mark.parametrize("drawn", [False, True])
def test_the_loss_keeps_degrees_of_similarity_better_than_principal_components(
    drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes, _ = clusters(200)
    if drawn:  # pairs, for each step
        monkeypatch.setattr(code_layout, "ALL_PAIRS", 1 << 12)
    first, second = np.triu_indices(len(codes), 1)
    similarities = 64 - hamming_distance(codes[first], codes[second]).astype(np.int64)
    weights = np.full(len(first), 1 / len(first))

    def loss(method: Method) -> float:
        places = lay_out(codes, method).astype(float)
        places /= 2 * np.linalg.norm(places, axis=1).max()
        distances = np.linalg.norm(places[first] - places[second], axis=1)
        return pair_loss(np.minimum(distances, 1), similarities, weights).loss

    assert loss("chl") < 0.9 * loss("pca")
