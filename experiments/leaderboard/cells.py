"""One cell of the leaderboard: computed once, and again if the code that it comes from changes."""

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
    documents, queries = draw(documents, cell.documents), draw(queries, cell.queries)
    task = Task(cell.dataset, documents, cell.n_bits, cell.seed, cell.supervision)
    figures = measure(METHODS[cell.method].load(), task, queries, unseen=cell.unseen)
    record = {**asdict(cell), **figures, "code": _version(cell)}
    work_dir.mkdir(parents=True, exist_ok=True)
    replace_file(work_dir / f"{cell.name}.json", json.dumps(record, indent=1) + "\n")
    return record


def draw(data: TrainingData, count: int | None) -> TrainingData:
    """Return so many of the documents, the same ones each time and in the order they had."""
    if count is None or count >= len(data):
        return data
    drawn = np.random.default_rng(0).choice(len(data), count, replace=False)
    return rows_of(data, np.sort(drawn))


def _version(cell: Cell) -> str:
    """Return the version of the code of the method and of what measures it."""
    return version_of(METHODS[cell.method].module, measuring.__name__, splits.__name__)
