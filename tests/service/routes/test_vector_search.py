"""Vectors kept by a collection of the service, and searches that use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from pydantic import TypeAdapter

from hummingbit.service.schemas.responses import SearchResponse
from tests.support.encoders import random_texts
from tests.support.service import check_problem

MakeCollection = Callable[..., str]
VECTORS = np.random.default_rng(3).normal(size=(50, 6)).astype(np.float32)
TEXTS = random_texts(50, seed=3)


def documents() -> list[dict[str, Any]]:
    return [
        {"id": f"d{at}", "vector": vector.tolist(), "text": text}
        for at, (vector, text) in enumerate(zip(VECTORS, TEXTS, strict=True))
    ]


@pytest.fixture
def path(make_collection: MakeCollection) -> str:
    return make_collection(documents(), encoder="numbers", keep_vectors="float16")


def ok(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def nearest(query: np.ndarray[Any, Any], count: int) -> list[str]:
    """Return the ids of the nearest documents by the cosine of vectors rounded to float16."""
    cosines = VECTORS @ query / np.linalg.norm(VECTORS, axis=1)
    return [f"d{at}" for at in np.argsort(-cosines)[:count]]


def test_a_collection_says_how_it_keeps_vectors(client: httpx.Client, path: str) -> None:
    assert ok(client.get(path))["keep_vectors"] == "float16"
    assert ok(client.get(f"{path}/stats"))["keep_vectors"] == "float16"
    body = {"encoder": "numbers", "keep_vectors": "float16"}
    assert client.put(path, json=body).status_code == 200
    check_problem(client.put(path, json={"encoder": "numbers"}), 409, "collection_exists")
    answer = client.put("/v1/collections/never", json={"encoder": "numbers", "keep_vectors": "f2"})
    assert (
        "must be one of float32, float16" in check_problem(answer, 422, "invalid_request")["detail"]
    )
    stored = ok(client.get(f"{path}/documents/d3"))
    assert stored["text"] == TEXTS[3]
    assert stored["vector"] == pytest.approx(VECTORS[3].tolist(), rel=1e-3, abs=1e-3)


def test_a_search_is_rescored_by_vectors(client: httpx.Client, path: str) -> None:
    query = VECTORS[7] + 0.1
    rescore = {"by": "vectors", "oversample": 10}
    body = {"vector": query.tolist(), "limit": 5, "rescore": rescore}
    found = ok(client.post(f"{path}/search", json=body))
    TypeAdapter(SearchResponse).validate_python(found)
    assert [hit["id"] for hit in found["hits"]] == nearest(query, 5)
    assert (found["rescored_by"], found["candidates"]) == ("vectors", 50)
    searches = [{"vector": (vector + 0.1).tolist(), "limit": 5} for vector in VECTORS[:4]]
    batch = ok(client.post(f"{path}/search/batch", json={"searches": searches, "rescore": rescore}))
    for vector, result in zip(VECTORS, batch["results"], strict=False):
        assert [hit["id"] for hit in result["hits"]] == nearest(vector + 0.1, 5)
        assert result["rescored_by"] == "vectors"


def test_a_batch_is_rescored_with_one_limit_only(client: httpx.Client, path: str) -> None:
    searches = [{"vector": VECTORS[0].tolist(), "limit": limit} for limit in (5, 6)]
    body = {"searches": searches, "rescore": {"by": "vectors"}}
    problem = check_problem(client.post(f"{path}/search/batch", json=body), 422, "invalid_request")
    assert problem["errors"][0]["pointer"] == "/searches/1/limit"
    many = [{"vector": VECTORS[0].tolist(), "limit": 1000}] * 3
    body = {"searches": many, "rescore": {"by": "vectors", "oversample": 100}}
    problem = check_problem(client.post(f"{path}/search/batch", json=body), 422, "invalid_request")
    assert "may find 300,000 documents" in problem["detail"]


def test_a_text_and_a_vector_are_searched_together(client: httpx.Client, path: str) -> None:
    both = {"text": TEXTS[9], "vector": VECTORS[9].tolist(), "limit": 5}
    found = ok(client.post(f"{path}/search", json=both))
    assert (found["ranking"], found["hits"][0]["id"]) == ("hybrid", "d9")
    only = ok(client.post(f"{path}/search", json={"vector": VECTORS[9].tolist(), "limit": 5}))
    assert only["ranking"] == "hamming"
    results = ok(
        client.post(
            f"{path}/search/batch",
            json={"searches": [both, {"vector": VECTORS[9].tolist(), "limit": 5}]},
        )
    )["results"]
    assert [result["hits"] for result in results] == [found["hits"], only["hits"]]
    rescored = ok(client.post(f"{path}/search", json={**both, "rescore": {"by": "vectors"}}))
    assert (rescored["ranking"], rescored["hits"][0]["score"]) == (
        "hybrid",
        pytest.approx(1, abs=1e-6),
    )


@pytest.mark.parametrize(
    ("body", "pointer", "message"),
    [
        ({"text": "apple", "ranking": "hamming"}, "/ranking", "needs a vector or a code"),
        ({"text": "apple", "radius": 3}, "/radius", "needs a vector or a code"),
        ({"vector": [1.0] * 6, "id": "d1"}, "", "an id goes with no other field"),
        ({"vector": [1.0] * 7}, "/vector", "has 7 numbers; it must have 6"),
        ({"id": "d1", "rescore": {"by": "vectors"}}, "/rescore", "needs a vector as the query"),
        ({"vector": [1.0] * 6, "rescore": {"by": "bm25"}}, "/rescore", "needs a text as the query"),
        (
            {"vector": [1.0] * 6, "rescore": {"by": "vector"}},
            "/rescore",
            "bm25, logits, vectors",
        ),
        (
            {
                "vector": [1.0] * 6,
                "limit": 1000,
                "offset": 1000,
                "rescore": {"by": "vectors", "oversample": 100},
            },
            "/rescore",
            "is 200,000; it must be at most 100,000",
        ),
    ],
)
def test_what_cannot_be_searched_is_refused(
    client: httpx.Client, path: str, body: dict[str, Any], pointer: str, message: str
) -> None:
    problem = check_problem(client.post(f"{path}/search", json=body), 422, "invalid_request")
    (error,) = problem["errors"]
    assert error["pointer"] == pointer
    assert message in error["message"]


def test_a_collection_that_keeps_no_vectors_has_none(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection(documents(), encoder="numbers", keep_vectors="none")
    assert ok(client.get(f"{path}/documents/d3"))["vector"] is None
    body = {"vector": [1.0] * 6, "rescore": {"by": "vectors"}}
    problem = check_problem(client.post(f"{path}/search", json=body), 422, "invalid_request")
    assert "the collection keeps no vectors" in problem["errors"][0]["message"]
