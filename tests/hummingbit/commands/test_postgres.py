"""The command line and the service with collections on PostgreSQL do what they do without."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from hummingbit.cli import main
from hummingbit.service.settings import Settings
from tests.support import postgres
from tests.support.corpora import make_topic_folder, topic_documents
from tests.support.service import check_problem, running_service

FILTER = '{"field": "label", "in": ["algebra", "sea"]}'
SECONDS = 5.0


def hummingbit(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_topic_folder(tmp_path)


def test_a_collection_moves_there_and_back_as_it_is(
    data: Path,
    postgres_uri: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = ["--data-dir", data]
    there = [*here, "--backend", "postgres", "--postgres-uri", postgres_uri]

    def said(*arguments: object) -> str:
        assert hummingbit(*arguments) == 0
        return capsys.readouterr().out

    said("index", "build", "moving", data / "corpus.jsonl", "--encoder", "plain", *here)
    said("index", "rank", "moving", "bm25", *here)
    said("index", "language", "moving", "english", *here)
    said("index", "export", "moving", data / "moving.jsonl.gz", *here)
    said("index", "import", "moving", data / "moving.jsonl.gz", *there)
    for command in (
        ["search", "moving", "garlic bread and zqword", "--limit", "20", "--json"],
        ["search", "moving", "garlic", "--ranking", "hybrid", "--filter", FILTER, "--json"],
        ["search", "moving", "--id", topic_documents(3)[1].id, "--with-code", "--json"],
        ["index", "get", "moving", topic_documents(3)[0].id],
        ["index", "count", "moving", "--filter", FILTER],
        ["index", "verify", "moving"],
        ["evaluate", "moving", "--queries", data / "queries.jsonl"],
    ):
        local, remote = (said(*command, *where) for where in (here, there))
        if "--json" in command:
            # Cursors name the collection's incarnation, which is random.
            others = {"took_ms": 0, "next_cursor": None}
            local, remote = (json.dumps({**json.loads(item), **others}) for item in (local, remote))
        assert remote == local, command
    said("index", "export", "moving", data / "back.jsonl", *there)
    said("index", "export", "moving", data / "here.jsonl", *here)
    back, before = (
        json.loads(name.read_text().splitlines()[0])
        for name in (data / "back.jsonl", data / "here.jsonl")
    )
    assert (back["ranking"], back["language"]) == ("bm25", "english")
    assert back == before
    assert (data / "back.jsonl").read_text() == (data / "here.jsonl").read_text()
    monkeypatch.setenv("HUMMINGBIT_BACKEND", "postgres")
    monkeypatch.setenv("HUMMINGBIT_POSTGRES_URI", postgres_uri)
    assert "moving\t80 documents" in said("index", "list", *here)
    said("index", "drop", "moving", *here)


@pytest.mark.skipif(postgres.reason_unavailable() is not None, reason="no PostgreSQL server here")
@pytest.mark.long
def test_a_service_says_that_its_postgres_is_gone_and_goes_on_when_it_is_back(data: Path) -> None:
    with postgres.postgres_server() as server:
        settings = Settings(data_dir=data, backend="postgres", postgres_uri=server.uri)
        with running_service(data, settings) as client:
            path = "/v1/collections/served"
            assert client.put(path, json={"encoder": "plain"}).status_code == 201
            documents = [
                {"id": document.id, "text": document.text} for document in topic_documents(10)
            ]
            written = client.put(f"{path}/documents", json={"documents": documents})
            assert (written.status_code, written.json()["generation"]) == (200, 1)
            assert client.get("/readyz").status_code == 200
            server.kill()
            refused = check_problem(client.get("/readyz"), 503, "not_ready")
            assert "cannot be reached" in refused["detail"]
            check_problem(
                client.put(f"{path}/documents", json={"documents": documents}),
                503,
                "storage_failed",
            )
            assert "server that stores" in client.get(f"{path}/documents/doc-1").json()["detail"]
            server.start()
            deadline = time.monotonic() + 4 * SECONDS
            while client.get("/readyz").status_code != 200:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert client.get(f"{path}/documents/doc-1").status_code == 200
            again = client.put(f"{path}/documents", json={"documents": documents[:1]})
            assert (again.status_code, again.json()["generation"]) == (200, 2)


def test_an_address_with_a_password_is_refused(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    stats = ["index", "stats", "c", "--data-dir", data, "--backend", "postgres"]
    for uri, message in (
        ([], "needs the address of a server; set --postgres-uri or HUMMINGBIT_POSTGRES_URI"),
        (["--postgres-uri", "postgresql://127.0.0.1:1/x"], "127.0.0.1:1/x cannot be reached"),
        (["--postgres-uri", "postgresql://a:b@h/x"], "must not hold a password"),
    ):
        assert hummingbit(*stats, *uri) != 0
        said = capsys.readouterr().err
        assert message in said
        assert ":b@" not in said
    with pytest.raises(ValueError, match="as postgres_password"):
        Settings(postgres_uri="postgresql://a:b@h/x")
