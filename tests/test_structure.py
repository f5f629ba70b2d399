"""Every folder of modules says what it holds."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hummingbit import PACKAGES

ROOT = Path(__file__).parents[1]


def modules() -> list[Path]:
    """Return the modules of the repository, tests included, relative to its root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [Path(line) for line in listed.stdout.splitlines()]
    return [path for path in paths if (ROOT / path).exists() and path.parts[0] != "docs"]


def test_every_folder_of_modules_is_a_package_that_says_what_it_holds() -> None:
    for folder in {path.parent for path in modules() if path.parts[0] in PACKAGES}:
        package = (ROOT / folder / "__init__.py").read_text(encoding="utf-8")
        assert package.startswith('"""'), folder
