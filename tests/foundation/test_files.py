from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hummingbit.foundation.files import (
    remove_leftovers,
    replace_file,
    replace_folder,
    replacing,
    scratch_folder,
    write_file,
)

ROOT = Path(__file__).parents[2]


def test_a_file_takes_the_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "aliases.json"
    replace_file(path, "äbc")
    replace_file(path, b"\xff")
    assert path.read_bytes() == b"\xff"
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    write_file(path, "before")
    with pytest.raises(ValueError, match="stopped"), replacing(path) as partial:  # noqa: PT012
        partial.write_text("half")
        raise ValueError("stopped")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_was_not_written_replaces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    write_file(path, "before")
    with pytest.raises(FileNotFoundError), replacing(path):
        pass
    assert path.read_text() == "before"


def test_a_file_that_is_replaced_is_synced_once_and_its_folder_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    replace_file(tmp_path / "aliases.json", "{}")
    assert synced == ["aliases.json.partial", tmp_path.name]


def test_a_folder_that_cannot_be_replaced_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "encoder"
    replace_folder(folder, {"model": b"before"})
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if self.name == "written":
            raise OSError("full")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(OSError, match="full"):
        replace_folder(folder, {"model": b"after"})
    assert (folder / "model").read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [folder]


KILLED = """
import os, sys
from pathlib import Path
from hummingbit.foundation.files import replace_folder
rename, renames = Path.rename, int(sys.argv[2])
def counted(self, target):
    global renames
    if not renames:
        os.kill(os.getpid(), 9)
    renames -= 1
    return rename(self, target)
Path.rename = counted
replace_folder(Path(sys.argv[1]), {"model": b"after"})
"""


@pytest.mark.parametrize("renames", [0, 1])
@pytest.mark.parametrize("cleaned_by", ["the next write", "a call"])
def test_what_a_killed_process_was_writing_is_cleaned_up(
    tmp_path: Path, renames: int, cleaned_by: str
) -> None:
    folder = tmp_path / "my-encoder"
    replace_folder(folder, {"model": b"before"})
    command = [sys.executable, "-c", KILLED, str(folder), str(renames)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -9
    assert len(list(tmp_path.glob(".writing-*"))) == 1
    if cleaned_by == "a call":
        remove_leftovers(tmp_path)
        assert (folder / "model").read_bytes() == b"before"
        assert list(tmp_path.iterdir()) == [folder]
    replace_folder(tmp_path / "other", {"model": b"other"})
    assert (folder / "model").read_bytes() == b"before"
    assert sorted(tmp_path.iterdir()) == [folder, tmp_path / "other"]


def test_only_what_nobody_uses_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch_folder("reader-") as used:
        (tmp_path / "reader-killed").mkdir()
        (tmp_path / "reader-file").touch()
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "reader-link").symlink_to(tmp_path / "elsewhere")
        with scratch_folder("reader-") as second:
            assert used.is_dir()
            assert second.is_dir()
            assert not (tmp_path / "reader-killed").exists()
    left = {"reader-file", "elsewhere", "reader-link"}
    assert {path.name for path in tmp_path.iterdir()} == left
    # An earlier version did not name whose place this had lost, so nothing is deleted.
    for part in ("replaced", "written"):
        (tmp_path / ".writing-abcd1234" / part).mkdir(parents=True)
    (tmp_path / ".writing-efgh5678" / "written").mkdir(parents=True)
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == left | {".writing-abcd1234"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes in folders")
def test_a_device_or_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(pipe)
    for path in (pipe, tmp_path / "link"):
        # Opened for both, so that neither end waits for the other.
        descriptor = os.open(pipe, os.O_RDWR)
        try:
            replace_file(path, "new")
            assert os.read(descriptor, 10) == b"new"
        finally:
            os.close(descriptor)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert (tmp_path / "link").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_write_to_a_full_disk_names_the_file() -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_file(Path("/dev/full"), "content")


def test_an_error_in_a_replacement_names_the_file_to_replace(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    with pytest.raises(OSError, match=r"File too large: '.*export\.jsonl'"), replacing(path):
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    with pytest.raises(FileNotFoundError, match="other"), replacing(path):
        (tmp_path / "other").read_bytes()
