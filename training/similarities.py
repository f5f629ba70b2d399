"""Similarities of pairs of documents: from labels, their hierarchy, or a model of their sources."""

from __future__ import annotations

import lzma
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from hummingbit.corpus.json_rows import read_json_lines
from hummingbit.corpus.lines import ReadError, open_bytes
from hummingbit.training.data import Rows, Tags, TrainingDataError

# ----------------------------------------------------------------------------
# A tree of labels, from dotted names or a parent–child file, and the similarities of labels.


Table = npt.NDArray[np.float32]
"""The similarities of classes, ``float32[C, C]``, symmetric, from 0 to 1."""

SEPARATOR = "."


@dataclass(frozen=True)
class LabelTree:
    """The parent of each label. Labels without a parent are children of a common root.

    Raises:
        TrainingDataError: if a label is its own ancestor. The message names the cycle.
    """

    parents: Mapping[str, str]

    def __post_init__(self) -> None:
        checked: set[str] = set()
        for start in self.parents:
            path: dict[str, None] = {}
            label = start
            while label in self.parents and label not in checked:
                if label in path:
                    cycle = [*list(path)[list(path).index(label) :], label]
                    names = " → ".join(cycle if len(cycle) <= 8 else [*cycle[:7], "…"])
                    raise TrainingDataError(
                        f"hierarchy: {names} is a cycle; every label must lead to a root"
                    )
                path[label] = None
                label = self.parents[label]
            checked.update(path)

    def check_holds(self, classes: Iterable[str]) -> None:
        """Check that every class is a label of the tree.

        Raises:
            TrainingDataError: if one is not. The message names the first.
        """
        known = {*self.parents, *self.parents.values()}
        unknown = [label for label in classes if label not in known]
        if unknown:
            found = f"{unknown[0]!r:.60} is not in the tree, nor are {len(unknown) - 1:,} others"
            raise TrainingDataError(f"hierarchy: the label {found}; every label must be")

    def path(self, label: str) -> tuple[str, ...]:
        """Return the labels from the topmost ancestor down to `label` itself."""
        path = [label]
        while path[-1] in self.parents:
            path.append(self.parents[path[-1]])
        return tuple(reversed(path))

    def similarities(self, classes: Sequence[str]) -> Table:
        """Return the share of levels that two classes have in common, 1 for the same class.

        It is the depth of their nearest common ancestor divided by the greatest depth of a class;
        children of the root have depth 1. In 20 Newsgroups, whose deepest name has 5 parts, the
        similarity of ``rec.sport.hockey`` is 2/5 with ``rec.sport.baseball``, 1/5 with
        ``rec.autos`` and 0 with ``sci.crypt``. Only the common part counts, so a more detailed name
        does not make a class less similar to others.

        Levels that all classes have in common do not count.
        """
        paths = [self.path(label) for label in classes]
        n_common = _common_length([min(paths), max(paths)]) if len(set(paths)) > 1 else 0
        depths = np.array(
            [[_common_length([a, b]) for b in paths] for a in paths], dtype=np.float32
        )
        deepest = max(len(path) for path in paths)
        table: Table = (depths - n_common) / np.float32(max(1, deepest - n_common))
        np.fill_diagonal(table, 1.0)
        return table


def dotted_tree(labels: Iterable[str]) -> LabelTree:
    """Return the tree of dotted names: ``rec.sport.hockey`` below ``rec.sport`` below ``rec``."""
    parents: dict[str, str] = {}
    for label in labels:
        parts = label.split(SEPARATOR)
        for depth in range(1, len(parts)):
            parents[SEPARATOR.join(parts[: depth + 1])] = SEPARATOR.join(parts[:depth])
    return LabelTree(parents)


def read_tree(path: Path) -> LabelTree:
    """Read a file of lines ``parent child``, separated by a tab or, without one, by spaces.

    Empty lines are skipped; `.gz` and `.xz` files are decompressed.

    Raises:
        TrainingDataError: if a line is not two labels or gives a child a second parent (the message
            names the line), if there is a cycle or no line, or if the file cannot be read.
    """
    parents: dict[str, str] = {}
    try:
        with open_bytes(path) as stream:
            lines = stream.read().decode("utf-8").splitlines()
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise TrainingDataError(f"hierarchy: {path}: cannot be read: {error}") from None
    for number, line in enumerate(lines, start=1):
        parts = [part.strip() for part in (line.split("\t") if "\t" in line else line.split())]
        if not parts or parts == [""]:
            continue
        location = f"hierarchy: {path}:{number}"
        if len(parts) != 2 or not all(parts):
            raise TrainingDataError(f"{location}: is {line!r:.60}; it must be a parent and a child")
        parent, child = parts
        if parents.setdefault(child, parent) != parent:
            found = f"{child!r} has the parents {parents[child]!r} and {parent!r}"
            raise TrainingDataError(f"{location}: {found}; in a tree it has one")
    if not parents:
        raise TrainingDataError(f"hierarchy: {path}: is empty; it must hold a parent and a child")
    return LabelTree(parents)


def _common_length(paths: Sequence[tuple[str, ...]]) -> int:
    """Return the length of the longest common prefix of two paths."""
    length = 0
    for first, second in zip(*paths, strict=False):
        if first != second:
            break
        length += 1
    return length


# ----------------------------------------------------------------------------
# Generative similarity: how likely it is that two examples have one source rather than two.
#
# Source: Marjieh, Kumar, Campbell et al., "Learning Human-Aligned Representations with Contrastive
# Learning and Generative Similarity" (2024). A source θ is drawn from a prior p(θ), and an example
# from p(x | θ). The similarity of two examples is
#
#     s_gen(x, y) = p(x, y | same) / p(x, y | different)
#                 = ∫ p(x | θ) p(y | θ) p(θ) dθ / (p(x) p(y)),    p(x) = ∫ p(x | θ) p(θ) dθ.
#
# "Different" means drawn independently, so the two sources may happen to be equal. s_gen is 0 or
# more. It is 1 if one example says nothing about the other. Its logarithm is −∞ if the two cannot
# have the same source.
#
# A model here computes ln s_gen in closed form, and samples triplets (x, y, z) with x and y from
# one source and z from another. :mod:`hummingbit.training.similarities` and
# :mod:`hummingbit.training.similarities` have further models.


Numbers = npt.NDArray[np.float64]
Examples = npt.NDArray[Any]
"""Examples of a model: ``float64[..., D]`` points, ``uint8[..., F]`` features, or ``int64[...]``
numbers of categories, labels or programs, counted from 0."""


class Triplets(NamedTuple):
    """M triplets: `anchor` and `same` have one source, and `different` has a source of its own."""

    anchor: Examples
    same: Examples
    different: Examples


class GenerativeModel(Protocol):
    """A model of how examples are generated."""

    def log_similarity(self, first: Examples, second: Examples) -> Numbers:
        """Return ln s_gen of corresponding examples; leading axes broadcast."""

    def sample_triplets(self, count: int, rng: np.random.Generator) -> Triplets:
        """Draw `count` triplets, one for each row."""


class GaussianMixture:
    """Points around one of K means, with the same variance in all directions: x ~ N(μ_θ, σ² I).

    With r_k(x) = p(k | x) ∝ p_k exp(−‖x − μ_k‖² / 2σ²), Bayes' rule gives the closed form

        s_gen(x, y) = Σ_k r_k(x) r_k(y) / p_k                                     (the paper's H2).

    For two means of equal weight it is 1 + tanh(a(x)/2) tanh(a(y)/2), where a is the log odds of
    the first mean. It ranges from 0, certainly different, to 2, certainly the same.

    Args:
        means: ``[K, D]``.
        deviation: σ of all means.
        weights: p_k, ``[K]``, scaled to sum 1; equal by default.

    Raises:
        ValueError: unless there are two or more means, all finite, σ > 0, and each mean has a
            positive weight.
    """

    def __init__(
        self, means: Any, deviation: float = 1.0, weights: Sequence[float] | None = None
    ) -> None:
        self.means_KD: Numbers = np.asarray(means, dtype=np.float64)
        if (
            self.means_KD.ndim != 2
            or len(self.means_KD) < 2
            or not np.isfinite(self.means_KD).all()
        ):
            shape = list(self.means_KD.shape)
            raise ValueError(
                f"means: shape is {shape}; it must be [K, D], K ≥ 2, of finite numbers"
            )
        if not 0 < deviation < np.inf:
            raise ValueError(f"deviation is {deviation:g}; it must be above 0 and finite")
        self.deviation = deviation
        self.prior_K = _prior("weights", weights, len(self.means_KD))

    def log_similarity(self, first: Examples, second: Examples) -> Numbers:
        """See :class:`GenerativeModel`; examples are ``[..., D]``."""
        joint = self.log_responsibilities(first) + self.log_responsibilities(second)
        return _floats(logsumexp(joint - np.log(self.prior_K), axis=-1))

    def log_responsibilities(self, x: Examples) -> Numbers:
        """Return ln p(k | x) of points ``[..., D]``, ``float64[..., K]``."""
        squares = np.square(np.asarray(x)[..., None, :] - self.means_KD).sum(axis=-1)
        joint = np.log(self.prior_K) - squares / (2 * self.deviation**2)
        return _floats(joint - logsumexp(joint, axis=-1, keepdims=True))

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Numbers, npt.NDArray[np.int64]]:
        """Draw points, ``float64[count, D]``, and return the number of the mean of each too."""
        source = rng.choice(len(self.prior_K), size=count, p=self.prior_K)
        return self._around(source, rng), source

    def sample_triplets(self, count: int, rng: np.random.Generator) -> Triplets:
        """See :class:`GenerativeModel`; examples are ``float64[count, D]``."""
        first, second = rng.choice(len(self.prior_K), size=(2, count), p=self.prior_K)
        return Triplets(*(self._around(source, rng) for source in (first, first, second)))

    def _around(self, source: npt.NDArray[np.int64], rng: np.random.Generator) -> Numbers:
        shape = (len(source), self.means_KD.shape[1])
        return self.means_KD[source] + self.deviation * rng.standard_normal(shape)


class BetaBernoulli:
    """F binary features, each with a probability that depends on the source: θ_f ~ Beta(α, β).

    With n = f(x) + f(y), E[θ^n (1 − θ)^(2 − n)] / (E[θ]^n E[1 − θ]^(2 − n)) is, for one feature,

        both have it     (α + 1) (α + β) / (α (α + β + 1))
        neither has it   (β + 1) (α + β) / (β (α + β + 1))
        one of them      (α + β) / (α + β + 1)                                    (the paper's I3)

    and ln s_gen is the sum of the logarithms. With α = β it is a constant − ln(1 + 1/α) Σ (f(x) −
    f(y))². With any ratio α / β, as both tend to 0, it approaches that form with the factor
    |ln(α + β)|: in the limit, up to scale, it is minus the squared distance of the features.

    Raises:
        ValueError: unless there is a feature, and α and β are above 0 and finite.
    """

    def __init__(self, features: int, alpha: float = 1.0, beta: float = 1.0) -> None:
        if features < 1:
            raise ValueError(f"features is {features}; it must be at least 1")
        for name, value in (("alpha", alpha), ("beta", beta)):
            if not 0 < value < np.inf:
                raise ValueError(f"{name} is {value:g}; it must be above 0 and finite")
        self.features, self.alpha, self.beta = features, alpha, beta
        total = alpha + beta
        apart = np.log(total) - np.log1p(total)
        # By the number of the two that have the feature.
        self._log_3 = apart + np.array([np.log1p(1 / beta), 0.0, np.log1p(1 / alpha)])

    def log_similarity(self, first: Examples, second: Examples) -> Numbers:
        """See :class:`GenerativeModel`; examples are 0/1, ``[..., F]``.

        Raises:
            ValueError: if the last axis does not have length F, or a value is not 0 or 1.
        """
        counts = self._check(first) + self._check(second)
        return _floats(self._log_3[counts].sum(axis=-1))

    def sample_triplets(self, count: int, rng: np.random.Generator) -> Triplets:
        """See :class:`GenerativeModel`; examples are ``uint8[count, F]``."""
        first, second = rng.beta(self.alpha, self.beta, size=(2, count, self.features))
        draws = (rng.random((count, self.features)) < theta for theta in (first, first, second))
        return Triplets(*(draw.astype(np.uint8) for draw in draws))

    def _check(self, examples: Examples) -> npt.NDArray[np.int64]:
        values = np.asarray(examples)
        if values.shape[-1:] != (self.features,) or not np.isin(values, (0, 1)).all():
            expected = f"[..., {self.features}] of 0 and 1"
            raise ValueError(f"features: have shape {list(values.shape)}; they must be {expected}")
        return values.astype(np.int64)


def _prior(name: str, weights: Sequence[float] | Numbers | None, count: int) -> Numbers:
    prior = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64)
    if prior.shape != (count,) or count < 2 or not ((prior > 0) & np.isfinite(prior)).all():
        found = np.array2string(prior, threshold=8)
        raise ValueError(f"{name}: are {found}; they must be {max(2, count)} numbers above 0")
    return _floats(prior / prior.sum())


def check_numbers(examples: Examples, count: int) -> npt.NDArray[np.int64]:
    """Check examples that are numbers of categories, of which there are `count`, and return them.

    Raises:
        ValueError: unless they are integers from 0 to `count` − 1.
    """
    numbers = np.asarray(examples)
    is_integer = np.issubdtype(numbers.dtype, np.integer)
    if not is_integer or not ((numbers >= 0) & (numbers < count)).all():
        raise ValueError(f"examples: must be whole numbers from 0 to {count - 1}")
    return numbers.astype(np.int64)


def _floats(values: Any) -> Numbers:
    return np.asarray(values, dtype=np.float64)


# ----------------------------------------------------------------------------
# The similarity of programs, by the parts that their parse trees have in common.
#
# Source: Moschitti, "Making Tree Kernels Practical for Natural Language Learning" (2006), after
# Vishwanathan and Smola (2002) for the subtree kernel.


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


# ----------------------------------------------------------------------------
# The generative similarity of labels in a tree (equation 4).


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
        n_common = _common_length_of_all(padded)
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


def _common_length_of_all(paths: Sequence[tuple[str, ...]]) -> int:
    """Return the length of the longest common prefix of all paths."""
    first, last = min(paths), max(paths)
    count = 0
    while count < min(len(first), len(last)) and first[count] == last[count]:
        count += 1
    return count


# ----------------------------------------------------------------------------
# Similarities of pairs of documents, from their labels or from a file.


Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Pairs:
    """M pairs among N documents, with their similarities.

    `first` and `second`, int64[M], are the positions of the documents, and `similarity` is
    float32[M], from 0 to 1.
    """

    first: Rows
    second: Rows
    similarity: Floats

    @property
    def spread(self) -> float:
        """The greatest similarity minus the least; 0 if all are equal or there are no pairs."""
        return float(np.ptp(self.similarity)) if len(self.similarity) else 0.0


class PairSource(Protocol):
    """The source of batches: items to draw, each a document or a pair of documents."""

    def __len__(self) -> int:
        """Return the number of items."""

    def batch(self, items: Rows) -> tuple[Rows, Pairs]:
        """Return the documents of a batch, int64[N] rows of the corpus, and the pairs among them.

        `items` are distinct numbers, from 0 to the number of items − 1.
        """


class LabelledPairs:
    """Items are labelled documents; the pairs of a batch are all pairs of its documents.

    `classes_CC` has the similarities of classes, ``float32[C, C]``. For documents with several
    classes, the most similar classes count.

    Raises:
        TrainingDataError: if fewer than two classes occur.
    """

    def __init__(self, tags: Tags, classes_CC: Table) -> None:
        self._rows: Rows = np.flatnonzero(tags.any(axis=1))
        self._tags = tags[self._rows]
        self._table = classes_CC
        n_classes = int(self._tags.any(axis=0).sum())
        if n_classes < 2:
            raise TrainingDataError(
                f"label: the labelled documents have {n_classes} of the classes; pairs of one class"
                " are all equally similar, so at least two classes are needed"
            )

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, items: Rows) -> tuple[Rows, Pairs]:
        """See :class:`PairSource`."""
        tags = self._tags[items]
        first, second = np.triu_indices(len(items), k=1)
        if (tags.sum(axis=1) == 1).all():
            classes = tags.argmax(axis=1)
            similarity = self._table[classes[first], classes[second]]
        else:
            # The maximum over the classes of each document, then over the classes of the other.
            nearest_NC = np.stack([self._table[row].max(axis=0) for row in tags])
            nearest_NN = np.stack([np.where(tags, row, 0).max(axis=1) for row in nearest_NC])
            similarity = nearest_NN[first, second]
        return self._rows[items], Pairs(first, second, similarity)


class ListedPairs:
    """Items are pairs of documents; the pairs of a batch are its items.

    Raises:
        TrainingDataError: if all pairs are equally similar.
    """

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        if pairs.spread == 0:
            raise TrainingDataError(
                f"similarity: all {len(pairs.similarity):,} pairs are equally similar; there must"
                " be at least two degrees of similarity"
            )

    def __len__(self) -> int:
        return len(self._pairs.similarity)

    def batch(self, items: Rows) -> tuple[Rows, Pairs]:
        """See :class:`PairSource`."""
        documents = np.concatenate([self._pairs.first[items], self._pairs.second[items]])
        rows, positions = np.unique(documents, return_inverse=True)
        first, second = np.split(positions.astype(np.int64), 2)
        return rows, Pairs(first, second, self._pairs.similarity[items])


def equal_classes(classes: Sequence[str]) -> Table:
    """Return 1 for the same class and 0 for any other, ``float32[C, C]``."""
    return np.eye(len(classes), dtype=np.float32)


def graded_classes(classes: Sequence[str]) -> Table:
    """Return 1 − |g − g'| / (greatest − least grade) of classes that are numbers.

    Raises:
        TrainingDataError: if a class is not a finite number, or all classes are the same number.
    """
    grades = np.array([_grade(name) for name in classes])
    spread = float(np.ptp(grades)) if len(grades) else 0.0
    if spread == 0:
        raise TrainingDataError("label: all grades are the same; there must be at least two")
    table: Table = (1 - np.abs(grades[:, None] - grades) / spread).astype(np.float32)
    return table


def read_pairs(path: Path, ids: Sequence[str]) -> Pairs:
    """Read JSON lines ``{"a": ID, "b": ID, "similarity": 0 to 1}``; positions are those in `ids`.

    Raises:
        TrainingDataError: if a line is not such an object, an id is not one of `ids`, both are the
            same, or the similarity is not a number from 0 to 1 (the message names the line); or if
            the file cannot be read or is empty.
    """
    positions = {id_: position for position, id_ in enumerate(ids)}
    pairs: list[tuple[int, int, float]] = []
    try:
        with open_bytes(path) as stream:
            for row in read_json_lines(stream, str(path)):
                location = f"pairs: {path}:{row.line}"
                if row.reason is not None:
                    raise TrainingDataError(f"{location}: {row.reason}")
                pairs.append(_parse_pair(row.record, positions, location))
    except (OSError, ReadError) as error:
        raise TrainingDataError(f"pairs: {path}: cannot be read: {error}") from None
    if not pairs:
        raise TrainingDataError(f"pairs: {path}: is empty; it must hold at least two pairs")
    first, second, similarity = zip(*pairs, strict=True)
    return Pairs(
        np.array(first, dtype=np.int64),
        np.array(second, dtype=np.int64),
        np.array(similarity, dtype=np.float32),
    )


def _parse_pair(record: Any, positions: dict[str, int], location: str) -> tuple[int, int, float]:
    if not isinstance(record, dict) or set(record) != {"a", "b", "similarity"}:
        raise TrainingDataError(f"{location}: must be an object with fields a, b and similarity")
    for field in ("a", "b"):
        if not isinstance(record[field], str) or record[field] not in positions:
            message = f"{field} is {record[field]!r:.60}; it must be the id of a document"
            raise TrainingDataError(f"{location}: {message}")
    if record["a"] == record["b"]:
        message = f"a and b are both {record['a']!r:.60}; they must differ"
        raise TrainingDataError(f"{location}: {message}")
    similarity = record["similarity"]
    is_number = isinstance(similarity, int | float) and not isinstance(similarity, bool)
    if not is_number or not 0 <= similarity <= 1:
        message = f"similarity is {similarity!r:.60}; it must be a number from 0 to 1"
        raise TrainingDataError(f"{location}: {message}")
    return positions[record["a"]], positions[record["b"]], float(similarity)


def _grade(name: str) -> float:
    try:
        grade = float(name)
    except ValueError:
        grade = math.nan
    if not math.isfinite(grade):
        raise TrainingDataError(
            f"label: {name!r:.60} is not a number; graded labels must be numbers"
        )
    return grade
