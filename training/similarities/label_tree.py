"""A tree of labels, from dotted names or a parent–child file, and the similarities of labels."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from corpus.detection.compressions import open_bytes
from training.data import TrainingDataError

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
