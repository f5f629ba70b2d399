"""The settings of each method on each data set, where they were searched for.

They are kept in a TOML file, ``[DATA-SET.METHOD]``; the search of
:mod:`experiments.ssb_vae.tuning` writes it, and the experiment reads it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from foundation.files import replace_file

SHIPPED = Path(str(files("experiments.ssb_vae"))) / "presets.toml"

_HEADER = """\
# Settings of each method on each data set, where they were searched for; all others are the
# defaults of training.recipe.Recipe. "-vectors" is a data set whose documents are given as vectors.
# Documents held out of the training documents chose them, or a validation split (20news); the test
# documents had no part in it. Written by: hummingbit reproduce ssb-vae --tune
"""


def read_presets(path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the settings in the file at `path` by data set, method and name; none if it is absent.

    Raises:
        tomllib.TOMLDecodeError: if it is not TOML.
    """
    return tomllib.loads(path.read_text()) if path.exists() else {}


def read_preset(path: Path, dataset: str, method: str) -> dict[str, Any]:
    """Return the settings in the file at `path` for a method on a data set."""
    return dict(read_presets(path).get(dataset, {}).get(method, {}))


def write_preset(path: Path, dataset: str, method: str, settings: Mapping[str, Any]) -> None:
    """Put `settings` in place of what the file at `path` says of a method on a data set."""
    presets = read_presets(path)
    presets.setdefault(dataset, {})[method] = dict(settings)
    tables = [
        _table(f"{name}.{one}", chosen)
        for name, methods in sorted(presets.items())
        for one, chosen in sorted(methods.items())
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, "\n".join([_HEADER, *tables]))


def _table(name: str, settings: Mapping[str, Any]) -> str:
    # Numbers, booleans and plain strings are written alike in JSON and TOML.
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    return "\n".join([f"[{name}]", *lines, ""])
