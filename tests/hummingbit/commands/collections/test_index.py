from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from hummingbit.cli import main
from hummingbit.encoder.artifact import write_artifact
from hummingbit.index.data_folder import DataFolder
from tests.support.encoders import random_texts, text_encoder


def hummingbit(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a collection of 60 texts."""
    monkeypatch.chdir(tmp_path)
    write_artifact(tmp_path / "encoders" / "plain", text_encoder(), random_texts(50))
    lines = [
        {"id": f"d{i}", "text": text, "payload": {"year": 1990 + i % 10, "odd": bool(i % 2)}}
        for i, text in enumerate(random_texts(60))
    ]
    Path("corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert hummingbit("index", "build", "c", "corpus.jsonl", "--encoder", "plain") == 0
    return tmp_path


def searched(capsys: pytest.CaptureFixture[str], *options: object) -> dict[str, Any]:
    capsys.readouterr()
    assert hummingbit("search", "c", "apple jam", "--json", *options) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_search_with_a_filter(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = searched(capsys, "--filter", '{"field": "year", "lt": 1992}', "--limit", 50)
    assert sorted({hit["payload"]["year"] for hit in found["hits"]}) == [1990, 1991]
    assert len(found["hits"]) == 12
    assert (found["ties_cut"], found["next_cursor"]) == (False, None)


def test_pages_of_a_search(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = [hit["id"] for hit in searched(capsys, "--limit", 60, "--no-payload")["hits"]]
    first = searched(capsys, "--limit", 20)
    rest = searched(capsys, "--limit", 60, "--cursor", first["next_cursor"])
    assert [hit["id"] for hit in [*first["hits"], *rest["hits"]]] == whole
    skipped = searched(capsys, "--limit", 60, "--offset", 20)
    assert skipped["hits"] == rest["hits"]


def test_a_search_that_is_reranked(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = searched(capsys, "--rerank", "--with-code", "--radius", 20)
    assert found["reranked"] is True
    scores = [hit["rerank_score"] for hit in found["hits"]]
    assert scores == sorted(scores)
    assert all(len(hit["code"]) == 8 for hit in found["hits"])
    assert hummingbit("search", "c", "apple jam", "--rerank", "--no-payload", "--limit", 1) == 0
    assert f"{found['hits'][0]['id']}\n" in capsys.readouterr().out


def test_bad_input_is_explained(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["search", "c", "x", "--filter", "{"], "--filter: is not valid JSON: "),
        (["search", "c", "x", "--filter", "3"], "filter: is 3; it must be {"),
        (["search", "c", "x", "--cursor", "abc"], "cursor: is 'abc'; it must be the next_cursor"),
        (["search", "c", "--id", "d1", "--rerank"], "rerank: needs a text or a vector"),
        (["search", "c", "x", "--offset", "-1"], "offset: is -1; it must be from 0 to"),
        (["index", "delete", "c"], "ID: give either ids or --filter"),
        (["index", "delete", "c", "a", "--filter", "{}"], "filter: is {}; it must be {"),
        (["index", "get", "c", "absent"], "collection 'c' has no document 'absent'"),
        (["index", "add", "c", "corpus.jsonl", "--jobs", "0"], "--jobs is 0; it must be at least"),
        (["index", "import", "c", "absent.jsonl"], "absent.jsonl: No such file"),
        (["index", "import", "e", "corpus.jsonl"], "corpus.jsonl:1: is not the head of an export"),
        (["index", "export", "c", "absent/e.jsonl"], "absent/e.jsonl: No such file"),
        (["index", "verify", "absent"], "there is no collection 'absent'"),
        (["index", "fields", "c", "a\0b"], "indexed_fields: is 'a\\x00b'; it must not contain NUL"),
        (["index", "fields", "c", "a", "--none"], "--none: cannot be combined with fields"),
        (["index", "drop", "absent"], "there is no collection 'absent'"),
    ):
        capsys.readouterr()
        assert hummingbit(*arguments) == 2, arguments
        printed = capsys.readouterr().err
        assert message in printed
        assert printed.count("\n") == 1


def test_adding_again_passes_over_what_is_there(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hummingbit("index", "add", "c", "corpus.jsonl", "--jobs", 1) == 0
    assert "60 of them unchanged, 60 in all, generation 1" in capsys.readouterr().out


def test_documents_are_got_counted_and_deleted(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert hummingbit("index", "get", "c", "d1", "d2") == 0
    one, _ = capsys.readouterr().out.splitlines()
    assert json.loads(one)["payload"] == {"year": 1991, "odd": True}
    assert hummingbit("index", "count", "c", "--filter", '{"field": "odd", "eq": true}') == 0
    assert capsys.readouterr().out == "30\n"
    assert hummingbit("index", "delete", "c", "--filter", '{"field": "odd", "eq": true}') == 0
    assert hummingbit("index", "delete", "c", "d0", "absent") == 0
    assert hummingbit("index", "delete", "c", "--filter", '{"field": "odd", "eq": "yes"}') == 0
    assert hummingbit("index", "count", "c") == 0
    captured = capsys.readouterr()
    assert captured.err.endswith("filter: 'odd' holds booleans; \"yes\" finds strings only\n")
    assert captured.out.splitlines() == [
        "c: 30 documents deleted; 30 in all",
        "c: 1 document deleted; 29 in all",
        "c: 0 documents deleted; 29 in all",
        "29",
    ]


@pytest.mark.parametrize("file", ["e.jsonl", "e.jsonl.gz", "e.jsonl.xz"])
def test_an_export_is_imported(data: Path, capsys: pytest.CaptureFixture[str], file: str) -> None:
    assert hummingbit("index", "export", "c", file) == 0
    assert hummingbit("index", "import", "again", file) == 0
    assert hummingbit("index", "import", "again", file) == 0
    assert "60 of them unchanged" in capsys.readouterr().out.splitlines()[-1]
    assert sorted(path.name for path in data.glob("e.jsonl*")) == [file]
    with DataFolder(data, writable=False) as folder:
        before, after = (folder.collection(name).all_documents() for name in ("c", "again"))
    assert [(document.id, document.code, document.text) for document in before] == [
        (document.id, document.code, document.text) for document in after
    ]


def test_export_and_import_through_pipes(
    data: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    capsysbinary.readouterr()
    assert hummingbit("index", "export", "c") == 0
    written = capsysbinary.readouterr().out
    assert written.count(b"\n") == 62
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(written)))
    assert hummingbit("index", "import", "again") == 0
    with DataFolder(data, writable=False) as folder:
        assert len(folder.collection("again")) == 60


def test_upkeep(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert hummingbit("index", "verify", "c") == 0
    assert capsys.readouterr().out == "c: 60 documents checked; no problems\n"
    assert hummingbit("index", "delete", "c", "d1") == 0
    assert hummingbit("index", "compact", "c") == 0
    assert hummingbit("index", "fields", "c") == 0
    assert hummingbit("index", "fields", "c", "year", "author.name") == 0
    assert hummingbit("index", "verify", "c") == 0
    assert hummingbit("index", "fields", "c", "--none") == 0
    said, warned = capsys.readouterr()
    assert "no document has the field 'author.name'\n" in warned
    assert [line for line in said.splitlines() if "fields" in line] == [
        "c: indexed fields: none",
        "c: indexed fields: author.name, year",
        "c: indexed fields: none",
    ]
    assert hummingbit("index", "list") == 0
    assert capsys.readouterr().out == "c\t59 documents\t32 bits\tplain\n"
    assert hummingbit("index", "drop", "c") == 0
    assert hummingbit("index", "list") == 0
    assert capsys.readouterr().out == "c: dropped\n"


def test_verification_fails_where_a_byte_was_flipped(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = data.glob("collections/*/store.sqlite")
    raw = bytearray(path.read_bytes())
    raw[raw.index(b'{"year": 1990') + 2] ^= 1
    path.write_bytes(raw)
    assert hummingbit("index", "verify", "c") == 1
    assert "does not match its checksum" in capsys.readouterr().err


def test_a_build_that_fails_late_is_gone_on_with(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "hummingbit.index.ingestion.ingest.__wrapped__.__kwdefaults__",
        {"batch_size": 25, "jobs": 1, "progress": None},
    )
    with gzip.open("bad.jsonl.gz", "wt") as file:
        file.write(Path("corpus.jsonl").read_text() + "not json\n")
    assert hummingbit("index", "build", "late", "bad.jsonl.gz", "--encoder", "plain") == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("late: 50 documents stored; to continue, run the same command")
    assert said[1].startswith("hummingbit: bad.jsonl.gz:61: is not valid JSON")
    assert hummingbit("index", "add", "late", "corpus.jsonl") == 0
    assert "50 of them unchanged, 60 in all" in capsys.readouterr().out


def test_what_a_search_did_not_recognize_is_said(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert hummingbit("search", "c", "aple jam", "--ranking", "hamming") == 0
    assert capsys.readouterr().err == "corrected 'aple' to 'apple'\n"
    assert hummingbit("search", "c", "zzqx", "--ranking", "hamming") == 0
    out, err = capsys.readouterr()
    assert (out, err) == (
        "",
        "the encoder knows no word of the query, so the search finds nothing\n",
    )
    for text in ("", " ?! ", "👍"):
        assert hummingbit("search", "c", text) == 0
        said = "the query has no word, so the search finds nothing\n"
        assert capsys.readouterr() == ("", said)


def test_near_duplicates_are_listed_and_deleted(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [*random_texts(3), random_texts(1)[0]]
    lines = [json.dumps({"id": f"n{i}", "text": text}) + "\n" for i, text in enumerate(texts)]
    Path("near.jsonl").write_text("".join(lines))
    assert hummingbit("index", "build", "n", "near.jsonl", "--encoder", "plain") == 0
    capsys.readouterr()
    options = ("--radius", 0, "--confirm", 0.9)
    for delete in ((), ("--delete",)):
        assert hummingbit("index", "duplicates", "n", *options, *delete) == 0
        out, err = capsys.readouterr()
        assert json.loads(out) == {"ids": ["n0", "n3"]}
        assert "1 cluster; 1 document with an older near-duplicate" in err
    assert "1 deleted, 3 left" in err
    assert hummingbit("index", "duplicates", "n", *options) == 0
    assert capsys.readouterr().out == ""
    assert hummingbit("index", "duplicates", "n", *options, "--delete", "--json") == 0
    summary = {"collection": "n", "clusters": 0, "with_an_older": 0, "deleted": 0, "documents": 3}
    assert json.loads(capsys.readouterr().out) == summary
    assert hummingbit("index", "duplicates", "n", "--radius", 33) == 2
    assert "radius: is 33; it must be from 0 to 32" in capsys.readouterr().err


def test_documents_that_the_encoder_knows_no_word_of_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_artifact(tmp_path / "encoders" / "plain", text_encoder(), random_texts(50))
    known = [{"id": f"k{i}", "text": text} for i, text in enumerate(random_texts(5))]
    strange = [{"id": f"s{i}", "text": f"zzqx{i} blorp"} for i in range(6)]

    def build(name: str, records: list[dict[str, str]], *options: str) -> tuple[int, str]:
        corpus = tmp_path / f"{name}.jsonl"
        corpus.write_text("".join(json.dumps(record) + "\n" for record in records))
        command = ["index", "build", name, str(corpus), "--encoder", "plain"]
        status = main([*command, "--data-dir", str(tmp_path), *options])
        return status, capsys.readouterr().err

    status, said = build("few", [*known, *strange[:2]])
    assert status == 0
    assert (
        "few: 2 of 7 documents hold no word that the encoder knows; only searches by words" in said
    )
    status, said = build("most", [*known, *strange])
    assert status == 2
    assert "most: 6 of 11 documents hold no word that the encoder knows; train an encoder" in said
    with DataFolder(tmp_path, writable=False) as folder:
        assert "most" not in folder.collections()
    assert build("most", [*known, *strange], "--allow-unknown")[0] == 0
    assert build("none", known) == (0, "")
