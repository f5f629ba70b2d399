"""The labels and judgements of a collection: read, written and deleted as its documents are."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from encoder.codes import Codes
from foundation.errors import InputError
from index.annotations.annotation_records import DocumentLabel, Judgement
from index.generations.publication import Publication
from index.records import StoredDocument
from index.sqlite.annotation_tables import (
    JUDGEMENTS,
    LABELS,
    Record,
    Table,
    count_records,
    read_records,
)
from index.sqlite.changes import Changes
from index.sqlite.store import Store


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
        self._writing = writing
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
        with self._store.moment() as connection:
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
        with self._store.moment() as connection:
            return read_records(connection, JUDGEMENTS, after, limit, query=query, who=who)

    def counts(self) -> tuple[int, int]:
        """Return how many labels there are, and how many judgements."""
        with self._store.moment() as connection:
            return count_records(connection, LABELS), count_records(connection, JUDGEMENTS)

    def sample(self, most: int, wanted: Sequence[str] = ()) -> list[int]:
        """Return the rows of at most `most` documents drawn at random, and of the `wanted` ids.

        Rows ascend. Of the same documents the same are drawn.
        """
        rows = self._store.read_codes().rows
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
        return self._set(LABELS, labels, removed)

    def set_judgements(
        self, judgements: Sequence[Judgement], removed: Iterable[tuple[str, str, str]] = ()
    ) -> AnnotationResult:
        """Write `judgements` and delete those of the keys (query, id, who) `removed`.

        Raises:
            InputError: if a document is not there; its position says which of `judgements`.
            StoreError: if the store cannot be written.
        """
        return self._set(JUDGEMENTS, judgements, removed)

    def import_records(
        self, labels: Sequence[DocumentLabel], judgements: Sequence[Judgement]
    ) -> tuple[AnnotationResult, int]:
        """Write records, all or none; those of documents that are not there are passed over.

        Beside what was written stands how many were passed over.

        Raises:
            StoreError: if the store cannot be written.
        """
        with self._writing, self._store.writing() as changes:
            ids = dict.fromkeys([*(one.id for one in labels), *(one.id for one in judgements)])
            there = self._store.read_marks(list(ids))
            known = [one for one in labels if one.id in there]
            changed = changes.write_records(LABELS, known)
            judged = [one for one in judgements if one.id in there]
            changed += changes.write_records(JUDGEMENTS, judged)
            written = self._committed(changes, changed)
            return written, len(labels) + len(judgements) - len(known) - len(judged)

    def _set(
        self, table: Table[Record], records: Sequence[Record], removed: Iterable[Sequence[str]]
    ) -> AnnotationResult:
        with self._writing, self._store.writing() as changes:
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

    def _check_there(self, ids: Sequence[str]) -> None:
        there = self._store.read_marks(list(dict.fromkeys(ids)))
        for position, id_ in enumerate(ids):
            if id_ not in there:
                raise InputError("id", f"there is no document {id_[:80]!a}", position)


def copy_annotations(source: Annotations, target: Annotations) -> None:
    """Make what is said of the documents of `target` what is said in `source`.

    Raises:
        InputError: if a document is not in the target.
        StoreError: if one of the stores fails.
    """
    labels, judgements = source.labels(), source.judgements()
    label_keys = {one.key for one in labels}
    target.set_labels(labels, [one.key for one in target.labels() if one.key not in label_keys])  # type: ignore[misc]
    judgement_keys = {one.key for one in judgements}
    gone = [one.key for one in target.judgements() if one.key not in judgement_keys]
    target.set_judgements(judgements, gone)  # type: ignore[arg-type]
