"""A project that has folders of our names does not get in our way, nor we in its."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("hummingbit")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a user's project, whose modules fail when they are imported."""
    for name in ("foundation", "index", "training", "corpus"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the user\\'s own')\n")
    (tmp_path / "service.py").write_text("raise RuntimeError('the user\\'s own')\n")
    return tmp_path


def run(project: Path, *command: str, python_path: Path | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if python_path is not None:
        environment["PYTHONPATH"] = str(python_path)
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("start", [[str(COMMAND)], [sys.executable, "-m", "hummingbit"]])
@pytest.mark.parametrize("named_by_path", [True, False])
def test_commands_use_their_own_folders(
    project: Path, start: list[str], named_by_path: bool
) -> None:
    (project / "encoders").mkdir()
    path = project if named_by_path else None
    assert run(project, *start, "index", "list", python_path=path) == ""
    assert "learn, search and evaluate" in run(project, *start, "--help", python_path=path)


def test_the_client_leaves_the_projects_folders_to_it(project: Path) -> None:
    code = "from hummingbit import Client; print(Client.__name__)"
    assert run(project, sys.executable, "-c", code, python_path=project) == "Client\n"
