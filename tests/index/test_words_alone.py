"""Collections without codes, which are searched by words alone, and later given an encoder."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hummingbit
from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.foundation.errors import InputError
from hummingbit.index import catalog
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.filters import parse_filter
from hummingbit.index.options import Rescore
from hummingbit.index.passages import Passages
from hummingbit.index.records import Query
from hummingbit.index.transfer import (
    export_collection,
)
from tests.support.encoders import random_texts, text_encoder
from tests.support.service import running_service

TEXTS = [f"{text} number{at}" for at, text in enumerate(random_texts(60))]
DOCUMENTS = [
    Document(id=f"d{at}", text=text, payload={"third": at % 3}) for at, text in enumerate(TEXTS)
]


def ids(collection: Any, text: str, k: int = 5, **options: Any) -> list[tuple[str, float]]:
    hits = collection.search([Query(text=text)], k, **options).hits[0]
    return [(hit.id, hit.score) for hit in hits]


def install(data: Path) -> None:
    with DataFolder(data, writable=True) as folder:
        write_artifact(data / "made", text_encoder(), TEXTS)
        folder.encoders.install(data / "made", "words")


def test_it_ranks_as_bm25_does_beside_codes(tmp_path: Path) -> None:
    install(tmp_path)
    with DataFolder(tmp_path, writable=True) as folder:
        coded = folder.create_collection("coded", encoder="words")
        plain = folder.create_collection("plain", n_bits=0)
        for collection in (coded, plain):
            for start in range(0, 60, 20):
                collection.upsert(DOCUMENTS[start : start + 20])
            collection.delete(["d7", "d41"])
            collection.upsert([Document(id="d3", text="another text altogether")])
        assert (plain.n_bits, plain.ranking, plain.encoder) == (0, "bm25", None)
        for text in (TEXTS[5], TEXTS[30], "another text", "number12 number13"):
            assert ids(plain, text) == ids(coded, text, ranking="bm25")
        filter_ = parse_filter({"field": "third", "eq": 1})
        assert ids(plain, TEXTS[5], filter=filter_) == ids(
            coded, TEXTS[5], ranking="bm25", filter=filter_
        )
        (hit,) = plain.search([Query(text="number12")], 1, with_code=True, highlight=True).hits[0]
        assert (hit.id, hit.distance, hit.code or "") == ("d12", None, "")
        assert plain.verify().problems == []
        stats = plain.stats()
        assert (stats["documents"], stats["distinct_codes"], stats["entropy"]) == (58, 0, None)
        plain.compact()
    with DataFolder(tmp_path, writable=False) as folder:
        plain = folder.collection("plain")
        assert ids(plain, TEXTS[5]) == ids(folder.collection("coded"), TEXTS[5], ranking="bm25")
        document = plain.get("d12")
        assert document is not None
        assert (document.code, document.text) == ("", TEXTS[12])


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"ranking": "hamming"}, "ranking"),
        ({"ranking": "asymmetric"}, "ranking"),
        ({"ranking": "hybrid"}, "ranking"),
        ({"radius": 0}, "radius"),
        ({"radius": 3}, "radius"),
        ({"rerank": True}, "rerank"),
        ({"rescore": Rescore("logits")}, "rescore"),
        ({"rescore": Rescore("vectors")}, "rescore"),
        ({"collapse_duplicates": 0}, "collapse_duplicates"),
        ({"diversity": 0.5}, "diversity"),
    ],
)
def test_what_needs_codes_is_refused_by_name(
    options: dict[str, Any], field: str, tmp_path: Path
) -> None:
    with DataFolder(tmp_path, writable=True) as folder:
        collection = folder.create_collection("plain", n_bits=0)
        collection.upsert(DOCUMENTS[:4])
        with pytest.raises(InputError, match="no codes and is searched by words alone") as caught:
            ids(collection, "number1", **options)
        assert caught.value.field == field


def test_queries_and_documents_with_codes_are_refused(tmp_path: Path) -> None:
    with DataFolder(tmp_path, writable=True) as folder:
        collection = folder.create_collection("plain", n_bits=0)
        collection.upsert(DOCUMENTS[:4])
        alone = "no codes and is searched by words alone"
        for query in (Query(code="ff"), Query(id="d1"), Query(vector=np.ones(8, np.float32))):
            with pytest.raises(InputError, match=alone):
                collection.search([query], 3)
        with pytest.raises(InputError, match=alone):
            collection.search([Query(text="number1", code="ff")], 3)
        for document in (
            Document(id="x", code="ff"),
            Document(id="x", text="a text", vector=np.ones(8, np.float32)),
        ):
            with pytest.raises(InputError, match=rf"{alone} \(document 'x'\)"):
                collection.upsert([document])
        assert len(collection) == 4
        for ranking in ("hamming", "asymmetric", "hybrid"):
            with pytest.raises(InputError, match=alone):
                collection.set_ranking(ranking)
        with pytest.raises(InputError, match=alone):
            collection.set_hybrid_weight(2.0)
        with pytest.raises(InputError, match="passages"):
            folder.create_collection("other", n_bits=64, passages=Passages())


def test_passages_of_words_are_ranked_as_passages_with_codes(tmp_path: Path) -> None:
    install(tmp_path)
    books = [
        Document(f"b{at}", ". ".join(random_texts(20, seed=at)), payload={"third": at % 3})
        for at in range(12)
    ]
    passages = Passages(words=24)
    with DataFolder(tmp_path, writable=True) as folder:
        coded = folder.create_collection("coded", encoder="words", passages=passages)
        plain = folder.create_collection("plain", n_bits=0, passages=passages)
        for collection in (coded, plain):
            collection.upsert([*books, Document("short", "one passage")])
            collection.upsert([Document("b3", ". ".join(random_texts(30, seed=99)))])
            collection.delete(["b5"])
        queries = [*random_texts(6, seed=2), "one passage"]
        expected = {text: passages_of(coded, text, ranking="bm25") for text in queries}
        assert {text: passages_of(plain, text) for text in queries} == expected
        filter_ = parse_filter({"field": "third", "eq": 1})
        assert passages_of(plain, queries[0], filter=filter_) == passages_of(
            coded, queries[0], ranking="bm25", filter=filter_
        )
        assert plain.stats()["n_passages"] == coded.stats()["n_passages"] > len(plain) == 12
        assert plain.verify().problems == []
        plain.compact()
        snapshot = folder.create_snapshot("plain")
        folder.restore_snapshot(snapshot.id, "restored")
        restored = folder.collection("restored")
        assert restored.passages == passages
        assert {text: passages_of(restored, text) for text in queries} == expected
        stream = io.BytesIO()
        export_collection(plain, stream)
        assert folder.reindex("plain", "words", "again", None, None) == 12
        again = folder.collection("again")
        assert (again.passages, again.n_bits) == (passages, text_encoder().n_bits)
    with DataFolder(tmp_path, writable=False) as folder:
        assert {text: passages_of(folder.collection("plain"), text) for text in queries} == expected
    path = tmp_path / "plain.jsonl"
    path.write_bytes(stream.getvalue())
    other = tmp_path / "other"
    assert main(["index", "import", "plain", str(path), "--data-dir", str(other)]) == 0
    with DataFolder(other, writable=False) as folder:
        assert {text: passages_of(folder.collection("plain"), text) for text in queries} == expected


def passages_of(collection: Any, text: str, **options: Any) -> list[tuple[str, float, Any]]:
    (hits,) = collection.search([Query(text=text)], 20, with_passage=True, **options).hits
    return [(hit.id, hit.score, hit.passage) for hit in hits]


def test_without_the_package_of_encoders_words_alone_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "shipped_encoder", lambda: None)
    with DataFolder(tmp_path / "data", writable=True) as data:
        collection = data.create_collection("notes")
        assert (collection.n_bits, collection.encoder_name) == (0, None)
        assert data.create_collection("notes") is collection
        assert data.encoders.names() == []
    with hummingbit.Collection.create(tmp_path / "other", "notes", encoder=None) as notes:
        notes.add(["a jar of plum jam", "the train to Leeds"], ids=["jam", "train"])
        assert [hit.id for hit in notes.search("plum")] == ["jam"]
        assert "words alone" in repr(notes)


def test_what_is_missing_is_said_where_no_encoder_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(catalog, "shipped_encoder", lambda: None)
    with running_service(tmp_path / "served") as client:
        document = {"id": "a", "text": "plum"}
        early = client.put("/v1/collections/notes/documents", json={"documents": [document]})
        assert (early.status_code, early.json()["code"]) == (404, "unknown_collection")
        assert "PUT /v1/collections/NAME creates a collection" in early.json()["detail"]
        made = client.put("/v1/collections/notes")
        assert made.status_code == 201, made.text
        assert "/models" in made.json()["warnings"][0]
        asked = client.put("/v1/collections/other", json={"encoder": None})
        assert "warnings" not in asked.json()
    (tmp_path / "notes.txt").write_text("\n".join(TEXTS))
    command = ["index", "build", "notes", str(tmp_path / "notes.txt")]
    assert main([*command, "--data-dir", str(tmp_path / "data")]) == 0
    assert "/models" in capsys.readouterr().err


def test_exports_and_snapshots_keep_it(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with DataFolder(tmp_path / "one", writable=True) as folder:
        collection = folder.create_collection("plain", n_bits=0)
        collection.upsert(DOCUMENTS)
        expected = ids(collection, TEXTS[5])
        assert export_collection(collection, stream) == 60
        snapshot = folder.create_snapshot("plain")
        folder.restore_snapshot(snapshot.id, "restored")
        restored = folder.collection("restored")
        assert (restored.n_bits, restored.ranking) == (0, "bm25")
        assert ids(restored, TEXTS[5]) == expected
    path = tmp_path / "plain.jsonl"
    path.write_bytes(stream.getvalue())
    with DataFolder(tmp_path / "two", writable=True) as folder:
        assert (
            main(["index", "import", "plain", str(path), "--data-dir", str(tmp_path / "three")])
            == 0
        )
    with DataFolder(tmp_path / "three", writable=False) as folder:
        assert ids(folder.collection("plain"), TEXTS[5]) == expected


def test_reindexing_gives_it_an_encoder(tmp_path: Path) -> None:
    install(tmp_path)
    with DataFolder(tmp_path, writable=True) as folder:
        collection = folder.create_collection("plain", n_bits=0, language="english")
        collection.upsert(DOCUMENTS)
        assert folder.reindex("plain", "words", "coded", None, None) == 60
        coded = folder.collection("coded")
        assert (coded.ranking, coded.language, coded.n_bits) == (
            "hybrid",
            "english",
            text_encoder().n_bits,
        )
        assert ids(coded, TEXTS[5], ranking="bm25") == ids(collection, TEXTS[5])
        assert coded.search([Query(text=TEXTS[9])], 1, ranking="hamming").hits[0][0].distance == 0


def test_a_service_has_it(tmp_path: Path) -> None:
    install(tmp_path)
    documents = [{"id": document.id, "text": document.text} for document in DOCUMENTS]
    with running_service(tmp_path) as client:
        made = client.put("/v1/collections/plain", json={"encoder": None})
        assert made.status_code == 201, made.text
        summary = made.json()
        assert (summary["encoder"], summary["n_bits"], summary["ranking"]) == (None, 0, "bm25")
        assert client.put("/v1/collections/plain", json={"n_bits": 0}).status_code == 200
        put = client.put("/v1/collections/plain/documents", json={"documents": documents})
        assert put.status_code == 200, put.text
        found = client.post("/v1/collections/plain/search", json={"text": "number12"}).json()
        assert found["hits"][0]["id"] == "d12"
        assert (found["ranking"], found["hits"][0]["distance"]) == ("bm25", None)
        for body, pointer in (
            ({"text": "number1", "ranking": "hybrid"}, "/ranking"),
            ({"text": "number1", "radius": 2}, "/radius"),
            ({"id": "d1"}, "/id"),
            ({"code": "ff"}, "/code"),
        ):
            answer = client.post("/v1/collections/plain/search", json=body)
            assert answer.status_code == 422, answer.text
            (error,) = answer.json()["errors"]
            assert error["pointer"] == pointer
            assert "words alone" in error["message"]
        requests: list[tuple[str, dict[str, Any]]] = [
            ("recommend", {"positive": [{"id": "d1"}]}),
            ("search/batch", {"searches": [{"text": "number1", "radius": 1}]}),
            ("encode", {"inputs": [{"text": "number1"}]}),
        ]
        for path, request in requests:
            answer = client.post(f"/v1/collections/plain/{path}", json=request)
            assert answer.status_code == 422, (path, answer.text)
        for path in ("", "/stats", "/codes", "/labels"):
            answer = client.get(f"/v1/collections/plain{path}")
            assert answer.status_code < 500, (path, answer.text)
        pool = client.get("/v1/collections/plain/judgements/pool?query=number12").json()
        assert pool["documents"][0]["id"] == "d12"
        assert [*pool["documents"][0]["ranks"]] == ["bm25"]
        for method in ("herding", "margin"):
            path = f"/v1/collections/plain/labels/suggest?n=3&method={method}"
            suggested = client.get(path).json()["documents"]
            assert len({document["id"] for document in suggested}) == 3
        job = client.post(
            "/v1/collections/plain/reindex", json={"encoder": "words", "into": "coded"}
        ).json()
        with hummingbit.Client(str(client.base_url)) as own:
            own.wait_for(job)
            assert own.collection("coded")["documents"] == 60
            assert own.search("coded", "number12")["ranking"] == "hybrid"
            assert own.create_collection("more", encoder=None)["n_bits"] == 0


def test_the_command_has_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "notes.jsonl"
    source.write_text(
        "".join(
            json.dumps({"id": document.id, "text": document.text}) + "\n" for document in DOCUMENTS
        )
    )
    data = ["--data-dir", str(tmp_path / "data")]
    assert main(["index", "build", "notes", str(source), "--no-encoder", *data]) == 0
    capsys.readouterr()
    assert main(["search", "notes", "number12", *data]) == 0
    assert "d12" in capsys.readouterr().out
    assert main(["search", "notes", "number12", "--ranking", "hybrid", *data]) != 0
    assert "words alone" in capsys.readouterr().err
    for command in (["index", "stats", "notes"], ["index", "list"], ["index", "verify", "notes"]):
        assert main([*command, *data]) == 0
    queries, qrels = tmp_path / "queries.jsonl", tmp_path / "qrels.txt"
    queries.write_text(
        "".join(json.dumps({"id": f"q{at}", "text": TEXTS[at]}) + "\n" for at in range(9))
    )
    qrels.write_text("".join(f"q{at} 0 d{at} 1\n" for at in range(9)))
    capsys.readouterr()
    judged = ["--queries", str(queries), "--qrels", str(qrels), *data]
    assert main(["evaluate", "notes", *judged, "--json"]) == 0
    (ranking, figures), *others = json.loads(capsys.readouterr().out)["rankings"].items()
    assert (ranking, figures["expected"]["MRR"], others) == ("bm25", 1.0, [])
    assert main(["evaluate", "notes", *judged, "--rankings", "hamming"]) != 0
    assert "words alone" in capsys.readouterr().err


def test_korean_words_find_words_with_particles(tmp_path: Path) -> None:
    texts = ["서울의 지하철은 매우 편리합니다", "부산에서 기차를 탔습니다", "지도를 보세요"]
    with hummingbit.Collection.create(tmp_path, "korean", encoder=None) as collection:
        collection.add(texts, ids=["subway", "train", "map"])
        assert collection.search("지하철").ids == ["subway"]
        assert sorted(collection.search("서울 기차").ids) == ["subway", "train"]
        assert collection.search("지").ids == []
