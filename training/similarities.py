"""Similarities of pairs of documents: from labels, their hierarchy, or a model of their sources."""

from __future__ import annotations

import lzma
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.json_rows import read_json_lines
from hummingbit.corpus.lines import ReadError, open_bytes
from hummingbit.foundation.errors import counted
from hummingbit.training.data import Rows, Tags, TrainingDataError
from hummingbit.training.generative_models import GenerativeModel

# A tree of labels, from dotted names or a parent–child file


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
                        f"similarity_file: {names} is a cycle; every label must lead to a root"
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
            others = counted(len(unknown) - 1, "other")
            found = f"{unknown[0]!r:.60} is not in the tree, nor are {others}"
            raise TrainingDataError(f"similarity_file: the label {found}; every label must be")

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
        n_common = _common_length(paths) if len(set(paths)) > 1 else 0
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
        raise TrainingDataError(f"similarity_file: {path}: cannot be read: {error}") from None
    for number, line in enumerate(lines, start=1):
        parts = [part.strip() for part in (line.split("\t") if "\t" in line else line.split())]
        if not parts or parts == [""]:
            continue
        location = f"similarity_file: {path}:{number}"
        if len(parts) != 2 or not all(parts):
            raise TrainingDataError(f"{location}: is {line!r:.60}; it must be a parent and a child")
        parent, child = parts
        if parents.setdefault(child, parent) != parent:
            found = f"{child!r} has the parents {parents[child]!r} and {parent!r}"
            raise TrainingDataError(f"{location}: {found}; in a tree it has one")
    if not parents:
        raise TrainingDataError(
            f"similarity_file: {path}: is empty; it must hold a parent and a child"
        )
    return LabelTree(parents)


def _common_length(paths: Sequence[tuple[str, ...]]) -> int:
    """Return the length of the longest common prefix of all paths."""
    # What the first and the last in order have in common, all others have.
    pairs = zip(min(paths), max(paths), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


# Generative similarity in a tree


Numbers = npt.NDArray[np.float64]


class TreeHierarchy:
    """Labels at the leaves of a tree of K levels, reached by a random walk from the root.

    Generative similarity is how likely it is that two examples have one source rather than two,
    s_gen(x, y) = p(x, y | same) / p(x, y | different). Source: Marjieh, Kumar, Campbell et al.,
    "Learning Human-Aligned Representations with Contrastive Learning and Generative Similarity"
    (2024). Each step of the walk goes to a child, with equal probabilities. A source is a node at
    level k, drawn uniformly from 1 to K, and its examples are the leaves below it. The similarity
    of two leaves whose deepest common node is at level k* is

        s_gen = (1/K) Σ_{k ≤ k*} Π_{l ≤ k} 1/p_l           (the paper's eq. 4, except for its K)

    where p_l is one over the number of children at the step to level l of their path. At a leaf
    above level K, the walk stays there (p_l = 1), and these levels count, too. A label that is the
    ancestor of others counts as one more leaf among its children.

    Args:
        tree: the tree of the labels; the levels that all labels have in common are left out.
        labels: the C leaves, in the order of their numbers.

    Attributes:
        paths: the labels on the way to each leaf, one for each of the K `levels`.
        is_node_CK: which levels of a path are nodes; after them the walk stays at the leaf.
        reach_CK: the probability that a walk reaches the node at each level of a path.

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
        self.paths = [path[n_common:] for path in padded]
        ancestors = {label for path in paths for label in path[:-1]}
        ends_C = [len(path) + (path[-1] in ancestors) - n_common for path in paths]
        self.is_node_CK = np.arange(self.levels) < np.array(ends_C)[:, None]
        children: dict[tuple[str, ...], set[str]] = {}
        for path in self.paths:
            for level in range(self.levels):
                children.setdefault(path[:level], set()).add(path[level])
        steps_CK = [
            [1 / len(children[path[:level]]) for level in range(self.levels)] for path in self.paths
        ]
        self.reach_CK = np.cumprod(np.array(steps_CK, dtype=np.float64), axis=1)

    def table(self) -> Numbers:
        """Return s_gen of all pairs of labels, ``float64[C, C]``."""
        everywhere_CK = np.ones_like(self.is_node_CK)
        return np.asarray(self.sums(everywhere_CK)[0] / self.levels, dtype=np.float64)

    def sums(self, counts_CK: npt.NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        """Return Σ_{k ≤ k*} Π_{l ≤ k} 1/p_l and k* of all pairs of labels, over some levels."""
        number: dict[tuple[str, ...], int] = {}
        node_CK = np.array(
            [
                [number.setdefault(path[: level + 1], len(number)) for level in range(self.levels)]
                for path in self.paths
            ]
        )
        sums_CC, depth_CC = (np.zeros((len(self.labels), len(self.labels))) for _ in range(2))
        levels = zip(node_CK.T, self.reach_CK.T, counts_CK.T, strict=True)
        for node_C, reach_C, counts_C in levels:
            is_common_CC = (node_C[:, None] == node_C) & counts_C
            sums_CC += is_common_CC / reach_C
            depth_CC += is_common_CC
        return sums_CC, depth_CC


# Pairs, from labels or from a file


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


SimilarityFunction = Callable[[list[str], list[str]], Any]
"""Takes the ids of M first and M second documents; returns M similarities from 0 to 1."""


class DocumentPairs:
    """Items are documents; the pairs of a batch are all pairs of its documents.

    `rows` are the documents, and ``similarity(first, second)`` returns ``float32[M]`` for M pairs
    of rows.
    """

    def __init__(self, rows: Rows, similarity: Callable[[Rows, Rows], Floats]) -> None:
        self._rows, self._similarity = rows, similarity

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, items: Rows) -> tuple[Rows, Pairs]:
        """See :class:`PairSource`."""
        rows = self._rows[items]
        first, second = np.triu_indices(len(rows), k=1)
        return rows, Pairs(first, second, self._similarity(rows[first], rows[second]))


def generative_pairs(rows: Rows, model: GenerativeModel, features: Any) -> DocumentPairs:
    """Return pairs of documents whose similarity is s_gen / max s_gen under `model`.

    `features` holds the example of each document of the corpus. As ∫ p(x | θ) p(y | θ) p(θ) dθ is
    an inner product, s_gen(x, y) ≤ max(s_gen(x, x), s_gen(y, y)), so the maximum is that of the
    documents with themselves.
    """
    own = features[rows]
    greatest = float(model.log_similarity(own, own).max())

    def similarity(first: Rows, second: Rows) -> Floats:
        log_M = model.log_similarity(features[first], features[second])
        return np.exp(log_M - greatest).astype(np.float32)

    return DocumentPairs(rows, similarity)


def function_pairs(rows: Rows, ids: Sequence[str], function: SimilarityFunction) -> DocumentPairs:
    """Return pairs of documents whose similarity `function` computes from their ids.

    A batch raises :class:`TrainingDataError` if the function does not return a number from 0 to 1
    for each pair. The message names the pair.
    """

    def similarity(first: Rows, second: Rows) -> Floats:
        a, b = ([ids[row] for row in rows] for rows in (first, second))
        values = np.asarray(function(a, b), dtype=np.float64)
        if values.shape != (len(a),):
            found = f"returned shape {list(values.shape)} for {len(a)} pairs"
            raise TrainingDataError(f"similarity_function: {found}; it must be [{len(a)}]")
        wrong = np.flatnonzero(~((values >= 0) & (values <= 1)))
        if len(wrong):
            pair = f"{a[wrong[0]]!r:.60} and {b[wrong[0]]!r:.60}"
            found = f"returned {values[wrong[0]]:g} for {pair}"
            raise TrainingDataError(f"similarity_function: {found}; it must be from 0 to 1")
        return values.astype(np.float32)

    return DocumentPairs(rows, similarity)


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
                location = f"similarity_file: {path}:{row.line}"
                if row.reason is not None:
                    raise TrainingDataError(f"{location}: {row.reason}")
                pairs.append(_parse_pair(row.record, positions, location))
    except (OSError, ReadError) as error:
        raise TrainingDataError(f"similarity_file: {path}: cannot be read: {error}") from None
    if not pairs:
        raise TrainingDataError(
            f"similarity_file: {path}: is empty; it must hold at least two pairs"
        )
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
