"""The weight of codes and the default ranking of a collection go wherever the collection goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.index.data_folder import DataFolder
from tests.support.encoders import random_texts, text_encoder
from tests.support.service import running_service

TEXTS = random_texts(40)


@pytest.fixture(params=["--data-dir", "--url"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    """Where there are two collections, made by the command line or a service alike."""
    folder = tmp_path / "data"
    write_artifact(folder / "encoders" / "e", text_encoder(), TEXTS)
    write_artifact(folder / "encoders" / "other", text_encoder(64, seed=1), TEXTS)
    with DataFolder(folder, writable=True) as data:
        documents = [Document(f"d{at}", text) for at, text in enumerate(TEXTS)]
        for name in ("own", "kept"):
            data.create_collection(name, encoder="e").upsert(documents)
    if request.param == "--data-dir":
        yield ["--data-dir", str(folder)]
        return
    with running_service(folder) as client:
        yield ["--url", str(client.base_url)]


@pytest.mark.parametrize("way", ["export", "snapshot", "reindex"])
def test_a_copy_ranks_as_its_collection(
    where: list[str], tmp_path: Path, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def stats(name: str) -> tuple[str, float | None]:
        capsys.readouterr()
        assert main(["index", "stats", name, *where, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        return found["ranking"], found["own_hybrid_weight"]

    def hits(name: str) -> list[dict[str, Any]]:
        capsys.readouterr()
        assert main(["search", name, TEXTS[3], "--ranking", "hybrid", "--json", *where]) == 0
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["hits"]
        return found

    for name, weight in (("own", "2.5"), ("kept", "encoder")):
        assert main(["index", "rank", name, "asymmetric", "--weight", weight, *where]) == 0
        copy, file = f"copy-of-{name}", str(tmp_path / name)
        commands = {
            "export": (["index", "export", name, file], ["index", "import", copy, file]),
            "snapshot": (
                ["snapshot", "create", name, "--out", file],
                ["snapshot", "restore", file, copy],
            ),
            "reindex": (["reindex", name, "--encoder", "other", "--into", copy],),
        }
        for command in commands[way]:
            assert main([*command, *where]) == 0
        expected = ("asymmetric", None if weight == "encoder" else 2.5)
        assert stats(name) == stats(copy) == expected
    if way != "reindex":
        assert hits("own") == hits("copy-of-own")
