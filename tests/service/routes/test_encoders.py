from __future__ import annotations

import base64
import json

import httpx
import numpy as np
import pytest

from hummingbit.encoder.codes import code_to_hex, unpack_codes
from tests.support.encoders import random_texts, text_encoder, vector_encoder
from tests.support.service import check_problem


def test_an_encoder_is_described(client: httpx.Client) -> None:
    about = client.get("/v1/encoders/words").json()
    assert (about["kind"], about["n_bits"], about["code_size"], about["terms"]) == (
        "text",
        32,
        4,
        20,
    )
    assert about["layers"] == [20, 12, 32]
    assert about["metadata"] == {"trained_on": "nothing"}
    assert about["figures"] == {}
    assert client.get("/v1/encoders/numbers").json()["terms"] is None


def test_codes_in_every_format(client: httpx.Client) -> None:
    texts = random_texts(20, seed=3)
    codes = text_encoder().encode(texts)
    inputs = [{"text": text} for text in texts]
    expected = {
        "hex": [code_to_hex(code) for code in codes],
        "base64": [base64.b64encode(bytes(code.tolist())).decode() for code in codes],
        "bits": ["".join(map(str, row)) for row in unpack_codes(codes).tolist()],
    }
    for form, written in expected.items():
        body = {"inputs": inputs, "format": form}
        found = client.post("/v1/encoders/words/encode", json=body).json()
        assert found["codes"] == written
        assert found["format"] == form
        assert found["bit_order"] == "most significant bit first"
    default = client.post("/v1/encoders/words/encode", json={"inputs": inputs}).json()
    assert default["codes"] == expected["hex"]


def test_the_first_bit_is_the_most_significant(client: httpx.Client) -> None:
    body = {"inputs": [{"vector": [0.5] * 6}], "format": "bits"}
    bits = client.post("/v1/encoders/numbers/encode", json=body).json()["codes"][0]
    body["format"] = "hex"
    written = client.post("/v1/encoders/numbers/encode", json=body).json()["codes"][0]
    assert int(bits, 2) == int(written, 16)


@pytest.mark.parametrize(
    ("name", "item", "pointer"),
    [
        ("words", {}, "/inputs/1"),
        ("words", {"vector": [1]}, "/inputs/1"),
        ("words", {"text": "a", "vector": [1]}, "/inputs/1"),
        ("words", {"text": "\ud800"}, "/inputs/1/text"),
        ("numbers", {"text": "a"}, "/inputs/1"),
        ("numbers", {"vector": [1.0] * 5}, "/inputs/1/vector"),
        ("numbers", {"vector": []}, "/inputs/1/vector"),
    ],
)
def test_inputs_that_cannot_be_encoded(
    client: httpx.Client, name: str, item: dict[str, object], pointer: str
) -> None:
    good = {"text": "apple"} if name == "words" else {"vector": [1.0] * 6}
    content = json.dumps({"inputs": [good, item]})
    headers = {"content-type": "application/json"}
    response = client.post(f"/v1/encoders/{name}/encode", content=content, headers=headers)
    problem = check_problem(response, 422, "invalid_request")
    assert problem["errors"][0]["pointer"] == pointer


def test_encoders_that_are_not_there(client: httpx.Client) -> None:
    check_problem(client.get("/v1/encoders/absent"), 404, "unknown_encoder")
    check_problem(client.get("/v1/encoders/..%2Fcollections"), 404, "not_found")
    body = {"inputs": [{"text": "a"}]}
    response = client.post("/v1/encoders/absent/encode", json=body)
    check_problem(response, 404, "unknown_encoder")
    body["format"] = "octal"  # type: ignore[assignment]  # it is no format either
    response = client.post("/v1/encoders/words/encode", json=body)
    check_problem(response, 422, "invalid_request")


def test_no_rounding_on_the_way(client: httpx.Client) -> None:
    vectors = np.random.default_rng(1).normal(size=(30, 6)).astype(np.float32)
    body = {"inputs": [{"vector": vector.astype(float).tolist()} for vector in vectors]}
    found = client.post("/v1/encoders/numbers/encode", json=body).json()["codes"]
    assert found == [code_to_hex(code) for code in vector_encoder(n_bits=16).encode(vectors)]
