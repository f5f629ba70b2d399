"""Writes beside a job, and a check that they and the job are there after it was killed."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from hummingbit.corpus.document import Document
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.labels import Annotations
from hummingbit.index.store.annotations import DocumentLabel
from hummingbit.service.jobs.kinds import REQUEST_FILE, RUN_FILE
from tests.support.faults.service_without_http import (
    DOCUMENTS,
    KEPT_CODE,
    LINES,
    OTHER_CODE,
    TWINS,
    Service,
    book,
)


def write_beside(service: Service, acknowledged: Path, number: int) -> None:
    """Write like a client, and record the acknowledged writes."""
    with service.gate.writing():
        service.folder.collection("books").upsert([book(f"new{number}", "jam kernel")])
    note(acknowledged, {"book": f"new{number}"})
    with service.gate.writing():
        service.folder.collection("books").delete([f"d{1 + number % 5}"])
    note(acknowledged, {"deleted": f"d{1 + number % 5}"})
    write_label(service, acknowledged, number)
    with service.gate.writing():
        codes = service.folder.collection("codes")
        found = codes.get("b0")
        if found is None:
            return
        codes.upsert([Document(id="b0", code=OTHER_CODE)])
    note(acknowledged, {"code": "b0"})


def write_label(service: Service, acknowledged: Path, number: int) -> None:
    """Label one document by hand and three by import; record the acknowledged labels."""
    some = [
        DocumentLabel(f"d{6 + (number + at) % 20}", ("a",), f"person {number}") for at in range(4)
    ]
    with service.gate.writing():
        _annotations(service.folder).set_labels(some[:1], [])
    note(acknowledged, {"labelled": some[0].id, "who": some[0].who})
    with service.gate.writing():
        _annotations(service.folder).import_records(some[1:], [])
    for document in some[1:]:
        note(acknowledged, {"labelled": document.id, "who": document.who})


def _annotations(folder: DataFolder) -> Annotations:
    books = folder.collection("books")
    assert isinstance(books, Collection)
    return books.annotations


def note(path: Path, what: dict[str, str]) -> None:
    """Append a record to a file of JSON lines."""
    with path.open("a") as file:
        file.write(json.dumps(what) + "\n")


def check(path: Path, files: Path, kind: str) -> None:
    """Start the service again, wait for the job, and fail if anything is wrong."""
    noted = files / "acknowledged"
    lines = [json.loads(line) for line in noted.read_text().splitlines()] if noted.exists() else []
    with closing(Service(path)) as service:
        jobs = service.wait()
        known = {job["id"] for job in jobs}
        assert {line["job"] for line in lines if "job" in line} <= known, "an accepted job is gone"
        done = [job for job in jobs if not _was_refused(kind, job)]
        assert all(job["state"] == "done" for job in done), jobs
        _check_writes(service.folder, lines)
        for job in done:
            _check_result(service, kind, job)
        for collection in service.folder.collections().values():
            assert collection.verify().problems == []
        assert not service.folder.unavailable()
    with DataFolder(path, writable=True) as folder:
        assert not folder.unavailable()
    assert not [*path.glob("*/*.partial")]


def _was_refused(kind: str, job: dict[str, Any]) -> bool:
    """Return whether an evaluation was refused because the collection kept changing."""
    return kind == "evaluation" and (job["error"] or {}).get("code") == "cannot_evaluate"


def _check_writes(folder: DataFolder, lines: list[dict[str, str]]) -> None:
    books = folder.collection("books")
    for line in lines:
        if "book" in line:
            assert books.get(line["book"]) is not None, (
                f"{line['book']} was acknowledged and is lost"
            )
        if "deleted" in line:
            assert books.get(line["deleted"]) is None, f"{line['deleted']} was deleted and is there"
    labels = {label.key for label in _annotations(folder).labels()}
    for line in lines:
        if "labelled" in line:
            assert (line["labelled"], line["who"]) in labels, f"the label of {line['who']} is lost"
    held = {f"d{at}" for at in range(6, DOCUMENTS)}
    assert {line.id for line in books.documents_after(0, 10**6)} >= held
    if any("code" in line for line in lines):
        found = folder.collection("codes").get("b0")
        assert found is not None
        assert found.code == OTHER_CODE, "a write was undone by a job that was begun again"


def _check_result(service: Service, kind: str, job: dict[str, Any]) -> None:
    folder, result = service.folder, job["result"]
    if kind in {"reindex", "retrain", "train"}:
        assert folder.aliases() == {"books": "books-2"}
        assert folder.collection("books").n_bits == 64
    elif kind == "reindex without an alias":
        assert len(folder.collection("books-2")) >= DOCUMENTS - 7
    elif kind.startswith("bulk"):
        assert (result["received"], result["failed"]) == (LINES, 0), result
        assert result["written"] + result["unchanged"] == LINES, result
        held = folder.collection("codes").documents_after(0, 10**6)
        assert {document.id for document in held} == {f"b{at}" for at in range(LINES)}
        assert {document.code for document in held if document.id != "b0"} == {KEPT_CODE}
        assert folder.collection("codes").read_bookmark(job["id"]) is None
    elif kind in {"snapshot", "upload"}:
        assert [snapshot.id for snapshot in folder.snapshots.all()] == [result["id"]]
    elif kind == "restore":
        assert {*folder.collections()} == {"books-1", "codes", "restored"}
        assert len(folder.collection("restored")) == DOCUMENTS - 1
    elif kind == "delete_duplicates":
        books = folder.collection("books")
        left = [[id_ for id_ in ids if books.get(id_) is not None] for ids in TWINS]
        assert left == [["twin0"], ["twin3"]], left
    elif kind == "verify":
        assert result["problems"] == []
    elif kind in {"evaluation", "map", "duplicates"}:
        kept = service.kinds[kind].kept_files - {REQUEST_FILE, RUN_FILE}
        assert {path.name for path in service.jobs.files.of(job["id"]).iterdir()} >= kept
