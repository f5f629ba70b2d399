"""Writes the package ``hummingbit_client`` from ``hummingbit/clients``, before it is built.

The types of responses are those of the service.

This happens in a checkout of hummingbit, and Git ignores what is written here. An sdist holds the
package already.
"""

from __future__ import annotations

import ast
import re
import shutil
import tomllib
from pathlib import Path

from setuptools import setup

FOLDER = Path(__file__).resolve().parent
CHECKOUT = FOLDER.parents[1]
SOURCES = CHECKOUT / "hummingbit" / "clients"
RESPONSES = CHECKOUT / "service" / "schemas" / "responses.py"
PACKAGE = "hummingbit_client"
PUBLIC = ("AsyncClient", "Client", "ServiceError")


def write_package() -> None:
    """Write the package, with the version and the licence of the checkout."""
    version = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
    package = FOLDER / PACKAGE
    # Modules of another version would be in the wheel, too.
    for leftover in (package, FOLDER / "build"):
        shutil.rmtree(leftover, ignore_errors=True)
    modules: dict[str, str] = {}
    for source in [*sorted(SOURCES.rglob("*.py")), RESPONSES]:
        relative = source.relative_to(RESPONSES.parent if source == RESPONSES else SOURCES)
        text = _with_package_names(source.read_text(encoding="utf-8"))
        path = package / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        module = ".".join((PACKAGE, *relative.with_suffix("").parts))
        names = _names(text)
        public = names if source == RESPONSES else names.intersection(PUBLIC)
        modules.update((name, module) for name in public)
    (package / "__init__.py").write_text(_first_module(modules, version), encoding="utf-8")
    (package / "py.typed").touch()
    shutil.copy(CHECKOUT / "LICENSE", FOLDER)


def _with_package_names(text: str) -> str:
    """Return a module with the names that it has in the package."""
    text = re.sub(r"\bhummingbit\.(clients|service\.schemas)\b", PACKAGE, text)
    return re.sub(rf"\bhummingbit\.({'|'.join(PUBLIC)})\b", rf"{PACKAGE}.\1", text)


def _names(text: str) -> set[str]:
    """Return the classes and the types that a module defines."""
    found = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name):
            found.add(target.id)
    return {name for name in found if name[0].isupper()}


def _first_module(modules: dict[str, str], version: str) -> str:
    imports = "".join(f"from {modules[name]} import {name}\n" for name in sorted(modules))
    listed = ", ".join(f'"{name}"' for name in sorted(modules))
    title = '"""The client of hummingbit\'s search service, synchronous and asynchronous."""'
    return f'{title}\n\n{imports}\n__all__ = [{listed}]\n__version__ = "{version}"\n'


if not (FOLDER / "PKG-INFO").exists():
    write_package()
setup()
