"""Bulk requests: documents from JSON lines, in batches that survive a crash."""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hummingbit.corpus.document import MAX_ID_LENGTH, Document, parse_document
from hummingbit.foundation.errors import InputError
from hummingbit.foundation.files import replace_file
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.encoding import batches, encode_documents, read_contents
from hummingbit.index.errors import StoreClosed
from hummingbit.index.filtered import FilteredCollection, visible
from hummingbit.index.filters import Filter
from hummingbit.service.concurrency import WriteGate
from hummingbit.service.http.bodies import parse_json
from hummingbit.service.http.problems import ProblemError, invalid_field
from hummingbit.service.jobs.work import Progress
from hummingbit.service.schemas.common import (
    check_fingerprint,
    check_id,
    check_payload,
    check_text,
    pointing_at,
)
from hummingbit.service.settings import Settings

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

    def __init__(self, folder: DataFolder, progress: Progress) -> None:
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


INPUT = "input.ndjson"
BATCH_LINES = 1000
# A parser keeps the interpreter lock until it is done. A text of a million characters has 6 MB if
# each of them is escaped.
MAX_LINE_BYTES = 8 << 20
MAX_LINE_VALUES = 250_000


@dataclass(frozen=True, slots=True)
class BulkOptions:
    """How lines are written. A job's `spec` holds these fields as JSON."""

    create_only: bool = False
    skip_unchanged: bool = False
    encoder_fingerprint: str | None = None
    """That of the encoder that made the codes, if it is to be checked."""


class Line(NamedTuple):
    """A valid line."""

    number: int
    document: Document


class RefusedLine(NamedTuple):
    """A line that is no document, and why."""

    number: int
    id: str | None
    problem: ProblemError


class BulkWriter:
    """Writes lines to a collection by its name, or by an alias, resolved for each batch."""

    def __init__(
        self,
        folder: DataFolder,
        gate: WriteGate,
        name: str,
        limits: Settings,
        options: BulkOptions,
        *,
        resume: Resume | None = None,
        filter: Filter | None = None,  # noqa: A002 - as in requests
    ) -> None:
        """Begin, or continue where the job of `resume` was interrupted.

        Documents that do not match a `filter` are refused, and so are ids of such documents.
        """
        self._folder = folder
        self._gate = gate
        self._name = name
        self._limits = limits
        self._options = options
        self._resume = resume
        self._filter = filter
        self.result = BulkResult() if resume is None else resume.result()

    def write(self, lines: Iterable[bytes]) -> None:
        """Write the valid ones of the next lines; they are on disk when this returns.

        Of lines with the same id, the last one is kept, or the first if documents are only created.

        Raises:
            ProblemError: 409 if the collection has (by now) another encoder than the codes.
            UnknownCollection: if the collection does not exist (any more).
            StoreError: if it cannot be written to.
        """
        with self._gate.writing():
            collection = visible(self._folder.collection(self._name), self._filter)
            check_fingerprint(collection, self._options.encoder_fingerprint)
            if self._resume is not None:
                self._resume.begin_batch(collection, self.result.counts())
            self.result.generation = collection.generation
            valid = [*self._parse_lines(collection, lines)]
            is_written = False
            while not is_written:
                valid = self._allowed(collection, valid)
                is_written = self._write_lines(collection, valid)

    def _allowed(self, collection: CollectionBackend, lines: list[Line]) -> list[Line]:
        """Return the lines to write, and refuse those that may not be written."""
        if isinstance(collection, FilteredCollection):
            lines = self._drop_outside(collection, lines)
        if self._options.skip_unchanged:
            lines = self._drop_unchanged(collection, lines)
        if self._options.create_only:
            lines = self._drop_existing(collection, lines)
        return lines

    def _write_lines(self, collection: CollectionBackend, lines: list[Line]) -> bool:
        """Write the lines and where the job is; return False if one may not be written any more.

        Another writer has written its document since.
        """
        self.result.written += len(lines)
        latest = _last_of_each_id(lines)
        bookmark = self._batch_bookmark()
        if not latest:
            if bookmark is not None:
                collection.set_bookmark(*bookmark)
            return True
        documents = [line.document for line in latest]
        settings = collection.encoder, collection.n_bits, collection.passages
        codes = encode_documents(documents, *settings)
        try:
            written = collection.upsert_encoded(documents, codes, bookmark, self._check_replaced)
        except InputError as error:
            if error.field != "id":
                raise
            self.result.written -= len(lines)
            return False
        self.result.generation = written.generation
        return True

    def _check_replaced(self, stored: Collection[str]) -> None:
        if stored and self._options.create_only:
            raise InputError("id", "is that of a document that exists")

    def record(self) -> None:
        """Save what was done so far in the record of the job, if it is one.

        Raises:
            JobStoreError: if it cannot be written.
        """
        if self._resume is not None:
            self._resume.record(self.result.counts())

    def _batch_bookmark(self) -> tuple[str, str] | None:
        """Return the bookmark to commit with the batch; None outside a job."""
        if self._resume is None:
            return None
        self._resume.save_errors(self.result.errors)
        return self._resume.key, json.dumps(self.result.counts())

    def _parse_lines(self, collection: CollectionBackend, lines: Iterable[bytes]) -> Iterator[Line]:
        """Yield the lines that the collection takes, and refuse the others."""
        parsed = [*self._parse_documents(lines)]
        documents = [line.document for line in parsed if isinstance(line, Line)]
        # An error found here, not when the batch is encoded, names its line.
        has_invalid = _problem_of(collection, documents) is not None
        for line in parsed:
            if isinstance(line, RefusedLine):
                self.result.refuse(*line)
                continue
            problem = _problem_of(collection, [line.document]) if has_invalid else None
            if problem is None:
                yield line
            else:
                self.result.refuse(line.number, line.document.id, problem)

    def _parse_documents(self, lines: Iterable[bytes]) -> Iterator[Line | RefusedLine]:
        """Yield the lines that are documents, whether or not the collection takes them."""
        for raw in lines:
            self.result.received += 1
            number, id_ = self.result.received, None
            if not raw.strip():
                continue
            try:
                _check_size(raw)
                record = parse_json(raw)
                id_ = record.get("id") if isinstance(record, dict) else None
                with pointing_at():
                    document = parse_document(record)
                check_id(document.id)
                check_text(document.text, self._limits)
                check_payload(document.payload, self._limits)
                yield Line(number, document)
            except ProblemError as problem:
                yield RefusedLine(number, id_ if isinstance(id_, str) else None, problem)

    def _drop_outside(self, collection: FilteredCollection, lines: list[Line]) -> list[Line]:
        """Refuse the lines that the filter does not allow to write."""
        remaining = []
        for line in lines:
            try:
                collection.check_documents([line.document])
            except InputError as error:
                problem = invalid_field(error.reason, error.field)
                self.result.refuse(line.number, line.document.id, problem)
            else:
                remaining.append(line)
        return remaining

    def _drop_unchanged(self, collection: CollectionBackend, lines: list[Line]) -> list[Line]:
        """Leave out documents that are stored exactly so; keep all lines of a repeated id."""
        counts = Counter(line.document.id for line in lines)
        unique = [line.document for line in lines if counts[line.document.id] == 1]
        changed = {document.id for document in collection.new_or_changed(unique)}
        remaining = [
            line for line in lines if line.document.id in changed or counts[line.document.id] > 1
        ]
        self.result.unchanged += len(lines) - len(remaining)
        return remaining

    def _drop_existing(self, collection: CollectionBackend, lines: list[Line]) -> list[Line]:
        """Refuse the lines whose ids exist, in the collection or in an earlier line."""
        existing = collection.existing_ids([line.document.id for line in lines])
        missing = []
        for line in lines:
            id_ = line.document.id
            if id_ in existing:
                message = f"document {id_[:80]!r} already exists"
                problem = ProblemError(412, "document_exists", message)
                self.result.refuse(line.number, id_, problem)
            else:
                existing.add(id_)
                missing.append(line)
        return missing


def write_file(path: Path, writer: BulkWriter, progress: Progress) -> None:
    """Write the remaining lines of a job's file."""
    progress.step = "writing"
    with path.open("rb") as file:
        progress.advance(total=sum(1 for _ in file))
        file.seek(0)
        remaining = itertools.islice(file, writer.result.received, None)
        progress.advance(writer.result.received)
        for lines in batches(remaining, BATCH_LINES):
            writer.write(lines)
            writer.record()
            progress.advance(len(lines))


def _problem_of(
    collection: CollectionBackend, documents: Sequence[Document]
) -> ProblemError | None:
    """Return why a collection takes no such documents, or None if it takes all of them."""
    try:
        with pointing_at():
            read_contents(documents, collection.encoder, collection.n_bits)
    except ProblemError as problem:
        return problem
    return None


def _check_size(raw: bytes) -> None:
    for count, limit, noun in (
        (len(raw), MAX_LINE_BYTES, "bytes"),
        (raw.count(b","), MAX_LINE_VALUES, "commas"),
    ):
        if count > limit:
            message = f"the line has {count:,} {noun}; the limit of a line is {limit:,}"
            raise ProblemError(413, "line_too_large", message)


def _last_of_each_id(lines: list[Line]) -> list[Line]:
    last = {line.document.id: line.number for line in lines}
    return [line for line in lines if last[line.document.id] == line.number]
