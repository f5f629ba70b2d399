"""Snapshots that come to a service over REST."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import socket
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hummingbit.corpus.document import Document
from hummingbit.index.data_folder import DataFolder
from hummingbit.service.settings import Settings
from tests.support.encoders import random_texts
from tests.support.service import (
    check_problem,
    client_of,
    make_data_folder,
    running_service,
    serving_process,
    wait_for_job,
    with_longer_limits,
)

N = 200
TAR = {"content-type": "application/x-tar"}
ASYNC = {**TAR, "prefer": "respond-async"}
PATH = "/v1/snapshots:upload"


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the file of a snapshot, downloaded from a service that is gone by then."""
    with DataFolder(make_data_folder(tmp_path_factory.mktemp("data")), writable=True) as folder:
        texts = random_texts(N)
        folder.create_collection("c", encoder="words").upsert(
            Document(f"d{at}", text, payload={"at": at}) for at, text in enumerate(texts)
        )
        with running_service(folder) as client:
            made = client.post("/v1/collections/c/snapshots").json()
            return client.get(f"/v1/snapshots/{made['id']}/file").content


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    with running_service(tmp_path / "other") as one:
        yield one


def upload(client: httpx.Client, raw: bytes, **query: Any) -> httpx.Response:
    return client.post(PATH, content=raw, headers=TAR, params=query)


def leftovers(data: Path) -> list[str]:
    """Return what lies in the data folder but for records of jobs."""
    return sorted(
        str(path.relative_to(data))
        for path in data.rglob("*")
        if path.is_file() and not path.name.startswith(("jobs.sqlite", "aliases"))
    )


def test_a_snapshot_of_one_service_is_restored_by_another(
    client: httpx.Client, snapshot: bytes
) -> None:
    digest = hashlib.sha256(snapshot).hexdigest()
    response = upload(client, snapshot, sha256=digest)
    assert response.status_code == 201, response.text
    made = response.json()
    assert (made["collection"], made["documents"], made["sha256"]) == ("c", N, digest)
    assert made["bytes"] == len(snapshot)
    assert client.get(response.headers["location"]).json() == made
    assert client.get(f"/v1/snapshots/{made['id']}/file").content == snapshot
    path = f"/v1/snapshots/{made['id']}/restore"
    job = wait_for_job(client, client.post(path, json={"collection": "again"}))
    assert job["result"] == {"collection": "again", "documents": N}
    body = {"text": "apple", "limit": 3, "with_payload": True}
    assert len(client.post("/v1/collections/again/search", json=body).json()["hits"]) == 3
    assert [encoder["name"] for encoder in client.get("/v1/encoders").json()["encoders"]] == [
        "words"
    ]
    assert client.post("/v1/collections/again/verify").json()["problems"] == []


def test_the_same_file_again_is_the_same_snapshot(client: httpx.Client, snapshot: bytes) -> None:
    first = upload(client, snapshot)
    second = upload(client, snapshot)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    job = wait_for_job(client, client.post(PATH, content=snapshot, headers=ASYNC))
    assert job["result"] == first.json()
    assert client.get("/v1/snapshots").json()["snapshots"] == [first.json()]


def test_an_upload_is_checked_in_the_background(
    client: httpx.Client, snapshot: bytes, tmp_path: Path
) -> None:
    job = wait_for_job(client, client.post(PATH, content=snapshot, headers=ASYNC))
    assert (job["kind"], job["state"], job["result"]["documents"]) == ("upload", "done", N)
    assert client.get("/v1/snapshots").json()["snapshots"] == [job["result"]]
    job = wait_for_job(client, client.post(PATH, content=snapshot[:20_000], headers=ASYNC))
    assert (job["state"], job["error"]["code"]) == ("failed", "invalid_snapshot")
    # What a finished job needed is gone.
    folder = f"snapshots/{client.get('/v1/snapshots').json()['snapshots'][0]['id']}"
    expected = [f"{folder}/snapshot.json", f"{folder}/snapshot.tar"]
    deadline = time.monotonic() + 120
    while leftovers(tmp_path / "other") != expected:
        assert time.monotonic() < deadline, leftovers(tmp_path / "other")


def test_an_upload_that_a_kill_interrupted_is_done_by_the_next_start(
    tmp_path: Path, snapshot: bytes
) -> None:
    with serving_process(tmp_path / "data") as (process, address):
        with client_of(address) as client:
            accepted = client.post(PATH, content=snapshot, headers=ASYNC)
        process.kill()
        process.wait()
    with running_service(tmp_path / "data") as client:
        job = wait_for_job(client, accepted)
        assert job["state"] == "done", job
        assert client.get("/v1/snapshots").json()["snapshots"] == [job["result"]]


@pytest.mark.parametrize(
    "record", [b"", b"{}", b"[" * 9999, b'{"id": 7}', b'{"contents": {"format_version": 1}}']
)
def test_a_damaged_record_hides_no_other_snapshot(
    client: httpx.Client, tmp_path: Path, snapshot: bytes, record: bytes
) -> None:
    damaged = upload(client, snapshot).json()["id"]
    copies = tmp_path / "other" / "snapshots"
    other = shutil.copytree(copies / damaged, copies / "0123456789abcdef").name
    whole = json.loads((copies / other / "snapshot.json").read_bytes())
    (copies / other / "snapshot.json").write_text(json.dumps({**whole, "id": other}))
    (copies / damaged / "snapshot.json").write_bytes(record)
    found = client.get("/v1/snapshots").json()
    assert [document["id"] for document in found["snapshots"]] == [other]
    (unavailable,) = found["unavailable"]
    assert unavailable["id"] == damaged
    assert str(tmp_path) not in unavailable["reason"]
    check_problem(client.get(f"/v1/snapshots/{damaged}"), 503, "storage_failed")
    assert client.get(f"/v1/snapshots/{other}").status_code == 200
    assert upload(client, snapshot).json()["id"] == other
    assert client.delete(f"/v1/snapshots/{damaged}").status_code == 204
    assert client.get("/v1/snapshots").json()["unavailable"] == []


@pytest.mark.parametrize("kind", ["link", "pipe", "longer", "missing"])
def test_a_file_that_is_not_the_snapshots_own_is_not_served(
    client: httpx.Client, tmp_path: Path, snapshot: bytes, kind: str
) -> None:
    id_ = upload(client, snapshot).json()["id"]
    tar = tmp_path / "other" / "snapshots" / id_ / "snapshot.tar"
    tar.unlink()
    if kind == "link":
        (tmp_path / "secret").write_bytes(snapshot)
        tar.symlink_to(tmp_path / "secret")
    elif kind == "pipe":
        os.mkfifo(tar)
    elif kind == "longer":
        tar.write_bytes(snapshot + b"x")
    check_problem(client.get(f"/v1/snapshots/{id_}/file"), 503, "storage_failed")
    check_problem(
        client.post(f"/v1/snapshots/{id_}/restore", json={"collection": "again"}),
        503,
        "storage_failed",
    )
    (unavailable,) = client.get("/v1/snapshots").json()["unavailable"]
    assert "snapshot.tar" in unavailable["reason"]
    assert client.delete(f"/v1/snapshots/{id_}").status_code == 204
    assert upload(client, snapshot).status_code == 201


def archive_of(*names: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    return stream.getvalue()


def huge_archive(size: int) -> bytes:
    """Return an archive whose only member says that it has so many bytes."""
    member = tarfile.TarInfo("store.sqlite")
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT) + bytes(2 * tarfile.BLOCKSIZE)


def archive_with_size(field: bytes) -> bytes:
    """Return an archive whose header has the 12 bytes `field` as its member's size."""
    header = bytearray(tarfile.TarInfo("store.sqlite").tobuf(tarfile.GNU_FORMAT))
    header[124:136] = field
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + bytes(2 * tarfile.BLOCKSIZE)


def pax_archive(size: int) -> bytes:
    """Return an archive whose member has so many bytes by an extended header."""
    member = tarfile.TarInfo("store.sqlite")
    member.size = size
    return member.tobuf(tarfile.PAX_FORMAT) + bytes(2 * tarfile.BLOCKSIZE)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "cannot be read: empty file"),
        (huge_archive(2**88 - 1), "unexpected end of data; the size of 'store.sqlite' exceeds"),
        (huge_archive(2**63), "unexpected end of data; the size of 'store.sqlite' exceeds"),
        (archive_with_size(b"\xbf" + b"\xff" * 11), "cannot be read"),
        (archive_with_size(b"\xff" * 12), "is not a plain file"),
        (pax_archive(2**95), "does not belong in a snapshot"),
        (huge_archive(4096), "unexpected end of data; the size of 'store.sqlite' exceeds"),
        (b"no archive", "cannot be read"),
        (b"\x80\x04K\x01." * 500, "cannot be read"),
        (archive_of("../../evil"), "'../../evil' does not belong in a snapshot"),
        (archive_of("/etc/evil"), "'/etc/evil' does not belong in a snapshot"),
        (archive_of("snapshot.json"), "holds no store.sqlite"),
        (archive_of("store.sqlite", "snapshot.json"), "snapshot.json cannot be read"),
    ],
)
def test_a_file_that_is_no_snapshot_is_refused(
    client: httpx.Client, tmp_path: Path, raw: bytes, said: str
) -> None:
    problem = check_problem(upload(client, raw), 422, "invalid_snapshot")
    assert said in problem["detail"]
    assert str(tmp_path) not in problem["detail"]
    assert client.get("/v1/snapshots").json()["snapshots"] == []
    assert leftovers(tmp_path / "other") == []


def repacked(snapshot: bytes, name: str, content: bytes) -> bytes:
    """Return a snapshot with another file of that name, and the sha256 of the store made right."""
    with tarfile.open(fileobj=io.BytesIO(snapshot)) as archive:
        files = {item.name: archive.extractfile(item) for item in archive}
        held = {key: file.read() for key, file in files.items() if file is not None}
    held[name] = content
    record = json.loads(held["snapshot.json"])
    record["store_sha256"] = hashlib.sha256(held["store.sqlite"]).hexdigest()
    held["snapshot.json"] = json.dumps(record).encode()
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for key, raw in held.items():
            member = tarfile.TarInfo(key)
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("store.sqlite", b"no database" * 1000, "the snapshot's store is damaged: file is not a"),
        ("store.sqlite", b"", "does not have the tables of a store of this version"),
        ("encoder/weights.safetensors", b"\x80\x04K\x01.", "the snapshot's encoder: weights"),
        ("encoder/encoder.json", b"[" * 100_000, "the snapshot's encoder: encoder.json"),
    ],
)
def test_a_snapshot_that_was_tampered_with_is_refused_without_naming_places(
    *, client: httpx.Client, tmp_path: Path, snapshot: bytes, name: str, content: bytes, said: str
) -> None:
    raw = repacked(snapshot, name, content)
    detail = check_problem(upload(client, raw), 422, "invalid_snapshot")["detail"]
    assert said in detail
    job = wait_for_job(client, client.post(PATH, content=raw, headers=ASYNC))
    assert job["error"]["detail"] == detail
    assert str(tmp_path) not in detail
    assert client.get("/v1/snapshots").json()["snapshots"] == []


def test_a_file_that_changed_on_its_way_is_refused(
    client: httpx.Client, tmp_path: Path, snapshot: bytes
) -> None:
    digest = hashlib.sha256(snapshot).hexdigest()
    changed = bytearray(snapshot)
    changed[len(changed) // 2] ^= 1
    for headers in (TAR, ASYNC):
        query = {"sha256": digest}
        refused = client.post(PATH, content=bytes(changed), headers=headers, params=query)
        problem = check_problem(refused, 422, "invalid_snapshot")
        assert digest in problem["detail"]
    check_problem(upload(client, bytes(changed)), 422, "invalid_snapshot")
    check_problem(upload(client, snapshot, sha256="A" * 64), 422, "invalid_request")
    assert leftovers(tmp_path / "other") == []


def test_limits_of_an_upload(tmp_path: Path, snapshot: bytes) -> None:
    limit = Settings(max_snapshot_bytes=len(snapshot) - 1, max_body_bytes=100)
    with running_service(tmp_path / "data", limit) as client:
        check_problem(upload(client, snapshot), 413, "body_too_large")
        pieces = (snapshot[at : at + 4096] for at in range(0, len(snapshot), 4096))
        refused = client.post(PATH, content=pieces, headers=TAR)
        check_problem(refused, 413, "body_too_large")
        assert leftovers(tmp_path / "data") == []
        for headers in ({}, {"content-type": "application/json"}):
            refused = client.post(PATH, content=b"{}", headers=headers)
            check_problem(refused, 415, "unsupported_media_type")
    with running_service(tmp_path / "data", Settings(max_snapshot_bytes=len(snapshot))) as client:
        assert upload(client, snapshot).status_code == 201


def test_an_upload_may_take_longer_than_an_answer(tmp_path: Path, snapshot: bytes) -> None:
    """Every part of it has the time that an answer has."""
    with_longer_limits(lambda seconds: check_slow_uploads(tmp_path, snapshot, seconds), 0.6)


def check_slow_uploads(path: Path, snapshot: bytes, seconds: float) -> None:
    with running_service(path / str(seconds), Settings(request_timeout=seconds)) as client:
        assert client.base_url.port is not None
        head = (
            f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-tar\r\n"
            f"Content-Length: {len(snapshot)}\r\nConnection: close\r\n\r\n"
        )
        address = ("127.0.0.1", client.base_url.port)
        with socket.create_connection(address, timeout=120) as connection:
            connection.sendall(head.encode())
            for part in range(8):
                time.sleep(seconds / 3)
                connection.sendall(snapshot[part * 1000 : part * 1000 + 1000])
            connection.sendall(snapshot[8000:])
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        assert answer.startswith(b"HTTP/1.1 201 ")
        with socket.create_connection(address, timeout=120) as connection:
            connection.sendall(head.encode() + snapshot[:1000])
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert answer.count(b"HTTP/1.1") == 1


def test_an_upload_that_breaks_off_leaves_nothing(
    client: httpx.Client, tmp_path: Path, snapshot: bytes
) -> None:
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-tar\r\n"
        f"Content-Length: {len(snapshot)}\r\n\r\n"
    )
    assert client.base_url.port is not None
    with socket.create_connection(("127.0.0.1", client.base_url.port), timeout=120) as connection:
        connection.sendall(head.encode() + snapshot[:50_000])
    deadline = time.monotonic() + 120
    while leftovers(tmp_path / "other") or any((tmp_path / "other" / "jobs").glob("*.partial")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert client.get("/v1/snapshots").json()["snapshots"] == []


def test_a_download_ignores_a_body_even_one_that_is_compressed(
    client: httpx.Client, snapshot: bytes
) -> None:
    made = upload(client, snapshot).json()
    path = f"/v1/snapshots/{made['id']}/file"
    for headers in ({}, {"Content-Encoding": "gzip"}):
        response = client.request("GET", path, content=b"body", headers=headers)
        assert response.status_code == 200
        assert response.content == snapshot
