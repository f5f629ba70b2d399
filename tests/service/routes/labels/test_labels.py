from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from hummingbit.service.routes import labels as annotation_files
from hummingbit.service.settings import Settings
from tests.support.encoders import random_texts
from tests.support.service import check_problem, make_data_folder, running_service

MakeCollection = Callable[..., str]
TEXTS = random_texts(60, seed=3)


@pytest.fixture
def path(make_collection: MakeCollection) -> str:
    documents = [{"id": f"d{at}", "text": text} for at, text in enumerate(TEXTS)]
    return make_collection(documents, encoder="words")


def put(client: httpx.Client, path: str, *labels: dict[str, Any]) -> httpx.Response:
    return client.put(f"{path}/labels", json={"labels": list(labels)})


def test_labels_are_set_listed_and_taken_back(client: httpx.Client, path: str) -> None:
    generation = client.get(path).json()["generation"]
    answer = put(client, path, {"id": "d0", "label": "a"}, {"id": "d1", "labels": [], "who": "bob"})
    assert answer.json() == {"changed": 2, "generation": generation + 1}
    page = client.get(f"{path}/labels", params={"limit": 1}).json()
    (first,) = page["labels"]
    assert first.pop("when").endswith("+00:00")
    assert first == {"id": "d0", "labels": ["a"], "grade": 1, "who": "anonymous"}
    rest = client.get(f"{path}/labels", params={"cursor": page["next_cursor"]}).json()
    assert [label["id"] for label in rest["labels"]] == ["d1"]
    assert rest["next_cursor"] is None
    assert put(client, path, {"id": "d0", "label": None}).json()["changed"] == 1
    assert [label["id"] for label in client.get(f"{path}/labels").json()["labels"]] == ["d1"]


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"id": "nobody", "label": "a"}, "/labels/1/id"),
        ({"id": "d1", "label": "a", "labels": ["b"]}, "/labels/1/labels"),
        ({"id": "d1"}, "/labels/1/label"),
        ({"id": "d1", "label": ""}, "/labels/1/labels"),
        ({"id": "d1", "label": "a", "grade": -1}, "/labels/1/grade"),
        ({"id": "d1", "label": "a", "who": ""}, "/labels/1/who"),
    ],
)
def test_one_wrong_label_and_none_is_written(
    client: httpx.Client, path: str, wrong: dict[str, Any], pointer: str
) -> None:
    problem = check_problem(
        put(client, path, {"id": "d0", "label": "a"}, wrong), 422, "invalid_request"
    )
    assert problem["errors"][0]["pointer"] == pointer
    assert client.get(f"{path}/labels").json()["labels"] == []


def test_suggestions_leave_out_what_was_looked_at(client: httpx.Client, path: str) -> None:
    asked: dict[str, Any] = {"n": 5, "skip": ["d7"]}
    found = client.get(f"{path}/labels/suggest", params=asked).json()
    assert (found["method"], found["labelled"], len(found["documents"])) == ("herding", 0, 5)
    first = found["documents"][0]
    assert first["text"] == TEXTS[int(first["id"][1:])]
    for at in range(50):
        put(client, path, {"id": f"d{at}", "label": "ab"[len(TEXTS[at]) % 2]})
    put(client, path, {"id": "d50", "labels": []})
    for method in ("margin", "random", "herding"):
        params: dict[str, Any] = {"n": 60, "method": method, "skip": ["d51"]}
        found = client.get(f"{path}/labels/suggest", params=params).json()
        assert sorted(document["id"] for document in found["documents"]) == [
            f"d{at}" for at in range(52, 60)
        ]
        assert {guess["label"] for guess in found["documents"][0]["guesses"]} == {"a", "b"}
    check_problem(
        client.get(f"{path}/labels/suggest", params={"method": "best"}), 422, "invalid_request"
    )


def test_a_second_opinion_is_asked_of_what_others_labelled(client: httpx.Client, path: str) -> None:
    put(client, path, *({"id": f"d{at}", "label": "ab"[at % 2], "who": "ann"} for at in range(9)))
    put(client, path, {"id": "d0", "label": "b", "who": "bob"})
    params: dict[str, str | int] = {"n": 20, "method": "second-opinion", "who": "bob"}
    found = client.get(f"{path}/labels/suggest", params=params).json()
    assert sorted(document["id"] for document in found["documents"]) == [
        f"d{at}" for at in range(1, 9)
    ]


def test_counts_and_agreement(client: httpx.Client, path: str) -> None:
    labels = [{"id": f"d{at}", "label": "ab"[at % 2], "who": "ann"} for at in range(30)]
    put(client, path, *labels, {"id": "d0", "label": "a", "who": "bob"})
    put(client, path, {"id": "d1", "label": "a", "who": "bob"})
    found = client.get(f"{path}/labels/stats").json()
    assert (found["documents"], found["labelled"]) == (60, 30)
    assert {label["label"]: label["documents"] for label in found["labels"]} == {"a": 16, "b": 14}
    (agreement,) = found["agreement"]
    assert (agreement["who"], agreement["observed"], agreement["kappa"]) == (["ann", "bob"], 0.5, 0)
    assert 0 <= found["expected_gain"]["accuracy"] <= 1


def test_labels_that_documents_brought_are_counted(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    documents = [
        {"id": f"d{at}", "text": text, "payload": {"topic": "a"} if at < 7 else {}}
        for at, text in enumerate(TEXTS)
    ]
    path = make_collection(documents, encoder="words")
    put(client, path, {"id": "d0", "label": "b"}, {"id": "d9", "label": "b"})
    for params, labelled in (({}, 2), ({"label_field": "topic"}, 8)):
        assert client.get(f"{path}/labels/stats", params=params).json()["labelled"] == labelled


def test_judgements_are_pooled_most_informative_first(client: httpx.Client, path: str) -> None:
    query = TEXTS[3]
    params: dict[str, str | int] = {"query": query, "n": 5, "depth": 10}
    pooled = client.get(f"{path}/judgements/pool", params=params).json()
    assert pooled["documents"][0]["text"] == query
    assert pooled["rankings"].keys() == {"hamming", "asymmetric", "bm25", "hybrid"}
    first = pooled["documents"][0]["id"]
    answer = client.put(
        f"{path}/judgements", json={"judgements": [{"query": query, "id": first, "grade": 2}]}
    )
    assert answer.json()["changed"] == 1
    again = client.get(f"{path}/judgements/pool", params=params).json()
    assert again["judged"] == 1
    assert first not in {document["id"] for document in again["documents"]}
    (held,) = client.get(f"{path}/judgements", params={"query": query}).json()["judgements"]
    assert (held["id"], held["grade"], held["who"]) == (first, 2, "anonymous")


def test_cursors_of_elsewhere_are_refused(client: httpx.Client, path: str) -> None:
    for cursor in ("x", "WyJhIl0", "bnVsbA", "é"):
        answer = client.get(f"{path}/labels", params={"cursor": cursor})
        check_problem(answer, 422, "invalid_request")


def test_a_field_of_titles_fills_no_memory(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    documents = [
        {"id": f"d{at}", "text": TEXTS[at % 60], "payload": {"title": str(at)}}
        for at in range(1200)
    ]
    path = make_collection(documents, encoder="words")
    asked: dict[str, Any] = {"n": 3, "method": "random", "label_field": "title"}
    found = client.get(f"{path}/labels/suggest", params=asked).json()
    assert (len(found["classes"]), found["labelled"], found["documents"]) == (1000, 1000, [])


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_few_documents_that_are_all_alike(
    client: httpx.Client, make_collection: MakeCollection, count: int
) -> None:
    documents = [{"id": f"d{at}", "text": "the same words"} for at in range(count)]
    path = make_collection(documents, encoder="words")
    found = client.get(f"{path}/labels/suggest").json()
    assert sorted(document["id"] for document in found["documents"]) == [
        f"d{at}" for at in range(count)
    ]
    assert client.get(f"{path}/labels/stats").json()["documents"] == count


def test_lists_larger_than_an_answer_may_be_are_refused(tmp_path: Path) -> None:
    limits = Settings(max_response_bytes=2000)
    with running_service(make_data_folder(tmp_path), limits) as client:
        path = "/v1/collections/c"
        client.put(path, json={"n_bits": 8})
        documents = [{"id": f"d{at}", "code": "00"} for at in range(30)]
        client.put(f"{path}/documents", json={"documents": documents}).raise_for_status()
        put(
            client,
            path,
            *({"id": document["id"], "label": f"{document['id']:x<60}"} for document in documents),
        )
        for place in ("labels", "labels/stats", "labels/export"):
            problem = client.get(f"{path}/{place}")
            check_problem(problem, 422, "answer_too_large")
        assert len(client.get(f"{path}/labels?limit=5").json()["labels"]) == 5


def test_labels_are_imported_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(annotation_files, "WRITTEN_AT_ONCE", 2)
    make_data_folder(tmp_path)
    with running_service(tmp_path) as client:
        path = "/v1/collections/c"
        client.put(path, json={"n_bits": 8}).raise_for_status()
        documents = [{"id": f"d{at}", "code": "00"} for at in range(5)]
        client.put(f"{path}/documents", json={"documents": documents}).raise_for_status()
        lines: list[dict[str, Any]] = [{"id": f"d{at}", "label": "a"} for at in range(6)]
        lines += [{"query": "q", "id": "d0", "grade": 1}]
        body = "".join(json.dumps(line) + "\n" for line in lines)
        headers = {"content-type": "application/x-ndjson"}
        for wrong in ("{}\n", '{"id": "d0", "label": "a", "label": "b"}\n'):
            bad = client.post(f"{path}/labels/import", content=body + wrong, headers=headers)
            check_problem(bad, 422, "invalid_request")
            assert client.get(f"{path}/labels").json()["labels"] == []
        done = client.post(f"{path}/labels/import", content=body, headers=headers)
        expected = {"labels": 6, "judgements": 1, "changed": 6, "unknown": 1, "generation": 4}
        assert done.json() == expected
        held = client.get(f"{path}/labels").json()["labels"]
        assert [document["id"] for document in held] == [f"d{at}" for at in range(5)]
        nothing = client.post(f"{path}/labels/import", content="\n", headers=headers)
        nought = {"labels": 0, "judgements": 0, "changed": 0, "unknown": 0, "generation": 4}
        assert nothing.json() == nought
