"""The jobs of a data folder without HTTP, and the data folder that jobs are killed in."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.index.catalog import AddAlias
from hummingbit.index.data_folder import DataFolder
from hummingbit.service.concurrency import WriteGate
from hummingbit.service.jobs.bulk import BATCH_LINES, INPUT
from hummingbit.service.jobs.kinds import (
    CLUSTERS_FILE,
    FURTHER_FILE,
    REQUEST_FILE,
    UPLOAD,
    explain,
    kinds_of_jobs,
)
from hummingbit.service.jobs.map import MapOptions
from hummingbit.service.jobs.runner import Jobs
from hummingbit.service.jobs.store import FINISHED, NewJob
from hummingbit.service.settings import Settings
from tests.support.encoders import random_texts, text_encoder

DOCUMENTS = 40
LINES = 2 * BATCH_LINES + 10
SECONDS = 180.0
N_BITS = 32
RETRAINING = {
    "source": "books-1",
    "into": "books-2",
    "alias": "books",
    "engine": "auto",
    "auto": True,
    "encoder": "better",
    "label_field": "label",
    "held_out": 0.2,
    "min_gain": -1.0,
    "seed": 0,
    "n_bits": None,
    "epochs": None,
}
TRAINING: dict[str, Any] = {
    "source": "books-1",
    "into": "books-2",
    "alias": "books",
    "engine": "auto",
    "encoder": "better",
    "label_field": "label",
    "method": None,
    "settings": {},
}
SPECS: dict[str, dict[str, Any]] = {
    "retrain": RETRAINING,
    "train": TRAINING,
    "index_fields": {"fields": ["label"]},
}
TWINS = (("twin0", "twin1", "twin2"), ("twin3", "twin4", "twin5"))
"""The clusters of near-duplicates of a job that deletes all but one of each."""
KEPT_CODE, OTHER_CODE = "0f0f0f0f", "f0f0f0f0"


class Service:
    """The jobs of a data folder, without HTTP."""

    def __init__(self, path: Path) -> None:
        self.folder = DataFolder(path, writable=True)
        self.gate = WriteGate()
        self.kinds = kinds_of_jobs(self.folder, self.gate, Settings(training="elsewhere"))
        self.jobs = Jobs(path / "jobs", self.kinds, explain)

    def close(self) -> None:
        """Close the jobs and the folder."""
        self.jobs.close()
        self.folder.close()

    def submit(self, kind: str, files: Path) -> str:
        """Submit the job, and return its id."""
        draft = self.jobs.files.draft()
        spec: dict[str, Any] = {}
        name, collection = kind.partition(" ")[0], "books-1"
        if name == "reindex":
            alias = None if kind.endswith("alias") else "books"
            spec = {"source": "books-1", "encoder": "large", "into": "books-2", "alias": alias}
            spec["engine"] = "auto"
        elif name == "bulk":
            collection = "codes"
            spec = {"create_only": "creates" in kind, "skip_unchanged": "skips" in kind}
            shutil.copyfile(files / INPUT, draft / INPUT)
        elif name in {"upload", "evaluation"}:
            file = UPLOAD if name == "upload" else REQUEST_FILE
            shutil.copyfile(files / file, draft / file)
        elif name == "restore":
            collection, spec = "restored", {"snapshot": (files / "snapshot").read_text()}
        elif name == "map":
            spec = asdict(MapOptions(method="pca"))
        elif name == "duplicates":
            spec = {"radius": 2}
        elif name == "delete_duplicates":
            last_row = int((files / "last_row").read_text())
            spec = {"duplicates": "x", "last_row": last_row, "documents": 6, "keep": "oldest"}
            clusters = (json.dumps({"size": len(ids), "ids": ids}) + "\n" for ids in TWINS)
            (draft / CLUSTERS_FILE).write_text("".join(clusters))
            (draft / FURTHER_FILE).touch()
        else:
            spec = SPECS.get(name, {})
        return self.jobs.submit(draft, NewJob(name, collection, spec)).id

    def wait(self) -> list[dict[str, Any]]:
        """Wait until every job is finished."""
        deadline = time.monotonic() + SECONDS
        while not all(job.state in FINISHED for job in self.jobs.last(100)):
            assert time.monotonic() < deadline, f"a job is stuck: {self.jobs.last(100)}"
            time.sleep(0.005)
        return [
            {"state": job.state, "result": job.result, "error": job.error, "id": job.id}
            for job in self.jobs.last(100)
        ]


def make(path: Path, files: Path, kind: str) -> None:
    """Make a data folder with the input of the job."""
    write_artifact(path / "encoders" / "words", text_encoder(), random_texts(40))
    write_artifact(path / "encoders" / "large", text_encoder(64, seed=1), random_texts(40))
    with DataFolder(path, writable=True) as folder:
        books = folder.create_collection("books-1", encoder="words")
        texts = random_texts(DOCUMENTS, seed=1)
        books.upsert([book(f"d{at}", text) for at, text in enumerate(texts)])
        books.delete(["d0"])
        if kind == "delete_duplicates":
            books.upsert([book(id_, texts[0]) for ids in TWINS for id_ in ids])
            rows = (item.row for item in books.get_many(["twin5"]) if item is not None)
            (files / "last_row").write_text(str(max(rows)))
        folder.change_aliases([AddAlias("books", "books-1")])
        folder.create_collection("codes", n_bits=N_BITS)
        snapshot = folder.create_snapshot("books-1")
        shutil.copyfile(folder.snapshots.file(snapshot.id), files / UPLOAD)
        (files / "snapshot").write_text(snapshot.id)
        if kind != "restore":
            folder.snapshots.delete(snapshot.id)
    lines = (json.dumps({"id": f"b{at}", "code": KEPT_CODE}) + "\n" for at in range(LINES))
    (files / INPUT).write_text("".join(lines))
    queries = [{"text": text, "label": "a"} for text in random_texts(5)]
    (files / REQUEST_FILE).write_text(json.dumps({"queries": queries, "metrics": ["P@10"]}))


def book(id_: str, text: str) -> Document:
    """Return a document with a text and a label."""
    return Document(id=id_, text=text, payload={"label": "ab"[len(text) % 2]})
