from __future__ import annotations

import json
from pathlib import Path

import pytest

from hummingbit.cli import main
from hummingbit.clients.client import Client
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import CollectionExists
from tests.support.service import make_data_folder, running_service

TEXTS = ["Die Katzen schlafen im Haus", "Das Haus steht am Wald", "Der Hund liegt im Garten"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_data_folder(tmp_path)
    lines = [json.dumps({"id": f"d{i}", "text": text}) for i, text in enumerate(TEXTS)]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def language_of(folder: Path, name: str) -> str | None:
    with DataFolder(folder, writable=False) as data:
        language: str | None = data.collection(name).language
    return language


def test_a_language_is_set_at_creation_and_carried_along(folder: Path) -> None:
    at = ["--data-dir", str(folder)]
    options = ["--encoder", "words", "--language", "german", "--allow-unknown"]
    assert main(["index", "build", "de", str(folder / "texts.jsonl"), *options, *at]) == 0
    assert language_of(folder, "de") == "german"
    assert main(["index", "export", "de", str(folder / "de.jsonl"), *at]) == 0
    assert main(["index", "import", "copy", str(folder / "de.jsonl"), *at]) == 0
    assert main(["reindex", "de", "--encoder", "words", "--into", "again", *at]) == 0
    assert {language_of(folder, name) for name in ("copy", "again")} == {"german"}


def test_a_service_creates_a_collection_with_a_language(folder: Path) -> None:
    with running_service(folder) as http, Client(str(http.base_url)) as client:
        assert client.create_collection("de", encoder="words", language="german")
        assert client.collection("de")["language"] == "german"
        body = {"encoder": "words", "language": "klingon"}
        refusal = http.put("/v1/collections/other", json=body)
        assert refusal.status_code == 422
        assert "language" in refusal.json()["detail"]
        assert http.get("/v1/collections/other").status_code == 404
        body["language"] = "french"
        assert http.put("/v1/collections/de", json=body).status_code == 409


def test_a_collection_of_another_language_exists(folder: Path) -> None:
    with DataFolder(folder, writable=True) as data:
        data.create_collection("de", encoder="words", language="german")
        data.create_collection("de", encoder="words", language="german")
        with pytest.raises(CollectionExists, match="with the language german, not french"):
            data.create_collection("de", encoder="words", language="french")
