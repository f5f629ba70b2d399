"""A collection that an earlier hummingbit kept on Milvus is imported as it was."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.codes import code_to_hex
from hummingbit.encoder.encoder import Encoder
from hummingbit.index.catalog import EncoderFolder
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.from_milvus import MilvusExport
from hummingbit.index.schema import checksum, payload_to_json
from tests.support.corpora import topic_documents
from tests.support.encoders import random_texts, text_encoder
from tests.support.milvus import milvus_core, milvus_server, reason_unavailable

CATALOGUE = "hummingbit__catalogue"


@pytest.fixture(scope="module", params=[milvus_server, milvus_core])
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a Milvus server, and of the core of a later one."""
    if reason := reason_unavailable():
        pytest.skip(reason)
    with request.param(tmp_path_factory.mktemp("milvus")) as address:
        yield address


def write_on_milvus(
    client: Any,
    name: str,
    settings: dict[str, Any],
    documents: list[Document],
    rows: list[int] | None = None,
) -> None:
    """Write documents with codes as hummingbit did that kept collections on Milvus.

    The layout is that of :mod:`hummingbit.index.from_milvus`, written here on its own.
    """
    from pymilvus import DataType  # noqa: PLC0415 - may be missing

    schema = client.create_schema(
        auto_id=False,
        enable_dynamic_field=False,
        description=json.dumps({"hummingbit": 1, "name": name, **settings}),
    )
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=2048)
    schema.add_field("row", DataType.INT64)
    schema.add_field("code", DataType.BINARY_VECTOR, dim=settings["n_bits"])
    schema.add_field("payload", DataType.JSON)
    schema.add_field("original", DataType.VARCHAR, max_length=65_535)
    schema.add_field("content", DataType.VARCHAR, max_length=65_535)
    schema.add_field("checksum", DataType.VARCHAR, max_length=16)
    there = "hummingbit_" + name.replace("-", "X")
    client.create_collection(there, schema=schema, consistency_level="Strong")
    index_and_load(client, there, "code")
    if not client.has_collection(CATALOGUE):
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("name", DataType.VARCHAR, is_primary=True, max_length=64)
        schema.add_field("last_row", DataType.INT64)
        schema.add_field("generation", DataType.INT64)
        schema.add_field("no_vector", DataType.BINARY_VECTOR, dim=8)
        client.create_collection(CATALOGUE, schema=schema, consistency_level="Strong")
        index_and_load(client, CATALOGUE, "no_vector")
    rows = rows or [*range(1, len(documents) + 1)]
    counters = {"name": name, "last_row": max(rows) + 10_000, "generation": 3, "no_vector": b"\0"}
    client.upsert(CATALOGUE, [counters])
    # An upsert of the core in milvus-lite fails if an id has quotation marks.
    client.insert(there, [*map(entity_of, documents, rows)])


def index_and_load(client: Any, collection: str, field: str) -> None:
    indexes = client.prepare_index_params()
    indexes.add_index(field, index_type="BIN_FLAT", metric_type="HAMMING")
    client.create_index(collection, indexes)
    client.load_collection(collection)


def entity_of(document: Document, row: int) -> dict[str, Any]:
    assert document.code is not None
    code = bytes.fromhex(document.code)
    payload = document.payload_with_labels
    # Filters of Milvus read no number that float64 does not hold.
    readable = {name: value for name, value in payload.items() if value != 2**70}
    original = payload_to_json(payload)
    content, vector = "" if document.text is None else f"t{document.text}", None
    if document.vector is not None:
        vector = np.asarray(document.vector, "<f4").tobytes()
        behind = f";{document.text}" if document.text is not None else ""
        content = f"v{b64encode(vector).decode()}{behind}"
    return {
        "id": document.id,
        "row": row,
        "code": code,
        "payload": readable,
        "original": "" if readable == payload else original,
        "content": content,
        "checksum": checksum(document.id, code, original, document.text, vector).hex(),
    }


def hummingbit(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture
def encoder(tmp_path: Path) -> Encoder:
    """An encoder of texts, which the data folder has under the name ``plain``."""
    write_artifact(tmp_path / "encoders" / "plain", text_encoder(), random_texts(50))
    return EncoderFolder(tmp_path / "encoders").load("plain")


def of_texts(encoder: Encoder) -> dict[str, Any]:
    return {
        "n_bits": encoder.n_bits,
        "encoder_name": "plain",
        "encoder_fingerprint": encoder.fingerprint,
    }


def coded_topics(encoder: Encoder, n: int) -> list[Document]:
    documents = topic_documents(n)
    codes = encoder.encode([document.text or "" for document in documents])
    return [
        Document(id=document.id, text=document.text, labels=document.labels, code=code_to_hex(code))
        for document, code in zip(documents, codes, strict=True)
    ]


@pytest.fixture(params=["local", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> list[object]:
    """The options for collections in the data folder, or on PostgreSQL."""
    folder: list[object] = ["--data-dir", tmp_path]
    if request.param == "postgres":
        uri = request.getfixturevalue("postgres_uri")
        folder += ["--backend", "postgres", "--postgres-uri", uri]
    return folder


def test_a_collection_of_texts_is_as_if_it_had_been_built(
    address: str,
    encoder: Encoder,
    tmp_path: Path,
    place: list[object],
    capsys: pytest.CaptureFixture[str],
) -> None:
    from pymilvus import MilvusClient  # noqa: PLC0415 - may be missing

    name = f"moving-{len(place)}"
    documents = coded_topics(encoder, 60)
    rows = [*range(9_001, 9_061)]  # with a gap, which an interrupted write leaves
    write_on_milvus(MilvusClient(address), name, of_texts(encoder), documents, rows)
    assert hummingbit("index", "import", name, address, "--from", "milvus", *place) == 0
    assert "60 documents" in capsys.readouterr().out
    again = ["index", "import", "other", f"{address}/{name}", "--from", "milvus", *place]
    assert hummingbit(*again) == hummingbit(*again) == 0
    assert "60 of them unchanged, 60 in all" in capsys.readouterr().out
    # The same documents, indexed here.
    lines = [
        json.dumps({"id": item.id, "text": item.text, "labels": list(item.labels)}) + "\n"
        for item in documents
    ]
    (tmp_path / "corpus.jsonl").write_text("".join(lines))
    made = ["--encoder", "plain", *place]
    assert hummingbit("index", "build", "built", tmp_path / "corpus.jsonl", *made) == 0
    written = []
    for collection in (name, "built"):
        target = tmp_path / f"{collection}.jsonl"
        assert hummingbit("index", "export", collection, target, *place) == 0
        header, *others = target.read_text().splitlines()
        written.append(({**json.loads(header), "name": None, "field_types": None}, others))
    assert written[0] == written[1]
    assert hummingbit("index", "verify", name, *place) == 0


def test_vectors_beside_texts_and_odd_payloads_come_as_they_were(
    address: str, tmp_path: Path
) -> None:
    from pymilvus import MilvusClient  # noqa: PLC0415 - may be missing

    vector = np.array([0.25, -3.0, 1e-7], np.float32)
    documents = [
        Document(id="'\"\\ é", code="00ff", payload={"é": [1, None, "\0"], "big": 2**70}),
        Document(id="b", code="0001", text="semicolons; and more"),
        Document(id="c", code="8000", text="with; a vector", vector=vector),
        Document(id="a", code="1234", vector=vector, labels=("red",)),
    ]
    settings = {"n_bits": 16, "encoder_name": None, "encoder_fingerprint": None}
    client = MilvusClient(address)
    write_on_milvus(client, "odd", settings, documents, rows=[12, 4, 9, 30_000])
    with MilvusExport(f"{address}/odd", "elsewhere") as export:
        found = [*export.documents()]
    expected = [documents[at] for at in (1, 2, 0, 3)]
    assert [document.id for document in found] == [document.id for document in expected]
    for one, other in zip(found, expected, strict=True):
        assert (one.code, one.text, one.payload) == (
            other.code,
            other.text,
            other.payload_with_labels,
        )
        assert (one.vector is None) == (other.vector is None)
        assert one.vector is None or np.array_equal(one.vector, vector)
    client.upsert("hummingbit_odd", [{**entity_of(documents[1], 4), "content": "tother"}])
    with DataFolder(tmp_path / "data", writable=True):
        pass
    data = ["--data-dir", tmp_path / "data"]
    assert hummingbit("index", "import", "odd", address, "--from", "milvus", *data) == 2


def test_what_is_wrong_is_said(
    tmp_path: Path, encoder: Encoder, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ["--data-dir", tmp_path]
    for arguments, message in (
        (["c", "http://127.0.0.1:1"], "Milvus at 127.0.0.1:1 cannot be reached"),
        (["c", "http://root:secret@127.0.0.1:1"], "HUMMINGBIT_MILVUS_TOKEN holds the token"),
        (["c", address], "has no collection 'c' of hummingbit; add its name, /NAME"),
        (["c", address, "--encoder", "plain"], "--encoder: is for files"),
    ):
        assert hummingbit("index", "import", *arguments, "--from", "milvus", *folder) == 2
        said = capsys.readouterr().err
        assert message in said
        assert said.count("\n") == 1
        assert "secret" not in said
