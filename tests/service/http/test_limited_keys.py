"""Keys for some collections only, and keys that expire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from hummingbit import Client, Collection, ServedCollection
from hummingbit.cli import main
from hummingbit.errors import ServiceError
from hummingbit.service.http.keys import KeysError, create_key
from tests.support.service import service_with_keys


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
    # One worker: another would follow what a test has written only after a moment.
    with service_with_keys(path, workers=1) as (url, admin):
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
            *("/v1/collections", "/v1/aliases", "/v1/encoders", "/v1/jobs", "/v1/models"),
            *("/metrics", "/readyz", "/openapi.json", "/v1/collections/notes%2F..%2Fother"),
            *("/v1/collections/other/documents/a", "/v1/evaluations/x", "/"),
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
    with httpx.Client(base_url=url) as http:
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
