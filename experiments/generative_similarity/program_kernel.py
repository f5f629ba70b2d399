"""The similarity of programs, by the parts that their parse trees have in common.

Source: Moschitti, "Making Tree Kernels Practical for Natural Language Learning" (2006), after
Vishwanathan and Smola (2002) for the subtree kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from hummingbit.training.generative_models import Examples, Numbers, Triplets


class ParseTree(NamedTuple):
    """A node of a parse tree: its label, and its children in order."""

    label: str
    children: tuple[ParseTree, ...] = ()


def tree_kernel(
    first: ParseTree, second: ParseTree, *, decay: float = 1.0, partial: bool = False
) -> float:
    """Return Σ Δ(n, m) over the nodes n of the first tree and m of the second.

    Without `partial` it is the subtree kernel, which counts the pairs of equal subtrees, nodes with
    all their descendants. With `partial` it is the subset-tree kernel, whose fragments may end
    above the leaves. With λ the `decay` and σ = 1 for `partial`, else 0,

        Δ(n, m) = 0                                   if labels or labels of children differ,
                  λ                                   if they have no children,
                  λ Π_j (σ + Δ(n_j, m_j))             over the children otherwise.

    A leaf counts as a tree. In Moschitti's definition the smallest tree is the parent of a leaf,
    since the leaves of a sentence are its words; here the leaves of a program are its calls.

    Raises:
        ValueError: unless the decay is above 0 and at most 1.
    """
    if not 0 < decay <= 1:
        raise ValueError(f"decay is {decay:g}; it must be above 0 and at most 1")

    @cache
    def fragments(n: ParseTree, m: ParseTree) -> float:
        if n.label != m.label or len(n.children) != len(m.children):
            return 0.0
        pairs = list(zip(n.children, m.children, strict=True))
        if any(a.label != b.label for a, b in pairs):
            return 0.0
        product = decay
        for a, b in pairs:
            product *= partial + fragments(a, b)
        return product

    return sum(fragments(n, m) for n in _nodes(first) for m in _nodes(second))


def _nodes(tree: ParseTree) -> list[ParseTree]:
    return [tree, *(node for child in tree.children for node in _nodes(child))]


class ProgramKernel:
    """Programs that form a pair more often the more their parse trees have in common.

    If the likelihood of the output of programs cannot be computed, a kernel of the programs
    replaces it. With κ(i, j) = k(i, j) / √(k(i, i) k(j, j)), `kernel_NN`, and k from
    :func:`tree_kernel`, `count_NN`,

        p(i, j | same) ∝ κ(i, j),   p(i, j | different) = 1/N²,   s_gen(i, j) = κ(i, j) / mean κ.

    Args:
        programs: the N parse trees.
        decay, partial: as in :func:`tree_kernel`.

    Raises:
        ValueError: if there are fewer than two programs, or the decay is out of its range.
    """

    def __init__(
        self, programs: Sequence[ParseTree], *, decay: float = 1.0, partial: bool = False
    ) -> None:
        if len(programs) < 2:
            raise ValueError(f"programs: has {len(programs)}; there must be two or more")
        self.count_NN: Numbers = np.array(
            [[tree_kernel(a, b, decay=decay, partial=partial) for b in programs] for a in programs]
        )
        norm_N = np.sqrt(np.diag(self.count_NN))
        self.kernel_NN: Numbers = self.count_NN / norm_N / norm_N[:, None]

    def log_similarity(self, first: Examples, second: Examples) -> Numbers:
        """Return ln s_gen of programs by their numbers; leading axes broadcast."""
        with np.errstate(divide="ignore"):
            table: Numbers = np.log(self.kernel_NN) - np.log(self.kernel_NN.mean())
        return np.asarray(table[np.asarray(first), np.asarray(second)], dtype=np.float64)

    def sample_triplets(self, count: int, rng: np.random.Generator) -> Triplets:
        """Draw numbers of programs, ``int64[count]`` each."""
        n = len(self.kernel_NN)
        pair = rng.choice(n * n, size=count, p=(self.kernel_NN / self.kernel_NN.sum()).ravel())
        return Triplets(pair // n, pair % n, rng.integers(0, n, size=count))
