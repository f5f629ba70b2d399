from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.codes import code_to_hex
from hummingbit.index.data_folder import DataFolder
from hummingbit.service.schemas.responses import CollectionDetail, Collections, StoredDocument
from tests.support.service import check_problem, client_of, make_data_folder, running_service, send

MakeCollection = Callable[..., str]


def test_deleting_by_an_alias_names_the_collection_and_deletes_nothing(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection([], encoder="words")
    name = path.rpartition("/")[2]
    add = {"add": {"alias": "shop", "collection": name}}
    client.post("/v1/aliases", json={"actions": [add]}).raise_for_status()
    problem = check_problem(client.delete("/v1/collections/shop"), 404, "unknown_collection")
    assert f"'shop' is an alias of the collection {name!r}" in problem["detail"]
    assert client.get(path).status_code == 200


def test_a_parameter_of_the_query_that_is_no_number_says_what_would_be_right(
    client: httpx.Client,
) -> None:
    problem = check_problem(client.get("/v1/jobs?limit=x"), 422, "invalid_request")
    assert problem["errors"] == [
        {"pointer": "/limit", "message": "is 'x'; it must be a whole number"}
    ]


def test_a_change_of_nothing_points_to_the_body(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection([], encoder="words")
    problem = check_problem(client.patch(path, json={}), 422, "invalid_request")
    assert problem["errors"][0]["pointer"] == ""


def test_create_describe_and_delete_a_collection(client: httpx.Client) -> None:
    path = "/v1/collections/mine"
    created = client.put(path, json={"encoder": "words"})
    again = client.put(path, json={"encoder": "words"})
    other = client.put(path, json={"n_bits": 32})
    assert (created.status_code, again.status_code) == (201, 200)
    assert created.json() == again.json()
    assert created.json()["n_bits"] == 32
    assert created.json()["encoder"]["name"] == "words"
    check_problem(other, 409, "collection_exists")
    listed = TypeAdapter(Collections).validate_python(client.get("/v1/collections").json())
    assert "mine" in [collection["name"] for collection in listed["collections"]]
    assert client.delete(path).status_code == 204
    check_problem(client.get(path), 404, "unknown_collection")
    check_problem(client.delete(path), 404, "unknown_collection")


def test_who_asks_to_create_only_is_told_that_another_has_created_it(client: httpx.Client) -> None:
    path, only = "/v1/collections/once", {"If-None-Match": "*"}
    assert client.put(path, json={"n_bits": 32}, headers=only).status_code == 201
    again = client.put(path, json={"n_bits": 32}, headers=only)
    assert "'once' already exists" in check_problem(again, 412, "collection_exists")["detail"]
    assert client.put(path, json={"n_bits": 32}).status_code == 200
    other = client.put(path, json={"n_bits": 32}, headers={"If-None-Match": '"etag"'})
    check_problem(other, 422, "invalid_request")


def test_of_many_equal_creations_at_once_one_is_the_first(client: httpx.Client) -> None:
    start = threading.Barrier(24)

    def create(_: int) -> int:
        with client_of(str(client.base_url)) as other:
            start.wait()
            return other.put("/v1/collections/raced", json={"n_bits": 32}).status_code

    with ThreadPoolExecutor(24) as pool:
        assert sorted(pool.map(create, range(24))) == [200] * 23 + [201]


def test_head_is_answered_as_get_without_the_body(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection([{"id": "a", "text": "apple"}], encoder="words")
    pages = ("/livez", "/readyz", "/metrics", "/openapi.json", "/v1/collections", "/v1/jobs")
    for at in (*pages, path, f"{path}/documents/a", f"{path}/stats", "/console/", "/docs"):
        got, head = client.get(at), client.head(at)
        assert (got.status_code, head.status_code, head.content) == (200, 200, b""), at
        assert head.headers["content-type"] == got.headers["content-type"]
        if at != "/metrics":
            assert head.headers["content-length"] == got.headers["content-length"]
    assert client.head(f"{path}/documents/b").status_code == 404
    assert client.head(f"{path}/search").status_code == 405


def test_a_collection_for_codes_that_are_brought(make_collection: MakeCollection) -> None:
    assert make_collection(n_bits=64)


def test_describe_what_the_codes_look_like(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    codes = ["00", "00", "ff", "0f"]
    path = make_collection([{"id": str(i), "code": c} for i, c in enumerate(codes)], n_bits=8)
    found = TypeAdapter(CollectionDetail).validate_python(client.get(path).json())
    assert (found["documents"], found["distinct_codes"], found["largest_share"]) == (4, 3, 0.5)
    assert found["encoder"] is None
    assert found["generation"] == 1


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        ({"encoder": "words", "n_bits": 32}, "invalid_request", "/encoder"),
        ({"encoder": "nope"}, "unknown_encoder", "/encoder"),
        ({"encoder": "../encoders/words"}, "unknown_encoder", "/encoder"),
        ({"encoder": "\ud800"}, "unknown_encoder", "/encoder"),
        ({"n_bits": 12}, "invalid_request", "/n_bits"),
        ({"n_bits": -8}, "invalid_request", "/n_bits"),
        ({"n_bits": 10**9}, "invalid_request", "/n_bits"),
        ({"n_bits": 10**400}, "invalid_request", "/n_bits"),
        ({"n_bits": True}, "invalid_request", "/n_bits"),
        ({"n_bits": 32.0}, "invalid_request", "/n_bits"),
        ({"n_bits": "32"}, "invalid_request", "/n_bits"),
        ({"bits": 32}, "invalid_request", "/bits"),
    ],
)
def test_settings_that_no_collection_has(
    client: httpx.Client, body: object, code: str, pointer: str
) -> None:
    response = send(client, "PUT", "/v1/collections/never", body)
    problem = check_problem(response, 422, code)
    assert problem["errors"][0]["pointer"] == pointer
    assert "never" not in client.get("/v1/collections").text


@pytest.mark.parametrize("name", ["Ab", "a b", "..", "%00", "a%2Fb", "x" * 65, "%E2%82%AC", "-a"])
def test_names_that_no_collection_has(client: httpx.Client, name: str) -> None:
    before = client.get("/v1/collections").json()
    response = client.put(f"/v1/collections/{name}", json={"n_bits": 8})
    assert response.status_code in {404, 405, 422}
    assert response.headers["content-type"] == "application/problem+json"
    assert client.get("/v1/collections").json() == before


def test_upsert_get_replace_and_delete(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection(encoder="words")
    document = {"id": "a", "text": "apple jam", "label": "food", "payload": {"n": [1, None]}}
    first = client.put(f"{path}/documents", json={"documents": [document]})
    assert first.json() == {"upserted": 1, "generation": 1, "replaced": 0}
    stored = TypeAdapter(StoredDocument).validate_python(client.get(f"{path}/documents/a").json())
    assert stored["text"] == "apple jam"
    assert stored["payload"] == {"n": [1, None], "label": "food"}
    both = {"documents": [{"id": "a", "text": "matrix"}, {"id": "b", "text": "vector"}]}
    assert client.put(f"{path}/documents", json=both).json() == {
        "upserted": 2,
        "generation": 2,
        "replaced": 1,
    }
    assert client.get(f"{path}/documents/a").json()["payload"] == {}
    assert client.delete(f"{path}/documents/a").status_code == 204
    check_problem(client.get(f"{path}/documents/a"), 404, "unknown_document")
    check_problem(client.delete(f"{path}/documents/a"), 404, "unknown_document")
    assert client.get(path).json()["generation"] == 3


def test_a_vector_comes_back_as_it_was_encoded(
    client: httpx.Client, make_collection: MakeCollection, tmp_path: Path
) -> None:
    vector = [0.5, -1, 2, 0.25, 1e-3, 3]
    path = make_collection([{"id": "v", "vector": vector}], encoder="numbers")
    stored = client.get(f"{path}/documents/v").json()
    assert stored["vector"] == np.array(vector, dtype=np.float32).tolist()
    encoder = load_encoder(make_data_folder(tmp_path) / "encoders" / "numbers")
    assert stored["code"] == code_to_hex(encoder.encode(np.array([vector], dtype=np.float32))[0])


ids = st.text(min_size=1, max_size=20).filter(lambda text: "\0" not in text)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(id_=ids)
def test_any_id_can_be_in_a_path(
    client: httpx.Client, make_collection: MakeCollection, id_: str
) -> None:
    path = make_collection([{"id": id_, "code": "aa"}], n_bits=8)
    place = f"{path}/documents/{quote(id_, safe='').replace('.', '%2E')}"
    assert client.get(place).json()["id"] == id_
    assert client.delete(place).status_code == 204
    assert client.get(path).json()["documents"] == 0


@pytest.mark.parametrize("id_", ["a/b", "/a", "a//b", "x/documents/y", "search", "a\nb\n", "ü ?#%"])
def test_ids_with_characters_that_mean_something_in_a_path(
    client: httpx.Client, make_collection: MakeCollection, id_: str
) -> None:
    path = make_collection([{"id": id_, "code": "aa"}], n_bits=8)
    assert client.get(f"{path}/documents/{quote(id_)}").json()["id"] == id_


@pytest.mark.parametrize("id_", ["", "%00", "%FF", "%ED%A0%80", "x" * 600])
def test_ids_that_no_document_has(
    client: httpx.Client, make_collection: MakeCollection, id_: str
) -> None:
    path = make_collection(n_bits=8)
    check_problem(client.get(f"{path}/documents/{id_}"), 404, "unknown_document")
    check_problem(client.delete(f"{path}/documents/{id_}"), 404, "unknown_document")


def test_what_cannot_be_opened_is_named_and_the_rest_is_served(tmp_path: Path) -> None:
    data = make_data_folder(tmp_path)
    with DataFolder(data, writable=True) as folder:
        folder.create_collection("good", n_bits=8)
        folder.create_collection("moved", encoder="words")
        folder.create_collection("torn", n_bits=8)
    (torn,) = (
        store for store in data.glob("collections/*/store.sqlite") if b"torn" in store.read_bytes()
    )
    torn.write_bytes(b"torn" * 1024)
    manifest = data / "encoders" / "words" / "encoder.json"
    manifest.write_text(manifest.read_text() + " ")
    (data / "encoders" / "numbers" / "weights.safetensors").write_bytes(b"")
    with running_service(data) as client:
        ready = check_problem(client.get("/readyz"), 503, "not_ready")
        assert "moved" in ready["unavailable"]["collections"]
        assert len(ready["unavailable"]["collections"]) == 2
        assert "numbers" in ready["unavailable"]["encoders"]
        assert str(tmp_path) not in client.get("/readyz").text
        check_problem(client.get("/v1/collections/moved"), 409, "encoder_mismatch")
        search = client.post("/v1/collections/moved/search", json={"text": "apple"})
        check_problem(search, 409, "encoder_mismatch")
        response = client.put("/v1/collections/other", json={"encoder": "numbers"})
        check_problem(response, 503, "encoder_unavailable")
        listed = client.get("/v1/collections").json()
        assert [collection["name"] for collection in listed["collections"]] == ["good"]
        assert len(listed["unavailable"]) == 2
        assert client.get("/v1/collections/good").status_code == 200
        assert client.get("/livez").json() == {"status": "alive"}
