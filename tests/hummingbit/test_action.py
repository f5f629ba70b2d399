"""The script that the GitHub action runs, with the variables that GitHub sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.evaluations import labelled_codes, make_collections, shuffled, write_lines

ACTION = Path(__file__).parents[2] / ".github" / "actions" / "retrieval-eval"

SCRIPTS = ("install.sh", "evaluate.sh", "comment.sh")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data")
    good = labelled_codes(300, 0, "d")
    make_collections(path, good=good, shuffled=shuffled(good))
    write_lines(path / "queries.jsonl", labelled_codes(50, 1, "q"))
    (path / "gate.toml").write_text('[metrics."P@10"]\nmin = 0.5\n')
    return path


@pytest.mark.parametrize(("collection", "status"), [("good", 0), ("shuffled", 1), ("absent", 2)])
def test_the_action_evaluates_and_hands_on_the_status(
    data: Path, tmp_path: Path, collection: str, status: int
) -> None:
    hummingbit = tmp_path / "hummingbit"
    hummingbit.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hummingbit "$@"\n')
    hummingbit.chmod(0o755)
    summary, output = tmp_path / "summary", tmp_path / "output"
    summary.touch()
    variables = {
        "COLLECTION": collection,
        "QUERIES": str(data / "queries.jsonl"),
        "DATA_DIR": str(data),
        "METRICS": "P@10 MRR",
        "GATE": str(data / "gate.toml"),
        "ARGUMENTS": "--relevant-from 1",
        "OUT": str(tmp_path / "report"),
        "HUMMINGBIT": str(hummingbit),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    subprocess.run([ACTION / "evaluate.sh"], env=os.environ | variables, check=True)
    assert output.read_text() == f"status={status}\n"
    assert ("| P@10 |" in summary.read_text()) == (status < 2)
    assert (tmp_path / "report" / "index.html").exists() == (status < 2)


def test_every_variable_of_the_scripts_is_set_by_the_action() -> None:
    described = (ACTION / "action.yml").read_text()
    scripts = [(ACTION / name).read_text() for name in SCRIPTS]
    names = ("COLLECTION", "QUERIES", "DATA_DIR", "URL", "QRELS", "METRICS", "BASELINE", "GATE")
    for name in (*names, "ARGUMENTS", "OUT", "HUMMINGBIT", "PULL_REQUEST", "REQUIREMENT"):
        assert any(f"${name}" in script or f"${{{name}:-" in script for script in scripts)
        assert f"        {name}: ${{{{ " in described
    for name in SCRIPTS:
        subprocess.run(["bash", "-n", ACTION / name], check=True)
