"""Documents that an encoder learned from are never shown as a test, whoever evaluates.

Every command, route and function is listed here, with a test that its figures come with the
warning or with the reason why it has none. One that is added is found by the registries, and must
be listed.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import pkgutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hummingbit
import hummingbit.evaluation
from hummingbit.cli import COMMANDS, main, whole_parser
from hummingbit.corpus.document import Document
from hummingbit.encoder.recipes import ClassCodeRecipe
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.evaluation.formats import FORMATS
from hummingbit.evaluation.gate import GateError, compare_reports, parse_gate
from hummingbit.evaluation.labelling.trial import compare_encoders
from hummingbit.evaluation.rankings import RelevanceSettings, evaluate_rankings, measure_rankings
from hummingbit.evaluation.report import Job, TeacherVectors, parse_report, run_job
from hummingbit.index.data_folder import DataFolder
from hummingbit.service.app import create_app
from hummingbit.service.settings import Settings
from hummingbit.training.class_codes import train_class_codes
from hummingbit.training.data import gather
from tests.support.corpora import topic_documents
from tests.support.encoders import text_encoder
from tests.support.service import running_service, wait_for_job
from tests.support.trainers import external_trainer

WARNING = "values of training data"
MEASURING_COMMANDS = {
    "evaluate",
    "evaluate compare",
    "evaluate curve",
    "index rank",
    "label judged",
    "label retrain",
    "coherence",
}
"""Commands that can measure with queries that an encoder learned from."""
HELD_OUT_COMMANDS = {
    "demo": "its queries are documents held out, and questions of people",
    "quickstart": "measures with documents held out, and with judged queries before it learns",
    "train": "measures with documents held out",
    "distill": "measures with documents held out",
    "index train": "measures with documents held out",
    "leaderboard": "measures with the published test splits",
    "reproduce": "measures with the published test splits",
    "job show": "the record of a job, as the routes give it",
}
"""Commands, or their first words, and why they cannot."""
OTHER_COMMANDS = """
alias list, alias remove, alias set, completion, config check, config show, encoder export,
encoder install, encoder list, encoder pull, encoder push, encoder show, index add, index build,
index compact, index count, index delete, index drop, index duplicates, index export, index facets,
index fields, index get, index import, index language, index list, index payload, index scroll,
index stats, index verify, job cancel, job list, keys create, keys list, keys revoke, label confirm,
label export, label import, label pool, label set, label stats, label suggest, label take-back,
label train, mcp, ready, reindex, search, serve, snapshot create, snapshot delete,
snapshot download, snapshot list, snapshot restore, snapshot upload
"""
"""Commands that measure nothing; the tool of ``mcp`` is tested in tests/integrations."""
MEASURING_ROUTES = {
    "POST /v1/collections/{name}/evaluate",
    "GET /v1/evaluations/{id}",
    "POST /v1/evaluations/{id}/compare",
    "POST /v1/collections/{name}/retrain",
    "GET /v1/jobs/{id}",
    "GET /v1/jobs",
}
OTHER_ROUTES = """
/ /livez /readyz /metrics /v1/access /v1/encoders /v1/encoders/{name} /v1/encoders/{name}/encode
/v1/embeddings /v1/models /v1/collections /v1/collections/{name} /v1/collections/{name}/stats
/v1/collections/{name}/codes /v1/collections/{name}/verify /v1/collections/{name}/compact
/v1/collections/{name}/index-fields /v1/aliases /v1/collections/{name}/reindex
/v1/collections/{name}/documents /v1/collections/{name}/documents/{id}
/v1/collections/{name}/documents:get /v1/collections/{name}/documents:scroll
/v1/collections/{name}/documents:count /v1/collections/{name}/facets
/v1/collections/{name}/documents:delete /v1/collections/{name}/documents:payload
/v1/collections/{name}/documents:bulk /v1/collections/{name}/search
/v1/collections/{name}/completions /v1/collections/{name}/search/batch
/v1/collections/{name}/recommend /v1/collections/{name}/encode /v1/collections/{name}/snapshots
/v1/snapshots:upload /v1/snapshots /v1/snapshots/{id} /v1/snapshots/{id}/file
/v1/snapshots/{id}/restore /v1/jobs/{id}/cancel /v1/collections/{name}/map /v1/maps/{id}
/v1/maps/{id}/points /v1/collections/{name}/duplicates /v1/duplicates/{id}/delete
/v1/duplicates/{id} /v1/evaluations/{id}/queries /v1/collections/{name}/labels
/v1/collections/{name}/labels/suggest /v1/collections/{name}/labels/stats
/v1/collections/{name}/judgements /v1/collections/{name}/judgements/pool
/v1/collections/{name}/labels/export /v1/collections/{name}/judgements/export
/v1/collections/{name}/train /v1/collections/{name}/labels/import /v1/jobs/{id}/confirm
/v1/jobs/{id}/take-back /v1/collections/{name}/faiss /v1/collections/{name}/faiss/documents
/v1/collections/{name}/documents:file /v1/files:survey
"""
MEASURING_FUNCTIONS = {
    *("evaluate_encoder", "evaluate_rankings", "measure_rankings"),
    *("run_job", "compare_encoders", "compare_reports"),
}
OTHER_FUNCTIONS = {
    *("evaluate_by_score", "evaluate_codes", "evaluate_ranking", "evaluate_run", "evaluate_scores"),
    *(
        "tfidf_cosine",
        "bm25",
        "vector_cosine",
        "logistic_baseline",
    ),  # of codes, scores or lists, without an encoder
    # Measured with queries that their callers have chosen:
    *("classifier_baseline", "collection_classifier_baseline", "judged_curve"),
    *("soft_class_scores", "known_items", "same_label"),
    # Given what was measured:
    *("by_ranking", "on_common_queries", "to_evaluation", "parse_report", "read_report"),
}
LEARNED = topic_documents(200)
OTHERS = [
    Document(f"new-{at}", f"{document.text} other", labels=document.labels)
    for at, document in enumerate(LEARNED[:20])
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
            {"id": f"q-{document.id}", "text": f" {document.text}\n", "label": document.labels[0]}
            for document in documents
        ]
        (path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return path


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def documents(path: Path) -> list[Document]:
    return [
        Document(record["id"], record["text"], labels=(record["label"],))
        for record in records(path)
    ]


def test_a_map_tells_which_documents_the_encoder_learned_from(folder: Path) -> None:
    with running_service(folder) as client:
        path = "/v1/collections/c"
        added = {"documents": [{"id": document.id, "text": document.text} for document in OTHERS]}
        client.put(f"{path}/documents", json=added).raise_for_status()
        job = wait_for_job(client, client.post(f"{path}/map", json={"method": "pca"}))
        drawn = client.get(job["result"]["map"]).json()["map"]
        points = client.get(f"{job['result']['map']}/points").content
        client.post(f"{path}/documents:delete", json={"ids": [document.id for document in OTHERS]})
    assert (drawn["documents"], drawn["learned_documents"]) == (220, 200)
    shares = list(points[-drawn["points"] :])
    assert max(shares) == 254
    assert min(shares) < 254


def test_the_library_warns_or_leaves_them_out(folder: Path) -> None:
    learned, mixed = (documents(folder / f"{name}.jsonl") for name in ("learned", "mixed"))
    with DataFolder(folder, writable=False) as data:
        collection, encoder = data.collection("c"), data.encoders.load("e")
        for evaluation in (
            *evaluate_rankings(collection, learned, ["hamming", "bm25"]).values(),
            evaluate_encoder(encoder, gather(LEARNED).labelled(), gather(learned).labelled()),
        ):
            assert WARNING in (evaluation.warning or "")
            assert next(iter(evaluation.to_dict())) == "warning"
        for evaluation in (
            *evaluate_rankings(collection, mixed, ["hamming", "bm25"]).values(),
            evaluate_encoder(encoder, gather(LEARNED).labelled(), gather(mixed).labelled()),
        ):
            assert (evaluation.warning, evaluation.queries) == (None, len(OTHERS))
            assert "left out 30 queries of 50" in evaluation.notes[0]
    with hummingbit.Collection.open(folder, "c") as opened:
        texts, labels = (
            [document.text for document in learned],
            [document.labels[0] for document in learned],
        )
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
            {"text": record["text"], "label": record["label"]}
            for record in records(folder / "learned.jsonl")
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
        stored = {document.id: document for document in LEARNED}
        queries = [Document("x", stored[id_].text, labels=stored[id_].labels) for id_ in ids[:5]]
        (evaluation,) = evaluate_rankings(collection, queries, ["hamming"]).values()
        assert WARNING in (evaluation.warning or "")


def test_a_report_of_training_data_passes_no_gate(folder: Path) -> None:
    with DataFolder(folder, writable=False) as data:
        report = run_job(data.collection("c"), documents(folder / "learned.jsonl")).report
    read = parse_report(FORMATS["json"].write(Job(report, None), None) or "")
    with pytest.raises(GateError, match=WARNING):
        compare_reports(read, parse_gate('[metrics."P@100"]\nmin = 0.0'))


def leaves(parser: argparse.ArgumentParser, path: str = "") -> Iterator[str]:
    commands = [
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    ]
    for name, command in commands[0].choices.items() if commands else ():
        yield from leaves(command, f"{path} {name}")
    if not commands:
        yield path.strip()


def test_every_command_is_listed() -> None:
    commands = {*leaves(whole_parser()), *(name for name in COMMANDS if " " in name)}
    others = {" ".join(name.split()) for name in OTHER_COMMANDS.split(",")}
    held_out = {
        name for name in commands if {name, name.partition(" ")[0]} & HELD_OUT_COMMANDS.keys()
    }
    assert commands == MEASURING_COMMANDS | others | held_out


def test_every_route_is_listed(tmp_path: Path) -> None:
    DataFolder(tmp_path / "data", writable=True).close()
    paths = create_app(tmp_path / "data").openapi()["paths"]
    routes = {f"{method.upper()} {path}" for path, some in paths.items() for method in some}
    others = {name for name in routes if name.split()[1] in OTHER_ROUTES.split()}
    assert routes == MEASURING_ROUTES | others


def test_every_function_of_the_library_is_listed() -> None:
    kinds = ("Evaluation", "Report", "Job", "Trial", "Curve")
    found = set()
    for module in pkgutil.walk_packages(hummingbit.evaluation.__path__, "hummingbit.evaluation."):
        functions = inspect.getmembers(importlib.import_module(module.name), inspect.isfunction)
        for name, function in functions:
            returned = str(function.__annotations__.get("return"))
            if function.__module__ == module.name and not name.startswith("_"):
                words = returned.replace("[", " ").replace("]", " ").replace(",", " ").split()
                if name == "measure_rankings" or any(kind in words for kind in kinds):
                    found.add(name)
    assert found == MEASURING_FUNCTIONS | OTHER_FUNCTIONS
    public = {
        f"{name}.{method}"
        for name in hummingbit.__all__
        for method in dir(getattr(hummingbit, name))
        if not method.startswith("_") and ("evaluat" in method or "score" in method)
    }
    assert public == {
        "Collection.evaluate",
        "SemanticHasher.score",
        # These get what a service measured.
        "ServedCollection.evaluate",
        *("AsyncClient.evaluate", "AsyncClient.evaluation"),
        *("Client.evaluate", "Client.evaluation"),
        # Of hits, not of rankings:
        *("Hit.rerank_score", "Hit.score", "Hits.scores"),
    }


@pytest.mark.parametrize(
    "options",
    [
        *(["--exclude-self"], ["--only-labelled"], ["--hierarchy"], ["--explain"]),
        *(["--metrics", "MRR"], ["--qrels", "learned.qrels"], ["--codes-weights", "0", "1"]),
        *(["--nearest", "3"], ["--out", "report"], ["--baseline", "report/report.json"]),
    ],
    ids=" ".join,
)
def test_every_option_of_evaluate_says_it_first(
    folder: Path, options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(folder)
    lines = [f"q-{document.id} 0 {document.id} 1\n" for document in LEARNED[:30]]
    Path("learned.qrels").write_text("".join(lines))
    command = ["evaluate", "c", "--queries", "learned.jsonl", "--data-dir", "."]
    if "--baseline" in options:
        assert main([*command, "--out", "report"]) == 0
        capsys.readouterr()
    assert main([*command, *options]) == 0
    assert WARNING in capsys.readouterr().out.splitlines()[0]
    assert main([*command, *options, "--json"]) == 0
    assert next(iter(json.loads(capsys.readouterr().out))) == "warning"
    if "--out" in options:
        for file in ("report.json", "report.md", "junit.xml"):
            text = Path("report", file).read_text().removeprefix("{\n")
            assert WARNING in text.splitlines()[0]
        page = Path("report", "index.html")
        if page.exists():
            assert page.read_text().index(WARNING) < page.read_text().index("<h1>")


@pytest.fixture(scope="module")
def other(folder: Path) -> str:
    """An encoder that learned from the first half of the documents only, and its collection."""
    recipe = ClassCodeRecipe(n_bits=32, validation_share=0.0)
    train_class_codes(gather(LEARNED[:20]), recipe, folder / "encoders" / "other")
    with DataFolder(folder, writable=True) as data:
        data.create_collection("other", encoder="other").upsert(LEARNED)
    return "other"


@pytest.mark.usefixtures("other")
@pytest.mark.parametrize("names", ["c other", "e other --data corpus.jsonl"])
def test_comparisons_leave_out_what_any_encoder_learned_from(
    folder: Path, names: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(folder)
    lines = [
        {"id": document.id, "text": document.text, "label": document.labels[0]}
        for document in LEARNED
    ]
    Path("corpus.jsonl").write_text("\n".join(map(json.dumps, lines)))
    some = [
        *lines[:30],
        *({**line, "id": line["id"] + "x"} for line in records(Path("mixed.jsonl"))[30:]),
    ]
    Path("some.jsonl").write_text("\n".join(map(json.dumps, some)))
    command = ["evaluate", "compare", *names.split(), "--data-dir", "."]
    assert main([*command, "--queries", "some.jsonl", "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert {system["queries"] for system in compared["systems"].values()} == {len(OTHERS)}
    assert main([*command, "--queries", "some.jsonl"]) == 0
    assert "left out" in capsys.readouterr().out.splitlines()[0]
    Path("some.jsonl").write_text("\n".join(map(json.dumps, lines[:20])))
    assert main([*command, "--queries", "some.jsonl", "--json"]) == 0
    assert next(iter(json.loads(capsys.readouterr().out))) == "warning"
    assert main([*command, "--queries", "some.jsonl"]) == 0
    assert WARNING in capsys.readouterr().out.splitlines()[0]


@pytest.mark.usefixtures("other")
def test_collections_without_a_common_query_are_not_compared(
    folder: Path, tmp_path: Path, capsys: Any
) -> None:
    recipe = ClassCodeRecipe(n_bits=32, validation_share=0.0)
    with DataFolder(folder, writable=True) as data:
        train_class_codes(gather(LEARNED[20:60]), recipe, folder / "encoders" / "third")
        data.create_collection("third", encoder="third").upsert(LEARNED)
    lines = [
        {"id": document.id, "text": document.text, "label": document.labels[0]}
        for document in LEARNED[:60]
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, lines)))
    command = ["evaluate", "compare", "other", "third", "--data-dir", str(folder)]
    assert main([*command, "--queries", str(tmp_path / "q.jsonl")]) == 2
    assert "no query in common" in capsys.readouterr().err


def test_the_curve_leaves_out_what_was_trained_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(folder)
    command = ["evaluate", "curve", "--data", "learned.jsonl", "--queries", "learned.jsonl"]
    command += ["--supervision", "1", "--epochs", "1", "--bits", "8", "--metric", "P@5"]
    assert main([*command, "--json"]) == 0
    (point,) = json.loads(capsys.readouterr().out)["points"]
    (note,) = point["notes"]
    assert (point["warning"], note[:8]) == (None, "left out")
    assert main(command) == 0
    assert note in capsys.readouterr().out.splitlines()[0]


def test_the_fit_of_the_weight_says_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(folder)
    Path("learned.qrels").write_text(
        "".join(f"q-{document.id} 0 {document.id} 1\n" for document in LEARNED[:30])
    )
    judged = ["--queries", "learned.jsonl", "--qrels", "learned.qrels"]
    command = ["index", "rank", "c", "--fit"]

    def check(where: list[str]) -> None:
        assert main([*command, *judged, *where]) == 0
        assert WARNING in capsys.readouterr().out.splitlines()[0]
        assert main([*command, *judged, *where, "--json"]) == 0
        assert next(iter(json.loads(capsys.readouterr().out))) == "warning"

    check(["--data-dir", "."])
    with running_service(folder) as client:
        check(["--url", str(client.base_url)])


def test_the_first_report_of_judged_answers_says_it(
    folder: Path, tmp_path: Path, capsys: Any
) -> None:
    rows = [f"{document.text},{document.id},3" for document in LEARNED[:5]]
    (tmp_path / "graded.csv").write_text("\n".join(["question,document,grade", *rows]))
    command = ["label", "judged", "c", str(tmp_path / "graded.csv"), "--data-dir", str(folder)]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert printed.index(WARNING) < printed.index("as served")
    assert WARNING in (tmp_path / "out" / "report" / "report.md").read_text().splitlines()[0]


def test_the_gate_of_retraining_says_it_and_refuses(tmp_path: Path, capsys: Any) -> None:
    recipe = ClassCodeRecipe(n_bits=32, validation_share=0.0)
    train_class_codes(gather(LEARNED), recipe, tmp_path / "encoders" / "e")
    settings = Settings(training="elsewhere")
    with (
        running_service(tmp_path, settings) as client,
        external_trainer(tmp_path, text_encoder(64, seed=1)),
    ):
        client.put("/v1/collections/c", json={"encoder": "e"}).raise_for_status()
        stored = [{"id": document.id, "text": document.text} for document in LEARNED]
        client.put("/v1/collections/c/documents", json={"documents": stored}).raise_for_status()
        labels = [{"id": document.id, "labels": list(document.labels)} for document in LEARNED[:60]]
        client.put("/v1/collections/c/labels", json={"labels": labels}).raise_for_status()
        path = "/v1/collections/c/retrain"
        job = wait_for_job(client, client.post(path, json={"min_gain": -1.0}))
        assert WARNING in job["result"]["trial"]["uncertainty"]
        assert job["result"]["state"] == "refused"
        command = ["label", "retrain", "c", "--min-gain", "-1", "--url", str(client.base_url)]
        assert main(command) == 1
        assert WARNING in capsys.readouterr().out.splitlines()[0]


def test_the_coherence_with_a_teacher_says_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(folder)
    ids = [record["id"] for record in records(Path("learned.jsonl"))]
    vectors = np.random.default_rng(0).normal(size=(len(ids), 8)).astype(np.float32)
    np.savez(tmp_path / "teacher.npz", ids=np.array(ids), vectors=vectors)
    command = ["coherence", "encoders/e", "--data", "learned.jsonl"]
    command += ["--teacher", str(tmp_path / "teacher.npz")]
    assert main(command) == 0
    assert WARNING in capsys.readouterr().out.splitlines()[0]
    assert main([*command, "--json"]) == 0
    assert next(iter(json.loads(capsys.readouterr().out))) == "warning"


def test_the_coherence_level_of_a_report_says_it(folder: Path) -> None:
    rng = np.random.default_rng(0)
    vectors = {document.id: rng.normal(size=8).astype(np.float32) for document in LEARNED}
    with DataFolder(folder, writable=False) as data:
        job = run_job(data.collection("c"), OTHERS, teacher=TeacherVectors("t.npz", vectors))
    assert job.report.warning is None
    for name in ("markdown", "html") if find_spec("matplotlib") else ("markdown",):
        text = FORMATS[name].write(job, None) or ""
        assert text.index("Coherence level") < text.index(WARNING)
        assert f"learned from {len(LEARNED)}" in text


def test_scores_of_the_estimator_say_it(folder: Path) -> None:
    texts, labels = (
        [document.text for document in LEARNED],
        [document.labels[0] for document in LEARNED],
    )
    hasher = hummingbit.SemanticHasher(n_bits=16, method="class-codes", validation_fraction=0.0)
    hasher.fit(texts, labels)
    with pytest.warns(UserWarning, match=WARNING):
        hasher.score(texts[:30], labels[:30])
    others = [document.text for document in OTHERS]
    alone = hasher.score(others, labels[:20])
    with pytest.warns(UserWarning, match="left out 30 queries of 50"):
        assert hasher.score([*texts[:30], *others], [*labels[:30], *labels[:20]]) == alone


def test_means_and_the_comparison_of_encoders_say_it(folder: Path) -> None:
    learned = documents(folder / "learned.jsonl")
    with DataFolder(folder, writable=False) as data:
        found = measure_rankings(data.collection("c"), learned, ["P@10"], RelevanceSettings())
        assert WARNING in found["warning"]
        encoder = data.encoders.load("e")
    queries, database = gather(learned).labelled(), gather(LEARNED).labelled()
    trial = compare_encoders(encoder, encoder, database, queries, seen=len(queries))
    assert WARNING in (trial.uncertainty or "")


def test_a_baseline_of_training_data_is_told_and_gates_no_drop(folder: Path) -> None:
    with DataFolder(folder, writable=False) as data:
        collection = data.collection("c")
        baseline = run_job(collection, documents(folder / "learned.jsonl")).report
        report = run_job(collection, OTHERS).report
    other = report.model_copy(
        update={"query_ids": baseline.query_ids[: report.queries], "queries": report.queries}
    )
    rules = parse_gate('[metrics."P@100"]\nmax_drop = 0.01')
    with pytest.raises(GateError, match=f"refuses a baseline with {WARNING}"):
        compare_reports(other, rules, baseline, ignore_unmatched_queries=True)
    compared = compare_reports(other, [], baseline, ignore_unmatched_queries=True)
    assert any(WARNING in note for note in compared.notes)


def test_two_evaluations_are_compared_with_the_warning(folder: Path) -> None:
    with running_service(folder) as client:
        queries = [
            {"id": record["id"], "text": record["text"], "label": record["label"]}
            for record in records(folder / "learned.jsonl")
        ]
        address, headers = "/v1/collections/c/evaluate", {"prefer": "respond-async"}
        id_ = client.post(address, json={"queries": queries}, headers=headers).json()["id"]
        while client.get(f"/v1/evaluations/{id_}").json()["status"] == "running":
            pass
        jobs = [client.get(f"/v1/jobs/{id_}").json(), *client.get("/v1/jobs").json()["jobs"]]
        assert all(job["result"].keys() == {"report"} for job in jobs if job["id"] == id_)
        compared = client.post(f"/v1/evaluations/{id_}/compare", json={"baseline": id_}).json()
        assert WARNING in compared["warning"]
