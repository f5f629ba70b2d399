"""Documents as JSON lines, in batches: each line is taken or refused by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpus.document import Document, parse_document
from index.backend import CollectionBackend, Folder
from index.batches import batches, last_of_each_id
from index.contents import encode_contents, read_contents
from service.body import parse_json
from service.errors import ProblemError
from service.jobs import Progress
from service.requests import check_id, check_text, located
from service.settings import Settings
from service.write_gate import WriteGate

INPUT = "input.ndjson"
BATCH_LINES = 1000
MAX_ERRORS = 1000


@dataclass(slots=True)
class BulkResult:
    """What has become of the lines so far; of the errors the first :data:`MAX_ERRORS` are kept."""

    received: int = 0
    written: int = 0
    failed: int = 0
    generation: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)

    def refuse(self, line: int, id_: str | None, problem: ProblemError) -> None:
        """Note that a line was refused."""
        self.failed += 1
        if len(self.errors) < MAX_ERRORS:
            error = {"line": line, "id": id_, "status": problem.status_code, "code": problem.code}
            self.errors.append({**error, "detail": problem.detail, "errors": list(problem.errors)})

    def to_dict(self) -> dict[str, Any]:
        """Return the result as it is answered."""
        return {
            "received": self.received,
            "written": self.written,
            "failed": self.failed,
            "generation": self.generation,
            "errors": self.errors,
            "errors_left_out": self.failed - len(self.errors),
        }


class BulkWriter:
    """Writes lines to a collection, or to what an alias means when each batch comes."""

    def __init__(
        self, folder: Folder, gate: WriteGate, name: str, limits: Settings, *, create_only: bool
    ) -> None:
        self._folder = folder
        self._gate = gate
        self._name = name
        self._limits = limits
        self._create_only = create_only
        self.result = BulkResult()

    def write(self, lines: Iterable[bytes]) -> None:
        """Write what is right of the lines, which follow those before; it is on disk after.

        Where an id comes twice, the last one stays; to create only, the first.

        Raises:
            UnknownCollection: if the collection is not there (any more).
            StoreError: if it cannot be written.
        """
        # To see that a document is not there and then to write it must be one step.
        with self._gate.closed() if self._create_only else self._gate.writing():
            collection = self._folder.collection(self._name)
            self.result.generation = collection.generation
            accepted = [*self._accepted(collection, lines)]
            if self._create_only:
                accepted = self._missing(collection, accepted)
            documents = last_of_each_id(document for _, document in accepted)
            if documents:
                codes = encode_contents(documents, collection.encoder, collection.n_bits)
                self.result.generation = collection.upsert_encoded(documents, codes).generation
            self.result.written += len(accepted)

    def _accepted(
        self, collection: CollectionBackend, lines: Iterable[bytes]
    ) -> Iterator[tuple[int, Document]]:
        for raw in lines:
            self.result.received += 1
            line, id_ = self.result.received, None
            if not raw.strip():
                continue
            try:
                record = parse_json(raw, self._limits.max_json_depth)
                id_ = record.get("id") if isinstance(record, dict) else None
                with located():
                    document = parse_document(record)
                    # What is found wrong now can be said of the line.
                    read_contents([document], collection.encoder, collection.n_bits)
                check_id(document.id, self._limits)
                check_text(document.text, self._limits)
                yield line, document
            except ProblemError as problem:
                self.result.refuse(line, id_ if isinstance(id_, str) else None, problem)

    def _missing(
        self, collection: CollectionBackend, accepted: list[tuple[int, Document]]
    ) -> list[tuple[int, Document]]:
        there = collection.existing([document.id for _, document in accepted])
        missing = []
        for line, document in accepted:
            if document.id in there:
                message = f"there is a document {document.id[:80]!a} already"
                self.result.refuse(line, document.id, ProblemError(412, "document_exists", message))
            else:
                there.add(document.id)
                missing.append((line, document))
        return missing


def write_file(path: Path, writer: BulkWriter, progress: Progress) -> dict[str, Any]:
    """Write the lines of a file, as a job."""
    with path.open("rb") as file:
        progress.advance(total=sum(1 for _ in file))
        file.seek(0)
        for lines in batches(file, BATCH_LINES):
            writer.write(lines)
            progress.advance(len(lines))
    return writer.result.to_dict()
