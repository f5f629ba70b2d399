"""The command line and the service with collections on Milvus do what they do without."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hummingbit.cli import main
from hummingbit.service.settings import Settings
from tests.support.corpora import make_topic_folder, topic_documents
from tests.support.proxy import proxy_to
from tests.support.service import check_problem, running_service

pytest.importorskip("pymilvus", reason="pymilvus is not installed")

FILTER = '{"field": "label", "in": ["algebra", "sea"]}'


def hummingbit(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_topic_folder(tmp_path)


def test_a_collection_moves_to_milvus_and_answers_as_before(
    data: Path,
    milvus_uri: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = ["--data-dir", data]
    there = [*here, "--backend", "milvus", "--milvus-uri", milvus_uri]

    def said(*arguments: object) -> str:
        assert hummingbit(*arguments) == 0
        return capsys.readouterr().out

    # The words that the encoder does not know are read by documents here and left out there.
    known = "apple flour garlic bread"
    made = ["--encoder", "plain", "--engine", "lookup"]
    said("index", "build", "moving", data / "corpus.jsonl", *made, *here)
    said("index", "export", "moving", data / "moving.jsonl.gz", *here)
    assert "80 documents" in said("index", "import", "moving", data / "moving.jsonl.gz", *there)
    for command in (
        ["search", "moving", known, "--limit", "20", "--ranking", "hamming"],
        ["search", "moving", "--id", topic_documents(3)[1].id, "--filter", FILTER, "--with-code"],
        ["search", "moving", known, "--rerank", "--radius", "9"],
        ["index", "get", "moving", topic_documents(3)[0].id],
        ["index", "count", "moving", "--filter", FILTER],
        ["index", "verify", "moving"],
        [
            "evaluate",
            "moving",
            "--queries",
            data / "queries.jsonl",
            "--rankings",
            "hamming",
            "--json",
        ],
    ):
        local, on_milvus = said(*command, *here), said(*command, *there)
        if command[0] == "evaluate":
            # There, searches rank by words and codes; on Milvus by codes alone.
            local, on_milvus = (json.loads(item)["metrics"] for item in (local, on_milvus))
        assert on_milvus == local, command
    stats = json.loads(said("index", "stats", "moving", *there))
    assert (stats["documents"], stats["engine"], stats["encoder"]) == (80, "milvus", "plain")
    assert stats["engine_setting"] == "auto"
    # Unchanged documents are passed over, as in the data folder.
    assert "80" in said("index", "add", "moving", data / "corpus.jsonl", *there)
    said("index", "export", "moving", data / "back.jsonl", *there)
    said("index", "export", "moving", data / "here.jsonl", *here)
    back, there_before = (data / "back.jsonl").read_text(), (data / "here.jsonl").read_text()
    assert back.splitlines()[1:] == there_before.splitlines()[1:]
    monkeypatch.setenv("HUMMINGBIT_BACKEND", "milvus")
    monkeypatch.setenv("HUMMINGBIT_MILVUS_URI", milvus_uri)
    assert "moving\t80 documents" in said("index", "list", *here)
    said("index", "compact", "moving", *here)
    said("index", "delete", "moving", topic_documents(3)[0].id, *here)
    assert said("index", "count", "moving", *here).split()[0] == "79"
    said("index", "drop", "moving", *here)


def test_the_service_serves_collections_on_milvus(
    data: Path, milvus_uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(data_dir=data, backend="milvus", milvus_uri=milvus_uri)
    with running_service(data, settings) as client:
        path = "/v1/collections/served"
        assert client.put(path, json={"encoder": "plain"}).status_code == 201
        documents = [{"id": document.id, "text": document.text} for document in topic_documents(10)]
        written = client.put(f"{path}/documents", json={"documents": documents})
        assert (written.status_code, written.json()["generation"]) == (200, 1)
        # The encoder knows the words of food.
        known = next(
            document.text for document in topic_documents(10) if document.labels == ("food",)
        )
        found = client.post(f"{path}/search", json={"text": known, "limit": 3})
        assert found.status_code == 200
        assert found.json()["hits"][0]["distance"] == 0
        assert client.get(path).json()["documents"] == 10
        assert client.get(f"{path}/documents/{documents[0]['id']}").status_code == 200
        check_problem(client.get(f"{path}/documents/nobody"), 404, "unknown_document")
        assert "served" in client.get("/readyz").json()["collections"]
        assert client.post(f"{path}/verify").json() == {"documents": 10, "problems": []}
        assert client.post(f"{path}/compact").json() == {"bytes_before": 0, "bytes_after": 0}
        ids = [documents[3]["id"], "nobody"]
        got = client.post(f"{path}/documents:get", json={"ids": ids}).json()
        assert ([document["id"] for document in got["documents"]], got["missing"]) == (
            ids[:1],
            ids[1:],
        )
        # An export of an engine that Milvus has not is taken all the same.
        url = ["--url", client.base_url]
        assert hummingbit("index", "export", "served", data / "e", *url) == 0
        engine = (data / "e").read_text().replace('"engine": "auto"', '"engine": "flat"')
        (data / "e").write_text(engine)
        assert hummingbit("index", "import", "again", data / "e", *url) == 0
        assert hummingbit("index", "import", "again", data / "e", *url) == 0
        assert "10 of them unchanged, 10 in all" in capsys.readouterr().out
        assert client.get("/v1/collections/again").json()["engine_setting"] == "auto"
        assert client.delete("/v1/collections/again").status_code == 204
        assert client.delete(path).status_code == 204
        check_problem(client.get(path), 404, "unknown_collection")


def test_a_service_says_that_its_milvus_is_gone(data: Path, milvus_uri: str) -> None:
    with proxy_to(urlsplit(milvus_uri).port or 0) as proxy:
        uri = f"http://127.0.0.1:{proxy.port}"
        settings = Settings(data_dir=data, backend="milvus", milvus_uri=uri)
        with running_service(data, settings) as client:
            assert client.get("/readyz").status_code == 200
            proxy.cut()
            problem = check_problem(client.get("/readyz"), 503, "not_ready")
            assert f"Milvus at 127.0.0.1:{proxy.port} cannot be reached" in problem["detail"]


def test_an_import_names_the_settings_that_milvus_does_not_keep(
    data: Path, milvus_uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--data-dir", data]
    there = [*here, "--backend", "milvus", "--milvus-uri", milvus_uri]
    made = ["--encoder", "plain", "--language", "german"]
    hummingbit("index", "build", "ranked", data / "corpus.jsonl", *made, *here)
    hummingbit("index", "export", "ranked", data / "ranked.jsonl", *here)
    capsys.readouterr()
    assert hummingbit("index", "import", "ranked", data / "ranked.jsonl", *there) == 0
    said = capsys.readouterr().err
    assert "left out: the ranking of the export, hybrid, is not that of 'ranked', hamming" in said
    assert "left out: the language of the export, german, is not that of 'ranked', which" in said
    # On the way back, the collection gets the ranking of a new one.
    assert hummingbit("index", "export", "ranked", data / "back.jsonl", *there) == 0
    assert hummingbit("index", "import", "back", data / "back.jsonl", *here) == 0
    capsys.readouterr()
    hummingbit("index", "stats", "back", *here)
    assert json.loads(capsys.readouterr().out)["ranking"] == "hybrid"
    hummingbit("index", "drop", "ranked", *there)


def test_what_is_wrong_is_said_in_a_line(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HUMMINGBIT_MILVUS_TOKEN", "root:secret")
    stats = ["index", "stats", "c", "--data-dir", data, "--backend", "milvus"]
    for uri, message in (
        ([], "needs the address of a server; set --milvus-uri or HUMMINGBIT_MILVUS_URI"),
        (["--milvus-uri", "http://127.0.0.1:1"], "Milvus at 127.0.0.1:1 cannot be reached"),
        (["--milvus-uri", "milvus"], "the address of Milvus must be like http://HOST:19530"),
    ):
        assert hummingbit(*stats, *uri) == 2
        said = capsys.readouterr().err
        assert message in said
        assert said.count("\n") == 1
        assert "secret" not in said
