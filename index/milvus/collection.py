"""A collection on a Milvus cluster, for when one machine is not enough.

By a code it finds the documents that :class:`hummingbit.index.collection.Collection` finds, in the
same order. Texts are read by the words of the encoder alone, so some find others.
The encoder runs in this process. Milvus has these limitations:

**No transactions over several requests.** An interrupted write may have taken place in part.
Documents are keyed by id, so repeating the write completes it. A list of documents is checked and
encoded before the first request; a stream, batch by batch.

**No snapshots.** A search sees every write that was acknowledged before it began, and may see
part of a write in progress. It reports the generation of the last write that was finished then.

**One writer.** The writing process assigns rows, so only one process may write. It stops when it
sees a write of another process, but Milvus has no lock that keeps two from starting.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from hummingbit.corpus.document import Document
from hummingbit.corpus.expiry import EXPIRES_AT
from hummingbit.corpus.field_types import FieldType
from hummingbit.encoder.codes import Codes
from hummingbit.encoder.encoder import Encoder
from hummingbit.foundation.errors import InputError
from hummingbit.index.backend import BATCH_SIZE, CheckReplaced
from hummingbit.index.code_statistics import StatisticsCache, code_statistics
from hummingbit.index.collection import SearchableCollection
from hummingbit.index.encoding import batches, encode_documents, last_of_each_id
from hummingbit.index.engines.protocol import Rows
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.errors import GenerationChanged, StoreError
from hummingbit.index.facets import SortField
from hummingbit.index.filters import And, Filter, HasId
from hummingbit.index.ingestion import ingest
from hummingbit.index.milvus import schema
from hummingbit.index.milvus.cluster import Catalogue, Cluster, Progress
from hummingbit.index.milvus.filters import check_fields_on_milvus
from hummingbit.index.milvus.schema import is_intact, to_code, to_codes, to_payload, to_text
from hummingbit.index.milvus.store import Band, ExactSearch, MilvusStore, Neighbour
from hummingbit.index.names import (
    HAMMING,
    PLAIN,
    QUERY,
)
from hummingbit.index.operations import NOT_ON_MILVUS
from hummingbit.index.options import (
    SearchOptions,
    check_hybrid_weight,
    check_ranking,
)
from hummingbit.index.passages import DocumentCodes, of_whole_documents
from hummingbit.index.payloads import PayloadsUpdated, PayloadUpdate
from hummingbit.index.rankings import (
    AboveThreshold,
    ByDistance,
    RankedRows,
)
from hummingbit.index.records import (
    CodedPayloads,
    DeleteResult,
    EncodedQueries,
    IngestReport,
    Query,
    ScrollPage,
    StoredDocument,
    StoredRow,
    UpsertResult,
    Verification,
)
from hummingbit.index.schema import Description
from hummingbit.index.search import (
    Position,
    Search,
    SearchResult,
    read_cursor,
    rows_of,
    write_cursor,
)
from hummingbit.index.store.store import MAX_PROBLEMS

# The ranking by Hamming distance on Milvus, and the search that uses it.


ENGINE = "milvus"
MAX_DOCUMENTS = 100_000
"""The statistics are those of the codes of so many documents."""
# A search is repeated if a hit is replaced before its payload is read.
ATTEMPTS = 10


def check_on_milvus(ranking: str) -> None:
    """Raise an InputError unless collections on Milvus support the ranking."""
    if ranking != HAMMING:
        message = f"is {ranking!r}; a collection on Milvus is ranked by {HAMMING!r} only"
        raise InputError("ranking", message)


class _HammingOnMilvus(ByDistance):
    """A ranking by Hamming distance that remembers the ids of what it finds."""

    def __init__(
        self, store: MilvusStore, last_row: int, condition: str, radius: int | None, whole: str
    ) -> None:
        """Rank the documents that match an expression, within `radius` and up to `last_row`.

        The collection consists of the documents that match `whole`.
        """
        self._store = store
        self._whole = whole
        self._condition = condition
        self._radius = radius
        self._search = ExactSearch(store.nearest, last_row)
        self._ids: dict[int, str] = {}

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`hummingbit.index.rankings.Ranking.rank`; the expression limits the rows."""
        if allowed is not None:
            raise ValueError("rows are allowed by the expression of a filter only")
        n_bits = queries.codes.shape[1] * 8
        within = Band(0, n_bits if self._radius is None else self._radius, self._condition)
        ranked = self._search.nearest(queries.codes, k, within)
        self._ids.update(
            (neighbour.row, neighbour.id) for neighbours in ranked for neighbour in neighbours
        )
        return [_to_ranked_rows(some) for some in ranked]

    @property
    def n_documents(self) -> int:
        """The number of documents."""
        return self._store.count(self._whole)

    def read_hits(self, search: Search, rows: Sequence[int]) -> dict[int, StoredRow] | None:
        """Return the stored rows of the hits, or None if one was replaced or deleted meanwhile."""
        options = search.options
        needs_codes = search.shows_codes or not search.by_distance
        fields = ["row"]
        fields += ["payload", "original"] if options.with_payload else []
        fields += ["content"] if options.with_text or options.highlight else []
        fields += ["code"] if needs_codes else []
        if fields == ["row"]:
            return {row: (self._ids[row], None, None, None) for row in rows}
        entities = self._store.by_ids([self._ids[row] for row in rows], fields)
        known: dict[int, StoredRow] = {
            entity["row"]: (
                id_,
                to_payload(entity) if options.with_payload else None,
                to_text(entity) if options.with_text or options.highlight else None,
                to_code(entity) if needs_codes else None,
            )
            for id_, entity in entities.items()
        }
        return known if set(rows) <= known.keys() else None


def _to_ranked_rows(neighbours: Sequence[Neighbour]) -> RankedRows:
    rows = np.array([neighbour.row for neighbour in neighbours], dtype=np.int64)
    return RankedRows(
        rows, np.array([-neighbour.distance for neighbour in neighbours], dtype=np.int64)
    )


# The collection.


ENGINE_REASON = "the collection is on Milvus, which measures every distance (BIN_FLAT)"


class MilvusCollection(SearchableCollection):
    """Documents on Milvus; an :class:`hummingbit.index.backend.CollectionBackend`."""

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
        self._filter: Filter | None = None

    def within(self, filter: Filter) -> MilvusCollection:  # noqa: A002
        """See :meth:`hummingbit.index.backend.CollectionBackend.within`."""
        own = copy(self)
        vars(own).update(_filter=filter)
        return own

    @property
    def generation(self) -> int:
        """The number of finished writes that changed something."""
        return self._progress.now().generation

    @property
    def last_row(self) -> int:
        """See :attr:`hummingbit.index.backend.CollectionBackend.last_row`."""
        return self._progress.now().last_row

    def __len__(self) -> int:
        return self.count()

    def ingest(
        self,
        documents: Iterable[Document],
        *,
        jobs: int = 1,
        progress: Callable[[int], object] | None = None,
        refused: Callable[[str, str], object] | None = None,  # noqa: ARG002 - none is refused
    ) -> IngestReport:
        """See :meth:`hummingbit.index.backend.AnyCollection.ingest`."""
        return ingest(self, documents, jobs=jobs, progress=progress)

    def upsert(
        self,
        documents: Iterable[Document],
        *,
        batch_size: int = BATCH_SIZE,
        progress: Callable[[int], object] | None = None,
        check: CheckReplaced | None = None,
    ) -> UpsertResult:
        """See :meth:`hummingbit.index.backend.CollectionBackend.upsert`.

        An invalid document in a list is found before anything is written. If Milvus fails or a
        stream ends with an error, earlier batches stay; the generation does not count them.
        """
        encoded = (
            (
                len(batch),
                self._entities(last, of_whole_documents(codes)),
            )
            for batch in batches(documents, batch_size)
            for last in [last_of_each_id(batch)]
            for codes in [encode_documents(last, self.encoder, self.n_bits)]
        )
        ready = list(encoded) if isinstance(documents, Sequence) else encoded
        ids: set[str] = set()
        with self._one_writer():
            if isinstance(ready, list):
                self._check(check, {entity["id"] for _, entities in ready for entity in entities})
            for size, entities in ready:
                if not isinstance(ready, list):
                    self._check(check, {entity["id"] for entity in entities} - ids)
                self._write(entities)
                ids.update(entity["id"] for entity in entities)
                if progress is not None:
                    progress(size)
            return UpsertResult(len(ids), self._progress.finish(changed=bool(ids)))

    def upsert_encoded(
        self,
        documents: Sequence[Document],
        codes: DocumentCodes,
        bookmark: tuple[str, str] | None = None,  # noqa: ARG002 - see read_bookmark()
        check: CheckReplaced | None = None,
    ) -> UpsertResult:
        """See :meth:`hummingbit.index.backend.CollectionBackend.upsert_encoded`."""
        last, last_codes = self._last_of_each_id(documents, codes)
        entities = self._entities(last, of_whole_documents(last_codes))
        with self._one_writer():
            self._check(check, {document.id for document in last})
            self._write(entities)
            number = self._progress.finish(changed=bool(entities))
            return UpsertResult(len(entities), number)

    def read_bookmark(self, key: str) -> str | None:  # noqa: ARG002 - of every key
        """Return None: Milvus has no transaction that could hold a bookmark beside documents."""
        return None

    def set_bookmark(self, key: str, value: str | None) -> None:
        """Do nothing; see :meth:`read_bookmark`."""

    def new_or_changed(self, documents: Sequence[Document]) -> list[Document]:
        """See :meth:`hummingbit.index.backend.CollectionBackend.new_or_changed`."""
        ids = list({document.id: None for document in documents})
        known = self._store.by_ids(ids, ["code", "checksum"])
        return [
            document
            for document in documents
            if not schema.is_stored(document, known.get(document.id))
        ]

    def existing_ids(self, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that belong to documents of the collection."""
        return set(self._store.by_ids(list(dict.fromkeys(ids)), ["row"]))

    def delete(self, ids: Sequence[str], *, within: Filter | None = None) -> DeleteResult:
        """See :meth:`hummingbit.index.backend.CollectionBackend.delete`."""
        if within is not None:
            return self.delete_where(And((HasId(tuple(ids)), within))) if ids else self._delete([])
        with self._one_writer():
            return self._delete(list(self._store.by_ids(list(dict.fromkeys(ids)), ["row"])))

    def delete_where(self, filter: Filter) -> DeleteResult:  # noqa: A002
        """See :meth:`hummingbit.index.backend.CollectionBackend.delete_where`."""
        with self._one_writer():
            last = self._progress.now().last_row
            condition = self._store.condition(filter, last)
            entities = self._store.by_row(["id", "row"], 1, last, condition)
            return self._delete([entity["id"] for entity in entities])

    def update_payloads(
        self, updates: Sequence[PayloadUpdate], if_generation: int | None = None
    ) -> PayloadsUpdated:
        """See :meth:`hummingbit.index.backend.AnyCollection.update_payloads`.

        If Milvus fails, some documents may have been changed; repeating the call completes it.
        """
        with self._one_writer():
            self._progress.check_alone()
            now = self._progress.now()
            if if_generation is not None and now.generation != if_generation:
                message = f"is at generation {now.generation}, not {if_generation}"
                raise GenerationChanged(f"collection {self.name!r} {message}; nothing was written")
            selected: set[str] = set()
            changed: set[str] = set()
            for update in updates:
                condition = self._store.condition(
                    HasId(update.ids or ()) if update.filter is None else update.filter,
                    now.last_row,
                )
                if update.filter is None and not update.ids:
                    continue
                entities: list[dict[str, Any]] = []
                for entity in self._store.documents(1, now.last_row, condition):
                    selected.add(entity["id"])
                    stored = schema.to_document(entity)
                    payload = update.apply(stored.payload)
                    self._check_no_expiry(payload)
                    if payload != stored.payload:
                        document = Document(
                            id=stored.id, text=stored.text, vector=stored.vector, payload=payload
                        )
                        packed = bytes.fromhex(stored.code)
                        entities.append({**schema.to_entity(document, packed), "row": stored.row})
                changed.update(entity["id"] for entity in entities)
                self._store.upsert(entities)
                if entities and update is not updates[-1]:
                    self._store.wait_for_all()  # the next update reads what this one wrote
            number = self._progress.finish(changed=bool(changed))
            return PayloadsUpdated(len(selected), len(changed), number)

    def get(self, id_: str) -> StoredDocument | None:
        """See :meth:`hummingbit.index.backend.CollectionBackend.get`."""
        entity = self._store.whole(id_)
        if entity is None:
            return None
        if not schema.is_intact(entity):
            raise StoreError(f"document {id_!r} on Milvus does not match its checksum")
        return schema.to_document(entity)

    def knows_filter(self, filter: Filter | None) -> bool:  # noqa: A002
        """Return whether there is no filter: Milvus reads payloads for every search with one."""
        return filter is None and self._filter is None

    def is_built_for(self, ranking: str | None) -> bool:  # noqa: ARG002
        """See :meth:`hummingbit.index.backend.CollectionBackend.is_built_for`."""
        return True  # Milvus builds what it needs

    def count(self, filter: Filter | None = None) -> int:  # noqa: A002
        """Return the number of documents, or of those that match the filter."""
        last = 0 if filter is None else self._progress.now().last_row
        return self._store.count(self._store.condition(filter, last))

    def scroll(
        self,
        limit: int,
        cursor: str | None = None,
        filter: Filter | None = None,  # noqa: A002
        sort: Sequence[SortField] = (),
    ) -> ScrollPage:
        """See :meth:`hummingbit.index.backend.CollectionBackend.scroll`."""
        if sort:
            raise InputError("sort", NOT_ON_MILVUS)
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

    def payloads_changed_since(self, generation: int) -> list[StoredDocument]:
        """Return all documents if anything was written since; Milvus keeps no list of changes."""
        return [] if generation == self.generation else self.all_documents()

    def all_documents(self) -> list[StoredDocument]:
        """Return all documents in the order of rows."""
        return [*map(schema.to_document, self._store.documents(1, self._progress.now().last_row))]

    def coded_payloads(self, *, with_given_labels: bool) -> CodedPayloads:
        """See :meth:`hummingbit.index.backend.CollectionBackend.coded_payloads`."""
        fields = ["row", "code", "payload", "original"]
        entities = list(self._store.by_row(fields, 1, self._progress.now().last_row))
        payloads: list[Mapping[str, Any]] = [schema.to_payload(entity) for entity in entities]
        given_labels: list[tuple[str, ...]] = [()] * len(entities) if with_given_labels else []
        return CodedPayloads(schema.to_codes(entities, self.n_bits), payloads, given_labels)

    def _codes_of(self, ids: Sequence[str]) -> dict[str, Codes]:
        return self._store.codes_of(ids)

    def encode_queries(
        self, queries: Sequence[Query], options: SearchOptions | None = None
    ) -> EncodedQueries:
        """See :meth:`hummingbit.index.backend.CollectionBackend.encode_queries`; texts are words.

        Raises:
            InputError: also if `syntax` is ``query``, which needs a word index.
        """
        options = SearchOptions(1) if options is None else options
        if options.syntax == QUERY:
            message = f"is {QUERY!r}, which needs a word index; on Milvus it must be {PLAIN!r}"
            raise InputError("syntax", message)
        return super().encode_queries(queries, replace(options, syntax=PLAIN))

    def complete(self, text: str, limit: int) -> list[str]:  # noqa: ARG002
        """Raise an InputError: collections on Milvus have no word index."""
        raise InputError("text", "cannot be completed: a collection on Milvus has no word index")

    def _run_search(self, search: Search) -> SearchResult:
        """Run a search and return its result; see "No snapshots" above.

        Raises:
            InputError: if Milvus does not support the ranking or rescoring.
            StoreError: if Milvus cannot be reached or refuses.
        """
        options, store, now = search.options, self._store, self._progress.now()
        check_on_milvus(search.ranking)
        missing = ("rescore", "collapse_duplicates", "diversity", "group_by", "facets")
        options.refuse(missing, NOT_ON_MILVUS)
        filters = [part for part in (self._filter, options.filter) if part is not None]
        condition = store.condition(And(tuple(filters)) if filters else None, now.last_row)
        whole = store.condition(self._filter, now.last_row)
        for _ in range(ATTEMPTS):
            ranking = _HammingOnMilvus(store, now.last_row, condition, options.radius, whole)
            least = options.score_threshold
            pages = search.pages(ranking if least is None else AboveThreshold(ranking, least), None)
            stored_rows = ranking.read_hits(search, rows_of(pages, search.code_column))
            if stored_rows is not None:
                return search.result(
                    ranking,
                    pages,
                    stored_rows,
                    generation=now.generation,
                    last_row=now.last_row,
                    engine=ENGINE,
                )
        raise StoreError(f"collection {search.name!r} changes too fast to be searched")

    def set_language(self, language: str) -> None:
        """Raise an InputError: collections on Milvus have no word index."""
        message = f"is {language[:40]!r}; a collection on Milvus has no word index, and no language"
        raise InputError("language", message)

    def set_ranking(self, ranking: str) -> None:
        """Raise an InputError unless `ranking` is the only one on Milvus, by distance."""
        check_ranking(ranking)
        check_on_milvus(ranking)

    def set_hybrid_weight(self, weight: float | None) -> None:
        """Raise an InputError: rankings by words are not on Milvus."""
        check_hybrid_weight(weight)
        raise InputError("hybrid_weight", "collections on Milvus have no hybrid ranking")

    def set_indexed_fields(
        self,
        fields: Sequence[str],
        progress: Callable[[], object] | None = None,  # noqa: ARG002 - there is nothing to do
    ) -> list[str]:
        """Raise an InputError unless `fields` is empty: Milvus evaluates filters itself."""
        check_fields_on_milvus(fields)
        return []

    def remember_field_types(self, types: Mapping[str, FieldType]) -> None:
        """Do nothing; the documents show the types."""

    def verify(self) -> Verification:
        """Check every document against its checksum, and their number against Milvus' count.

        The index is Milvus' own responsibility.
        """
        checked, damaged = 0, 0
        problems: list[str] = []
        for entity in self._store.documents(1, self._progress.now().last_row):
            checked += 1
            if not is_intact(entity):
                damaged += 1
                if damaged <= MAX_PROBLEMS:
                    document = f"{entity['id']!r} (row {entity['row']})"
                    problems.append(f"document {document} does not match its checksum")
        if damaged > MAX_PROBLEMS:
            n_more = damaged - MAX_PROBLEMS
            problems.append(f"{n_more:,} more documents do not match their checksums")
        if (count := self._store.count()) != checked:
            problems.append(f"Milvus counts {count:,} documents and returns {checked:,}")
        return Verification(checked, problems)

    def compact(self) -> None:
        """Ask Milvus to free the space of deleted documents, which it does in the background."""
        with self._one_writer():
            self._progress.check_alone()
            self._store.compact()

    def stats(self) -> dict[str, Any]:
        """See :meth:`hummingbit.index.backend.CollectionBackend.stats`.

        The statistics are those of the first :data:`MAX_DOCUMENTS` documents' codes.
        """
        now = self._progress.now()

        def statistics() -> dict[str, Any]:
            read = self._store.by_row(["row", "code"], 1, now.last_row)
            entities = [*itertools.islice(read, MAX_DOCUMENTS)]
            rows = np.array([entity["row"] for entity in entities], dtype=np.int64)
            codes = to_codes(entities, self.n_bits)
            return code_statistics(IndexSnapshot.build(now.generation, codes, rows))

        return self._stats(
            documents=len(self),
            generation=now.generation,
            engine=ENGINE,
            engine_reason=ENGINE_REASON,
            statistics=self._statistics.get(now.generation, statistics),
            problems=[],
        )

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

    def _check(self, check: CheckReplaced | None, ids: Collection[str]) -> None:
        """Call `check` with the payloads of the documents with these ids, before a write."""
        if check is not None:
            stored = self._store.by_ids([*ids], ["payload", "original"])
            check({id_: to_payload(entity) for id_, entity in stored.items()})

    def _check_no_expiry(self, payload: Mapping[str, Any]) -> None:
        if payload.get(EXPIRES_AT) is not None:
            message = f"is given; {self.name!r} is on Milvus, where documents do not expire"
            raise InputError("expires_at", message)

    def _entities(self, documents: Sequence[Document], codes: Codes) -> list[dict[str, Any]]:
        for document in documents:
            self._check_no_expiry(document.payload)
        pairs = zip(documents, codes, strict=True)
        return [schema.to_entity(document, code.tobytes()) for document, code in pairs]

    def _write(self, entities: list[dict[str, Any]]) -> None:
        """Assign rows to the documents and write them. Called with the write lock held."""
        rows = self._progress.take_rows(len(entities))
        self._store.upsert(
            [{**entity, "row": row} for entity, row in zip(entities, rows, strict=True)]
        )

    def _delete(self, ids: Sequence[str]) -> DeleteResult:
        self._progress.check_alone()
        self._store.delete(ids)
        return DeleteResult(len(ids), self._progress.finish(changed=bool(ids)))
