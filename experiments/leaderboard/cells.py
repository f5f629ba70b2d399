"""One cell of the leaderboard: computed once, and again if what it comes from changes."""

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
from foundation.files import replace_file
from training.data import TrainingData


@dataclass(frozen=True)
class Cell:
    """What is learned, from what, and whether the classes that are asked for were seen."""

    dataset: str
    method: str
    n_bits: int
    seed: int
    supervision: float
    unseen: bool = False
    documents: int | None = None
    """So many training documents, drawn at random; all of them by default."""
    queries: int | None = None
    """So many test documents, as well."""

    @property
    def name(self) -> str:
        """A name for the cell's file."""
        kind = "unseen" if self.unseen else "all"
        counts = (("documents", self.documents), ("queries", self.queries))
        some = "".join(f"-{count}-{name}" for name, count in counts if count is not None)
        labels = f"-{self.supervision:g}" if METHODS[self.method].reads_labels else ""
        return f"{self.dataset}-{self.method}{labels}-{self.n_bits}-{self.seed}-{kind}{some}"


def kept_record(
    cell: Cell, work_dir: Path, data_root: Path | None, vectors: Path | None = None
) -> Record | None:
    """Return the record of a cell that the same code computed before, from the same documents."""
    path = work_dir / f"{cell.name}.json"
    if not path.exists():
        return None
    record: Record = json.loads(path.read_text())
    made_by = _made_by(cell, *read_split(cell.dataset, data_root, vectors))
    return record if made_by.items() <= record.items() else None


def compute(
    cell: Cell, work_dir: Path, data_root: Path | None, vectors: Path | None = None
) -> Record:
    """Compute a cell and keep its record.

    `vectors` is the file of the data set's sentence vectors, for a method that takes them.
    """
    everything = read_split(cell.dataset, data_root, vectors)
    documents, queries = map(draw, everything, (cell.documents, cell.queries))
    task = Task(cell.dataset, documents, cell.n_bits, cell.seed, cell.supervision)
    figures = measure(METHODS[cell.method].load(), task, queries, unseen=cell.unseen)
    record = {**asdict(cell), **figures, **_made_by(cell, *everything)}
    work_dir.mkdir(parents=True, exist_ok=True)
    replace_file(work_dir / f"{cell.name}.json", json.dumps(record, indent=1) + "\n")
    return record


def draw(data: TrainingData, count: int | None) -> TrainingData:
    """Return so many of the documents, the same ones each time and in the order they had."""
    if count is None or count >= len(data):
        return data
    drawn = np.random.default_rng(0).choice(len(data), count, replace=False)
    return rows_of(data, np.sort(drawn))


def _made_by(cell: Cell, documents: TrainingData, queries: TrainingData) -> Record:
    """Return the version of the code of the method and of what measures it, and of the data."""
    code = version_of(METHODS[cell.method].module, measuring.__name__, splits.__name__)
    return {"code": code, "data": [documents.sha256, queries.sha256]}
