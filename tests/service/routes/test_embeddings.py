from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.codes import pack_bits
from tests.support.encoders import class_encoder, random_texts, text_encoder
from tests.support.service import check_problem, running_service


def embed(client: httpx.Client, **body: Any) -> dict[str, Any]:
    response = client.post("/v1/embeddings", json={"model": "words", **body})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    assert [item["index"] for item in found["data"]] == list(range(len(found["data"])))
    return found


def test_the_signs_of_an_embedding_are_the_code(client: httpx.Client) -> None:
    texts = random_texts(20, seed=4)
    encoder = text_encoder()
    found = embed(client, input=texts)
    floats = np.array([item["embedding"] for item in found["data"]], dtype=np.float32)
    np.testing.assert_array_equal(floats, encoder.logits(texts) - encoder.thresholds)
    np.testing.assert_array_equal(np.packbits(floats > 0, axis=1), encoder.encode(texts))
    assert found["usage"]["total_tokens"] == sum(len(text.split()) for text in texts)


def test_encoders_of_texts_are_models(client: httpx.Client) -> None:
    found = client.get("/v1/models").json()
    assert found["object"] == "list"
    words = {"id": "words", "object": "model", "created": 0, "owned_by": "hummingbit"}
    assert words in found["data"]


def test_every_format_holds_the_same(client: httpx.Client) -> None:
    texts = random_texts(5, seed=5)
    floats = [item["embedding"] for item in embed(client, input=texts)["data"]]
    packed = [
        item["embedding"] for item in embed(client, input=texts, encoding_format="ubinary")["data"]
    ]
    coded = [
        item["embedding"] for item in embed(client, input=texts, encoding_format="base64")["data"]
    ]
    read = [np.frombuffer(base64.b64decode(item), dtype="<f4") for item in coded]
    np.testing.assert_array_equal(np.array(floats, dtype=np.float32), np.array(read))
    np.testing.assert_array_equal(np.array(packed, dtype=np.uint8), text_encoder().encode(texts))


@pytest.mark.parametrize("form", ["float", "ubinary"])
def test_queries_are_embedded_by_the_head_for_queries(tmp_path: Path, form: str) -> None:
    encoder, texts = class_encoder(), random_texts(40)
    write_artifact(tmp_path / "encoders" / "words", encoder, texts)
    with running_service(tmp_path) as client:
        found = {
            kind: [item["embedding"] for item in embed(client, input=texts, **given)["data"]]
            for kind, given in {
                "query": {"input_type": "query", "encoding_format": form},
                "document": {"input_type": "document", "encoding_format": form},
                "default": {"encoding_format": form},
            }.items()
        }
    assert found["default"] == found["document"]
    queries, rows = encoder.encode_queries(texts), encoder.encode(texts)
    assert (queries != rows).any()
    for kind, codes in (("query", queries), ("document", rows)):
        given = np.array(found[kind])
        np.testing.assert_array_equal(given if form == "ubinary" else pack_bits(given > 0), codes)


def test_one_text_may_stand_alone(client: httpx.Client) -> None:
    alone = embed(client, input="w1 w2", dimensions=32)
    assert alone["data"] == embed(client, input=["w1 w2"])["data"]
    assert alone["model"] == "words"


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        ({"model": "none"}, 404, None),
        ({"model": "numbers"}, 422, "/model"),
        ({"dimensions": 31}, 422, "/dimensions"),
        ({"encoding_format": "int8"}, 422, "/encoding_format"),
        ({"input_type": "passage"}, 422, "/input_type"),
        ({"input": [["a"]]}, 422, None),
        ({"input": ""}, 422, None),
        ({"input": []}, 422, None),
        ({"other": 1}, 422, "/other"),
    ],
)
def test_what_cannot_be_is_named(
    client: httpx.Client, body: dict[str, Any], status: int, pointer: str | None
) -> None:
    response = client.post("/v1/embeddings", json={"model": "words", "input": ["a"], **body})
    code = "unknown_encoder" if status == 404 else "invalid_request"
    problem = check_problem(response, status, code)
    if pointer is not None:
        assert [error["pointer"] for error in problem["errors"]] == [pointer]


def test_texts_are_counted_before_they_are_looked_at(client: httpx.Client) -> None:
    given = {"model": "words", "input": ["jam"] * 2049}
    problem = check_problem(client.post("/v1/embeddings", json=given), 422, "invalid_request")
    assert problem["errors"] == [
        {"pointer": "/input", "message": "has 2,049 entries; at most 2,048 are allowed"}
    ]
    found = embed(client, input=["jam"] * 999 + ["warm kernel"])
    # Texts are encoded in blocks, and sums of blocks of another size may be rounded otherwise.
    first, alike, other = (found["data"][place]["embedding"] for place in (0, 998, 999))
    assert alike == pytest.approx(first, rel=1e-5, abs=1e-5)
    assert other != pytest.approx(first, rel=1e-5, abs=1e-5)
