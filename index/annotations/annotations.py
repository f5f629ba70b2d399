"""The labels and judgements of a collection: read, written and deleted as its documents are."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from encoder.codes import Codes
from foundation.errors import InputError
from index.annotations.annotation_records import DocumentLabel, Judgement
from index.encoded_inputs import batches
from index.generations.publication import Publication
from index.records import StoredDocument
from index.sqlite.annotation_tables import (
    JUDGEMENTS,
    LABELS,
    Record,
    Table,
    count_records,
    find_records,
    read_marks,
    read_records,
)
from index.sqlite.changes import Changes
from index.sqlite.store import Store

# Records that are copied before other writers have their turn.
COPIED_AT_ONCE = 2000


class AnnotationResult(NamedTuple):
    """How many records say something else than before, or were deleted, and the generation."""

    changed: int
    generation: int


class Annotations:
    """What people say of the documents in one store. All methods are thread-safe.

    A write raises the generation, as one of documents does, and is durable once it returns.
    Deleting a document deletes what is said of it; replacing one keeps it.
    """

    def __init__(self, store: Store, writing: threading.Lock, publication: Publication) -> None:
        """Read and write `store`; `writing` is the lock that its writers hold."""
        self._store = store
        self._write_lock = writing
        self._publication = publication

    def labels(
        self,
        after: Sequence[str] = (),
        limit: int = -1,
        *,
        id_: str | None = None,
        who: str | None = None,
    ) -> list[DocumentLabel]:
        """Return the first `limit` labels above the key `after`, by (id, who); -1 is all."""
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
        """Return the first `limit` judgements above the key `after`, by (query, id, who)."""
        with self._store.read_transaction() as connection:
            return read_records(connection, JUDGEMENTS, after, limit, query=query, who=who)

    def counts(self) -> tuple[int, int]:
        """Return how many labels there are, and how many judgements."""
        with self._store.read_transaction() as connection:
            return count_records(connection, LABELS), count_records(connection, JUDGEMENTS)

    def sample(self, most: int, wanted: Sequence[str] = ()) -> list[int]:
        """Return the rows of at most `most` documents drawn at random, and of the `wanted` ids.

        Rows ascend. Of the same documents the same are drawn.
        """
        rows = self._publication.current().generation.codes()[1]
        if len(rows) > most:
            rows = np.random.default_rng(0).choice(rows, most, replace=False)
        return sorted({*rows.tolist(), *self._store.rows_of(list(dict.fromkeys(wanted)))})

    def documents(self, rows: Sequence[int]) -> list[StoredDocument]:
        """Return the documents of `rows` that are still there, by row.

        Raises:
            StoreError: if one is not what was written.
        """
        return self._store.read_documents(rows)

    def set_labels(
        self, labels: Sequence[DocumentLabel], removed: Iterable[tuple[str, str]] = ()
    ) -> AnnotationResult:
        """Write `labels` and delete those of the keys (id, who) `removed`: all of it, or nothing.

        Raises:
            InputError: if a document is not there; its position says which of `labels` it is of.
            StoreError: if the store cannot be written.
        """
        return self.write(LABELS, labels, removed)

    def set_judgements(
        self, judgements: Sequence[Judgement], removed: Iterable[tuple[str, str, str]] = ()
    ) -> AnnotationResult:
        """Write `judgements` and delete those of the keys (query, id, who) `removed`.

        Raises:
            InputError: if a document is not there; its position says which of `judgements`.
            StoreError: if the store cannot be written.
        """
        return self.write(JUDGEMENTS, judgements, removed)

    def import_records(
        self, labels: Sequence[DocumentLabel], judgements: Sequence[Judgement]
    ) -> tuple[AnnotationResult, int]:
        """Write records, all or none; those of documents that are not there are passed over.

        Beside what was written stands how many were passed over.

        Raises:
            StoreError: if the store cannot be written.
        """
        with self._write_lock, self._store.writing() as changes:
            known = self._of_documents(labels)
            changed = changes.write_records(LABELS, known)
            judged = self._of_documents(judgements)
            changed += changes.write_records(JUDGEMENTS, judged)
            written = self._committed(changes, changed)
            return written, len(labels) + len(judgements) - len(known) - len(judged)

    def marks(self, table: Table[Any]) -> dict[tuple[str, ...], bytes]:
        """Return a mark of every record, by its key: two that are alike have the same."""
        with self._store.read_transaction() as connection:
            return read_marks(connection, table)

    def find(self, table: Table[Record], keys: Iterable[tuple[str, ...]]) -> list[Record]:
        """Return the records with these keys that are there."""
        with self._store.read_transaction() as connection:
            return find_records(connection, table, keys)

    def write(
        self,
        table: Table[Record],
        records: Sequence[Record],
        removed: Iterable[Sequence[str]] = (),
        *,
        unknown: bool = False,
    ) -> AnnotationResult:
        """Write `records` and delete those of the keys `removed`: all of it, or nothing.

        Where documents may be `unknown`, what is said of them is passed over.

        Raises:
            InputError: if a document is not there; its position says which of `records` it is of.
            StoreError: if the store cannot be written.
        """
        with self._write_lock, self._store.writing() as changes:
            if unknown:
                records = self._of_documents(records)
            self._check_there([one.id for one in records])
            changed = changes.delete_records(table, removed)
            changed += changes.write_records(table, records)
            return self._committed(changes, changed)

    def _committed(self, changes: Changes, changed: int) -> AnnotationResult:
        if not changed:
            return AnnotationResult(0, changes.generation)
        codes: Codes = np.empty((0, self._store.description.n_bits // 8), dtype=np.uint8)
        rows = np.empty(0, dtype=np.int64)
        return AnnotationResult(changed, self._publication.publish(changes, codes, rows, rows))

    def _of_documents(self, records: Sequence[Record]) -> list[Record]:
        there = self._store.read_marks(list(dict.fromkeys(one.id for one in records)))
        return [one for one in records if one.id in there]

    def _check_there(self, ids: Sequence[str]) -> None:
        there = self._store.read_marks(list(dict.fromkeys(ids)))
        for position, id_ in enumerate(ids):
            if id_ not in there:
                raise InputError("id", f"there is no document {id_[:80]!a}", position)


def copy_annotations(source: Annotations, target: Annotations, *, partly: bool = False) -> None:
    """Make what is said of the documents of `target` what is said in `source`.

    What is alike already is not written again. A copy that may be in part leaves out what is said
    of documents that are not in the target yet, and lets others write in between: the whole one
    that follows has little left to do.

    Raises:
        InputError: if a document is not in the target, and the copy is to be whole.
        StoreError: if one of the stores fails.
    """
    tables: tuple[Table[Any], ...] = (LABELS, JUDGEMENTS)
    for table in tables:
        given, held = source.marks(table), target.marks(table)
        changed = [key for key, mark in given.items() if held.get(key) != mark]
        gone = [key for key in held if key not in given]
        if partly:
            for keys in batches(changed, COPIED_AT_ONCE):
                target.write(table, source.find(table, keys), unknown=True)
        elif changed or gone:
            target.write(table, source.find(table, changed), gone)
