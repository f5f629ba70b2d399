"""What a user does wrong on the command line ends with one sentence and without a traceback."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hummingbit.cli import main
from hummingbit.encoder.artifact import write_artifact
from tests.support.encoders import random_texts, text_encoder
from tests.support.faults.disks import fill, small_disk

MISTAKES = {
    "index build d nope.jsonl --encoder plain": "nope.jsonl: No such file",
    "index build d bin.jsonl --encoder plain": "bin.jsonl:1: is not UTF-8",
    "index build d empty.csv --encoder plain": "empty.csv: is empty",
    "index build d folder --encoder plain": "is a folder without .txt or .md files",
    "index build d noise.parquet --encoder plain": "cannot be read as Parquet",
    "index build d noise.npz --encoder plain": "cannot be read as an .npz archive: it is not one",
    "index build d noise.jsonl.gz --encoder plain": "cannot be read: Not a gzipped file",
    "index build d /proc/self/mem --encoder plain": "its name must end with one of .jsonl",
    "index build d loop.jsonl --encoder plain": "Too many levels of symbolic links",
    "index build d c.jsonl --encoder nope": "there is no encoder 'nope'; known encoders: plain",
    "index build d c.jsonl --bits 7": "--bits is 7; it must be a multiple of 8",
    "index build d c.jsonl --bits 64": "; index build --encoder NAME makes a collection that",
    "index build ../x c.jsonl --encoder plain": "name: is '../x'",
    "index build d c.jsonl --encoder plain --data-dir file": "file: ",
    "index build d c.jsonl --encoder plain --data-dir /proc/x": "/proc/x: ",
    "index build d c.jsonl --encoder plain --jobs 0": "--jobs is 0; it must be at least 1",
    "index add nope c.jsonl": "there is no collection 'nope'",
    "index add 结果 c.jsonl": "there is no collection '结果'",
    "index build d c.jsonl --encoder plain --label-field 结果": "no document has the field '结果'",
    "index get c zzz": "collection 'c' has no document 'zzz'",
    "index count c --filter {": "--filter: is not valid JSON",
    "index count c --filter []": "filter: is []",
    'index count c --filter {"field":"x","equals":1,"equals":2}': "the key 'equals' is given twice",
    f"search c --vector {'9' * 5000}": "--vector: cannot be read as JSON: Exceeds the limit",
    "index build d twice.jsonl --encoder plain": "twice.jsonl:1: the key 'id' is given twice",
    "label suggest c -n 0": "-n is 0; it must be from 1 to 10,000",
    "label import c twice.jsonl": "twice.jsonl:1: the key 'id' is given twice",
    "index delete c": "ID: give either ids or --filter",
    "index export c /nope/x.jsonl": "/nope/x.jsonl: No such file or directory",
    "index export c folder": "folder: Is a directory",
    "index import c2 bin.jsonl": "bin.jsonl:1: is not UTF-8",
    "index import c2 object.json": "is not the head of an export",
    "index import c2 c.jsonl --from txtai --encoder plain": "a folder, a .zip or a .tar file",
    "index import c2 c.jsonl --from milvus --encoder plain": "the suffix must be .json or .parquet",
    "index verify nope": "there is no collection 'nope'",
    "index list --url http://127.0.0.1:9": "refused; start it with hummingbit serve, or name",
    "index list --url foo": "url is 'foo'; it must begin with http",
    "search c x --limit 0": "is 0; it must be from 1 to 10000",
    "search c x --filter nope": "--filter: is not valid JSON",
    "train lsh --data c.jsonl --out file/x": "is a file; name a folder that can be created",
    "train lsh --data c.jsonl --out /proc/x/y": "--out /proc/x/y: ",
    "train lsh --data c.jsonl --out encoders/plain": "already exists",
    "train lsh --data empty.csv --out e": "empty.csv: is empty",
    "train lsh --data empty.json --out e": "empty.json: there are no documents",
    "train --data empty.jsonl --out e": "empty.jsonl: there are no documents",
    "train --data c.jsonl --out e --bits 30": "--bits is 30; it must be a multiple of 8",
    "index build d empty.json --encoder plain": "empty.json: there are no documents to index",
    "demo --data-dir file/x": "--data-dir file/x: ",
    "encoder install nope": "nope/encoder.json: No such file or directory",
    "encoder show zzz": "there is no encoder 'zzz'; known encoders: plain",
    "encoder export zzz --onnx x": "there is no encoder 'zzz'; known encoders: plain",
    "encoder push zzz --folder x": "there is no encoder 'zzz'; known encoders: plain",
    "encoder pull folder --name x": "folder/encoder.json: No such file or directory",
    "alias list --data-dir file": "file: Not a directory",
    "alias set live nope": "there is no collection 'nope'; the data folder has c",
    "snapshot restore file x": "the snapshot cannot be read",
    "config show --config nope.toml": "nope.toml: No such file or directory",
    "config check --port 99999999": "flag --port: port is '99999999'",
    "serve --data-dir /nope": "--data-dir /nope: does not exist",
    "serve --port abc": "flag --port: port is 'abc'",
    "evaluate c --queries nope": "nope: No such file or directory",
    "evaluate c --queries c.jsonl --metrics Zzz": "'Zzz' is not a metric",
    "evaluate c --queries c.jsonl --gate bin.jsonl": "bin.jsonl: ",
    "evaluate compare c": "a comparison needs two or more",
    "search zzz x": "there is no collection 'zzz'; the data folder has c",
    "search cc x": "there is no collection 'cc'; did you mean 'c'?",
    "search c x --data-dir folder": "the data folder has none: name another with --data-dir",
    "search c x --filter year=1990": """write it as in '{"field": "year", "gte": 1990}'""",
    "quickstart c.jsonl --bits 30": "--bits is 30; it must be a multiple of 8",
    "label retrain c --url http://127.0.0.1:9 --bits 30": "--bits is 30; it must be a multiple",
    "evaluate c --queries c.jsonl --label-field kind": (
        "c.jsonl: no query has a label in 'kind'; name its field with --label-field"
    ),
    "evaluate c --queries kinds.jsonl --label-field Kind": "did you mean 'kind'?",
    "quickstart nope.csv --no-serve": "nope.csv: No such file or directory",
    "quickstart bin.jsonl --no-serve": "bin.jsonl: has no documents",
}


MISSPELT = {
    "serch c x": "there is no command 'serch'; did you mean 'search'?",
    "query c x": "did you mean 'search'?",
    "zzzz": "there is no command 'zzzz'; hummingbit --help lists them",
    "--vresion": "there is no option --vresion; did you mean '--version'?",
    "index creat c c.jsonl": "ACTION: there is no 'creat'; did you mean 'build'?; known: build",
    "index creat c c.jsonl --data-dir d": "ACTION: there is no 'creat'; did you mean 'build'?",
    "index build c c.jsonl --paylod-fields a": (
        "there is no option --paylod-fields; did you mean '--payload-fields'?"
    ),
    "reindex c --encodr=plain --into d": "--encodr; did you mean '--encoder'?",
    "search c x --ranking hybird": "--ranking: there is no 'hybird'; did you mean 'hybrid'?",
    "search c x y": "unexpected argument: y; quote a text of several words",
    "search c x --where a": "there is no option --where; did you mean '--filter'?",
    "search c x --top 3": "there is no option --top; did you mean '--limit'?",
    "train --dta c.jsonl": "there is no option --dta; did you mean '--data'?",
    "train lsh --data c.jsonl --bitz 8": "there is no option --bitz; did you mean '--bits'?",
    "train lhs": "METHOD: there is no 'lhs'; did you mean 'lsh'?",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    write_artifact(folder / "encoders" / "plain", text_encoder(), random_texts(50))
    (folder / "c.jsonl").write_text('{"id":"a","text":"jam"}\n{"id":"b","text":"bread"}\n')
    (folder / "kinds.jsonl").write_text('{"id":"a","text":"jam","payload":{"kind":"x"}}\n')
    (folder / "bin.jsonl").write_bytes(b"\xff\xff\x00")
    (folder / "object.json").write_text("{}")
    (folder / "empty.csv").touch()
    (folder / "empty.jsonl").touch()
    (folder / "empty.json").write_text("[]")
    (folder / "file").write_text("x")
    (folder / "folder").mkdir()
    for suffix in ("parquet", "npz", "jsonl.gz"):
        (folder / f"noise.{suffix}").write_bytes(bytes(range(7, 250)))
    (folder / "loop.jsonl").symlink_to("loop.jsonl")
    (folder / "twice.jsonl").write_text('{"id": "a", "text": "jam", "label": "x", "id": "b"}\n')
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["index", "build", "c", "c.jsonl", "--encoder", "plain"]) == 0
    finally:
        os.chdir(before)
    return folder


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_is_said_in_one_sentence(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    monkeypatch.chdir(place)
    before = sorted(path.relative_to(place) for path in place.glob("[c-e]*/*"))
    assert main(command.split()) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("hummingbit: ")
    assert MISTAKES[command] in said[-1]
    assert not [line for line in said if "Traceback" in line]
    assert sorted(path.relative_to(place) for path in place.glob("[c-e]*/*")) == before


@pytest.mark.parametrize("command", MISSPELT)
def test_a_misspelt_word_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(command.split())
    assert MISSPELT[command] in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    "command",
    [
        ["c", "--limit", "1", "jam"],
        ["--limit", "1", "c", "jam"],
        ["c", "--no-payload", "jam", "--limit", "1"],
        ["c", "--limit", "1", "--", "jam"],
    ],
)
def test_a_text_may_follow_options(
    place: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", "--json", "--data-dir", str(place), *command]) == 0
    assert [hit["id"] for hit in json.loads(capsys.readouterr().out)["hits"]] == ["a"]


def test_a_value_after_two_dashes_is_no_option(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    assert main(["search", "c", "--", "--jam"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "command",
    ["quickstart many.csv --no-serve --data-dir disk/new", "train --data c.jsonl --out disk/new"],
)
def test_space_is_checked_before_any_work(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.jsonl").write_text('{"id":"a","text":"jam"}\n{"id":"b","text":"bread"}\n')
    Path("many.csv").write_text("text\n" + "".join(f"jam number {n}\n" for n in range(100)))
    with small_disk(tmp_path, 1) as disk:
        fill(disk / "ballast", leave=500_000)
        assert main(command.split()) == 2
        assert [path.name for path in disk.iterdir()] == ["ballast"]
    said = capsys.readouterr().err.splitlines()[-1]
    assert f"{tmp_path / 'disk'}: 0.5 MB are free, and at least 1.0 MB are needed" in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_output_that_cannot_be_written_is_said_in_one_sentence(place: Path) -> None:
    for arguments in (["--json"], []):
        with Path("/dev/full").open("w") as full:
            command = [sys.executable, "-m", "hummingbit", "index", "list", *arguments]
            done = subprocess.run(
                [*command, "--data-dir", str(place)],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        expected = "hummingbit: standard output: No space left on device"
        assert (done.returncode, done.stderr.splitlines()[-1]) == (2, expected)
        assert "Traceback" not in done.stderr


def test_characters_that_the_encoding_lacks_are_shown_as_numbers(place: Path) -> None:
    command = [sys.executable, "-m", "hummingbit", "search", "c", "jam", "--with-text"]
    (place / "u.jsonl").write_text(json.dumps({"id": "u", "text": "jam→"}), encoding="utf-8")
    assert main(["index", "add", "c", str(place / "u.jsonl"), "--data-dir", str(place)]) == 0
    done = subprocess.run(
        [*command, "--data-dir", str(place)],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "jam\\u2192" in done.stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_json_can_be_read_in_any_encoding(
    place: Path, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'é → 😀 "\x85\\'
    document = {"id": "u", "text": text, "payload": {"ñ": "→"}}
    (place / "u.jsonl").write_text(json.dumps(document), encoding="utf-8")
    assert main(["index", "add", "c", str(place / "u.jsonl"), "--data-dir", str(place)]) == 0
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding=encoding))
    assert main(["index", "get", "c", "u", "--data-dir", str(place)]) == 0
    got = json.loads(output.getvalue().decode(encoding))
    assert (got["text"], got["payload"]) == (text, {"ñ": "→"})


def test_names_that_the_encoding_lacks_are_shown_as_numbers(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(output, encoding="ascii"))
    assert main(["search", "结果", "jam", "--data-dir", str(place)]) == 2
    sys.stderr.flush()
    assert "there is no collection '\\u7ed3\\u679c'" in output.getvalue().decode("ascii")
