from __future__ import annotations

from pathlib import Path

import pytest

from hummingbit.corpus.document import Document
from hummingbit.index.catalog import remove_folder, remove_partial_folders
from hummingbit.index.data_folder import DataFolder


@pytest.mark.parametrize("is_partial", [False, True])
def test_of_a_linked_folder_the_link_is_deleted(tmp_path: Path, is_partial: bool) -> None:
    elsewhere, folders = tmp_path / "elsewhere", tmp_path / "folders"
    for folder in (elsewhere, folders):
        folder.mkdir()
    (elsewhere / "file").write_text("kept")
    link = folders / ("a.partial" if is_partial else "a")
    link.symlink_to(elsewhere)
    if is_partial:
        remove_partial_folders(folders)
    else:
        remove_folder(link)
    assert [*folders.iterdir()] == []
    assert (elsewhere / "file").read_text() == "kept"


def test_a_collection_on_another_disk_is_opened_and_deleted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with DataFolder(data, writable=True) as folder:
        folder.create_collection("c", n_bits=8).upsert([Document("a", code="00")])
    (moved,) = (data / "collections").iterdir()
    elsewhere = moved.rename(tmp_path / "elsewhere")
    moved.symlink_to(elsewhere)
    with DataFolder(data, writable=True) as folder:
        assert len(folder.collection("c")) == 1
        folder.drop_collection("c")
    with DataFolder(data, writable=True) as folder:
        assert not folder.collections()
    assert [*(data / "collections").iterdir()] == []
