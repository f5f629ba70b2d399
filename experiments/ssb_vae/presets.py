"""Tuned settings by data set and method.

They are tables ``[DATA-SET.METHOD]`` of a TOML file, which :mod:`experiments.ssb_vae.tuning` writes
and the experiment reads.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from hummingbit.foundation.files import replace_file

SHIPPED = Path(str(files("experiments.ssb_vae"))) / "presets.toml"

_HEADER = """\
# Tuned settings by data set and method; all others are the defaults of the method.
# "-vectors" in a name means that the inputs are vectors. The settings were chosen on documents held
# out of the training documents, or on a validation split (20news), and never on test documents.
# Written by: hummingbit reproduce ssb-vae --tune
"""


def read_presets(path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the settings in the file at `path` by data set, method and name, if it exists.

    Raises:
        tomllib.TOMLDecodeError: if it is not TOML.
    """
    return tomllib.loads(path.read_text()) if path.exists() else {}


def read_preset(path: Path, dataset: str, method: str) -> dict[str, Any]:
    """Return the settings in the file at `path` for a method on a data set; none by default."""
    return dict(read_presets(path).get(dataset, {}).get(method, {}))


def write_preset(path: Path, dataset: str, method: str, settings: Mapping[str, Any]) -> None:
    """Replace the settings of a method on a data set in the file at `path`."""
    presets = read_presets(path)
    presets.setdefault(dataset, {})[method] = dict(settings)
    tables = [
        _format_table(f"{dataset_name}.{method_name}", values)
        for dataset_name, methods in sorted(presets.items())
        for method_name, values in sorted(methods.items())
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, "\n".join([_HEADER, *tables]))


def _format_table(name: str, settings: Mapping[str, Any]) -> str:
    # Numbers, booleans and plain strings have the same form in JSON and TOML.
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    return "\n".join([f"[{name}]", *lines, ""])
