"""One cell of the leaderboard: a method learns from a data set, and its codes are measured.

Every training document is learned from and makes the database; the test documents are the queries.
A cell of unseen classes learns from the documents that have none of them, and asks for them.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from evaluation.relevance import LabelSet
from evaluation.retrieval import evaluate_codes
from experiments.cells import read_split
from experiments.code_version import version_of
from experiments.leaderboard.contract import Task
from experiments.leaderboard.methods import METHODS
from experiments.result_tables import Record
from foundation.files import replace_file
from training.data import Rows, TrainingData

METRICS = ("P@100", "mAP@100")


@dataclass(frozen=True)
class Cell:
    """What is learned, from what, and whether the classes that are asked for were seen."""

    dataset: str
    method: str
    n_bits: int
    seed: int
    supervision: float
    unseen: bool = False
    queries: int | None = None
    """So many test documents, drawn at random; all of them by default."""

    @property
    def name(self) -> str:
        """A name for the cell's file."""
        kind = "unseen" if self.unseen else "all"
        some = "" if self.queries is None else f"-{self.queries}"
        labels = f"-{self.supervision:g}" if METHODS[self.method].reads_labels else ""
        return f"{self.dataset}-{self.method}{labels}-{self.n_bits}-{self.seed}-{kind}{some}"


def kept_record(cell: Cell, work_dir: Path) -> Record | None:
    """Return the record of a cell that was computed before by the same code."""
    path = work_dir / f"{cell.name}.json"
    if not path.exists():
        return None
    record: Record = json.loads(path.read_text())
    return record if record.get("code") == _version(cell) else None


def compute(
    cell: Cell, work_dir: Path, data_root: Path | None, vectors: Path | None = None
) -> Record:
    """Compute a cell and keep its record.

    `vectors` is the file of the data set's sentence vectors, for a method that takes them.
    """
    documents, queries = read_split(cell.dataset, data_root, vectors)
    if cell.queries is not None and cell.queries < len(queries):
        drawn = np.random.default_rng(0).choice(len(queries), cell.queries, replace=False)
        queries = rows_of(queries, np.sort(drawn))
    record = {**asdict(cell), **measure(cell, documents, queries), "code": _version(cell)}
    work_dir.mkdir(parents=True, exist_ok=True)
    replace_file(work_dir / f"{cell.name}.json", json.dumps(record, indent=1) + "\n")
    return record


def measure(cell: Cell, documents: TrainingData, queries: TrainingData) -> Record:
    """Return the figures of a cell: as served, tie-averaged, distinct codes and CPU seconds.

    The seconds are those of all processors while the method learns; codes are not counted.
    """
    asked_for = unseen_classes(documents.classes) if cell.unseen else documents.classes
    known = documents
    if cell.unseen:
        seen = ~documents.tags[:, np.isin(documents.classes, asked_for)].any(axis=1)
        known = rows_of(documents, np.flatnonzero(seen))
    query_labels = [only(labels, asked_for) for labels in queries.labelled().labels]
    asking = np.flatnonzero([bool(labels) for labels in query_labels])
    queries = rows_of(queries, asking)
    began = time.process_time()
    task = Task(cell.dataset, known, cell.n_bits, cell.seed, cell.supervision)
    encode = METHODS[cell.method].load()(task)
    seconds = time.process_time() - began
    found = evaluate_codes(
        encode(queries.inputs),
        [query_labels[row] for row in asking],
        encode(documents.inputs),
        documents.labelled().labels,
        METRICS,
    )
    return {
        "p100": found.metrics["P@100"],
        "p100_expected": found.expected["P@100"],
        "map100_expected": found.expected["mAP@100"],
        "distinct_codes": found.distinct_codes,
        "cpu_seconds": seconds,
        "asked": len(queries),
    }


def unseen_classes(classes: tuple[str, ...]) -> tuple[str, ...]:
    """Return every second class in alphabetical order, the first one left."""
    return tuple(sorted(classes)[1::2])


def only(labels: LabelSet, classes: tuple[str, ...]) -> LabelSet:
    """Return those of the labels that are among `classes`."""
    return tuple(label for label in labels if label in classes)


def rows_of(data: TrainingData, rows: Rows) -> TrainingData:
    """Return the documents of `rows`, with the classes that they have."""
    ids = tuple(data.ids[row] for row in rows.tolist())
    present = np.flatnonzero(data.tags[rows].any(axis=0))
    classes = tuple(data.classes[column] for column in present)
    tags = data.tags[np.ix_(rows, present)]
    return replace(data, ids=ids, inputs=data.take(rows), classes=classes, tags=tags)


def _version(cell: Cell) -> str:
    """Return the version of the code that computes the cell: its method, and this module."""
    return version_of(METHODS[cell.method].module, __name__)
