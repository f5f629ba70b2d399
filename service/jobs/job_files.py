"""The files of jobs: a folder for each, created before the job's record is written."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection
from pathlib import Path

from index.folder.partial import (
    begin_folder,
    finish_folder,
    finished_folders,
    make_folder,
    remove_folder,
    remove_partial_folders,
)
from service.jobs.job_store import JobStoreError

_log = logging.getLogger("hummingbit.service")


class JobFiles:
    """The folders of jobs below one path, named by the jobs' ids."""

    def __init__(self, path: Path) -> None:
        """Create the folder at `path` if it is missing, and delete drafts that a crash left behind.

        Raises:
            JobStoreError: if it cannot be created.
        """
        self.path = path
        try:
            make_folder(path)
            remove_partial_folders(path)
        except OSError as error:
            raise JobStoreError(f"{path}: {error.strerror or error}") from error

    def draft(self) -> Path:
        """Return an empty folder for a job that has no id yet.

        Raises:
            JobStoreError: if it cannot be created.
        """
        try:
            return begin_folder(self.path)
        except OSError as error:
            raise JobStoreError(f"{self.path}: {error.strerror or error}") from error

    def settle(self, draft: Path) -> str:
        """Make a draft the folder of a job, and return the job's id.

        Raises:
            OSError: if that fails.
        """
        return finish_folder(draft).name

    def of(self, id_: str) -> Path:
        """Return the folder of a job."""
        return self.path / id_

    def ids(self) -> list[str]:
        """Return the ids of the jobs that have a folder."""
        return [folder.name for folder in finished_folders(self.path)]

    def delete_all_but(self, names: Collection[str], id_: str) -> int:
        """Delete the files of a job except `names`; return the bytes of those that remain.

        Raises:
            OSError: if one cannot be deleted.
        """
        folder = self.of(id_)
        for path in folder.iterdir():
            if path.name in names:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        return bytes_of(folder)

    def remove(self, id_: str) -> None:
        """Delete the folder of a job without a record, if it exists; log a failure."""
        try:
            remove_folder(self.of(id_))
        except FileNotFoundError:
            return
        except OSError as error:  # the next start tries again
            _log.warning("the files of job %s cannot be deleted: %s", id_, error)

    def discard(self, draft: Path) -> None:
        """Delete a draft, unless it has become the folder of a job."""
        shutil.rmtree(draft, ignore_errors=True)


def bytes_of(folder: Path) -> int:
    """Return how many bytes the files of a folder hold."""
    return sum(path.stat().st_size for path in folder.iterdir())
