"""Documents as JSON lines, in batches: each line is taken or refused by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from corpus.document import Document, parse_document
from encoder.codes import Codes
from index.backend import CollectionBackend, Folder
from index.inputs import batches, encode_documents, read_contents
from service.http.body import parse_json
from service.http.problems import ProblemError
from service.jobs.runner import Progress
from service.schemas.checks import check_fingerprint, check_id, check_text, located
from service.settings import Settings
from service.write_gate import WriteGate

INPUT = "input.ndjson"
CONTENT = ("text", "vector")
BATCH_LINES = 1000
MAX_ERRORS = 1000


@dataclass(slots=True)
class BulkResult:
    """What has become of the lines so far; of the errors the first :data:`MAX_ERRORS` are kept."""

    received: int = 0
    written: int = 0
    unchanged: int = 0
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
            "unchanged": self.unchanged,
            "failed": self.failed,
            "generation": self.generation,
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
        self, folder: Folder, gate: WriteGate, name: str, limits: Settings, options: BulkOptions
    ) -> None:
        self._folder = folder
        self._gate = gate
        self._name = name
        self._limits = limits
        self._options = options
        self.result = BulkResult()

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
            last = _last_of_each_id(accepted)
            if last:
                documents = [line.document for line in last]
                codes = _codes_of(last, collection)
                self.result.generation = collection.upsert_encoded(documents, codes).generation
            self.result.written += len(accepted)

    def _accepted(self, collection: CollectionBackend, lines: Iterable[bytes]) -> Iterator[Line]:
        for raw in lines:
            self.result.received += 1
            number, id_ = self.result.received, None
            if not raw.strip():
                continue
            try:
                record = parse_json(raw, self._limits.max_json_depth)
                id_ = record.get("id") if isinstance(record, dict) else None
                code = None
                with located():
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
        changed = {document.id for document in collection.changed(once)}
        kept = [
            line for line in accepted if line.document.id in changed or times[line.document.id] > 1
        ]
        self.result.unchanged += len(accepted) - len(kept)
        return kept

    def _missing(self, collection: CollectionBackend, accepted: list[Line]) -> list[Line]:
        there = collection.existing([line.document.id for line in accepted])
        missing = []
        for line in accepted:
            id_ = line.document.id
            if id_ in there:
                message = f"there is a document {id_[:80]!a} already"
                problem = ProblemError(412, "document_exists", message)
                self.result.refuse(line.number, id_, problem)
            else:
                there.add(id_)
                missing.append(line)
        return missing


def write_file(path: Path, writer: BulkWriter, progress: Progress) -> dict[str, Any]:
    """Write the lines of a file, as a job."""
    progress.step = "writing"
    with path.open("rb") as file:
        progress.advance(total=sum(1 for _ in file))
        file.seek(0)
        for lines in batches(file, BATCH_LINES):
            writer.write(lines)
            progress.advance(len(lines))
    return writer.result.to_dict()


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
