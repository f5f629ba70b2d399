from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata

from hummingbit.encoder.codes import pack_bits
from hummingbit.training import distillation
from hummingbit.training.distillation import measure_agreement


def by_hand(
    query_bits: np.ndarray, bits: np.ndarray, query_vectors: np.ndarray, vectors: np.ndarray
) -> tuple[float, float, float]:
    """Coherence with mean ranks, and the shares of the teacher's nearest, by plain loops."""
    levels, shares, ten = [], [], []
    for asked, vector in zip(query_bits, query_vectors, strict=True):
        hamming = (asked != bits).sum(axis=1)
        norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(vector)
        cosine = 0.5 * (1 - vectors @ vector / norms)
        # rankdata counts the others below, half of the ties, and one half more for itself.
        ranks = [(rankdata(d) - 0.5) / len(d) for d in (hamming, cosine)]
        levels.append(1 - np.abs(ranks[0] - ranks[1]).mean())
        nearest = [set(np.argsort(d, kind="stable")[:100]) for d in (hamming, cosine)]
        shares.append(len(nearest[0] & nearest[1]) / min(100, len(bits)))
        first = set(np.argsort(cosine, kind="stable")[:10])
        ten.append(len(nearest[0] & first) / min(10, len(bits)))
    return float(np.mean(levels)), float(np.mean(shares)), float(np.mean(ten))


@pytest.mark.parametrize("documents", [7, 180])
def test_agreement_matches_ranks_computed_by_hand(documents: int) -> None:
    rng = np.random.default_rng(0)
    bits, query_bits = (rng.integers(0, 2, size=(n, 16)) for n in (documents, 9))
    vectors, query_vectors = (rng.normal(size=(n, 5)).astype(np.float32) for n in (documents, 9))
    found = measure_agreement(
        pack_bits(query_bits > 0), pack_bits(bits > 0), query_vectors, vectors
    )
    expected = by_hand(query_bits, bits, query_vectors, vectors)
    figures = (found.coherence, found.neighbours, found.nearest)
    assert figures == pytest.approx(expected, abs=1e-6)
    assert (found.queries, found.documents) == (9, documents)
    low, high = found.interval
    assert low <= found.coherence <= high
    levels = [level for _, level in found.lowest]
    assert levels == sorted(levels)
    (row, lowest), *_ = found.lowest
    alone = by_hand(query_bits[[row]], bits, query_vectors[[row]], vectors)[0]
    assert lowest == pytest.approx(alone, abs=1e-6)


def test_codes_that_rank_as_the_teacher_agree_wholly() -> None:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2, size=(60, 24))
    vectors = (bits * 2 - 1).astype(np.float32)
    codes = pack_bits(bits > 0)
    found = measure_agreement(codes, codes, vectors, vectors)
    assert found.coherence == pytest.approx(1)
    assert found.neighbours == 1


def test_codes_of_chance_have_a_level_of_two_thirds() -> None:
    rng = np.random.default_rng(2)
    codes = pack_bits(rng.integers(0, 2, size=(1000, 256)) > 0)
    vectors = rng.normal(size=(1000, 50)).astype(np.float32)
    assert measure_agreement(codes, codes, vectors, vectors).coherence == pytest.approx(
        2 / 3, abs=0.01
    )


def test_large_sets_are_sampled_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distillation, "MAX_QUERIES", 100)
    monkeypatch.setattr(distillation, "MAX_DOCUMENTS", 1000)
    rng = np.random.default_rng(3)
    codes = pack_bits(rng.integers(0, 2, size=(1200, 8)) > 0)
    vectors = rng.normal(size=(1200, 2)).astype(np.float32)
    found = measure_agreement(codes[:150], codes, vectors[:150], vectors)
    assert (found.queries, found.documents) == (100, 1000)
    assert found == measure_agreement(codes[:150], codes, vectors[:150], vectors)


@pytest.mark.parametrize(("queries", "documents"), [(0, 5), (3, 1)])
def test_too_little_to_compare_is_an_error(queries: int, documents: int) -> None:
    codes, vectors = np.zeros((5, 1), dtype=np.uint8), np.ones((5, 2), dtype=np.float32)
    with pytest.raises(ValueError, match=f"{queries} queries and {documents} documents"):
        measure_agreement(
            codes[:queries], codes[:documents], vectors[:queries], vectors[:documents]
        )
