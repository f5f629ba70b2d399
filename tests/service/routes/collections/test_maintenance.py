from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from hummingbit.corpus.document import Document
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.records import Verification
from hummingbit.index.store.store import verify_store
from hummingbit.service.settings import Settings
from tests.support.encoders import random_texts
from tests.support.service import (
    check_problem,
    client_of,
    make_data_folder,
    running_service,
    wait_for_job,
)

N = 300
SECONDS = 120.0
ASYNC = {"Prefer": "respond-async"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a data folder with a collection ``c``, of which half was deleted."""
    path = make_data_folder(tmp_path / "data")
    with DataFolder(path, writable=True) as folder:
        collection = folder.create_collection("c", encoder="words")
        collection.upsert(
            Document(f"d{at}", text * 20) for at, text in enumerate(random_texts(2 * N))
        )
        collection.delete([f"d{at}" for at in range(N, 2 * N)])
    return path


@pytest.fixture
def client(data: Path) -> Iterator[httpx.Client]:
    with running_service(data) as one:
        yield one


def flip_a_byte(data: Path) -> None:
    """Change a letter of the text of the document ``d7``."""
    (path,) = data.glob("collections/*/store.sqlite")
    text = (random_texts(2 * N)[7] * 20).encode()
    raw = bytearray(path.read_bytes())
    raw[raw.index(text) + 2] ^= 1
    path.write_bytes(raw)


def test_a_whole_collection_is_verified(client: httpx.Client) -> None:
    whole = {"documents": N, "problems": []}
    assert client.post("/v1/collections/c/verify").json() == whole
    job = wait_for_job(client, client.post("/v1/collections/c/verify", headers=ASYNC))
    assert (job["kind"], job["state"], job["result"]) == ("verify", "done", whole)
    assert job["progress"] == {
        "step": None,
        "done": N,
        "total": N,
        "percent": 100.0,
    }
    check_problem(client.post("/v1/collections/absent/verify"), 404, "unknown_collection")


def test_what_is_wrong_with_a_collection_is_in_the_answer(data: Path) -> None:
    flip_a_byte(data)
    with running_service(data) as client:
        found = client.post("/v1/collections/c/verify")
        assert found.status_code == 200
        (problem,) = found.json()["problems"]
        assert "document 'd7' (row 8) does not match its checksum" in problem
        job = wait_for_job(client, client.post("/v1/collections/c/verify", headers=ASYNC))
        assert job["result"]["problems"] == [problem]


def test_a_collection_is_compacted(client: httpx.Client) -> None:
    before = client.post("/v1/collections/c/search", json={"text": "apple", "limit": 50}).json()
    found = client.post("/v1/collections/c/compact").json()
    assert found["bytes_after"] < 0.7 * found["bytes_before"]
    assert client.get("/v1/collections/c").json()["bytes_on_disk"] == found["bytes_after"]
    job = wait_for_job(client, client.post("/v1/collections/c/compact", headers=ASYNC))
    assert set(job["result"]) == {"bytes_before", "bytes_after"}
    after = client.post("/v1/collections/c/search", json={"text": "apple", "limit": 50}).json()
    assert after["hits"] == before["hits"]
    assert client.post("/v1/collections/c/verify").json()["problems"] == []
    check_problem(client.post("/v1/collections/absent/compact"), 404, "unknown_collection")


def test_fields_are_indexed(client: httpx.Client) -> None:
    url, body = "/v1/collections/c/index-fields", {"indexed_fields": ["year", "label"]}
    asked = {"filter": {"field": "year", "gte": 1995}, "text": "apple", "limit": 100}
    documents = [{"id": f"d{at}", "text": "apple", "payload": {"year": at}} for at in range(2000)]
    client.put("/v1/collections/c/documents", json={"documents": documents}).raise_for_status()
    before = client.post("/v1/collections/c/search", json=asked).json()["hits"]
    assert client.post(url, json=body).json() == {
        "indexed_fields": ["label", "year"],
        "warnings": ["none of the first 100 documents has the field 'label'"],
    }
    assert client.get("/v1/collections/c").json()["indexed_fields"] == ["label", "year"]
    assert client.post("/v1/collections/c/search", json=asked).json()["hits"] == before != []
    assert client.post("/v1/collections/c/verify").json()["problems"] == []
    job = wait_for_job(client, client.post(url, json={"indexed_fields": []}, headers=ASYNC))
    assert (job["kind"], job["result"]) == ("index_fields", {"indexed_fields": []})
    refused = client.post(url, json={"indexed_fields": ["a\0b"]})
    check_problem(refused, 422, "invalid_request")
    assert refused.json()["errors"][0]["pointer"] == "/indexed_fields"


def test_a_collection_is_created_with_indexed_fields(client: httpx.Client) -> None:
    body = {"n_bits": 8, "indexed_fields": ["year"]}
    created = client.put("/v1/collections/other", json=body)
    assert (created.status_code, created.json()["indexed_fields"]) == (201, ["year"])
    assert client.put("/v1/collections/other", json=body).status_code == 200
    assert client.put("/v1/collections/other", json={"n_bits": 8}).status_code == 200
    other = client.put("/v1/collections/other", json={**body, "indexed_fields": []})
    check_problem(other, 409, "collection_exists")
    bad = client.put("/v1/collections/bad", json={**body, "indexed_fields": [""]})
    check_problem(bad, 422, "invalid_request")


def test_upkeep_while_writes_go_on(client: httpx.Client) -> None:
    done = threading.Event()
    failed = []

    def write() -> None:
        with client_of(str(client.base_url)) as other:
            for at in itertools.count():
                documents = [{"id": f"{kind}{at % 40}", "text": "apple"} for kind in "xy"]
                body = {"documents": documents}
                response = other.put("/v1/collections/c/documents", json=body)
                if response.status_code != 200:
                    failed.append(response.text)
                if done.is_set():
                    return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(4):
            assert client.post("/v1/collections/c/compact").status_code == 200
            assert client.post("/v1/collections/c/verify").json()["problems"] == []
    finally:
        done.set()
        writer.join()
    assert failed == []
    assert client.post("/v1/collections/c/verify").json()["problems"] == []


@pytest.mark.parametrize("headers", [{}, ASYNC])
def test_the_verification_of_a_collection_that_is_deleted_meanwhile_fails(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    begun, deleted = threading.Event(), threading.Event()

    def verify_later(*given: Any) -> Verification:
        begun.set()
        assert deleted.wait(SECONDS)
        return verify_store(*given)

    def delete() -> None:
        assert begun.wait(SECONDS)
        with client_of(str(client.base_url)) as other:
            other.delete("/v1/collections/c").raise_for_status()
        deleted.set()

    monkeypatch.setattr("hummingbit.index.collection.verify_store", verify_later)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(delete)
        response = client.post("/v1/collections/c/verify", headers=headers)
        if headers:
            job = wait_for_job(client, response)
            assert (job["state"], job["error"]["code"]) == ("failed", "unknown_collection")
            assert job["error"]["detail"] == "the collection was deleted meanwhile"
        else:
            check_problem(response, 404, "unknown_collection")


def test_an_alias_is_verified_as_what_it_means(client: httpx.Client) -> None:
    action = {"add": {"alias": "mine", "collection": "c"}}
    client.post("/v1/aliases", json={"actions": [action]}).raise_for_status()
    job = wait_for_job(client, client.post("/v1/collections/mine/verify", headers=ASYNC))
    assert (job["collection"], job["result"]["documents"]) == ("c", N)


def test_a_service_that_only_reads_verifies_and_does_not_compact(data: Path) -> None:
    with running_service(data, Settings(read_only=True)) as client:
        assert client.post("/v1/collections/c/verify").json()["documents"] == N
        job = wait_for_job(client, client.post("/v1/collections/c/verify", headers=ASYNC))
        assert job["result"] == {"documents": N, "problems": []}
        for headers in ({}, ASYNC):
            refused = client.post("/v1/collections/c/compact", headers=headers)
            check_problem(refused, 403, "read_only")
