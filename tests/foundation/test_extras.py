from __future__ import annotations

import shlex
from importlib.metadata import requires
from pathlib import Path

import pytest

from hummingbit.foundation import errors
from hummingbit.foundation.errors import install_command


def test_a_checkout_is_installed_with_the_extra() -> None:
    pip, install, editable, package = shlex.split(install_command("train", "report"))
    assert (pip, install, editable) == ("pip", "install", "-e")
    assert package == f"{errors.ROOT}[train,report]"
    assert (Path(package.partition("[")[0]) / "pyproject.toml").is_file()


def test_elsewhere_the_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(errors, "ROOT", tmp_path)
    assert shlex.split(install_command("parquet", "train")) == [
        "pip",
        "install",
        *sorted(
            requirement.partition(";")[0]
            for requirement in requires("hummingbit") or []
            if requirement.endswith(('extra == "train"', 'extra == "parquet"'))
        ),
    ]
