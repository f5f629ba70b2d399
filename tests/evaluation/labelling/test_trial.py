from __future__ import annotations

import numpy as np
import pytest

from hummingbit.evaluation.labelling.trial import Trial, hold_out_labels
from hummingbit.evaluation.significance import permutation_test, queries_to_detect


def trial(**fields: object) -> Trial:
    values: dict[str, object] = {
        "queries": 6,
        "documents": 30,
        "current": {"mAP@100": 0.5},
        "candidate": {"mAP@100": 0.6},
        "min_gain": 0.0,
        "p_value": 0.25,
        "needed": 120,
    }
    return Trial(**{**values, **fields})  # type: ignore[arg-type]


def test_six_queries_tell_nothing_and_do_not_pass() -> None:
    few = trial()
    assert not few.passed
    assert "cannot tell: 6 held-out documents" in (few.uncertainty or "")
    assert "114 more documents" in (few.uncertainty or "")
    assert trial(accept_uncertain=True).passed
    assert trial(p_value=0.02).passed
    assert trial(queries=150).passed
    assert not trial(candidate={"mAP@100": 0.4}, accept_uncertain=True).passed


def test_labels_that_the_encoder_in_use_knows_are_no_test() -> None:
    assert "values of training data" in (trial(queries=150, seen=150).uncertainty or "")
    assert trial(queries=150, seen=3).passed


def test_documents_with_known_labels_are_held_out_only_if_there_are_no_others() -> None:
    known = {f"d{at}": ["ab"[at % 2]] for at in range(100)}
    seen = [f"d{at}" for at in range(80)]
    held_out = hold_out_labels(known, seen, 0.2, 0)
    assert len(held_out) == 10
    assert not set(held_out) & set(seen)
    assert len(hold_out_labels(known, [*known], 0.2, 0)) == 20


@pytest.mark.parametrize("spread", [0.1, 0.25])
def test_so_many_queries_do_detect_the_difference(spread: float) -> None:
    """The permutation test itself finds the shift in about four of five samples."""
    rng = np.random.default_rng(0)
    size = 0.05
    needed = queries_to_detect(rng.normal(0, spread, 4000), size)
    shown = [
        permutation_test(size + rng.normal(0, spread, needed), np.zeros(needed), samples=500) < 0.05
        for _ in range(200)
    ]
    assert 0.7 < np.mean(shown) < 0.9
