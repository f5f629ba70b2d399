"""Embeddings that users bring: their signs, and codes packed as other tools write them."""

from __future__ import annotations

import base64
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit import Client, Collection, ServedCollection
from hummingbit.cli import main
from hummingbit.encoder.codes import code_to_hex, pack_bits
from hummingbit.foundation.errors import InputError
from tests.support.service import make_data_folder, running_service

RNG = np.random.default_rng(11)
VECTORS = RNG.normal(size=(40, 384)).astype(np.float32)
UBINARY = np.packbits(VECTORS > 0, axis=1)
# As sentence_transformers.quantization.quantize_embeddings, Cohere and Voyage write them.
BINARY = (UBINARY.astype(np.int16) - 128).astype(np.int8)
CODES = [code_to_hex(code) for code in pack_bits(VECTORS > 0)]


def by_signs(query: np.ndarray, count: int) -> list[str]:
    scores = np.where(VECTORS > 0, 1.0, -1.0) @ query.astype(np.float64)
    return [str(at) for at in np.argsort(-scores)[:count]]


def test_the_encoder_sign_needs_no_training(tmp_path: Path) -> None:
    query = VECTORS[3] + VECTORS[4]
    create: dict[str, Any] = {"encoder": "sign", "dimensions": 384, "keep_vectors": "float16"}
    with Collection.create(tmp_path, "signs", **create) as collection:
        collection.add(
            [{"vector": vector, "text": f"item {at}"} for at, vector in enumerate(VECTORS)]
        )
        assert collection.n_bits == 384
        assert [collection.backend.get(str(at)).code for at in range(40)] == CODES  # type: ignore[union-attr]
        found = collection.search(query, ranking="asymmetric", limit=10)
        assert found.ids == by_signs(query, 10)
        cosines = VECTORS @ query / np.linalg.norm(VECTORS, axis=1)
        rescored = collection.search(query, rescore={"by": "vectors", "oversample": 20}, limit=5)
        assert rescored.ids == [str(at) for at in np.argsort(-cosines)[:5]]
    with Collection.create(tmp_path, "again", encoder="sign", dimensions=384) as again:
        assert again.backend.encoder_name == "sign-384"
    for settings, message in [
        ({"encoder": "sign"}, "dimensions: is missing"),
        ({"encoder": "sign", "dimensions": 100}, "dimensions: is 100; it must be a multiple of 8"),
        ({"encoder": "sign", "dimensions": 8000}, "from 8 to 4096"),
        ({"encoder": "other", "dimensions": 8}, "only the encoder 'sign' takes it"),
    ]:
        with pytest.raises(InputError, match=message):
            Collection.create(tmp_path, "never", **settings)  # type: ignore[arg-type]


def test_signs_and_packed_codes_at_a_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = make_data_folder(tmp_path / "data")
    with running_service(data) as client, Client(str(client.base_url)) as own:
        own.create_collection("signs", encoder="sign", dimensions=384, keep_vectors="int8")
        described = own.encoder("sign-384")
        assert (described["n_bits"], described["layers"]) == (384, [])
        refused = client.put("/v1/collections/never", json={"encoder": "sign"})
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["pointer"] == "/dimensions"
        own.create_collection("packed", n_bits=384)
        formats: list[Any] = [
            (
                {"ubinary": UBINARY[at].tolist()},
                {"binary": BINARY[at].tolist()},
                {"base64": base64.b64encode(UBINARY[at].tobytes()).decode()},
            )[at % 3]
            for at in range(40)
        ]
        documents = [
            {"id": str(at), "text": f"item number{at}", "code": code}
            for at, code in enumerate(formats)
        ]
        own.upsert("packed", documents[:20])
        lines = tmp_path / "lines.jsonl"
        lines.write_text("".join(json.dumps(document) + "\n" for document in documents[20:]))
        assert main(["index", "add", "packed", str(lines), "--url", str(client.base_url)]) == 0
        stored = [own.get("packed", str(at)) for at in range(40)]
        assert [item["code"] for item in stored] == CODES
        assert stored[33]["text"] == "item number33"
        query = VECTORS[7] + VECTORS[8]
        found = own.search("packed", vector=query.tolist(), ranking="asymmetric", limit=5)
        assert [hit["id"] for hit in found["hits"]] == by_signs(query, 5)
        both = own.search("packed", "number21", code=formats[21], limit=1)
        assert (both["ranking"], both["hits"][0]["id"]) == ("hybrid", "21")
        assert both["hits"][0]["distance"] == 0
        for code, message in [
            ({"binary": [200] * 48}, "holds 200 at position 0; binary must be whole numbers from"),
            ({"ubinary": [0] * 47}, "is not 96 hexadecimal digits (384 bits)"),
            ({"base64": "AAAA"}, "is not 96 hexadecimal digits (384 bits)"),
            ({"base64": "A_-="}, "is base64 of 'A_-='; it must be base64 with padding"),
            ({"base64": "AAA"}, "is base64 of 'AAA'; it must be base64 with padding"),
            ({"base64": "žžžž"}, "it must be base64 with padding"),
        ]:
            wrong = {"documents": [{"id": "x", "code": code}]}
            answer = client.put("/v1/collections/packed/documents", json=wrong)
            assert answer.status_code == 422
            assert message in answer.json()["detail"]
            answer = client.post("/v1/collections/packed/search", json={"code": code})
            assert message in answer.json()["detail"]
    capsys.readouterr()


def test_signs_by_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "vectors.npz", ids=[str(at) for at in range(40)], vectors=VECTORS)
    where = ["--data-dir", str(tmp_path / "data")]
    build = ["index", "build", "signs", str(tmp_path / "vectors.npz"), "--jobs", "1", *where]
    assert main([*build, "--encoder", "sign", "--dimensions", "384"]) == 0
    capsys.readouterr()
    query = json.dumps(VECTORS[5].tolist())
    assert main(["search", "signs", "--vector", query, "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["hits"][0]["id"] == "5"
    build[2] = "other"
    assert main([*build, "--encoder", "sign"]) == 2
    assert "dimensions: is missing" in capsys.readouterr().err


@pytest.mark.parametrize("served", [False, True])
def test_codes_are_passed_as_arrays_and_as_bytes(tmp_path: Path, *, served: bool) -> None:
    data = make_data_folder(tmp_path / "data")
    with ExitStack() as stack:
        if served:
            client = stack.enter_context(running_service(data))
            own = stack.enter_context(Client(str(client.base_url)))
            own.create_collection("packed", n_bits=384)
            collection: Collection | ServedCollection = ServedCollection(own, "packed")
        else:
            collection = Collection.create(data, "packed", n_bits=384)
            stack.callback(collection.close)
        forms: list[Any] = [UBINARY[0], BINARY[1], UBINARY[2].tobytes(), CODES[3]]
        collection.add({"id": str(at), "code": code} for at, code in enumerate(forms))
        assert [document.code for document in collection.documents()] == CODES[:4]
        for at, code in enumerate(forms):
            hit = collection.search(code=code, limit=1)[0]
            assert (hit.id, hit.distance) == (str(at), 0)
        if served:
            found = own.search("packed", code=UBINARY[2], limit=1)
            assert found["hits"][0]["id"] == "2"
            own.upsert("packed", [{"id": "4", "code": BINARY[4]}])
            assert own.get("packed", "4")["code"] == CODES[4]
        with pytest.raises(InputError, match=r"code: is array"):
            collection.search(code=UBINARY[0].astype(np.float32))
