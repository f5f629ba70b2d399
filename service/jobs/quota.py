"""How many jobs, and how many bytes in them, each owner may have."""

from __future__ import annotations

from dataclasses import dataclass

from service.http.problems import ProblemError
from service.jobs.job_store import JobStore


@dataclass(frozen=True, slots=True)
class Quota:
    """The most that is kept of each owner: finished jobs, unfinished jobs, and bytes of both."""

    finished: int = 1000
    unfinished: int = 32
    bytes: int = 256 << 20

    def make_room(self, store: JobStore, owner: str, bytes_: int) -> list[str]:
        """Forget the oldest finished jobs of `owner` until another job of so many bytes fits.

        Returns the ids of the jobs forgotten, whose files can go.

        Raises:
            ProblemError: 429 if it does not fit even then.
            JobStoreError: if the records cannot be read or written.
        """
        unfinished, held = store.held_by(owner)
        if unfinished >= self.unfinished:
            message = f"{unfinished} jobs of this key are not finished; wait for one of them"
            raise ProblemError(429, "too_many_jobs", message)
        forgotten = []
        for id_, freed in store.oldest_with_files(owner):
            if held + bytes_ <= self.bytes:
                break
            forgotten.append(id_)
            held -= freed
        if held + bytes_ > self.bytes:
            message = f"jobs of this key hold {held:,} bytes; {self.bytes:,} is the limit"
            raise ProblemError(429, "too_many_jobs", message)
        store.delete(forgotten)
        return forgotten
