from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hummingbit.errors
from hummingbit import Collection
from hummingbit.errors import HummingbitError, InputError, ServiceError, UnknownCollection


def test_a_caller_catches_what_the_library_raises(tmp_path: Path) -> None:
    with pytest.raises(HummingbitError, match="No such file or directory"):
        Collection.open(tmp_path / "data", "news")
    assert issubclass(UnknownCollection, LookupError)
    assert issubclass(InputError, HummingbitError)


def test_all_but_the_clients_error_are_of_one_family() -> None:
    errors = {getattr(hummingbit.errors, name) for name in hummingbit.errors.__all__}
    assert {error for error in errors if not issubclass(error, HummingbitError)} == {ServiceError}


def test_a_project_may_have_folders_of_the_same_names(tmp_path: Path) -> None:
    for folder in ("index", "service", "training", "evaluation", "corpus", "encoder"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("raise RuntimeError('the wrong folder')\n")
    code = "from hummingbit import Collection, SemanticHasher, errors; errors.StoreError"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=300)
    subprocess.run(
        [sys.executable, "-m", "hummingbit", "--version"], cwd=tmp_path, check=True, timeout=300
    )
