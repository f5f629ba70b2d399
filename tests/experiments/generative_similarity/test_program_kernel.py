from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.generative_similarity.program_kernel import ParseTree, ProgramKernel, tree_kernel

trees = st.recursive(
    st.sampled_from("ab").map(ParseTree),
    lambda inner: st.builds(
        lambda label, children: ParseTree(label, tuple(children)),
        st.sampled_from("ab"),
        st.lists(inner, min_size=1, max_size=2),
    ),
    max_leaves=6,
)


def subtrees(tree: ParseTree) -> list[ParseTree]:
    return [tree, *(subtree for child in tree.children for subtree in subtrees(child))]


def fragments(node: ParseTree) -> list[str]:
    """Every subset tree rooted at a node, written out: a child is cut off or goes on."""
    if not node.children:
        return [node.label]
    choices = [
        [f"<{child.label}>", *(fragments(child) if child.children else [f"({child.label})"])]
        for child in node.children
    ]
    return [f"{node.label}({','.join(item)})" for item in product(*choices)]


@settings(deadline=None)
@given(trees, trees)
def test_the_subtree_kernel_counts_equal_subtrees(one: ParseTree, other: ParseTree) -> None:
    first, second = Counter(subtrees(one)), Counter(subtrees(other))
    expected = sum(count * second[tree] for tree, count in first.items())
    assert tree_kernel(one, other) == expected
    assert tree_kernel(other, one) == expected


@settings(deadline=None)
@given(trees, trees)
def test_the_subset_tree_kernel_counts_equal_fragments(one: ParseTree, other: ParseTree) -> None:
    first, second = (
        Counter(text for node in subtrees(tree) for text in fragments(node))
        for tree in (one, other)
    )
    expected = sum(count * second[text] for text, count in first.items())
    assert tree_kernel(one, other, partial=True) == expected


@settings(deadline=None)
@given(trees)
def test_decay_counts_the_nodes_of_a_subtree(tree: ParseTree) -> None:
    decayed = tree_kernel(tree, tree, decay=0.5)
    alike = [0.5 ** len(subtrees(n)) for n in subtrees(tree) for m in subtrees(tree) if n == m]
    assert decayed == pytest.approx(sum(alike))


def test_programs_are_alike_by_what_they_share() -> None:
    circle = ParseTree("circle", (ParseTree("p1"), ParseTree("p2")))
    around = [ParseTree("circle", (ParseTree("p3", (circle,)), ParseTree(p))) for p in ("p4", "p5")]
    line = ParseTree("line", (ParseTree("p7"), ParseTree("p8")))
    programs = [ParseTree("program", (circle, outer)) for outer in around]
    model = ProgramKernel([*programs, ParseTree("program", (line,))])
    rows, columns = np.indices((3, 3))
    similarity = np.exp(model.log_similarity(rows, columns))
    assert similarity.mean() == pytest.approx(1)
    assert similarity[0, 0] == pytest.approx(similarity[2, 2])
    assert similarity[0, 0] > similarity[0, 1] > similarity[0, 2] == 0
    np.testing.assert_allclose(similarity, similarity.T)
    anchor, same, different = model.sample_triplets(30_000, np.random.default_rng(0))
    counts = np.zeros((3, 3))
    np.add.at(counts, (anchor, same), 1 / len(anchor))
    np.testing.assert_allclose(counts, similarity / 9, atol=0.01)
    np.testing.assert_allclose(np.bincount(different) / len(different), [1 / 3] * 3, atol=0.01)


def test_a_kernel_needs_two_programs_and_a_decay() -> None:
    tree = ParseTree("a")
    with pytest.raises(ValueError, match="programs: has 1; there must be two or more"):
        ProgramKernel([tree])
    with pytest.raises(ValueError, match="decay is 0; it must be above 0 and at most 1"):
        tree_kernel(tree, tree, decay=0)
