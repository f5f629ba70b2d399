"""A collection on a Milvus cluster, for when one machine is not enough.

It finds the same documents as :class:`index.collection.Collection`, in the same order. The encoder
runs in this process. Milvus has these limitations:

**No transactions over several requests.** An interrupted write may have taken place in part.
Documents are keyed by id, so repeating the write completes it. A list of documents is checked and
encoded before the first request; a stream, batch by batch.

**No snapshots.** A search sees every write that was acknowledged before it began, and may see part
of a write in progress. It reports the generation of the last write that was finished then.

**One writer.** The writing process assigns rows, so only one process may write. It stops when it
sees a write of another process, but Milvus has no lock that keeps two from starting.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from corpus.document import Document
from corpus.tables import FieldType
from encoder.codes import Codes
from encoder.encoder import Encoder
from foundation.slices import stepping_aside, unbroken
from index.backend import BATCH_SIZE
from index.encoded_inputs import batches, encode_documents, last_of_each_id
from index.errors import StoreError
from index.filters import Filter
from index.generations.code_statistics import StatisticsCache
from index.milvus import schema
from index.milvus.catalogue import Catalogue, Progress
from index.milvus.cluster import Cluster
from index.milvus.filters import check_fields_on_milvus
from index.milvus.ranking import ENGINE, check_on_milvus, search_on_milvus
from index.milvus.store import MilvusStore
from index.milvus.upkeep import statistics_on_milvus, verify_on_milvus
from index.records import (
    CodedPayloads,
    DeleteResult,
    ScrollPage,
    SearchResult,
    StoredDocument,
    UpsertResult,
    Verification,
)
from index.schema import Description
from index.search.cursors import Position, read_cursor, write_cursor
from index.search.search_options import check_ranking
from index.search.search_steps import Search, SearchableCollection

ENGINE_REASON = "the collection is on Milvus, which measures every distance (BIN_FLAT)"


class MilvusCollection(SearchableCollection):
    """Documents on Milvus; an :class:`index.backend.CollectionBackend`."""

    def __init__(
        self,
        cluster: Cluster,
        catalogue: Catalogue,
        description: Description,
        encoder: Encoder | None = None,
        *,
        writable: bool,
    ) -> None:
        """Open the existing collection of that description; `encoder` made its codes.

        Raises:
            EncoderMismatch: if the collection was made with another encoder, or without one.
            StoreError: if Milvus cannot be reached or refuses.
        """
        on_milvus = cluster.call("describe_collection", schema.name_on_milvus(description.name))
        super().__init__(description, encoder, str(on_milvus.get("collection_id", "")))
        self._store = MilvusStore(cluster, description)
        self._progress = Progress(catalogue, description.name, writable=writable)
        self._write_lock = threading.Lock()
        self._statistics = StatisticsCache()

    @property
    def generation(self) -> int:
        """The number of finished writes that changed something."""
        return self._progress.now().generation

    def __len__(self) -> int:
        return self.count()

    def upsert(
        self,
        documents: Iterable[Document],
        *,
        batch_size: int = BATCH_SIZE,
        progress: Callable[[int], object] | None = None,
    ) -> UpsertResult:
        """See :meth:`index.backend.CollectionBackend.upsert`.

        An invalid document in a list is found before anything is written. If Milvus fails or a
        stream ends with an error, earlier batches stay; the generation does not count them.
        """
        encoded = (
            (len(batch), self._entities(last, encode_documents(last, self.encoder, self.n_bits)))
            for batch in batches(documents, batch_size)
            for last in [last_of_each_id(batch)]
        )
        ready = list(encoded) if isinstance(documents, Sequence) else encoded
        ids: set[str] = set()
        with stepping_aside(), self._one_writer(), unbroken():
            for size, entities in ready:
                self._write(entities)
                ids.update(entity["id"] for entity in entities)
                if progress is not None:
                    progress(size)
            return UpsertResult(len(ids), self._progress.finish(changed=bool(ids)))

    def upsert_encoded(
        self,
        documents: Sequence[Document],
        codes: Codes,
        bookmark: tuple[str, str] | None = None,  # noqa: ARG002 - see read_bookmark()
    ) -> UpsertResult:
        """See :meth:`index.backend.CollectionBackend.upsert_encoded`."""
        entities = self._entities(*self._last_of_each_id(documents, codes))
        with self._one_writer():
            self._write(entities)
            number = self._progress.finish(changed=bool(entities))
            return UpsertResult(len(entities), number)

    def read_bookmark(self, key: str) -> str | None:  # noqa: ARG002 - of every key
        """Return None: Milvus has no transaction that could hold a bookmark beside documents."""
        return None

    def set_bookmark(self, key: str, value: str | None) -> None:
        """Do nothing; see :meth:`read_bookmark`."""

    def new_or_changed(self, documents: Sequence[Document]) -> list[Document]:
        """See :meth:`index.backend.CollectionBackend.new_or_changed`."""
        ids = list({document.id: None for document in documents})
        known = self._store.by_ids(ids, ["code", "checksum"])
        return [one for one in documents if not schema.is_stored(one, known.get(one.id))]

    def existing_ids(self, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that belong to documents of the collection."""
        return set(self._store.by_ids(list(dict.fromkeys(ids)), ["row"]))

    def delete(self, ids: Sequence[str]) -> DeleteResult:
        """See :meth:`index.backend.CollectionBackend.delete`."""
        with self._one_writer():
            return self._delete(list(self._store.by_ids(list(dict.fromkeys(ids)), ["row"])))

    def delete_where(self, filter: Filter) -> DeleteResult:  # noqa: A002
        """See :meth:`index.backend.CollectionBackend.delete_where`."""
        with self._one_writer():
            last = self._progress.now().last_row
            condition = self._store.condition(filter, last)
            found = self._store.by_row(["id", "row"], 1, last, condition)
            return self._delete([entity["id"] for entity in found])

    def get(self, id_: str) -> StoredDocument | None:
        """See :meth:`index.backend.CollectionBackend.get`."""
        entity = self._store.whole(id_)
        if entity is None:
            return None
        if not schema.is_intact(entity):
            raise StoreError(f"document {id_!r} on Milvus does not match its checksum")
        return schema.to_document(entity)

    def knows_filter(self, filter: Filter) -> bool:  # noqa: A002, ARG002 - of every filter
        """Return False: Milvus reads payloads for every search."""
        return False

    def count(self, filter: Filter | None = None) -> int:  # noqa: A002
        """Return the number of documents, or of those that match the filter."""
        last = 0 if filter is None else self._progress.now().last_row
        return self._store.count(self._store.condition(filter, last))

    def scroll(
        self,
        limit: int,
        cursor: str | None = None,
        filter: Filter | None = None,  # noqa: A002
    ) -> ScrollPage:
        """See :meth:`index.backend.CollectionBackend.scroll`."""
        search = self._scroll_key(limit, filter)
        last = self._progress.now().last_row
        start = Position(0, 0, last, 0) if cursor is None else read_cursor(cursor, *search)
        condition = self._store.condition(filter, start.last_row)
        documents: list[StoredDocument] = []
        for entity in self._store.documents(start.row + 1, start.last_row, condition):
            if len(documents) == limit:
                position = Position(0, documents[-1].row, start.last_row, start.passed + limit)
                return ScrollPage(documents, write_cursor(position, *search))
            documents.append(schema.to_document(entity))
        return ScrollPage(documents, None)

    def documents_after(self, row: int, limit: int) -> list[StoredDocument]:
        """Return the first `limit` documents after `row`, in the order of rows."""
        entities = self._store.documents(row + 1, self._progress.now().last_row)
        return [*map(schema.to_document, itertools.islice(entities, limit))]

    def all_documents(self) -> list[StoredDocument]:
        """Return all documents in the order of rows."""
        return [*map(schema.to_document, self._store.documents(1, self._progress.now().last_row))]

    def coded_payloads(self, *, with_given_labels: bool) -> CodedPayloads:
        """See :meth:`index.backend.CollectionBackend.coded_payloads`."""
        fields = ["row", "code", "payload", "original"]
        entities = list(self._store.by_row(fields, 1, self._progress.now().last_row))
        payloads: list[Mapping[str, Any]] = [schema.to_payload(entity) for entity in entities]
        given_labels: list[tuple[str, ...]] = [()] * len(entities) if with_given_labels else []
        return CodedPayloads(schema.to_codes(entities, self.n_bits), payloads, given_labels)

    def _codes_of(self, ids: Sequence[str]) -> dict[str, Codes]:
        return self._store.codes_of(ids)

    def _run_search(self, search: Search) -> SearchResult:
        """Run a search and return its result; see "No snapshots" above."""
        return search_on_milvus(search, self._store, self._progress.now())

    def set_ranking(self, ranking: str) -> None:
        """Raise an InputError unless `ranking` is the only one on Milvus, by distance."""
        check_ranking(ranking)
        check_on_milvus(ranking)

    @property
    def indexed_fields(self) -> tuple[str, ...]:
        """See :attr:`index.backend.CollectionBackend.indexed_fields`: there are none."""
        return ()

    def set_indexed_fields(
        self,
        fields: Sequence[str],
        progress: Callable[[], object] | None = None,  # noqa: ARG002 - there is nothing to do
    ) -> None:
        """Raise an InputError unless `fields` is empty: Milvus evaluates filters itself."""
        check_fields_on_milvus(fields)

    @property
    def field_types(self) -> Mapping[str, FieldType]:
        """See :attr:`index.backend.CollectionBackend.field_types`: there are none."""
        return {}

    def remember_field_types(self, types: Mapping[str, FieldType]) -> None:
        """Do nothing; the documents show the types."""

    def verify(self) -> Verification:
        """Check every document against its checksum; the index is Milvus' own responsibility."""
        return verify_on_milvus(self._store, self._progress.now())

    def compact(self) -> None:
        """Ask Milvus to free the space of deleted documents, which it does in the background."""
        with self._one_writer():
            self._progress.check_alone()
            self._store.compact()

    def stats(self) -> dict[str, Any]:
        """See :meth:`index.backend.CollectionBackend.stats`.

        The statistics are those of the first 100,000 documents' codes.
        """
        now = self._progress.now()
        return self._stats(
            documents=len(self),
            generation=now.generation,
            engine=ENGINE,
            engine_reason=ENGINE_REASON,
            statistics=self._statistics.get(
                now.generation,
                lambda: statistics_on_milvus(self._store, now, self.n_bits),
            ),
            problems=[],
        )

    def bytes_on_disk(self) -> int:
        """Return 0, because Milvus does not report it."""
        return 0

    def close(self) -> None:
        """Close the collection after a write in progress has finished."""
        with self._write_lock:
            self._store.close()

    @contextmanager
    def _one_writer(self) -> Iterator[None]:
        with self._write_lock:
            try:
                yield
            except BaseException:
                # Part of it may have been written, and the next read must show that.
                self._store.wait_for_all()
                raise

    def _entities(self, documents: Sequence[Document], codes: Codes) -> list[dict[str, Any]]:
        pairs = zip(documents, codes, strict=True)
        return [schema.to_entity(document, code.tobytes()) for document, code in pairs]

    def _write(self, entities: list[dict[str, Any]]) -> None:
        """Assign rows to the documents and write them. Called with the write lock held."""
        rows = self._progress.take_rows(len(entities))
        self._store.upsert([{**one, "row": row} for one, row in zip(entities, rows, strict=True)])

    def _delete(self, ids: Sequence[str]) -> DeleteResult:
        self._progress.check_alone()
        self._store.delete(ids)
        return DeleteResult(len(ids), self._progress.finish(changed=bool(ids)))
