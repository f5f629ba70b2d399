from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.corpus.lines import ReadError
from hummingbit.encoder.artifact import write_artifact
from hummingbit.index.catalog import AddAlias
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import EncoderMismatch
from hummingbit.index.transfer import Export, collection_for, export_collection, import_documents
from tests.support.encoders import random_texts, text_encoder, vector_encoder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_artifact(tmp_path / "encoders" / "words", text_encoder(), random_texts(40))
    vectors = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    write_artifact(tmp_path / "encoders" / "numbers", vector_encoder(n_bits=16), vectors)
    with DataFolder(tmp_path, writable=True) as data:
        words = data.create_collection("words", encoder="words")
        texts = [*random_texts(1200), "naïve\0 ☃ \U0001f600", ""]
        words.upsert([Document(id=f"d{i}", text=text) for i, text in enumerate(texts)])
        words.upsert([Document(id="coded", code="00ff00ff", labels=("x", "y"))])
        words.delete(["d7"])
        numbers = data.create_collection("numbers", encoder="numbers")
        odd = np.array([1.1, -0.0, 3e-40, 1e30, 1 / 3, 7], dtype=np.float32)
        numbers.upsert([Document(id="v", vector=odd, payload={"a": [1, {"b": None}]})])
        plain = data.create_collection("plain", n_bits=24, engine="lookup")
        plain.set_ranking("asymmetric")
        plain.set_indexed_fields(["year", "author.name"])
        plain.remember_field_types({"year": "number", "zip": "string"})
        plain.upsert([Document(id="p", code="00ff00")])
    return tmp_path


def exported(folder: Path, name: str) -> bytes:
    stream = io.BytesIO()
    with DataFolder(folder, writable=False) as data:
        export_collection(data.collection(name), stream)
    return stream.getvalue()


def imported(folder: Path, name: str, content: bytes) -> int:
    export = Export(io.BytesIO(content), "a.jsonl")
    with DataFolder(folder, writable=True) as data:
        collection = collection_for(data, name, export.header)
        return import_documents(collection, export).documents


def held(folder: Path, name: str) -> list[tuple[object, ...]]:
    with DataFolder(folder, writable=False) as data:
        return [
            (
                document.id,
                document.code,
                document.text,
                None if document.vector is None else document.vector.tobytes(),
                document.payload,
            )
            for document in data.collection(name).all_documents()
        ]


@pytest.mark.parametrize("name", ["words", "numbers", "plain"])
def test_what_is_exported_is_imported(folder: Path, name: str) -> None:
    content = exported(folder, name)
    count = imported(folder, "again", content)
    assert held(folder, "again") == held(folder, name)
    assert count == len(held(folder, name))
    with DataFolder(folder, writable=False) as data:
        again, before = data.collection("again"), data.collection(name)
        assert again.encoder_fingerprint == before.encoder_fingerprint
        assert again.engine_setting == before.engine_setting
        assert again.ranking == before.ranking
        assert again.indexed_fields == before.indexed_fields
        assert again.field_types == before.field_types
        assert again.verify().problems == []
    assert exported(folder, "again").splitlines()[1:] == content.splitlines()[1:]


def test_an_import_that_was_cut_short_goes_on(folder: Path) -> None:
    content = exported(folder, "words")
    short = b"".join(content.splitlines(keepends=True)[:1001])
    with pytest.raises(ReadError, match=r"a\.jsonl: is cut short after 1,000 documents"):
        imported(folder, "again", short)
    imported(folder, "again", content)
    assert held(folder, "again") == held(folder, "words")


def test_codes_of_another_encoder_are_refused(folder: Path) -> None:
    content = exported(folder, "words")
    with pytest.raises(EncoderMismatch, match="the export is of 32 bits, encoder fingerprint"):
        imported(folder, "numbers", content)
    for name in ("encoders", "collections"):
        (folder / name).rename(folder / f"old {name}")
    with pytest.raises(EncoderMismatch, match="made by encoder 'words' of fingerprint"):
        imported(folder, "again", content)
    # An encoder is known by its fingerprint; its name may be another.
    (folder / "old encoders").rename(folder / "encoders")
    (folder / "encoders" / "words").rename(folder / "encoders" / "renamed")
    imported(folder, "again", content)
    with DataFolder(folder, writable=False) as data:
        assert data.collection("again").encoder_name == "renamed"


def test_an_export_without_an_engine_or_with_one_of_an_earlier_version(folder: Path) -> None:
    content = exported(folder, "plain")
    assert b'"engine": "lookup"' in content
    imported(folder, "before", content.replace(b'"engine": "lookup", ', b""))
    imported(folder, "direct", content.replace(b'"lookup"', b'"direct"'))
    with DataFolder(folder, writable=False) as data:
        assert {data.collection(name).engine_setting for name in ("before", "direct")} == {"auto"}


def test_an_import_into_an_alias(folder: Path) -> None:
    content = exported(folder, "plain")
    with DataFolder(folder, writable=True) as data:
        data.change_aliases([AddAlias("mine", "plain")])
    assert imported(folder, "mine", content) == 1


HEAD = {
    "format": "hummingbit export",
    "version": 1,
    "name": "c",
    "n_bits": 16,
    "encoder": None,
    "encoder_fingerprint": None,
    "documents": 1,
}
END = {"end": True, "documents": 1}
GOOD = {"id": "a", "code": "00ff", "payload": {}}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "a.jsonl: is empty"),
        ([GOOD], "a.jsonl:1: is not the head of an export"),
        ([{**HEAD, "version": 2}], "a.jsonl:1: is of version 2; this hummingbit reads 1"),
        ([{**HEAD, "n_bits": "x"}], "a.jsonl:1: is not a whole head of an export: n_bits"),
        ([{"format": HEAD["format"], "version": 1}], "a.jsonl:1: is not a whole head"),
        ([{**HEAD, "engine": "hnsw"}], "a.jsonl:1: is not a whole head of an export: engine must"),
        ([HEAD, 3], "a.jsonl:2: must be an object"),
        ([HEAD, {"id": "a"}], "a.jsonl:2: code: is missing"),
        ([HEAD, {**GOOD, "code": "00"}], "a.jsonl:2: code '00' is not 4 hexadecimal digits"),
        ([HEAD, {**GOOD, "id": 3}], "a.jsonl:2: id: is 3"),
        ([HEAD, {**GOOD, "text": 3}], "a.jsonl:2: text: is 3"),
        ([HEAD, GOOD], "a.jsonl: is cut short after 1 document"),
        ([HEAD, END], "a.jsonl:2: says that 1 documents precede; 0 do"),
    ],
)
def test_what_is_no_whole_export_is_refused(
    tmp_path: Path, lines: list[object], message: str
) -> None:
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    with pytest.raises(ReadError) as caught:
        imported(tmp_path, "fresh", content)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("line", "member", "message"),
    [
        (HEAD, '"n_bits": 24', "a.jsonl:1: the key 'n_bits' is given twice in one object"),
        (GOOD, '"code": "ff00"', "a.jsonl:2: the key 'code' is given twice in one object"),
        (
            {**GOOD, "payload": {"deep": [{"x": 1}]}},
            '"x": 2',
            "a.jsonl:2: the key 'x' is given twice in one object",
        ),
        (END, '"documents": 1', "a.jsonl:3: the key 'documents' is given twice in one object"),
    ],
)
def test_an_export_that_gives_a_key_twice_is_refused(
    tmp_path: Path, line: dict[str, object], member: str, message: str
) -> None:
    lines = [HEAD, line if "payload" in line else GOOD, END]
    written = [json.dumps(line) for line in lines]
    place = int(message.split(":")[1]) - 1
    key = member.partition(":")[0]
    assert written[place].count(key) == 1
    written[place] = written[place].replace(key, f"{member}, {key}")
    with pytest.raises(ReadError) as caught:
        imported(tmp_path, "fresh", "\n".join(written).encode())
    assert str(caught.value) == message


def test_an_export_is_as_of_one_moment(folder: Path) -> None:
    stream = io.BytesIO()
    with DataFolder(folder, writable=True) as writer, DataFolder(folder, writable=False) as reader:
        before = [document.id for document in reader.collection("words").all_documents()]

        def write(_: int) -> None:
            writer.collection("words").upsert([Document(id="later", code="ffffffff")])
            writer.collection("words").delete([before[-1], before[-2]])

        written = export_collection(reader.collection("words"), stream, write)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["id"] for line in lines[1:-1]] == before
    assert written == lines[0]["documents"] == len(before) > 1000
