from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser

from tests.support.browser import chromium
from tests.support.chromium import CHROMIUM
from tests.support.encoders import WORDS, random_texts
from tests.support.service import finished, make_data_folder, served

SCRIPT = '<img src=x onerror="ran=1"><script>ran=1</script>\'"><svg onload=ran=1>&lt;b&gt;{{7*7}}'
LABELS = ("bread", "algebra", SCRIPT)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium, which is not installed")
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service with a plain collection, one whose every text is a script, and an empty one."""
    folder: Path = make_data_folder(tmp_path_factory.mktemp("console"))
    with served(folder) as client:
        fill(client, "plain", [f"document {place}" for place in range(120)])
        fill(client, "hostile", [f"{SCRIPT} {place}" for place in range(60)])
        fill(client, "fresh", [f"fresh {place}" for place in range(40)])
        for name in ("plain", "hostile"):
            finished(client, client.post(f"/v1/collections/{name}/map", json={"method": "pca"}))
        client.put("/v1/collections/empty", json={"n_bits": 16}).raise_for_status()
        yield client


@pytest.fixture(scope="session")
def address(client: httpx.Client) -> str:
    return str(client.base_url).rstrip("/")


def fill(client: httpx.Client, name: str, ids: list[str]) -> None:
    client.put(f"/v1/collections/{name}", json={"encoder": "words"}).raise_for_status()
    texts = random_texts(len(ids) // 2)
    documents = [
        {
            "id": id_,
            "text": f"{texts[place % len(texts)]} {id_}",
            "label": LABELS[
                (WORDS.index(texts[place % len(texts)].split()[0]) >= 10) + (place % 7 == 0)
            ],
            "payload": {"year": 1990 + place % 30, SCRIPT: SCRIPT, "author": {"name": SCRIPT}},
        }
        for place, id_ in enumerate(ids)
    ]
    path = f"/v1/collections/{name}/documents"
    client.put(path, json={"documents": documents}).raise_for_status()
