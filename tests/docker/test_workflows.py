"""Nothing runs GitHub's workflows here: what they name must exist, so that they would run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hummingbit.cli import COMMANDS, whole_parser

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SUPPORTED = ["3.11", "3.12", "3.13", "3.14"]


def load(path: Path) -> dict[str, Any]:
    # YAML 1.1 reads the key `on` as true.
    content: dict[Any, Any] = yaml.safe_load(path.read_text())
    content["on"] = content.pop(True)
    return content


def jobs_of(path: Path) -> dict[str, dict[str, Any]]:
    jobs: dict[str, dict[str, Any]] = load(path)["jobs"]
    return jobs


def steps_of(path: Path) -> Iterator[dict[str, Any]]:
    for job in jobs_of(path).values():
        yield from job["steps"]


def commands_of(path: Path) -> Iterator[list[str]]:
    for step in steps_of(path):
        for line in step.get("run", "").splitlines():
            words = shlex.split(re.sub(r"\$\(|\)|[;&|]+", " ", line))
            if words:
                yield words


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_jobs_and_steps_are_complete(path: Path) -> None:
    workflow = load(path)
    assert {"name", "on", "permissions", "jobs"} <= workflow.keys()
    for job in workflow["jobs"].values():
        assert {"runs-on", "timeout-minutes", "steps"} <= job.keys()
        assert set(job.get("needs", [])) <= workflow["jobs"].keys()
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
    used = re.findall(r"matrix\.(\w+)", path.read_text())
    matrices = [job.get("strategy", {}).get("matrix", {}) for job in workflow["jobs"].values()]
    assert set(used) <= {name for matrix in matrices for name in matrix}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_what_steps_run_exists(path: Path) -> None:
    targets = set(re.findall(r"^([\w./$()-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    targets |= {name.replace("$(VENV)", ".venv") for name in targets}
    for words in commands_of(path):
        if words[0] == "make":
            assert set(words[1:]) <= targets
        if "hummingbit" in Path(words[0]).name and words[0] != "docker":
            name = words[1]
            assert name in COMMANDS
        if words[:2] == ["python", "-m"] and words[2].startswith("tests."):
            assert (ROOT / f"{words[2].replace('.', '/')}.py").is_file()
        if "--file" in words:
            assert (ROOT / words[words.index("--file") + 1]).is_file()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_have_versions_or_lie_here_with_their_inputs(path: Path) -> None:
    for step in steps_of(path):
        name = step.get("uses")
        if name is None:
            continue
        if not name.startswith("./"):
            assert re.search(r"@(v\d+|release/v\d+)$", name), name
            continue
        action = yaml.safe_load((ROOT / name / "action.yml").read_text())
        required = {key for key, one in action["inputs"].items() if one.get("required")}
        assert required <= step["with"].keys() <= action["inputs"].keys()


def test_the_suite_runs_on_every_supported_python_and_the_commands_on_every_system() -> None:
    jobs = jobs_of(ROOT / ".github" / "workflows" / "tests.yml")
    assert jobs["suite"]["strategy"]["matrix"]["python"] == SUPPORTED
    runners = jobs["systems"]["strategy"]["matrix"]["runner"]
    assert [name.partition("-")[0] for name in runners] == ["macos", "windows"]


def test_options_in_workflows_are_those_of_the_commands() -> None:
    parser = whole_parser()
    for path in WORKFLOWS:
        for words in commands_of(path):
            if Path(words[0]).name == "hummingbit":
                parser.parse_args([word for word in words[1:] if word != "break"])
