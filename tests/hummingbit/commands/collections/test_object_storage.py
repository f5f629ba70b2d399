"""Snapshots at ``s3://``, with moto's server, which speaks the protocol of S3 over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from hummingbit import Collection
from hummingbit.cli import main
from tests.support.service import running_service


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Storage with the bucket ``backups``, which the environment names."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tests")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "tests")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    boto3.client("s3").create_bucket(Bucket="backups")
    yield
    server.stop()


def test_a_backup_in_a_bucket_becomes_a_collection_elsewhere(
    storage: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    with Collection.create(data, "notes", n_bits=16) as notes:
        notes.add([{"id": str(at), "code": f"{at:04x}", "text": f"note {at}"} for at in range(50)])
    address = "s3://backups/2026/notes.tar"
    assert main(["snapshot", "create", "notes", "--data-dir", str(data), "--out", address]) == 0
    other.mkdir()
    assert main(["snapshot", "restore", address, "copy", "--data-dir", str(other)]) == 0
    with running_service(other) as client:
        url = ["--url", str(client.base_url)]
        assert main(["snapshot", "upload", address, *url]) == 0
        assert main(["snapshot", "restore", address, "second", *url]) == 0
        for name in ("copy", "second"):
            found = client.get(f"/v1/collections/{name}/documents/7").raise_for_status().json()
            assert (found["code"], found["text"]) == ("0007", "note 7")
    capsys.readouterr()


def test_snapshots_under_a_prefix_have_names_and_are_listed(
    storage: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ["--data-dir", str(tmp_path)]
    for name in ("notes", "letters"):
        with Collection.create(tmp_path, name, n_bits=16) as collection:
            collection.add([{"id": "a", "code": "00ff"}])
        assert main(["snapshot", "create", name, *data, "--out", "s3://backups/daily/"]) == 0
    boto3.client("s3").put_object(Bucket="backups", Key="daily/readme.txt", Body=b"not a snapshot")
    capsys.readouterr()
    assert main(["snapshot", "list", "s3://backups/daily/", "--json"]) == 0
    letters, notes = json.loads(capsys.readouterr().out)["snapshots"]
    assert (letters["collection"], letters["documents"]) == ("letters", 1)
    assert notes["address"].startswith("s3://backups/daily/notes-")
    assert main(["snapshot", "restore", notes["address"], "copy", *data]) == 0
    assert "copy: 1 document restored" in capsys.readouterr().out
    assert main(["snapshot", "list", "s3://backups/weekly/"]) == 0
    assert capsys.readouterr().out == ""


def test_an_object_that_was_changed_or_cut_is_not_restored(
    storage: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, client = ["--data-dir", str(tmp_path)], boto3.client("s3")
    with Collection.create(tmp_path, "notes", n_bits=16) as notes:
        notes.add([{"id": "a", "code": "00ff"}])
    address = "s3://backups/notes.tar"
    assert main(["snapshot", "create", "notes", *data, "--out", address]) == 0
    stored = client.get_object(Bucket="backups", Key="notes.tar")
    body, metadata = stored["Body"].read(), stored["Metadata"]
    for damaged in (body[:-512], body.replace(b"\x00\xff", b"\x00\xfe")):
        client.put_object(Bucket="backups", Key="notes.tar", Body=damaged, Metadata=metadata)
        assert main(["snapshot", "restore", address, "copy", *data]) == 2
        assert f"{address} is damaged" in capsys.readouterr().err


def test_success_is_not_said_of_an_object_that_differs_from_what_was_sent(
    storage: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    with Collection.create(tmp_path, "notes", n_bits=16) as notes:
        notes.add([{"id": "a", "code": "00ff"}])

    def lose_a_byte(event_name: str, params: dict[str, Any], **_: Any) -> None:
        params["Body"] = params["Body"].read()[:-1]

    make_client = boto3.client

    def client(service: str) -> Any:
        made = make_client(service)
        made.meta.events.register("provide-client-params.s3.PutObject", lose_a_byte)
        return made

    monkeypatch.setattr(boto3, "client", client)
    arguments = ["snapshot", "create", "notes", "--data-dir", str(tmp_path)]
    assert main([*arguments, "--out", "s3://backups/notes.tar"]) == 2
    assert "does not hold what was sent to it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("s3://backups/absent.tar", "Not Found"),
        ("s3://nobody/notes.tar", "Not Found"),
        ("s3://backups", "s3://backups is no object; snapshot list s3://backups prints"),
        ("s3://backups/2026/", "s3://backups/2026/ is no object"),
        ("s3:///notes.tar", "s3:///notes.tar names no bucket; write s3://BUCKET/KEY"),
    ],
)
def test_an_object_that_is_not_there_is_named(
    storage: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    address: str,
    message: str,
) -> None:
    assert main(["snapshot", "restore", address, "copy", "--data-dir", str(tmp_path)]) == 2
    printed = capsys.readouterr().err
    assert address in printed
    assert message in printed
