"""Documents that expire, over REST, with the client and on the command line."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from hummingbit import Client, Collection, ServedCollection
from hummingbit.cli import main
from hummingbit.errors import ServiceError
from tests.support.service import SECONDS, client_of, make_data_folder, service_with_keys

NOTES = "/v1/collections/notes"


def ids(http: httpx.Client) -> list[str]:
    answer = http.post(f"{NOTES}/documents:scroll", json={})
    return [document["id"] for document in answer.json()["documents"]]


def rows_in_file(data: Path) -> int:
    (store,) = (data / "collections").glob("*/store.sqlite")
    with closing(sqlite3.connect(store)) as connection:
        return int(connection.execute("SELECT count(*) FROM documents").fetchone()[0])


@pytest.mark.parametrize("workers", [0, 2])
def test_documents_expire_at_a_service(tmp_path: Path, workers: int) -> None:
    data = make_data_folder(tmp_path)
    with service_with_keys(data, workers) as (url, key), client_of(url) as http:
        http.headers["X-API-Key"] = key
        assert http.put(NOTES, json={"encoder": "words"}).status_code == 201
        soon = time.time() + 1
        documents = [
            {"id": "a", "text": "moon", "expires_at": soon},
            {"id": "b", "text": "moon", "ttl_seconds": 3600},
            {"id": "c", "text": "moon", "payload": {"keep": True}},
        ]
        answer = http.put(f"{NOTES}/documents", json={"documents": documents})
        assert answer.status_code == 200, answer.text
        lines = json.dumps({"id": "d", "text": "moon", "expires_at": soon})
        headers = {"Content-Type": "application/x-ndjson"}
        bulk = http.post(f"{NOTES}/documents:bulk", content=lines, headers=headers).json()
        assert bulk["written"] == 1
        stored = http.get(f"{NOTES}/documents/b").json()
        assert stored["payload"]["_expires_at"].endswith("Z")
        if time.time() < soon:
            minimum = {"Min-Generation": str(bulk["generation"])}
            hits = http.post(f"{NOTES}/search", json={"text": "moon"}, headers=minimum).json()
            assert {hit["id"] for hit in hits["hits"]} >= {"b", "c"}
        time.sleep(max(0.0, soon - time.time()))
        # Each of the processes answers some of these.
        for _ in range(8):
            hits = http.post(f"{NOTES}/search", json={"text": "moon", "limit": 9}).json()["hits"]
            assert [hit["id"] for hit in hits] == ["b", "c"]
            assert http.get(f"{NOTES}/documents/a").status_code == 404
            assert http.post(f"{NOTES}/documents:count", json={}).json() == {"count": 2}
            assert ids(http) == ["b", "c"]
            assert http.get(NOTES).json()["documents"] == 2

        deadline = time.monotonic() + SECONDS
        while rows_in_file(data) > 2:
            assert time.monotonic() < deadline, "the file keeps expired documents"
            time.sleep(0.1)
        update = {"updates": [{"filter": {"field": "keep", "exists": True}, "ttl_seconds": 0.5}]}
        changed = http.post(f"{NOTES}/documents:payload", json=update).json()
        assert changed["updated"] == 1
        time.sleep(0.5)
        assert ids(http) == ["b"]


def test_the_client_and_the_library_say_when_documents_expire(tmp_path: Path) -> None:
    data = make_data_folder(tmp_path)
    with service_with_keys(data, workers=0) as (url, key), Client(url, key) as client:
        client.create_collection("notes", encoder="words")
        notes = ServedCollection(client, "notes")
        notes.add(["moon", "tide"], ids=["a", "b"], ttl_seconds=3600)
        client.upsert("notes", [{"id": "c", "text": "moon", "ttl_seconds": 3600}])
        assert notes.update_payload(ids=["a"], expires_at="2001-01-01") == 1
        assert client.update_payload("notes", ids=["c"], ttl_seconds=0.001)["updated"] == 1
        assert notes.update_payload(ids=["b"], remove=["_expires_at"]) == 1
        time.sleep(0.01)
        assert [document.id for document in notes.documents()] == ["b"]
        refused: list[dict[str, Any]] = [{"ttl_seconds": -1}, {"expires_at": "soon"}]
        for fields in refused:
            with pytest.raises(ServiceError, match=min(fields)) as no:
                client.upsert("notes", [{"id": "x", "text": "moon", **fields}])
            assert no.value.status == 422


def test_documents_expire_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, source = make_data_folder(tmp_path / "data"), tmp_path / "notes.jsonl"
    source.write_text('{"id": "a", "text": "moon"}\n{"id": "b", "text": "tide"}\n')
    at = ["--data-dir", str(data)]
    build = ["index", "build", "notes", str(source), "--encoder", "words", "--allow-unknown", *at]
    assert main([*build, "--expires", "30d"]) == 0
    assert main(["index", "payload", "notes", "a", "--expires", "1s", *at]) == 0
    assert main(["index", "payload", "notes", "b", "--expires", "never", *at]) == 0
    assert main(["index", "payload", "notes", "b", "--expires", "1999-01-01", *at]) != 0
    time.sleep(2)
    capsys.readouterr()
    assert main(["index", "scroll", "notes", *at]) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(document["id"], document["payload"]) for document in documents] == [("b", {})]
    with Collection.open(data, "notes") as collection:
        assert len(collection) == 1
