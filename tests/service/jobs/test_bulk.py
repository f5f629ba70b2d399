from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from hummingbit.index.catalog import AddAlias
from hummingbit.index.data_folder import DataFolder
from hummingbit.service.concurrency import WriteGate
from hummingbit.service.http.problems import ProblemError
from hummingbit.service.jobs.bulk import BulkOptions, BulkWriter
from hummingbit.service.settings import Settings
from tests.support.service import (
    check_problem,
    client_of,
    make_data_folder,
    running_service,
    wait_for_job,
)

LINES = {"content-type": "application/x-ndjson"}
CODE = "a5a5a5a5"


def bulk(
    client: httpx.Client,
    path: str,
    lines: list[Any],
    headers: dict[str, str] | None = None,
    **query: Any,
) -> httpx.Response:
    content = "".join(json.dumps(line) + "\n" for line in lines)
    return client.post(
        f"{path}/documents:bulk",
        content=content,
        headers={**LINES, **(headers or {})},
        params=query,
    )


@pytest.fixture
def path(make_collection: Callable[..., str]) -> str:
    documents = [{"id": "a", "text": "apple"}, {"id": "b", "text": "bread", "payload": {"n": 1}}]
    return make_collection(documents, encoder="words")


@pytest.fixture
def fingerprint(client: httpx.Client) -> str:
    found: str = client.get("/v1/encoders/words").json()["fingerprint"]
    return found


def test_what_is_unchanged_is_passed_over(client: httpx.Client, path: str) -> None:
    same = [{"id": "a", "text": "apple"}, {"id": "b", "text": "bread", "payload": {"n": 1}}]
    before = client.get(path).json()["generation"]
    found = bulk(client, path, same, skip_unchanged=True).json()
    assert (found["received"], found["written"], found["unchanged"]) == (2, 0, 2)
    assert found["generation"] == before == client.get(path).json()["generation"]
    changed = [same[0], {"id": "b", "text": "bread", "payload": {"n": 2}}, {"id": "c", "text": ""}]
    found = bulk(client, path, changed, skip_unchanged=True).json()
    assert (found["written"], found["unchanged"], found["failed"]) == (2, 1, 0)
    assert client.get(f"{path}/documents/b").json()["payload"] == {"n": 2}
    found = bulk(client, path, changed).json()
    assert (found["written"], found["unchanged"]) == (3, 0)


def test_what_a_line_repeats_of_an_invalid_id_or_field_is_cut(
    client: httpx.Client, path: str
) -> None:
    long = "x" * 200_000
    lines = [{"id": long, "text": "a"}, {"id": "b", "text": "a", long: 1}]
    found = bulk(client, path, lines)
    assert len(found.content) < 10_000
    first, second = found.json()["errors"]
    assert (first["line"], first["id"]) == (1, "x" * 512)
    assert (second["line"], second["id"]) == (2, "b")
    job = wait_for_job(client, bulk(client, path, lines, {"Prefer": "respond-async"}))
    assert job["result"]["errors"] == [first, second]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"id": "b", "text": "' + b"a " * 4_200_000 + b'"}', "8,400,023 bytes"),
        (b'{"id": "b", "vector": [' + b"0," * 300_000 + b"0]}", "300,001 commas"),
    ],
)
def test_a_line_beyond_the_limit_is_refused_and_no_other(
    client: httpx.Client, path: str, line: bytes, message: str
) -> None:
    lines = [b'{"id": "a", "text": "one"}', line, b'{"id": "c", "text": "three"}', b""]
    found = client.post(f"{path}/documents:bulk", content=b"\n".join(lines), headers=LINES).json()
    assert (found["received"], found["written"], found["failed"]) == (3, 2, 1)
    (error,) = found["errors"]
    assert (error["line"], error["status"], error["code"]) == (2, 413, "line_too_large")
    assert message in error["detail"]


def test_the_last_of_two_lines_stays_also_if_it_is_the_unchanged_one(
    client: httpx.Client, path: str
) -> None:
    lines = [{"id": "a", "text": "other"}, {"id": "a", "text": "apple"}]
    found = bulk(client, path, lines, skip_unchanged=True).json()
    assert (found["written"], found["unchanged"]) == (2, 0)
    assert client.get(f"{path}/documents/a").json()["text"] == "apple"


def test_to_create_only_and_to_pass_over_what_is_unchanged(client: httpx.Client, path: str) -> None:
    lines = [{"id": "a", "text": "apple"}, {"id": "b", "text": "x"}, {"id": "c", "text": "y"}]
    found = bulk(client, path, lines, {"If-None-Match": "*"}, skip_unchanged=True).json()
    assert (found["written"], found["unchanged"], found["failed"]) == (1, 1, 1)
    assert found["errors"][0]["id"] == "b"


def test_a_code_beside_a_text_is_kept(client: httpx.Client, path: str, fingerprint: str) -> None:
    lines = [
        {"id": "coded", "text": "apple", "code": CODE.upper()},
        {"id": "plain", "text": "apple"},
        {"id": "only", "code": "00ff00ff"},
    ]
    assert bulk(client, path, lines).json()["failed"] == 0
    found = bulk(client, path, lines, encoder_fingerprint=fingerprint).json()
    assert (found["written"], found["failed"]) == (3, 0)
    codes = [client.get(f"{path}/documents/{id_}").json()["code"] for id_ in ("coded", "only")]
    assert codes == [CODE, "00ff00ff"]
    assert client.get(f"{path}/documents/plain").json()["code"] != CODE
    search = client.post(f"{path}/search", json={"code": CODE, "radius": 0}).json()
    assert [hit["id"] for hit in search["hits"]] == ["coded"]


@pytest.mark.parametrize(
    ("line", "pointer"),
    [
        ({"id": "x", "text": "apple", "code": "a5"}, "/code"),
        ({"id": "x", "text": "apple", "code": 5}, "/code"),
        ({"id": "x", "text": "apple", "code": "zz" * 4}, "/code"),
        ({"id": 7, "text": "apple", "code": CODE}, "/id"),
        ({"id": "x", "text": "apple", "vector": [1.0], "code": CODE}, "/vector"),
        ({"id": "x", "vector": [1.0], "code": CODE}, "/vector"),
    ],
)
def test_a_code_that_cannot_be_beside_a_text(
    client: httpx.Client, path: str, fingerprint: str, line: dict[str, Any], pointer: str
) -> None:
    found = bulk(client, path, [line], encoder_fingerprint=fingerprint).json()
    assert found["written"] == 0
    (error,) = found["errors"]
    assert (error["status"], error["errors"][0]["pointer"]) == (422, pointer)


def test_options_of_a_job(client: httpx.Client, path: str, fingerprint: str) -> None:
    lines = [{"id": "a", "text": "apple"}, {"id": "d", "text": "jam", "code": CODE}]
    headers = {"Prefer": "respond-async", "Idempotency-Key": f"of {path}"}
    query = {"encoder_fingerprint": fingerprint, "skip_unchanged": True}
    job = wait_for_job(client, bulk(client, path, lines, headers, **query))
    assert (job["result"]["written"], job["result"]["unchanged"]) == (1, 1)
    assert client.get(f"{path}/documents/d").json()["code"] == CODE
    assert wait_for_job(client, bulk(client, path, lines, headers, **query))["id"] == job["id"]
    other = bulk(client, path, lines, headers, encoder_fingerprint=fingerprint)
    check_problem(other, 422, "idempotency_key_reused")


def test_an_alias_that_moves_to_another_encoder_ends_a_bulk_request(tmp_path: Path) -> None:
    with DataFolder(make_data_folder(tmp_path), writable=True) as folder:
        words = folder.create_collection("words", encoder="words")
        folder.create_collection("codes", n_bits=32)
        folder.change_aliases([AddAlias("mine", "words")])
        options = BulkOptions(encoder_fingerprint=words.encoder_fingerprint)
        writer = BulkWriter(folder, WriteGate(), "mine", Settings(), options)
        writer.write([json.dumps({"id": "a", "code": CODE}).encode()])
        folder.change_aliases([AddAlias("mine", "codes")])
        with pytest.raises(ProblemError) as caught:
            writer.write([json.dumps({"id": "b", "code": CODE}).encode()])
        assert (caught.value.status_code, caught.value.code) == (409, "encoder_mismatch")
        assert len(folder.collection("codes")) == 0


def test_jobs_are_done_while_other_collections_are_dropped(
    client: httpx.Client, make_collection: Callable[..., str]
) -> None:
    path, other = make_collection(n_bits=32), "/v1/collections/dropped-again-and-again"
    lines = [{"id": f"d{i}", "code": CODE} for i in range(3000)]
    done = threading.Event()

    def create_and_drop() -> int:
        with client_of(str(client.base_url)) as own:
            count = 0
            while not done.is_set():
                assert own.put(other, json={"n_bits": 32}).status_code == 201
                assert own.delete(other).status_code == 204
                count += 1
            return count

    with ThreadPoolExecutor(2) as pool:
        dropping = pool.submit(create_and_drop)
        try:
            headers = {"prefer": "respond-async"}
            accepted = [bulk(client, path, lines, headers) for _ in range(15)]
            jobs = [wait_for_job(client, item) for item in accepted]
        finally:
            done.set()
        assert dropping.result() > 3
    assert [job["error"] for job in jobs] == [None] * 15
    assert {job["result"]["written"] for job in jobs} == {3000}


def test_a_job_reads_no_other_collection(tmp_path: Path) -> None:
    with DataFolder(make_data_folder(tmp_path), writable=True) as folder:
        folder.create_collection("blue", n_bits=32)
        other = folder.create_collection("other", n_bits=32)
        with running_service(folder) as client:
            move = {"actions": [{"add": {"alias": "books", "collection": "blue"}}]}
            client.post("/v1/aliases", json=move).raise_for_status()
            other.close()  # whoever reads it meets an error, as when it is dropped at that moment
            lines = [{"id": f"d{i}", "code": CODE} for i in range(2500)]
            accepted = bulk(client, "/v1/collections/books", lines, {"prefer": "respond-async"})
            job = wait_for_job(client, accepted)
            assert (job["error"], job["result"]["written"]) == (None, 2500)
            assert folder.collection("blue").read_bookmark(job["id"]) is None
