"""A service whose files are harmed says so and acknowledges nothing that would be lost."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import httpx
import pytest

from hummingbit.cli import main
from hummingbit.index.data_folder import DataFolder
from hummingbit.service.jobs import runner
from hummingbit.service.jobs.bulk import BulkWriter
from tests.support.collections import code_documents
from tests.support.faults.disks import fill, make_read_only, small_disk
from tests.support.service import (
    check_problem,
    client_of,
    running_service,
    serving_process,
    wait_for_job,
)

WRITES = 12
DOCUMENTS = {"documents": [{"id": "x", "code": "ffff"}]}
NO_SUCH = "unknown_collection"
PATH = "/v1/collections/c/documents"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Return a data folder that was killed and whose log has a flipped byte since."""
    with DataFolder(tmp_path / "running", writable=True) as folder:
        collection = folder.create_collection("c", n_bits=16)
        for step in range(WRITES):
            collection.upsert(code_documents(["ffff"], prefix=f"{step}-"))
        data = shutil.copytree(tmp_path / "running", tmp_path / "killed")
    (log,) = data.glob("collections/*/store.sqlite-wal")
    raw = bytearray(log.read_bytes())
    raw[len(raw) // 2] ^= 1
    log.write_bytes(raw)
    return data


def test_lost_writes_are_said_and_nothing_is_written_over_them(damaged: Path) -> None:
    with (damaged.parent / "log").open("w+") as log:
        with serving_process(damaged, stderr=log) as (process, address):
            process.terminate()
            process.wait()
        log.seek(0)
        assert "acknowledged writes are missing" in log.read()
        assert address
    with running_service(damaged) as client:
        problem = check_problem(client.get("/readyz"), 503, "not_ready")
        (reason,) = problem["unwritable"]["c"]
        assert reason.endswith("its write-ahead log was damaged or deleted")
        assert str(damaged) not in reason
        problem = check_problem(client.put(PATH, json=DOCUMENTS), 503, "storage_failed")
        assert "lost acknowledged writes" in problem["detail"]
        verified = client.post("/v1/collections/c/verify").json()
        assert verified["problems"] == [reason]
        search = client.post("/v1/collections/c/search", json={"code": "ffff", "limit": 100})
        assert len(search.json()["hits"]) == verified["documents"] > 0


def test_the_command_line_says_it_and_accepts_it(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verify = ["index", "verify", "c", "--data-dir", str(damaged)]
    assert main(verify) == 1
    assert "acknowledged writes are missing" in capsys.readouterr().err
    assert main([*verify, "--accept-loss"]) == 0
    assert main(verify) == 0
    with running_service(damaged) as client:
        assert client.get("/readyz").status_code == 200
        assert client.put(PATH, json=DOCUMENTS).json()["generation"] == WRITES + 2


def test_a_loss_is_not_accepted_of_a_service(capsys: pytest.CaptureFixture[str]) -> None:
    url = ["--url", "http://127.0.0.1:1"]
    assert main(["index", "verify", "c", "--accept-loss", *url]) == 2
    assert "stop the service" in capsys.readouterr().err


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path) as disk:
        yield disk


def test_a_full_disk_is_said(disk: Path) -> None:
    with running_service(disk / "data") as client:
        client.put("/v1/collections/c", json={"n_bits": 16})
        assert client.put(PATH, json=DOCUMENTS).status_code == 200
        fill(disk / "ballast", leave=0)
        problem = check_problem(
            client.put("/v1/collections/new", json={"n_bits": 16}), 503, "storage_failed"
        )
        assert problem["detail"] == "the disk is full; nothing was written"
        documents = [
            {"id": f"d{i}", "code": "00ff", "payload": {"x": "x" * 500}} for i in range(2000)
        ]
        problem = check_problem(
            client.put(PATH, json={"documents": documents}), 503, "storage_failed"
        )
        assert problem["detail"] == "the disk is full; nothing was written"
        check_problem(client.put("/v1/collections/no/documents", json=DOCUMENTS), 404, NO_SUCH)
        (disk / "ballast").unlink()
        assert client.put("/v1/collections/new", json={"n_bits": 16}).status_code == 201
        assert client.put(PATH, json=DOCUMENTS).json()["generation"] == 2
    assert len(list((disk / "data" / "collections").iterdir())) == 2


@pytest.mark.parametrize(("flags", "gone"), [((), ""), (("--workers", "2"), "jobs")])
def test_a_service_that_was_killed_starts_on_a_full_disk(
    disk: Path, flags: tuple[str, ...], gone: str
) -> None:
    """Reads are answered; once there is space, writes and the jobs that waited go on."""
    data = disk / "data"
    lines = "\n".join(json.dumps({"id": f"b{at}", "code": "00ff"}) for at in range(5000))
    sent = {"prefer": "respond-async", "content-type": "application/x-ndjson"}
    with serving_process(data) as (process, address), client_of(address) as client:
        assert client.put("/v1/collections/c", json={"n_bits": 16}).status_code == 201
        assert client.put(PATH, json=DOCUMENTS).status_code == 200
        accepted = client.post(f"{PATH}:bulk", content=lines, headers=sent)
        assert accepted.status_code == 202
        process.kill()
        process.wait()
    if gone:
        # As in a data folder that no service has served.
        shutil.rmtree(data / gone)
    fill(disk / "ballast", leave=0)
    with serving_process(data, *flags) as (process, address), client_of(address) as client:
        problem = check_problem(client.get("/readyz"), 503, "not_ready")
        assert problem["detail"] == "the disk is full, so nothing can be written"
        assert client.get("/livez").status_code == 200
        assert client.get(f"{PATH}/x").json()["code"] == "ffff"
        found = client.post("/v1/collections/c/search", json={"code": "ffff", "limit": 1}).json()
        assert [hit["id"] for hit in found["hits"]] == ["x"]
        check_problem(client.put(PATH, json=DOCUMENTS), 503, "storage_failed")
        check_problem(client.post("/v1/collections/c/map", json={}), 503, "storage_failed")
        (disk / "ballast").unlink()
        assert client.get("/readyz").status_code == 200
        assert client.put(PATH, json=DOCUMENTS).status_code == 200
        if gone:
            assert client.get("/v1/jobs").json() == {"jobs": []}
        else:
            assert wait_for_job(client, accepted)["state"] == "done"
            assert client.post(f"{PATH}:count", json={}).json()["count"] == 5001
        process.terminate()
        process.wait()


def test_an_accepted_job_waits_for_space_on_the_disk_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "SECONDS_BETWEEN_ATTEMPTS", 0.05)
    write, begun, may_go_on = BulkWriter.write, threading.Event(), threading.Event()

    def write_when_the_disk_is_full(writer: BulkWriter, some: Iterable[bytes]) -> None:
        if writer.result.received >= 2000:
            begun.set()
            assert may_go_on.wait(60)
        write(writer, some)

    monkeypatch.setattr(BulkWriter, "write", write_when_the_disk_is_full)
    n, n_bad = 6000, 50
    lines = [
        json.dumps({"id": f"d{i}", "code": "00ff", "payload": {"x": f"{i} " * 100}})
        for i in range(n)
    ]
    for position in range(0, n, n // n_bad):
        lines[position] = f"{{{position}"
    sent = {"prefer": "respond-async", "content-type": "application/x-ndjson"}
    sent["idempotency-key"] = "monday"
    with small_disk(tmp_path, 32) as disk, running_service(disk / "data") as client:
        client.put("/v1/collections/c", json={"n_bits": 16}).raise_for_status()
        body = "\n".join(lines).encode()

        def submit() -> httpx.Response:
            return client.post(f"{PATH}:bulk", content=body, headers=sent)

        accepted = submit()
        assert begun.wait(60)
        fill(disk / "ballast", leave=256 << 10)
        may_go_on.set()
        location = accepted.headers["location"]
        deadline = time.monotonic() + 60
        while "full" not in str((job := client.get(location).json())["progress"]["step"]):
            assert job["finished"] is None, job
            assert time.monotonic() < deadline, job
            time.sleep(0.02)
        check_problem(submit(), 503, "storage_failed")
        check_problem(client.get("/readyz"), 503, "not_ready")
        (disk / "ballast").unlink()
        done = wait_for_job(client, accepted)
        assert done["state"] == "done", done
        assert done["attempts"] > 1
        assert done["result"]["written"] == n - n_bad
        assert [error["line"] for error in done["result"]["errors"]] == [
            position + 1 for position in range(0, n, n // n_bad)
        ]
        assert client.post(f"{PATH}:count", json={}).json()["count"] == n - n_bad
        assert submit().json()["id"] == job["id"]


def test_a_read_only_file_system_is_said_and_served_read_only(
    disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with DataFolder(disk / "data", writable=True) as folder:
        folder.create_collection("c", n_bits=16).upsert(code_documents(["ffff"]))
    make_read_only(disk)
    assert main(["serve", "--port", "0", "--data-dir", str(disk / "data")]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"hummingbit: {disk / 'data'}: cannot be written: Read-only file system")
    assert said.endswith("; to serve it without writing, use --read-only\n")
    with (
        serving_process(disk / "data", "--read-only") as (_, address),
        client_of(address) as client,
    ):
        found = client.post("/v1/collections/c/search", json={"code": "ffff"}).json()
        assert [hit["id"] for hit in found["hits"]] == ["d0"]


@pytest.mark.parametrize("what", ["collections/*/store.sqlite", "collections/*", "collections"])
def test_what_is_deleted_under_the_service_is_not_written_to(tmp_path: Path, what: str) -> None:
    with running_service(tmp_path) as client:
        client.put("/v1/collections/c", json={"n_bits": 16})
        assert client.put(PATH, json=DOCUMENTS).status_code == 200
        (gone,) = tmp_path.glob(what)
        gone.rename(tmp_path / "moved")
        for response in (
            client.put(PATH, json=DOCUMENTS),
            client.post("/v1/collections/c/documents:delete", json={"ids": ["x"]}),
            client.post("/v1/collections/c/compact"),
        ):
            problem = check_problem(response, 503, "storage_failed")
            assert "were deleted or replaced while the service ran" in problem["detail"]
        problem = check_problem(client.get("/readyz"), 503, "not_ready")
        assert "was deleted while it was open" in problem["unwritable"]["c"][0]
        verified = client.post("/v1/collections/c/verify", headers={"Prefer": "respond-async"})
        for found in (
            client.get("/v1/collections/c/stats").json(),
            client.post("/v1/collections/c/verify").json(),
            wait_for_job(client, verified)["result"],
        ):
            (problem,) = found["problems"]
            assert "was deleted while it was open" in problem
            assert str(tmp_path) not in problem
        found = client.post("/v1/collections/c/search", json={"code": "ffff"}).json()
        assert [hit["id"] for hit in found["hits"]] == ["x"]
    # Nothing was lost by the refusal.
    (tmp_path / "moved").rename(gone)
    with running_service(tmp_path) as client:
        assert client.get("/readyz").status_code == 200
        assert client.put(PATH, json=DOCUMENTS).json()["generation"] == 2
