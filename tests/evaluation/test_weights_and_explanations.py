"""The curve of hybrid by weight of codes, why queries fail, and documents without labels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from hummingbit import local
from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.evaluation.formats import FORMATS
from hummingbit.evaluation.fusion import curve_means, judged_curve, judged_weight
from hummingbit.evaluation.rankings import EvaluationInput, RelevanceSettings
from hummingbit.evaluation.report import format_share, run_job
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.options import (
    Hybrid,
    SearchOptions,
)
from tests.support.encoders import random_texts, text_encoder, vector_encoder
from tests.support.service import running_service

DOCUMENTS = [
    Document(f"d{at}", text, labels=("abc"[at % 3],)) for at, text in enumerate(random_texts(60, 4))
]
LABELLED = 40
QRELS = {f"q{at}": {DOCUMENTS[at].id: 2, DOCUMENTS[at + 1].id: 1} for at in range(6)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data")
    write_artifact(path / "encoders" / "e", text_encoder(), random_texts(10))
    with DataFolder(path, writable=True) as data:
        collection = data.create_collection("c", encoder="e")
        collection.upsert(
            [
                document if at < LABELLED else Document(document.id, document.text)
                for at, document in enumerate(DOCUMENTS)
            ]
        )
        collection.set_ranking("hybrid")
    words = [" ".join((DOCUMENTS[at].text or "").split()[:3]) for at in range(6)]
    queries = [
        {"id": f"q{at}", "text": f"{text} zyxw", "label": DOCUMENTS[at].labels[0]}
        for at, text in enumerate(words)
    ]
    (path / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    lines = [f"{q} 0 {id_} {grade}" for q, some in QRELS.items() for id_, grade in some.items()]
    (path / "qrels.txt").write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[httpx.Client]:
    with running_service(folder) as client:
        yield client


@pytest.fixture(params=["--data-dir", "--url"])
def where(request: pytest.FixtureRequest, folder: Path, service: httpx.Client) -> list[str]:
    return [request.param, str(folder if request.param == "--data-dir" else service.base_url)]


def queries_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]


def documents_of(folder: Path) -> list[Document]:
    return [
        Document(document["id"], document["text"], labels=(document["label"],))
        for document in queries_of(folder)
    ]


def test_the_curve_is_what_searches_with_each_weight_give(folder: Path) -> None:
    with DataFolder(folder, writable=False) as data:
        collection = data.collection("c")
        settings = RelevanceSettings(qrels=QRELS)
        parts = EvaluationInput(collection, documents_of(folder), settings)
        curve = parts.evaluate_weights(["Success@1", "P@radius2"], [3, 0, 0.5])
        assert list(curve) == [0, 0.5, 3]
        for weight, item in curve.items():
            assert list(item.per_query) == ["Success@1"]
            options = Hybrid(weight or 0.001)
            hits = collection.find(
                parts.encoded, SearchOptions(k=1, ranking="hybrid", hybrid=options)
            ).hits
            right = [found[0].id in QRELS[id_] for found, id_ in zip(hits, QRELS, strict=True)]
            assert item.per_query["Success@1"].tolist() == right


def test_evaluate_prints_the_curve(
    folder: Path, where: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["evaluate", "c", "--queries", str(folder / "queries.jsonl"), *where]
    command += ["--qrels", str(folder / "qrels.txt"), "--codes-weights", "0", ".25", "3"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "hybrid by the weight of codes" in printed
    assert "  0.25    " in printed
    assert main([*command, "--json"]) == 0
    curve = json.loads(capsys.readouterr().out)["codes_weights"]
    assert [item["codes_weight"] for item in curve] == [0, 0.25, 3]
    assert set(curve[0]["metrics"]) == {"nDCG@10", "MRR", "Success@10", "Recall@100"}
    assert main([*command[:-1], "-1"]) == 2
    assert "--codes-weights: has -1" in capsys.readouterr().err


def test_every_format_for_people_shows_the_curve(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    with DataFolder(folder, writable=False) as data:
        job = run_job(data.collection("c"), documents_of(folder), ["MRR"], codes_weights=[0.25, 3])
        without = run_job(data.collection("c"), documents_of(folder), ["MRR"])
    values = {
        weight.codes_weight: weight.metrics["MRR"] for weight in job.report.codes_weights or ()
    }
    page = FORMATS["html"].write(job, None) or ""
    _, _, section = page.partition('<section id="codes-weights">')
    section = section.partition("</section>")[0]
    table = FORMATS["markdown"].write(job, None) or ""
    for weight, value in values.items():
        row = f'<td class="big">{weight:g}</td><td class="n">{format_share(value)}</td>'
        assert row in section
        assert f"| {weight:g} | {format_share(value)} |" in table
    assert "codes-weights" not in (FORMATS["html"].write(without, None) or "")


def test_rest_returns_the_curve(folder: Path, service: httpx.Client) -> None:
    body: dict[str, Any] = {"queries": queries_of(folder), "codes_weights": [0, 1]}
    found = service.post("/v1/collections/c/evaluate", json=body).json()
    assert [weight["codes_weight"] for weight in found["codes_weights"]] == [0, 1]
    assert found["unlabelled"] == len(DOCUMENTS) - LABELLED
    body["codes_weights"] = [-1]
    refused = service.post("/v1/collections/c/evaluate", json=body)
    assert refused.status_code == 422
    assert "codes_weights" in refused.text


def test_the_weight_is_fitted_here_and_at_a_service(
    folder: Path, where: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if where[0] == "--url":
        queries = [
            Document(f"q-{document.id}", " ".join(str(document.text).split()[:3]))
            for document in DOCUMENTS[:20]
        ]
        qrels = {query.id: {query.id[2:]: 2} for query in queries}
        written = [json.dumps({"id": query.id, "text": query.text}) for query in queries]
        (tmp_path / "queries.jsonl").write_text("\n".join(written))
        lines = [f"{query.id} 0 {query.id[2:]} 2\n" for query in queries]
        (tmp_path / "qrels.txt").write_text("".join(lines))
        judged = ["--queries", str(tmp_path / "queries.jsonl")]
        judged += ["--qrels", str(tmp_path / "qrels.txt")]
        assert main(["index", "rank", "c", "--fit", *judged, *where, "--json"]) == 0
        fitted = json.loads(capsys.readouterr().out)
        with DataFolder(folder, writable=False) as data:
            curve = judged_curve(data.collection("c"), queries, qrels)
        assert fitted["fit"]["curve"] == curve_means(curve)
        assert fitted["hybrid_weight"] == fitted["fit"]["weight"] == judged_weight(curve)


def test_the_worst_queries_are_explained(
    folder: Path, where: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["evaluate", "c", "--queries", str(folder / "queries.jsonl"), *where]
    command += ["--qrels", str(folder / "qrels.txt"), "--explain"]
    assert main([*command, "--rankings", "hamming", "bm25"]) == 0
    printed = capsys.readouterr().out
    assert "right answer 1 of 2" in printed
    assert "hamming: rank " in printed
    assert "bm25: rank " in printed
    assert "lacks zyxw" in printed
    assert "bits match" in printed
    assert main([*command, "--json"]) == 0
    (*_, worst) = json.loads(capsys.readouterr().out)["worst_queries"]
    first = worst["answers"][0]
    assert QRELS[worst["id"]][first["id"]] == 2
    assert first["ranks"].keys() == first["scores"].keys() == {"hamming", "hybrid"}
    assert first["scores"]["hamming"] == -first["distance"]


def test_answers_are_shown_with_labels_and_in_every_format(folder: Path) -> None:
    with DataFolder(folder, writable=False) as data:
        job = run_job(data.collection("c"), documents_of(folder))
    worst = job.report.worst_queries
    assert all(len(query.answers) == 3 < (query.relevant or 0) for query in worst)
    for query in worst:
        ranks = [answer.ranks["hybrid"] or 1001 for answer in query.answers]
        assert ranks == sorted(ranks)
    assert "bits match" in (FORMATS["markdown"].write(job, None) or "")


@pytest.mark.parametrize("flag", [[], ["--only-labelled"]])
@pytest.mark.parametrize("judged", [False, True])
def test_documents_without_a_label_are_counted_and_left_out(
    folder: Path,
    where: list[str],
    flag: list[str],
    *,
    judged: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["evaluate", "c", "--queries", str(folder / "queries.jsonl"), *where, *flag]
    command += ["--qrels", str(folder / "qrels.txt")] if judged else []
    assert main(command) == 0
    assert "20 without a label" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["unlabelled"] == len(DOCUMENTS) - LABELLED
    assert figures["documents"] == (LABELLED if flag else len(DOCUMENTS))
    assert any("left out 20 documents" in note for note in figures["notes"]) is bool(flag)


def test_only_labelled_over_rest_in_the_console_s_run_and_in_the_library(
    folder: Path, service: httpx.Client
) -> None:
    body = {"queries": queries_of(folder), "only_labelled": True}
    at_once = service.post("/v1/collections/c/evaluate", json=body).json()
    assert (at_once["documents"], at_once["unlabelled"]) == (LABELLED, len(DOCUMENTS) - LABELLED)
    # The console runs evaluations as jobs.
    headers = {"prefer": "respond-async"}
    id_ = service.post("/v1/collections/c/evaluate", json=body, headers=headers).json()["id"]
    while (run := service.get(f"/v1/evaluations/{id_}").json())["status"] == "running":
        pass
    subject = run["report"]["subject"]
    assert (subject["documents"], subject["unlabelled"]) == (LABELLED, 20)
    with DataFolder(folder, writable=False) as data:
        settings = RelevanceSettings(only_labelled=True)
        report = run_job(data.collection("c"), documents_of(folder), settings=settings).report
    assert (report.subject.documents, report.subject.unlabelled) == (LABELLED, 20)


def vectors_of(texts: list[str], wrong: int) -> dict[str, Any]:
    """Vectors that order documents as their codes do, but for one document."""
    codes = text_encoder().encode(texts)
    vectors = np.unpackbits(codes, axis=1).astype(np.float32) * 2 - 1
    vectors[wrong] = np.random.default_rng(0).normal(size=vectors.shape[1])
    return {"ids": np.array([document.id for document in DOCUMENTS]), "vectors": vectors}


def test_a_report_says_where_codes_do_not_rank_as_a_teacher(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teacher = tmp_path / "t.npz"
    np.savez(teacher, **vectors_of([document.text or "" for document in DOCUMENTS], wrong=7))
    command = ["evaluate", "c", "--data-dir", str(folder), "--teacher", str(teacher)]
    command += ["--queries", str(folder / "queries.jsonl"), "--qrels", str(folder / "qrels.txt")]
    assert main([*command, "--json"]) == 0
    coherence = json.loads(capsys.readouterr().out)["coherence"]
    assert coherence["documents"] == 60
    assert coherence["teacher"] == "t.npz"
    assert coherence["worst"][0]["id"] == "d7"
    low, high = coherence["interval"]
    assert low <= coherence["level"] <= high
    assert coherence["worst"][0]["level"] < coherence["worst"][1]["level"]
    assert main(command) == 0
    assert "The lowest levels: d7 " in capsys.readouterr().out
    at_service = [arg for arg in command if arg not in {"--data-dir", str(folder)}]
    assert main([*at_service, "--url", "http://127.0.0.1:9"]) == 2
    assert "--teacher: cannot be combined with --url" in capsys.readouterr().err
    np.savez(teacher, ids=np.array(["d0"]), vectors=np.ones((1, 3), dtype=np.float32))
    assert main(command) == 2
    assert "has no vector for 59 of the 60 documents" in capsys.readouterr().err


def test_the_level_is_a_gate_without_labels_and_queries(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    teacher, gate, out = tmp_path / "t.npz", tmp_path / "gate.toml", tmp_path / "report"
    np.savez(teacher, **vectors_of([document.text or "" for document in DOCUMENTS], wrong=7))
    command = ["evaluate", "c", "--data-dir", str(folder)]
    taught = [*command, "--teacher", str(teacher)]
    assert main([*taught, "--coherence", "0.667", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    level = result["coherence"]["level"]
    assert result["gate"][0]["status"] == "passed"
    assert result["metrics"].keys() == {"Recall@100"}
    gate.write_text("[metrics.coherence]\nmin = 0.999\n")
    assert main([*taught, "--gate", str(gate), "--out", str(out)]) == 1
    failed = f"coherence is {level:.4f}, below the minimum of 0.999"
    assert failed in capsys.readouterr().err
    for name in ("report.json", "report.md", "junit.xml", "index.html"):
        assert failed in (out / name).read_text()
    queries = ["--queries", str(folder / "queries.jsonl")]
    assert main([*taught, *queries, "--coherence", "0.999", "--min-p100", "0"]) == 1
    assert main([*taught, "--coherence", "66"]) == 2
    assert "--coherence is 66; it must be from 0 to 1" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr(local, "run_job", None)  # it is said before anything is searched
        assert main([*command, "--coherence", "0.7"]) == 2
    assert "not all documents have vectors" in capsys.readouterr().err
    assert main([*taught, "--coherence", "0.7", "--min-p100", "0.1"]) == 2
    assert "--queries: is missing" in capsys.readouterr().err
    gate.write_text("[metrics.coherence]\nmax_drop = 0.1\n")
    assert main([*taught, "--gate", str(gate)]) == 2
    assert "coherence has max_drop" in capsys.readouterr().err


def test_a_service_gates_the_level_without_labels(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32)
    write_artifact(tmp_path / "encoders" / "v", vector_encoder(), vectors)
    documents = [Document(f"v{row}", vector=vectors[row]) for row in range(30)]
    with DataFolder(tmp_path, writable=True) as data:
        data.create_collection("v", encoder="v").upsert(documents)
    with running_service(tmp_path) as client:
        command = ["evaluate", "v", "--url", str(client.base_url), "--coherence"]
        assert main([*command, "0.1"]) == 0
        assert main([*command, "1"]) == 1
        done = [job for job in client.get("/v1/jobs").json()["jobs"] if job["kind"] == "evaluation"]
        level = client.get(f"/v1/evaluations/{done[0]['id']}").json()["report"]["coherence"]
        path = f"/v1/evaluations/{done[0]['id']}/compare"
        of_gate = client.post(path, json={"gate": "[metrics.coherence]\nmin = 1"}).json()
        assert not of_gate["passed"]
        assert f"{level['level']:.4f}" in of_gate["gate"][0]["sentence"]
        assert of_gate["changes"] == []


def test_documents_with_vectors_are_compared_with_these_in_every_format(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(30, 6)).astype(np.float32)
    write_artifact(tmp_path / "encoders" / "v", vector_encoder(), vectors)
    documents = [
        Document(f"v{row}", vector=vectors[row], labels=("ab"[row % 2],)) for row in range(30)
    ]
    with DataFolder(tmp_path, writable=True) as data:
        collection = data.create_collection("v", encoder="v")
        collection.upsert(documents)
        job = run_job(collection, documents[:5])
    levels = job.report.coherence
    assert levels is not None
    assert levels.teacher == "the documents' vectors"
    lowest = levels.worst[0]
    assert lowest.level == min(item.level for item in levels.worst)
    for name in ("json", "markdown", "html"):
        page = FORMATS[name].write(job, None) or ""
        assert f"{lowest.level:.3f}" in page or name == "json"
        assert lowest.text in page
        assert "teacher_nearest" in page or "Where codes do not rank as vectors do" in page
    assert f'name="level" value="{levels.level!r}"' in (FORMATS["junit"].write(job, None) or "")


def test_a_weight_stays_where_queries_tell_nothing_about_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_artifact(tmp_path / "encoders" / "e", text_encoder(), random_texts(10))
    with DataFolder(tmp_path, writable=True) as data:
        collection = data.create_collection("c", encoder="e")
        collection.upsert([Document(f"d{at}", text) for at, text in enumerate(random_texts(40))])
        collection.set_hybrid_weight(0.33)
    command = ["index", "rank", "c", "--fit", "--data-dir", str(tmp_path)]
    assert main(command) == 2
    assert "--fit: needs --queries and --qrels" in capsys.readouterr().err
    # None of the judged documents has a word of its query.
    queries = [json.dumps({"id": f"q{at}", "text": f"zzq{at}"}) for at in range(9)]
    (tmp_path / "queries.jsonl").write_text("\n".join(queries))
    (tmp_path / "qrels.txt").write_text("".join(f"q{at} 0 d{at} 1\n" for at in range(9)))
    command += ["--queries", str(tmp_path / "queries.jsonl")]
    command += ["--qrels", str(tmp_path / "qrels.txt")]
    assert main([*command, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["hybrid_weight"] == 0.33
    assert "weight" not in said["fit"]
    assert "find nothing with any weight" in said["fit"]["unchanged"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert f"the weight stays: {said['fit']['unchanged']}" in printed
    assert "codes have the weight 0.33" in printed
