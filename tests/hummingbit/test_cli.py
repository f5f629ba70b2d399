from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.corpus.readers import read_documents
from hummingbit.encoder.artifact import load_encoder, write_artifact
from hummingbit.evaluation.evaluate import evaluate_codes
from hummingbit.foundation.errors import install_command
from hummingbit.index.data_folder import DataFolder
from hummingbit.training.data import gather
from tests.support.corpora import topic_documents, topic_vectors
from tests.support.encoders import random_texts, text_encoder
from tests.support.recipes import train_in_few_batches

TRAINING = ["--epochs", "40", "--hidden", "24", "--batch-size", "32", "--bits", "16"]


def write_lines(path: Path, documents: Sequence[Document]) -> Path:
    lines = [{"id": d.id, "text": d.text, "label": d.labels[0]} for d in documents]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def hummingbit(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose encoder was trained and whose collection was built by commands."""
    folder = tmp_path_factory.mktemp("data")
    corpus = write_lines(folder / "train.jsonl", topic_documents(400))
    out = folder / "encoders" / "topics"
    train = ["train", "ssb-vae", "--data", corpus, "--out", out, "--supervision", "0.5", *TRAINING]
    assert hummingbit(*train) == 0
    assert (
        hummingbit("index", "build", "topics", corpus, "--encoder", "topics", "--data-dir", folder)
        == 0
    )
    write_lines(folder / "test.jsonl", topic_documents(60, seed=1, prefix="query"))
    return folder


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A data folder with an encoder that was not trained."""
    write_artifact(tmp_path / "encoders" / "plain", text_encoder(), random_texts(50))
    return tmp_path


def test_training_prints_the_held_out_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = write_lines(tmp_path / "train.jsonl", topic_documents(200))
    out = tmp_path / "encoder"
    assert hummingbit("train", "ssb-vae", "--data", corpus, "--out", out, *TRAINING) == 0
    printed = capsys.readouterr().out
    assert load_encoder(out).fingerprint in printed
    assert "180 labels shown; 20 documents held out" in printed
    assert "classifier baseline" in printed


@pytest.mark.parametrize("method", ["ssb-vae", "sne", "itq", "pca-sign", "lsh", "class-codes"])
def test_every_method_trains(
    method: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    train_in_few_batches(monkeypatch)
    corpus = write_lines(tmp_path / "train.jsonl", topic_documents(100))
    short = ["--bits", "16"]
    if method == "ssb-vae":
        short += ["--epochs", "2", "--hidden", "8", "--paper"]
    assert hummingbit("train", method, "--data", corpus, "--out", tmp_path / "e", *short) == 0
    assert "10 documents held out" in capsys.readouterr().out
    assert load_encoder(tmp_path / "e").metadata["method"] == method


@pytest.mark.parametrize("documents", [topic_documents, topic_vectors])
def test_without_labels_the_command_that_measures_codes_is_named(
    documents: Callable[[int], list[Document]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "train.jsonl"
    with corpus.open("w") as lines:
        for document in documents(100):
            vector = None if document.vector is None else document.vector.tolist()
            print(
                json.dumps({"id": document.id, "text": document.text, "vector": vector}), file=lines
            )
    train = ["train", "lsh", "--data", corpus, "--bits", "8", "--out", tmp_path / "e"]
    assert hummingbit(*train) == 0
    said = capsys.readouterr().out
    assert "in a collection built with it, `hummingbit evaluate NAME --nearest 10 --queries" in said
    # What it names can be run.
    data = ["--data-dir", tmp_path]
    assert hummingbit("encoder", "install", tmp_path / "e", "--name", "codes", *data) == 0
    assert hummingbit("index", "build", "docs", corpus, "--encoder", "codes", *data) == 0
    measured = ["evaluate", "docs", "--nearest", "10", "--queries", corpus, *data]
    assert hummingbit(*measured) == 0


def test_class_codes_are_searched_by_their_query_head(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = write_lines(tmp_path / "train.jsonl", topic_documents(400))
    queries = write_lines(tmp_path / "test.jsonl", topic_documents(60, seed=1, prefix="query"))
    out = tmp_path / "encoders" / "topics"
    assert hummingbit("train", "class-codes", "--data", corpus, "--bits", "16", "--out", out) == 0
    captured = capsys.readouterr()
    assert "trial: query classifier both, content share 0.25: " in captured.err
    assert "chosen: " in captured.err
    assert "360 labels shown; 40 documents held out" in captured.out
    build = ["index", "build", "topics", corpus, "--encoder", "topics", "--data-dir", tmp_path]
    assert hummingbit(*build) == 0
    report = tmp_path / "report"
    evaluate = ["evaluate", "topics", "--queries", queries, "--data-dir", tmp_path]
    assert hummingbit(*evaluate, "--metrics", "P@50", "--out", report) == 0
    rows = json.loads((report / "report.json").read_text())["metrics"]
    (row,) = [row for row in rows if row.get("ranking") == "hamming"]
    encoder = load_encoder(out)
    data, asked = (gather(read_documents(str(path))) for path in (corpus, queries))
    found = evaluate_codes(
        encoder.encode_queries(asked.inputs),
        asked.labelled().labels,
        encoder.encode(data.inputs),
        data.labelled().labels,
        ["P@50"],
    )
    assert row["expected"] == pytest.approx(found.expected["P@50"])
    assert row["expected"] > 0.9


@pytest.mark.parametrize(("labels", "method"), [(True, "class-codes"), (False, "ict")])
def test_without_a_method_the_labels_decide(
    labels: bool,
    method: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    train_in_few_batches(monkeypatch)
    corpus = write_lines(tmp_path / "train.jsonl", topic_documents(100))
    if not labels:
        lines = [json.loads(line) for line in corpus.read_text().splitlines()]
        bare = [json.dumps({"id": line["id"], "text": line["text"]}) for line in lines]
        corpus.write_text("\n".join(bare) + "\n")
    short = ["--epochs", "2", "--hidden", "8", "--bits", "16"]
    assert hummingbit("train", "--data", corpus, "--out", tmp_path / "e", *short) == 0
    printed = capsys.readouterr().err
    assert f"training by {method}" in printed
    assert ("--hidden has no effect on class-codes" in printed) is labels
    assert load_encoder(tmp_path / "e").metadata["method"] == method


def test_training_without_a_method_asks_for_its_files(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        hummingbit("train", "--data", "absent.jsonl")
    assert "required: --out" in capsys.readouterr().err


def test_codes_are_trained_by_similarity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = write_lines(tmp_path / "train.jsonl", topic_documents(100))
    (tmp_path / "tree").write_text("world food\nworld sea\nmind algebra\n")
    train = ["train", "metric", "--objective", "continuous-histogram", "--data", corpus, *TRAINING]
    files = ["--similarity-file", tmp_path / "tree", "--out", tmp_path / "e"]
    assert hummingbit(*train, *files) == 0
    assert "90 labels shown; 10 documents held out" in capsys.readouterr().out
    assert load_encoder(tmp_path / "e").metadata["method"] == "metric"
    (tmp_path / "tree").write_text("food sea\nsea food\n")
    assert hummingbit(*train, *files, "--overwrite") == 2
    assert "hummingbit: --similarity-file: sea → food → sea is a cycle" in capsys.readouterr().err


def test_an_evaluation_passes_or_fails_its_gate(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate = ["evaluate", "topics", "--queries", data / "test.jsonl", "--data-dir", data]
    assert hummingbit(*evaluate, "--min-p100", "0.8") == 0
    printed = capsys.readouterr().out
    assert "60 queries, 400 documents" in printed
    assert "classifier baseline" in printed
    mislabelled = [replace(d, labels=("sea",)) for d in topic_documents(60, seed=1)]
    evaluate[3] = write_lines(data / "mislabelled.jsonl", mislabelled)
    assert hummingbit(*evaluate, "--min-p100", "0.8") == 1
    assert "gate: P@100 is 0.2500, below the minimum of 0.8" in capsys.readouterr().err


def test_an_evaluation_as_json(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate = ["evaluate", "topics", "--queries", data / "test.jsonl", "--data-dir", data]
    assert hummingbit(*evaluate, "--json", "--metrics", "P@10", "map@5") == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["metrics"]) == set(found["expected"]) == {"P@10", "mAP@5"}
    assert found["failures"] == []
    assert found["classifier_baseline"]["metrics"]["P@10"] > 0.8
    assert found["distinct_codes"] >= 3


def test_searching_prints_what_the_hits_are(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    search = ["search", "topics", "matrix vector eigen", "--limit", "3", "--data-dir", data]
    assert hummingbit(*search) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:4] for line in lines] == [" 1  ", "    ", " 2  ", "    ", " 3  ", "    "]
    assert all({"matrix", "vector", "eigen"} & {*line.split()} for line in lines[::2])
    assert hummingbit(*search, "--payload-fields", "label") == 0
    assert all("· label algebra" in line for line in capsys.readouterr().out.splitlines()[1::2])


def test_stats_are_json(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hummingbit("index", "stats", "topics", "--data-dir", data) == 0
    stats = json.loads(capsys.readouterr().out)
    assert (stats["documents"], stats["n_bits"], stats["encoder"]) == (400, 16, "topics")


def test_adding_extends_a_collection(plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write_lines(plain / "1.jsonl", topic_documents(30))
    second = write_lines(plain / "2.jsonl", topic_documents(20, prefix="more"))
    assert hummingbit("index", "build", "c", first, "--encoder", "plain", "--data-dir", plain) == 0
    assert hummingbit("index", "add", "c", second, first, "--data-dir", plain) == 0
    assert "50 documents" in capsys.readouterr().out.splitlines()[-1]
    with DataFolder(plain, writable=False) as folder:
        assert len(folder.collection("c")) == 50


def test_documents_come_from_standard_input(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = io.TextIOWrapper(io.BytesIO(b'{"id": "a", "code": "00ff"}\n'))
    monkeypatch.setattr("sys.stdin", lines)
    assert hummingbit("index", "build", "c", "-", "--bits", "16", "--data-dir", plain) == 0
    with DataFolder(plain, writable=False) as folder:
        found = folder.collection("c").get("a")
        assert found is not None
        assert found.code == "00ff"


def test_a_bad_line_stops_and_nothing_is_indexed(
    plain: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write_lines(plain / "good.jsonl", topic_documents(3))
    bad = plain / "bad.jsonl"
    bad.write_text('{"id": "x", "text": "apple"}\n{"id": "y"}\n')
    build = ["index", "build", "c", "--encoder", "plain", "--data-dir", plain]
    assert hummingbit(*build, good, bad) == 2
    assert f"{bad}:2: document: must have at least one of text" in capsys.readouterr().err
    with DataFolder(plain, writable=False) as folder:
        assert "c" not in folder.collections()
    assert hummingbit(*build, good) == 0
    assert hummingbit("index", "add", "c", bad, "--data-dir", plain) == 2
    with DataFolder(plain, writable=False) as folder:
        assert len(folder.collection("c")) == 3


def test_a_bad_line_can_be_skipped(plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = plain / "bad.jsonl"
    bad.write_text('not json\n{"id": "x", "text": "apple"}\n')
    build = ["index", "build", "c", bad, "--encoder", "plain", "--data-dir", plain]
    assert hummingbit(*build, "--on-error", "skip") == 0
    assert f"skipped: {bad}:1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["index", "stats", "absent"], "there is no collection 'absent'"),
        (["index", "add", "absent", "x.jsonl"], "there is no collection 'absent'"),
        (["index", "build", "Bad Name", "x.jsonl", "--bits", "8"], "name: is 'Bad Name'"),
        (["index", "build", "c", "x.jsonl", "--bits", "12"], "--bits is 12"),
        (["index", "build", "c", "x.jsonl", "--encoder", "absent"], "there is no encoder 'absent'"),
        (["index", "build", "c", "absent.jsonl", "--bits", "8"], "absent.jsonl: No such file"),
        (["search", "absent", "text"], "there is no collection 'absent'"),
        (["evaluate", "absent", "--queries", "absent.jsonl"], "absent.jsonl: No such file"),
        (
            ["train", "ssb-vae", "--data", "absent.jsonl", "--out", "e"],
            "absent.jsonl: No such file",
        ),
        (["train", "ssb-vae", "--data", "-", "--out", "e", "--bits", "12"], "--bits is 12"),
        (
            ["train", "ssb-vae", "--data", "-", "--out", "e", "--supervision", "2"],
            "--supervision is 2",
        ),
    ],
)
def test_bad_input_is_explained_in_one_line(
    arguments: list[str],
    message: str,
    plain: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(plain)
    assert hummingbit(*arguments) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.startswith("hummingbit: ")
    assert printed.count("\n") == 1
    assert not (plain / "e").exists()


def test_an_existing_collection_is_not_built_over(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = ["index", "build", "topics", data / "test.jsonl", "--encoder", "topics"]
    assert hummingbit(*build, "--data-dir", data) == 2
    assert "index add extends it" in capsys.readouterr().err


def test_the_help_of_an_action_begins_with_what_it_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        hummingbit("keys", "create", "--help")
    assert "\n\nCreate a key and print it; it cannot be shown again.\n\n" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--help"], ["train", "ssb-vae", "--help"], ["--version"]])
def test_help_is_quick_to_load(arguments: list[str]) -> None:
    check = f"import sys; from hummingbit.cli import main; main({arguments!r})"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", check],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not loaded & {"torch", "sklearn", "fastapi"}


def test_a_command_does_not_look_for_garbage_when_it_ends() -> None:
    # What is registered first runs last.
    show = "atexit.register(lambda: print(gc.get_freeze_count() > 0))"
    run = "sys.argv[1:] = ['--version']; from hummingbit.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", f"import atexit, gc, sys; {show}; {run}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "True"


def test_an_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        hummingbit("dance")
    assert stopped.value.code == 2
    assert "there is no command 'dance'" in capsys.readouterr().err


def test_a_misspelt_command_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        hummingbit("serach", "articles")
    assert "there is no command 'serach'; did you mean 'search'?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        hummingbit("qqq")
    assert "there is no command 'qqq'; hummingbit --help lists them" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("encoders/Bank", "--out {0}: an encoder's name must be 1 to 64 of a-z, 0-9, ., _ and -"),
        ("file/bank", "--out {0}: {1}/file is a file; name a folder that can be created"),
        ("there", "{0} already exists; it is not an encoder, so it is not overwritten"),
        ("encoder", "{0} already exists; choose another folder, or replace it (--overwrite, in"),
    ],
)
def test_a_place_that_cannot_take_an_encoder_is_refused_before_any_work(
    tmp_path: Path, out: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "there").mkdir()
    write_artifact(tmp_path / "encoder", text_encoder(), random_texts(50))
    # The data is not even read: there is no such file.
    missing = tmp_path / "missing.jsonl"
    assert hummingbit("train", "itq", "--data", missing, "--out", tmp_path / out) == 2
    assert message.format(tmp_path / out, tmp_path) in capsys.readouterr().err


def test_a_csv_of_questions_trains_and_is_found_under_a_name_with_a_dot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f'"{document.text}",{document.labels[0]}' for document in topic_documents(120)]
    corpus = tmp_path / "bank.csv"
    corpus.write_text("\n".join(["question,category", *rows]))
    fields = ["--text-field", "question", "--label-field", "category"]
    out = tmp_path / "encoders" / "bank-0.1"
    short = ["--bits", "16", "--epochs", "2", "--hidden", "8"]
    assert hummingbit("train", "ssb-vae", "--data", corpus, "--out", out, *fields, *short) == 0
    build = ["index", "build", "bank", corpus, "--encoder", "bank-0.1", "--data-dir", tmp_path]
    assert hummingbit(*build, *fields) == 0
    assert hummingbit("search", "bank", "apple bread", "--data-dir", tmp_path, "--json") == 0
    printed = capsys.readouterr()
    assert "they are numbered by line, from bank:2" in printed.err
    hits = json.loads(printed.out[printed.out.index("{") :])
    assert hits


def test_an_experiment_without_its_packages_says_which_and_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "experiments.continuous_histogram.experiment", None)
    assert hummingbit("reproduce", "continuous-histogram", "--seeds", "3", "--part", "mnist") == 2
    said = capsys.readouterr().err
    assert "hummingbit: reproduce continuous-histogram needs experiments.continuous_histo" in said
    assert install_command("train", group="experiments") in said
    with pytest.raises(SystemExit) as ended:
        hummingbit("reproduce", "ssb-vae", "--help")
    assert ended.value.code == 0


def test_the_leaderboard_without_its_packages_says_which_when_it_is_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "experiments.leaderboard.experiment", None)
    assert hummingbit("leaderboard", "--seeds", "1") == 2
    said = capsys.readouterr().err
    assert "hummingbit: leaderboard needs experiments.leaderboard.experiment; install" in said
    monkeypatch.setattr("hummingbit.commands.reproduce._experiments", dict)
    assert hummingbit("leaderboard", "--minutes", "0") == 2
    message = capsys.readouterr().err
    assert "there is no experiment leaderboard; experiments are not installed" in message
    assert "run them from a checkout" in message
