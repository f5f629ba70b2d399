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
    assert sorted(document.id for document in pooled) == sorted(
        {id_ for ids in rankings.values() for id_ in ids}
    )
    assert [item.weight for item in pooled] == sorted(
        (item.weight for item in pooled), reverse=True
    )
    for document in pooled:
        assert all(rankings[name][rank - 1] == document.id for name, rank in document.ranks.items())


def test_the_weights_are_those_of_the_prior() -> None:
    # Z = 2: (1 + 1.5 - 1) / 2 and (1 + 1.5 - 1.5) / 2.
    pooled = pool({"hamming": ["a", "b"], "bm25": ["b", "c"]})
    assert [document.id for document in pooled] == ["b", "a", "c"]
    assert [item.weight for item in pooled] == pytest.approx([1.25, 0.75, 0.5])


def test_disagreement_puts_what_one_ranking_alone_has_first() -> None:
    pooled = pool({"hamming": ["a", "b"], "bm25": ["a", "c"]}, "difference")
    assert [document.id for document in pooled] == ["b", "c", "a"]
