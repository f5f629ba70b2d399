"""Labels in a tree as a source of examples: the generative similarity of eq. 4."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from training.similarities.generative_models import Examples, Numbers, Triplets, check_numbers
from training.similarities.label_tree import LabelTree


class TreeHierarchy:
    """Labels at the leaves of a tree of K levels, which are reached by walking down from the root.

    Each step takes one of the children at random, all alike. A source is a node at a level k that
    is drawn from 1 to K, all alike; what comes from it are leaves below. Two leaves whose deepest
    common node is at level k* are as similar as

        s_gen = (1/K) Σ_{k ≤ k*} Π_{l ≤ k} 1/p_l           (the paper's eq. 4, but for its K)

    where p_l is one over the number of children at the step to level l of their path. For a leaf
    that lies higher than K, the walk stays there at the levels below (p_l = 1). A label that stands
    above others counts as one more leaf among its children.

    Args:
        tree: where the labels stand; levels above the deepest node that all share are left out.
        labels: the leaves, C of them, in the order in which they are numbered.

    Raises:
        ValueError: unless there are two labels or more, all different.
    """

    def __init__(self, tree: LabelTree, labels: Sequence[str]) -> None:
        if len(set(labels)) < max(2, len(labels)):
            raise ValueError(f"labels: are {len(labels)}; they must be two or more, all different")
        paths = [tree.path(label) for label in labels]
        depth = max(map(len, paths))
        whole = [path + path[-1:] * (depth - len(path)) for path in paths]
        shared = _shared(whole)
        self.labels = tuple(labels)
        self.levels = depth - shared
        self._paths = [path[shared:] for path in whole]
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
        """How often the walk ends at each label, ``float64[C]``, of sum 1."""
        return np.asarray(self._reach_CK[:, -1], dtype=np.float64)

    def table(self) -> Numbers:
        """Return s_gen of every two labels, ``float64[C, C]``."""
        return np.asarray(self._shared_sums()[0] / self.levels, dtype=np.float64)

    def printed_table(self) -> Numbers:
        """Return equation 4 to the letter, ``float64[C, C]``: K is k*, of each pair its own.

        It is the mean of Π 1/p_l over the levels that two leaves share, where :meth:`table` has
        their sum over the levels of the tree. So it is no ratio of densities, and no model gives
        it. Leaves that share no level have 1, of which the logarithm is 0; the paper does not say.
        """
        sums_CC, shared_CC = self._shared_sums()
        means_CC = sums_CC / np.maximum(shared_CC, 1)
        return np.asarray(np.where(shared_CC > 0, means_CC, 1.0), dtype=np.float64)

    def _shared_sums(self) -> tuple[Numbers, Numbers]:
        """Return Σ_{k ≤ k*} Π_{l ≤ k} 1/p_l and k* of every two labels."""
        number: dict[tuple[str, ...], int] = {}
        node_CK = np.array(
            [
                [number.setdefault(path[: level + 1], len(number)) for level in range(self.levels)]
                for path in self._paths
            ]
        )
        sums_CC, shared_CC = (np.zeros((len(self.labels), len(self.labels))) for _ in range(2))
        for node_C, reach_C in zip(node_CK.T, self._reach_CK.T, strict=True):
            is_shared_CC = node_C[:, None] == node_C
            sums_CC += is_shared_CC / reach_C
            shared_CC += is_shared_CC
        return sums_CC, shared_CC

    def log_similarity(self, first: Examples, second: Examples) -> Numbers:
        """See :class:`GenerativeModel`; examples are numbers of labels."""
        one, other = check_numbers(first, len(self.labels)), check_numbers(second, len(self.labels))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.table())[one, other])

    def sample_triplets(self, count: int, rng: np.random.Generator) -> Triplets:
        """See :class:`GenerativeModel`; examples are numbers of labels."""
        level = rng.integers(1, self.levels + 1, size=count)
        anchor, other = rng.choice(len(self.labels), size=(2, count), p=self.prior)
        # The node above a leaf is drawn as often as the walk comes by it, so the leaf may come
        # first; the second leaf is then drawn from those below the node.
        same = [
            self._below(self._paths[leaf][:k], rng) for leaf, k in zip(anchor, level, strict=True)
        ]
        return Triplets(anchor, np.array(same, dtype=np.int64), other)

    def _below(self, node: tuple[str, ...], rng: np.random.Generator) -> int:
        below_C = np.array([path[: len(node)] == node for path in self._paths])
        weight_C = np.where(below_C, self.prior, 0)
        return int(rng.choice(len(weight_C), p=weight_C / weight_C.sum()))


def _shared(paths: Sequence[tuple[str, ...]]) -> int:
    """Count the labels with which all paths begin."""
    first, last = min(paths), max(paths)
    count = 0
    while count < min(len(first), len(last)) and first[count] == last[count]:
        count += 1
    return count
