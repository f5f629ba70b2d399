"""The version of the code that a result was made with, to tell results of older code apart."""

from __future__ import annotations

import ast
import hashlib
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
