from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import StoreClosed
from hummingbit.service.concurrency import WriteGate
from hummingbit.service.jobs.kinds import explain, kinds_of_jobs
from hummingbit.service.settings import Settings
from tests.support.encoders import random_texts, text_encoder
from tests.support.service import (
    check_problem,
    make_data_folder,
    running_service,
    send,
    serving_process,
    wait_for_job,
)

SECONDS = 120.0


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = make_data_folder(tmp_path / "data")
    write_artifact(path / "encoders" / "large", text_encoder(64, seed=1), random_texts(40))
    return path


@pytest.fixture
def client(data: Path) -> Iterator[httpx.Client]:
    with running_service(data) as one:
        yield one


def fill(client: httpx.Client, name: str, count: int = 200, start: int = 0) -> None:
    send(client, "PUT", f"/v1/collections/{name}", {"encoder": "words"}).raise_for_status()
    texts = random_texts(count, seed=start)
    upsert(client, name, [{"id": f"d{start + at}", "text": text} for at, text in enumerate(texts)])


def upsert(client: httpx.Client, name: str, documents: list[dict[str, Any]]) -> None:
    path = f"/v1/collections/{name}/documents"
    send(client, "PUT", path, {"documents": documents}).raise_for_status()


def move(client: httpx.Client, alias: str, collection: str) -> httpx.Response:
    action = {"add": {"alias": alias, "collection": collection}}
    return send(client, "POST", "/v1/aliases", {"actions": [action]})


def test_jobs_are_listed_by_every_kind_that_runs_and_no_other(data: Path) -> None:
    with DataFolder(data, writable=True) as folder:
        names = kinds_of_jobs(folder, WriteGate(), Settings())
    with running_service(data) as client:
        for name in names:
            assert client.get(f"/v1/jobs?kind={name}").json() == {"jobs": []}
        problem = check_problem(client.get("/v1/jobs?kind=reindx"), 422, "invalid_request")
    assert problem["errors"][0]["pointer"] == "/kind"
    assert "reindx" in problem["detail"] or "reindx" in str(problem["errors"])
    assert "reindex" in str(problem["errors"])


def test_a_job_whose_collection_is_deleted_fails_and_names_no_path(data: Path) -> None:
    with DataFolder(data, writable=True) as folder:
        collection = folder.create_collection("books", encoder="words")
        collection.upsert([Document("a", "apple")])
        folder.drop_collection("books")
        with pytest.raises(StoreClosed, match=str(data)) as found:
            collection.documents_after(0, 1)
    problem = explain(found.value)
    assert problem is not None
    assert (problem.status_code, problem.code) == (404, "unknown_collection")
    assert problem.detail == "the collection was deleted meanwhile"


def test_an_alias_stands_for_a_collection_everywhere(client: httpx.Client) -> None:
    fill(client, "blue")
    fill(client, "green", count=3)
    assert move(client, "books", "blue").json() == {
        "aliases": [{"alias": "books", "collection": "blue"}]
    }
    assert client.get("/v1/collections/books").json()["documents"] == 200
    upsert(client, "books", [{"id": "more", "text": "jam"}])
    assert client.get("/v1/collections/blue/documents/more").json()["text"] == "jam"
    move(client, "books", "green")
    found = send(client, "POST", "/v1/collections/books/search", {"text": "jam", "limit": 10})
    assert len(found.json()["hits"]) == 3
    assert client.get("/v1/aliases").json()["aliases"] == [
        {"alias": "books", "collection": "green"}
    ]


def test_actions_that_cannot_be_are_pointed_to_and_change_nothing(client: httpx.Client) -> None:
    fill(client, "blue", count=1)
    move(client, "books", "blue")
    good = {"remove": {"alias": "books"}}
    for bad, status, code, pointer in [
        ({"remove": {"alias": "none"}}, 422, "invalid_request", "/actions/1"),
        ({"add": {"alias": "blue", "collection": "blue"}}, 422, "invalid_request", "/actions/1"),
        ({"add": {"alias": "A", "collection": "blue"}}, 422, "invalid_request", "/actions/1"),
        ({"add": {"alias": "a", "collection": "red"}}, 404, "unknown_collection", None),
        ({}, 422, "invalid_request", "/actions/1"),
        ({**good, "add": {"alias": "a", "collection": "blue"}}, 422, "invalid_request", None),
    ]:
        response = send(client, "POST", "/v1/aliases", {"actions": [good, bad]})
        problem = check_problem(response, status, code)
        if pointer is not None:
            assert problem["errors"][0]["pointer"] == pointer
    assert len(client.get("/v1/aliases").json()["aliases"]) == 1
    response = send(client, "PUT", "/v1/collections/books", {"encoder": "words"})
    assert "alias" in check_problem(response, 409, "collection_exists")["detail"]


class Load:
    """Searches, upserts and deletes of the collection ``books`` until it is told to stop."""

    def __init__(self, address: httpx.URL) -> None:
        self._address = address
        self.stop = threading.Event()
        self.searches = 0
        self.failures: list[str] = []
        self.written: list[str] = []
        self.deleted: list[str] = []

    def search(self) -> None:
        with httpx.Client(base_url=self._address, timeout=120, trust_env=False) as client:
            while not self.stop.is_set():
                body = {"text": "jam kernel", "limit": 5}
                found = send(client, "POST", "/v1/collections/books/search", body)
                self.searches += 1
                if found.status_code != 200 or len(found.json()["hits"]) != 5:
                    self.failures.append(found.text[:200])

    def write(self) -> None:
        with httpx.Client(base_url=self._address, timeout=120, trust_env=False) as client:
            at = 0
            while not self.stop.is_set():
                upsert(client, "books", [{"id": f"n{at}", "text": "rank trace"}])
                self.written.append(f"n{at}")
                gone = client.delete(f"/v1/collections/books/documents/d{at}")
                if gone.status_code == 204:
                    self.deleted.append(f"d{at}")
                at += 1


def test_a_collection_is_reindexed_under_load_without_a_failed_search(client: httpx.Client) -> None:
    fill(client, "books-1", count=3000)
    move(client, "books", "books-1")
    load = Load(client.base_url)
    threads = [threading.Thread(target=item) for item in (load.search, load.search, load.write)]
    for thread in threads:
        thread.start()
    body = {"encoder": "large", "into": "books-2", "alias": "books"}
    job = wait_for_job(client, send(client, "POST", "/v1/collections/books/reindex", body))
    searched = load.searches
    deadline = time.monotonic() + SECONDS
    while load.searches < searched + 10:  # some of them after the alias has moved
        assert time.monotonic() < deadline
        time.sleep(0.01)
    load.stop.set()
    for thread in threads:
        thread.join()
    assert job["state"] == "done", job
    assert load.failures == []
    now = client.get("/v1/collections/books").json()
    assert (now["name"], now["n_bits"]) == ("books-2", 64)
    assert now["documents"] == 3000 + len(load.written) - len(load.deleted)
    for id_ in load.written[-5:] + load.written[:5]:
        assert client.get(f"/v1/collections/books/documents/{id_}").status_code == 200
    for id_ in load.deleted[-5:] + load.deleted[:5]:
        assert client.get(f"/v1/collections/books/documents/{id_}").status_code == 404
    assert client.get("/v1/collections/books-1").status_code == 200


def test_a_reindexing_that_cannot_be_is_refused_at_once(client: httpx.Client) -> None:
    fill(client, "blue", count=1)
    for body, status, code in (
        ({"encoder": "none", "into": "b"}, 422, "unknown_encoder"),
        ({"encoder": "large", "into": "B"}, 422, "invalid_request"),
        ({"encoder": "large", "into": "blue"}, 409, "collection_exists"),
        ({"encoder": "large", "into": "b", "alias": "blue"}, 422, "invalid_request"),
        ({"encoder": "large", "into": "b", "alias": "-"}, 422, "invalid_request"),
        ({"encoder": "large"}, 422, "invalid_request"),
    ):
        check_problem(send(client, "POST", "/v1/collections/blue/reindex", body), status, code)
        assert client.get("/v1/jobs").json()["jobs"] == [], body


def test_a_reindexing_keeps_the_engine_or_takes_another(client: httpx.Client) -> None:
    settings = {"encoder": "words", "engine": "scan"}
    send(client, "PUT", "/v1/collections/blue", settings).raise_for_status()
    for into, given, engine in (("kept", {}, "scan"), ("changed", {"engine": "flat"}, "flat")):
        body = {"encoder": "large", "into": into, **given}
        wait_for_job(client, send(client, "POST", "/v1/collections/blue/reindex", body))
        assert client.get(f"/v1/collections/{into}").json()["engine_setting"] == engine
    for engine in ("distinct", "hnsw"):
        body = {"encoder": "large", "into": "never", "engine": engine}
        refused = send(client, "POST", "/v1/collections/blue/reindex", body)
        problem = check_problem(refused, 422, "invalid_request")
        assert problem["errors"][0]["pointer"] == "/engine"


def test_a_reindexing_that_fails_leaves_no_collection(client: httpx.Client) -> None:
    send(client, "PUT", "/v1/collections/codes", {"n_bits": 16}).raise_for_status()
    upsert(client, "codes", [{"id": "a", "code": "00ff"}])
    body = {"encoder": "large", "into": "other"}
    job = wait_for_job(client, send(client, "POST", "/v1/collections/codes/reindex", body))
    assert job["state"] == "failed"
    assert job["error"]["code"] == "invalid_request"
    assert "'a' has only a code" in job["error"]["detail"]
    assert client.get("/v1/collections/other").status_code == 404


def test_a_snapshot_is_made_downloaded_restored_and_deleted(
    client: httpx.Client, tmp_path: Path
) -> None:
    fill(client, "blue")
    made = client.post("/v1/collections/blue/snapshots")
    assert made.status_code == 201
    snapshot = made.json()
    assert made.headers["location"] == f"/v1/snapshots/{snapshot['id']}"
    assert (snapshot["documents"], snapshot["encoder"]) == (200, "words")
    assert client.get(made.headers["location"]).json() == snapshot
    file = client.get(f"/v1/snapshots/{snapshot['id']}/file")
    assert file.headers["content-type"] == "application/x-tar"
    assert len(file.content) == snapshot["bytes"]
    assert hashlib.sha256(file.content).hexdigest() == snapshot["sha256"]
    for given, status, code in (
        ("bytes=999999999-", 416, "range_not_satisfiable"),
        ("bytes=9-1", 400, "invalid_range"),
        ("nonsense", 400, "invalid_range"),
    ):
        wrong = client.get(f"/v1/snapshots/{snapshot['id']}/file", headers={"Range": given})
        check_problem(wrong, status, code)
        assert ("content-range" in wrong.headers) == (status == 416)
    part = client.get(f"/v1/snapshots/{snapshot['id']}/file", headers={"Range": "bytes=0-9"})
    assert (part.status_code, part.content) == (206, file.content[:10])
    # RFC 9110, 14.2: a server must ignore a unit that it does not know.
    whole = client.get(f"/v1/snapshots/{snapshot['id']}/file", headers={"Range": "pages=1-2"})
    assert (whole.status_code, whole.content) == (200, file.content)

    fill(client, "blue", count=5, start=1000)
    path = f"/v1/snapshots/{snapshot['id']}/restore"
    check_problem(send(client, "POST", path, {"collection": "blue"}), 409, "collection_exists")
    check_problem(send(client, "POST", path, {"collection": "../x"}), 422, "invalid_request")
    job = wait_for_job(client, send(client, "POST", path, {"collection": "again"}))
    assert job["result"] == {"collection": "again", "documents": 200}
    body = {"text": "jam", "limit": 5}
    assert len(send(client, "POST", "/v1/collections/again/search", body).json()["hits"]) == 5

    background = client.post("/v1/collections/blue/snapshots", headers={"Prefer": "respond-async"})
    second = wait_for_job(client, background)["result"]
    listed = client.get("/v1/snapshots", params={"collection": "blue"}).json()["snapshots"]
    assert listed == [snapshot, second]
    assert client.delete(f"/v1/snapshots/{snapshot['id']}").status_code == 204
    assert client.get("/v1/snapshots").json()["snapshots"] == [second]
    for method, address in [
        ("GET", f"/v1/snapshots/{snapshot['id']}"),
        ("GET", f"/v1/snapshots/{snapshot['id']}/file"),
        ("DELETE", f"/v1/snapshots/{snapshot['id']}"),
        ("DELETE", "/v1/snapshots/..%2Fencoders"),
    ]:
        code = "not_found" if "%2F" in address else "unknown_snapshot"
        check_problem(client.request(method, address), 404, code)

    (tmp_path / "snapshot.tar").write_bytes(file.content)
    with DataFolder(tmp_path / "elsewhere", writable=True) as elsewhere:
        restored = elsewhere.restore_snapshot(tmp_path / "snapshot.tar", "blue")
        assert (len(restored), elsewhere.encoders.names()) == (200, ["words"])


def test_a_job_that_a_kill_ended_is_resumed_by_the_next_start(data: Path) -> None:
    with serving_process(data) as (process, address):
        with httpx.Client(base_url=address, timeout=120, trust_env=False) as client:
            for start in range(0, 20_000, 5000):
                fill(client, "books", count=5000, start=start)
            body = {"encoder": "large", "into": "books-2", "alias": "all"}
            response = send(client, "POST", "/v1/collections/books/reindex", body)
            location = response.headers["location"]
            deadline = time.monotonic() + SECONDS
            while not client.get(location).json()["progress"]["done"]:
                assert time.monotonic() < deadline
                time.sleep(0.005)
        process.kill()
        process.wait()
    with running_service(data) as client:
        job = client.get(location).json()
        assert job["state"] in {"queued", "running"}
        done = wait_for_job(client, response)
        assert (done["state"], done["attempts"]) == ("done", 2)
        assert client.get("/v1/collections/all").json()["documents"] == 20_000
