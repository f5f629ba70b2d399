from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import scikit_posthocs
from scipy import stats

from hummingbit.evaluation.result import Evaluation, EvaluationError
from hummingbit.evaluation.significance import compare_systems, compare_with_baselines


def evaluation(values: np.ndarray) -> Evaluation:
    zeros = np.zeros(len(values))
    return Evaluation({"P@5": zeros}, {"P@5": values}, len(values), 10, 0)


def test_every_pair_is_tested_over_all_signs() -> None:
    rng = np.random.default_rng(0)
    systems = {name: rng.random(10) for name in "abc"}
    (found,) = compare_systems({n: evaluation(v) for n, v in systems.items()}).values()
    raw = []
    for pair in found.pairs:
        difference = systems[pair.a] - systems[pair.b]
        assert pair.difference == pytest.approx(difference.mean())
        sums = [np.dot(signs, difference) for signs in itertools.product((1, -1), repeat=10)]
        raw.append(np.mean(np.abs(sums) >= abs(difference.sum()) - 1e-12))
        assert pair.p_value == pytest.approx(raw[-1])
    smallest = int(np.argmin(raw))
    assert found.pairs[smallest].adjusted == pytest.approx(min(1.0, 3 * raw[smallest]))


def test_three_systems_or_more_are_ranked() -> None:
    rng = np.random.default_rng(1)
    table = rng.random((40, 4)) + np.array([0.0, 0.1, 0.2, 0.6])
    systems = {f"s{i}": evaluation(table[:, i]) for i in range(4)}
    ranks = compare_systems(systems)["P@5"].ranks
    assert ranks is not None
    assert ranks.p_value == pytest.approx(stats.friedmanchisquare(*table.T).pvalue)
    nemenyi = scikit_posthocs.posthoc_nemenyi_friedman(table).to_numpy()
    for (a, b), p_value in ranks.pairs.items():
        assert p_value == pytest.approx(nemenyi[int(a[1]), int(b[1])], abs=1e-6)
    assert json.loads(json.dumps(compare_systems(systems)["P@5"].to_dict()))["nemenyi"]


def test_two_systems_are_not_ranked() -> None:
    values = np.arange(5.0)
    found = compare_systems({"a": evaluation(values), "b": evaluation(values)})["P@5"]
    assert found.ranks is None
    assert found.pairs[0].adjusted == 1
    assert found.to_dict()["friedman"] is None


def test_one_system_is_refused() -> None:
    with pytest.raises(EvaluationError, match="two or more"):
        compare_systems({"a": evaluation(np.ones(3))})


def test_a_sentence_for_each_baseline_says_who_is_ahead() -> None:
    """With 40 queries that all differ one way, the sign test of 2 · 2⁻⁴⁰ is below any level."""
    ours, better = np.full(40, 0.5), np.full(40, 0.75)
    level = np.where(np.arange(40) % 2 == 0, 0.4, 0.6)

    def evaluation(**values: np.ndarray) -> Evaluation:
        return Evaluation(values, values, 40, 10, 0)

    sentences = compare_with_baselines(
        "codes",
        evaluation(P=ours, R=ours),
        {"words": evaluation(P=better, R=0.5 * ours), "vectors": evaluation(P=level)},
    )
    assert sentences == [
        "codes against words: behind in P (0.500 to 0.750, p < 0.001),"
        " ahead in R (0.500 to 0.250, p < 0.001)",
        "codes against vectors: P 0.500 to 0.500 (not significant)",
    ]


def test_a_sentence_praises_no_difference_that_is_not_shown() -> None:
    def sentence(ours: np.ndarray, theirs: np.ndarray) -> str:
        both = (Evaluation({"P": p}, {"P": p}, len(p), 10, 0) for p in (ours, theirs))
        (found,) = compare_with_baselines("codes", next(both), {"words": next(both)})
        return found.removeprefix("codes against words: ")

    few = sentence(np.ones(2), np.array([0.0, 0.584]))
    assert few == "P 1.000 to 0.292 (2 queries are too few to tell)"
    assert sentence(np.ones(1), np.zeros(1)) == "P 1.000 to 0.000 (1 query is too few to tell)"
    # What is shown differs in the digits printed.
    small = sentence(np.full(40, 0.5001), np.full(40, 0.5))
    assert small == "ahead in P (0.5001 to 0.5000, p < 0.001)"
