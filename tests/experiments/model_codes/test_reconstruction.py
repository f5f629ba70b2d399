from __future__ import annotations

import numpy as np

from experiments.model_codes.reconstruction import descend, fit_reconstruction
from hummingbit.encoder.text_features import Floats
from hummingbit.training.linear_codes import fit_itq


def unit_vectors(count: int, dimension: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(dimension, dimension)) * np.linspace(2, 0.1, dimension)
    vectors = rng.normal(size=(count, dimension)) @ factors + 1
    units: Floats = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return units


def test_the_descent_gives_each_bit_the_better_value_beside_the_others() -> None:
    rng = np.random.default_rng(0)
    decoder, targets = rng.normal(size=(6, 9)), rng.normal(size=(5, 9))
    bits = np.where(rng.random((5, 6)) < 0.5, 1.0, -1.0)
    expected = bits.copy()
    for row, target in zip(expected, targets, strict=True):
        for number in 3 * [*range(6)]:
            errors = []
            for value in (-1, 1):
                row[number] = value
                errors.append(np.square(target - row @ decoder).sum())
            row[number] = 1 if errors[1] < errors[0] else -1
    changed = bits.astype(np.float32)
    descend(changed, targets.astype(np.float32), decoder.astype(np.float32))
    np.testing.assert_array_equal(changed, expected)


def test_the_first_bits_of_a_long_code_are_the_short_code() -> None:
    vectors = unit_vectors(300, 90, 0)
    short, long = (fit_reconstruction(vectors, n_bits, 0) for n_bits in (64, 80))
    np.testing.assert_array_equal(short.encode(vectors), long.encode(vectors)[:, :64])
    np.testing.assert_array_equal(short.weights(vectors), long.weights(vectors)[:, :64])


def test_scores_are_nearer_to_the_cosines_than_those_of_itq() -> None:
    vectors, queries = unit_vectors(500, 100, 0), unit_vectors(50, 100, 1)
    cosines = queries @ vectors.T
    head = fit_reconstruction(vectors, 64, 0)
    directions, thresholds = fit_itq(vectors, 64, 0)
    scores = head.weights(queries) @ np.where(head.encode(vectors), 1, -1).T
    of_itq = (queries @ directions - thresholds) @ np.where(
        vectors @ directions > thresholds, 1, -1
    ).T
    ours, theirs = (
        np.mean([np.corrcoef(*pair)[0, 1] for pair in zip(some, cosines, strict=True)])
        for some in (scores, of_itq)
    )
    assert ours > theirs + 0.03
