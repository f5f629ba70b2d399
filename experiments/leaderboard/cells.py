"""One cell of the leaderboard: computed once, and again if its code or documents change."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from experiments import splits
from experiments.code_version import version_of
from experiments.leaderboard import measuring
from experiments.leaderboard.contract import Task
from experiments.leaderboard.measuring import measure, rows_of
from experiments.leaderboard.methods import METHODS
from experiments.result_tables import Record
from experiments.splits import read_split
from hummingbit.foundation.files import replace_file
from hummingbit.training.data import TrainingData


@dataclass(frozen=True)
class Cell:
    """A method, its documents and settings, and whether the queries' classes are unseen."""

    dataset: str
    method: str
    n_bits: int
    seed: int
    supervision: float
    unseen: bool = False
    documents: int | None = None
    """The number of training documents, drawn at random; None means all."""
    queries: int | None = None
    """The number of test documents, likewise."""

    @property
    def name(self) -> str:
        """The name of the cell's file."""
        kind = "unseen" if self.unseen else "all"
        counts = (("documents", self.documents), ("queries", self.queries))
        counted = "".join(f"-{count}-{name}" for name, count in counts if count is not None)
        labels = f"-{self.supervision:g}" if METHODS[self.method].reads_labels else ""
        return f"{self.dataset}-{self.method}{labels}-{self.n_bits}-{self.seed}-{kind}{counted}"


def saved_record(
    cell: Cell, work_dir: Path, data_root: Path | None, vectors: Path | None = None
) -> Record | None:
    """Return the saved record of a cell, None unless it is of the same code and documents."""
    path = work_dir / f"{cell.name}.json"
    if not path.exists():
        return None
    record: Record = json.loads(path.read_text())
    version = _version(cell, *read_split(cell.dataset, data_root, vectors))
    return record if version.items() <= record.items() else None


def compute(
    cell: Cell, work_dir: Path, data_root: Path | None, vectors: Path | None = None
) -> Record:
    """Compute a cell, save its record and return it.

    `vectors` is the file of the data set's sentence vectors, for a method that takes them.
    """
    splits_of_dataset = read_split(cell.dataset, data_root, vectors)
    documents, queries = map(draw, splits_of_dataset, (cell.documents, cell.queries))
    task = Task(cell.dataset, documents, cell.n_bits, cell.seed, cell.supervision)
    figures = measure(METHODS[cell.method].load(), task, queries, unseen=cell.unseen)
    record = {**asdict(cell), **figures, **_version(cell, *splits_of_dataset)}
    work_dir.mkdir(parents=True, exist_ok=True)
    replace_file(work_dir / f"{cell.name}.json", json.dumps(record, indent=1) + "\n")
    return record


def draw(data: TrainingData, count: int | None) -> TrainingData:
    """Return `count` of the documents in their order, the same ones each time; all if None."""
    if count is None or count >= len(data):
        return data
    rows = np.random.default_rng(0).choice(len(data), count, replace=False)
    return rows_of(data, np.sort(rows))


def _version(cell: Cell, documents: TrainingData, queries: TrainingData) -> Record:
    """Return the versions of the data and of the code that trains and measures the method."""
    code = version_of(METHODS[cell.method].module, measuring.__name__, splits.__name__)
    return {"code": code, "data": [documents.sha256, queries.sha256]}
