"""A collection: an encoder, a store and an index that stay consistent.

**Writes** are described in :mod:`index.generations.writing`. Once a write returns, it is durable
and every later search sees it.

**Searches** are described in :mod:`index.search.search_steps`.

**Readers.** A process that only reads works in the same way. The writer may commit at any time;
:meth:`Collection.follow`, called regularly, publishes what was committed since.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from typing import Any

from corpus.document import Document
from corpus.tables import FieldType
from encoder.codes import Codes
from encoder.encoder import Encoder
from index.annotations.annotations import Annotations
from index.backend import BATCH_SIZE
from index.encoded_inputs import batches, encode_documents, last_of_each_id
from index.filter_parser import check_indexed_fields
from index.filters import Filter
from index.generations.code_statistics import StatisticsCache, code_statistics
from index.generations.publication import Publication
from index.generations.writing import Writer
from index.rankings.protocol import BY_WORDS, HAMMING
from index.records import (
    CodedPayloads,
    DeleteResult,
    ScrollPage,
    StoredDocument,
    UpsertResult,
    Verification,
)
from index.search.cursors import Position, read_cursor, write_cursor
from index.search.search_options import check_ranking
from index.search.search_steps import IndexedCollection
from index.sqlite.blocks import Block
from index.sqlite.field_indexes import damaged_runs
from index.sqlite.store import Store
from index.sqlite.verification import MAX_PROBLEMS, verify_store


class Collection(IndexedCollection):
    """An :class:`index.backend.CollectionBackend` over a store. All methods are thread-safe."""

    def __init__(
        self,
        store: Store,
        encoder: Encoder | None = None,
        *,
        engine: str = "auto",
        indexed: bool = True,
    ) -> None:
        """Open the collection in `store`, which is closed with it; `encoder` made its codes.

        `engine` is an engine of :meth:`index.engines.segments.Generation.build`. Without `indexed`,
        the first search builds the index, and writes before it need none.

        Raises:
            EncoderMismatch: if the collection was made with another encoder, or without one.
            StoreError: if the store is damaged.
        """
        super().__init__(store.description, encoder, store.incarnation)
        self.store = store
        self.ranking: str = store.default_ranking() or HAMMING
        self._write_lock = threading.Lock()
        self._statistics = StatisticsCache()
        self._publication = Publication(store, self._write_lock, engine)
        self._writer = Writer(store, self._write_lock, self._publication)
        self.annotations = Annotations(store, self._write_lock, self._publication)
        if indexed:
            self.build_index()

    def build_index(self) -> None:
        """Build the index and the encoder's tables, where missing, so that no search has to.

        Raises:
            StoreError: if the store cannot be read, or is damaged.
        """
        if self.encoder is not None:
            self.encoder.prepare()
        if self.ranking in BY_WORDS:
            self._publication.current_with_lexical()
        else:
            self._publication.current()

    @property
    def generation(self) -> int:
        """The number of writes so far that changed something."""
        built = self._publication.built_generation()
        return self.store.generation() if built is None else built.number

    def __len__(self) -> int:
        built = self._publication.built_generation()
        return self.store.count() if built is None else len(built)

    def upsert(
        self,
        documents: Iterable[Document],
        *,
        batch_size: int = BATCH_SIZE,
        progress: Callable[[int], object] | None = None,
    ) -> UpsertResult:
        """See :meth:`index.backend.CollectionBackend.upsert`; an error undoes the whole write.

        There may be any number of documents. Other writes wait until this one is done.
        """

        def encoded_batches() -> Iterator[tuple[list[Document], Codes]]:
            for batch in batches(documents, batch_size):
                distinct = last_of_each_id(batch)
                yield distinct, encode_documents(distinct, self.encoder, self.n_bits)
                if progress is not None:
                    progress(len(batch))

        return self._writer.upsert(encoded_batches())

    def upsert_encoded(
        self,
        documents: Sequence[Document],
        codes: Codes,
        bookmark: tuple[str, str] | None = None,
    ) -> UpsertResult:
        """See :meth:`index.backend.CollectionBackend.upsert_encoded`; an error undoes it all."""
        return self._writer.upsert(iter([self._last_of_each_id(documents, codes)]), bookmark)

    def read_bookmark(self, key: str) -> str | None:
        """Return the last value stored under `key`, or None."""
        return self.store.read_bookmark(key)

    def set_bookmark(self, key: str, value: str | None) -> None:
        """See :meth:`index.backend.CollectionBackend.set_bookmark`."""
        self._writer.set_bookmark(key, value)

    def new_or_changed(self, documents: Sequence[Document]) -> list[Document]:
        """See :meth:`index.backend.CollectionBackend.new_or_changed`."""
        return self._writer.new_or_changed(documents)

    def existing_ids(self, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that belong to documents of the collection."""
        return set(self.store.read_marks(list(dict.fromkeys(ids))))

    def delete(self, ids: Sequence[str]) -> DeleteResult:
        """See :meth:`index.backend.CollectionBackend.delete`."""
        return self._writer.delete(ids)

    def delete_where(self, filter: Filter) -> DeleteResult:  # noqa: A002
        """See :meth:`index.backend.CollectionBackend.delete_where`."""
        return self._writer.delete_where(filter)

    def get(self, id_: str) -> StoredDocument | None:
        """See :meth:`index.backend.CollectionBackend.get`."""
        return self.store.get(id_)

    def knows_filter(self, filter: Filter) -> bool:  # noqa: A002
        """See :meth:`index.backend.CollectionBackend.knows_filter`."""
        return self._publication.knows_filter(filter) or self.store.is_covered(filter, wholly=True)

    def count(self, filter: Filter | None = None) -> int:  # noqa: A002
        """Return the number of documents, or of those that match the filter."""
        if filter is None:
            return len(self)
        if self._publication.built_generation() is None or not self.store.is_covered(filter):
            return self.store.count_matching(filter)
        published, rows = self._publication.search_target(filter)
        return 0 if rows is None else len(published.generation.live_rows(rows))

    def scroll(
        self,
        limit: int,
        cursor: str | None = None,
        filter: Filter | None = None,  # noqa: A002
    ) -> ScrollPage:
        """See :meth:`index.backend.CollectionBackend.scroll`."""
        key = self._scroll_key(limit, filter)
        start = None if cursor is None else read_cursor(cursor, *key)
        after, up_to = (0, None) if start is None else (start.row, start.last_row)
        documents, last_row = self.store.scroll(limit + 1, after, up_to, filter)
        if len(documents) <= limit:
            return ScrollPage(documents, None)
        last = last_row if up_to is None else up_to
        passed = limit if start is None else start.passed + limit
        position = Position(0, documents[limit - 1].row, last, passed)
        return ScrollPage(documents[:limit], write_cursor(position, *key))

    def documents_after(self, row: int, limit: int) -> list[StoredDocument]:
        """Return the first `limit` documents after `row`, in the order of rows."""
        return self.store.scroll(limit, row, None, None)[0]

    def all_documents(self) -> list[StoredDocument]:
        """Return all documents of one generation, in the order of rows."""
        return self.store.read_contents()

    def set_ranking(self, ranking: str) -> None:
        """See :meth:`index.backend.CollectionBackend.set_ranking`."""
        check_ranking(ranking)
        self._writer.set_ranking(ranking)
        self.ranking = ranking

    @property
    def indexed_fields(self) -> tuple[str, ...]:
        """See :attr:`index.backend.CollectionBackend.indexed_fields`."""
        return tuple(self.store.indexed_fields())

    def set_indexed_fields(
        self, fields: Sequence[str], progress: Callable[[], object] | None = None
    ) -> None:
        """See :meth:`index.backend.CollectionBackend.set_indexed_fields`."""
        self._writer.set_indexed_fields(check_indexed_fields(fields), progress)

    @property
    def field_types(self) -> Mapping[str, FieldType]:
        """See :attr:`index.backend.CollectionBackend.field_types`."""
        return self.store.field_types()

    def remember_field_types(self, types: Mapping[str, FieldType]) -> None:
        """See :meth:`index.backend.CollectionBackend.remember_field_types`."""
        if types.items() - self.field_types.items():
            self._writer.remember_field_types(types)

    def coded_payloads(self, *, with_given_labels: bool) -> CodedPayloads:
        """See :meth:`index.backend.CollectionBackend.coded_payloads`."""
        return self.store.read_payloads(with_given_labels=with_given_labels)

    def labelled_codes(self, label_field: str = "label") -> tuple[Codes, list[tuple[str, ...]]]:
        """See :meth:`index.backend.CollectionBackend.labelled_codes`."""
        return self.store.read_labels(label_field)

    def verify(self) -> Verification:
        """See :meth:`index.backend.CollectionBackend.verify`.

        The check covers one generation; searches and writes continue meanwhile.
        """
        with ExitStack() as stack:
            with self._publication.lock:
                connection = stack.enter_context(self.store.read_transaction())
                generation = self._publication.catch_up().generation
            verification = verify_store(connection, self.n_bits // 8, Block(*generation.codes()))
            verification.problems.extend(islice(damaged_runs(connection), MAX_PROBLEMS))
        warnings = self.store.warnings()
        # The missing files of a dropped collection would be called a problem.
        self.store.check_open()
        return replace(verification, problems=[*warnings, *verification.problems])

    def follow(self) -> bool:
        """Publish what another process has written since.

        Return False if another store has replaced this one.

        Raises:
            StoreError: if the store cannot be read, or is damaged.
        """
        if self.store.is_replaced():
            return False
        self._publication.follow()
        self.ranking = self.store.default_ranking() or HAMMING
        return True

    def compact(self) -> None:
        """See :meth:`index.backend.CollectionBackend.compact`; writes wait meanwhile."""
        self._writer.compact()

    def stats(self) -> dict[str, Any]:
        """See :meth:`index.backend.CollectionBackend.stats`."""
        generation = self._publication.current().generation
        return self._stats(
            documents=len(generation),
            generation=generation.number,
            engine=generation.engine,
            engine_reason=generation.engine_reason,
            statistics=self._statistics.get(generation.number, lambda: code_statistics(generation)),
            problems=[*self.store.warnings(), *self.store.problems],
        )

    def bytes_on_disk(self) -> int:
        """Return the size of the store and its write-ahead log."""
        return self.store.bytes_on_disk()

    @property
    def compactions(self) -> int:
        """How often the index was compacted since the collection was opened."""
        return self._publication.compactions

    def prepare_fork(self) -> None:
        """Close all connections, so that this process and a forked child can both use the store.

        They share the memory of the index. The caller's must be the only thread. Connections are
        opened again when needed.
        """
        self._publication.wait()
        self.store.release()

    def end_writing(self) -> None:
        """Refuse writes from now on, after one in progress; reads go on until :meth:`close`."""
        with self._write_lock:
            self.store.end_writing()

    def close(self) -> None:
        """Close the store after a write and a compaction in progress have finished."""
        self._publication.wait()
        with self._write_lock:
            self.store.close()
