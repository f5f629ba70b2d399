"""The retrieval-eval action in a shell, as a user's repository runs it, without hummingbit."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.evaluations import labelled_codes, make_collections, write_lines

pytestmark = pytest.mark.package

ACTION = Path(__file__).parents[2] / ".github" / "actions" / "retrieval-eval"
GIVEN = {"collection": "good", "queries": "queries.jsonl", "data-dir": ".", "gate": "gate.toml"}


def run_action(repository: Path, temporary: Path, given: dict[str, str]) -> tuple[int, str]:
    """Run the steps of the action that are scripts, as GitHub does; return status and summary.

    Steps of other actions, and those with a condition, which is that of a pull request, are left.
    """
    action = yaml.safe_load((ACTION / "action.yml").read_text())
    inputs = {name: input_.get("default", "") for name, input_ in action["inputs"].items()} | given
    outputs: dict[str, str] = {}
    summary = temporary / "summary"
    summary.touch()
    for step in action["runs"]["steps"]:
        if "run" not in step or "if" in step:
            continue

        def value_of(found: re.Match[str]) -> str:
            kind, *path = found[1].split(".")
            return inputs[path[0]] if kind == "inputs" else outputs[".".join(path)]

        own = {
            name: re.sub(r"\$\{\{ ([\w.-]+) \}\}", value_of, str(value))
            for name, value in step.get("env", {}).items()
        }
        output = temporary / "output"
        output.write_text("")
        runner = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(temporary),
            "PYTHON": os.path.realpath("/proc/self/exe"),
            "RUNNER_TEMP": str(temporary),
            "GITHUB_ACTION_PATH": str(ACTION),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(summary),
            **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
        }
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
            cwd=repository,
            env={**runner, **own},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return done.returncode, done.stderr
        for line in output.read_text().splitlines():
            name, _, value = line.partition("=")
            outputs[f"{step['id']}.outputs.{name}"] = value
    return 0, summary.read_text()


def test_it_installs_hummingbit_and_evaluates(tmp_path: Path) -> None:
    repository, temporary = tmp_path / "repository", tmp_path / "temporary"
    repository.mkdir()
    temporary.mkdir()
    make_collections(repository, good=labelled_codes(300, 0, "d"))
    write_lines(repository / "queries.jsonl", labelled_codes(50, 1, "q"))
    (repository / "gate.toml").write_text('[metrics."P@10"]\nmin = 0.5\n')
    status, summary = run_action(repository, temporary, {**GIVEN, "metrics": "P@10"})
    assert status == 0, summary
    assert "| P@10 |" in summary
    command = temporary / "hummingbit" / "bin" / "hummingbit"
    assert command.is_file()
    # The next run takes what is there, and a gate that fails ends the job.
    (repository / "gate.toml").write_text('[metrics."P@10"]\nmin = 1.0\n')
    status, _ = run_action(repository, temporary, {**GIVEN, "hummingbit": str(command)})
    assert status == 1
