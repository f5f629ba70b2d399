from __future__ import annotations

import numpy as np
import pytest
import scikit_posthocs
from scipy import stats

from hummingbit.evaluation.result import EvaluationError
from hummingbit.evaluation.significance import friedman_nemenyi


def some_systems(n_systems: int, n_queries: int) -> dict[str, np.ndarray]:
    """Values on few levels, so that ranks are shared."""
    rng = np.random.default_rng(n_systems)
    easy = rng.random(n_queries)
    return {
        f"s{i}": (easy + rng.normal(0.03 * i, 0.2, n_queries)).round(1) for i in range(n_systems)
    }


@pytest.mark.parametrize("n_systems", [3, 4, 7])
def test_it_equals_scikit_posthocs_and_scipy(n_systems: int) -> None:
    systems = some_systems(n_systems, 60)
    found = friedman_nemenyi(systems)
    friedman = stats.friedmanchisquare(*systems.values())
    assert found.statistic == pytest.approx(friedman.statistic)
    assert found.p_value == pytest.approx(friedman.pvalue)
    nemenyi = scikit_posthocs.posthoc_nemenyi_friedman(np.stack(list(systems.values()), axis=1))
    names = list(systems)
    assert len(found.pairs) == n_systems * (n_systems - 1) // 2
    for (a, b), p_value in found.pairs.items():
        assert p_value == pytest.approx(nemenyi.iloc[names.index(a), names.index(b)], abs=1e-9)
        apart = abs(found.mean_ranks[a] - found.mean_ranks[b])
        assert (p_value < found.alpha) == (apart > found.critical_difference)


def test_the_critical_difference_of_demsar() -> None:
    # Table 5 of the paper: q at 0.05 is 2.569 for four systems; example: N = 14, CD = 1.25.
    systems = some_systems(4, 14)
    assert friedman_nemenyi(systems).critical_difference == pytest.approx(1.25, abs=0.005)


def test_ranks_by_hand() -> None:
    systems = {"a": np.array([0.9, 0.5]), "b": np.array([0.5, 0.5]), "c": np.array([0.1, 0.7])}
    assert friedman_nemenyi(systems).mean_ranks == {"a": 1.75, "b": 2.25, "c": 2.0}


def test_systems_that_agree_do_not_differ() -> None:
    found = friedman_nemenyi({name: np.array([0.5, 0.7]) for name in "abc"})
    assert (found.statistic, found.p_value) == (0, 1)
    assert list(found.pairs.values()) == pytest.approx([1, 1, 1])


def test_bad_input_is_refused() -> None:
    some = np.array([0.5, 0.6])
    with pytest.raises(EvaluationError, match="there are 2 systems"):
        friedman_nemenyi({"a": some, "b": some})
    with pytest.raises(EvaluationError, match=r"shapes \[1\], \[2\]"):
        friedman_nemenyi({"a": some, "b": some, "c": some[:1]})
    with pytest.raises(EvaluationError, match="there is one query"):
        friedman_nemenyi(dict.fromkeys("abc", some[:1]))
    with pytest.raises(EvaluationError, match="NaN"):
        friedman_nemenyi({"a": some, "b": some, "c": some * np.nan})
    with pytest.raises(EvaluationError, match="alpha is 5"):
        friedman_nemenyi({"a": some, "b": some, "c": some}, alpha=5)
