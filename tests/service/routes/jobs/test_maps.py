from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest

from tests.support.encoders import random_texts
from tests.support.service import check_problem, finished, forget_when_read


def documents(n: int) -> list[dict[str, Any]]:
    texts = random_texts(n)
    return [
        {"id": str(at), "text": text, "label": text.split()[0]} for at, text in enumerate(texts)
    ]


@pytest.fixture(scope="module")
def path(make_collection: Callable[..., str]) -> str:
    return make_collection(documents(150), encoder="words")


def columns(raw: bytes, n: int, code_size: int) -> list[np.ndarray]:
    kinds = ["<f4", "<f4", "<f4", "<u4", "<u2", "u1"]
    found, start = [], 0
    for kind in kinds:
        found.append(np.frombuffer(raw, kind, n, start))
        start += found[-1].nbytes
    codes = np.frombuffer(raw, "u1", offset=start).reshape(n, code_size)
    return [*found, codes]


def test_a_map_has_a_point_for_each_code(client: httpx.Client, path: str) -> None:
    job = finished(client, client.post(f"{path}/map", json={"method": "pca"}))
    assert job["state"] == "done", job
    answer = client.get(job["result"]["map"]).json()
    drawn = answer["map"]
    stats = client.get(f"{path}/stats").json()
    assert answer["status"] == "done"
    assert drawn["points"] == drawn["distinct_codes"] == stats["distinct_codes"]
    assert (drawn["generation"], drawn["documents"]) == (stats["generation"], 150)
    raw = client.get(f"{job['result']['map']}/points").content
    x, y, age, held, label, purity, codes = columns(raw, drawn["points"], 4)
    assert np.abs(np.stack([x, y])).max() == pytest.approx(1)
    assert ((age >= 0) & (age <= 1)).all()
    assert held.sum() == 150
    stored = client.post(f"{path}/documents:scroll", json={"limit": 1000}).json()["documents"]
    by_code: dict[str, list[str]] = {}
    for one in stored:
        by_code.setdefault(one["code"], []).append(one["payload"]["label"])
    for place, code in enumerate(codes):
        labels = by_code[code.tobytes().hex()]
        assert held[place] == len(labels)
        name = drawn["labels"][label[place]]
        assert purity[place] == round(254 * labels.count(name) / len(labels))
    listed = client.get("/v1/jobs", params={"kind": "map", "collection": path.rpartition("/")[2]})
    assert [one["id"] for one in listed.json()["jobs"]] == [job["id"]]


def test_a_map_of_nothing_fails_with_a_reason(
    client: httpx.Client, make_collection: Callable[..., str]
) -> None:
    job = finished(client, client.post(f"{make_collection(n_bits=16)}/map", json={}))
    assert job["state"] == "failed"
    assert "no documents" in job["error"]["detail"]
    answer = client.get(f"/v1/maps/{job['id']}").json()
    assert (answer["status"], answer["map"]) == ("failed", None)
    check_problem(client.get(f"/v1/maps/{job['id']}/points"), 409, "not_finished")


def test_a_map_cannot_be_asked_for_as_something_else(client: httpx.Client, path: str) -> None:
    check_problem(client.post(f"{path}/map", json={"method": "umap"}), 422, "invalid_request")
    check_problem(client.get("/v1/maps/never"), 404, "unknown_job")
    job = finished(client, client.post(f"{path}/duplicates", json={"radius": 0}))
    check_problem(client.get(f"/v1/maps/{job['id']}"), 404, "unknown_job")


@pytest.mark.parametrize(
    ("kind", "body", "result", "place"),
    [
        ("map", {"method": "pca"}, "map", ""),
        ("map", {"method": "pca"}, "map", "/points"),
        ("duplicates", {"radius": 0}, "duplicates", ""),
    ],
)
def test_a_job_forgotten_the_moment_it_is_read_is_gone(
    client: httpx.Client,
    path: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    kind: str,
    body: dict[str, Any],
    result: str,
    place: str,
) -> None:
    job = finished(client, client.post(f"{path}/{kind}", json=body))
    forget_when_read(monkeypatch)
    check_problem(client.get(job["result"][result] + place), 404, "unknown_job")


def test_near_duplicates_are_listed_a_page_at_a_time(
    client: httpx.Client, make_collection: Callable[..., str]
) -> None:
    codes = ["00", "00", "ff", "01", "fe", "0f"]
    given = [{"id": f"d{at}", "code": code * 2} for at, code in enumerate(codes)]
    path = make_collection(given, n_bits=16)
    job = finished(client, client.post(f"{path}/duplicates", json={"radius": 2}))
    assert job["result"]["clusters"] == 2
    assert job["result"]["documents_with_an_older_duplicate"] == 3
    address = job["result"]["duplicates"]
    whole = client.get(address).json()
    assert whole["page"] == [
        {"size": 3, "ids": ["d0", "d1", "d3"]},
        {"size": 2, "ids": ["d2", "d4"]},
    ]
    page = client.get(address, params={"offset": 1, "limit": 1}).json()
    assert page["page"] == whole["page"][1:]
    assert (page["status"], page["clusters"]) == ("done", 2)
    problem = check_problem(
        client.post(f"{path}/duplicates", json={"radius": 17}), 422, "invalid_request"
    )
    assert problem["errors"][0]["pointer"] == "/radius"


def test_codes_are_described_and_follow_writes(
    client: httpx.Client, make_collection: Callable[..., str]
) -> None:
    path = make_collection(documents(60), encoder="words")
    first = client.get(f"{path}/codes").json()
    stats = client.get(f"{path}/stats").json()
    assert first["distinct_codes"] == stats["distinct_codes"]
    assert first["entropy"] == pytest.approx(stats["entropy"])
    assert len(first["ones"]) == first["n_bits"] == 32
    assert np.mean(first["ones"]) == pytest.approx(stats["bit_balance"]["mean"])
    assert first["purity"]["labelled"] == 60
    assert client.get(f"{path}/codes").json() == first
    assert client.get(f"{path}/codes", params={"label_field": "nope"}).json()["purity"] is None
    client.put(f"{path}/documents", json={"documents": [{"id": "new", "text": "bread"}]})
    after = client.get(f"{path}/codes").json()
    assert (after["documents"], after["generation"]) == (61, first["generation"] + 1)
