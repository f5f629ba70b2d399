"""The similarity of documents that programs generated, by the parts that their programs share.

Source: Marjieh, Kumar, Campbell et al., "Learning Human-Aligned Representations with Contrastive
Learning and Generative Similarity" (2024), section 3.2: programs are samples of a grammar, and two
of them are as similar as the kernel of their parse trees says, which counts the pairs of equal
subtrees. The kernel is that of Vishwanathan and Smola, "Fast Kernels for String and Tree Matching"
(2002), as in Moschitti, "Making Tree Kernels Practical for Natural Language Learning" (2006). A
subtree is a node with all its descendants; a leaf is one, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from hummingbit.corpus.json_rows import read_json_lines
from hummingbit.corpus.lines import ReadError, open_bytes
from hummingbit.training.data import Rows, TrainingDataError
from hummingbit.training.similarities import DocumentPairs, Floats

MAX_DEPTH = 200
"""The most levels of a program in a file."""
_FORM = '["line", "p1", ["p2", "l1"]]'


class ParseTree(NamedTuple):
    """A node of a parse tree: its label, and its children in order."""

    label: str
    children: tuple[ParseTree, ...] = ()


def subtree_counts(programs: Sequence[ParseTree]) -> Any:
    """Return how often each subtree occurs in each program, a sparse ``float64[N, T]``.

    The product of two rows is the kernel of two programs, the number of pairs of equal subtrees.
    """
    numbers: dict[tuple[str, ...], int] = {}

    def count(tree: ParseTree, counts: Counter[int]) -> int:
        """Return the number of a tree; equal trees have the same."""
        children = (str(count(child, counts)) for child in tree.children)
        number = numbers.setdefault((tree.label, *children), len(numbers))
        counts[number] += 1
        return number

    rows: list[Counter[int]] = []
    for program in programs:
        rows.append(Counter())
        count(program, rows[-1])
    starts = np.cumsum([0, *map(len, rows)])
    columns = [column for row in rows for column in row]
    values = [float(value) for row in rows for value in row.values()]
    return sp.csr_array((values, columns, starts), shape=(len(rows), len(numbers)))


def program_pairs(rows: Rows, programs: Sequence[ParseTree]) -> DocumentPairs:
    """Return pairs of documents with the similarity k(i, j) / √(k(i, i) k(j, j)), from 0 to 1.

    k is the kernel of their programs. `programs` holds that of each document of the corpus. With
    p(i, j | same) in proportion to this similarity and p(i, j | different) constant, it is s_gen
    divided by its maximum, which is that of a program with itself.

    Raises:
        TrainingDataError: if all programs of `rows` are the same.
    """
    if len({programs[row] for row in rows}) < 2:
        raise TrainingDataError(
            "programs: all documents have the same program; there must be at least two"
        )
    counts = subtree_counts(programs)
    length_N = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)).ravel())

    def similarity(first: Rows, second: Rows) -> Floats:
        kernel_M = np.asarray(counts[first].multiply(counts[second]).sum(axis=1)).ravel()
        # Rounding may exceed 1 in the last digit.
        kernel_M = np.minimum(kernel_M / length_N[first] / length_N[second], 1)
        return np.asarray(kernel_M, dtype=np.float32)

    return DocumentPairs(rows, similarity)


def read_programs(path: Path, ids: Sequence[str]) -> list[ParseTree]:
    """Read JSON lines ``{"id": ID, "program": TREE}`` and return the program of each of `ids`.

    A tree is a label or an array of a label and trees: ``["line", "p1", ["p2", "l1"]]``. Programs
    of other ids are left out.

    Raises:
        TrainingDataError: if a line is not such an object or repeats an id (the message names the
            line), a document has no program, or the file cannot be read.
    """
    programs: dict[str, ParseTree] = {}
    try:
        with open_bytes(path) as stream:
            for row in read_json_lines(stream, str(path)):
                location = f"similarity_file: {path}:{row.line}"
                if row.reason is not None:
                    raise TrainingDataError(f"{location}: {row.reason}")
                id_, program = _parse_line(row.record, location)
                if id_ in programs:
                    raise TrainingDataError(f"{location}: the id {id_!r:.60} has a program already")
                programs[id_] = program
    except (OSError, ReadError) as error:
        raise TrainingDataError(f"similarity_file: {path}: cannot be read: {error}") from None
    missing = [id_ for id_ in ids if id_ not in programs]
    if missing:
        found = f"the document {missing[0]!r:.60} has none, nor have {len(missing) - 1:,} others"
        raise TrainingDataError(
            f"similarity_file: {path}: {found}; every document must have a program"
        )
    return [programs[id_] for id_ in ids]


def _parse_line(record: Any, location: str) -> tuple[str, ParseTree]:
    if not isinstance(record, dict) or set(record) != {"id", "program"}:
        raise TrainingDataError(f"{location}: must be an object with fields id and program")
    if not isinstance(record["id"], str):
        raise TrainingDataError(f"{location}: id is {record['id']!r:.60}; it must be a string")
    return record["id"], _parse_tree(record["program"], location, MAX_DEPTH)


def _parse_tree(node: Any, location: str, levels: int) -> ParseTree:
    if levels == 0:
        raise TrainingDataError(f"{location}: program has more than {MAX_DEPTH} levels")
    if isinstance(node, str):
        return ParseTree(node)
    if not isinstance(node, list) or not node or not isinstance(node[0], str):
        found = f"program has {node!r:.60}"
        raise TrainingDataError(
            f"{location}: {found}; a tree must be a label or an array of a label and trees, such as"
            f" {_FORM}"
        )
    return ParseTree(node[0], tuple(_parse_tree(child, location, levels - 1) for child in node[1:]))
