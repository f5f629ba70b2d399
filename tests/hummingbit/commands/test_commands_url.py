"""Commands on a data folder and on a service say the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit import Client, Collection
from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.index.catalog import AddAlias
from hummingbit.index.data_folder import DataFolder
from hummingbit.served import ServedCollection
from hummingbit.service.settings import Settings
from tests.support.encoders import random_texts, text_encoder
from tests.support.service import make_data_folder, running_service


class Ask:
    """Runs commands on a folder or on a service, and returns what they print."""

    def __init__(self, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        self._options, self._capsys = options, capsys

    def __call__(self, *arguments: str, status: int = 0) -> str:
        return self.both(*arguments, status=status)[1 if status else 0]

    def both(self, *arguments: str, status: int = 0) -> tuple[str, str]:
        """Return the standard output and the standard error."""
        assert main([*arguments, *self._options]) == status
        found = self._capsys.readouterr()
        return found.out, found.err


N = 30


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    lines = [
        {"id": f"d{i}", "text": text, "label": "a", "payload": {"year": 1990 + i}}
        for i, text in enumerate(random_texts(N))
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@contextmanager
def place_of(kind: str, data: Path) -> Iterator[list[str]]:
    """Lend the options that say where: the folder, or a service of it."""
    if kind == "folder":
        yield ["--data-dir", str(data)]
    else:
        with running_service(data) as client:
            yield ["--url", str(client.base_url)]


@pytest.fixture(params=["folder", "service"])
def ask(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Ask]:
    """Run a command on a folder or on a service, and return what it prints."""
    data = make_data_folder(tmp_path / "data")
    write_artifact(data / "encoders" / "others", text_encoder(16, seed=3), random_texts(40))
    with place_of(request.param, data) as options:
        yield Ask(options, capsys)


def test_documents(ask: Ask, corpus: Path) -> None:
    ask("index", "build", "c", str(corpus), "--encoder", "words", "--engine", "flat")
    assert json.loads(ask("index", "stats", "c"))["engine"] == "flat"
    assert ask("index", "count", "c") == f"{N}\n"
    later = '{"field": "year", "gte": 2010}'
    assert ask("index", "count", "c", "--filter", later) == "10\n"
    found = json.loads(ask("index", "get", "c", "d3"))
    assert (found["id"], found["payload"]) == ("d3", {"year": 1993, "label": "a"})
    assert set(found) == {"id", "text", "payload", "code"}
    assert "no document 'absent'" in ask("index", "get", "c", "absent", status=2)
    assert "10 documents deleted; 20 in all" in ask("index", "delete", "c", "--filter", later)
    assert "1 document deleted; 19 in all" in ask("index", "delete", "c", "d0", "absent")
    assert ask("index", "list") == "c\t19 documents\t32 bits\twords\n"
    assert json.loads(ask("index", "stats", "c"))["documents"] == 19
    assert f"{N - 11} of them unchanged, {N} in all" in ask("index", "add", "c", str(corpus))
    assert ask("index", "count", "c") == f"{N}\n"
    assert "exists" in ask("index", "build", "c", str(corpus), "--encoder", "words", status=2)
    ask("index", "drop", "c")
    assert ask("index", "list") == ""


def test_a_service_says_why_no_document_passes_a_filter_as_a_folder_does(
    ask: Ask, corpus: Path
) -> None:
    corpus.write_text(
        "".join(
            json.dumps({"id": f"d{i}", "text": text, "payload": {"year" if i < 110 else "late": i}})
            + "\n"
            for i, text in enumerate(random_texts(120))
        )
    )
    ask("index", "build", "c", str(corpus), "--encoder", "words")
    condition = '{"field": "late", "lt": 0}'
    why = "none of the first 100 documents has the field 'late'"
    assert f"filter: {why}" in ask.both("index", "count", "c", "--filter", condition)[1]
    assert f"filter: {why}" in ask.both("index", "delete", "c", "--filter", condition)[1]
    assert why in ask.both("index", "fields", "c", "late")[1]


def test_many_documents_are_got_in_one_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = []
    call = Client._call

    def count(client: Client, request: Any) -> Any:
        requests.append(request)
        return call(client, request)

    ids = [f"d{i}" for i in range(150)]
    with (
        running_service(make_data_folder(tmp_path)) as service,
        Client(url := str(service.base_url)) as client,
    ):
        client.create_collection("c", n_bits=16)
        client.upsert("c", [{"id": id_, "code": "00ff"} for id_ in ids])
        monkeypatch.setattr(Client, "_call", count)
        assert main(["index", "get", "c", *ids, "--url", url]) == 0
    printed = [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()]
    assert (printed, len(requests)) == (ids, 1)


def test_a_later_table_is_read_by_the_types_of_the_collection(ask: Ask, tmp_path: Path) -> None:
    texts = random_texts(120)

    def write(name: str, rows: range, changes: dict[int, str]) -> str:
        lines = [f"t{n},{texts[n]},{changes.get(n, 1900 + n)},{10000 + n}" for n in rows]
        (tmp_path / name).write_text("\n".join(["id,text,year,zip", *lines]) + "\n")
        return str(tmp_path / name)

    first, second = write("a.csv", range(60), {}), write("b.csv", range(60, 120), {61: "n/a"})
    ask("index", "build", "c", first, "--encoder", "words")
    _, said = ask.both("index", "add", "c", second)
    assert "'year' holds numbers; 1 cell such as 'n/a' is a missing value" in said
    assert ask("index", "count", "c", "--filter", '{"field": "year", "gte": 1900}') == "119\n"
    assert ask("index", "count", "c", "--filter", '{"field": "zip", "gte": 10000}') == "120\n"
    # One edited cell changes one document.
    edited = write("a.csv", range(60), {5: "soon"})
    printed, said = ask.both("index", "add", "c", edited)
    assert "59 of them unchanged, 120 in all" in printed
    assert "1 cell such as 'soon' is none, and is kept as a string" in said
    assert ask("index", "count", "c", "--filter", '{"field": "year", "gte": 1900}') == "118\n"
    assert json.loads(ask("index", "get", "c", "t5"))["payload"] == {"year": "soon", "zip": 10005}


@pytest.mark.parametrize("file", ["e.jsonl", "e.jsonl.gz"])
def test_an_export_is_imported(ask: Ask, corpus: Path, tmp_path: Path, file: str) -> None:
    path = tmp_path / file
    ask("index", "build", "c", str(corpus), "--encoder", "words", "--engine", "flat")
    ask("index", "delete", "c", "d4")
    ask("index", "fields", "c", "year", "author.name")
    ask("index", "export", "c", str(path))
    said = ask("index", "import", "again", str(path))
    assert said.startswith(f"again: {N - 1} documents in ")
    ask("alias", "set", "mine", "again")
    said = ask("index", "import", "mine", str(path))
    assert said.startswith("again: ")
    assert f"{N - 1} of them unchanged" in said
    assert json.loads(ask("index", "stats", "again"))["engine_setting"] == "flat"
    assert ask("index", "fields", "again") == "again: indexed fields: author.name, year\n"
    exported = [ask("index", "export", name).splitlines() for name in ("c", "again")]
    assert exported[0][1:] == exported[1][1:]
    ask("index", "build", "other", str(corpus), "--encoder", "others")
    assert "the export is of 32 bits" in ask("index", "import", "other", str(path), status=2)
    assert "there is no collection" in ask("index", "export", "absent", str(path), status=2)
    assert "/absent/e: " in ask("index", "export", "c", "/absent/e", status=2)


def test_an_import_that_fails_at_once_leaves_no_collection(
    ask: Ask, corpus: Path, tmp_path: Path
) -> None:
    ask("index", "build", "c", str(corpus), "--encoder", "words")
    ask("index", "export", "c", str(whole := tmp_path / "whole.jsonl"))
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(whole.read_bytes().splitlines(keepends=True)[:5]))
    assert "is cut short after 4 documents" in ask("index", "import", "d", str(cut), status=2)
    assert ask("index", "list").split("\t")[0] == "c"
    assert len(ask("index", "list").splitlines()) == 1
    # One that was there stays.
    ask("index", "import", "c", str(cut), status=2)
    assert ask("index", "count", "c") == f"{N}\n"


def test_an_import_of_which_nothing_is_taken_leaves_no_collection(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = (make_data_folder(tmp_path / name) for name in ("source", "target"))
    with DataFolder(source, writable=True) as folder:
        folder.create_collection("c", n_bits=8).upsert(
            [Document("long", code="00", payload={"list": [1, 2, 3]})]
        )
    assert main(["index", "export", "c", str(tmp_path / "e"), "--data-dir", str(source)]) == 0
    with running_service(target, Settings(max_payload_values=3)) as client:
        url = ["--url", str(client.base_url)]
        assert main(["index", "import", "c", str(tmp_path / "e"), *url]) == 1
        assert "c: 1 document refused" in capsys.readouterr().err
        assert client.get("/v1/collections").json()["collections"] == []
        client.put("/v1/collections/c", json={"n_bits": 8})
        assert main(["index", "import", "c", str(tmp_path / "e"), *url]) == 1
        # One that was there stays, though it is empty.
        assert [
            collection["name"] for collection in client.get("/v1/collections").json()["collections"]
        ] == ["c"]


def test_an_export_of_a_service_is_that_of_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = make_data_folder(tmp_path / "data")
    odd = [1.1, -0.0, 3e-40, 1e30, 1 / 3, 7]
    payload = {"a": [1, {"b": None}], "large": 2**70, "float": 1e22}
    documents = [
        Document(f"v{at}", vector=np.array(odd, np.float32) + at, payload=payload)
        for at in range(1001)
    ]
    with DataFolder(data, writable=True) as folder:
        folder.create_collection("numbers", encoder="numbers").upsert(documents)
        texts = [Document("t", "na\u00efve\0 \u2603"), Document("c", code="00ff00ff")]
        folder.create_collection("words", encoder="words", indexed_fields=["b"]).upsert(texts)
        folder.change_aliases([AddAlias("mine", "words")])
    with running_service(data) as client:
        for name in ("numbers", "words", "mine"):
            said = []
            for place in (["--data-dir", str(data)], ["--url", str(client.base_url)]):
                assert main(["index", "export", name, *place]) == 0
                said.append(capsys.readouterr().out)
            assert said[0] == said[1]


def test_codes_are_imported_and_not_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = (make_data_folder(tmp_path / name) for name in ("source", "target"))
    with DataFolder(source, writable=True) as folder:
        collection = folder.create_collection("c", encoder="words")
        # As an encoder on a machine that rounds otherwise would have made them.
        codes = np.full((2, 4), 0xA5, np.uint8)
        collection.upsert_encoded([Document("a", "apple"), Document("b", "")], codes)
    assert main(["index", "export", "c", str(tmp_path / "e"), "--data-dir", str(source)]) == 0
    with running_service(target) as client:
        url = ["--url", str(client.base_url)]
        assert main(["index", "import", "c", str(tmp_path / "e"), *url]) == 0
        capsys.readouterr()
        assert main(["index", "get", "c", "a", "b", *url]) == 0
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(document["text"], document["code"]) for document in found] == [
        ("apple", "a5a5a5a5"),
        ("", "a5a5a5a5"),
    ]
    shutil.rmtree(target / "encoders")
    with running_service(target) as client:
        arguments = ["index", "import", "d", str(tmp_path / "e"), "--url", str(client.base_url)]
        assert main(arguments) == 2
        assert "made by encoder 'words' of fingerprint" in capsys.readouterr().err


def test_upkeep(ask: Ask, corpus: Path) -> None:
    ask("index", "build", "c", str(corpus), "--encoder", "words")
    assert ask("index", "verify", "c") == f"c: {N} documents checked; no problems\n"
    said = ask("index", "compact", "c")
    assert said.startswith("c: ")
    assert said.endswith(" after\n")
    for action in ("verify", "compact", "stats"):
        assert "there is no collection 'absent'" in ask("index", action, "absent", status=2)


def test_statistics_of_a_service_are_those_of_the_folder(
    tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = make_data_folder(tmp_path / "data")
    folder = ["--data-dir", str(data)]
    assert main(["index", "build", "c", str(corpus), "--encoder", "words", *folder]) == 0
    with running_service(data) as client:
        found = []
        for place in (folder, ["--url", str(client.base_url)]):
            capsys.readouterr()
            assert main(["index", "stats", "c", *place]) == 0
            found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]


def test_aliases_and_reindexing(ask: Ask, corpus: Path) -> None:
    ask("index", "build", "c", str(corpus), "--encoder", "words")
    assert ask("alias", "set", "mine", "c") == "mine\tc\n"
    assert "there is no collection 'absent'" in ask("alias", "set", "x", "absent", status=2)
    again = ("reindex", "mine", "--encoder", "others", "--into", "c-2", "--alias", "mine")
    assert ask(*again) == f"c-2: {N} documents; the alias mine points to it\n"
    assert ask("alias", "list") == "mine\tc-2\n"
    assert f"c-2\t{N} documents\t16 bits\tothers\n" in ask("index", "list")
    ask(*again, status=2)
    ask("reindex", "c", "--encoder", "numbers", "--into", "never", status=2)
    assert "never" not in ask("index", "list")
    assert ask("alias", "remove", "mine") == "mine: removed\n"
    assert ask("alias", "list") == ""
    assert "no alias" in ask("alias", "remove", "mine", status=2)


def test_a_reindexing_keeps_the_engine(ask: Ask, corpus: Path) -> None:
    ask("index", "build", "c", str(corpus), "--encoder", "words", "--engine", "flat")
    ask("reindex", "c", "--encoder", "others", "--into", "kept")
    ask("reindex", "c", "--encoder", "others", "--into", "changed", "--engine", "scan")
    assert json.loads(ask("index", "stats", "kept"))["engine_setting"] == "flat"
    assert json.loads(ask("index", "stats", "changed"))["engine_setting"] == "scan"


def test_a_reindexing_keeps_which_fields_hold_numbers(ask: Ask, tmp_path: Path) -> None:
    lines = [f"t{n},{text},{1900 + n}" for n, text in enumerate(random_texts(30))]
    (tmp_path / "a.csv").write_text("\n".join(["id,text,year", *lines]) + "\n")
    ask("index", "build", "c", str(tmp_path / "a.csv"), "--encoder", "words")
    ask("reindex", "c", "--encoder", "others", "--into", "kept")
    (tmp_path / "b.csv").write_text("id,text,year\nu,apple jam,unknown\nv,apple cake,1990\n")
    _, said = ask.both("index", "add", "kept", str(tmp_path / "b.csv"))
    assert "'year' holds numbers; 1 cell such as 'unknown' is none" in said
    assert json.loads(ask("index", "get", "kept", "v"))["payload"] == {"year": 1990}


def test_snapshots(ask: Ask, corpus: Path, tmp_path: Path) -> None:
    ask("index", "build", "c", str(corpus), "--encoder", "words")
    out = tmp_path / "c.tar"
    made = ask("snapshot", "create", "c", "--out", str(out))
    id_, name, documents, *_ = made.split("\t")
    assert (name, documents) == ("c", f"{N} documents")
    assert ask("snapshot", "list") == ask("snapshot", "list", "c") == made
    assert ask("snapshot", "list", "other") == ""
    assert f"{N} documents restored" in ask("snapshot", "restore", id_, "again")
    assert ask("index", "count", "again") == f"{N}\n"
    elsewhere = ["--data-dir", str(tmp_path / "elsewhere")]
    (tmp_path / "elsewhere").mkdir()
    assert main(["snapshot", "restore", str(out), "moved", *elsewhere]) == 0
    with DataFolder(tmp_path / "elsewhere", writable=False) as folder:
        assert len(folder.collection("moved")) == N
    assert "snapshot" in ask("snapshot", "restore", "absent", "x", status=2)
    assert "--out" in ask("snapshot", "create", "c", "--out", "/absent/c.tar", status=2)
    assert ask("snapshot", "delete", id_) == f"{id_}: deleted\n"
    ask("snapshot", "delete", id_, status=2)


def test_a_snapshot_is_moved(ask: Ask, corpus: Path, tmp_path: Path) -> None:
    ask("index", "build", "c", str(corpus), "--encoder", "words")
    made = ask("snapshot", "create", "c")
    id_ = made.split("\t")[0]
    file = tmp_path / "c.tar"
    assert ask("snapshot", "download", id_, str(file)) == made
    assert ask("snapshot", "upload", str(file)) == made
    ask("snapshot", "delete", id_)
    uploaded = ask("snapshot", "upload", str(file))
    assert uploaded.split("\t")[1:] == made.split("\t")[1:]
    assert ask("snapshot", "list") == uploaded
    ask("snapshot", "delete", uploaded.split("\t")[0])
    # A file is restored just as a snapshot that is there, and leaves none.
    assert f"{N} documents restored" in ask("snapshot", "restore", str(file), "again")
    assert ask("snapshot", "list") == ""
    assert ask("index", "count", "again") == f"{N}\n"
    file.write_bytes(b"no snapshot")
    assert "the snapshot cannot be read" in ask("snapshot", "upload", str(file), status=2)
    assert "FILE: " in ask("snapshot", "upload", str(tmp_path / "absent"), status=2)
    assert "there is no snapshot" in ask("snapshot", "download", id_, str(file), status=2)
    assert file.read_bytes() == b"no snapshot"


def test_what_a_service_refuses_of_many_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mixed.jsonl").write_text('{"id": "a", "code": "00"}\n{"id": "b", "text": "x"}\n')
    with running_service(make_data_folder(tmp_path / "data")) as client:
        url = ["--url", str(client.base_url)]
        assert (
            main(["index", "build", "c", str(tmp_path / "mixed.jsonl"), "--bits", "8", *url]) == 1
        )
        found = capsys.readouterr()
        assert found.out.startswith("c: 1 document in ")
        assert "refused: b: " in found.err
        assert "c: 1 document refused" in found.err
        # If nothing can be put into it, it is not made.
        (tmp_path / "bad.jsonl").write_text('{"id": "b", "text": "x"}\n')
        assert main(["index", "build", "d", str(tmp_path / "bad.jsonl"), "--bits", "8", *url]) == 1
        (tmp_path / "broken.jsonl").write_text("not json\n")
        broken = str(tmp_path / "broken.jsonl")
        assert main(["index", "build", "d", broken, "--bits", "8", *url]) == 2
        assert "broken.jsonl:1: is not valid JSON" in capsys.readouterr().err
        assert [
            collection["name"] for collection in client.get("/v1/collections").json()["collections"]
        ] == ["c"]


def test_collections_as_json(ask: Ask, corpus: Path, tmp_path: Path) -> None:
    def found(*arguments: str) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(ask(*arguments, "--json"))
        return said

    counts = ("collection", "given", "unchanged", "refused", "documents")
    built = found("index", "build", "c", str(corpus), "--encoder", "words")
    assert [built[name] for name in counts] == ["c", N, 0, 0, N]
    assert built["seconds"] > 0
    added = found("index", "add", "c", str(corpus))
    assert [added[name] for name in counts] == ["c", N, N, 0, N]
    assert added["generation"] == built["generation"]
    assert found("index", "count", "c") == {"collection": "c", "documents": N}
    assert found("index", "get", "c", "d0")["id"] == "d0"
    left = {"collection": "c", "deleted": 1, "documents": N - 1}
    assert found("index", "delete", "c", "d0") == left
    described = {"name": "c", "documents": N - 1, "n_bits": 32, "encoder": "words"}
    assert found("index", "list") == {"collections": [described], "unavailable": []}
    assert found("index", "stats", "c") == json.loads(ask("index", "stats", "c"))
    checked = {"collection": "c", "documents": N - 1, "problems": []}
    assert found("index", "verify", "c") == checked
    assert set(found("index", "compact", "c")) == {"collection", "bytes_before", "bytes_after"}
    ranked = {"collection": "c", "ranking": "hamming", "hybrid_weight": 0.5}
    assert found("index", "rank", "c", "hamming") == ranked
    indexed = {"collection": "c", "indexed_fields": ["year"]}
    assert found("index", "fields", "c", "year") == indexed
    ask("index", "export", "c", str(tmp_path / "e.jsonl"))
    imported = found("index", "import", "again", str(tmp_path / "e.jsonl"))
    assert [imported[name] for name in counts] == ["again", N - 1, 0, 0, N - 1]
    assert found("index", "drop", "again") == {"collection": "again", "dropped": True}
    again = {"collection": "c-2", "documents": N - 1, "alias": None}
    assert found("reindex", "c", "--encoder", "others", "--into", "c-2") == again
    assert found("alias", "set", "mine", "c") == {"alias": "mine", "collection": "c"}
    assert found("alias", "list") == {"aliases": {"mine": "c"}}
    assert found("alias", "remove", "mine") == {"alias": "mine", "removed": True}
    assert found("alias", "list") == {"aliases": {}}


def test_snapshots_as_json(ask: Ask, corpus: Path, tmp_path: Path) -> None:
    ask("index", "build", "c", str(corpus), "--encoder", "words")
    made = json.loads(ask("snapshot", "create", "c", "--json"))
    assert (made["collection"], made["documents"]) == ("c", N)
    file = tmp_path / "c.tar"
    assert json.loads(ask("snapshot", "download", made["id"], str(file), "--json")) == made
    assert file.stat().st_size == made["bytes"]
    assert json.loads(ask("snapshot", "upload", str(file), "--json")) == made
    listed = {"snapshots": [made], "unavailable": []}
    assert json.loads(ask("snapshot", "list", "--json")) == listed
    restored = {"collection": "again", "documents": N}
    assert json.loads(ask("snapshot", "restore", made["id"], "again", "--json")) == restored
    deleted = {"id": made["id"], "deleted": True}
    assert json.loads(ask("snapshot", "delete", made["id"], "--json")) == deleted


def test_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running_service(make_data_folder(tmp_path / "data")) as http:
        url = str(http.base_url)
        with Client(url) as client:
            client.create_collection("c", n_bits=8)
            job = client.wait_for(client.bulk_job("c", [{"id": "a", "code": "00"}]))
        assert main(["job", "list", "--url", url]) == 0
        assert capsys.readouterr().out.startswith(f"{job['id']}\tbulk\tc\tdone\t1 of 1\t")
        assert main(["job", "list", "--state", "failed", "--limit", "3", "--url", url]) == 0
        assert capsys.readouterr().out == ""
        assert main(["job", "list", "--url", url, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"jobs": [job]}
        for more in ([], ["--json"]):
            assert main(["job", "show", job["id"], "--url", url, *more]) == 0
            assert json.loads(capsys.readouterr().out) == job
        assert main(["ready", "--url", url, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["collections"] == ["c"]
        assert main(["job", "cancel", job["id"], "--url", url]) == 2
        assert "is already done" in capsys.readouterr().err


def test_the_last_word_of_a_query_is_completed(ask: Ask, tmp_path: Path) -> None:
    texts = ["random forests", "random forests of trees", "a random formula"]
    path = tmp_path / "notes.jsonl"
    path.write_text("".join(json.dumps({"id": text, "text": text}) + "\n" for text in texts))
    ask("index", "build", "notes", str(path), "--encoder", "words", "--allow-unknown")
    printed = ask("search", "notes", "random for", "--complete")
    assert printed.split("\n") == ["random forests", "random formula", ""]
    answer = ask("search", "notes", "random for", "--complete", "--limit", "1", "--json")
    assert json.loads(answer) == {"completions": ["random forests"]}
    assert "TEXT: is missing" in ask("search", "notes", "--complete", status=2)


def test_a_collection_of_a_service_completes_words(tmp_path: Path) -> None:
    data = make_data_folder(tmp_path)
    with DataFolder(data, writable=True) as folder:
        notes = folder.create_collection("notes", encoder="words")
        notes.upsert([Document(id="a", text="random forests")])
    with running_service(data) as plain, Client(str(plain.base_url)) as client:
        assert ServedCollection(client, "notes").complete("random for") == ["random forests"]


def test_a_collection_of_a_service_is_evaluated_as_one_of_a_folder(tmp_path: Path) -> None:
    data = make_data_folder(tmp_path)
    texts, labels = random_texts(N), [("even", "odd")[i % 2] for i in range(N)]
    with Collection.create(data, "notes", encoder="words") as notes:
        notes.add(texts, ids=[f"d{i}" for i in range(N)], labels=labels)
        here = notes.evaluate(texts[:5], labels[:5], metrics=["P@5", "MRR"], rankings=["bm25"])
    with running_service(data) as plain, Client(str(plain.base_url)) as client:
        there = ServedCollection(client, "notes").evaluate(
            texts[:5], labels[:5], metrics=["P@5", "MRR"], rankings=["bm25"]
        )
    assert there.metrics == here.metrics
    assert there.per_query == here.per_query


def test_what_is_wrong_is_named_as_the_command_line_names_it(
    ask: Ask, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(corpus.parent)
    ask("index", "build", "c", "corpus.jsonl", "--encoder", "words")
    for command, message in (
        ("search c x --limit 0", "--limit: is 0"),
        ("search c x --rescore bm25 --oversample 0", "oversample"),
        ("search c x --codes-weight -3", "--codes-weight: "),
        ("search c --code zz", "--code: 'zz' is not"),
        ("index rank c --weight -1", "--weight: is -1"),
        ("label set c absent a", "ID: there is no document 'absent'"),
        ("index build e corpus.jsonl --no-encoder --language x", "--language: "),
        ("evaluate c --queries corpus.jsonl --rankings hamming+bm25 --oversample 0", "oversample"),
        ("evaluate c --queries corpus.jsonl --rankings bm25+vectors", "--rankings: by is 'vectors"),
        ("evaluate c --queries corpus.jsonl --relevant-from 0", "--relevant-from"),
        ("evaluate c --queries corpus.jsonl --codes-weights -1", "--codes-weights: has -1"),
    ):
        assert message in ask(*command.split(), status=2), command


@pytest.mark.parametrize(
    "command", ["search c x", "evaluate c", "encoder list", "index list", "mcp"]
)
def test_a_folder_and_a_service_together_are_refused(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main([*command.split(), "--data-dir", "data", "--url", "http://127.0.0.1:1"])
    assert raised.value.code == 2
    assert "--url: not allowed with argument --data-dir" in capsys.readouterr().err
