from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hummingbit.cli import main
from tests.support.corpora import topic_documents, write_xz
from tests.support.models import write_model

Reproduce = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def reproduce(tmp_path: Path) -> Reproduce:
    """Run a part with one seed and a small model, on the data in `tmp_path`."""

    def run(part: str, *options: object) -> list[dict[str, Any]]:
        write_model(tmp_path / "model")
        out = tmp_path / "records.json"
        places = ["--data-root", tmp_path, "--work-dir", tmp_path / "work", "--json", out]
        command = ["reproduce", "paper-trials", "--part", part, *places]
        command += ["--model", tmp_path / "model", "--seeds", 1, *options]
        assert main(list(map(str, command))) == 0
        records: list[dict[str, Any]] = json.loads(out.read_text())
        return records

    return run


@pytest.fixture
def write_topics(tmp_path: Path) -> Callable[[str, int, int], None]:
    """Write a data set of so many training documents and queries."""

    def write(name: str, *counts: int) -> None:
        for seed, (split, count) in enumerate(zip(("train", "test"), counts, strict=True)):
            documents = topic_documents(count, seed, split)
            records = [{"id": d.id, "text": d.text, "label": d.labels[0]} for d in documents]
            write_xz(tmp_path / name / f"{split}.jsonl.xz", records)

    return write
