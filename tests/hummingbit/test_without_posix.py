"""The command line without what Windows lacks: modules and functions of POSIX, and uvloop."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from hummingbit.clients.client import Client
from tests.support.corpora import topic_documents
from tests.support.faults.without_posix import THEN
from tests.support.service import ROOT

COMMAND = [sys.executable, "-m", "tests.support.faults.without_posix"]


def run(*arguments: object, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    return done


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with an encoder and a collection, all made by commands without POSIX."""
    folder = tmp_path_factory.mktemp("without") / "data"
    corpus = folder.parent / "corpus.jsonl"
    lines = [
        json.dumps({"id": document.id, "text": document.text, "label": document.labels[0]})
        for document in topic_documents(60)
    ]
    corpus.write_text("\n".join(lines))
    out = folder / "encoders" / "small"
    train = ["train", "ssb-vae", "--data", corpus, "--bits", 16, "--epochs", 1, "--out", out]
    run(*train, THEN, "index", "build", "c", corpus, "--encoder", "small", "--data-dir", folder)
    return folder


@pytest.fixture
def process(data: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*COMMAND, "serve", "--data-dir", str(data), "--port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        yield process
        process.kill()


def address_of(stdout: IO[str] | None) -> str:
    assert stdout is not None
    line = stdout.readline()
    assert " on http://" in line
    return line.split()[-1]


def test_commands_train_index_verify_and_search(data: Path) -> None:
    folder = ["--data-dir", data]
    printed = run(
        *("search", "c", "apple bread", *folder, "--json", "--limit", 3, THEN),
        *("evaluate", "c", "--queries", data.parent / "corpus.jsonl", *folder, "--json", THEN),
        *("index", "verify", "c", *folder, THEN),
        *("snapshot", "create", "c", *folder, "--out", data.parent / "backup"),
    ).stdout
    found, end = json.JSONDecoder().raw_decode(printed)
    measured, _ = json.JSONDecoder().raw_decode(printed[end:].lstrip())
    assert len(found["hits"]) == 3
    # Most of the queries are documents that the encoder learned from, and are left out.
    assert 0 < measured["queries"] < 60


def test_one_process_serves_and_others_may_not_write_meanwhile(
    data: Path, process: subprocess.Popen[str], tmp_path: Path
) -> None:
    more = tmp_path / "more.jsonl"
    more.write_text('{"id": "x", "text": "apple bread"}\n')
    with Client(address_of(process.stdout)) as client:
        assert client.search("c", text="apple bread", limit=1)["hits"]
        client.upsert("c", [{"id": "y", "text": "bread apple"}])
        refused = run("index", "add", "c", more, "--data-dir", data, status=2)
        assert "is in use: another process is writing to it; " in refused.stderr
        assert refused.stderr.endswith("use its --url\n")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    run("index", "add", "c", more, "--data-dir", data)
    held = run("index", "get", "c", "x", "y", "--data-dir", data).stdout.splitlines()
    assert [json.loads(line)["id"] for line in held] == ["x", "y"]


def test_several_processes_are_refused(data: Path) -> None:
    refused = run("serve", "--data-dir", data, "--workers", 2, "--port", 0, status=2)
    assert "workers is 2; it must be 0 on Windows" in refused.stderr
