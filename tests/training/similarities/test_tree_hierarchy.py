from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.training.similarities import LabelTree, TreeHierarchy, dotted_tree


def slow_similarity(labels: list[str], one: str, other: str) -> float:
    """Walks from the root spelled out: p(x, y | same) over p(x) p(y), with no product of 1/p_l."""
    depth = max(label.count(".") + 1 for label in labels)
    paths = [label.split(".") for label in labels]
    padded = {
        label: [*path, *["."] * (depth - len(path))]
        for label, path in zip(labels, paths, strict=True)
    }

    def walks(start: list[str], levels: int) -> dict[tuple[str, ...], float]:
        """How likely each node is that lies `levels` steps below `start`."""
        found = {tuple(start): 1.0}
        for _ in range(levels):
            following: dict[tuple[str, ...], float] = {}
            for node, p in found.items():
                below = {
                    tuple(path[: len(node) + 1])
                    for path in padded.values()
                    if tuple(path[: len(node)]) == node
                }
                for child in below:
                    following[child] = following.get(child, 0) + p / len(below)
            found = following
        return found

    leaf = {label: tuple(path) for label, path in padded.items()}
    alone = walks([], depth)
    same = 0.0
    for level in range(1, depth + 1):
        for node, p in walks([], level).items():
            leaves = walks(list(node), depth - level)
            same += p * leaves.get(leaf[one], 0) * leaves.get(leaf[other], 0) / depth
    return same / (alone[leaf[one]] * alone[leaf[other]])


names = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(".".join)


@settings(max_examples=40, deadline=None)
@given(st.lists(names, min_size=2, max_size=7, unique=True))
def test_the_closed_form_is_what_walks_give(labels: list[str]) -> None:
    tree = TreeHierarchy(dotted_tree(labels), labels)
    shared = 0
    while len({tuple(label.split(".")[: shared + 1]) for label in labels}) == 1:
        shared += 1
    below = [".".join(label.split(".")[shared:]) for label in labels]
    # A label above all others is one more leaf beside them.
    below = [label or "itself" for label in below]
    expected = [[slow_similarity(below, one, other) for other in below] for one in below]
    np.testing.assert_allclose(tree.table(), expected)
    assert tree.prior.sum() == pytest.approx(1)
    # Means over pairs drawn independently are 1, as of every ratio of densities.
    assert tree.prior @ tree.table() @ tree.prior == pytest.approx(1)


def test_a_tree_with_two_children_everywhere() -> None:
    labels = [f"{a}.{b}.{c}" for a in "xy" for b in "xy" for c in "xy"]
    table = TreeHierarchy(dotted_tree(labels), labels).table()
    # (2 + 4 + 8) / 3 for the same leaf, (2 + 4) / 3 for its sister, 2 / 3 for cousins.
    np.testing.assert_allclose(table[0], [14 / 3, 2, 2 / 3, 2 / 3, 0, 0, 0, 0])


def test_the_printed_table_divides_by_the_levels_that_a_pair_shares() -> None:
    labels = [f"{a}.{b}.{c}" for a in "xy" for b in "xy" for c in "xy"]
    table = TreeHierarchy(dotted_tree(labels), labels).printed_table()
    # (2 + 4 + 8) / 3 for the same leaf, (2 + 4) / 2 for its sister, 2 / 1 for cousins.
    np.testing.assert_allclose(table[0], [14 / 3, 3, 2, 2, 1, 1, 1, 1])
    uneven = TreeHierarchy(dotted_tree(["a.b", "a.c", "a.d", "e"]), ["a.b", "a.c", "a.d", "e"])
    # Two branches, and three below the first; "e" is a leaf at the first level and stays there.
    np.testing.assert_allclose(
        uneven.printed_table(),
        [[4, 2, 2, 1], [2, 4, 2, 1], [2, 2, 4, 1], [1, 1, 1, 2]],
    )


def printed_similarity(labels: list[str], one: str, other: str) -> float:
    """Equation 4 as printed for one pair: the mean of Π 1/p over the nodes of both walks."""
    paths = [label.split(".") for label in labels]
    # A label above others is one more leaf below itself.
    ends = [
        [*path, "."] if any(p[: len(path)] == path != p for p in paths) else path for path in paths
    ]
    first, second = ends[labels.index(one)], ends[labels.index(other)]
    product, terms = 1.0, []
    for level, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            break
        children = {end[level] for end in ends if end[:level] == first[:level] if len(end) > level}
        product *= len(children)
        terms.append(product)
    return float(np.mean(terms)) if terms else 1.0


@settings(max_examples=60, deadline=None)
@given(st.lists(names, min_size=2, max_size=7, unique=True))
def test_the_printed_table_is_equation_4_in_trees_of_uneven_depth(labels: list[str]) -> None:
    # Labels of different roots have no level that all share.
    labels = [*labels, "root"]
    expected = [[printed_similarity(labels, one, other) for other in labels] for one in labels]
    tree = TreeHierarchy(dotted_tree(labels), labels)
    np.testing.assert_allclose(tree.printed_table(), expected)


def test_levels_below_a_leaf_do_not_count_as_printed() -> None:
    labels = ["a.b", "a.c.x", "a.c.y", "d"]
    tree = TreeHierarchy(dotted_tree(labels), labels)
    # a.b ends at the second level: (2 + 4) / 2, and not (2 + 4 + 4) / 3.
    assert tree.printed_table()[0, 0] == 3
    # The walk stays there, which the ratio of densities has to count.
    assert tree.table()[0, 0] == pytest.approx((2 + 4 + 4) / 3)


def test_levels_that_all_share_are_left_out() -> None:
    short, long = ["x.a", "x.b", "y"], ["top.x.a", "top.x.b", "top.y"]
    one, other = (TreeHierarchy(dotted_tree(names), names).table() for names in (short, long))
    np.testing.assert_allclose(one, other)


def test_triplets_come_as_often_as_the_table_says() -> None:
    labels = ["a.a", "a.b", "a.c", "b"]
    tree = TreeHierarchy(dotted_tree(labels), labels)
    anchor, same, different = tree.sample_triplets(30_000, np.random.default_rng(0))
    counts = np.zeros((2, 4, 4))
    for place, other in enumerate((same, different)):
        np.add.at(counts[place], (anchor, other), 1 / len(anchor))
    independent = np.outer(tree.prior, tree.prior)
    np.testing.assert_allclose(counts[1], independent, atol=0.01)
    np.testing.assert_allclose(counts[0], independent * tree.table(), atol=0.01)


def test_logarithms_and_numbers() -> None:
    tree = TreeHierarchy(LabelTree({"cat": "mammal", "dog": "mammal"}), ["cat", "dog", "carp"])
    first, second = np.array([0, 0, 0]), np.array([0, 1, 2])
    np.testing.assert_allclose(np.exp(tree.log_similarity(first, second)), tree.table()[0])
    assert tree.log_similarity(first, second)[2] == -np.inf
    with pytest.raises(ValueError, match="examples: must be whole numbers from 0 to 2"):
        tree.log_similarity(first, second + 1)


@pytest.mark.parametrize("labels", [["a"], ["a", "b", "a"], []])
def test_labels_must_be_several_and_different(labels: list[str]) -> None:
    with pytest.raises(ValueError, match="there must be two or more, all different"):
        TreeHierarchy(dotted_tree(labels), labels)
