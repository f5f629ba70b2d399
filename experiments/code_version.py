"""The version of the code that computed a result; results of older code are computed again."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import CodeType

FOLDERS = (
    "experiments",
    "hummingbit.corpus",
    "hummingbit.encoder",
    "hummingbit.evaluation",
    "hummingbit.foundation",
    "hummingbit.index",
    "hummingbit.training",
)
"""The packages whose code determines what an experiment computes."""


@cache
def code_version() -> str:
    """Return the SHA-256 of what all modules of :data:`FOLDERS` compile to (:func:`dump_code`)."""
    digest = hashlib.sha256()
    for folder in FOLDERS:
        for name, source in _modules(files(folder), folder):
            digest.update(f"{name}\n{dump_code(source)}\n".encode())
    return digest.hexdigest()


def version_of(*modules: str) -> str:
    """Return the SHA-256 of modules and of all in :data:`FOLDERS` that they import, at any depth.

    So a result that depends on one method stays valid when another method changes.

    Raises:
        ModuleNotFoundError: if one of `modules` does not exist.
    """
    dumps: dict[str, str] = {}
    pending = list(modules)
    while pending:
        name = pending.pop()
        if name in dumps:
            continue
        source = _source_of(name)
        if source is None:
            if name in modules:
                raise ModuleNotFoundError(f"there is no module {name}", name=name)
            # The name of something in a module, such as a function.
            continue
        dumps[name], imports = _dump_and_imports(source)
        pending += imports
    digest = hashlib.sha256()
    for name, dump in sorted(dumps.items()):
        digest.update(f"{name}\n{dump}\n".encode())
    return digest.hexdigest()


def dump_code(source: str) -> str:
    """Return what a module compiles to as text: without comments, docstrings and assertions.

    Layout changes it only where Python keeps an empty instruction for a line of its own. This
    takes two thirds of the time of a dump of the syntax tree.
    """
    return _dump(ast.parse(source))


def _dump(tree: ast.Module) -> str:
    _drop_strings(tree)
    code = compile(tree, "", "exec", dont_inherit=True, optimize=2)
    return repr(_without_places(code))


def _drop_strings(node: ast.AST) -> None:
    """Drop strings that are statements, which Python would keep as empty instructions."""
    body = getattr(node, "body", None)
    if isinstance(body, list):
        # Python compiles no empty body.
        node.body = [each for each in body if not _is_string(each)] or body  # type: ignore[attr-defined]
        for each in body:
            _drop_strings(each)


def _is_string(node: ast.AST) -> bool:
    is_constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_constant and isinstance(node.value.value, str)  # type: ignore[attr-defined]


def _without_places(code: CodeType) -> tuple[object, ...]:
    """Return all of a code object but its lines and its file."""
    return (
        *(code.co_qualname, code.co_flags, code.co_code, code.co_exceptiontable, code.co_names),
        *(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        *(code.co_varnames, code.co_cellvars, code.co_freevars),
        *map(_ordered, code.co_consts),
    )


def _ordered(constant: object) -> object:
    if isinstance(constant, CodeType):
        return _without_places(constant)
    # The order of a set of strings differs between processes.
    return sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant


def _folder_of(name: str) -> str | None:
    """Return the one of :data:`FOLDERS` that has a module, by its dotted name."""
    return next((folder for folder in FOLDERS if f"{name}.".startswith(f"{folder}.")), None)


def _modules(folder: Traversable, name: str) -> list[tuple[str, str]]:
    """Return the name and the source of each module in and below a folder, ordered by name."""
    modules: list[tuple[str, str]] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            modules += _modules(entry, f"{name}/{entry.name}")
        elif entry.name.endswith(".py"):
            modules.append((f"{name}/{entry.name}", entry.read_text(encoding="utf-8")))
    return modules


def _source_of(name: str) -> str | None:
    """Return the source of a module by its dotted name, None if there is no such module."""
    folder = _folder_of(name)
    if folder is None:
        return None
    path = name[len(folder) + 1 :].split(".")
    parent = files(folder)
    for part in path[:-1]:
        parent = parent / part
    last = path[-1] or "__init__"
    for file in (parent / f"{last}.py", parent / last / "__init__.py"):
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return None


@cache
def _dump_and_imports(source: str) -> tuple[str, tuple[str, ...]]:
    """Return a module's code and imports, cached: each cell of a leaderboard needs them."""
    tree = ast.parse(source)
    imports = tuple(_imports(tree))
    return _dump(tree), imports


def _imports(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module imports from :data:`FOLDERS`, at the top or in functions."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if _folder_of(name) is not None)
