"""Nothing runs GitHub's workflows here: what they name must exist, so that they would run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
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
        yield from job.get("steps", ())


def commands_of(path: Path) -> Iterator[list[str]]:
    for step in steps_of(path):
        for line in step.get("run", "").splitlines():
            words = shlex.split(re.sub(r"\$\(|\)|[;&|]+", " ", line))
            if words:
                yield words


SCHEMAS = {
    "github-workflows": WORKFLOWS,
    "github-actions": sorted((ROOT / ".github" / "actions").glob("*/action.yml")),
    "github-issue-forms": sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")),
    "compose-spec": sorted(ROOT.glob("docker-compose*.yml")),
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_follow_the_schemas_of_github_and_compose(schema: str) -> None:
    files = [str(path) for path in SCHEMAS[schema]]
    assert files
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_jobs_and_steps_are_complete(path: Path) -> None:
    workflow = load(path)
    assert {"name", "on", "permissions", "jobs"} <= workflow.keys()
    for job in workflow["jobs"].values():
        assert set(job.get("needs", [])) <= workflow["jobs"].keys()
        if "steps" not in job:  # another workflow, whose own jobs are complete
            assert (ROOT / job["uses"]).is_file()
            continue
        assert {"runs-on", "timeout-minutes"} <= job.keys()
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


def test_actions_are_pinned_to_one_commit_each_and_say_its_version() -> None:
    files = [*WORKFLOWS, *SCHEMAS["github-actions"]]
    uses = [
        line
        for path in files
        for line in re.findall(r"\buses: (.+)$", path.read_text(), re.MULTILINE)
    ]
    pins: dict[str, set[str]] = {}
    for use in uses:
        if not use.startswith("./"):
            found = re.fullmatch(r"([\w-]+/[\w-]+)\S*@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)", use)
            assert found, use
            pins.setdefault(found[1], set()).add(f"{found[2]} {found[3]}")
    assert {action: pin for action, pin in pins.items() if len(pin) != 1} == {}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_that_lie_here_are_given_their_inputs(path: Path) -> None:
    for step in steps_of(path):
        name = step.get("uses", "")
        if not name.startswith("./"):
            continue
        action = yaml.safe_load((ROOT / name / "action.yml").read_text())
        required = {key for key, input_ in action["inputs"].items() if input_.get("required")}
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


def test_a_release_has_wheels_for_every_system_and_all_images() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    jobs = jobs_of(ROOT / ".github" / "workflows" / "release.yml")
    runners = jobs["wheels"]["strategy"]["matrix"]["runner"]
    identifiers = project["tool"]["cibuildwheel"]["build"].split()
    # Each runner builds for its own processor.
    assert len(runners) == len(identifiers)
    systems = {"ubuntu": "manylinux", "macos": "macosx"}
    for system, name in systems.items():
        built = [
            identifier for identifier in identifiers if identifier.startswith(f"cp311-{name}_")
        ]
        assert len(built) == len([runner for runner in runners if runner.startswith(system)]) > 0
    assert jobs["wheel-without-kernel"]["runs-on"].startswith("windows")
    extras = project["project"]["optional-dependencies"].keys()
    images = {image["name"]: image for image in jobs["images"]["strategy"]["matrix"]["image"]}
    assert images.keys() >= {"hummingbit", "hummingbit-training", "hummingbit-training-gpu"}
    for image in images.values():
        dockerfile = (ROOT / image["file"]).read_text()
        name, _, value = image["args"].partition("=")
        if name:
            assert re.search(rf"^ARG {name}=", dockerfile, re.MULTILINE)
        if name == "EXTRAS":
            assert {"report", "map", "model"} <= set(value.split(",")) <= extras
    assert images["hummingbit-training-gpu"]["args"] == "PIP_EXTRA_INDEX_URL="


def test_a_release_publishes_everything_that_users_install() -> None:
    jobs = jobs_of(ROOT / ".github" / "workflows" / "release.yml")
    steps = [*jobs["sdist"]["steps"], *jobs["models"]["steps"]]
    commands = [step["run"].split() for step in steps if "run" in step]
    builds = [words for words in commands if words[:3] == ["python", "-m", "build"]]
    assert ["python", "-m", "build", "--sdist"] in builds
    folders = [ROOT / words[-1] for words in builds if not words[-1].startswith("-")]
    names = {
        tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"]
        for folder in folders
    }
    assert names == {"hummingbit-client", "hummingbit-models"}
    assert set(jobs["publish"]["needs"]) == {"tests", "sdist", "wheels", "wheel-without-kernel"}
    assert jobs["models"]["needs"] == ["tests"]
    assert jobs["publish"]["permissions"]["id-token"] == "write"
