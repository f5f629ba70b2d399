"""Whatever comes in, the answer is a 4xx that says why, and nothing has changed."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hummingbit.service.settings import Settings
from tests.support.service import check_problem, make_data_folder, running_service, send

JSON = {"content-type": "application/json"}

LONG_TEXT = json.dumps("a" * 10_000_000)
DEEP = "[" * 100_000
DEEP_PAYLOAD = '{"a":' * 80 + "1" + "}" * 80

BAD_SEARCHES = {
    "no body": ("", 422),
    "not JSON": ('{"text": "a"', 400),
    "a trailing comma": ('{"text": "a",}', 400),
    "two values": ('{"text": "a"} {}', 400),
    "an array": ("[]", 422),
    "null": ("null", 422),
    "a number": ("7", 422),
    "NaN": ('{"vector": [NaN]}', 400),
    "Infinity": ('{"vector": [Infinity]}', 400),
    "minus Infinity": ('{"vector": [-Infinity]}', 400),
    "beyond a double": ('{"vector": [1e999]}', 422),
    "beyond a double, elsewhere": ('{"text": "a", "limit": 1e999}', 422),
    "a key twice": ('{"text": "a", "text": "b"}', 400),
    "too deep": (DEEP, 400),
    "lists deeper than parsers go": ('{"vector": ' + "[" * 9000 + "]" * 9000 + "}", 400),
    "deep where text belongs": ('{"text": ' + "[" * 90 + "]" * 90 + "}", 422),
    "a huge integer": ('{"text": "a", "limit": ' + "9" * 5000 + "}", 400),
    "the largest integer": ('{"text": "a", "limit": ' + "9" * 4300 + "}", 422),
    "a large integer": ('{"text": "a", "limit": ' + "9" * 400 + "}", 422),
    "a large integer in a vector": ('{"vector": [' + "9" * 400 + "]}", 422),
    "a lone surrogate": ('{"text": "\\ud800"}', 422),
    "a lone surrogate in a key": ('{"\\ud800": 1}', 422),
    "a lone surrogate in a code": ('{"code": "\\ud800"}', 422),
    "nothing to search for": ("{}", 422),
    "null to search for": ('{"text": null}', 422),
    "a vector for a text encoder": ('{"vector": [1, 2, 3, 4, 5, 6]}', 422),
    "an empty vector": ('{"vector": []}', 422),
    "a nested vector": ('{"vector": [[1]]}', 422),
    "truth in a vector": ('{"vector": [true]}', 422),
    "a number as text": ('{"text": 1}', 422),
    "a short code": ('{"code": "00"}', 422),
    "a code that is not hexadecimal": ('{"code": "0000000g"}', 422),
    "k = 0": ('{"text": "a", "limit": 0}', 422),
    "k = -1": ('{"text": "a", "limit": -1}', 422),
    "k = 10 ** 9": ('{"text": "a", "limit": 1000000000}', 422),
    "k is a fraction": ('{"text": "a", "limit": 1.5}', 422),
    "k is true": ('{"text": "a", "limit": true}', 422),
    "k is text": ('{"text": "a", "limit": "10"}', 422),
    "a negative radius": ('{"text": "a", "radius": -1}', 422),
    "a radius beyond the bits": ('{"text": "a", "radius": 33}', 422),
    "a payload flag that is a number": ('{"text": "a", "with_payload": 1}', 422),
    "a field that is none": ('{"text": "a", "top_k": 3}', 422),
    "a text of 10 MB": ('{"text": ' + LONG_TEXT + "}", 413),
}

GOOD = '{"id": "good", "text": "apple"}'
BAD_DOCUMENTS = {
    "no documents": ("", 422),
    "no id": ('{"text": "a"}', 422),
    "an empty id": ('{"id": "", "text": "a"}', 422),
    "a long id": (json.dumps({"id": "x" * 513, "text": "a"}), 422),
    "a number as id": ('{"id": 1, "text": "a"}', 422),
    "a lone surrogate in the id": ('{"id": "\\udfff", "text": "a"}', 422),
    "NUL in the id": ('{"id": "\\u0000", "text": "a"}', 422),
    "no content": ('{"id": "a"}', 422),
    "a vector for a text encoder": ('{"id": "a", "vector": [1]}', 422),
    "a short code": ('{"id": "a", "code": "00"}', 422),
    "a lone surrogate in the text": ('{"id": "a", "text": "\\ud800"}', 422),
    "a text of 10 MB": ('{"id": "a", "text": ' + LONG_TEXT + "}", 422),
    "a payload that is no object": ('{"id": "a", "text": "a", "payload": [1]}', 422),
    "NaN in the payload": ('{"id": "a", "text": "a", "payload": {"x": NaN}}', 400),
    "beyond a double in the payload": ('{"id": "a", "text": "a", "payload": {"x": 1e999}}', 422),
    "a deep payload": ('{"id": "a", "text": "a", "payload": ' + DEEP_PAYLOAD + "}", 422),
    "a lone surrogate in the payload": (
        '{"id": "a", "text": "a", "payload": {"x": ["\\ud800"]}}',
        422,
    ),
    "a lone surrogate in a key of the payload": (
        '{"id": "a", "text": "a", "payload": {"\\ud800": 1}}',
        422,
    ),
    "a key twice in the payload": ('{"id": "a", "text": "a", "payload": {"x": 1, "x": 2}}', 400),
    "a number as label": ('{"id": "a", "text": "a", "label": 1}', 422),
    "label and labels": ('{"id": "a", "text": "a", "label": "x", "labels": ["y"]}', 422),
    "a field that is none": ('{"id": "a", "text": "a", "title": "A"}', 422),
}


@pytest.fixture(scope="module")
def words(make_collection: Callable[..., str]) -> str:
    return make_collection([{"id": "one", "text": "apple bread"}], encoder="words")


@pytest.fixture
def unchanged(client: httpx.Client, words: str) -> Iterator[None]:
    before = client.get(words).json()
    yield
    assert client.get(words).json() == before


def check_refusal(response: httpx.Response, status: int) -> dict[str, Any]:
    code = {400: "invalid_json", 413: "body_too_large", 422: "invalid_request"}[status]
    problem = check_problem(response, status, code)
    assert len(problem["detail"]) < 500
    assert "Traceback" not in problem["detail"]
    return problem


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("case", BAD_SEARCHES)
def test_bad_searches(client: httpx.Client, words: str, case: str) -> None:
    body, status = BAD_SEARCHES[case]
    check_refusal(send(client, "POST", f"{words}/search", body.encode()), status)
    if body:
        batch = f'{{"searches": [{{"text": "a"}}, {body}]}}'
        expected = 400 if case == "two values" else status
        check_refusal(send(client, "POST", f"{words}/search/batch", batch.encode()), expected)


def test_a_byte_order_mark_before_a_body_is_ignored(client: httpx.Client, words: str) -> None:
    body = '\ufeff{"text": "apple"}'.encode()
    assert send(client, "POST", f"{words}/search", body).json()["hits"][0]["id"] == "one"


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("case", BAD_DOCUMENTS)
def test_bad_documents_and_the_good_one_beside_them(
    client: httpx.Client, words: str, case: str
) -> None:
    body, status = BAD_DOCUMENTS[case]
    listed = f"{GOOD}, {body}" if body else ""
    documents = f'{{"documents": [{listed}]}}'
    problem = check_refusal(send(client, "PUT", f"{words}/documents", documents.encode()), status)
    if status == 422:
        assert problem["errors"][0]["pointer"].startswith("/documents")


@pytest.mark.parametrize("length", [0, 5, 7])
def test_vectors_of_another_length(
    client: httpx.Client, make_collection: Callable[..., str], length: int
) -> None:
    path, vector = make_collection(encoder="numbers"), [0.5] * length
    problem = check_refusal(client.post(f"{path}/search", json={"vector": vector}), 422)
    assert problem["errors"][0]["pointer"] == "/vector"
    document = {"id": "a", "vector": vector}
    check_refusal(client.put(f"{path}/documents", json={"documents": [document]}), 422)
    encode = client.post(f"{path}/encode", json={"inputs": [{"vector": vector}]})
    assert check_refusal(encode, 422)["errors"][0]["pointer"] == "/inputs/0/vector"
    assert client.get(path).json()["generation"] == 0


def test_pointers_lead_to_what_is_wrong(client: httpx.Client, words: str) -> None:
    body = {"searches": [{"text": "a"}, {"text": "a", "limit": 0, "a/b~c": 1}]}
    problem = check_refusal(client.post(f"{words}/search/batch", json=body), 422)
    pointers = {error["pointer"] for error in problem["errors"]}
    assert pointers == {"/searches/1/limit", "/searches/1/a~1b~0c"}
    body = {"searches": [{"text": "a"}, {"text": "a", "radius": 33}]}
    problem = check_refusal(client.post(f"{words}/search/batch", json=body), 422)
    assert problem["errors"][0]["pointer"] == "/searches/1/radius"
    body = {"searches": [{"text": "a"}, {"code": "0"}]}
    problem = check_refusal(client.post(f"{words}/search/batch", json=body), 422)
    assert problem["errors"][0]["pointer"] == "/searches/1/code"


def test_bodies_that_do_not_say_they_are_json(client: httpx.Client, words: str) -> None:
    for headers in ({}, {"content-type": "text/plain"}, {"content-type": "application/x-json5"}):
        response = client.post(f"{words}/search", content=b'{"text": "a"}', headers=headers)
        check_problem(response, 415, "unsupported_media_type")
    headers = {"content-type": "application/vnd.x+json; charset=utf-8"}
    response = client.post(f"{words}/search", content=b'{"text": "a"}', headers=headers)
    assert response.status_code == 200


def test_compressed_bodies_are_refused(client: httpx.Client, words: str) -> None:
    before = client.get(words).json()
    for path, kind, plain in (
        (f"{words}/search", "application/json", b'{"text": "a"}'),
        (f"{words}/documents:bulk", "application/x-ndjson", b'{"id": "new", "text": "a"}'),
    ):
        for coding, body in (("gzip", gzip.compress(plain)), ("br", plain)):
            for prefer in ("", "respond-async"):
                sent = {"Content-Type": kind, "Content-Encoding": coding, "Prefer": prefer}
                response = client.post(path, content=body, headers=sent)
                problem = check_problem(response, 415, "unsupported_media_type")
                assert problem["detail"] == (
                    f"Content-Encoding is {coding!r}; send the body uncompressed"
                )
                assert response.headers["accept-encoding"] == "identity"
    sent = {**JSON, "Content-Encoding": "identity"}
    found = client.post(f"{words}/search", content=b'{"text": "a"}', headers=sent)
    assert found.status_code == 200
    assert client.get(words, headers={"Content-Encoding": "gzip"}).json() == before


def test_bytes_that_are_not_utf8(client: httpx.Client, words: str) -> None:
    for raw in (b'{"text": "\xff"}', '{"text": "a"}'.encode("utf-16")):
        response = client.post(f"{words}/search", content=raw, headers=JSON)
        check_refusal(response, 400)


def test_places_and_methods_that_are_not_there(client: httpx.Client, words: str) -> None:
    for path in ("/nope", "/v1", "/v1/collections/", f"{words}/nope", "/docs/nope"):
        check_problem(client.get(path), 404, "not_found")
    response = client.post(words)
    check_problem(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "DELETE, GET, HEAD, PATCH, PUT"
    for method, path in (
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/documents/a"),
        ("DELETE", "/documents/a"),
    ):
        response = client.request(method, f"/v1/collections/never{path}")
        check_problem(response, 404, "unknown_collection")
    for path, body in (
        ("search", {"text": "a"}),
        ("search/batch", {"searches": [{"text": "a"}]}),
        ("encode", {"inputs": [{"text": "a"}]}),
        ("evaluate", {"queries": [{"text": "a", "label": "x"}]}),
    ):
        response = client.post(f"/v1/collections/never/{path}", json=body)
        check_problem(response, 404, "unknown_collection")


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST", "PUT"])
def test_a_path_that_clients_would_resolve_is_refused(
    client: httpx.Client, words: str, method: str
) -> None:
    address = client.base_url
    # http.client sends a path as it is written.
    with closing(HTTPConnection(address.host, address.port or 80)) as connection:
        for tail in ("/documents/..", "/documents/.", "/documents/../search", "/.", "/../a", "/./"):
            connection.request(method, words + tail)
            response = connection.getresponse()
            problem = json.loads(response.read())
            assert (response.status, problem["code"]) == (400, "invalid_path")
            assert "%2E" in problem["detail"]


def test_names_in_problems_are_as_they_are_written_on_one_line(client: httpx.Client) -> None:
    for name, shown in (("结果", "'结果'"), ("a\nb", r"'a\nb'"), ("\u202eb", r"'\u202eb'")):
        response = client.get(f"/v1/collections/{quote(name)}")
        check_problem(response, 404, "unknown_collection")
        assert response.json()["detail"] == f"there is no collection {shown}"


def test_limits_of_requests(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Settings(max_body_bytes=2000, max_bulk_body_bytes=4000, max_limit=20)
    for name, most in (
        *(("max_text_length", 10), ("max_hits", 30), ("max_documents", 2)),
        *(("max_searches", 2), ("max_inputs", 2), ("max_queries", 2)),
    ):
        monkeypatch.setattr(Settings, name, most)
    data, path = make_data_folder(tmp_path_factory.mktemp("data")), "/v1/collections/c"
    text = {"text": "apple"}
    with running_service(data, limits) as client:
        client.put(path, json={"encoder": "words"})
        for place, body, pointer in (
            ("documents", {"documents": [{"id": "a", **text}] * 3}, "/documents"),
            ("documents", {"documents": [{"id": "a", "text": "a" * 11}]}, "/documents/0/text"),
            ("search", {"text": "a" * 11}, "/text"),
            ("search", {"text": "a", "limit": 21}, "/limit"),
            ("search/batch", {"searches": [text] * 3}, "/searches"),
            ("search/batch", {"searches": [{**text, "limit": 16}] * 2}, "/searches"),
            ("encode", {"inputs": [text] * 3}, "/inputs"),
            ("encode", {"inputs": [text, {"text": "a" * 11}]}, "/inputs/1/text"),
            ("evaluate", {"queries": [{**text, "label": "x"}] * 3}, "/queries"),
        ):
            method = "PUT" if place == "documents" else "POST"
            response = client.request(method, f"{path}/{place}", json=body)
            assert check_refusal(response, 422)["errors"][0]["pointer"] == pointer
        for place, size in (("search", 2001), ("evaluate", 4001)):
            for content in (b" " * size, iter([b" " * 1000] * (size // 1000 + 1))):
                response = client.post(f"{path}/{place}", content=content, headers=JSON)
                check_refusal(response, 413)
            response = client.post(f"{path}/{place}", content=b" " * (size - 1), headers=JSON)
            check_refusal(response, 400)


def test_a_client_that_asks_before_it_sends_too_much(client: httpx.Client, words: str) -> None:
    assert client.base_url.port is not None
    head = (
        f"POST {words}/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", client.base_url.port), timeout=120) as connection:
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_what_is_no_http_is_answered_with_a_problem(client: httpx.Client) -> None:
    for raw in (b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nTransfer-Encoding:\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", client.base_url.port or 0), timeout=120) as one:
            one.sendall(raw)
            answer = b"".join(iter(lambda: one.recv(4096), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert b"application/problem+json" in head
        assert json.loads(body)["code"] == "invalid_http"


numbers = (
    st.integers(-3, 40)
    | st.integers()
    | st.floats()
    | st.sampled_from([0, 1, -1, 10**9, 2**63, 10**30, 1e300])
)
texts = st.text(st.characters(exclude_categories=()), max_size=8)
leaves = st.none() | st.booleans() | numbers | texts | st.sampled_from(["00000000", "one", "words"])
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
FIELDS = (
    "id text vector code label labels payload limit radius with_payload documents searches inputs"
    " queries metrics label_field encoder n_bits"
).split()
objects = st.dictionaries(st.sampled_from(FIELDS), values, max_size=4)
bodies = (
    values
    | objects
    | st.tuples(
        st.sampled_from(["documents", "searches", "inputs", "queries"]),
        st.lists(objects, max_size=3),
        objects,
    ).map(lambda parts: {**parts[2], parts[0]: parts[1]})
)
PLACES = ["PUT ", "PUT /documents", "POST /search", "POST /search/batch", "POST /encode"]


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(place=st.sampled_from([*PLACES, "POST /evaluate"]), body=bodies)
def test_any_json(client: httpx.Client, words: str, place: str, body: object) -> None:
    method, _, path = place.partition(" ")
    response = send(client, method, words + path, body)
    if response.status_code >= 300:
        check_problem(response, response.status_code, response.json()["code"])
    assert response.status_code < 500


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(raw=st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_any_bytes(client: httpx.Client, words: str, raw: bytes) -> None:
    response = client.post(f"{words}/search", content=raw, headers=JSON)
    assert response.status_code in {400, 422}
    check_problem(response, response.status_code, response.json()["code"])
