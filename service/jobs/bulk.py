"""Documents as JSON lines, in batches: each line is taken or refused by itself."""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from corpus.document import Document, parse_document
from encoder.codes import Codes
from foundation.files import replace_file
from index.backend import CollectionBackend
from index.encoded_inputs import batches, encode_documents, read_contents
from index.folder.protocol import Folder
from service.http.bodies.json_parser import parse_short_json
from service.http.problems import ProblemError
from service.jobs.work import Progress
from service.schemas.checks import check_fingerprint, check_id, check_text, pointing_at
from service.settings import Settings
from service.write_gate import WriteGate

INPUT = "input.ndjson"
ERRORS = "errors.ndjson"
CONTENT = ("text", "vector")
BATCH_LINES = 1000
MAX_ERRORS = 1000
COUNTS = ("received", "written", "unchanged", "failed", "generation")


@dataclass(slots=True)
class BulkResult:
    """What has become of the lines so far; of the errors the first :data:`MAX_ERRORS` are kept."""

    received: int = 0
    written: int = 0
    unchanged: int = 0
    failed: int = 0
    generation: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Return all but the errors."""
        return {name: getattr(self, name) for name in COUNTS}

    def refuse(self, line: int, id_: str | None, problem: ProblemError) -> None:
        """Note that a line was refused."""
        self.failed += 1
        if len(self.errors) < MAX_ERRORS:
            error = {"line": line, "id": id_, "status": problem.status_code, "code": problem.code}
            self.errors.append({**error, "detail": problem.detail, "errors": list(problem.errors)})

    def to_dict(self) -> dict[str, Any]:
        """Return the result as it is answered."""
        return {
            **self.counts(),
            "errors": sorted(self.errors, key=lambda error: error["line"]),
            "errors_left_out": self.failed - len(self.errors),
        }


@dataclass(frozen=True, slots=True)
class BulkOptions:
    """How lines are taken; as JSON it is what a job's `spec` holds."""

    create_only: bool = False
    skip_unchanged: bool = False
    encoder_fingerprint: str | None = None
    """Of the encoder that made the codes; with it, a line may have a code beside its content."""


class Line(NamedTuple):
    """A line that is right. `code` is the one that was given beside a text or a vector."""

    number: int
    document: Document
    code: Codes | None


class BulkWriter:
    """Writes lines to a collection, or to what an alias means when each batch comes."""

    def __init__(
        self,
        folder: Folder,
        gate: WriteGate,
        name: str,
        limits: Settings,
        options: BulkOptions,
        *,
        resume: Resume | None = None,
    ) -> None:
        """Begin, or go on where the job that `resume` is of was interrupted."""
        self._folder = folder
        self._gate = gate
        self._name = name
        self._limits = limits
        self._options = options
        self._resume = resume
        self.result = BulkResult() if resume is None else resume.result()

    def write(self, lines: Iterable[bytes]) -> None:
        """Write what is right of the lines, which follow those before; it is on disk after.

        Where an id comes twice, the last one stays; to create only, the first.

        Raises:
            ProblemError: 409 if the collection is (by now) of another encoder than the codes.
            UnknownCollection: if the collection is not there (any more).
            StoreError: if it cannot be written.
        """
        # To see that a document is not there and then to write it must be one step.
        with self._gate.closed() if self._options.create_only else self._gate.writing():
            collection = self._folder.collection(self._name)
            check_fingerprint(collection, self._options.encoder_fingerprint)
            self.result.generation = collection.generation
            accepted = [*self._accepted(collection, lines)]
            if self._options.skip_unchanged:
                accepted = self._changed(collection, accepted)
            if self._options.create_only:
                accepted = self._missing(collection, accepted)
            self.result.written += len(accepted)
            last = _last_of_each_id(accepted)
            bookmark = self._bookmark()
            if last:
                documents = [line.document for line in last]
                codes = _codes_of(last, collection)
                written = collection.upsert_encoded(documents, codes, bookmark)
                self.result.generation = written.generation
            elif bookmark is not None:
                collection.set_bookmark(*bookmark)

    def _bookmark(self) -> tuple[str, str] | None:
        """Return what is to be noted with the batch; None in a request that is not resumed."""
        if self._resume is None:
            return None
        self._resume.keep(self.result.errors)
        return self._resume.key, json.dumps(self.result.counts())

    def _accepted(self, collection: CollectionBackend, lines: Iterable[bytes]) -> Iterator[Line]:
        for raw in lines:
            self.result.received += 1
            number, id_ = self.result.received, None
            if not raw.strip():
                continue
            try:
                record = parse_short_json(raw, self._limits.max_json_depth)
                id_ = record.get("id") if isinstance(record, dict) else None
                code = None
                with pointing_at():
                    if self._options.encoder_fingerprint is not None:
                        record, code = _without_code(record, collection.n_bits)
                    document = parse_document(record)
                    # What is found wrong now can be said of the line.
                    read_contents([document], collection.encoder, collection.n_bits)
                check_id(document.id, self._limits)
                check_text(document.text, self._limits)
                yield Line(number, document, code)
            except ProblemError as problem:
                self.result.refuse(number, id_ if isinstance(id_, str) else None, problem)

    def _changed(self, collection: CollectionBackend, accepted: list[Line]) -> list[Line]:
        """Leave out the lines that the collection holds; of an id that comes twice, no line."""
        times = Counter(line.document.id for line in accepted)
        once = [line.document for line in accepted if times[line.document.id] == 1]
        changed = {document.id for document in collection.new_or_changed(once)}
        chosen = [
            line for line in accepted if line.document.id in changed or times[line.document.id] > 1
        ]
        self.result.unchanged += len(accepted) - len(chosen)
        return chosen

    def _missing(self, collection: CollectionBackend, accepted: list[Line]) -> list[Line]:
        there = collection.existing_ids([line.document.id for line in accepted])
        missing = []
        for line in accepted:
            id_ = line.document.id
            if id_ in there:
                message = f"document {id_[:80]!a} already exists"
                problem = ProblemError(412, "document_exists", message)
                self.result.refuse(line.number, id_, problem)
            else:
                there.add(id_)
                missing.append(line)
        return missing


class Resume:
    """How far a bulk job has come, in three places.

    Each batch commits a bookmark in the same transaction of the collection as its documents, so a
    line is written once, however often the job is begun: what others have written to the same ids
    since stays, and a job that only creates does not meet its own documents. The record of the job
    says the same a moment later; it counts where the collection keeps no bookmarks. The errors lie
    in a file of the job, and are on disk before the batch is committed.
    """

    def __init__(self, folder: Folder, progress: Progress) -> None:
        self._folder = folder
        self._progress = progress
        self._errors = progress.folder / ERRORS
        self._kept = 0

    @property
    def key(self) -> str:
        """The key of the bookmarks of this job."""
        return self._progress.job.id

    def result(self) -> BulkResult:
        """Return what has become of the lines that are done with."""
        # An alias may have been moved between two batches.
        marks = (one.bookmark(self.key) for one in self._folder.collections().values())
        found: list[dict[str, Any]] = [json.loads(mark) for mark in marks if mark is not None]
        if self._progress.recorded is not None:
            found.append(self._progress.recorded)
        result = BulkResult()
        if found:
            result = BulkResult(**max(found, key=lambda counts: int(counts["received"])))
        self._kept = min(result.failed, MAX_ERRORS)
        if self._errors.exists():
            lines = self._errors.read_text(encoding="utf-8").splitlines()[: self._kept]
            result.errors = [json.loads(line) for line in lines]
            # What follows is of a batch that was not committed, and will be done again.
            replace_file(self._errors, "".join(f"{line}\n" for line in lines))
        return result

    def keep(self, errors: Sequence[Mapping[str, Any]]) -> None:
        """Have the errors on disk."""
        if len(errors) == self._kept:
            return
        with self._errors.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(error)}\n" for error in errors[self._kept :])
            file.flush()
            os.fsync(file.fileno())
        self._kept = len(errors)

    def end(self) -> None:
        """Delete the bookmarks; the record says that nothing is left to do."""
        for collection in self._folder.collections().values():
            if collection.bookmark(self.key) is not None:
                collection.set_bookmark(self.key, None)


def write_file(path: Path, writer: BulkWriter, progress: Progress) -> None:
    """Write the lines of a file that are left to do, as a job."""
    progress.step = "writing"
    with path.open("rb") as file:
        progress.advance(total=sum(1 for _ in file))
        file.seek(0)
        left = itertools.islice(file, writer.result.received, None)
        progress.advance(writer.result.received)
        for lines in batches(left, BATCH_LINES):
            writer.write(lines)
            progress.record(dict(writer.result.counts()))
            progress.advance(len(lines))


def _without_code(record: Any, n_bits: int) -> tuple[Any, Codes | None]:
    """Take the code from a record that has it beside a text or a vector.

    Raises:
        DocumentError, InputError: if it is no code of `n_bits`.
    """
    beside = isinstance(record, dict) and any(record.get(one) is not None for one in CONTENT)
    if not beside or record.get("code") is None:
        return record, None
    coded = parse_document({"id": record.get("id"), "code": record["code"]})
    rest = {field: value for field, value in record.items() if field != "code"}
    return rest, read_contents([coded], None, n_bits).codes[0]


def _last_of_each_id(lines: list[Line]) -> list[Line]:
    last = {line.document.id: line.number for line in lines}
    return [line for line in lines if last[line.document.id] == line.number]


def _codes_of(lines: list[Line], collection: CollectionBackend) -> Codes:
    """Return the codes of the lines, ``uint8[N, n_bits / 8]``, given or made."""
    codes = np.zeros((len(lines), collection.n_bits // 8), dtype=np.uint8)
    places = [place for place, line in enumerate(lines) if line.code is None]
    made = [lines[place].document for place in places]
    codes[places] = encode_documents(made, collection.encoder, collection.n_bits)
    for place, line in enumerate(lines):
        if line.code is not None:
            codes[place] = line.code
    return codes
