"""What was done with the lines of a bulk request, and how its job keeps this through a crash."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from corpus.document import MAX_ID_LENGTH
from foundation.files import replace_file
from index.backend import CollectionBackend
from index.errors import StoreClosed
from index.folder.protocol import Folder
from service.http.problems import ProblemError
from service.jobs.work import Progress

ERRORS = "errors.ndjson"
MAX_ERRORS = 1000
TARGETS = "collections"
COUNTS = ("received", "written", "unchanged", "failed", "generation")


@dataclass(slots=True)
class BulkResult:
    """What was done with the lines so far, and the first :data:`MAX_ERRORS` errors."""

    received: int = 0
    written: int = 0
    unchanged: int = 0
    failed: int = 0
    generation: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Return everything but the errors."""
        return {name: getattr(self, name) for name in COUNTS}

    def refuse(self, line: int, id_: str | None, problem: ProblemError) -> None:
        """Count a refused line, and keep its problem."""
        self.failed += 1
        if len(self.errors) < MAX_ERRORS:
            # An invalid id may be as long as its line.
            id_ = None if id_ is None else id_[:MAX_ID_LENGTH]
            error = {"line": line, "id": id_, "status": problem.status_code, "code": problem.code}
            self.errors.append({**error, "detail": problem.detail, "errors": list(problem.errors)})

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON, as the response and the job's record have it."""
        return {
            **self.counts(),
            "errors": sorted(self.errors, key=lambda error: error["line"]),
            "errors_left_out": self.failed - len(self.errors),
        }


class Resume:
    """The progress of a bulk job, which it saves in three places.

    Before its first batch for a collection, the job's record gets the collection's name. Each batch
    commits a bookmark in the same transaction as its documents, so each line is written once,
    however often the job starts: it does not overwrite what others wrote to the same ids since, and
    a job that only creates does not find its own documents. The job's record says the same a moment
    later, for collections that keep no bookmarks. The errors are in a file of the job, and on disk
    before the batch is committed.
    """

    def __init__(self, folder: Folder, progress: Progress) -> None:
        self._folder = folder
        self._progress = progress
        self._errors = progress.folder / ERRORS
        self._n_saved = 0
        recorded = dict(progress.recorded or {})
        # Records of earlier versions name no collection, so any may have a bookmark.
        is_named = progress.recorded is None or TARGETS in recorded
        self._targets: list[str] | None = recorded.pop(TARGETS, []) if is_named else None
        self._recorded = recorded

    @property
    def key(self) -> str:
        """The key of the bookmarks of this job."""
        return self._progress.job.id

    def result(self) -> BulkResult:
        """Return the result so far."""
        records: list[dict[str, Any]] = [
            json.loads(bookmark) for _, bookmark in self._bookmarks() if bookmark is not None
        ]
        if self._recorded:
            records.append(self._recorded)
        result = BulkResult()
        if records:
            result = BulkResult(**max(records, key=lambda counts: int(counts["received"])))
        self._n_saved = min(result.failed, MAX_ERRORS)
        if self._errors.exists():
            lines = self._errors.read_text(encoding="utf-8").splitlines()[: self._n_saved]
            result.errors = [json.loads(line) for line in lines]
            # The rest belongs to a batch that was not committed, and will be written again.
            replace_file(self._errors, "".join(f"{line}\n" for line in lines))
        return result

    def begin_batch(self, collection: CollectionBackend, counts: Mapping[str, int]) -> None:
        """Record that `collection` may have a bookmark; `counts` are those before the batch.

        Raises:
            JobStoreError: if that cannot be written.
        """
        if self._targets is not None and collection.name not in self._targets:
            self._targets.append(collection.name)
            self.record(counts)

    def record(self, counts: Mapping[str, int]) -> None:
        """Save the counts so far in the job's record.

        Raises:
            JobStoreError: if that cannot be written.
        """
        targets = {} if self._targets is None else {TARGETS: self._targets}
        self._progress.record({**counts, **targets})

    def save_errors(self, errors: Sequence[Mapping[str, Any]]) -> None:
        """Append the errors that are not saved yet to the job's file, and sync it."""
        if len(errors) == self._n_saved:
            return
        with self._errors.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(error)}\n" for error in errors[self._n_saved :])
            file.flush()
            os.fsync(file.fileno())
        self._n_saved = len(errors)

    def end(self) -> None:
        """Delete the bookmarks, once the record says that nothing is left to do."""
        for collection, bookmark in self._bookmarks():
            if bookmark is not None:
                with suppress(StoreClosed):  # it was dropped at this moment
                    collection.set_bookmark(self.key, None)

    def _bookmarks(self) -> Iterator[tuple[CollectionBackend, str | None]]:
        """Yield the collections that may have a bookmark, and the bookmark of each."""
        for name, collection in self._folder.collections().items():
            if self._targets is None or name in self._targets:
                with suppress(StoreClosed):
                    yield collection, collection.read_bookmark(self.key)
