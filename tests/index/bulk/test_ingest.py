from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.foundation.errors import InputError
from hummingbit.index import encoding
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import StoreError
from hummingbit.index.ingestion import CollectionFieldTypes, ingest
from hummingbit.index.records import Query
from hummingbit.index.store.store import Store
from tests.support.codes import random_hex
from tests.support.collections import code_collection, code_documents
from tests.support.encoders import random_texts, text_encoder
from tests.support.service import ROOT


def text_documents(count: int, seed: int = 0) -> list[Document]:
    texts = random_texts(count, seed)
    return [Document(id=f"d{i}", text=text, payload={"at": i}) for i, text in enumerate(texts)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_artifact(tmp_path / "encoders" / "words", text_encoder(), random_texts(40))
    return tmp_path


def test_documents_are_written_in_batches(tmp_path: Path) -> None:
    documents = code_documents(random_hex(np.random.default_rng(0), 2500, 16))
    sizes: list[int] = []
    with closing(code_collection(tmp_path)) as collection:
        report = ingest(collection, iter(documents), batch_size=1000, progress=sizes.append)
        assert (report.documents, report.unchanged, report.generation) == (2500, 0, 3)
        assert report.seconds > 0
        assert sizes == [1000, 1000, 500]
        assert len(collection) == 2500


def test_what_was_acknowledged_stays_and_the_rest_is_added_later(tmp_path: Path) -> None:
    documents = code_documents(random_hex(np.random.default_rng(0), 30, 16))

    def broken() -> Iterator[Document]:
        yield from documents
        raise ValueError("corpus.jsonl:31: is not JSON")

    with closing(code_collection(tmp_path)) as collection:
        with pytest.raises(ValueError, match=r"corpus\.jsonl:31"):
            ingest(collection, broken(), batch_size=7)
        assert (len(collection), collection.generation) == (28, 4)
        report = ingest(collection, iter(documents), batch_size=7)
        assert (report.documents, report.unchanged, report.generation) == (30, 28, 5)
        assert [document.row for document in collection.all_documents()] == list(range(1, 31))


def test_only_what_changed_is_encoded_and_written_again(folder: Path) -> None:
    documents = text_documents(40)
    with DataFolder(folder, writable=True) as data:
        collection = data.create_collection("c", encoder="words")
        ingest(collection, documents)
        changed = list(documents)
        changed[3] = Document(id="d3", text="jam", payload={"at": 3})
        changed[5] = Document(id="d5", text=documents[5].text, payload={"at": "five"})
        changed[7] = Document(id="d7", text=documents[7].text, labels=("x",), payload={"at": 7})
        report = ingest(collection, changed, batch_size=9)
        assert (report.documents, report.unchanged) == (40, 37)
        rows = {document.id: document.row for document in collection.all_documents()}
        assert [rows[id_] for id_ in ("d2", "d3", "d5", "d7")] == [3, 41, 42, 43]
        assert collection.get("d5").payload == {"at": "five"}  # type: ignore[union-attr]
        report = ingest(collection, [*changed[:4], *documents[2:5]])
        assert (report.documents, report.unchanged, report.repeated) == (7, 4, 2)
        assert collection.get("d3").text == documents[3].text  # type: ignore[union-attr]


def test_processes_encode_as_this_one_does(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "SECONDS_BEFORE_PROCESSES", 0.0)
    documents = text_documents(400)
    # An id that comes again is a change, though it is what the collection held before.
    documents[250] = Document(id="d10", text="jam", payload={})
    documents[251] = documents[10]
    with DataFolder(folder, writable=True) as data:
        one, other = (data.create_collection(name, encoder="words") for name in ("one", "other"))
        for collection, jobs in ((one, 1), (other, 2)):
            ingest(collection, text_documents(30), jobs=jobs)
            report = ingest(collection, documents, batch_size=40, jobs=jobs)
            assert report.documents == 400
        expected = [(doc.id, doc.code, doc.text) for doc in one.all_documents()]
        assert [(doc.id, doc.code, doc.text) for doc in other.all_documents()] == expected
        assert other.get("d10").text == documents[10].text  # type: ignore[union-attr]
        assert other.verify().problems == []
        assert other.search([Query(text="jam")], 1).generation == other.generation


SIGNALLED_AS_PROCESSES_START = """
import os, signal, sys, threading
from multiprocessing import util
from hummingbit.cli import main
from hummingbit.index import encoding

start = util.spawnv_passfds

def start_and_signal(*arguments):
    util.spawnv_passfds = start  # a second signal would end the handling of the first
    process = start(*arguments)
    threading.Timer(float(sys.argv[2]), os.killpg, (0, int(sys.argv[1]))).start()
    return process

signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
encoding.SECONDS_BEFORE_PROCESSES = 0.0
util.spawnv_passfds = start_and_signal
sys.exit(main(sys.argv[3:]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [0, 0.2])
def test_a_signal_while_processes_start_ends_it_without_a_traceback(
    folder: Path, number: signal.Signals, seconds: float
) -> None:
    source = folder / "many.jsonl"
    lines = (json.dumps({"id": str(at), "text": "jam and bread"}) for at in range(30_000))
    source.write_text("\n".join(lines))
    build = f"index build c {source} --encoder words --jobs 2 --data-dir {folder}"
    signalled = [sys.executable, "-c", SIGNALLED_AS_PROCESSES_START, str(int(number)), str(seconds)]
    done = subprocess.run(
        [*signalled, *build.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
        timeout=300,
    )
    assert done.returncode == 128 + number, done.stderr
    assert "Traceback" not in done.stderr


def test_a_document_that_cannot_be_encoded_ends_it(folder: Path) -> None:
    documents = [*text_documents(30), Document(id="bad", vector=np.ones(3, dtype=np.float32))]
    with DataFolder(folder, writable=True) as data:
        collection = data.create_collection("c", encoder="words")
        for jobs in (1, 2):
            with pytest.raises(InputError, match=r"vector: cannot be encoded.*document 'bad'"):
                ingest(collection, documents, batch_size=10, jobs=jobs)
            assert len(collection) == 30


def test_types_of_fields_are_remembered_and_carried(tmp_path: Path) -> None:
    with closing(code_collection(tmp_path)) as collection:
        types = CollectionFieldTypes(collection)
        assert types.known({"year", "zip"}) == {}
        types.remember({"year": "number"})
        types.remember({"zip": "string"})
        assert collection.generation == 0
    with closing(Collection(Store(tmp_path / "store.sqlite", writable=False))) as reader:
        assert reader.field_types == {"year": "number", "zip": "string"}
        assert CollectionFieldTypes(reader).known({"zip", "other"}) == {"zip": "string"}


def test_fields_of_which_nothing_is_remembered_have_the_type_of_most_values(tmp_path: Path) -> None:
    payloads: list[dict[str, Any]] = [
        {"n": 1, "s": "1", "mixed": 1, "mostly": "a", "d.o": 1, "": 1, "o": True},
        {"n": None, "s": ["x"], "mixed": "1", "mostly": "b", 'q"': "x"},
        {"mostly": 3},
    ]
    with closing(code_collection(tmp_path)) as collection:
        collection.upsert(
            [
                Document(id=str(at), code="0000", payload=payload)
                for at, payload in enumerate(payloads)
            ]
        )
        names = {name for payload in payloads for name in payload}
        held = CollectionFieldTypes(collection).known(names)
        assert held == {
            "n": "number",
            "s": "string",
            "mixed": "number",
            "mostly": "string",
            "d.o": "number",
            "": "number",
            'q"': "string",
        }
        collection.delete(["0", "1", "2"])
        assert collection.field_types == held


def test_damaged_types_of_fields_are_an_error(tmp_path: Path) -> None:
    with closing(code_collection(tmp_path)) as collection:
        collection.remember_field_types({"year": "number"})
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as connection, connection:
        connection.execute("UPDATE meta SET value = '{\"year\": 7}' WHERE key = 'field_types'")
    with (
        closing(Collection(Store(tmp_path / "store.sqlite", writable=True))) as collection,
        pytest.raises(StoreError, match="field_types must be an object of 'number' and 'string'"),
    ):
        CollectionFieldTypes(collection)
