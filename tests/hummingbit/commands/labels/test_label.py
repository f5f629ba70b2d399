from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hummingbit import Client
from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.service.settings import Settings
from tests.support.encoders import random_texts, text_encoder
from tests.support.service import make_data_folder, running_service
from tests.support.trainers import external_trainer

N = 40
TEXTS = random_texts(N, seed=5)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    path = make_data_folder(tmp_path / "data")
    with DataFolder(path, writable=True) as folder:
        books = folder.create_collection("books", encoder="words")
        books.upsert([Document(f"d{at}", text) for at, text in enumerate(TEXTS)])
    return path


@pytest.fixture(params=["folder", "service"])
def where(request: pytest.FixtureRequest, data_dir: Path) -> Iterator[list[str]]:
    """The options that name a data folder, or a service on it."""
    if request.param == "folder":
        yield ["--data-dir", str(data_dir)]
        return
    with running_service(data_dir) as client:
        yield ["--url", str(client.base_url)]


def test_labels_are_set_counted_and_moved(
    where: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(action: str, *arguments: str) -> str:
        assert main(["label", action, "books", *arguments, *where]) == 0
        return capsys.readouterr().out

    first = run("suggest", "-n", "3").splitlines()
    assert len(first) == 3
    id_, taken, text = first[0].split("\t")
    assert (taken, text) == ("-", TEXTS[int(id_[1:])])
    assert json.loads(run("suggest", "-n", "1", "--json"))["id"] == id_
    assert run("set", "d0", "a", "--who", "ann") == "d0: changed\n"
    assert run("set", "d0", "a", "--who", "ann") == "d0: unchanged\n"
    unchanged = {"id": "d0", "changed": False}
    assert json.loads(run("set", "d0", "a", "--who", "ann", "--json")) == unchanged
    counted = json.loads(run("stats", "--json"))
    assert (counted["labelled"], counted["documents"]) == (1, N)
    assert run("set", "d0", "b", "--who", "bob", "--grade", "2") == "d0: changed\n"
    assert run("set", "d0", "--remove", "--who", "bob") == "d0: changed\n"
    lines = tmp_path / "labels.jsonl"
    records: list[dict[str, object]] = [
        {"id": f"d{at}", "label": "ab"[at % 2]} for at in range(1, 30)
    ]
    records += [{"id": "absent", "label": "a"}, {"query": "a tensor", "id": "d1", "grade": 1}]
    lines.write_text("\n".join(map(json.dumps, records)))
    out = run("import", str(lines), "--who", "ann")
    assert out == "books: 30 records changed; skipped 1 record of unknown documents\n"
    stats = run("stats")
    assert "30 of 40 documents labelled" in stats
    assert "1 judgement of 1 query" in stats
    assert "a classifier of the labels is right on" in stats
    exported = [json.loads(line) for line in run("export").splitlines()]
    assert len(exported) == 31
    lines.write_text("\n".join(json.dumps({"id": f"d{at}", "label": "a"}) for at in range(N)))
    run("import", str(lines), "--who", "eve")
    assert main(["label", "suggest", "books", "--limit", "3", *where]) == 0
    nothing = capsys.readouterr()
    assert nothing.out == ""
    assert nothing.err.endswith("books: there is no document left to label\n")
    assert {item["who"] for item in exported} == {"ann"}
    qrels = tmp_path / "qrels.txt"
    run("export", str(qrels), "--format", "qrels")
    assert qrels.read_text() == "a%20tensor 0 d1 1\n"
    assert run("import", str(qrels), "--format", "qrels", "--who", "bob").startswith("books: 1 ")


def test_exported_judgements_evaluate_documents_of_any_id(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = ["a b", "a%20b", 'say "hi"', "tab\there", "#5", "50%"]
    folder = ["--data-dir", str(data_dir)]
    with DataFolder(data_dir, writable=True) as opened:
        books = opened.collection("books")
        books.upsert([Document(id_, TEXTS[at]) for at, id_ in enumerate(ids)])
    lines = tmp_path / "judgements.jsonl"
    judged = [{"query": f'{TEXTS[at]} 100% "x"', "id": id_} for at, id_ in enumerate(ids)]
    lines.write_text("\n".join(json.dumps({**item, "grade": 1}) for item in judged))
    assert main(["label", "import", "books", str(lines), *folder]) == 0
    for form in ("qrels", "queries"):
        out = str(tmp_path / f"{form}.jsonl")
        assert main(["label", "export", "books", out, "--format", form, *folder]) == 0
    files = ["--queries", str(tmp_path / "queries.jsonl"), "--qrels", str(tmp_path / "qrels.jsonl")]
    evaluate = ["evaluate", "books", *files, "--metrics", "Recall@46"]
    capsys.readouterr()
    assert main([*evaluate, "--json", *folder]) == 0
    found = json.loads(capsys.readouterr().out)
    # Every judged document is among all: no judgement is ignored.
    assert found["metrics"]["Recall@46"] == 1
    assert not [note for note in found["notes"] if "ignored" in note]


def test_wrong_files_and_labels_are_named(
    where: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"id": "d0"}\n')
    assert main(["label", "import", "books", str(wrong), *where]) == 2
    assert f"{wrong}:1: label: exactly one of label and labels" in capsys.readouterr().err
    assert main(["label", "set", "books", "absent", "a", *where]) == 2
    assert "there is no document 'absent'" in capsys.readouterr().err
    assert main(["label", "set", "books", "d0", "a", "--remove", *where]) == 2
    assert "--remove" in capsys.readouterr().err
    assert main(["label", "suggest", "books", "-n", "1001", *where]) == 0
    assert len(capsys.readouterr().out.splitlines()) == N
    assert main(["label", "suggest", "books", "-n", "10001", *where]) == 2
    assert "-n is 10001; it must be from 1 to 10,000" in capsys.readouterr().err


def test_an_export_of_the_collection_carries_labels(data_dir: Path, tmp_path: Path) -> None:
    folder = ["--data-dir", str(data_dir)]
    assert main(["label", "set", "books", "d0", "a", "--who", "ann", *folder]) == 0
    for where in (folder, None):
        out = tmp_path / "export.jsonl"
        if where is None:
            with running_service(data_dir) as client:
                url = ["--url", str(client.base_url)]
                assert main(["index", "export", "books", str(out), *url]) == 0
                assert main(["index", "import", "over-rest", str(out), *url]) == 0
        else:
            assert main(["index", "export", "books", str(out), *where]) == 0
            assert main(["index", "import", "again", str(out), *where]) == 0
    with DataFolder(data_dir, writable=False) as opened:
        for name in ("again", "over-rest"):
            found = opened.collection(name)
            assert isinstance(found, Collection)
            assert [
                (label.id, label.labels, label.who) for label in found.annotations.labels()
            ] == [("d0", ("a",), "ann")]
            assert len(found) == N


def test_a_service_retrains_and_takes_back(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        running_service(data_dir, Settings(training="elsewhere")) as http,
        external_trainer(data_dir, text_encoder(64, seed=1)),
        Client(str(http.base_url)) as client,
    ):
        url = ["--url", str(http.base_url)]
        client.set_labels("books", [{"id": f"d{at}", "label": "ab"[at % 2]} for at in range(30)])
        client.set_alias("shelf", "books")
        command = ["label", "retrain", "shelf", *url]
        assert main([*command, "--min-gain", "1"]) == 1
        assert "the gate refuses" in capsys.readouterr().out
        assert main([*command, "--min-gain", "1", "--json"]) == 1
        refused = json.loads(capsys.readouterr().out)
        assert refused["state"] == "refused"
        assert refused["trial"]["min_gain"] == 1
        more = ["--held-out", "0.5", "--seed", "3"]
        assert main([*command, "--min-gain", "1", "--json", *more]) == 1
        seeded = json.loads(capsys.readouterr().out)
        assert (refused["trial"]["queries"], seeded["trial"]["queries"]) == (6, 15)
        assert main([*command, "--seed", "-1"]) != 0
        assert "--seed: is -1" in capsys.readouterr().err
        assert main([*command, "--min-gain", "-1"]) == 0
        out = capsys.readouterr().out
        assert "mAP@100" in out
        job = out.split()[-1]
        assert main(["label", "confirm", job, *url]) == 0
        assert capsys.readouterr().out == f"shelf-2: {N} documents; the alias shelf points to it\n"
        assert main(["label", "take-back", job, *url, "--json"]) == 0
        back = json.loads(capsys.readouterr().out)
        assert (back["alias"], back["collection"]) == ("shelf", "books")
        assert client.aliases() == {"shelf": "books"}
