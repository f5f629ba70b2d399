from __future__ import annotations

import numpy as np
import pytest

from hummingbit.encoder.text_features import Floats
from hummingbit.training import networks
from hummingbit.training.linear_codes import fit_itq
from hummingbit.training.networks import fit_neighbour_map

BITS = 16


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learn neighbours with as many steps as vectors: what is tested here shows after a few."""
    monkeypatch.setattr(networks, "LEAST_STEPS", 20)


@pytest.fixture(scope="module")
def vectors() -> tuple[Floats, Floats]:
    """Vectors around 30 centres, and queries around the same."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(30, 48))
    rows = centres[np.arange(400) % 30] + 0.5 * rng.normal(size=(400, 48))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows[:300].astype(np.float32), rows[300:].astype(np.float32)


def kept_neighbours(maps: tuple[Floats, Floats], database: Floats, queries: Floats) -> float:
    """Return the share of the 10 nearest by cosine among the 10 nearest by Hamming distance."""
    weight, thresholds = maps
    bits = [np.where(rows @ weight > thresholds, 1, -1) for rows in (queries, database)]
    by_codes = np.argsort(-(bits[0] @ bits[1].T), axis=1, kind="stable")[:, :10]
    by_cosine = np.argsort(-(queries @ database.T), axis=1)[:, :10]
    pairs = zip(by_codes, by_cosine, strict=True)
    return float(np.mean([np.isin(near, found).mean() for found, near in pairs]))


def test_it_keeps_more_neighbours_of_unseen_vectors_than_itq(
    vectors: tuple[Floats, Floats],
) -> None:
    database, queries = vectors
    itq = fit_itq(database, BITS, 0)
    learned = fit_neighbour_map(database, *itq, seed=0)
    assert kept_neighbours(learned, database, queries) > kept_neighbours(itq, database, queries)


def test_the_seed_decides_the_map(vectors: tuple[Floats, Floats]) -> None:
    database = vectors[0][:60]
    itq = fit_itq(database, BITS, 0)
    once, again = (fit_neighbour_map(database, *itq, seed=0) for _ in range(2))
    for first, second in zip(once, again, strict=True):
        np.testing.assert_array_equal(first, second)
    assert not np.array_equal(once[0], fit_neighbour_map(database, *itq, seed=1)[0])


def test_lengths_and_empty_vectors_do_not_matter(vectors: tuple[Floats, Floats]) -> None:
    database = vectors[0][:60] * 100
    database[:5] = 0
    weight, thresholds = fit_neighbour_map(database, *fit_itq(database, BITS, 0), seed=0)
    assert np.isfinite(weight).all()
    assert np.isfinite(thresholds).all()
    is_set = database[5:] @ weight > thresholds
    assert is_set.any(axis=0).all()
    assert not is_set.all(axis=0).any()
