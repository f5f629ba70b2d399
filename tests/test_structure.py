"""The house at a glance: few modules on a level, no two of one name."""

from __future__ import annotations

import subprocess
from collections import Counter, defaultdict
from pathlib import Path

from hummingbit import PACKAGES

ROOT = Path(__file__).parents[1]
MAX_ON_A_LEVEL = 15

COMMANDS = ("benchmarks", "hummingbit/commands", "experiments")
"""A module here can be a command, with the name of what it times, calls or reproduces."""

MIRRORS = (
    ("service/routes", "service/schemas", "service/jobs"),
    ("index", "index/sqlite", "index/milvus"),
)
"""Folders that mirror each other: what one resource, or one kind of collection, is made of."""

OF_EVERY_FOLDER = {"__init__", "errors", "protocol"}
"""A folder's own kinds of errors, and what the modules in it promise."""


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


def test_every_folder_can_be_taken_in_at_a_glance() -> None:
    counts = Counter(str(path.parent) for path in modules() if path.name != "__init__.py")
    # A benchmark is run as ``python -m benchmarks.NAME``: what is no command lies in its harness.
    counts["benchmarks"] -= sum(path.parent == Path("benchmarks") for path in commands())
    assert {folder: n for folder, n in counts.items() if n > MAX_ON_A_LEVEL} == {}


def commands() -> list[Path]:
    """Return the benchmarks that are commands of their own."""
    return [
        path
        for path in modules()
        if path.parent == Path("benchmarks")
        and 'if __name__ == "__main__":' in (ROOT / path).read_text(encoding="utf-8")
    ]


def test_no_two_modules_have_one_name() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for path in modules():
        folder = str(path.parent)
        is_own = path.parts[0] in PACKAGES and not folder.startswith(COMMANDS)
        if is_own and path.stem not in OF_EVERY_FOLDER:
            places[path.stem].add(mirrored(folder))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def mirrored(folder: str) -> str:
    """Return a name that folders which mirror each other share."""
    for group in MIRRORS:
        for one in sorted(group, key=len, reverse=True):
            if folder == one or (one != "index" and folder.startswith(f"{one}/")):
                return group[0]
    return folder


def test_every_folder_of_modules_is_a_package_that_says_what_it_holds() -> None:
    for folder in {path.parent for path in modules() if path.parts[0] in PACKAGES}:
        package = (ROOT / folder / "__init__.py").read_text(encoding="utf-8")
        assert package.startswith('"""'), folder
