from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.training.similarities import TreeHierarchy, dotted_tree


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
    expected = [[slow_similarity(below, item, other) for other in below] for item in below]
    np.testing.assert_allclose(tree.table(), expected)


def test_a_tree_with_two_children_everywhere() -> None:
    labels = [f"{a}.{b}.{c}" for a in "xy" for b in "xy" for c in "xy"]
    table = TreeHierarchy(dotted_tree(labels), labels).table()
    # (2 + 4 + 8) / 3 for the same leaf, (2 + 4) / 3 for its sister, 2 / 3 for cousins.
    np.testing.assert_allclose(table[0], [14 / 3, 2, 2 / 3, 2 / 3, 0, 0, 0, 0])


def test_levels_that_all_share_are_left_out() -> None:
    short, long = ["x.a", "x.b", "y"], ["top.x.a", "top.x.b", "top.y"]
    one, other = (TreeHierarchy(dotted_tree(names), names).table() for names in (short, long))
    np.testing.assert_allclose(one, other)


@pytest.mark.parametrize("labels", [["a"], ["a", "b", "a"], []])
def test_labels_must_be_several_and_different(labels: list[str]) -> None:
    with pytest.raises(ValueError, match="there must be two or more, all different"):
        TreeHierarchy(dotted_tree(labels), labels)
