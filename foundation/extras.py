"""The packages of an extra: how to install them where this code runs."""

from __future__ import annotations

import re
from pathlib import Path
from shlex import quote

ROOT = Path(__file__).parents[2]
_OF_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w.-]+)['"]""")


def install_command(*extras: str) -> str:
    """Return the command that installs the packages of `extras`.

    From a checkout it installs the checkout, as hummingbit is not on PyPI. Where hummingbit was
    installed, it names the packages.
    """
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415 - rarely needed

    names = ",".join(extras)
    if (ROOT / "pyproject.toml").is_file():
        return f"pip install -e {quote(f'{ROOT}[{names}]')}"
    try:
        listed = [requirement.partition(";") for requirement in requires("hummingbit") or []]
    except PackageNotFoundError:
        listed = []
    packages = {
        package.strip()
        for package, _, marker in listed
        if (extra := _OF_EXTRA.search(marker)) and extra[1] in extras
    }
    if not packages:
        return f"pip install '.[{names}]' in a checkout of hummingbit"
    return f"pip install {' '.join(map(quote, sorted(packages)))}"
