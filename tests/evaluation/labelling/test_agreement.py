from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from hummingbit.evaluation.labelling.statistics import (
    MAX_PEOPLE,
    agreement_on_judgements,
    agreement_on_labels,
    cohen_kappa,
)
from hummingbit.index.store.annotations import DocumentLabel, Judgement


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40))
def test_kappa_is_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    kappa = cohen_kappa(pairs)
    if len({answer for pair in pairs for answer in pair}) == 1:
        assert kappa is None
        return
    expected = cohen_kappa_score(*zip(*pairs, strict=True))
    assert kappa is not None
    assert math.isclose(kappa, expected, abs_tol=1e-12)


def test_kappa_of_a_table_worked_by_hand() -> None:
    # 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no: p_o 0.7, p_e 0.5.
    pairs = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert cohen_kappa(pairs) == pytest.approx(0.4)


def test_only_what_both_looked_at_counts() -> None:
    labels = [
        DocumentLabel("d0", ("a",), "ann"),
        DocumentLabel("d0", ("a",), "bob"),
        DocumentLabel("d1", ("b",), "ann"),
        DocumentLabel("d1", ("a",), "bob"),
        DocumentLabel("d2", ("a",), "ann"),
        DocumentLabel("d3", ("a",), "cas"),
    ]
    (found,) = agreement_on_labels(labels)
    assert (found.who, found.items, found.observed) == (("ann", "bob"), 2, 0.5)
    judged = [Judgement("q", "d", 1, "ann"), Judgement("q", "d", 3, "bob")]
    (found,) = agreement_on_judgements(judged)
    assert (found.observed, found.kappa) == (1.0, None)


def test_of_many_people_those_who_said_most_are_compared() -> None:
    labels = [DocumentLabel("a", ("x",), f"p{at:03}") for at in range(80)]
    labels += [DocumentLabel("b", ("x",), f"p{at:03}") for at in range(40, 80)]
    found = agreement_on_labels(labels)
    assert len(found) == MAX_PEOPLE * (MAX_PEOPLE - 1) // 2
    people = {who for item in found for who in item.who}
    assert people == {f"p{at:03}" for at in (*range(10), *range(40, 80))}
