"""A write: one transaction of the store, and the generation that it makes.

One thread at a time writes. It deletes and inserts rows within one SQLite transaction, and makes
the next generation in memory from the published one and those rows. Then it takes the publishing
lock, commits and publishes; nothing slow follows the commit. An error before the commit undoes the
transaction and publishes nothing. A write returns after both steps, so it is durable and every
later search sees it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice

import numpy as np

from corpus.document import Document
from corpus.tables import FieldType
from encoder.codes import Codes
from foundation.slices import stepping_aside, unbroken
from index.filters import Filter
from index.generations.publication import Publication
from index.kept_vectors import NONE
from index.records import DeleteResult, UpsertResult
from index.sqlite.changes import Changes, document_checksums
from index.sqlite.store import Store


class Writer:
    """Writes to one store and publishes the result. One writer at a time holds `lock`."""

    def __init__(self, store: Store, lock: threading.Lock, publication: Publication) -> None:
        self._store = store
        self._lock = lock
        self._publication = publication

    def upsert(
        self,
        encoded: Iterator[tuple[list[Document], Codes]],
        bookmark: tuple[str, str] | None = None,
    ) -> UpsertResult:
        """Insert the documents of all batches, or replace those with the same id.

        An id may occur again in a later batch, but not within one. `bookmark`, a key and a value,
        is committed with the documents.

        Raises:
            StoreError: if the store cannot be written.
            Exception: whatever `encoded` raises.
        """
        # The first batch, often the only one, is encoded before the lock is taken.
        first = [*islice(encoded, 1)]
        with stepping_aside(), self._lock, unbroken(), self._store.writing() as changes:
            rows, codes = [np.empty(0, dtype=np.int64)], [self._no_codes()]
            removed: list[int] = []
            for batch, batch_codes in chain(first, encoded):
                removed += changes.delete([document.id for document in batch])
                rows.append(changes.insert(batch, batch_codes))
                codes.append(batch_codes)
            added, removed_rows = np.concatenate(rows), np.array(removed, dtype=np.int64)
            if bookmark is not None:
                changes.set_bookmark(*bookmark)
            if not len(added):
                changes.commit_bookmark()
                return UpsertResult(0, changes.generation)
            remaining = ~np.isin(added, removed_rows)
            number = self._publication.publish(
                changes, np.concatenate(codes)[remaining], added[remaining], removed_rows
            )
            return UpsertResult(int(remaining.sum()), number)

    def delete(self, ids: Sequence[str]) -> DeleteResult:
        """Delete the documents with these ids and their annotations.

        Raises:
            StoreError: if the store cannot be written.
        """
        unique = list(dict.fromkeys(ids))

        def delete(changes: Changes) -> list[int]:
            rows = changes.delete(unique)
            changes.delete_annotations(unique)
            return rows

        return self._delete(delete)

    def delete_where(self, filter_: Filter) -> DeleteResult:
        """Delete the documents whose payload matches the filter, and their annotations.

        Raises:
            StoreError: if the store cannot be written.
        """

        def delete(changes: Changes) -> list[int]:
            rows = changes.delete_where(filter_)
            changes.delete_annotations(None)
            return rows

        return self._delete(delete)

    def new_or_changed(self, documents: Sequence[Document]) -> list[Document]:
        """Return the documents that the store does not yet hold in exactly this form.

        An unchanged text or vector has an unchanged code, because the encoder never changes. A
        vector counts as unchanged if what the collection keeps of it is; one that is not kept at
        all counts as changed.
        """
        keep_vectors = self._store.description.keep_vectors
        marks = self._store.read_marks(list({document.id: None for document in documents}))
        stored = [one for one in documents if _may_be_stored(one, marks, keep_vectors)]
        codes = [marks[one.id][0] for one in stored]
        checksums = document_checksums(stored, codes, keep_vectors)
        unchanged = {
            id(one)
            for one, checksum in zip(stored, checksums, strict=True)
            if checksum == marks[one.id][1]
        }
        return [one for one in documents if id(one) not in unchanged]

    def set_bookmark(self, key: str, value: str | None) -> None:
        """Store `value` under `key`, or delete the key if it is None; the generation is unchanged.

        Raises:
            StoreError: if the store cannot be written.
        """
        with self._lock, self._store.writing() as changes:
            changes.set_bookmark(key, value)
            changes.commit_bookmark()

    def set_ranking(self, ranking: str) -> None:
        """Make `ranking` the default ranking.

        Raises:
            StoreError: if the store cannot be written.
        """
        with self._lock, self._store.writing() as changes:
            changes.set_default_ranking(ranking)

    def remember_field_types(self, types: Mapping[str, FieldType]) -> None:
        """Remember the types of more payload fields.

        Raises:
            StoreError: if the store cannot be written.
        """
        with self._lock, self._store.writing() as changes:
            changes.remember_field_types(types)

    def set_indexed_fields(
        self, fields: Sequence[str], progress: Callable[[], object] | None = None
    ) -> None:
        """Index these fields and no others; other writes may come in between.

        Raises:
            StoreError: if the store cannot be written.
        """
        with self._lock, self._store.writing() as changes:
            changes.set_indexed_fields(fields)
        unfinished = True
        while unfinished:
            with self._lock, self._store.writing() as changes:
                unfinished = changes.cover_fields()
            if progress is not None:
                progress()

    def compact(self) -> None:
        """Rewrite the store without deleted documents, and rebuild the index.

        Raises:
            StoreError: if the store cannot be written, or is damaged.
        """
        with self._lock:
            self._store.compact()
            self._publication.compact()

    def _delete(self, delete: Callable[[Changes], list[int]]) -> DeleteResult:
        with self._lock, self._store.writing() as changes:
            removed = np.array(delete(changes), dtype=np.int64)
            if not len(removed):
                return DeleteResult(0, changes.generation)
            number = self._publication.publish(changes, self._no_codes(), removed[:0], removed)
            return DeleteResult(len(removed), number)

    def _no_codes(self) -> Codes:
        return np.empty((0, self._store.description.n_bits // 8), dtype=np.uint8)


def _may_be_stored(
    document: Document, marks: Mapping[str, tuple[bytes, bytes]], keep_vectors: str
) -> bool:
    """Return whether a document with this id and this code, if it has one, is stored."""
    if document.id not in marks or (document.vector is not None and keep_vectors == NONE):
        return False
    return document.code is None or document.code.lower() == marks[document.id][0].hex()
