"""Training an encoder on a collection, over REST, in the client and at the command line."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from hummingbit import Client
from hummingbit.cli import main
from hummingbit.service.jobs import training_process
from hummingbit.service.jobs.store import JobStore
from hummingbit.service.settings import Settings
from tests.support.encoders import random_texts, text_encoder
from tests.support.service import check_problem, running_service, wait_for_job
from tests.support.trainers import external_trainer

TEXTS = random_texts(80)


def fill(client: httpx.Client, name: str = "notes") -> None:
    client.put(f"/v1/collections/{name}", json={"encoder": None}).raise_for_status()
    documents = [
        {"id": f"d{at}", "text": text, "payload": {"kind": "ab"[at % 2]}}
        for at, text in enumerate(TEXTS)
    ]
    path = f"/v1/collections/{name}/documents"
    client.put(path, json={"documents": documents}).raise_for_status()


def test_words_alone_become_codes_without_leaving_the_service(tmp_path: Path) -> None:
    with running_service(tmp_path) as client:
        fill(client)
        body = {"method": "itq", "settings": {"n_bits": 16, "seed": 3}, "into": "notes-2"}
        job = wait_for_job(client, client.post("/v1/collections/notes/train", json=body))
        assert job["state"] == "done", job["error"]
        result = job["result"]
        assert (result["encoder"], result["n_bits"], result["method"]) == ("notes-2", 16, "itq")
        assert (result["documents"], result["figures"]) == (80, {})
        found = client.post("/v1/collections/notes-2/search", json={"text": TEXTS[7]}).json()
        assert (found["ranking"], found["hits"][0]["id"]) == ("hybrid", "d7")
        recipe = client.get("/v1/encoders/notes-2").json()["metadata"]["recipe"]
        assert (recipe["method"], recipe["n_bits"], recipe["seed"]) == ("itq", 16, 3)


def test_labels_choose_the_method_and_an_alias_moves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = text_encoder(64, seed=1)
    with (
        running_service(tmp_path, Settings(training="elsewhere")) as client,
        external_trainer(tmp_path, encoder),
        Client(str(client.base_url)) as own,
    ):
        fill(client, "notes-1")
        own.change_aliases([{"add": {"alias": "notes", "collection": "notes-1"}}])
        job = own.train("notes", label_field="kind")
        result = own.wait_for(job)["result"] or {}
        assert (result["collection"], result["alias"], result["encoder"]) == (
            "notes-2",
            "notes",
            "notes-2",
        )
        assert own.aliases() == {"notes": "notes-2"}
        own.take_back(job["id"])
        assert own.aliases() == {"notes": "notes-1"}

        command = ["index", "train", "notes-1", "--method", "lsh", "--set", "n_bits=16"]
        assert main([*command, "--url", str(client.base_url), "--json"]) == 0
        trained = json.loads(capsys.readouterr().out)
        assert (trained["encoder"], trained["n_bits"]) == ("notes-1", 64)
    with closing(JobStore(tmp_path / "jobs" / "jobs.sqlite")) as store:
        spec = store.last(1, kind="train")[0].spec
    assert (spec["method"], spec["settings"]) == ("lsh", {"n_bits": 16})


def test_what_training_reads_are_texts_and_labels(tmp_path: Path) -> None:
    with running_service(tmp_path, Settings(training="elsewhere")) as client:
        fill(client)
        given = {"labels": [{"id": "d0", "label": "z"}]}
        client.put("/v1/collections/notes/labels", json=given).raise_for_status()
        body = {"label_field": "kind", "settings": {"n_bits": 16}}
        job = client.post("/v1/collections/notes/train", json=body).json()
        folder = tmp_path / "jobs" / job["id"]
        while not (folder / training_process.TRAINING_FILE).exists():
            assert client.get(f"/v1/jobs/{job['id']}").json()["finished"] is None
        lines = (folder / training_process.DATA_FILE).read_text().splitlines()
        assert [json.loads(line) for line in lines][:2] == [
            {"id": "d0", "text": TEXTS[0], "labels": ["z"]},
            {"id": "d1", "text": TEXTS[1], "labels": ["b"]},
        ]
        arguments = json.loads((folder / training_process.TRAINING_FILE).read_text())
        assert arguments == ["--bits=16"]
        client.post(f"/v1/jobs/{job['id']}/cancel").raise_for_status()


@pytest.mark.parametrize(
    ("body", "pointer", "message"),
    [
        ({"method": "bert"}, "/method", "is 'bert'; it must be one of ssb-vae, ict"),
        ({"method": "model"}, "/method", "is 'model'"),
        ({"method": "itq", "settings": {"epochs": 3}}, "/settings", "no 'epochs'; those of itq"),
        ({"settings": {"n_bits": 12}}, "/settings", "n_bits"),
        ({"settings": {"hidden": 3}}, "/settings", "no 'hidden'; those of all methods"),
        ({"method": "ict", "settings": {"model": "/etc/passwd"}}, "/settings", "no 'model'"),
        ({"method": "ict", "settings": {"epochs": 10**18}}, "/settings", "epochs is 1"),
        ({"method": "ict", "settings": {"epochs": 1001}}, "/settings", "epochs 1,001; a job may"),
        ({"encoder": "../x"}, "/encoder", "encoder"),
        ({"into": "notes"}, None, "taken"),
    ],
)
def test_a_wrong_request_is_named(
    served: httpx.Client, body: dict[str, Any], pointer: str | None, message: str
) -> None:
    answer = served.post("/v1/collections/notes/train", json=body)
    assert answer.status_code in {409, 422}, answer.text
    if pointer is not None:
        (error,) = answer.json()["errors"]
        assert error["pointer"] == pointer
    assert message in answer.text
    assert served.get("/v1/jobs").json()["jobs"] == []


def test_documents_without_content_and_too_few_texts_fail_with_a_reason(
    served: httpx.Client,
) -> None:
    served.put("/v1/collections/coded", json={"n_bits": 8}).raise_for_status()
    coded = {"documents": [{"id": "a", "code": "0f"}]}
    served.put("/v1/collections/coded/documents", json=coded).raise_for_status()
    job = wait_for_job(served, served.post("/v1/collections/coded/train", json={}))
    assert job["state"] == "failed"
    assert "has no text or vector to train on" in job["error"]["detail"]
    assert served.get("/v1/encoders").json()["encoders"] == []


def test_without_the_extra_it_is_refused_by_name(
    served: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hummingbit.service.routes.labels.can_train", lambda: False)
    answer = served.post("/v1/collections/notes/train", json={})
    check_problem(answer, 501, "training_unavailable")
    assert "hummingbit[train]" in answer.json()["detail"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running_service(tmp_path_factory.mktemp("served")) as client:
        fill(client)
        yield client
