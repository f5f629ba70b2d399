from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hummingbit.corpus.document import Document
from hummingbit.index.data_folder import DataFolder
from hummingbit.service.app import create_app
from hummingbit.service.settings import Settings
from tests.support.service import (
    check_problem,
    client_of,
    make_data_folder,
    running_service,
    serving_process,
)

READ_ONLY = Settings(read_only=True)
WRITES = [
    ("PUT", "/v1/collections/other", {"n_bits": 8}),
    ("PATCH", "/v1/collections/c", {"ranking": "hamming"}),
    ("DELETE", "/v1/collections/c", None),
    ("PUT", "/v1/collections/c/documents", {"documents": [{"id": "x", "text": "y"}]}),
    ("DELETE", "/v1/collections/c/documents/d0", None),
    ("POST", "/v1/collections/c/documents:delete", {"ids": ["d0"]}),
    ("POST", "/v1/collections/c/documents:payload", {"updates": [{"ids": ["d0"], "set": {}}]}),
    ("POST", "/v1/collections/c/documents:bulk", None),
    ("POST", "/v1/collections/c/faiss/documents", None),
    ("POST", "/v1/collections/c/snapshots", None),
    ("POST", "/v1/collections/c/compact", None),
    ("POST", "/v1/collections/c/index-fields", {"indexed_fields": []}),
    ("POST", "/v1/collections/c/reindex", {"encoder": "words", "into": "x"}),
    ("POST", "/v1/aliases", {"actions": [{"remove": {"alias": "mine"}}]}),
    ("POST", "/v1/snapshots:upload", None),
    ("POST", "/v1/snapshots/x/restore", {"collection": "x"}),
    ("DELETE", "/v1/snapshots/x", None),
    ("POST", "/v1/jobs/x/confirm", None),
    ("POST", "/v1/jobs/x/take-back", None),
    ("POST", "/v1/duplicates/x/delete", {"keep": "oldest"}),
    ("PUT", "/v1/collections/c/labels", {"labels": []}),
    ("PUT", "/v1/collections/c/judgements", {"judgements": []}),
    ("POST", "/v1/collections/c/labels/import", None),
    ("POST", "/v1/collections/c/retrain", {}),
    ("POST", "/v1/collections/c/train", {}),
    ("POST", "/v1/collections/c/documents:file", None),
    ("POST", "/v1/files:survey", None),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a data folder with a collection of a snapshot that was made elsewhere."""
    with DataFolder(make_data_folder(tmp_path / "writer"), writable=True) as folder:
        documents = [Document(id=f"d{i}", text="apple", payload={"label": "a"}) for i in range(5)]
        folder.create_collection("c", encoder="words").upsert(documents)
        tar = folder.snapshots.file(folder.create_snapshot("c").id)
        with DataFolder(tmp_path / "replica", writable=True) as replica:
            replica.restore_snapshot(tar, "c")
    return tmp_path / "replica"


def test_every_write_is_among_those_tried(tmp_path: Path) -> None:
    paths = create_app(tmp_path).openapi()["paths"]
    needing = {
        (method.upper(), path)
        for path, operations in paths.items()
        for method, operation in operations.items()
        if operation["x-role"] in {"write", "admin"} and method != "get"
    }
    assert len(needing) == len(WRITES)


def test_writes_are_refused_and_reads_are_not(data: Path) -> None:
    before = contents(data)
    with running_service(data, READ_ONLY) as client:
        assert client.get("/readyz").status_code == 200
        for method, path, body in WRITES:
            check_problem(client.request(method, path, json=body), 403, "read_only")
        collection = "/v1/collections/c"
        found = client.post(f"{collection}/search", json={"text": "apple"}).json()
        assert [hit["id"] for hit in found["hits"]] == [f"d{i}" for i in range(5)]
        assert client.post(f"{collection}/documents:count", json={}).json() == {"count": 5}
        assert client.get("/v1/snapshots").json()["snapshots"] == []
        evaluate = {"queries": [{"text": "apple", "label": "a"}], "metrics": ["P@5"]}
        prefer = {"Prefer": "respond-async"}
        begun = client.post(f"{collection}/evaluate", json=evaluate, headers=prefer)
        assert begun.status_code == 202
        while (status := client.get(begun.headers["location"]).json())["status"] == "running":
            pass
        assert status["status"] == "done"
    assert contents(data) == before


def contents(folder: Path) -> dict[Path, bytes]:
    """Return the content of every file but those that SQLite needs beside a store to read it."""
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in {".sqlite-shm", ".sqlite-wal"}
    }


def test_a_reader_beside_the_writer_follows_it(data: Path) -> None:
    with running_service(data) as writer, serving_process(data, "--read-only") as (_, address):
        path = "/v1/collections/c/documents"
        written = {"documents": [{"id": "x", "text": "apple"}]}
        assert writer.put(path, json=written).status_code == 200
        assert writer.put("/v1/collections/new", json={"n_bits": 16}).status_code == 201
        add = {"actions": [{"add": {"alias": "mine", "collection": "new"}}]}
        assert writer.post("/v1/aliases", json=add).status_code == 200
        with client_of(address) as reader:
            until(lambda: reader.get("/v1/collections/c").json()["generation"] == 2)
            found = reader.post("/v1/collections/c/search", json={"text": "apple"}).json()
            assert "x" in [hit["id"] for hit in found["hits"]]
            until(lambda: reader.get("/v1/collections/mine").status_code == 200)
            check_problem(reader.put(path, json={"documents": []}), 403, "read_only")
            assert reader.get(f"{path}/d0").status_code == 200


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    pause = threading.Event()
    while not holds():
        pause.wait(0.02)


def test_a_folder_that_cannot_be_written_is_read(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    (store,) = (data / "collections").glob("*/store.sqlite")
    with running_service(data, READ_ONLY) as client:
        found = client.post("/v1/collections/c/search", json={"text": "apple"}).json()
        assert len(found["hits"]) == 5
        names = {path.name for path in store.parent.iterdir()}
        assert names == {"store.sqlite", "store.sqlite-acknowledged"}
