"""The version of the code that a result was made with, to tell results of older code apart."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

FOLDERS = ("corpus", "encoder", "evaluation", "experiments", "foundation", "training")
"""All that decides what an experiment computes."""


@cache
def code_version() -> str:
    """Return the SHA-256 of all modules of :data:`FOLDERS`, without comments and docstrings."""
    digest = hashlib.sha256()
    for folder in FOLDERS:
        for name, source in _modules(files(folder), folder):
            digest.update(f"{name}\n{meaning_of(source)}\n".encode())
    return digest.hexdigest()


def version_of(*modules: str) -> str:
    """Return the SHA-256 of modules and of all in :data:`FOLDERS` that they import, at any depth.

    A result that depends on one method stays when another method changes.

    Raises:
        ModuleNotFoundError: if one of `modules` is not there.
    """
    found: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        source = _source_of(name)
        if source is None:
            if name in modules:
                raise ModuleNotFoundError(f"there is no module {name}", name=name)
            # A name that is imported from a module, such as a function.
            continue
        found[name], imported = _meaning_and_imports(source)
        waiting += imported
    digest = hashlib.sha256()
    for name, meaning in sorted(found.items()):
        digest.update(f"{name}\n{meaning}\n".encode())
    return digest.hexdigest()


def meaning_of(source: str) -> str:
    """Return the syntax tree of a module as text: without comments, layout and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            # A string on its own does nothing, as a docstring or anywhere else.
            node.body = [one for one in body if not _is_string(one)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_string(node: ast.AST) -> bool:
    is_constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_constant and isinstance(node.value.value, str)  # type: ignore[attr-defined]


def _modules(folder: Traversable, name: str) -> list[tuple[str, str]]:
    """Return the name and the source of all modules of a folder, and of those below, by name."""
    found: list[tuple[str, str]] = []
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            found += _modules(entry, f"{name}/{entry.name}")
        elif entry.name.endswith(".py"):
            found.append((f"{name}/{entry.name}", entry.read_text(encoding="utf-8")))
    return found


def _source_of(name: str) -> str | None:
    folder, *path = name.split(".")
    place = files(folder)
    for part in path[:-1]:
        place = place / part
    last = path[-1] if path else "__init__"
    for file in (place / f"{last}.py", place / last / "__init__.py"):
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return None


@cache
def _meaning_and_imports(source: str) -> tuple[str, tuple[str, ...]]:
    """Parse a module once: those of a leaderboard are asked about for each of its cells."""
    return meaning_of(source), tuple(_imports(source))


def _imports(source: str) -> Iterator[str]:
    """Yield what a module imports from :data:`FOLDERS`, at its beginning or within functions."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name.split(".")[0] in FOLDERS)
