from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from fastapi import Request
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message

from hummingbit.corpus.document import MAX_ID_LENGTH
from hummingbit.service.routes import documents
from tests.support.service import check_problem, send

NDJSON = {"content-type": "application/x-ndjson"}
MakeCollection = Callable[..., str]


def bulk(client: httpx.Client, path: str, *lines: object, **headers: str) -> httpx.Response:
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    content = b"\n".join(raw)
    return client.post(f"{path}/documents:bulk", content=content, headers=NDJSON | named)


def code_documents(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [
        {"id": f"d{at}", "code": f"{at:04x}", "payload": {"at": at, "even": at % 2 == 0}}
        for at in range(start, start + count)
    ]


def scrolled(client: httpx.Client, path: str, **body: Any) -> list[str]:
    ids: list[str] = []
    cursor = None
    while True:
        page = send(client, "POST", f"{path}/documents:scroll", {**body, "cursor": cursor})
        answer = page.raise_for_status().json()
        ids += [document["id"] for document in answer["documents"]]
        cursor = answer["next_cursor"]
        if cursor is None:
            return ids


def test_lines_are_taken_or_refused_each_by_itself(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection(n_bits=16)
    response = bulk(
        client,
        path,
        {"id": "a", "code": "00ff"},
        b"",
        b"{",
        {"id": "b", "code": "00f"},
        {"id": "c", "text": "words"},
        {"id": "d", "code": "ffff", "shoes": 1},
        b'{"id": "e", "code": "0000", "payload": {"x": NaN}}',
        [1, 2],
        {"id": "f" * 600, "code": "0000"},
        {"id": "a", "code": "0f0f", "label": "last"},
        b"\xff\xfe",
    )
    assert response.status_code == 200
    answer = response.json()
    assert (answer["received"], answer["written"], answer["failed"]) == (11, 2, 8)
    assert [(error["line"], error["id"], error["code"]) for error in answer["errors"]] == [
        (3, None, "invalid_json"),
        (4, "b", "invalid_request"),
        (5, "c", "invalid_request"),
        (6, "d", "invalid_request"),
        (7, None, "invalid_json"),
        (8, None, "invalid_request"),
        (9, "f" * MAX_ID_LENGTH, "invalid_request"),
        (11, None, "invalid_json"),
    ]
    assert answer["errors"][1]["errors"][0]["pointer"] == "/code"
    assert answer["errors_left_out"] == 0
    stored = client.get(f"{path}/documents/a").json()
    assert (stored["code"], stored["payload"]) == ("0f0f", {"label": "last"})
    assert client.get(path).json()["documents"] == 1


def test_a_long_body_is_written_as_it_comes_and_errors_are_counted(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection(n_bits=16)
    lines = [json.dumps(document).encode() for document in code_documents(3500)] + [b"bad"] * 1500

    def pieces() -> Any:
        raw = b"\n".join(lines)
        for start in range(0, len(raw), 777):
            yield raw[start : start + 777]

    answer = client.post(f"{path}/documents:bulk", content=pieces(), headers=NDJSON).json()
    assert (answer["received"], answer["written"], answer["failed"]) == (5000, 3500, 1500)
    assert (len(answer["errors"]), answer["errors_left_out"]) == (1000, 500)
    assert answer["generation"] == client.get(path).json()["generation"] == 4
    assert scrolled(client, path, limit=999) == [f"d{at}" for at in range(3500)]
    page = client.post(f"{path}/documents:scroll", json={"limit": 10_000}).json()
    assert [document["id"] for document in page["documents"]] == [f"d{at}" for at in range(3500)]
    assert page["next_cursor"] is None
    assert client.post(f"{path}/documents:scroll", json={"limit": 10_001}).status_code == 422


def test_to_create_only_refuses_what_is_there(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection(n_bits=16)
    bulk(client, path, {"id": "a", "code": "0000"})
    answer = bulk(
        client,
        path,
        {"id": "a", "code": "ffff"},
        {"id": "b", "code": "0001"},
        {"id": "b", "code": "0002"},
        If_None_Match="*",
    ).json()
    assert (answer["written"], answer["failed"]) == (1, 2)
    assert [
        (error["line"], error["id"], error["status"], error["code"]) for error in answer["errors"]
    ] == [
        (1, "a", 412, "document_exists"),
        (3, "b", 412, "document_exists"),
    ]
    assert client.get(f"{path}/documents/a").json()["code"] == "0000"
    assert client.get(f"{path}/documents/b").json()["code"] == "0001"


def test_an_upsert_that_may_only_create_is_all_or_nothing(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection([{"id": "a", "code": "0000"}], n_bits=16)
    only = {"If-None-Match": "*"}
    documents = [{"id": "b", "code": "0001"}, {"id": "a", "code": "ffff"}]
    refused = client.put(f"{path}/documents", json={"documents": documents}, headers=only)
    problem = check_problem(refused, 412, "document_exists")
    assert [error["pointer"] for error in problem["errors"]] == ["/documents/1/id"]
    assert client.get(path).json()["documents"] == 1
    assert client.get(f"{path}/documents/a").json()["code"] == "0000"
    created = client.put(f"{path}/documents", json={"documents": documents[:1]}, headers=only)
    assert created.json()["upserted"] == 1
    other = {"If-None-Match": '"etag"'}
    refused = client.put(f"{path}/documents", json={"documents": documents}, headers=other)
    check_problem(refused, 422, "invalid_request")


def test_a_payload_update_is_refused_once_the_collection_has_changed(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection([{"id": "a", "code": "0000"}], n_bits=16)
    generation = client.get(path).json()["generation"]
    update = {"updates": [{"ids": ["a"], "set": {"n": 1}}], "if_generation": generation}
    assert client.post(f"{path}/documents:payload", json=update).json()["updated"] == 1
    update["updates"] = [{"ids": ["a"], "set": {"n": 2}}]
    refused = client.post(f"{path}/documents:payload", json=update)
    check_problem(refused, 412, "generation_changed")
    assert client.get(f"{path}/documents/a").json()["payload"] == {"n": 1}


def test_of_many_that_create_one_document_at_once_one_does(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection(n_bits=16)

    def create(number: int) -> int:
        documents = [{"id": "a", "code": f"{number:04x}"}]
        only = {"If-None-Match": "*"}
        answer = client.put(f"{path}/documents", json={"documents": documents}, headers=only)
        return answer.status_code

    with ThreadPoolExecutor(8) as pool:
        statuses = sorted(pool.map(create, range(8)))
    assert statuses == [200, *[412] * 7]


def test_lines_are_written_in_the_background_once_for_each_key(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection(n_bits=16)
    lines = [*code_documents(2500), {"id": "bad"}]
    headers = {"Prefer": "respond-async", "Idempotency_Key": path}
    first = bulk(client, path, *lines, **headers)
    assert first.status_code == 202
    deadline = time.monotonic() + 120
    while (job := client.get(first.headers["location"]).json())["finished"] is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert job["state"] == "done"
    assert (job["progress"]["done"], job["progress"]["percent"]) == (2501, 100.0)
    result = job["result"]
    assert (result["received"], result["written"], result["failed"]) == (2501, 2500, 1)
    assert result["errors"][0]["line"] == 2501
    assert bulk(client, path, *lines, **headers).json() == job
    check_problem(bulk(client, path, *lines[1:], **headers), 422, "idempotency_key_reused")
    assert client.get(path).json()["documents"] == 2500


def test_a_bulk_request_that_cannot_be_is_refused(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection(n_bits=16)
    body = {"id": "a", "code": "0000"}
    check_problem(
        send(client, "POST", f"{path}/documents:bulk", body), 415, "unsupported_media_type"
    )
    check_problem(bulk(client, "/v1/collections/nope", body), 404, "unknown_collection")
    check_problem(bulk(client, path, body, If_None_Match='"x"'), 422, "invalid_request")
    check_problem(bulk(client, path, body, Idempotency_Key="k"), 422, "invalid_request")
    check_problem(bulk(client, path, b" " * (17 << 20)), 413, "body_too_large")
    assert client.get(path).json()["documents"] == 0


def test_documents_are_scrolled_counted_and_deleted_by_filter(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection(code_documents(50), n_bits=16)
    even = {"field": "even", "eq": True}
    assert scrolled(client, path, limit=7) == [f"d{at}" for at in range(50)]
    assert scrolled(client, path, limit=7, filter=even) == [f"d{at}" for at in range(0, 50, 2)]
    count = f"{path}/documents:count"
    assert send(client, "POST", count, {}).json() == {"count": 50}
    assert send(client, "POST", count, {"filter": even}).json() == {"count": 25}
    delete = f"{path}/documents:delete"
    some = {"and": [even, {"field": "at", "lt": 10}]}
    assert send(client, "POST", delete, {"filter": some}).json() == {"deleted": 5, "generation": 2}
    assert send(client, "POST", delete, {"ids": ["d0", "d1", "d1", "x"]}).json()["deleted"] == 1
    assert send(client, "POST", count, {}).json() == {"count": 44}
    none = {"filter": {"field": "Even", "eq": True}}
    warnings = ["filter: no document has the field 'Even'"]
    assert send(client, "POST", count, none).json() == {"count": 0, "warnings": warnings}
    assert send(client, "POST", delete, none).json()["warnings"] == warnings
    for body, pointer in [
        ({}, "/ids"),
        ({"ids": ["a"], "filter": even}, "/ids"),
        ({"filter": {"field": "at", "near": 1}}, "/filter"),
        ({"ids": [1]}, "/ids/0"),
    ]:
        problem = check_problem(send(client, "POST", delete, body), 422, "invalid_request")
        assert problem["errors"][0]["pointer"] == pointer
    bad_cursor = send(client, "POST", f"{path}/documents:scroll", {"cursor": "x"})
    assert check_problem(bad_cursor, 422, "invalid_request")["errors"][0]["pointer"] == "/cursor"
    assert send(client, "POST", count, {}).json() == {"count": 44}


def test_many_documents_are_got_by_their_ids(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection(code_documents(5), n_bits=16)
    known = [f"{path}/documents/{document['id']}" for document in code_documents(5)]
    first, second = (client.get(known[at]).json() for at in (3, 1))
    ids = [first["id"], "absent", second["id"], first["id"], "☃ / \0"]
    found = send(client, "POST", f"{path}/documents:get", {"ids": ids}).json()
    assert found == {"documents": [first, second], "missing": ["absent", "☃ / \0"]}
    for refused in ([], [1], ["x"] * 1001, None):
        response = send(client, "POST", f"{path}/documents:get", {"ids": refused})
        problem = check_problem(response, 422, "invalid_request")
        assert problem["errors"][0]["pointer"].startswith("/ids")


@given(st.lists(st.binary(max_size=9) | st.sampled_from([b"\n", b"a\nb"])), st.integers(1, 4))
def test_lines_are_the_bodys_however_it_comes(pieces: list[bytes], size: int) -> None:
    whole = b"".join(pieces).split(b"\n")
    expected = whole if whole[-1] else whole[:-1]
    found = asyncio.run(lines_of(pieces, size))
    assert [line for some in found for line in some] == expected
    assert all(len(some) == size for some in found[:-1])


def test_a_line_without_an_end_takes_time_in_proportion_to_its_length() -> None:
    # In proportion to the square of it, this takes minutes.
    ((line,),) = asyncio.run(lines_of([b"x" * 100] * 200_000, 1000))
    assert len(line) == 2 * 10**7


async def lines_of(pieces: Sequence[bytes], size: int) -> list[list[bytes]]:
    async def receive() -> Message:
        body = next(left, None)
        return {"type": "http.request", "body": body or b"", "more_body": body is not None}

    left = iter(pieces)
    request = Request({"type": "http"}, receive)
    return [lines async for lines in documents._lines(request, size)]


def test_listings_and_facets_warn_of_fields_that_no_document_has(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection(n_bits=16)
    assert send(client, "PUT", f"{path}/documents", {"documents": code_documents(3)}).is_success

    def listed(*fields: str) -> httpx.Response:
        sort = [{"field": field, "order": "desc"} for field in fields]
        return send(client, "POST", f"{path}/documents:scroll", {"sort": sort})

    assert "warnings" not in listed("at").json()
    assert listed("none", "at").json()["warnings"] == ["sort: no document has the field 'none'"]
    problem = check_problem(listed("-at"), 422, "invalid_request")
    assert "'at:desc'" in str(problem)
    facets = {"facets": [{"field": "even"}, {"field": "none"}]}
    counted = send(client, "POST", f"{path}/facets", facets).json()
    assert counted["warnings"] == ["facets: no document has the field 'none'"]
