"""One cell of the leaderboard: computed once, and again if its code or documents change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from experiments import splits
from experiments.code_version import version_of
from experiments.judged_queries.judged_corpora import Corpus, read_corpus
from experiments.leaderboard import measuring
from experiments.leaderboard.contract import Task
from experiments.leaderboard.measuring import measure, measure_judged, rows_of
from experiments.leaderboard.methods import METHODS
from experiments.result_tables import Record
from experiments.splits import read_split
from hummingbit.encoder.encoder import Inputs
from hummingbit.foundation.files import replace_file
from hummingbit.training.data import TrainingData
from hummingbit.training.model_codes import read_documents
from hummingbit.training.model_folders import ModelFolder

JUDGED = ("cranfield", "cacm", "medline", "cisi", "nfcorpus")
"""The data sets with judged queries; they have no labels."""


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
        kind = "judged" if self.dataset in JUDGED else "unseen" if self.unseen else "all"
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
    version = _version(cell, data_root, vectors)
    return record if version.items() <= record.items() else None


def compute(
    cell: Cell, work_dir: Path, data_root: Path | None, vectors: Path | None = None
) -> Record:
    """Compute a cell, save its record and return it.

    `vectors` is the file of the data set's sentence vectors, for a method that takes them.
    """
    learn = METHODS[cell.method].load()
    if cell.dataset in JUDGED:
        corpus, documents, queries = _read_judged(cell.dataset, data_root, vectors)
        task = Task(cell.dataset, documents, cell.n_bits, cell.seed, cell.supervision)
        figures = measure_judged(learn, task, queries, corpus.relevance)
    else:
        splits_of_dataset = read_split(cell.dataset, data_root, vectors)
        known, asked = map(draw, splits_of_dataset, (cell.documents, cell.queries))
        task = Task(cell.dataset, known, cell.n_bits, cell.seed, cell.supervision)
        figures = measure(learn, task, asked, unseen=cell.unseen)
    record = {**asdict(cell), **figures, **_version(cell, data_root, vectors)}
    work_dir.mkdir(parents=True, exist_ok=True)
    replace_file(work_dir / f"{cell.name}.json", json.dumps(record, indent=1) + "\n")
    return record


def tune(
    method: str,
    dataset: str,
    settings: Mapping[str, float],
    count: int,
    sources: tuple[Path | None, Path | None],
) -> Record:
    """Return the figures of `settings` on `count` training documents of a data set.

    The queries are 1,000 other training documents. `sources` are the root of the data and the file
    of vectors.
    """
    everything, _ = read_split(dataset, *sources)
    rows = np.random.default_rng(1).permutation(len(everything))[: count + 1000]
    known, asked = (rows_of(everything, np.sort(some)) for some in (rows[:count], rows[count:]))
    task = Task(dataset, known, 32, 100, 0.1)
    return measure(METHODS[method].load(settings), task, asked)


def draw(data: TrainingData, count: int | None) -> TrainingData:
    """Return `count` of the documents in their order, the same ones each time; all if None."""
    if count is None or count >= len(data):
        return data
    rows = np.random.default_rng(0).choice(len(data), count, replace=False)
    return rows_of(data, np.sort(rows))


def save_sentence_vectors(
    folder: ModelFolder, dataset: str, work_dir: Path, data_root: Path | None
) -> Path:
    """Write the vectors of a data set by a model, if they are not there, and return the file.

    It has the documents first, then the test documents or the judged queries.
    """
    path = work_dir / f"{dataset}-{folder.name}.npz"
    if path.exists():
        return path
    work_dir.mkdir(parents=True, exist_ok=True)
    saved = {part: path.with_suffix(f".{part}.vectors") for part in ("documents", "queries")}
    if dataset in JUDGED:
        corpus = read_corpus(dataset, "queries", data_root)
        documents, _ = read_documents(
            folder, corpus.documents, corpus.data.sha256, saved["documents"]
        )
        queries = folder.features.transform_queries(corpus.queries)[0]
        ids = [*corpus.data.ids, *(query.id for query in corpus.query_list)]
    else:
        parts = read_split(dataset, data_root)
        documents, queries = (
            read_documents(folder, [str(text) for text in part.inputs], part.sha256, file)[0]
            for part, file in zip(parts, saved.values(), strict=True)
        )
        ids = [id_ for part in parts for id_ in part.ids]
    with path.open("xb") as file:
        np.savez(file, ids=np.array(ids), vectors=np.concatenate([documents, queries]))
    return path


@cache
def _read_judged(
    dataset: str, data_root: Path | None, vectors: Path | None
) -> tuple[Corpus, TrainingData, Inputs]:
    """Return a corpus, its documents and its queries, as vectors if there is a file of them."""
    corpus = read_corpus(dataset, "queries", data_root)
    if vectors is None:
        return corpus, corpus.data, corpus.queries
    with np.load(vectors, allow_pickle=False) as arrays:
        rows = arrays["vectors"]
    # Ids of documents and of queries may be equal, so that rows count.
    return corpus, replace(corpus.data, inputs=rows[: len(corpus.data)]), rows[len(corpus.data) :]


def _version(cell: Cell, data_root: Path | None, vectors: Path | None) -> Record:
    """Return the versions of the data and of the code, and the settings of the method."""
    entry = METHODS[cell.method]
    if cell.dataset in JUDGED:
        corpus, _, _ = _read_judged(cell.dataset, data_root, vectors)
        digests = [corpus.data.sha256]
    else:
        digests = [part.sha256 for part in read_split(cell.dataset, data_root, vectors)]
    code = version_of(entry.module, measuring.__name__, splits.__name__)
    return {"code": code, "data": digests, "settings": dict(entry.chosen)}
