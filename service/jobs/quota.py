"""Limits the jobs of each owner, and the bytes of their files."""

from __future__ import annotations

from dataclasses import dataclass

from service.http.problems import ProblemError
from service.jobs.job_store import JobStore


@dataclass(frozen=True, slots=True)
class Quota:
    """What each owner may have: finished jobs, unfinished jobs, and the bytes of their files."""

    finished: int = 1000
    unfinished: int = 32
    bytes: int = 256 << 20

    def make_room(self, store: JobStore, owner: str, bytes_: int) -> list[str]:
        """Delete the oldest finished jobs of `owner` until another job of `bytes_` bytes fits.

        Returns the ids of the deleted records, whose files the caller deletes.

        Raises:
            ProblemError: 429 if it does not fit even then.
            JobStoreError: if the records cannot be read or written.
        """
        unfinished, held = store.usage_of(owner)
        if unfinished >= self.unfinished:
            message = f"{unfinished} jobs of this key are not finished; wait until one of them is"
            raise ProblemError(429, "too_many_jobs", message)
        deleted = []
        for id_, size in store.oldest_with_files(owner):
            if held + bytes_ <= self.bytes:
                break
            deleted.append(id_)
            held -= size
        if held + bytes_ > self.bytes:
            message = (
                f"the job has {bytes_:,} bytes and unfinished jobs of this key {held:,}; together"
                f" they may have {self.bytes:,}"
            )
            raise ProblemError(429, "too_many_jobs", message)
        store.delete(deleted)
        return deleted
