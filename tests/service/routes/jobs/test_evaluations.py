from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from hummingbit.corpus.document import Document
from hummingbit.evaluation.formats import FORMATS
from hummingbit.evaluation.rankings import evaluate_rankings
from hummingbit.evaluation.report import parse_report, run_job
from hummingbit.evaluation.trec import parse_run
from hummingbit.index.data_folder import DataFolder
from tests.support.encoders import random_texts
from tests.support.evaluations import labelled_codes, parse_junit
from tests.support.service import check_problem, forget_job_when_read, send

MakeCollection = Callable[..., str]
ASYNC = {"Prefer": "wait=5, respond-async"}
METRICS = ["P@10", "mAP@100", "nDCG@10"]
DOCUMENTS = labelled_codes(300, 0, "d")
QUERIES = labelled_codes(40, 1, "q")


def as_json(documents: list[Document]) -> list[dict[str, Any]]:
    return [
        {"id": document.id, "code": document.code, "label": document.labels[0]}
        for document in documents
    ]


@pytest.fixture(scope="module")
def path(make_collection: MakeCollection) -> str:
    return make_collection(as_json(DOCUMENTS), n_bits=16)


@pytest.fixture(scope="module")
def body() -> dict[str, Any]:
    return {"queries": as_json(QUERIES), "metrics": METRICS}


def finished(client: httpx.Client, response: httpx.Response) -> tuple[str, dict[str, Any]]:
    """Wait for an evaluation; return its address and its status."""
    assert response.status_code == 202
    assert response.json()["status"] in {"running", "done"}
    address = response.headers["location"]
    assert address == f"/v1/evaluations/{response.json()['id']}"
    deadline = time.monotonic() + 120
    while (found := client.get(address).json())["status"] == "running":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return address, found


@pytest.fixture(scope="module")
def done(client: httpx.Client, path: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return finished(client, client.post(f"{path}/evaluate", json=body, headers=ASYNC))


def test_the_figures_are_the_librarys_to_the_last_digit(
    client: httpx.Client,
    path: str,
    body: dict[str, Any],
    done: tuple[str, dict[str, Any]],
    tmp_path: Path,
) -> None:
    with DataFolder(tmp_path, writable=True) as folder:
        collection = folder.create_collection(path.rpartition("/")[2], n_bits=16)
        collection.upsert(DOCUMENTS)
        expected = evaluate_rankings(collection, QUERIES, ["hamming"], METRICS)["hamming"].to_dict()
        job = run_job(collection, QUERIES, METRICS)
    at_once = client.post(f"{path}/evaluate", json=body).json()
    assert {name: at_once[name] for name in expected} == expected
    assert parse_report(json.dumps(done[1]["report"])) == job.report
    assert {metric.name: metric.served for metric in job.report.metrics} == at_once["metrics"]
    assert job.run is not None
    assert client.get(done[0], params={"format": "trec"}).text == job.run()


def test_every_format_by_name_and_by_accept(
    client: httpx.Client, done: tuple[str, dict[str, Any]]
) -> None:
    address, status = done
    for name, format_ in FORMATS.items():
        by_name = client.get(address, params={"format": name})
        by_type = client.get(address, headers={"Accept": f"image/png, {format_.media_type};q=0.9"})
        assert by_name.status_code == by_type.status_code == 200
        assert by_name.headers["content-type"].startswith(format_.media_type)
        assert by_name.text == by_type.text
        if name != "json":
            assert by_name.headers["x-content-type-options"] == "nosniff"
            policy = by_name.headers["content-security-policy"]
            assert {"default-src 'none'", "frame-ancestors 'none'"} <= set(policy.split("; "))
    assert status["status"] == "done"
    assert client.get(address).json() == status
    assert len(parse_junit(client.get(address, params={"format": "junit"}).text)) == 3
    assert len(parse_run(client.get(address, params={"format": "trec"}).text.splitlines())) == 40
    browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    assert client.get(address, headers={"Accept": browser}).text.startswith("<!DOCTYPE html>")
    assert client.get(address, headers={"Accept": "application/json;q=x, */*"}).json() == status


def test_what_cannot_be_answered_is_a_problem(
    client: httpx.Client, done: tuple[str, dict[str, Any]]
) -> None:
    address, _ = done
    check_problem(client.get("/v1/evaluations/absent"), 404, "unknown_evaluation")
    check_problem(client.get(address, params={"format": "pdf"}), 422, "invalid_request")
    for accept in ("image/png", "application/json;q=0"):
        response = client.get(address, headers={"Accept": accept})
        check_problem(response, 406, "not_acceptable")


def test_an_evaluation_that_fails_says_why(
    client: httpx.Client, path: str, body: dict[str, Any]
) -> None:
    asked = {**body, "label_field": "nothing"}
    address, status = finished(client, client.post(f"{path}/evaluate", json=asked, headers=ASYNC))
    assert status["status"] == "failed"
    assert "has 300 documents, and none has a label" in status["error"]
    check_problem(client.get(address, params={"format": "html"}), 409, "evaluation_failed")


def test_a_collection_that_is_dropped_meanwhile_tells_of_no_path(
    client: httpx.Client, make_collection: MakeCollection, body: dict[str, Any], path: str
) -> None:
    asked = {"queries": as_json(labelled_codes(2000, 2, "many")), "metrics": METRICS}
    error = None
    while error is None:  # on a busy machine, the evaluation may end before its collection is gone
        first = client.post(f"{path}/evaluate", json=asked, headers=ASYNC)
        gone = make_collection(as_json(DOCUMENTS), n_bits=16)
        second = client.post(f"{gone}/evaluate", json=body, headers=ASYNC)
        assert client.delete(gone).status_code == 204
        error = finished(client, second)[1]["error"]
        assert finished(client, first)[1]["status"] == "done"
    assert error == f"there is no collection '{gone.rsplit('/', 1)[1]}'"


def test_a_body_that_is_not_right_is_refused_at_once(client: httpx.Client, path: str) -> None:
    for queries, pointer in (([{"code": "00"}], "/queries/0"), ([], "/queries")):
        response = client.post(f"{path}/evaluate", json={"queries": queries}, headers=ASYNC)
        problem = check_problem(response, 422, "invalid_request")
        assert problem["errors"][0]["pointer"] == pointer


def test_queries_come_back_with_ids_and_every_field(client: httpx.Client, path: str) -> None:
    code = DOCUMENTS[0].code
    queries: list[dict[str, Any]] = [
        {"code": code, "label": "a"},
        {"id": "two", "code": code, "labels": ["a", "b"]},
    ]
    address, _ = finished(
        client, client.post(f"{path}/evaluate", json={"queries": queries}, headers=ASYNC)
    )
    nothing: dict[str, Any] = {
        "id": None,
        "text": None,
        "vector": None,
        "code": None,
        "label": None,
    }
    assert client.get(f"{address}/queries").json()["queries"] == [
        {**nothing, "labels": None, **queries[0], "id": "0"},
        {**nothing, **queries[1]},
    ]


@pytest.mark.parametrize(
    ("qrels", "pointer"),
    [
        ({"q": {"d": 1, "e": True}}, "/qrels/q/e"),
        ({"q": {"d": 1.5}}, "/qrels/q/d"),
        ({"q": {"d": 1, "e": 10**23}}, "/qrels/q/e"),
        ({"q": {"d": -1001}}, "/qrels/q/d"),
        ({"q": {"d": 1}, "r": []}, "/qrels/r"),
        ([], "/qrels"),
    ],
)
def test_the_first_invalid_grade_is_named(
    client: httpx.Client, path: str, qrels: Any, pointer: str
) -> None:
    body = {"queries": [{"id": "q", "code": DOCUMENTS[0].code}], "qrels": qrels}
    problem = check_problem(send(client, "POST", f"{path}/evaluate", body), 422, "invalid_request")
    assert [error["pointer"] for error in problem["errors"]] == [pointer]


def test_judgements_in_the_body(client: httpx.Client, path: str, body: dict[str, Any]) -> None:
    qrels = {
        query.id: {document.id: 1 for document in DOCUMENTS if document.labels == query.labels}
        for query in QUERIES
    }
    unlabelled = [{"id": query.id, "code": query.code} for query in QUERIES]
    by_label = client.post(f"{path}/evaluate", json=body).json()
    asked = {"queries": unlabelled, "metrics": METRICS, "qrels": qrels}
    judged = client.post(f"{path}/evaluate", json=asked).json()
    for name in ("metrics", "expected", "best", "worst"):
        assert judged[name] == by_label[name]
    response = client.post(f"{path}/evaluate", json={**asked, "qrels": {"q0": {}}})
    check_problem(response, 422, "cannot_evaluate")


def test_an_id_that_trec_cannot_hold(client: httpx.Client, make_collection: MakeCollection) -> None:
    path = make_collection([{"id": "two words", "code": "00", "label": "x"}], n_bits=8)
    asked = {"queries": [{"code": "00", "label": "x"}], "metrics": ["P@1"]}
    address, status = finished(client, client.post(f"{path}/evaluate", json=asked, headers=ASYNC))
    assert "two words" in status["report"]["notes"][0]
    check_problem(client.get(address, params={"format": "trec"}), 406, "format_unavailable")


def test_an_evaluation_that_runs_has_no_report_yet(client: httpx.Client, path: str) -> None:
    asked = {"queries": as_json(labelled_codes(2000, 2, "many")), "metrics": METRICS}
    response = client.post(f"{path}/evaluate", json=asked, headers=ASYNC)
    address = response.headers["location"]
    # It draws samples of 2,000 queries for its intervals; an answer takes a thousandth of that.
    report = client.get(address, params={"format": "markdown"})
    check_problem(report, 409, "evaluation_running")
    found = client.get(address).json()
    assert found == {"id": found["id"], "status": "running", "error": None, "report": None}
    finished(client, response)


@pytest.mark.parametrize("place", ["", "?format=trec", "/queries"])
def test_an_evaluation_forgotten_the_moment_it_is_read_is_gone(
    client: httpx.Client,
    path: str,
    body: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    address, _ = finished(client, client.post(f"{path}/evaluate", json=body, headers=ASYNC))
    forget_job_when_read(monkeypatch)
    check_problem(client.get(address + place), 404, "unknown_evaluation")


def test_two_evaluations_are_compared_and_held_to_a_gate(
    client: httpx.Client, make_collection: Callable[..., str]
) -> None:
    texts = random_texts(60)
    documents = [
        {"id": str(at), "text": text, "label": text.split()[0]} for at, text in enumerate(texts)
    ]
    path = make_collection(documents, encoder="words")
    ids = []
    for first in (0, 4):
        body = {
            "queries": [
                {"text": document["text"], "label": document["label"], "id": document["id"]}
                for document in documents[first:20]
            ],
            "metrics": ["P@10"],
            "exclude_self": first == 0,
        }
        response = client.post(f"{path}/evaluate", json=body, headers={"prefer": "respond-async"})
        id_ = response.json()["id"]
        while client.get(f"/v1/jobs/{id_}").json()["finished"] is None:
            time.sleep(0.02)
        ids.append(id_)
    gate = '[metrics."P@10"]\nmin = 1.0'
    body = {"baseline": ids[1], "gate": gate}
    compared = client.post(f"/v1/evaluations/{ids[0]}/compare", json=body).json()
    reports = [client.get(f"/v1/evaluations/{id_}").json()["report"] for id_ in ids]
    after = dict(
        zip(reports[0]["query_ids"], reports[0]["per_query"]["P@10"]["served"], strict=True)
    )
    before = dict(
        zip(reports[1]["query_ids"], reports[1]["per_query"]["P@10"]["served"], strict=True)
    )
    change = compared["changes"][0]
    differences = [after[query] - before[query] for query in before]
    assert change["difference"] == pytest.approx(sum(differences) / len(differences))
    assert not compared["passed"]
    assert compared["gate"][0]["condition"] == "min"
    assert "4 queries" in compared["notes"][0]
    asked = client.get(f"/v1/evaluations/{ids[1]}/queries").json()["queries"]
    assert [document["id"] for document in asked] == reports[1]["query_ids"]
    assert asked[0]["text"] == documents[4]["text"]
    for wrong, field in (({"baseline": ids[1], "gate": "nope"}, "/gate"),):
        problem = check_problem(
            client.post(f"/v1/evaluations/{ids[0]}/compare", json=wrong), 422, "invalid_request"
        )
        assert problem["errors"][0]["pointer"] == field
    answer = client.post(f"/v1/evaluations/{ids[0]}/compare", json={"baseline": "never"})
    check_problem(answer, 404, "unknown_evaluation")
