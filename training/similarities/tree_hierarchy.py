"""The generative similarity of labels in a tree (equation 4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from training.similarities.generative_models import Examples, Numbers, Triplets, check_numbers
from training.similarities.label_tree import LabelTree


class TreeHierarchy:
    """Labels at the leaves of a tree of K levels, reached by a random walk from the root.

    Each step of the walk goes to a child, with equal probabilities. A source is a node at level k,
    drawn uniformly from 1 to K, and its examples are the leaves below it. The similarity of two
    leaves whose deepest common node is at level k* is

        s_gen = (1/K) Σ_{k ≤ k*} Π_{l ≤ k} 1/p_l           (the paper's eq. 4, except for its K)

    where p_l is one over the number of children at the step to level l of their path. At a leaf
    above level K, the walk stays there (p_l = 1), and these levels count, too. A label that is the
    ancestor of others counts as one more leaf among its children.

    Args:
        tree: the tree of the labels; the levels that all labels have in common are left out.
        labels: the C leaves, in the order of their numbers.

    Raises:
        ValueError: unless there are two labels or more, all different.
    """

    def __init__(self, tree: LabelTree, labels: Sequence[str]) -> None:
        if len(set(labels)) < max(2, len(labels)):
            found = f"{len(labels)}, of which {len(set(labels))} are different"
            raise ValueError(f"labels: has {found}; there must be two or more, all different")
        paths = [tree.path(label) for label in labels]
        depth = max(map(len, paths))
        padded = [path + path[-1:] * (depth - len(path)) for path in paths]
        n_common = _common_length(padded)
        self.labels = tuple(labels)
        self.levels = depth - n_common
        self._paths = [path[n_common:] for path in padded]
        ancestors = {label for path in paths for label in path[:-1]}
        ends_C = [len(path) + (path[-1] in ancestors) - n_common for path in paths]
        self._is_node_CK = np.arange(self.levels) < np.array(ends_C)[:, None]
        children: dict[tuple[str, ...], set[str]] = {}
        for path in self._paths:
            for level in range(self.levels):
                children.setdefault(path[:level], set()).add(path[level])
        steps_CK = [
            [1 / len(children[path[:level]]) for level in range(self.levels)]
            for path in self._paths
        ]
        self._reach_CK = np.cumprod(np.array(steps_CK, dtype=np.float64), axis=1)

    @property
    def prior(self) -> Numbers:
        """The probability that the walk ends at each label, ``float64[C]``."""
        return np.asarray(self._reach_CK[:, -1], dtype=np.float64)

    def table(self) -> Numbers:
        """Return s_gen of all pairs of labels, ``float64[C, C]``."""
        everywhere_CK = np.ones_like(self._is_node_CK)
        return np.asarray(self._sums(everywhere_CK)[0] / self.levels, dtype=np.float64)

    def printed_table(self) -> Numbers:
        """Return equation 4 as printed, ``float64[C, C]``: K is k*, which depends on the pair.

        It is the mean of Π 1/p_l over the nodes that two leaves have in common, where :meth:`table`
        divides the sum by the number of levels of the tree. The levels at which the walk stays at a
        leaf do not count. So it is not a ratio of densities, and no model generates it. Leaves
        without a common node have 1, whose logarithm is 0; the paper does not define it.
        """
        sums_CC, depth_CC = self._sums(self._is_node_CK)
        means_CC = sums_CC / np.maximum(depth_CC, 1)
        return np.asarray(np.where(depth_CC > 0, means_CC, 1.0), dtype=np.float64)

    def _sums(self, counts_CK: npt.NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        """Return Σ_{k ≤ k*} Π_{l ≤ k} 1/p_l and k* of all pairs of labels, over some levels."""
        number: dict[tuple[str, ...], int] = {}
        node_CK = np.array(
            [
                [number.setdefault(path[: level + 1], len(number)) for level in range(self.levels)]
                for path in self._paths
            ]
        )
        sums_CC, depth_CC = (np.zeros((len(self.labels), len(self.labels))) for _ in range(2))
        levels = zip(node_CK.T, self._reach_CK.T, counts_CK.T, strict=True)
        for node_C, reach_C, counts_C in levels:
            is_common_CC = (node_C[:, None] == node_C) & counts_C
            sums_CC += is_common_CC / reach_C
            depth_CC += is_common_CC
        return sums_CC, depth_CC

    def log_similarity(self, first: Examples, second: Examples) -> Numbers:
        """See :class:`GenerativeModel`; examples are numbers of labels."""
        rows, columns = (check_numbers(numbers, len(self.labels)) for numbers in (first, second))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.table())[rows, columns])

    def sample_triplets(self, count: int, rng: np.random.Generator) -> Triplets:
        """See :class:`GenerativeModel`; examples are numbers of labels."""
        level = rng.integers(1, self.levels + 1, size=count)
        anchor, other = rng.choice(len(self.labels), size=(2, count), p=self.prior)
        # A node is drawn as often as the walk visits it. So the first leaf can be drawn first, then
        # its ancestor at the level, and then the second leaf from those below that node.
        same = [
            self._below(self._paths[leaf][:k], rng) for leaf, k in zip(anchor, level, strict=True)
        ]
        return Triplets(anchor, np.array(same, dtype=np.int64), other)

    def _below(self, node: tuple[str, ...], rng: np.random.Generator) -> int:
        below_C = np.array([path[: len(node)] == node for path in self._paths])
        weight_C = np.where(below_C, self.prior, 0)
        return int(rng.choice(len(weight_C), p=weight_C / weight_C.sum()))


def _common_length(paths: Sequence[tuple[str, ...]]) -> int:
    """Return the length of the longest common prefix of all paths."""
    first, last = min(paths), max(paths)
    count = 0
    while count < min(len(first), len(last)) and first[count] == last[count]:
        count += 1
    return count
