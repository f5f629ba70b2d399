"""A collection as a key with a filter sees it: matching documents, and nothing of others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from hummingbit.corpus.document import Document
from hummingbit.foundation.errors import InputError
from hummingbit.index.backend import CheckReplaced, CollectionBackend
from hummingbit.index.errors import UnknownDocument
from hummingbit.index.facets import SortField
from hummingbit.index.filters import And, Filter, HasId, IsSingle, fields_of, leaves_of, with_ids_of
from hummingbit.index.operations import Answer, Work, ask
from hummingbit.index.options import SearchOptions
from hummingbit.index.passages import DocumentCodes
from hummingbit.index.payloads import PayloadsUpdated, PayloadUpdate
from hummingbit.index.records import (
    DeleteResult,
    EncodedQueries,
    Query,
    ScrollPage,
    StoredDocument,
    UpsertResult,
)
from hummingbit.index.search import SearchResult, explain_no_hits

SETTINGS = frozenset(
    {
        *("name", "incarnation", "n_bits", "engine_setting", "keep_vectors"),
        *("encoder", "encoder_name", "encoder_fingerprint", "encoder_kind", "is_read_by_model"),
        *("ranking", "hybrid_weight", "own_hybrid_weight", "language", "passages"),
        "indexed_fields",
    }
)
"""Attributes of a collection that say nothing about documents."""


def check_is_of_payloads(filter_: Filter) -> None:
    """Raise InputError if a filter names ids, so that payloads alone do not decide it."""
    if any(isinstance(leaf, HasId) for leaf in leaves_of(filter_)):
        raise InputError("filter", "has has_id; a key's filter must be of payload fields only")


def owned_by(filter_: Filter) -> Filter:
    """Return the filter of the documents that a key with `filter_` owns.

    They match it, and each of its fields has at most one value in them. Otherwise a document that
    is of tenant ``["a", "b"]`` would belong to two, and one could write into the other's documents.
    """
    return And((filter_, *map(IsSingle, sorted(fields_of(filter_)))))


class FilteredCollection:
    """The documents of a collection that a key with a filter owns (:func:`owned_by`).

    It has only those methods of :class:`hummingbit.index.backend.CollectionBackend` that can be
    limited to the filter. A document outside counts as missing, and none can be written that would
    be outside. Nothing that is returned depends on documents outside, except that generations and
    cursors count all writes. The encoder may have learned words of other documents, so results name
    no word that it corrected one of a query to.
    """

    def __init__(self, collection: CollectionBackend, filter_: Filter) -> None:
        self._collection = collection
        self._fields = sorted(fields_of(filter_))
        self._filter = owned_by(filter_)
        self._own = collection.within(self._filter)

    def __getattr__(self, name: str) -> Any:
        """Return a setting of the collection; nothing else of it is passed on."""
        if name not in SETTINGS:
            raise AttributeError(f"a collection with a filter has no {name!r}")
        return getattr(self._own, name)

    @property
    def generation(self) -> int:
        """See :attr:`hummingbit.index.backend.AnyCollection.generation`."""
        return self._collection.generation

    def __len__(self) -> int:
        return self.count()

    # Reads.

    def get(self, id_: str) -> StoredDocument | None:
        """See :meth:`hummingbit.index.backend.AnyCollection.get`."""
        return next(self.get_many([id_]))

    def get_many(self, ids: Sequence[str]) -> Iterator[StoredDocument | None]:
        """See :meth:`hummingbit.index.backend.AnyCollection.get_many`."""
        inside = self._inside(ids)
        found = self._collection.get_many([id_ for id_ in ids if id_ in inside])
        return (self._if_inside(next(found)) if id_ in inside else None for id_ in ids)

    def count(self, filter: Filter | None = None) -> int:  # noqa: A002
        """See :meth:`hummingbit.index.backend.AnyCollection.count`."""
        return self._collection.count(self._joined(filter))

    def explain_no_hits(self, filter: Filter | None) -> list[str]:  # noqa: A002
        """See :func:`hummingbit.index.search.explain_no_hits`."""
        return explain_no_hits(self, filter)

    def scroll(
        self,
        limit: int,
        cursor: str | None = None,
        filter: Filter | None = None,  # noqa: A002
        sort: Sequence[SortField] = (),
    ) -> ScrollPage:
        """See :meth:`hummingbit.index.backend.AnyCollection.scroll`."""
        return self._collection.scroll(limit, cursor, self._joined(filter), sort)

    def ask(
        self,
        operation: str,
        body: Mapping[str, Any],
        filter: Filter | None = None,  # noqa: A002
    ) -> dict[str, Any]:
        """See :meth:`hummingbit.index.backend.AnyCollection.ask`."""
        return ask(self, operation, body, filter)

    def tabulate(self, filter_: Filter | None, fields: Sequence[str], work: Work[Answer]) -> Answer:
        """See :meth:`hummingbit.index.operations.Documents.tabulate`."""
        return self._collection.tabulate(self._joined(filter_), fields, work)

    def knows_filter(self, filter: Filter | None) -> bool:  # noqa: A002
        """See :meth:`hummingbit.index.backend.CollectionBackend.knows_filter`."""
        return self._own.knows_filter(filter)

    def encode_queries(
        self, queries: Sequence[Query], options: SearchOptions | None = None
    ) -> EncodedQueries:
        """See :meth:`hummingbit.index.backend.CollectionBackend.encode_queries`."""
        self._check_ids(queries)
        return self._own.encode_queries(queries, options)

    def find(self, queries: Sequence[Query], options: SearchOptions) -> SearchResult:
        """See :meth:`hummingbit.index.backend.CollectionBackend.find`.

        Raises:
            InputError: also if `explain` is set, which shows what the encoder makes of a word.
        """
        self._check_ids(queries)
        self._joined(options.filter)
        if options.explain:
            raise InputError("explain", "is set; a key with a filter cannot explain searches")
        return _without_corrections(self._own.find(queries, options))

    def recommend(
        self,
        positive: Sequence[Query],
        negative: Sequence[Query],
        options: SearchOptions,
        strategy: str,
    ) -> SearchResult:
        """See :meth:`hummingbit.index.backend.CollectionBackend.recommend`."""
        self._check_ids([*positive, *negative])
        return _without_corrections(self._own.recommend(positive, negative, options, strategy))

    def complete(self, text: str, limit: int) -> list[str]:
        """See :meth:`hummingbit.index.backend.CollectionBackend.complete`."""
        return self._own.complete(text, limit)

    # Writes.

    def upsert(
        self, documents: Iterable[Document], *, check: CheckReplaced | None = None
    ) -> UpsertResult:
        """See :meth:`hummingbit.index.backend.CollectionBackend.upsert`.

        Raises:
            InputError: also if a document would be outside, or its id is that of one outside.
        """
        written = [*documents]
        self._check_payloads(written)
        return self._collection.upsert(written, check=self._check_of(written, check))

    def upsert_encoded(
        self,
        documents: Sequence[Document],
        codes: DocumentCodes,
        bookmark: tuple[str, str] | None = None,
        check: CheckReplaced | None = None,
    ) -> UpsertResult:
        """See :meth:`hummingbit.index.backend.CollectionBackend.upsert_encoded`."""
        self._check_payloads(documents)
        checked = self._check_of(documents, check)
        return self._collection.upsert_encoded(documents, codes, bookmark, checked)

    def check_documents(self, documents: Sequence[Document]) -> None:
        """Raise InputError unless the filter allows to write all `documents`."""
        self._check_payloads(documents)
        self._check_ids_are_inside(documents, self._outside([item.id for item in documents]))

    def _check_payloads(self, documents: Sequence[Document]) -> None:
        for position, document in enumerate(documents):
            self.check_owned(document.payload_with_labels, "payload", position)

    def _check_of(
        self, documents: Sequence[Document], check: CheckReplaced | None
    ) -> CheckReplaced:
        """Return a check that none of the documents that are replaced is outside."""

        def check_replaced(stored: Mapping[str, Mapping[str, Any]]) -> None:
            matches = self._filter.matches
            outside = {id_ for id_, payload in stored.items() if not matches(payload)}
            self._check_ids_are_inside(documents, outside)
            if check is not None:
                check(stored)

        return check_replaced

    def _check_ids_are_inside(
        self, documents: Sequence[Document], outside: Collection[str]
    ) -> None:
        for position, document in enumerate(documents):
            if document.id in outside:
                message = "is the id of a document that the filter of the key excludes"
                raise InputError("id", message, position)

    def existing_ids(self, ids: Sequence[str]) -> set[str]:
        """See :meth:`hummingbit.index.backend.CollectionBackend.existing_ids`."""
        return self._collection.existing_ids(ids) - self._outside(ids)

    def new_or_changed(self, documents: Sequence[Document]) -> list[Document]:
        """See :meth:`hummingbit.index.backend.CollectionBackend.new_or_changed`.

        Documents that may not be written are among them.
        """
        outside = self._outside([document.id for document in documents])
        changed = {document.id for document in self._collection.new_or_changed(documents)}
        return [
            document for document in documents if document.id in changed or document.id in outside
        ]

    def delete(self, ids: Sequence[str]) -> DeleteResult:
        """See :meth:`hummingbit.index.backend.AnyCollection.delete`."""
        return self._collection.delete(sorted(self._inside(ids)), within=self._filter)

    def delete_where(self, filter: Filter) -> DeleteResult:  # noqa: A002
        """See :meth:`hummingbit.index.backend.AnyCollection.delete_where`."""
        return self._collection.delete_where(self._joined(filter))

    def update_payloads(
        self, updates: Sequence[PayloadUpdate], if_generation: int | None = None
    ) -> PayloadsUpdated:
        """See :meth:`hummingbit.index.backend.AnyCollection.update_payloads`.

        Raises:
            InputError: also if a document would be outside afterwards.
        """
        confined: list[_ConfinedUpdate] = []
        for update in updates:
            values = {field.name: getattr(update, field.name) for field in fields(update)}
            if update.ids != ():
                selected = HasId(update.ids or ()) if update.filter is None else update.filter
                selected = with_ids_of(selected, self._inside(_named_ids(selected)))
                values |= {"ids": None, "filter": And((self._filter, selected))}
            confined.append(_ConfinedUpdate(**values, within=self))
        return self._collection.update_payloads(confined, if_generation)

    def check_owned(self, payload: Any, field: str, position: int | None = None) -> None:
        """Raise InputError for `field` unless the key would own a document with this payload."""
        for name in self._fields:
            if not IsSingle(name).matches(payload):
                message = (
                    f"has several values, a list or an object in {name!r}; the key has a filter of"
                    " this field, so it must hold one string, number or boolean"
                )
                raise InputError(field, message, position)
        if not self._filter.matches(payload):
            raise InputError(field, "does not match the filter of the key", position)

    def _joined(self, filter_: Filter | None) -> Filter:
        """Return what matches a filter and is inside."""
        if filter_ is None:
            return self._filter
        if _named_ids(filter_):
            self._collection.ids_within((), self._filter)  # so that no named document is read
        return And((self._filter, filter_))

    def _check_ids(self, queries: Sequence[Query]) -> None:
        """Raise UnknownDocument if a query is the id of a document outside."""
        for query in queries:
            if query.id is not None and self.get(query.id) is None:
                message = f"collection {self.name!r} has no document {query.id[:80]!r}"
                raise UnknownDocument(message)

    def _if_inside(self, stored: StoredDocument | None) -> StoredDocument | None:
        return stored if stored is not None and self._filter.matches(stored.payload) else None

    def _inside(self, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that are ids of documents inside."""
        return self._collection.ids_within([*dict.fromkeys(ids)], self._filter)

    def _outside(self, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that are ids of documents outside."""
        return self._collection.existing_ids(ids) - self._inside(ids)


def _named_ids(filter_: Filter) -> list[str]:
    return [id_ for leaf in leaves_of(filter_) if isinstance(leaf, HasId) for id_ in leaf.ids]


def visible(collection: CollectionBackend, filter_: Filter | None) -> Any:
    """Return a collection as a key with the filter sees it, or as it is without one."""
    return collection if filter_ is None else FilteredCollection(collection, filter_)


@dataclass(frozen=True, slots=True)
class _ConfinedUpdate(PayloadUpdate):
    """A change of payloads after which the key of a collection must own all documents."""

    within: FilteredCollection | None = None

    def apply(self, payload: Any) -> dict[str, Any]:
        """See :meth:`hummingbit.index.payloads.PayloadUpdate.apply`.

        Raises:
            InputError: if the key would not own a document with the payload afterwards.
        """
        changed = PayloadUpdate.apply(self, payload)
        if self.within is not None:
            self.within.check_owned(changed, "updates")
        return changed


def _without_corrections(result: SearchResult) -> SearchResult:
    """Return a result without the words that those of queries were corrected to."""
    questions = [
        question and replace(question, corrected=()) for question in result.queries.questions
    ]
    return result._replace(queries=replace(result.queries, questions=questions))
