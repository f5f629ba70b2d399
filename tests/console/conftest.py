from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.support.console.browser import chromium
from tests.support.console.chromium import CHROMIUM
from tests.support.encoders import WORDS, random_texts
from tests.support.service import make_data_folder, running_service, wait_for_job

SCRIPT = '<img src=x onerror="ran=1"><script>ran=1</script>\'"><svg onload=ran=1>&lt;b&gt;{{7*7}}'
LABELS = ("bread", "algebra", SCRIPT)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium, which is not installed")
    expect.set_options(timeout=30_000)  # a busy machine is slow, not wrong
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service with a plain collection, one whose every text is a script, and an empty one."""
    folder: Path = make_data_folder(tmp_path_factory.mktemp("console"))
    with running_service(folder) as client:
        fill(client, "plain", [f"document-{position}" for position in range(120)])
        fill(client, "hostile", [f"{SCRIPT} {position}" for position in range(60)])
        fill(client, "fresh", [f"fresh {position}" for position in range(40)])
        for name in ("plain", "hostile"):
            wait_for_job(client, client.post(f"/v1/collections/{name}/map", json={"method": "pca"}))
            body = {"radius": 8}
            wait_for_job(client, client.post(f"/v1/collections/{name}/duplicates", json=body))
        client.put("/v1/collections/empty", json={"encoder": "words"}).raise_for_status()
        client.put("/v1/collections/unencoded", json={"n_bits": 16}).raise_for_status()
        coded = {"documents": [{"id": "coded", "code": "0f0f"}]}
        client.put("/v1/collections/unencoded/documents", json=coded).raise_for_status()
        client.put("/v1/collections/by-words", json={"encoder": None}).raise_for_status()
        notes = [{"id": f"note {at}", "text": text} for at, text in enumerate(random_texts(8))]
        path = "/v1/collections/by-words/documents"
        client.put(path, json={"documents": notes}).raise_for_status()
        yield client


@pytest.fixture(scope="session")
def runs(client: httpx.Client) -> dict[str, list[str]]:
    """The ids of two evaluations of each collection, which differ in their queries."""
    return {
        name: [evaluate(client, name, skipped) for skipped in (0, 5)]
        for name in ("plain", "hostile")
    }


def evaluate(client: httpx.Client, name: str, skipped: int) -> str:
    path = f"/v1/collections/{name}"
    page = client.post(f"{path}/documents:scroll", json={"limit": 40}).json()["documents"]
    queries = [
        {"id": document["id"], "text": document["text"], "label": document["payload"]["label"]}
        for document in page[skipped:]
    ]
    body = {"queries": queries, "metrics": ["P@10", "nDCG@10"], "exclude_self": True}
    return run_evaluation(client, name, body)


def run_evaluation(client: httpx.Client, name: str, body: dict[str, object]) -> str:
    """Evaluate a collection by a job, and return its id once it is finished."""
    path, prefer = f"/v1/collections/{name}/evaluate", {"prefer": "respond-async"}
    id_: str = client.post(path, json=body, headers=prefer).json()["id"]
    while client.get(f"/v1/jobs/{id_}").json()["finished"] is None:
        time.sleep(0.05)
    return id_


@pytest.fixture(scope="session")
def address(client: httpx.Client) -> str:
    return str(client.base_url).rstrip("/")


def fill(client: httpx.Client, name: str, ids: list[str]) -> None:
    client.put(f"/v1/collections/{name}", json={"encoder": "words"}).raise_for_status()
    texts = random_texts(len(ids) // 2)
    documents = [
        {
            "id": id_,
            "text": f"{texts[position % len(texts)]} {id_}",
            "label": LABELS[
                (WORDS.index(texts[position % len(texts)].split()[0]) >= 10) + (position % 7 == 0)
            ],
            "payload": {"year": 1990 + position % 30, SCRIPT: SCRIPT, "author": {"name": SCRIPT}},
        }
        for position, id_ in enumerate(ids)
    ]
    path = f"/v1/collections/{name}/documents"
    client.put(path, json={"documents": documents}).raise_for_status()
