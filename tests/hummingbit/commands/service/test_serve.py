from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from hummingbit.cli import main
from tests.support.service import serving_process


@pytest.mark.parametrize(
    ("made", "found"), [(False, "does not exist"), (True, "holds no encoders/")]
)
def test_a_folder_of_other_files_and_a_missing_one_are_served_only_if_so_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: bool, found: str
) -> None:
    folder = tmp_path / "data"
    if made:
        folder.mkdir()
        (folder / "letter.txt").touch()
    assert main(["serve", "--data-dir", str(folder), "--port", "0"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"hummingbit: --data-dir {folder}: {found}")
    assert "create an empty one with --create" in said
    assert folder.exists() == made
    with serving_process(folder) as (_, address):
        assert httpx.get(f"{address}/livez").status_code == 200
    assert (folder / "collections").is_dir()
