from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.evaluation.labelling.suggestions import POOLING_METHODS, pool

lists = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)


@given(
    st.dictionaries(st.sampled_from(["hamming", "bm25", "hybrid"]), lists),
    st.sampled_from(sorted(POOLING_METHODS)),
)
def test_a_pool_holds_every_answer_once(rankings: dict[str, list[str]], method: str) -> None:
    pooled = pool(rankings, method)
    assert sorted(one.id for one in pooled) == sorted(
        {id_ for ids in rankings.values() for id_ in ids}
    )
    assert [one.weight for one in pooled] == sorted((one.weight for one in pooled), reverse=True)
    for one in pooled:
        assert all(rankings[name][rank - 1] == one.id for name, rank in one.ranks.items())


def test_the_weights_are_those_of_the_prior() -> None:
    # Z = 2: (1 + 1.5 - 1) / 2 and (1 + 1.5 - 1.5) / 2.
    pooled = pool({"hamming": ["a", "b"], "bm25": ["b", "c"]})
    assert [one.id for one in pooled] == ["b", "a", "c"]
    assert [one.weight for one in pooled] == pytest.approx([1.25, 0.75, 0.5])


def test_disagreement_puts_what_one_ranking_alone_has_first() -> None:
    pooled = pool({"hamming": ["a", "b"], "bm25": ["a", "c"]}, "difference")
    assert [one.id for one in pooled] == ["b", "c", "a"]
