"""Writes the sources of the distribution ``hummingbit-client`` from ``hummingbit/clients``.

``python -m tests.support.client_distribution FOLDER`` leaves a project in FOLDER, which
``python -m build`` makes an sdist and a wheel of.
"""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "distributions" / "hummingbit-client"
SOURCES = ROOT / "hummingbit" / "clients"
PACKAGE = "hummingbit_client"
NAMES = {
    "AsyncClient": "async_client",
    "Client": "client",
    "ServiceError": "transport",
}
"""The public names, and their modules."""


def write_sources(folder: Path) -> None:
    """Write the project to `folder`, which must not exist."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    shutil.copytree(TEMPLATE, folder)
    settings = folder / "pyproject.toml"
    settings.write_text(settings.read_text().replace('version = "0"', f'version = "{version}"'))
    shutil.copy(ROOT / "LICENSE", folder)
    for source in SOURCES.rglob("*.py"):
        place = folder / PACKAGE / source.relative_to(SOURCES)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(_use_distribution_names(source.read_text()))
    (folder / PACKAGE / "__init__.py").write_text(_first_module())
    (folder / PACKAGE / "py.typed").touch()


def _use_distribution_names(text: str) -> str:
    """Return a module with the names that it has in the distribution."""
    text = re.sub(r"\bhummingbit\.clients\b", PACKAGE, text)
    public = "|".join(NAMES)
    return re.sub(rf"\bhummingbit\.({public})\b", rf"{PACKAGE}.\1", text)


def _first_module() -> str:
    imports = "".join(
        f"from {PACKAGE}.{module} import {name}\n" for name, module in sorted(NAMES.items())
    )
    listed = ", ".join(f'"{name}"' for name in sorted(NAMES))
    title = '"""The client of hummingbit\'s search service, synchronous and asynchronous."""'
    return f"{title}\n\n{imports}\n__all__ = [{listed}]\n"


if __name__ == "__main__":
    write_sources(Path(sys.argv[1]))
