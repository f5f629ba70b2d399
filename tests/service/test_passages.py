"""Long texts over REST, by the client and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hummingbit.cli import main
from hummingbit.clients.client import Client
from tests.support.encoders import random_texts
from tests.support.service import make_data_folder, running_service

BOOK = "A title\n" + " ".join(
    [f"{text}." for text in random_texts(60, seed=3)]
    + ["The zebra crossed the road."]
    + [f"{text}." for text in random_texts(60, seed=4)]
)
DOCUMENTS: list[dict[str, Any]] = [
    {"id": "book", "text": BOOK, "payload": {"kind": "long"}},
    *({"id": f"d{i}", "text": text} for i, text in enumerate(random_texts(20, seed=5))),
]


def test_a_service_finds_a_sentence_in_the_middle(tmp_path: Path) -> None:
    with running_service(make_data_folder(tmp_path)) as http, Client(str(http.base_url)) as client:
        created = client.create_collection("books", encoder="words", passages={"words": 32})
        assert created["passages"] == {
            "words": 32, "sentences": None, "overlap": 1, "longer_than": None,
        }  # fmt: skip
        client.upsert("books", DOCUMENTS[:1])
        client.bulk("books", DOCUMENTS[1:])
        detail = client.collection("books")
        assert detail["documents"] == len(DOCUMENTS)
        assert detail["n_passages"] is not None
        assert detail["n_passages"] > len(DOCUMENTS)
        options: dict[str, Any] = {"ranking": "bm25", "with_passage": True, "highlight": True}
        answer = client.search("books", text="zebra road", **options)
        (hit,) = [hit for hit in answer["hits"] if hit["id"] == "book"]
        passage = hit["passage"]
        assert passage is not None
        assert "zebra crossed the road" in passage["text"]
        start = passage["start"]
        assert BOOK[start : start + len(passage["text"])] == passage["text"]
        assert "text" not in hit
        explained = http.post("/v1/collections/books/search", json={"text": "x", "explain": True})
        assert explained.status_code == 200
        refused = http.put(
            "/v1/collections/other", json={"encoder": "words", "passages": {"words": 2}}
        )
        assert refused.status_code == 422
        assert "/passages" in refused.text
        other = http.put("/v1/collections/codes", json={"n_bits": 16, "passages": True})
        assert other.status_code == 422


def test_the_command_line_splits_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    data = make_data_folder(tmp_path / "data")
    source = tmp_path / "books.jsonl"
    source.write_text("".join(json.dumps(document) + "\n" for document in DOCUMENTS))
    folder = ["--data-dir", str(data)]
    build = ["index", "build", "books", str(source), "--encoder", "words", *folder]
    assert main([*build, "--passages", "32"]) == 0
    assert main(["search", "books", "zebra road", "--ranking", "bm25", "--json", *folder]) == 0
    assert '"book"' in capsys.readouterr().out
    assert main(["search", "books", "zebra", "--with-passage", "--ranking", "bm25", *folder]) == 0
    assert "zebra crossed" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit):
        main([*build, "--passages", "many"])
    assert "must be a number, auto or no" in capsys.readouterr().err
