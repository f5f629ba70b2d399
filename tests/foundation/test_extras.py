from __future__ import annotations

import shlex
import tomllib
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


def test_a_group_of_a_checkout_is_named_with_its_file() -> None:
    *_, option, place = shlex.split(install_command("train", group="experiments"))
    file, _, group = place.rpartition(":")
    groups = tomllib.loads(Path(file).read_text())["dependency-groups"]
    assert option == "--group"
    assert any(package.startswith("scikit-posthocs") for package in groups[group])


def listed(*endings: str) -> list[str]:
    return sorted(
        requirement.partition(";")[0].strip()
        for requirement in requires("hummingbit") or []
        if requirement.endswith(endings) and not requirement.startswith("hummingbit[")
    )


def test_elsewhere_the_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(errors, "ROOT", tmp_path)
    packages = shlex.split(install_command("parquet", "map"))
    assert packages == ["pip", "install", *listed('extra == "parquet"', 'extra == "map"')]


def test_the_packages_of_an_extra_that_another_has_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nobody is told to install a name that is not registered."""
    monkeypatch.setattr(errors, "ROOT", tmp_path)
    packages = shlex.split(install_command("train"))[2:]
    assert packages == listed('extra == "train"', 'extra == "serve"')
    assert any(package.startswith("uvicorn") for package in packages)
    assert any(package.startswith("torch") for package in packages)
