"""Writes documents from JSON lines, in batches; each line is accepted or refused by itself."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from corpus.document import Document, parse_document
from encoder.codes import Codes
from index.backend import CollectionBackend
from index.encoded_inputs import batches, encode_documents, read_contents
from index.folder.protocol import Folder
from service.http.bodies.json_parser import parse_short_json
from service.http.problems import ProblemError
from service.jobs.bulk.bulk_progress import BulkResult, Resume
from service.jobs.work import Progress
from service.schemas.checks import (
    check_fingerprint,
    check_id,
    check_payload,
    check_text,
    pointing_at,
)
from service.settings import Settings
from service.write_gate import WriteGate

INPUT = "input.ndjson"
CONTENT = ("text", "vector")
BATCH_LINES = 1000


@dataclass(frozen=True, slots=True)
class BulkOptions:
    """How lines are written. A job's `spec` holds these fields as JSON."""

    create_only: bool = False
    skip_unchanged: bool = False
    encoder_fingerprint: str | None = None
    """That of the encoder that made the codes; with it, a line may have a code beside its text or
    vector."""


class Line(NamedTuple):
    """A valid line. `code` is the code that the line has beside a text or vector, if any."""

    number: int
    document: Document
    code: Codes | None


class BulkWriter:
    """Writes lines to a collection by its name, or by an alias, resolved for each batch."""

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
        """Begin, or continue where the job of `resume` was interrupted."""
        self._folder = folder
        self._gate = gate
        self._name = name
        self._limits = limits
        self._options = options
        self._resume = resume
        self.result = BulkResult() if resume is None else resume.result()

    def write(self, lines: Iterable[bytes]) -> None:
        """Write the valid ones of the next lines; they are on disk when this returns.

        Of lines with the same id, the last one is kept, or the first if documents are only created.

        Raises:
            ProblemError: 409 if the collection has (by now) another encoder than the codes.
            UnknownCollection: if the collection does not exist (any more).
            StoreError: if it cannot be written to.
        """
        # No writer may come between the check that a document is missing and its creation.
        with self._gate.closed() if self._options.create_only else self._gate.writing():
            collection = self._folder.collection(self._name)
            check_fingerprint(collection, self._options.encoder_fingerprint)
            if self._resume is not None:
                self._resume.begin_batch(collection, self.result.counts())
            self.result.generation = collection.generation
            valid = [*self._parse_lines(collection, lines)]
            if self._options.skip_unchanged:
                valid = self._drop_unchanged(collection, valid)
            if self._options.create_only:
                valid = self._drop_existing(collection, valid)
            self.result.written += len(valid)
            latest = _last_of_each_id(valid)
            bookmark = self._batch_bookmark()
            if latest:
                documents = [line.document for line in latest]
                codes = _codes_of(latest, collection)
                written = collection.upsert_encoded(documents, codes, bookmark)
                self.result.generation = written.generation
            elif bookmark is not None:
                collection.set_bookmark(*bookmark)

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
                    # An error found here, not when the batch is encoded, names its line.
                    read_contents([document], collection.encoder, collection.n_bits)
                check_id(document.id, self._limits)
                check_text(document.text, self._limits)
                check_payload(document.payload, self._limits)
                yield Line(number, document, code)
            except ProblemError as problem:
                self.result.refuse(number, id_ if isinstance(id_, str) else None, problem)

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


def _without_code(record: Any, n_bits: int) -> tuple[Any, Codes | None]:
    """Split the code from a record that has one beside a text or a vector.

    Raises:
        DocumentError, InputError: if it is not a code of `n_bits`.
    """
    has_content = isinstance(record, dict) and any(record.get(name) is not None for name in CONTENT)
    if not has_content or record.get("code") is None:
        return record, None
    document = parse_document({"id": record.get("id"), "code": record["code"]})
    rest = {field: value for field, value in record.items() if field != "code"}
    return rest, read_contents([document], None, n_bits).codes[0]


def _last_of_each_id(lines: list[Line]) -> list[Line]:
    last = {line.document.id: line.number for line in lines}
    return [line for line in lines if last[line.document.id] == line.number]


def _codes_of(lines: list[Line], collection: CollectionBackend) -> Codes:
    """Return the codes of the lines, ``uint8[N, n_bits / 8]``: their own, or encoded ones."""
    codes = np.zeros((len(lines), collection.n_bits // 8), dtype=np.uint8)
    places = [place for place, line in enumerate(lines) if line.code is None]
    documents = [lines[place].document for place in places]
    codes[places] = encode_documents(documents, collection.encoder, collection.n_bits)
    for place, line in enumerate(lines):
        if line.code is not None:
            codes[place] = line.code
    return codes
