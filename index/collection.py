"""A collection: an encoder, a store and an index that are kept in step.

**Writes.** One thread at a time writes. Within one SQLite transaction it deletes and inserts rows;
from the published generation and those rows it makes the next generation, in memory; then, holding
the publishing lock, it commits and publishes: two steps, with nothing slow after the commit. An
error at any point before the commit undoes the transaction and publishes nothing. A write returns
after both steps, so it is durable, and every later search sees it.

**Searches** are described at the head of :mod:`index.search`.

**Readers.** A process that only reads works alike. Nothing keeps the writer's commits away from it;
:meth:`Collection.follow`, called every so often, publishes what was committed since.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from corpus.document import Document
from encoder.codes import Codes
from encoder.encoder import Encoder
from index.annotations.annotations import Annotations
from index.backend import BATCH_SIZE
from index.cursors import Position, read_cursor, write_cursor
from index.engines.segments import Generation
from index.filters import Filter
from index.generations.publication import Publication
from index.generations.statistics import code_statistics
from index.inputs import batches, encode_documents, last_of_each_id
from index.labels import labels_of
from index.rankings.protocol import BY_WORDS, HAMMING
from index.records import (
    DeleteResult,
    ScrollPage,
    StoredDocument,
    UpsertResult,
    Verification,
)
from index.search import IndexedCollection
from index.search_options import check_ranking
from index.sqlite.blocks import Block
from index.sqlite.changes import Changes, document_checksum
from index.sqlite.store import Store
from index.sqlite.verification import verify_store


class Collection(IndexedCollection):
    """Documents, found by the Hamming distance of their codes. All methods are thread-safe.

    It is an :class:`index.backend.CollectionBackend`.
    """

    def __init__(
        self,
        store: Store,
        encoder: Encoder | None = None,
        *,
        engine: str = "auto",
        indexed: bool = True,
    ) -> None:
        """Open the collection in `store`, which is closed with it; `encoder` made its codes.

        `engine` is what :meth:`index.engines.segments.Generation.build` takes. Where it is not to
        be `indexed`, the index is built by the first search, and writes before it do without one.

        Raises:
            EncoderMismatch: if the collection was made with another encoder, or without one.
            StoreError: if the store is damaged.
        """
        super().__init__(store.description, encoder, store.incarnation)
        self._store = store
        self.ranking: str = store.default_ranking() or HAMMING
        self._writing = threading.Lock()
        self._statistics: tuple[int, dict[str, Any]] = (-1, {})
        self._publication = Publication(store, self._writing, engine)
        self.annotations = Annotations(store, self._writing, self._publication)
        if indexed:
            self.build_index()

    def build_index(self) -> None:
        """Build the index, unless it is there, so that no search has to.

        Raises:
            StoreError: if the store cannot be read, or is damaged.
        """
        if self.ranking in BY_WORDS:
            self._publication.with_lexical()
        else:
            self._publication.current()

    @property
    def generation(self) -> int:
        """The number of writes so far that changed anything."""
        built = self._publication.if_built()
        return self._store.generation() if built is None else built.number

    def __len__(self) -> int:
        built = self._publication.if_built()
        return self._store.count() if built is None else len(built)

    def upsert(
        self,
        documents: Iterable[Document],
        *,
        batch_size: int = BATCH_SIZE,
        progress: Callable[[int], object] | None = None,
    ) -> UpsertResult:
        """Insert documents and replace those whose id is there: all of them, or none on an error.

        A replaced document counts as inserted last. Where an id comes twice, the last one stays.
        `documents` may be any length; `batch_size` of them are encoded at a time, and `progress`
        is told how many after each. Other writes wait until this one is done.

        Raises:
            InputError: if a document cannot be encoded, or its code has another length.
            StoreError: if the store cannot be written.
            Exception: whatever `documents` and `progress` raise.
        """

        def encoded() -> Iterator[tuple[list[Document], Codes]]:
            for given in batches(documents, batch_size):
                batch = last_of_each_id(given)
                yield batch, encode_documents(batch, self.encoder, self.n_bits)
                if progress is not None:
                    progress(len(given))

        return self._upsert(encoded())

    def upsert_encoded(
        self,
        documents: Sequence[Document],
        codes: Codes,
        bookmark: tuple[str, str] | None = None,
    ) -> UpsertResult:
        """See :meth:`index.backend.CollectionBackend.upsert_encoded`; all of them, or none."""
        return self._upsert(iter([self._last_of_each_id(documents, codes)]), bookmark)

    def bookmark(self, key: str) -> str | None:
        """Return the value that was noted last under `key`, if any."""
        return self._store.bookmark(key)

    def set_bookmark(self, key: str, value: str | None) -> None:
        """Note `value` under `key`, or forget the key; the generation stays.

        Raises:
            StoreError: if the store cannot be written.
        """
        with self._writing, self._store.writing() as changes:
            changes.bookmark(key, value)
            changes.commit_bookmark()

    def changed(self, documents: Sequence[Document]) -> list[Document]:
        """Leave out the documents that the collection holds just as they are given.

        A text or vector that is unchanged has the code it had, for the encoder never changes.
        """
        marks = self._store.read_marks(list({document.id: None for document in documents}))
        return [
            document
            for document in documents
            if document.id not in marks or not _is_stored(document, *marks[document.id])
        ]

    def existing(self, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that documents of the collection have."""
        return set(self._store.read_marks(list(dict.fromkeys(ids))))

    def delete(self, ids: Sequence[str]) -> DeleteResult:
        """Delete the documents with these ids; ids that are not there are passed over.

        Raises:
            StoreError: if the store cannot be written.
        """

        def delete(changes: Changes) -> list[int]:
            unique = list(dict.fromkeys(ids))
            rows = changes.delete(unique)
            changes.delete_annotations(unique)
            return rows

        return self._delete(delete)

    def delete_where(self, filter: Filter) -> DeleteResult:  # noqa: A002
        """Delete the documents for whose payload the filter holds.

        Raises:
            StoreError: if the store cannot be written.
        """

        def delete(changes: Changes) -> list[int]:
            rows = changes.delete_where(filter)
            changes.delete_annotations(None)
            return rows

        return self._delete(delete)

    def get(self, id_: str) -> StoredDocument | None:
        """Return the document with the id, or None.

        Raises:
            StoreError: if it is not what was written.
        """
        return self._store.get(id_)

    def knows_filter(self, filter: Filter) -> bool:  # noqa: A002
        """See :meth:`index.backend.CollectionBackend.knows_filter`."""
        return self._publication.knows(filter)

    def count(self, filter: Filter | None = None) -> int:  # noqa: A002
        """Return how many documents there are, or for how many the filter holds."""
        return len(self) if filter is None else self._store.count_matching(filter)

    def scroll(
        self,
        limit: int,
        cursor: str | None = None,
        filter: Filter | None = None,  # noqa: A002
    ) -> ScrollPage:
        """See :meth:`index.backend.CollectionBackend.scroll`."""
        search = self._scroll(limit, filter)
        start = None if cursor is None else read_cursor(cursor, *search)
        after, up_to = (0, None) if start is None else (start.row, start.last_row)
        found, last_row = self._store.scroll(limit + 1, after, up_to, filter)
        if len(found) <= limit:
            return ScrollPage(found, None)
        last = last_row if up_to is None else up_to
        passed = limit if start is None else start.passed + limit
        position = Position(0, found[limit - 1].row, last, passed)
        return ScrollPage(found[:limit], write_cursor(position, *search))

    def following(self, row: int, limit: int) -> list[StoredDocument]:
        """Return the first `limit` documents above `row`, in the order of rows."""
        return self._store.scroll(limit, row, None, None)[0]

    def contents(self) -> list[StoredDocument]:
        """Return all documents as they were given, all as of one moment, by row."""
        return self._store.read_contents()

    def set_ranking(self, ranking: str) -> None:
        """See :meth:`index.backend.CollectionBackend.set_ranking`."""
        check_ranking(ranking)
        with self._writing, self._store.writing() as changes:
            changes.set_default_ranking(ranking)
            self.ranking = ranking

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        """Let this thread read the store as of one moment, whatever is written meanwhile.

        What other processes write to the log stays in it until this ends.

        Raises:
            StoreError: if the store cannot be read.
        """
        with self._store.moment():
            yield

    def labelled_codes(self, label_field: str = "label") -> tuple[Codes, list[tuple[str, ...]]]:
        """Return the codes, ``uint8[N, n_bits / 8]``, and labels of all documents, by row.

        The labels of a document are the payload's `label_field`, a string or a list of them; for
        the field ``label``, where there is none, its ``labels``. Unlabelled documents have ``()``.

        Raises:
            InputError: if the field holds anything else in some document.
        """
        codes, payloads = self._store.read_payloads()
        return codes, [labels_of(payload, label_field) for payload in payloads]

    def verify(self) -> Verification:
        """Check every document against its checksum, and the index against the documents.

        Searches and writes go on meanwhile; what is checked is the store as of one moment.
        """
        with ExitStack() as stack:
            with self._publication.lock:
                connection = stack.enter_context(self._store.moment())
                generation = self._publication.up_to_date().generation
            found = verify_store(connection, self.n_bits // 8, Block(*generation.codes()))
        return replace(found, problems=[*self.warnings(), *found.problems])

    def warnings(self) -> list[str]:
        """Say why nothing can be written to the collection, a sentence each; mostly nothing."""
        return self._store.warnings()

    def follow(self) -> bool:
        """Let searches see what another process has written since.

        Return False where another store has taken the place of this one.

        Raises:
            StoreError: if the store cannot be read, or is damaged.
        """
        if self._store.replaced():
            return False
        self._publication.follow()
        self.ranking = self._store.default_ranking() or HAMMING
        return True

    def compact(self) -> None:
        """Rewrite the store without what was deleted, and build the index anew.

        Searches go on meanwhile, writes wait. The file system must have as much room again as the
        store takes.

        Raises:
            StoreError: if the store cannot be written, or is damaged.
        """
        with self._writing:
            self._store.compact()
            self._publication.compact()

    def wait_for_compaction(self) -> None:
        """Wait until no compaction runs in the background."""
        self._publication.wait()

    def copy_to(self, path: Path) -> None:
        """Write the collection's store as of one moment to `path`; searches and writes go on.

        Raises:
            StoreError: if the store cannot be read or the copy not be written.
        """
        self._store.copy_to(path)

    def stats(self) -> dict[str, Any]:
        """Return what can be said about the collection cheaply, ready to be written as JSON."""
        generation = self._publication.current().generation
        return self._stats(
            documents=len(generation),
            generation=generation.number,
            engine=generation.engine,
            engine_reason=generation.engine_reason,
            statistics=self._statistics_of(generation),
            problems=[*self.warnings(), *self._store.problems],
        )

    def bytes_on_disk(self) -> int:
        """Return the size of the store and its write-ahead log."""
        return self._store.bytes_on_disk()

    def close(self) -> None:
        """Close the store, once a write and a compaction in progress are done."""
        self._publication.wait()
        with self._writing:
            self._store.close()

    def _upsert(
        self,
        encoded: Iterator[tuple[list[Document], Codes]],
        bookmark: tuple[str, str] | None = None,
    ) -> UpsertResult:
        with self._writing, self._store.writing() as changes:
            rows, codes = [np.empty(0, dtype=np.int64)], [self._no_codes()]
            removed: list[int] = []
            for batch, batch_codes in encoded:
                removed += changes.delete([document.id for document in batch])
                rows.append(changes.insert(batch, batch_codes))
                codes.append(batch_codes)
            added, gone = np.concatenate(rows), np.array(removed, dtype=np.int64)
            if bookmark is not None:
                changes.bookmark(*bookmark)
            if not len(added):
                changes.commit_bookmark()
                return UpsertResult(0, changes.generation)
            kept = ~np.isin(added, gone)
            number = self._publication.publish(
                changes, np.concatenate(codes)[kept], added[kept], gone
            )
            return UpsertResult(int(kept.sum()), number)

    def _delete(self, delete: Callable[[Changes], list[int]]) -> DeleteResult:
        with self._writing, self._store.writing() as changes:
            removed = np.array(delete(changes), dtype=np.int64)
            if not len(removed):
                return DeleteResult(0, changes.generation)
            number = self._publication.publish(changes, self._no_codes(), removed[:0], removed)
            return DeleteResult(len(removed), number)

    def _statistics_of(self, generation: Generation) -> dict[str, Any]:
        """Return what is said of the codes, which takes a while and changes with writes only."""
        number, statistics = self._statistics
        if number != generation.number:
            statistics = code_statistics(generation)
            self._statistics = generation.number, statistics
        return statistics

    def _no_codes(self) -> Codes:
        return np.empty((0, self.n_bits // 8), dtype=np.uint8)


def _is_stored(document: Document, code: bytes, mark: bytes) -> bool:
    given = document.code
    return (given is None or given.lower() == code.hex()) and (
        document_checksum(document, code) == mark
    )
