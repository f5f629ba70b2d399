from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from hummingbit.cli import main
from hummingbit.corpus.named_sets import load_qrels
from hummingbit.encoder.analyzers import VISIBLE
from hummingbit.encoder.artifact import load_encoder, write_artifact
from hummingbit.evaluation.report import read_report
from tests.support.corpora import topic_documents, write_xz
from tests.support.encoders import random_texts, text_encoder
from tests.support.evaluations import (
    labelled_codes,
    make_collections,
    parse_junit,
    shuffled,
    write_lines,
)
from tests.support.service import running_service

FIGURES = ("metrics", "expected", "best", "worst")


def hummingbit(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with good codes, shuffled ones and better ones, and 200 queries beside it."""
    path = tmp_path_factory.mktemp("data")
    good = labelled_codes(600, 0, "d")
    better = labelled_codes(600, 0, "d", flips=0.05)
    make_collections(path, good=good, shuffled=shuffled(good), better=better, compare=good)
    write_lines(path / "queries.jsonl", labelled_codes(200, 1, "q"))
    (path / "gate.toml").write_text('[metrics."P@100"]\nmin = 0.5\nmax_drop = 0.01\n')
    return path


@pytest.fixture(scope="module")
def evaluate(data: Path) -> list[object]:
    return ["evaluate", "--data-dir", data, "--queries", data / "queries.jsonl"]


@pytest.fixture(scope="module")
def baseline(data: Path, evaluate: list[object]) -> Path:
    """The folder of a report of the good collection."""
    out = data / "baseline"
    assert hummingbit(*evaluate, "good", "--out", out) == 0
    return out


def test_a_gate_that_must_pass_passes(
    data: Path, evaluate: list[object], baseline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = ["--gate", data / "gate.toml", "--baseline", baseline / "report.json"]
    assert hummingbit(*evaluate, "good", *gate) == 0
    printed = capsys.readouterr()
    assert "P@100: " in printed.out
    assert "p = 1.000 after Holm" in printed.out
    assert "gate" not in printed.err


def test_a_gate_that_must_fail_fails(
    data: Path,
    evaluate: list[object],
    baseline: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    gate = ["--gate", data / "gate.toml", "--baseline", baseline / "report.json"]
    assert hummingbit(*evaluate, "shuffled", *gate, "--out", tmp_path / "report") == 1
    # On a busy machine, stages may be printed, too.
    errors = [line for line in capsys.readouterr().err.splitlines() if not line.endswith(" …")]
    assert len(errors) == 2
    assert all(line.startswith("gate: P@100 ") for line in errors)
    report = read_report(tmp_path / "report" / "report.json")
    assert not report.passed
    suite = parse_junit((tmp_path / "report" / "junit.xml").read_text())
    assert suite.get("failures") == "1"
    assert "❌ failed" in (tmp_path / "report" / "report.md").read_text()
    assert "gate failed" in (tmp_path / "report" / "index.html").read_text()


def test_the_metrics_of_a_gate_are_measured(
    data: Path, evaluate: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = tmp_path / "gate.toml"
    gate.write_text('[metrics."nDCG@10"]\nmin = 1.0\nlevel = "warn"\n')
    assert hummingbit(*evaluate, "good", "--gate", gate, "--metrics", "P@5", "--json") == 0
    printed = capsys.readouterr()
    assert list(json.loads(printed.out)["metrics"]) == ["P@5", "nDCG@10"]
    assert "gate, warning only: nDCG@10 is " in printed.err


def test_judgements_of_a_file(
    data: Path, evaluate: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hummingbit(*evaluate, "good", "--json") == 0
    by_label = json.loads(capsys.readouterr().out)
    documents, queries = labelled_codes(600, 0, "d"), labelled_codes(200, 1, "q")
    lines = [
        f"{query.id} 0 {document.id} 1\n"
        for query in queries
        for document in documents
        if document.labels == query.labels
    ]
    (tmp_path / "qrels").write_text("".join(lines))
    by_qrels = [*evaluate, "good", "--qrels", tmp_path / "qrels", "--json"]
    assert hummingbit(*by_qrels, "--metrics", "P@100", "mAP@100") == 0
    judged = json.loads(capsys.readouterr().out)
    assert {figure: judged[figure] for figure in FIGURES} == {
        figure: by_label[figure] for figure in FIGURES
    }


def test_a_collection_of_the_name_of_a_command(
    evaluate: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert hummingbit(*evaluate, "--collection", "compare") == 0
    assert "200 queries, 600 documents" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        hummingbit("evaluate", "--help")
    assert stopped.value.code == 0
    assert "--collection" in capsys.readouterr().out


def test_comparing_collections(
    data: Path, evaluate: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["good", "shuffled", "better"]
    command = ["evaluate", "compare", *names, *evaluate[1:], "--metrics", "P@50"]
    assert hummingbit(*command) == 0
    printed = capsys.readouterr().out
    assert "Friedman: χ² = " in printed
    assert "Nemenyi" in printed
    assert hummingbit(*command, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["systems"]) == names
    for pair in found["metrics"]["P@50"]["pairs"]:
        assert pair["adjusted"] < 0.01
    ranks = found["metrics"]["P@50"]["nemenyi"]["mean_ranks"]
    assert ranks["better"] < ranks["good"] < ranks["shuffled"]
    assert hummingbit("evaluate", "compare", "good", "compare", *evaluate[1:], "--json") == 0
    found = json.loads(capsys.readouterr().out)["metrics"]["P@100"]
    assert found["nemenyi"] is None
    assert found["pairs"][0]["p_value"] == 1


def test_a_file_after_json_is_written_with_a_warning(
    data: Path, evaluate: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names, file = ["good", "shuffled"], tmp_path / "compared.json"
    command = ["evaluate", "compare", *evaluate[1:]]
    assert hummingbit(*command, "--json", file, *names) == 0
    said = capsys.readouterr()
    assert "--json FILE is now --json > FILE; use that" in said.err
    assert "tie-averaged:" in said.out
    assert hummingbit("evaluate", "compare", *names, *evaluate[1:], "--json") == 0
    printed = capsys.readouterr()
    assert "--json" not in printed.err
    assert json.loads(printed.out) == json.loads(file.read_text())
    after = tmp_path / "compared"
    assert hummingbit("evaluate", "compare", *names, *evaluate[1:], "--json", after) == 0
    assert after.read_text() == file.read_text()
    # What follows may be a name, whose file must not be overwritten.
    with pytest.raises(SystemExit) as stopped:
        hummingbit(*command, "--json", *names)
    assert stopped.value.code == 2
    assert "--json: takes no value; put it after the names" in capsys.readouterr().err


def test_comparing_runs_of_any_system(
    data: Path,
    evaluate: list[object],
    baseline: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert hummingbit(*evaluate, "shuffled", "--out", tmp_path) == 0
    documents, queries = labelled_codes(600, 0, "d"), labelled_codes(200, 1, "q")
    judged = [
        f"{query.id} 0 {document.id} {int(document.labels == query.labels)}\n"
        for query in queries
        for document in documents
    ]
    (tmp_path / "qrels").write_text("".join(judged))
    runs = ["evaluate", "compare", baseline / "run.trec", tmp_path / "run.trec", "--runs"]
    capsys.readouterr()
    judgements = ["--qrels", tmp_path / "qrels", "--metrics", "P@100"]
    assert hummingbit(*runs, *judgements, "--json") == 0
    found = json.loads(capsys.readouterr().out)["systems"]
    report = read_report(tmp_path / "report.json")
    assert found[str(tmp_path / "run.trec")]["metrics"]["P@100"] == report.metrics[0].served
    assert hummingbit(*runs) == 2
    assert "--runs: needs --qrels" in capsys.readouterr().err
    assert hummingbit("evaluate", "compare", "a", "b") == 2
    assert "--queries: is missing" in capsys.readouterr().err


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("topics")
    write_lines(folder / "train.jsonl", topic_documents(200))
    write_lines(folder / "test.jsonl", topic_documents(40, seed=1, prefix="query"))
    return folder


TRAINING = ["--bits", "16", "--epochs", "3", "--hidden", "16", "--batch-size", "32"]


def test_the_curve_over_labels(topics: Path, capsys: pytest.CaptureFixture[str]) -> None:
    curve = ["evaluate", "curve", "--data", topics / "train.jsonl"]
    curve += ["--queries", topics / "test.jsonl", "--supervision", "1.0", "0.1", *TRAINING]
    picture = ["--plot", topics / "curve.svg"]
    assert hummingbit(*curve, *picture, "--metric", "P@20", "--json") == 0
    said = capsys.readouterr()
    assert "200 documents, 40 queries, 16 bits" in said.err
    found = json.loads(said.out)
    assert found["metric"] == "P@20"
    assert [point["labels"] for point in found["points"]] == [18, 180]
    assert all(0 < point["expected"] <= 1 for point in found["points"])
    assert (topics / "curve.svg").read_text().startswith("<svg")


def test_comparing_encoders_on_a_corpus(topics: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in ("0", "1"):
        out = topics / "encoders" / f"seed{seed}"
        train = ["train", "ssb-vae", "--data", topics / "train.jsonl", "--out", out]
        assert hummingbit(*train, *TRAINING, "--seed", seed) == 0
    compare = ["evaluate", "compare", "seed0", "seed1", "--data", topics / "train.jsonl"]
    compare += ["--queries", topics / "test.jsonl", "--data-dir", topics]
    assert hummingbit(*compare) == 0
    assert "seed0 − seed1: " in capsys.readouterr().out
    assert hummingbit(*compare, "--qrels", "x") == 2
    assert "--data: cannot be combined with --qrels" in capsys.readouterr().err


@pytest.fixture(scope="module")
def service(data: Path) -> Iterator[str]:
    with running_service(data) as client:
        yield str(client.base_url)


def test_a_service_gives_the_same_report(
    data: Path, evaluate: list[object], baseline: Path, service: str, tmp_path: Path
) -> None:
    asked = ["evaluate", "good", "--url", service, "--queries", data / "queries.jsonl"]
    gate = ["--gate", data / "gate.toml", "--baseline", baseline / "report.json"]
    assert hummingbit(*asked, "--out", tmp_path) == 0
    for name in ("report.json", "report.md", "junit.xml", "index.html", "run.trec"):
        assert (tmp_path / name).read_bytes() == (baseline / name).read_bytes()
    assert hummingbit(*asked, *gate) == 0
    asked[1] = "shuffled"
    assert hummingbit(*asked, *gate) == 1


@pytest.mark.parametrize("more", [[], ["--exclude-self"]])
def test_a_service_gives_the_same_figures_of_rankings(
    data: Path, service: str, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["evaluate", "good", "--queries", data / "queries.jsonl", "--rankings", "hamming"]
    asked += ["--metrics", "P@10", "mAP@20", "--json", *more]
    found = []
    for place in (["--data-dir", data], ["--url", service]):
        assert hummingbit(*asked, *place) == 0
        found.append(json.loads(capsys.readouterr().out)["systems"]["hamming"])
    assert found[0] == found[1] | {"distinct_codes": found[0]["distinct_codes"]}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file:///etc", "must begin with http:// or https://"),
        ("http://127.0.0.1:9", "cannot be reached"),
    ],
)
def test_a_service_that_cannot_be_asked(
    url: str, message: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hummingbit("evaluate", "good", "--queries", data / "queries.jsonl", "--url", url) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent"], "there is no collection 'absent'"),
        ([], "COLLECTION: give one collection"),
        (["good", "--collection", "good"], "COLLECTION: give one collection"),
        (["good", "--qrels", "absent.qrels"], "absent.qrels: No such file"),
        (["good", "--gate", "absent.toml"], "absent.toml: No such file"),
        (["good", "--gate", "bad.toml"], "bad.toml: the gate is not TOML"),
        (["good", "--baseline", "absent.json"], "absent.json: No such file"),
        (["good", "--baseline", "bad.toml"], "bad.toml: is not a report"),
        (["good", "--min-p100", "60"], "--min-p100 is 60; it must be from 0 to 1"),
        (["good", "--metrics", "P@0"], "'P@0' is not a metric"),
        (["good", "--qrels", "empty.qrels"], "there are no judgements"),
        (["good", "--out", "bad.toml"], "--out: bad.toml: File exists"),
        (["good", "--nearest", "0"], "--nearest is 0; it must be 1 or more"),
        (["good", "--nearest", "9", "--hierarchy"], "--nearest: cannot be combined with --hier"),
        (["good", "--nearest", "9"], "has no text"),
    ],
)
def test_bad_input_is_explained_in_one_line(
    *,
    arguments: list[str],
    message: str,
    evaluate: list[object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text("= 3")
    (tmp_path / "empty.qrels").write_text("\n")
    assert hummingbit(*evaluate, *arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    (printed,) = [line for line in lines if not line.endswith(" …")]
    assert message in printed
    assert printed.startswith("hummingbit: ")


def test_a_service_that_refuses_is_quoted(
    data: Path, service: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--url", service, "--queries", data / "queries.jsonl"]
    assert hummingbit("evaluate", "absent", *asked) == 2
    assert "there is no collection 'absent'" in capsys.readouterr().err
    assert hummingbit("evaluate", "good", *asked, "--label-field", "topic") == 2
    assert "the database has 600 documents, and none has a label" in capsys.readouterr().err


def test_one_name_is_no_comparison(
    evaluate: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert hummingbit("evaluate", "compare", "good", *evaluate[1:]) == 2
    assert "a comparison needs two or more" in capsys.readouterr().err


def test_judged_queries_of_a_named_data_set_bring_their_judgements(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {"d1": "bread cheese", "d2": "matrix vector", "d3": "flour eggs"}
    write_xz(tmp_path / "cisi/corpus.jsonl.xz", [{"id": i, "text": t} for i, t in texts.items()])
    queries = [{"id": "q1", "text": "bread cheese"}, {"id": "q2", "text": "not judged"}]
    write_xz(tmp_path / "cisi/queries.jsonl.xz", queries)
    (tmp_path / "cisi/qrels.tsv").write_text("q1\td1\t1\n")
    write_artifact(tmp_path / "encoders/random", text_encoder(), random_texts(40))
    folder = ["--data-dir", tmp_path]
    build = ["index", "build", "cisi", "cisi", "--encoder", "random", *folder]
    assert hummingbit(*build, "--data-root", tmp_path) == 0
    asked = ["evaluate", "cisi", "--queries", "cisi:queries", "--data-root", tmp_path, *folder]
    capsys.readouterr()
    assert hummingbit(*asked, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["metrics"]) == ["nDCG@10", "MRR", "Success@10", "Recall@100"]
    assert set(found["metrics"].values()) == {1.0}
    assert found["queries"] == 1
    assert hummingbit(*asked, "--metrics", "P@10") == 0
    assert "P@10" in capsys.readouterr().out


def test_runs_are_judged_on_the_queries_of_a_named_data_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    qrels = load_qrels("docstrings", "queries-test")
    assert qrels is not None
    answers = {query: next(iter(found)) for query, found in qrels.items()}
    right = [f"{query} Q0 {answer} 1 1.0 right" for query, answer in answers.items()]
    wrong = [f"{query} Q0 nothing 1 1.0 wrong" for query in answers]
    (tmp_path / "right").write_text("\n".join(right) + "\n")
    (tmp_path / "wrong").write_text("\n".join(wrong) + "\n")
    runs = ["evaluate", "compare", tmp_path / "right", tmp_path / "wrong", "--runs"]
    judged = ["--qrels", "docstrings:queries-test", "--metrics", "Success@10", "MRR"]
    assert hummingbit(*runs, *judged, "--json") == 0
    found = json.loads(capsys.readouterr().out)["systems"]
    assert found[str(tmp_path / "right")]["metrics"] == {"Success@10": 1.0, "MRR": 1.0}
    assert found[str(tmp_path / "wrong")]["metrics"] == {"Success@10": 0.0, "MRR": 0.0}


def test_the_nearest_documents_are_compared_with_the_classifier_baseline(
    topics: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = topic_documents(200)
    queries = topic_documents(40, seed=1, prefix="query")
    data_dir, out = ["--data-dir", tmp_path], tmp_path / "encoders" / "e"
    train = ["train", "class-codes", "--data", topics / "train.jsonl", "--bits", "16"]
    assert hummingbit(*train, "--out", out) == 0
    build = ["index", "build", "docs", topics / "train.jsonl", "--encoder", "e"]
    assert hummingbit(*build, *data_dir) == 0
    capsys.readouterr()
    asked = ["evaluate", "docs", *data_dir, "--queries", topics / "test.jsonl", "--nearest", "5"]
    assert hummingbit(*asked, "--metrics", "Recall@20", "--out", tmp_path / "report") == 0
    report = read_report(tmp_path / "report" / "report.json")
    assert report.relevance == "one of the 5 nearest by words or vectors"
    assert report.classifier_baseline is not None
    vectorizer = TfidfVectorizer(analyzer=VISIBLE.terms, dtype=np.float32)
    rows = vectorizer.fit_transform([document.text for document in documents])
    cosines = (vectorizer.transform([query.text for query in queries]) @ rows.T).toarray()
    near = np.argsort(-cosines, axis=1, kind="stable")[:, :5]
    encoder = load_encoder(out)
    codes = np.unpackbits(encoder.encode([str(document.text) for document in documents]), axis=1)
    searched = encoder.encode_uncorrected_queries([str(query.text) for query in queries])
    distances = (np.unpackbits(searched, axis=1)[:, None] != codes[None]).sum(axis=2)
    found = np.argsort(distances, axis=1, kind="stable")[:, :20]
    shares = [np.isin(a, b).mean() for a, b in zip(near, found, strict=True)]
    assert report.metrics[0].served == pytest.approx(np.mean(shares))
    assert "Recall@20" in capsys.readouterr().out
    # Without --metrics, the measure is Recall@100; rankings are measured in the same way.
    assert hummingbit(*asked, "--rankings", "hamming", "bm25", "--json") == 0
    systems = json.loads(capsys.readouterr().out)["systems"]
    assert {tuple(system["expected"]) for system in systems.values()} == {("Recall@100",)}
