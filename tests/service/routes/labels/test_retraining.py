from __future__ import annotations

import json
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from hummingbit import cli
from hummingbit.cli import main
from hummingbit.commands.options import recipe_from
from hummingbit.encoder.artifact import load_encoder, write_artifact
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.recipes import RECIPES, train_arguments
from hummingbit.service.jobs.training_process import (
    DATA_FILE,
    ENCODER_FOLDER,
    FAILED_FILE,
    LOG_FILE,
    SECONDS_BETWEEN_CHECKS,
    TRAINING_FILE,
    hold_lock,
    needs_training,
    run_training,
)
from hummingbit.service.settings import Settings
from tests.support.corpora import topic_documents
from tests.support.encoders import class_encoder, random_texts, text_encoder
from tests.support.models import write_model
from tests.support.recipes import with_other_settings
from tests.support.service import check_problem, make_data_folder, running_service, wait_for_job
from tests.support.trainers import external_trainer

WORDS = {
    "food": ("butter", "flour", "sugar", "bread", "jam", "oven"),
    "mathematics": ("tensor", "matrix", "vector", "eigen", "basis", "kernel"),
}
N = 120
SECONDS = 120.0


def documents() -> list[dict[str, Any]]:
    """Texts of two classes, most of whose words tell which."""
    drawn = random.Random(0)  # noqa: S311 - nothing secret
    made = []
    for at in range(N):
        label = sorted(WORDS)[at % 2]
        others = WORDS[drawn.choice(sorted(WORDS))]
        words = drawn.choices(WORDS[label], k=5) + drawn.choices(others, k=2)
        made.append({"id": f"d{at}", "text": " ".join(words), "payload": {"class": label}})
    return made


def fill(client: httpx.Client, name: str = "books-1") -> None:
    """Make a collection with an alias and forty labels."""
    client.put(f"/v1/collections/{name}", json={"encoder": "words"}).raise_for_status()
    given = documents()
    client.put(f"/v1/collections/{name}/documents", json={"documents": given}).raise_for_status()
    add = {"alias": "books", "collection": name}
    client.post("/v1/aliases", json={"actions": [{"add": add}]}).raise_for_status()
    labels = [
        {"id": document["id"], "label": document["payload"]["class"]} for document in given[:40]
    ]
    client.put("/v1/collections/books/labels", json={"labels": labels}).raise_for_status()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[httpx.Client]:
    """A service whose encoders are trained elsewhere, in no time."""
    make_data_folder(tmp_path)
    settings = Settings(training="elsewhere")
    with running_service(tmp_path, settings) as client, external_trainer(tmp_path, other_encoder()):
        fill(client)
        yield client


def other_encoder() -> Encoder:
    return text_encoder(64, seed=1)


def aliases(client: httpx.Client) -> dict[str, str]:
    found = client.get("/v1/aliases").json()["aliases"]
    return {item["alias"]: item["collection"] for item in found}


def retrain(client: httpx.Client, name: str = "books", **body: Any) -> dict[str, Any]:
    return wait_for_job(client, client.post(f"/v1/collections/{name}/retrain", json=body))


def retrain_here(client: httpx.Client, data_dir: Path, **body: Any) -> dict[str, Any]:
    """Retrain with a trainer in this process, which has loaded torch already."""
    accepted = client.post("/v1/collections/books/retrain", json=body)
    folder = data_dir / "jobs" / accepted.json()["id"]
    with turn_of_trainer(folder):
        arguments = json.loads((folder / TRAINING_FILE).read_bytes())
        paths = ["--data", str(folder / DATA_FILE), "--out", str(folder / ENCODER_FOLDER)]
        assert main(["train", *arguments, *paths]) == 0
    return wait_for_job(client, accepted)


@pytest.mark.long
def test_labels_become_a_better_encoder_that_a_person_switches_to(tmp_path: Path) -> None:
    make_data_folder(tmp_path)
    with running_service(tmp_path) as client:
        fill(client)
        job = retrain(client, epochs=3, seed=1)
        assert job["state"] == "done", job
        result = job["result"]
        trial = result["trial"]
        assert (result["state"], trial["passed"]) == ("waiting for confirmation", True)
        assert (job["progress"]["done"], job["progress"]["total"]) == (N, N)
        assert (trial["queries"], trial["documents"]) == (8, 32)
        assert trial["candidate"]["mAP@100"] > trial["current"]["mAP@100"]
        assert aliases(client) == {"books": "books-1"}
        confirm = client.post(f"/v1/jobs/{job['id']}/confirm")
        assert wait_for_job(client, confirm)["state"] == "done"
        assert client.post(f"/v1/jobs/{job['id']}/confirm").json()["id"] == confirm.json()["id"]
        assert aliases(client) == {"books": "books-2"}
        live = client.get("/v1/collections/books").json()
        assert (live["documents"], live["encoder"]["name"]) == (N, "books-2")
        labels = client.get("/v1/collections/books/labels?limit=1000").json()["labels"]
        assert len(labels) == 40
        trained_on = client.get("/v1/encoders/books-2").json()["metadata"]["trained_on"]
        assert (trained_on["documents"], trained_on["labelled"]) == (N, 32)


def recipe_method(client: httpx.Client, data_dir: Path, several: bool) -> str:
    """Retrain a collection of class codes, and return the method that was used."""
    fill(client)
    if several:
        both = {"id": "d0", "labels": sorted(WORDS)}
        client.put("/v1/collections/books/labels", json={"labels": [both]}).raise_for_status()
    job = retrain_here(client, data_dir, epochs=1, min_gain=-1)
    assert job["state"] == "done", job
    assert job["result"]["trial"]["warnings"] == [
        "the encoder in use learned from the word vectors glove.txt, which retraining does not have"
    ]
    metadata = client.get("/v1/encoders/books-2").json()["metadata"]
    if not several:
        assert metadata["recipe"]["certainty_share"] == 0.25
        assert metadata["recipe"]["query_classifier"] == "chosen"
        assert metadata["recipe"]["content"] == "ict"
    found: str = metadata["recipe"]["method"]
    return found


@pytest.mark.parametrize("several", [False, True])
def test_class_codes_are_trained_again(tmp_path: Path, several: bool) -> None:
    make_data_folder(tmp_path)
    recipe: dict[str, object] = {"method": "class-codes", "certainty_share": 0.25, "seed": 5}
    recipe |= {"content": "ict", "epochs": 1, "min_steps": 5, "query_classifier": "words"}
    metadata = {"recipe": recipe, "word_vectors": {"name": "glove.txt"}}
    encoder = replace(class_encoder(), metadata=metadata)
    shutil.rmtree(tmp_path / "encoders" / "words")
    write_artifact(tmp_path / "encoders" / "words", encoder, random_texts(40))
    with running_service(tmp_path, Settings(training="elsewhere")) as client:
        assert recipe_method(client, tmp_path, several) == "class-codes"


whole_parser = cache(cli.whole_parser)


@pytest.mark.parametrize("method", ["ssb-vae", "class-codes", "metric"])
def test_every_setting_of_a_recipe_is_kept(method: str, tmp_path: Path) -> None:
    """A setting goes from the flags of train to the manifest, and from there to the retraining."""
    replaced = {"similarity": "labels"} if method == "metric" else {}
    recipe = with_other_settings(RECIPES[method](method=method), **replaced)
    make_data_folder(tmp_path)
    shutil.rmtree(tmp_path / "encoders" / "words")
    records = [
        {"text": document.text, "label": document.labels[0]} for document in topic_documents(80)
    ]
    source = tmp_path / "topics.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in records))
    paths = ["--data", str(source), "--out", str(tmp_path / "encoders" / "words")]
    assert main(["train", method, *paths, *train_arguments(type(recipe), asdict(recipe))]) == 0
    assert load_encoder(tmp_path / "encoders" / "words").metadata["recipe"] == asdict(recipe)
    with running_service(tmp_path, Settings(training="elsewhere")) as client:
        fill(client)
        job = client.post("/v1/collections/books/retrain", json={"seed": 9}).json()["id"]
        request = tmp_path / "jobs" / job / TRAINING_FILE
        wait_until(request.exists)
        again = whole_parser().parse_args(["train", *json.loads(request.read_bytes()), *paths])
        client.post(f"/v1/jobs/{job}/cancel").raise_for_status()
    of_the_request = {"seed": 9, "label_fraction": 1.0, "validation_share": 0.0}
    assert asdict(recipe_from(again, type(recipe))) == {**asdict(recipe), **of_the_request}


def test_it_goes_on_by_itself_and_can_be_taken_back(elsewhere: httpx.Client) -> None:
    job = retrain(elsewhere, auto=True, min_gain=-1)
    assert (job["state"], job["result"]["state"]) == ("done", "live")
    assert (job["progress"]["done"], job["progress"]["total"]) == (N, N)
    assert aliases(elsewhere) == {"books": "books-2"}
    back = elsewhere.post(f"/v1/jobs/{job['id']}/take-back")
    assert back.json() == {"alias": "books", "collection": "books-1"}
    assert aliases(elsewhere) == {"books": "books-1"}
    check_problem(elsewhere.post(f"/v1/jobs/{job['id']}/take-back"), 409, "cannot_take_back")


def test_what_waits_to_be_confirmed_is_not_forgotten_for_room(tmp_path: Path) -> None:
    make_data_folder(tmp_path)
    settings = Settings(training="elsewhere", job_bytes_per_key=2000)
    with running_service(tmp_path, settings) as client, external_trainer(tmp_path, other_encoder()):
        fill(client)
        job = retrain(client, min_gain=-1)
        assert job["result"]["state"] == "waiting for confirmation"
        line = b'{"id": "more", "text": "butter"}'
        headers = {"Content-Type": "application/x-ndjson", "Prefer": "respond-async"}
        bulk = client.post(
            "/v1/collections/books/documents:bulk", content=line.ljust(2000), headers=headers
        )
        assert wait_for_job(client, bulk)["state"] == "done"
        confirm = client.post(f"/v1/jobs/{job['id']}/confirm")
        assert wait_for_job(client, confirm)["state"] == "done"


def test_a_training_that_nobody_does_yet_holds_up_no_other_job(tmp_path: Path) -> None:
    make_data_folder(tmp_path)
    with running_service(tmp_path, Settings(training="elsewhere")) as client:
        fill(client)
        waiting = client.post("/v1/collections/books/retrain", json={}).json()["id"]
        copy = client.post("/v1/collections/books/snapshots", headers={"Prefer": "respond-async"})
        assert wait_for_job(client, copy)["state"] == "done"
        assert client.get(f"/v1/jobs/{waiting}").json()["finished"] is None
        assert client.post(f"/v1/jobs/{waiting}/cancel").status_code == 202


def test_an_encoder_is_taken_once_its_trainer_is_done_with_the_folder(tmp_path: Path) -> None:
    make_data_folder(tmp_path)
    with running_service(tmp_path, Settings(training="elsewhere")) as client:
        fill(client)
        waiting = client.post("/v1/collections/books/retrain", json={"min_gain": -1})
        folder = tmp_path / "jobs" / waiting.json()["id"]
        with turn_of_trainer(folder):
            write_artifact(folder / ENCODER_FOLDER, other_encoder(), random_texts(40))
            for _ in range(3):
                time.sleep(SECONDS_BETWEEN_CHECKS)
                assert (
                    client.get(waiting.headers["Location"]).json()["progress"]["step"] == "training"
                )
        assert wait_for_job(client, waiting)["result"]["state"] == "waiting for confirmation"
        wait_until(lambda: not [*folder.iterdir()])


def test_a_trainer_leaves_nothing_of_a_job_that_was_cancelled_meanwhile(tmp_path: Path) -> None:
    make_data_folder(tmp_path)
    with running_service(tmp_path, Settings(training="elsewhere")) as client:
        fill(client)
        waiting = client.post("/v1/collections/books/retrain", json={"epochs": 1})
        folder = tmp_path / "jobs" / waiting.json()["id"]
        with turn_of_trainer(folder) as lock:
            request = (folder / TRAINING_FILE).read_bytes()
            client.post(f"/v1/jobs/{waiting.json()['id']}/cancel").raise_for_status()
            wait_until(lambda: not [*folder.iterdir()])
            # The trainer read it before it was deleted, and has written an encoder by the end.
            (folder / TRAINING_FILE).write_bytes(request)
            write_artifact(folder / ENCODER_FOLDER, other_encoder(), random_texts(40))
            trainer = threading.Thread(target=run_training, args=(folder, lock))
            trainer.start()
            wait_until((folder / LOG_FILE).exists)
            (folder / TRAINING_FILE).unlink()
            trainer.join()
        assert not (folder / ENCODER_FOLDER).exists()
        assert not (folder / FAILED_FILE).exists()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def turn_of_trainer(folder: Path) -> Iterator[int]:
    """Wait for what a job asks a trainer elsewhere for, and hold its lock."""
    wait_until(lambda: needs_training(folder))
    while True:
        with hold_lock(folder) as lock:
            if lock is not None and needs_training(folder):
                yield lock
                return
        time.sleep(0.01)


def test_keys_that_nobody_asks_for_bring_no_quota_of_their_own(tmp_path: Path) -> None:
    make_data_folder(tmp_path)
    with running_service(tmp_path, Settings(training="elsewhere", jobs_per_key=1)) as client:
        fill(client)
        waiting = client.post("/v1/collections/books/retrain", json={})
        assert waiting.status_code == 202
        for header in ({}, {"X-API-Key": "made up"}):
            again = client.post("/v1/collections/books/retrain", json={}, headers=header)
            check_problem(again, 429, "too_many_jobs")
        assert client.post(f"/v1/jobs/{waiting.json()['id']}/cancel").status_code == 202


def test_a_confirmation_that_failed_can_be_repeated(elsewhere: httpx.Client) -> None:
    job = retrain(elsewhere, min_gain=-1)
    path = f"/v1/jobs/{job['id']}/confirm"
    for _ in range(2):
        elsewhere.put("/v1/collections/books-2", json={"n_bits": 8}).raise_for_status()
        failed = wait_for_job(elsewhere, elsewhere.post(path))
        assert (failed["state"], failed["error"]["code"]) == ("failed", "collection_exists")
        elsewhere.delete("/v1/collections/books-2").raise_for_status()
    confirmed = wait_for_job(elsewhere, elsewhere.post(path))
    assert confirmed["state"] == "done"
    assert elsewhere.post(path).json()["id"] == confirmed["id"]
    assert aliases(elsewhere) == {"books": "books-2"}
    elsewhere.post(f"/v1/jobs/{job['id']}/take-back").raise_for_status()
    assert aliases(elsewhere) == {"books": "books-1"}


def test_no_client_takes_the_key_of_a_confirmation(elsewhere: httpx.Client) -> None:
    job = retrain(elsewhere, min_gain=-1)
    headers = {
        "Prefer": "respond-async",
        "Idempotency-Key": f"confirmation of {job['id']}",
        "Content-Type": "application/x-ndjson",
    }
    line = b'{"id": "late", "text": "butter"}\n'
    taken = elsewhere.post("/v1/collections/books/documents:bulk", content=line, headers=headers)
    assert wait_for_job(elsewhere, taken)["state"] == "done"
    confirm = elsewhere.post(f"/v1/jobs/{job['id']}/confirm")
    assert wait_for_job(elsewhere, confirm)["state"] == "done"
    assert aliases(elsewhere) == {"books": "books-2"}


def test_what_was_written_since_is_not_taken_back(elsewhere: httpx.Client) -> None:
    job = retrain(elsewhere, min_gain=-1)
    confirmed = wait_for_job(elsewhere, elsewhere.post(f"/v1/jobs/{job['id']}/confirm"))
    label = {"labels": [{"id": "d99", "label": "food"}]}
    elsewhere.put("/v1/collections/books/labels", json=label).raise_for_status()
    for id_ in (job["id"], confirmed["id"]):
        check_problem(elsewhere.post(f"/v1/jobs/{id_}/take-back"), 409, "cannot_take_back")
    assert aliases(elsewhere) == {"books": "books-2"}


@pytest.mark.parametrize("auto", [True, False])
def test_an_alias_is_not_taken_back_to_another_collection_of_the_same_name(
    elsewhere: httpx.Client, auto: bool
) -> None:
    job = retrain(elsewhere, min_gain=-1, auto=auto)
    if not auto:
        wait_for_job(elsewhere, elsewhere.post(f"/v1/jobs/{job['id']}/confirm"))
    elsewhere.delete("/v1/collections/books-1").raise_for_status()
    elsewhere.put("/v1/collections/books-1", json={"encoder": "words"}).raise_for_status()
    refused = elsewhere.post(f"/v1/jobs/{job['id']}/take-back")
    detail = check_problem(refused, 409, "cannot_take_back")["detail"]
    assert "'books-1' was deleted since alias 'books' moved away from it" in detail
    assert aliases(elsewhere) == {"books": "books-2"}


def test_the_gate_refuses_what_gains_too_little(elsewhere: httpx.Client) -> None:
    job = retrain(elsewhere, auto=True, min_gain=1)
    assert (job["state"], job["result"]["state"]) == ("done", "refused")
    assert job["result"]["encoder"] is None
    assert job["progress"] == {"step": None, "done": N, "total": N, "percent": 100}
    assert aliases(elsewhere) == {"books": "books-1"}
    assert "books-2" not in [
        encoder["name"] for encoder in elsewhere.get("/v1/encoders").json()["encoders"]
    ]
    refusal = elsewhere.post(f"/v1/jobs/{job['id']}/confirm")
    assert " is refused;" in check_problem(refusal, 409, "nothing_to_confirm")["detail"]


def test_too_few_labels_and_names_that_are_taken(elsewhere: httpx.Client) -> None:
    elsewhere.put("/v1/collections/bare", json={"encoder": "words"}).raise_for_status()
    job = retrain(elsewhere, "bare")
    assert job["state"] == "failed"
    assert "at least 10 documents and two labels" in job["error"]["detail"]
    assert "label_field" not in job["error"]["detail"]
    documents = [{"id": "a", "text": "a cat", "payload": {"label": "pets"}}]
    elsewhere.put(
        "/v1/collections/bare/documents", json={"documents": documents}
    ).raise_for_status()
    detail = retrain(elsewhere, "bare")["error"]["detail"]
    assert detail.endswith("; those of the payload field 'label' count if label_field names it")
    path = "/v1/collections/books/retrain"
    check_problem(elsewhere.post(path, json={"into": "bare"}), 409, "collection_exists")
    check_problem(elsewhere.post(path, json={"encoder": "words"}), 422, "invalid_request")
    check_problem(elsewhere.post(path, json={"alias": "bare"}), 422, "invalid_request")
    check_problem(elsewhere.post(path, json={"n_bits": 7}), 422, "invalid_request")


def test_labels_of_a_payload_field_count_where_it_is_named(elsewhere: httpx.Client) -> None:
    job = retrain(elsewhere, label_field="class", min_gain=-1)
    assert (job["result"]["trial"]["queries"], job["result"]["trial"]["documents"]) == (24, 96)


def test_training_that_fails_says_why(tmp_path: Path) -> None:
    make_data_folder(tmp_path)
    with running_service(tmp_path) as client:
        client.put("/v1/collections/odd", json={"encoder": "words"}).raise_for_status()
        given = [{"id": f"d{at}", "text": f"word{at}", "label": "ab"[at % 2]} for at in range(20)]
        client.put("/v1/collections/odd/documents", json={"documents": given}).raise_for_status()
        job = retrain(client, "odd", label_field="label")
        assert job["error"]["code"] == "training_failed"
        assert "no term occurs in two" in job["error"]["detail"]
        assert str(tmp_path) not in job["error"]["detail"]
        wait_until(
            lambda: {LOG_FILE} == {file.name for file in (tmp_path / "jobs" / job["id"]).iterdir()}
        )


def test_an_encoder_of_a_language_model_is_not_replaced_by_another_method(tmp_path: Path) -> None:
    encoder = write_model_encoder(tmp_path / "made")
    make_data_folder(tmp_path / "data")
    shutil.copytree(encoder, tmp_path / "data/encoders/minilm")
    with running_service(tmp_path / "data") as client:
        client.put("/v1/collections/c", json={"encoder": "minilm"}).raise_for_status()
        refusal = client.post("/v1/collections/c/retrain", json={})
        detail = check_problem(refusal, 422, "invalid_request")["detail"]
        assert "'minilm' is a language model's (method model)" in detail


def write_model_encoder(folder: Path, *head: str) -> Path:
    """Train codes of a model with random weights; return the encoder's folder."""
    write_model(folder / "model")
    source = folder / "texts.jsonl"
    lines = [json.dumps({"text": text}) for text in random_texts(40)]
    if head:
        lines = [
            json.dumps(document | {"label": document["payload"]["class"]})
            for document in documents()[:60]
        ]
    source.write_text("\n".join(lines))
    options = ["--data", str(source), "--out", str(folder / "e"), "--model", str(folder / "model")]
    assert main(["train", "model", "--bits", "8", *(head or ("--head", "itq")), *options]) == 0
    return folder / "e"


def test_class_codes_of_a_language_model_are_retrained_with_their_model(tmp_path: Path) -> None:
    head = ["--head", "class-codes", "--word-share", "0.5", "--precision", "float32"]
    encoder = write_model_encoder(tmp_path / "made", *head, "--supervision", "0.2")
    shutil.rmtree(tmp_path / "made/model")
    make_data_folder(tmp_path)
    shutil.copytree(encoder, tmp_path / "encoders/minilm")
    with running_service(tmp_path) as client:
        client.put("/v1/collections/books-1", json={"encoder": "minilm"}).raise_for_status()
        given = documents()
        client.put("/v1/collections/books-1/documents", json={"documents": given})
        labels = [
            {"id": document["id"], "label": document["payload"]["class"]} for document in given[:40]
        ]
        client.put("/v1/collections/books-1/labels", json={"labels": labels}).raise_for_status()
        job = retrain(client, "books-1", encoder="again", into="books-2", min_gain=-1)
        assert job["state"] == "done", job
        again, before = (load_encoder(tmp_path / "encoders" / name) for name in ("again", "minilm"))
        assert again.words is not None
        assert again.features.model == before.features.model  # type: ignore[union-attr]
        assert again.metadata["model"]["name"] == "model"
        recipe, kept = again.metadata["recipe"], before.metadata["recipe"]
        assert {**kept, "label_fraction": 1.0, "validation_share": 0.0, "seed": 0} == recipe
