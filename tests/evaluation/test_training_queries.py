"""Documents that an encoder learned from are never shown as a test, whoever evaluates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hummingbit
from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.encoder.recipes import ClassCodeRecipe
from hummingbit.evaluation.evaluate import evaluate_collection, evaluate_encoder
from hummingbit.evaluation.formats import FORMATS
from hummingbit.evaluation.gate import GateError, compare_reports, parse_gate
from hummingbit.evaluation.rankings import evaluate_rankings
from hummingbit.evaluation.report import Job, parse_report, run_job
from hummingbit.index.data_folder import DataFolder
from hummingbit.training.class_codes import train_class_codes
from hummingbit.training.data import gather
from tests.support.corpora import topic_documents
from tests.support.service import running_service, wait_for_job

WARNING = "values of training data"
LEARNED = topic_documents(200)
OTHERS = [
    Document(f"new-{at}", f"{one.text} other", labels=one.labels)
    for at, one in enumerate(LEARNED[:20])
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data")
    recipe = ClassCodeRecipe(n_bits=32, validation_share=0.0, label_fraction=0.5)
    train_class_codes(gather(LEARNED), recipe, path / "encoders" / "e")
    with DataFolder(path, writable=True) as data:
        collection = data.create_collection("c", encoder="e")
        collection.upsert(LEARNED)
        collection.set_ranking("hybrid")
    for name, documents in (("learned", LEARNED[:30]), ("mixed", [*LEARNED[:30], *OTHERS])):
        lines = [
            # Other ids and other white space do not make a text another one.
            {"id": f"q-{one.id}", "text": f" {one.text}\n", "label": one.labels[0]}
            for one in documents
        ]
        (path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return path


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def documents(path: Path) -> list[Document]:
    return [Document(one["id"], one["text"], labels=(one["label"],)) for one in records(path)]


def test_a_map_tells_which_documents_the_encoder_learned_from(folder: Path) -> None:
    with running_service(folder) as client:
        path = "/v1/collections/c"
        added = {"documents": [{"id": one.id, "text": one.text} for one in OTHERS]}
        client.put(f"{path}/documents", json=added).raise_for_status()
        job = wait_for_job(client, client.post(f"{path}/map", json={"method": "pca"}))
        drawn = client.get(job["result"]["map"]).json()["map"]
        points = client.get(f"{job['result']['map']}/points").content
        client.post(f"{path}/documents:delete", json={"ids": [one.id for one in OTHERS]})
    assert (drawn["documents"], drawn["learned_documents"]) == (220, 200)
    shares = list(points[-drawn["points"] :])
    assert max(shares) == 254
    assert min(shares) < 254


def test_the_library_warns_or_leaves_them_out(folder: Path) -> None:
    learned, mixed = (documents(folder / f"{name}.jsonl") for name in ("learned", "mixed"))
    with DataFolder(folder, writable=False) as data:
        collection, encoder = data.collection("c"), data.encoders.load("e")
        for evaluation in (
            evaluate_collection(collection, learned),
            *evaluate_rankings(collection, learned, ["hamming", "bm25"]).values(),
            evaluate_encoder(encoder, gather(LEARNED).labelled(), gather(learned).labelled()),
        ):
            assert WARNING in (evaluation.warning or "")
            assert next(iter(evaluation.to_dict())) == "warning"
        for evaluation in (
            evaluate_collection(collection, mixed),
            *evaluate_rankings(collection, mixed, ["hamming", "bm25"]).values(),
            evaluate_encoder(encoder, gather(LEARNED).labelled(), gather(mixed).labelled()),
        ):
            assert (evaluation.warning, evaluation.queries) == (None, len(OTHERS))
            assert "left out 30 queries of 50" in evaluation.notes[0]
    with hummingbit.Collection.open(folder, "c") as opened:
        texts, labels = [one.text for one in learned], [one.labels[0] for one in learned]
        assert WARNING in (opened.evaluate(texts, labels).warning or "")


def test_every_format_says_it_in_its_first_line(folder: Path) -> None:
    with DataFolder(folder, writable=False) as data:
        job = run_job(data.collection("c"), documents(folder / "learned.jsonl"))
    assert {metric.ranking for metric in job.report.metrics} == {"hamming", "hybrid"}
    for name in ("json", "markdown", "junit"):
        text = FORMATS[name].write(job, None) or ""
        assert WARNING in text.removeprefix("{\n").splitlines()[0], name
    pytest.importorskip("matplotlib")
    page = FORMATS["html"].write(job, None) or ""
    assert page.index(WARNING) < page.index("<h1>")


def test_commands_say_it_first_and_their_gates_refuse(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = tmp_path / "gate.toml"
    gate.write_text('[metrics."P@100"]\nmin = 0.0\n')
    with running_service(folder) as client:
        for where in (["--data-dir", str(folder)], ["--url", str(client.base_url)]):
            command = ["evaluate", "c", "--queries", str(folder / "learned.jsonl"), *where]
            assert main(command) == 0
            assert WARNING in capsys.readouterr().out.splitlines()[0]
            assert main([*command, "--json"]) == 0
            assert next(iter(json.loads(capsys.readouterr().out))) == "warning"
            assert main([*command, "--rankings", "hamming", "bm25"]) == 0
            assert WARNING in capsys.readouterr().out.splitlines()[0]
            assert main([*command, "--gate", str(gate)]) == 2
            assert "the gate refuses values of training data" in capsys.readouterr().err
            assert main([*command, "--gate", str(gate), "--allow-training-queries"]) == 0
            capsys.readouterr()
            mixed = ["evaluate", "c", "--queries", str(folder / "mixed.jsonl"), *where]
            assert main([*mixed, "--gate", str(gate), "--json"]) == 0
            figures = json.loads(capsys.readouterr().out)
            assert "warning" not in figures
            assert figures["queries"] == len(OTHERS)


def test_the_service_says_it_and_its_gate_refuses(folder: Path) -> None:
    with running_service(folder) as client:
        queries = [
            # Queries of a request need no ids.
            {"text": one["text"], "label": one["label"]}
            for one in records(folder / "learned.jsonl")
        ]
        address = "/v1/collections/c/evaluate"
        figures = client.post(address, json={"queries": queries}).json()
        assert WARNING in figures["warning"]
        assert set(figures["rankings"]) == {"hamming", "hybrid"}
        assert figures["rankings"]["hamming"]["metrics"] == figures["metrics"]
        headers = {"prefer": "respond-async"}
        id_ = client.post(address, json={"queries": queries}, headers=headers).json()["id"]
        while (found := client.get(f"/v1/evaluations/{id_}").json())["status"] == "running":
            pass
        assert WARNING in found["report"]["warning"]
        gate = '[metrics."P@100"]\nmin = 0.0'
        body = {"baseline": id_, "gate": gate}
        refused = client.post(f"/v1/evaluations/{id_}/compare", json=body)
        assert refused.status_code == 422
        assert WARNING in refused.text
        body["gate"] = f"training_queries = true\n{gate}"
        assert client.post(f"/v1/evaluations/{id_}/compare", json=body).json()["passed"]


def test_an_artifact_that_records_only_ids_is_known_by_the_stored_documents(folder: Path) -> None:
    with DataFolder(folder, writable=False) as data:
        collection = data.collection("c")
        learned = collection.encoder.learned if collection.encoder else None
        assert learned
        ids = sorted(learned.labelled_ids)
        object.__setattr__(learned, "hashes", learned.hashes[:0])
        stored = {one.id: one for one in LEARNED}
        queries = [Document("x", stored[id_].text, labels=stored[id_].labels) for id_ in ids[:5]]
        assert WARNING in (evaluate_collection(collection, queries).warning or "")


def test_a_report_of_training_data_passes_no_gate(folder: Path) -> None:
    with DataFolder(folder, writable=False) as data:
        report = run_job(data.collection("c"), documents(folder / "learned.jsonl")).report
    read = parse_report(FORMATS["json"].write(Job(report, None), None) or "")
    with pytest.raises(GateError, match=WARNING):
        compare_reports(read, parse_gate('[metrics."P@100"]\nmin = 0.0'))
