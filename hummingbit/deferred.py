"""Imports that wait until a command runs, so that its ``--help`` takes less than ``import numpy``.

A module of a command has what only running needs in a block:

    with deferred_imports():
        from hummingbit.index.data_folder import DataFolder

Where a process parses its command line, such a name stands for nothing until :func:`load_deferred`
imports all of them at once, before the command runs. Anywhere else, the block imports as usual.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_deferring: list[dict[str, Any]] | None = None
"""The global names of the modules that lack imports; None where imports do not wait."""


class _Deferred:
    """A name of a module that is not imported yet, or with none the module itself."""

    def __init__(self, module: str, name: str | None) -> None:
        self._module, self._name = module, name

    def load(self) -> Any:
        module = importlib.import_module(self._module)
        return module if self._name is None else getattr(module, self._name)


class _DeferredModule:
    """What an import statement takes names from."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> _Deferred:
        return _Deferred(self._module, name)


def defer_imports() -> None:
    """Let the imports of :func:`deferred_imports` wait until :func:`load_deferred`."""
    global _deferring  # noqa: PLW0603 - imports are of the process, too
    _deferring = []


def load_deferred() -> None:
    """Import what has waited, and let no further import wait."""
    global _deferring
    modules, _deferring = _deferring or [], None
    for names in modules:
        for name, value in names.items():
            if isinstance(value, _Deferred):
                names[name] = value.load()


@contextmanager
def deferred_imports() -> Iterator[None]:
    """Let the import statements of the block wait, in the module that has it."""
    if _deferring is None:
        yield
        return
    names = sys._getframe(2).f_globals  # noqa: SLF001 - of the module, past contextlib
    import_now = builtins.__import__

    def import_later(
        module: str, importer: Any = None, local: Any = None, wanted: Any = (), level: int = 0
    ) -> Any:
        if importer is not names:
            return import_now(module, importer, local, wanted, level)
        return _DeferredModule(module) if wanted else _Deferred(module, None)

    builtins.__import__ = import_later  # type: ignore[assignment]  # a module stands for itself
    try:
        yield
    finally:
        builtins.__import__ = import_now
    _deferring.append(names)
