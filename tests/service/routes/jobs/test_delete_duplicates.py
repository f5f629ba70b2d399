from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from hummingbit.service.jobs import kinds
from tests.support.service import (
    check_problem,
    make_data_folder,
    running_service,
    wait_for_job,
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with running_service(make_data_folder(tmp_path_factory.mktemp("data"))) as one:
        yield one


def fill(client: httpx.Client, name: str, codes: list[str]) -> str:
    path = f"/v1/collections/{name}"
    client.put(path, json={"n_bits": 16}).raise_for_status()
    documents = [{"id": f"d{at}", "code": code} for at, code in enumerate(codes)]
    client.put(f"{path}/documents", json={"documents": documents}).raise_for_status()
    return path


def find(client: httpx.Client, path: str) -> str:
    job = wait_for_job(client, client.post(f"{path}/duplicates", json={"radius": 1}))
    return f"/v1/duplicates/{job['id']}"


def ids_of(client: httpx.Client, path: str) -> set[str]:
    page = client.post(f"{path}/documents:scroll", json={"limit": 1000}).json()["documents"]
    return {document["id"] for document in page}


CODES = ["0000", "0001", "ffff", "0000", "fffe", "0f0f"]


@pytest.mark.parametrize(
    ("keep", "left"), [("oldest", {"d0", "d2", "d5"}), ("newest", {"d3", "d4", "d5"})]
)
@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_one_document_of_each_cluster_is_kept(
    client: httpx.Client, keep: str, left: set[str], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "DELETED_AT_ONCE", at_once)
    monkeypatch.setattr(kinds, "MAX_LISTED", 2)
    path = fill(client, f"kept-{keep}-{at_once}", CODES)
    duplicates = find(client, path)
    listed = client.get(duplicates).json()["page"]
    assert [(item["size"], item["ids"], item["newest"]) for item in listed] == [
        (3, ["d0", "d1"], "d3"),
        (2, ["d2", "d4"], "d4"),
    ]
    job = wait_for_job(client, client.post(f"{duplicates}/delete", json={"keep": keep}))
    assert job["result"] == {"deleted": 3, "changed": 0, "kept": keep, "documents": 3}
    assert ids_of(client, path) == left
    again = wait_for_job(client, client.post(f"{duplicates}/delete", json={"keep": keep}))
    assert again["result"]["deleted"] == 0
    assert ids_of(client, path) == left


@pytest.mark.parametrize("at_once", [1, 1000])
def test_what_was_written_since_is_left_and_no_cluster_is_lost(
    client: httpx.Client, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "DELETED_AT_ONCE", at_once)
    path = fill(client, f"since-{at_once}", ["0000"] * 4 + ["ffff"] * 3)
    duplicates = find(client, path)
    client.post(f"{path}/documents:delete", json={"ids": ["d0"]}).raise_for_status()
    changed = {"documents": [{"id": "d1", "code": "0ff0"}, {"id": "d4", "code": "ffff"}]}
    client.put(f"{path}/documents", json=changed).raise_for_status()
    job = wait_for_job(client, client.post(f"{duplicates}/delete", json={}))
    assert job["result"] == {"deleted": 2, "changed": 2, "kept": "oldest", "documents": 4}
    assert ids_of(client, path) == {"d1", "d2", "d4", "d5"}


def test_a_deletion_needs_a_finished_search_and_says_what_to_keep(client: httpx.Client) -> None:
    path = fill(client, "refused", CODES)
    duplicates = find(client, path)
    refused = client.post(f"{duplicates}/delete", json={"keep": "best"})
    problem = check_problem(refused, 422, "invalid_request")
    assert problem["errors"][0]["pointer"] == "/keep"
    check_problem(client.post("/v1/duplicates/nothing/delete", json={}), 404, "unknown_job")
    assert len(ids_of(client, path)) == len(CODES)


def test_a_cancelled_deletion_leaves_what_it_did_not_reach(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "DELETED_AT_ONCE", 1)
    path = fill(client, "cancelled", ["0000"] * 900)
    duplicates = find(client, path)
    job = client.post(f"{duplicates}/delete", json={}).json()
    client.post(f"/v1/jobs/{job['id']}/cancel").raise_for_status()
    while (job := client.get(f"/v1/jobs/{job['id']}").json())["finished"] is None:
        pass
    assert job["state"] == "cancelled"
    left = ids_of(client, path)
    assert "d0" in left
    assert len(left) > 1
