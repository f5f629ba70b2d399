from __future__ import annotations

import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest

from hummingbit.index.code_layout import send_layout
from hummingbit.service.jobs import map as map_job
from tests.support.encoders import random_texts
from tests.support.service import check_problem, forget_job_when_read, wait_for_job


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


@pytest.mark.parametrize("sent", [False, True])
def test_the_process_of_a_map_ends_quietly_once_the_service_is_gone(
    sent: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    context = multiprocessing.get_context("spawn")
    parent, child = context.Pipe()
    process = context.Process(target=send_layout, args=(child,))
    process.start()
    if sent:
        parent.send((np.arange(8, dtype=np.uint8)[:, np.newaxis], "pca", 0, 1))
    # A kill closes both, whether or not the process has begun.
    child.close()
    parent.close()
    process.join()
    assert process.exitcode == 0
    assert capfd.readouterr().err == ""


DRAW = """
import numpy as np
from hummingbit.service.jobs.map import _lay_out_in_process
print("begins", flush=True)
_lay_out_in_process(np.zeros((200_000, 8), dtype=np.uint8), "pca", 0, None)
"""


def test_the_process_of_a_map_ends_quietly_if_the_service_is_killed_while_it_starts() -> None:
    arguments = [sys.executable, "-c", DRAW]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as service:
        assert service.stdout is not None
        assert service.stderr is not None
        assert service.stdout.readline() == b"begins\n"
        # It sends 1.6 MB of codes, which no pipe holds, to a process that still imports modules.
        time.sleep(0.1)
        service.kill()
        assert service.stderr.read() == b""  # until the other process has ended, too


@pytest.mark.parametrize("field", ["label_field", "time_field"])
def test_a_job_keeps_no_long_field(client: httpx.Client, path: str, field: str) -> None:
    """The records of jobs do not count towards the quota of a key."""
    problem = check_problem(
        client.post(f"{path}/map", json={field: "x" * 257}), 422, "invalid_request"
    )
    assert problem["errors"][0]["pointer"] == f"/{field}"
    assert "at most 256 characters" in problem["detail"]


def test_a_map_has_a_point_for_each_code(
    client: httpx.Client, make_collection: Callable[..., str]
) -> None:
    path = make_collection(documents(150), encoder="words")
    job = wait_for_job(client, client.post(f"{path}/map", json={"method": "pca"}))
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
    for document in stored:
        by_code.setdefault(document["code"], []).append(document["payload"]["label"])
    for position, code in enumerate(codes):
        labels = by_code[code.tobytes().hex()]
        assert held[position] == len(labels)
        name = drawn["labels"][label[position]]
        assert purity[position] == round(254 * labels.count(name) / len(labels))
    listed = client.get("/v1/jobs", params={"kind": "map", "collection": path.rpartition("/")[2]})
    assert [job["id"] for job in listed.json()["jobs"]] == [job["id"]]


def test_a_map_has_times_and_labels_that_people_gave(
    client: httpx.Client, make_collection: Callable[..., str]
) -> None:
    codes = ["0001", "0001", "0001", "00ff", "00ff", "ffff"]
    years = [1990, 2000, None, 2000, "absent", 1995]
    given: list[dict[str, Any]] = [
        {"id": f"d{at}", "code": code, "payload": {} if year == "absent" else {"year": year}}
        for at, (code, year) in enumerate(zip(codes, years, strict=True))
    ]
    path = make_collection(given, n_bits=16)
    said = [("d0", "ann", "x"), ("d0", "bob", "y"), ("d0", "cat", "y"), ("d1", "ann", "x")]
    said += [("d2", "ann", "y"), ("d5", "ann", "z")]
    labels = [{"id": id_, "who": who, "label": label} for id_, who, label in said]
    client.put(f"{path}/labels", json={"labels": labels}).raise_for_status()
    body = {"method": "pca", "time_field": "year"}
    job = wait_for_job(client, client.post(f"{path}/map", json=body))
    drawn = client.get(job["result"]["map"]).json()["map"]
    assert (drawn["labels"], drawn["label_documents"]) == ([], [])
    assert (drawn["given_labels"], drawn["given_label_documents"]) == (["y", "x", "z"], [2, 1, 1])
    ends = {"start": 1990, "end": 2000, "least": 1990, "most": 2000}
    assert drawn["time"] == {"field": "year", "kind": "number", "documents": 4, **ends}
    raw = client.get(f"{job['result']['map']}/points").content
    start = drawn["points"] * (4 * 4 + 3)
    codes_end = start + drawn["points"] * 2
    assert raw[start:codes_end].hex() == "000100ffffff"
    time = np.frombuffer(raw, "<f4", 3, codes_end)
    label = np.frombuffer(raw, "<u2", 3, codes_end + time.nbytes)
    purity = np.frombuffer(raw, "u1", offset=codes_end + time.nbytes + label.nbytes)
    assert time.tolist() == [0.5, 1.0, 0.5]
    assert label.tolist() == [0, 65_535, 2]
    assert purity.tolist() == [round(254 * 2 / 3), 255, 254]


def test_dates_of_a_map_are_answered_as_dates(
    client: httpx.Client, make_collection: Callable[..., str]
) -> None:
    dates = ["1999", "2001-02-03", "2001-02-03T12:00:00+01:00"]
    given = [
        {"id": f"d{at}", "code": f"000{at}", "payload": {"meta": {"date": date}}}
        for at, date in enumerate(dates)
    ]
    path = make_collection(given, n_bits=16)
    body = {"method": "pca", "time_field": "meta.date"}
    job = wait_for_job(client, client.post(f"{path}/map", json=body))
    time = client.get(job["result"]["map"]).json()["map"]["time"]
    assert time["kind"] == "date"
    assert time["start"] == time["least"] == "1999-01-01T00:00:00+00:00"
    assert time["end"] == time["most"] == "2001-02-03T11:00:00+00:00"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (["a", "b"], "'when' is 'a' in some document; it must hold numbers, or dates"),
        ([1, "1999"], "'when' holds both numbers and dates"),
        ([None, None], "'when' is in no document's payload"),
    ],
)
def test_a_time_field_without_times_is_refused_by_name(
    client: httpx.Client, make_collection: Callable[..., str], values: list[Any], reason: str
) -> None:
    given = [
        {"id": f"d{at}", "code": f"000{at}", "payload": {"when": value}}
        for at, value in enumerate(values)
    ]
    path = make_collection(given, n_bits=16)
    job = wait_for_job(client, client.post(f"{path}/map", json={"time_field": "when"}))
    assert job["state"] == "failed"
    assert reason in job["error"]["detail"]
    empty = client.post(f"{path}/map", json={"time_field": ""})
    assert check_problem(empty, 422, "invalid_request")["errors"][0]["pointer"] == "/time_field"


def test_a_map_of_an_earlier_version_is_described(
    client: httpx.Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe = map_job._description
    later = {"given_labels", "given_label_documents", "time", "learned_documents"}
    monkeypatch.setattr(
        map_job,
        "_description",
        lambda *given: {name: is_ for name, is_ in describe(*given).items() if name not in later},
    )
    job = wait_for_job(client, client.post(f"{path}/map", json={"method": "pca"}))
    drawn = client.get(job["result"]["map"]).json()["map"]
    assert (drawn["given_labels"], drawn["given_label_documents"], drawn["time"]) == ([], [], None)


def test_a_map_of_nothing_fails_with_a_reason(
    client: httpx.Client, make_collection: Callable[..., str]
) -> None:
    job = wait_for_job(client, client.post(f"{make_collection(n_bits=16)}/map", json={}))
    assert job["state"] == "failed"
    assert "no documents" in job["error"]["detail"]
    answer = client.get(f"/v1/maps/{job['id']}").json()
    assert (answer["status"], answer["map"]) == ("failed", None)
    check_problem(client.get(f"/v1/maps/{job['id']}/points"), 409, "not_finished")


def test_a_map_cannot_be_asked_for_as_something_else(client: httpx.Client, path: str) -> None:
    check_problem(client.post(f"{path}/map", json={"method": "umap"}), 422, "invalid_request")
    check_problem(client.get("/v1/maps/never"), 404, "unknown_job")
    job = wait_for_job(client, client.post(f"{path}/duplicates", json={"radius": 0}))
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
    job = wait_for_job(client, client.post(f"{path}/{kind}", json=body))
    forget_job_when_read(monkeypatch)
    check_problem(client.get(job["result"][result] + place), 404, "unknown_job")


def test_near_duplicates_are_listed_a_page_at_a_time(
    client: httpx.Client, make_collection: Callable[..., str]
) -> None:
    codes = ["00", "00", "ff", "01", "fe", "0f"]
    given = [{"id": f"d{at}", "code": code * 2} for at, code in enumerate(codes)]
    path = make_collection(given, n_bits=16)
    job = wait_for_job(client, client.post(f"{path}/duplicates", json={"radius": 2}))
    assert job["result"]["clusters"] == 2
    assert job["result"]["documents_with_an_older_duplicate"] == 3
    address = job["result"]["duplicates"]
    whole = client.get(address).json()
    assert whole["page"] == [
        {"size": 3, "ids": ["d0", "d1", "d3"], "newest": "d3"},
        {"size": 2, "ids": ["d2", "d4"], "newest": "d4"},
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
