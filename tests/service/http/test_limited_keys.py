"""Keys for some collections only, and keys that expire."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from hummingbit import Client, Collection, ServedCollection
from hummingbit.cli import main
from hummingbit.errors import ServiceError
from hummingbit.service.http.keys import KeysError, create_key
from tests.support.service import SECONDS, service_with_keys


class Served(NamedTuple):
    """A service with the collections that the tests read, and its key for everything."""

    path: Path
    url: str
    admin: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("data")
    for name in ("notes", "notes2", "other"):
        with Collection.create(path, name, n_bits=16) as collection:
            collection.add([{"id": "a", "code": "0f0f"}])
    Collection.create(path, "empty", n_bits=16).close()
    with service_with_keys(path, workers=0) as (url, admin):
        yield Served(path, url, admin)


def test_a_key_of_a_collection_reaches_nothing_else(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, url, admin = served
    with Client(url, admin) as everything:
        everything.set_alias("current", "other")
    arguments = ["keys", "create", "--name", "n", "--role", "write", "--collection", "notes"]
    more = ["--collection", "current", "--expires", "30d", "--data-dir", str(folder)]
    assert main([*arguments, *more]) == 0
    key = capsys.readouterr().out.strip()
    with Client(url, key) as client:
        assert client.search("notes", id="a")["hits"][0]["id"] == "a"
        assert client.search("current", id="a")["hits"][0]["id"] == "a"
        assert client.upsert("notes", [{"id": "b", "code": "ffff"}])["upserted"] == 1
        assert client.count("notes") == 2
        notes = ServedCollection(client, "notes")
        assert (notes.n_bits, len(notes), notes.search(id="a")[0].id) == (16, 2, "a")
        for name in ("other", "notes2", "unknown"):
            with pytest.raises(ServiceError, match="only for requests to collections") as no:
                client.search(name, id="a")
            assert (no.value.status, no.value.code) == (403, "beyond_key")
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, headers=headers) as http:
        for path in (
            *("/v1/collections", "/v1/aliases", "/v1/encoders", "/v1/models", "/v1/snapshots"),
            *("/metrics", "/readyz", "/openapi.json", "/v1/collections/notes%2F..%2Fother"),
            *("/v1/collections/other/documents/a", "/v1/evaluation", "/"),
        ):
            assert http.get(path).status_code in (403, 404 if "%2F" in path else 403), path
        refused = http.get("/v1/collections/other").json()
        assert refused["title"] == "The key is limited to other collections"
        assert http.get("/v1/access").status_code == 200
        body = {"documents": [{"id": "a", "code": "0000"}]}
        assert http.put("/v1/collections/other/documents", json=body).status_code == 403
        assert http.request("HEAD", "/v1/collections/other").status_code == 403
    assert main(["keys", "list", "--json", "--data-dir", str(folder)]) == 0
    listed = {key["name"]: key for key in json.loads(capsys.readouterr().out)["keys"]}
    assert listed["n"]["collections"] == ["notes", "current"]
    assert listed["n"]["expires"] > datetime.now(UTC).isoformat()


NAMING = {"collection", "collections", "into", "alias", "source", "target"}
"""Fields of bodies that name collections."""


def test_no_body_lets_a_key_of_a_collection_reach_another(served: Served) -> None:
    folder, url, admin = served
    key = create_key(folder / "keys.json", "naming", "write", collections=["notes"])
    with httpx.Client(base_url=url, timeout=SECONDS) as http:
        http.headers["Authorization"] = f"Bearer {admin}"
        before = [http.get(f"/v1/{kind}").json() for kind in ("collections", "aliases")]
        paths = http.get("/openapi.json").json()["paths"]
        http.headers["Authorization"] = f"Bearer {key}"
        sent = 0
        for path, methods in paths.items():
            if not path.startswith("/v1/collections/{name}"):
                continue
            for method, operation in methods.items():
                if "requestBody" not in operation:
                    continue
                sent += 1
                address = path.replace("{name}", "notes").replace("{id}", "a")
                body = dict.fromkeys(sorted(NAMING), "other")
                answer = http.request(method, address, json=body)
                # Only admin keys may send what names another collection.
                expected = {403} if operation["x-role"] == "admin" else {415, 422}
                assert answer.status_code in expected, (method, path, answer.text)
                if answer.status_code == 422:
                    pointers = {error["pointer"].strip("/") for error in answer.json()["errors"]}
                    assert pointers >= NAMING, (method, path)
        assert sent > 10
        http.headers["Authorization"] = f"Bearer {admin}"
        after = [http.get(f"/v1/{kind}").json() for kind in ("collections", "aliases")]
        assert after == before


def finished(http: httpx.Client, address: str) -> httpx.Response:
    """Return what is at the address of a job, or of its result, once it is finished."""
    for _ in range(2000):
        answer = http.get(address)
        if answer.status_code != 200:
            break
        if answer.json().get("state", answer.json().get("status")) not in {"queued", "running"}:
            break
        time.sleep(0.01)
    return answer


def test_a_key_of_a_collection_reads_the_jobs_that_it_submitted(served: Served) -> None:
    folder, url, admin = served
    key, other = (
        create_key(folder / "keys.json", name, "write", collections=["notes"])
        for name in ("submits", "submits-nothing")
    )
    asynchronous = {"Prefer": "respond-async"}
    query = {"id": "q", "code": "0f0f", "label": "x"}
    jobs: list[tuple[str, Any, list[str]]] = [
        ("map", {"method": "pca"}, ["jobs/{}", "maps/{}", "maps/{}/points"]),
        ("duplicates", {"radius": 2}, ["jobs/{}", "duplicates/{}"]),
        ("evaluate", {"queries": [query]}, ["jobs/{}", "evaluations/{}", "evaluations/{}/queries"]),
        ("verify", None, ["jobs/{}"]),
    ]
    with httpx.Client(base_url=url, timeout=SECONDS) as http:
        http.headers["Authorization"] = f"Bearer {admin}"
        labelled = {"documents": [{"id": "l", "code": "0f0f", "payload": {"label": "x"}}]}
        assert http.put("/v1/collections/notes/documents", json=labelled).status_code == 200
        foreign = http.post("/v1/collections/other/map", json={"method": "pca"}).json()["id"]
        same = http.post("/v1/collections/notes/map", json={"method": "pca"}).json()["id"]
        own = []
        for name, body, places in jobs:
            http.headers["Authorization"] = f"Bearer {key}"
            address = f"/v1/collections/notes/{name}"
            answer = http.post(address, json=body, headers=asynchronous)
            assert answer.status_code == 202, answer.text
            own.append(answer.json()["id"])
            assert finished(http, answer.headers["Location"]).status_code == 200
            for place in places:
                assert http.get(f"/v1/{place.format(own[-1])}").status_code == 200, place
            http.headers["Authorization"] = f"Bearer {other}"
            for place in places:
                assert http.get(f"/v1/{place.format(own[-1])}").status_code == 404, place
            assert http.post(f"/v1/jobs/{own[-1]}/cancel").status_code == 404
        listed = http.get("/v1/jobs").json()["jobs"]
        assert listed == []
        http.headers["Authorization"] = f"Bearer {key}"
        listed = http.get("/v1/jobs").json()["jobs"]
        assert [job["id"] for job in listed] == own[::-1]
        assert http.get("/v1/jobs?collection=other").json()["jobs"] == []
        for id_ in (foreign, same, "0" * 16):
            for place in ("jobs/{}", "maps/{}", "maps/{}/points", "duplicates/{}"):
                answer = http.get(f"/v1/{place.format(id_)}")
                assert (answer.status_code, answer.json()["code"]) == (404, "unknown_job")
            body = {"baseline": own[2]}
            for path in (f"jobs/{id_}/cancel", f"duplicates/{id_}/delete"):
                assert http.post(f"/v1/{path}", json={}).status_code == 404, path
            assert http.post(f"/v1/evaluations/{id_}/compare", json=body).status_code == 404
        deleted = http.post(f"/v1/duplicates/{own[1]}/delete", json={})
        assert deleted.status_code == 202
        job = finished(http, f"/v1/jobs/{deleted.json()['id']}").json()
        assert job["state"] == "done"


def test_a_key_of_an_alias_sees_no_other_name(served: Served) -> None:
    folder, url, admin = served
    with httpx.Client(base_url=url, timeout=SECONDS) as http:
        http.headers["Authorization"] = f"Bearer {admin}"
        assert http.put("/v1/collections/unseen", json={"n_bits": 16}).status_code == 201
        documents = [{"id": str(at), "code": "0f0f", "payload": {"label": "x"}} for at in range(3)]
        http.put("/v1/collections/unseen/documents", json={"documents": documents})
        with Client(url, admin) as client:
            client.set_alias("shown", "unseen")
        key = create_key(folder / "keys.json", "alias", "write", collections=["shown"])
        http.headers["Authorization"] = f"Bearer {key}"
        at = "/v1/collections/shown"
        requests: list[tuple[str, str, Any]] = [
            ("GET", at, None),
            ("GET", f"{at}/stats", None),
            ("GET", f"{at}/documents/none", None),
            ("DELETE", f"{at}/documents/none", None),
            ("POST", f"{at}/search", {"id": "none"}),
            ("POST", f"{at}/search", {"id": "1", "with_passage": True}),
            ("POST", f"{at}/search", {"code": "0f0f", "encoder_fingerprint": "ab"}),
            ("POST", f"{at}/search/batch", {"searches": [{"id": "none"}]}),
            ("POST", f"{at}/recommend", {"positive": ["none"]}),
            ("PUT", f"{at}/documents", {"documents": documents, "encoder_fingerprint": "ab"}),
            ("POST", f"{at}/verify", None),
            ("POST", f"{at}/map", {"method": "pca"}),
            ("POST", f"{at}/duplicates", {"radius": 1}),
            ("POST", f"{at}/evaluate", {"queries": [{"code": "0f0f", "label": "x"}]}),
        ]
        for method, path, body in requests:
            answer = http.request(method, path, json=body, headers={"Prefer": "respond-async"})
            assert answer.status_code < 500, answer.text
            assert "unseen" not in answer.text, answer.text
            if answer.status_code == 202:
                id_ = answer.json()["id"]
                finished(http, f"/v1/jobs/{id_}")
                places = (
                    "jobs",
                    "maps",
                    "duplicates",
                    "evaluations",
                    "evaluations/{}?format=markdown",
                )
                for place in places:
                    told = http.get(f"/v1/{place if '{}' in place else place + '/{}'}".format(id_))
                    assert "unseen" not in told.text, place
        assert http.get(at).json()["name"] == "shown"
        assert {job["collection"] for job in http.get("/v1/jobs").json()["jobs"]} == {"shown"}
        # A job is of the collection that the alias named, and unknown once it names another.
        with Client(url, admin) as client:
            client.set_alias("shown", "empty")
        assert http.get("/v1/jobs").json()["jobs"] == []


def test_an_expired_key_is_no_key(served: Served) -> None:
    folder, url, _ = served
    path, now = folder / "keys.json", datetime.now(UTC)
    late = create_key(path, "late", "read", expires=now - timedelta(seconds=1))
    soon = create_key(path, "soon", "read", expires=now + timedelta(hours=1))
    with Client(url, soon) as client:
        assert client.count("empty") == 0
    with Client(url, late) as client, pytest.raises(ServiceError) as refused:
        client.count("empty")
    assert refused.value.status == 401


def test_limits_of_a_key_that_make_no_sense_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeysError, match="an admin key is for everything"):
        create_key(tmp_path / "keys.json", "a", "admin", collections=["notes"])
    create = ["keys", "create", "--name", "x", "--role", "read", "--data-dir", str(tmp_path)]
    assert main([*create, "--expires", "soon"]) != 0
    assert "it must be days or hours" in capsys.readouterr().err
    assert main([*create, "--expires", "2001-01-01"]) != 0
    assert "is over" in capsys.readouterr().err
