from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from hummingbit.service.schemas.responses import CollectionStats
from tests.support.service import check_problem

MakeCollection = Callable[..., str]


@pytest.fixture
def path(make_collection: MakeCollection) -> str:
    return make_collection([{"id": "a", "text": "apple"}], encoder="words")


def fingerprint_of(client: httpx.Client, path: str) -> str:
    found: str = client.get(path).json()["encoder"]["fingerprint"]
    return found


def test_codes_of_the_collections_encoder_are_taken(client: httpx.Client, path: str) -> None:
    with_it = {"encoder_fingerprint": fingerprint_of(client, path)}
    documents = [{"id": "b", "text": "bread"}]
    written = client.put(f"{path}/documents", json={"documents": documents, **with_it})
    assert written.json()["upserted"] == 1
    code = client.get(f"{path}/documents/b").json()["code"]
    for with_code in (False, True):
        body = {"code": code, "with_code": with_code, **with_it}
        found = client.post(f"{path}/search", json=body)
        assert found.json()["hits"][0]["distance"] == 0
    batch = client.post(f"{path}/search/batch", json={"searches": [{"code": code}], **with_it})
    assert batch.status_code == 200
    bulk = client.post(
        f"{path}/documents:bulk",
        params=with_it,
        content=b'{"id": "c", "text": "rank"}\n',
        headers={"content-type": "application/x-ndjson"},
    )
    assert bulk.json()["written"] == 1


def test_codes_of_another_encoder_are_refused(
    client: httpx.Client, path: str, make_collection: MakeCollection
) -> None:
    other = {"encoder_fingerprint": "0" * 64}
    code = "00000000"
    bodies: list[tuple[str, str, dict[str, Any]]] = [
        ("PUT", "/documents", {"documents": [{"id": "b", "text": "bread"}]}),
        ("POST", "/search", {"code": code}),
        ("POST", "/search", {"code": code, "with_code": True}),
        ("POST", "/search/batch", {"searches": [{"code": code}]}),
    ]
    for item in (path, make_collection(n_bits=32)):
        before = client.get(item).json()
        for method, place, body in bodies:
            refused = client.request(method, f"{item}{place}", json={**body, **other})
            problem = check_problem(refused, 409, "encoder_mismatch")
            assert problem["errors"][0]["pointer"] == "/encoder_fingerprint"
        bulk = client.post(
            f"{item}/documents:bulk",
            params=other,
            content=b"{}\n",
            headers={"content-type": "application/x-ndjson"},
        )
        check_problem(bulk, 409, "encoder_mismatch")
        assert client.get(item).json() == before


def test_an_engine_is_a_setting(client: httpx.Client) -> None:
    path = "/v1/collections/engine-of-its-own"
    settings = {"n_bits": 16, "engine": "flat"}
    created = client.put(path, json=settings)
    assert (created.status_code, created.json()["engine_setting"]) == (201, "flat")
    assert client.put(path, json=settings).status_code == 200
    for other in ({"n_bits": 16}, {"n_bits": 16, "engine": "scan"}):
        check_problem(client.put(path, json=other), 409, "collection_exists")
    assert client.get(path).json()["engine"] == "flat"
    for engine in ("hnsw", "lookup", "distinct"):
        refused = client.put(f"{path}-2", json={"n_bits": 72, "engine": engine})
        problem = check_problem(refused, 422, "invalid_request")
        assert problem["errors"][0]["pointer"] == "/engine"


def test_statistics(client: httpx.Client, make_collection: MakeCollection) -> None:
    codes = ["00", "00", "f0", "ff"]
    path = make_collection([{"id": str(i), "code": c} for i, c in enumerate(codes)], n_bits=8)
    found = TypeAdapter(CollectionStats).validate_python(client.get(f"{path}/stats").json())
    assert (found["documents"], found["distinct_codes"], found["largest_share"]) == (4, 3, 0.5)
    assert found["entropy"] == pytest.approx(1.5)
    assert found["dead_bits"] == []
    assert found["occupancy"] == {"1": 2, "2": 1}
    assert found["bit_correlation"] is not None
    assert found["engine_reason"].endswith(".")
    empty = TypeAdapter(CollectionStats).validate_python(
        client.get(f"{make_collection(n_bits=8)}/stats").json()
    )
    assert empty["entropy"] is None
    check_problem(client.get("/v1/collections/absent/stats"), 404, "unknown_collection")
