"""The weight of codes and the default ranking of a collection go wherever the collection goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

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
    """Where there is a collection, made by the command line or a service alike."""
    folder = tmp_path / "data"
    write_artifact(folder / "encoders" / "e", text_encoder(), TEXTS)
    write_artifact(folder / "encoders" / "other", text_encoder(64, seed=1), TEXTS)
    with DataFolder(folder, writable=True) as data:
        documents = [Document(f"d{at}", text) for at, text in enumerate(TEXTS)]
        data.create_collection("c", encoder="e").upsert(documents)
    if request.param == "--data-dir":
        yield ["--data-dir", str(folder)]
        return
    with running_service(folder) as client:
        yield ["--url", str(client.base_url)]


@pytest.mark.parametrize("weight", ["2.5", "encoder"])
@pytest.mark.parametrize("way", ["export", "snapshot", "reindex"])
def test_a_copy_ranks_as_its_collection(
    where: list[str], tmp_path: Path, way: str, weight: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["index", "rank", "c", "asymmetric", "--weight", weight, *where]) == 0
    file = str(tmp_path / "file")
    commands = {
        "export": (["index", "export", "c", file], ["index", "import", "copy", file]),
        "snapshot": (
            ["snapshot", "create", "c", "--out", file],
            ["snapshot", "restore", file, "copy"],
        ),
        "reindex": (["reindex", "c", "--encoder", "other", "--into", "copy"],),
    }
    for command in commands[way]:
        assert main([*command, *where]) == 0
    for name in ("c", "copy"):
        capsys.readouterr()
        assert main(["index", "stats", name, *where, "--json"]) == 0
        stats = json.loads(capsys.readouterr().out)
        assert stats["ranking"] == "asymmetric"
        assert stats["own_hybrid_weight"] == (None if weight == "encoder" else 2.5)
    for name in ("c", "copy") if way != "reindex" else ():
        search = ["search", name, TEXTS[3], "--ranking", "hybrid", "--json", *where]
        assert main(search) == 0
    if way != "reindex":
        first, second = capsys.readouterr().out.strip().split("\n{\n")
        assert json.loads(first)["hits"] == json.loads("{\n" + second)["hits"]
