"""The labels and judgements of a collection, with the same guarantees as its documents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hummingbit.encoder.codes import Codes
from hummingbit.foundation.errors import InputError
from hummingbit.foundation.processes import ProcessLock
from hummingbit.index.encoding import batches
from hummingbit.index.generations import PublishedIndex
from hummingbit.index.records import StoredDocument
from hummingbit.index.store.annotations import (
    JUDGEMENTS,
    LABELS,
    DocumentLabel,
    Judgement,
    Record,
    Table,
    count_records,
    find_records,
    read_marks,
    read_records,
)
from hummingbit.index.store.store import Changes, Store

# A copy lets other writers in after so many records.
RECORDS_AT_ONCE = 2000


class AnnotationResult(NamedTuple):
    """How many records were changed or deleted, and the generation."""

    changed: int
    generation: int


class Annotations:
    """The labels and judgements in one store. All methods are thread-safe.

    A write publishes a generation, as a write of documents does, and is durable once it returns.
    Deleting a document deletes its records; replacing a document keeps them.
    """

    def __init__(
        self, store: Store, write_lock: ProcessLock, published_index: PublishedIndex
    ) -> None:
        """Read and write `store`, whose writers hold `write_lock`."""
        self._store = store
        self._write_lock = write_lock
        self._published_index = published_index

    @property
    def generation(self) -> int:
        """The generation of the collection; every write of documents or records changes it."""
        return self._published_index.current().generation.number

    def labels(
        self,
        after: Sequence[str] = (),
        limit: int = -1,
        *,
        id_: str | None = None,
        who: str | None = None,
    ) -> list[DocumentLabel]:
        """Return the first `limit` labels after the key `after`, by (id, who); -1 means all."""
        with self._store.read_transaction() as connection:
            return read_records(connection, LABELS, after, limit, id=id_, who=who)

    def judgements(
        self,
        after: Sequence[str] = (),
        limit: int = -1,
        *,
        query: str | None = None,
        who: str | None = None,
    ) -> list[Judgement]:
        """Return the first `limit` judgements after the key `after`, by (query, id, who)."""
        with self._store.read_transaction() as connection:
            return read_records(connection, JUDGEMENTS, after, limit, query=query, who=who)

    def counts(self) -> tuple[int, int]:
        """Return the number of labels and the number of judgements."""
        with self._store.read_transaction() as connection:
            return count_records(connection, LABELS), count_records(connection, JUDGEMENTS)

    def sample(self, size: int, ids: Sequence[str] = ()) -> list[int]:
        """Return the rows of at most `size` random documents, and those of `ids`, ascending.

        The same documents give the same sample.
        """
        index_rows = self._published_index.current().generation.all_live_rows()
        rows = self._store.code_column.document_rows(index_rows)
        if len(rows) > size:
            rows = np.random.default_rng(0).choice(rows, size, replace=False)
        return sorted({*rows.tolist(), *self._store.rows_of(list(dict.fromkeys(ids)))})

    def documents(self, rows: Sequence[int]) -> list[StoredDocument]:
        """Return the documents of `rows` that still exist, by row.

        Raises:
            StoreError: if one is damaged.
        """
        return self._store.read_documents(rows)

    def set_labels(
        self, labels: Sequence[DocumentLabel], removed: Iterable[tuple[str, str]] = ()
    ) -> AnnotationResult:
        """Write `labels` and delete those with the keys (id, who) `removed`, all or none.

        Raises:
            InputError: if a document does not exist; its `position` says which of `labels`.
            StoreError: if the store cannot be written.
        """
        return self.write(LABELS, labels, removed)

    def set_judgements(
        self, judgements: Sequence[Judgement], removed: Iterable[tuple[str, str, str]] = ()
    ) -> AnnotationResult:
        """Write `judgements` and delete those with the keys (query, id, who) `removed`.

        Raises:
            InputError: if a document does not exist; its `position` says which of `judgements`.
            StoreError: if the store cannot be written.
        """
        return self.write(JUDGEMENTS, judgements, removed)

    def import_records(
        self, labels: Sequence[DocumentLabel], judgements: Sequence[Judgement]
    ) -> tuple[AnnotationResult, int]:
        """Write records of existing documents, all or none; skip those of other documents.

        The second value is the number of skipped records.

        Raises:
            StoreError: if the store cannot be written.
        """
        n_given = len(labels) + len(judgements)
        with self._write_lock, self._store.writing() as changes:
            known = self._known_documents([*labels, *judgements])
            labels = [label for label in labels if label.id in known]
            judgements = [judgement for judgement in judgements if judgement.id in known]
            changed = changes.write_records(LABELS, labels)
            changed += changes.write_records(JUDGEMENTS, judgements)
            return self._commit(changes, changed), n_given - len(labels) - len(judgements)

    def marks(self, table: Table[Any]) -> dict[tuple[str, ...], bytes]:
        """Return the checksum of every record by its key; equal records have equal checksums."""
        with self._store.read_transaction() as connection:
            return read_marks(connection, table)

    def find(self, table: Table[Record], keys: Iterable[tuple[str, ...]]) -> list[Record]:
        """Return the records with these keys; unknown keys are ignored."""
        with self._store.read_transaction() as connection:
            return find_records(connection, table, keys)

    def write(
        self,
        table: Table[Record],
        records: Sequence[Record],
        removed: Iterable[Sequence[str]] = (),
        *,
        skip_unknown: bool = False,
    ) -> AnnotationResult:
        """Write `records` and delete those with the keys `removed`, all or none.

        With `skip_unknown`, records of unknown documents are skipped.

        Raises:
            InputError: if a document does not exist; its `position` says which of `records`.
            StoreError: if the store cannot be written.
        """
        with self._write_lock, self._store.writing() as changes:
            known = self._known_documents(records)
            if skip_unknown:
                records = [record for record in records if record.id in known]
            for position, record in enumerate(records):
                if record.id not in known:
                    reason = f"there is no document {record.id[:80]!r}"
                    raise InputError("id", reason, position)
            changed = changes.delete_records(table, removed)
            changed += changes.write_records(table, records)
            return self._commit(changes, changed)

    def _commit(self, changes: Changes, changed: int) -> AnnotationResult:
        if not changed:
            return AnnotationResult(0, changes.generation)
        codes: Codes = np.empty((0, self._store.description.n_bits // 8), dtype=np.uint8)
        rows = np.empty(0, dtype=np.int64)
        return AnnotationResult(changed, self._published_index.publish(changes, codes, rows, rows))

    def _known_documents(self, records: Sequence[DocumentLabel | Judgement]) -> Collection[str]:
        """Return the ids of those documents of records that exist."""
        return self._store.read_marks(list(dict.fromkeys(record.id for record in records))).keys()


@dataclass(frozen=True, slots=True)
class CopiedMarks:
    """What a copy has left to read: the marks of the target, and the source they were copied from.

    `generation` is the source's when the copy began, and `is_whole` tells whether the target had
    all of its records afterwards.
    """

    generation: int
    is_whole: bool
    of_target: Mapping[str, Mapping[tuple[str, ...], bytes]]
    """By the name of the table."""


_TABLES: tuple[Table[Any], ...] = (LABELS, JUDGEMENTS)


def copy_most_annotations(source: Annotations, target: Annotations) -> CopiedMarks:
    """Copy records of `source` that `target` lacks, while others write to `source`.

    Records of documents that are not in the target yet are skipped, and none are deleted.
    :func:`copy_annotations` does the rest; until then, nobody else may write to the target.

    Raises:
        StoreError: if one of the stores fails.
    """
    generation = source.generation
    is_whole, of_target = True, {}
    for table in _TABLES:
        source_marks, target_marks = source.marks(table), target.marks(table)
        changed = [key for key, mark in source_marks.items() if target_marks.get(key) != mark]
        for keys in batches(changed, RECORDS_AT_ONCE):
            target.write(table, source.find(table, keys), skip_unknown=True)
        of_target[table.name] = target.marks(table)
        is_whole = is_whole and of_target[table.name] == source_marks
    return CopiedMarks(generation, is_whole, of_target)


def copy_annotations(
    source: Annotations, target: Annotations, copied: CopiedMarks | None = None
) -> None:
    """Make the records of `target` equal to those of `source`, to which nobody writes meanwhile.

    Equal records are not written again. With `copied`, the result of :func:`copy_most_annotations`,
    the marks of the target are not read, and those of the source only if it was written to since.

    Raises:
        InputError: if a document is not in the target.
        StoreError: if one of the stores fails.
    """
    if copied is not None and copied.is_whole and copied.generation == source.generation:
        return
    for table in _TABLES:
        source_marks = source.marks(table)
        target_marks = target.marks(table) if copied is None else copied.of_target[table.name]
        changed = [key for key, mark in source_marks.items() if target_marks.get(key) != mark]
        removed = [key for key in target_marks if key not in source_marks]
        if changed or removed:
            target.write(table, source.find(table, changed), removed)
