"""Haystack: a document store, its retriever, and embedders.

Source of the interfaces: https://docs.haystack.deepset.ai/docs/document-store
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from haystack import component, default_from_dict, default_to_dict
from haystack.dataclasses import Document
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.utils import Secret, deserialize_secrets_inplace
from haystack.utils.filters import document_matches_filter

from hummingbit.clients.client import Client
from hummingbit.embedded import Collection
from hummingbit.encoder_loading import load_encoder
from hummingbit.foundation.errors import InputError
from hummingbit.index.filters import Filter
from hummingbit.index.search import Hit
from hummingbit.integrations.narrowing import (
    all_of,
    any_of,
    documents_that_may_match,
    equal_to_any,
    has_id,
    in_order,
    log_added,
    matching_hits,
    present,
)
from hummingbit.served import AnyOpenCollection, ServedCollection

_LOGGER = logging.getLogger(__name__)

P = ParamSpec("P")
Answer = TypeVar("Answer")
Filters = Mapping[str, Any]
"""A comparison (field, operator, value) or a logic (operator, conditions), as Haystack has them."""

BOUND_NAMES = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
OPERATORS = ("==", "!=", *BOUND_NAMES, "in", "not in")
FIELDS = frozenset(field.name for field in fields(Document))
"""The names that filters read from a document itself; other names are those of metadata."""


def _in_thread(method: Callable[P, Answer]) -> Callable[P, Coroutine[Any, Any, Answer]]:
    """Return a method to be awaited, which calls `method` in another thread.

    Pipelines that run asynchronously await the methods of a store by these names.
    """

    @functools.wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> Answer:
        return await asyncio.to_thread(method, *args, **kwargs)

    return call


class HummingbitDocumentStore:
    """A collection of texts as Haystack's document store.

    The text is the document's content. Metadata and everything else that a document holds, such as
    an embedding of another model, are kept in the payload.
    """

    def __init__(
        self,
        folder: str | None = None,
        collection: str | None = None,
        read_only: bool = False,
        *,
        url: str | None = None,
        key: Secret | None = None,
    ) -> None:
        """Open the collection `collection`, which has a text encoder or is searched by words alone.

        It is in the data folder `folder`, or at the service at `url`, whose key is by default
        ``HUMMINGBIT_KEY``. The only collection of a service need not be named.

        Raises:
            UnknownCollection, ServiceError: if it does not exist.
            DataFolderInUse: unless `read_only`, if another process is writing to the folder.
            ValueError: unless either `folder` and `collection` or `url` are given.
        """
        if (folder is None) == (url is None) or (folder is not None and collection is None):
            raise ValueError("pass a folder and a collection, or the url of a service")
        self._arguments = {
            "folder": folder,
            "collection": collection,
            "read_only": read_only,
            "url": url,
        }
        self._key = key
        self._client: Client | None = None
        self.collection: AnyOpenCollection
        if folder is not None and collection is not None:
            self.collection = Collection.open(folder, collection, read_only=read_only)
        else:
            self._client = Client(url, None if key is None else key.resolve_value())
            self.collection = ServedCollection(self._client, collection)

    def to_dict(self) -> dict[str, Any]:
        """Return what :meth:`from_dict` takes; the documents stay in the data folder."""
        key = None if self._key is None else self._key.to_dict()
        data: dict[str, Any] = default_to_dict(self, **self._arguments, key=key)
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> HummingbitDocumentStore:
        """Open the collection that :meth:`to_dict` described."""
        if data["init_parameters"].get("key") is not None:
            deserialize_secrets_inplace(data["init_parameters"], ["key"])
        store: HummingbitDocumentStore = default_from_dict(cls, data)
        return store

    def close(self) -> None:
        """Close the collection, and the connections to a service."""
        self.collection.close()
        if self._client is not None:
            self._client.close()

    def count_documents(self) -> int:
        """Return how many documents there are."""
        return len(self.collection)

    def filter_documents(self, filters: Filters | None = None) -> list[Document]:
        """Return the documents that match, in the order in which they were written.

        Raises:
            FilterError: if `filters` is not a filter of Haystack, or compares values without an
                order.
        """
        return list(self._matching(filters))

    def write_documents(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Write documents, all or none of them, and return how many were given to be written.

        Without a policy, a document that already exists is an error, as with ``FAIL``. Documents of
        the list with the same id are treated as if one of them had existed before.

        Raises:
            ValueError: if `documents` is not a list of documents.
            DuplicateDocumentError: if one exists and may be neither replaced nor skipped.
        """
        if not isinstance(documents, list) or not all(
            isinstance(document, Document) for document in documents
        ):
            raise ValueError("documents must be a list of Haystack's documents")
        if policy == DuplicatePolicy.OVERWRITE:
            if documents:
                records = [_record(document) for document in documents]
                added = self.collection.add(records, on_repeated_id="last")
                log_added(_LOGGER, added, self.collection.name)
            return len(documents)
        seen = self.collection.existing_ids([document.id for document in documents])
        new = []
        for document in documents:
            if document.id not in seen:
                seen.add(document.id)
                new.append(document)
            elif policy != DuplicatePolicy.SKIP:
                raise DuplicateDocumentError(
                    f"document {document.id!r} already exists or occurs twice"
                )
        if new:
            added = self.collection.add([_record(document) for document in new])
            log_added(_LOGGER, added, self.collection.name)
        return len(new)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents by id; unknown ids are ignored."""
        self.collection.delete(document_ids)

    def delete_all_documents(self) -> None:
        """Delete every document; the collection stays."""
        self.collection.delete([stored.id for stored in self.collection.documents()])

    def delete_by_filter(self, filters: Filters) -> int:
        """Delete the documents that match `filters`, and return their number.

        Raises:
            FilterError: as :meth:`filter_documents`; then nothing is deleted.
        """
        return self.collection.delete(
            [document.id for document in self._matching(filters, required=True)]
        )

    def update_by_filter(self, filters: Filters, meta: dict[str, Any]) -> int:
        """Set metadata fields of the documents that match `filters`, and return their number."""
        matching = self._matching(filters, required=True)
        changed = [replace(document, meta={**document.meta, **meta}) for document in matching]
        return self.write_documents(changed, DuplicatePolicy.OVERWRITE)

    def search(
        self,
        query: str,
        top_k: int = 10,
        filters: Filters | None = None,
        ranking: str | None = None,
    ) -> list[Document]:
        """Return the `top_k` best documents, each with the score of `ranking`; none for 0."""
        if top_k == 0:
            return []
        if filters:
            hits = matching_hits(
                self.collection,
                query,
                top_k,
                narrowing(filters),
                lambda hit: _holds(filters, _hit_document(hit)),
                ranking=ranking,
            )
        else:
            hits = [*self.collection.search(query, limit=top_k, ranking=ranking)]
        return [replace(_hit_document(hit), score=hit.score) for hit in hits]

    close_async = _in_thread(close)
    count_documents_async = _in_thread(count_documents)
    filter_documents_async = _in_thread(filter_documents)
    write_documents_async = _in_thread(write_documents)
    delete_documents_async = _in_thread(delete_documents)
    delete_all_documents_async = _in_thread(delete_all_documents)
    delete_by_filter_async = _in_thread(delete_by_filter)
    update_by_filter_async = _in_thread(update_by_filter)
    search_async = _in_thread(search)

    def _matching(self, filters: Filters | None, *, required: bool = False) -> Iterator[Document]:
        """Yield the documents that match; unless `required`, empty filters match all."""
        narrowed = narrowing(filters or {}) if filters or required else None
        for stored in documents_that_may_match(self.collection, narrowed):
            document = _read(stored.id, stored.text, stored.payload)
            if not filters or _holds(filters, document):
                yield document


@component
class HummingbitRetriever:
    """A retriever of the best documents of a store, by one of hummingbit's rankings."""

    def __init__(
        self,
        document_store: HummingbitDocumentStore,
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
        ranking: str | None = None,
    ) -> None:
        self.document_store = document_store
        self.top_k = top_k
        self.filters = filters
        self.ranking = ranking

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Search the store; the arguments given here replace those of the retriever."""
        documents = self.document_store.search(
            query,
            self.top_k if top_k is None else top_k,
            filters or self.filters,
            self.ranking,
        )
        return {"documents": documents}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """See :meth:`run`."""
        return await asyncio.to_thread(self.run, query, top_k, filters)

    def to_dict(self) -> dict[str, Any]:
        """Return what :meth:`from_dict` takes."""
        store = self.document_store.to_dict()
        data: dict[str, Any] = default_to_dict(
            self,
            document_store=store,
            top_k=self.top_k,
            filters=self.filters,
            ranking=self.ranking,
        )
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> HummingbitRetriever:
        """Return the retriever that :meth:`to_dict` described."""
        parameters = data["init_parameters"]
        parameters["document_store"] = HummingbitDocumentStore.from_dict(
            parameters["document_store"]
        )
        retriever: HummingbitRetriever = default_from_dict(cls, data)
        return retriever


@component
class HummingbitTextEmbedder:
    """An embedder of queries: the embedding is the weight of each bit of a document."""

    def __init__(self, encoder: str) -> None:
        """`encoder` is the folder of a text encoder."""
        self.encoder = encoder
        self._loaded = load_encoder(Path(encoder))

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        """Embed a query."""
        return {"embedding": self._loaded.query_weights([text])[0].tolist()}

    @component.output_types(embedding=list[float])
    async def run_async(self, text: str) -> dict[str, Any]:
        """See :meth:`run`."""
        return await asyncio.to_thread(self.run, text)


@component
class HummingbitDocumentEmbedder:
    """An embedder of documents: the sign of each number of an embedding is a bit of the code."""

    def __init__(self, encoder: str) -> None:
        """`encoder` is the folder of a text encoder."""
        self.encoder = encoder
        self._loaded = load_encoder(Path(encoder))

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Embed the contents of documents."""
        margins = self._loaded.margins([document.content or "" for document in documents])
        embedded = [
            replace(document, embedding=row.tolist())
            for document, row in zip(documents, margins, strict=True)
        ]
        return {"documents": embedded}

    @component.output_types(documents=list[Document])
    async def run_async(self, documents: list[Document]) -> dict[str, Any]:
        """See :meth:`run`."""
        return await asyncio.to_thread(self.run, documents)


def narrowing(filters: Filters) -> Filter | None:
    """Return a condition on payloads that holds at least for the documents of Haystack's filters.

    Raises:
        FilterError: if they are not filters of Haystack.
    """
    for key in ("operator", "value" if "field" in filters else "conditions"):
        if key not in filters:
            kind = "a comparison" if "field" in filters else "a filter without a field"
            raise FilterError(f"{kind} must have {key!r}")
    operator = filters["operator"]
    if "field" in filters:
        return _narrowed_comparison(filters["field"], operator, filters["value"])
    parts = [narrowing(condition) for condition in filters["conditions"]]
    if operator not in ("AND", "OR", "NOT"):
        raise FilterError(f"operator is {operator!r}; it must be AND, OR or NOT")
    if operator == "NOT":
        return None
    return all_of(parts) if operator == "AND" else any_of(parts)


def _narrowed_comparison(field: str, operator: str, value: Any) -> Filter | None:
    if operator not in OPERATORS:
        raise FilterError(f"operator is {operator!r}; it must be one of {', '.join(OPERATORS)}")
    if operator in ("in", "not in") and not isinstance(value, list):
        raise FilterError(f"{field}: the value of {operator!r} is {value!r}; it must be a list")
    if field == "id" and operator in ("==", "in"):
        ids = value if operator == "in" else [value]
        return None if any(map(_can_be_date, ids)) else has_id(ids)
    payload_field = field if field.startswith("meta.") else f"meta.{field}"
    parts = [
        _narrowed_place(field, at, operator, value) for at in (payload_field, payload_field[5:])
    ]
    return any_of(parts)


def _narrowed_place(field: str, payload_field: str, operator: str, value: Any) -> Filter | None:
    """Return a condition on one place in payloads.

    Documents that Haystack did not write have no ``meta`` around the fields of their payloads.
    """
    is_nested = "." in field and not field.startswith("meta.")
    if is_nested or field in FIELDS:
        return None
    values = value if isinstance(value, list) and operator in ("in", "not in") else [value]
    if operator in ("!=", "not in"):
        return present(payload_field) if None in values else None
    if operator in BOUND_NAMES and not isinstance(value, str):
        return in_order(payload_field, BOUND_NAMES[operator], value)
    # The same time can be written in several ways.
    if operator in BOUND_NAMES or any(_can_be_date(value) for value in values):
        return None if None in values else present(payload_field)
    return equal_to_any(payload_field, values)


def _can_be_date(value: Any) -> bool:
    return isinstance(value, str) and value[:4].isdigit() and value[4:5] == "-"


def _holds(filters: Filters, document: Document) -> bool:
    """Tell whether Haystack's filters hold for a document.

    Raises:
        FilterError: if they compare values without an order.
    """
    try:
        return document_matches_filter(dict(filters), document)
    except (TypeError, ValueError, OverflowError) as error:
        message = f"{error}; compare only values of one kind"
        raise FilterError(f"the filter does not suit document {document.id!r}: {message}") from None


def _record(document: Document) -> dict[str, Any]:
    """Return the record of a document for a collection; :func:`_read` is the inverse."""
    whole = document.to_dict(flatten=False)
    rest = {name: value for name, value in whole.items() if value is not None}
    for name in ("id", "content", "meta"):
        rest.pop(name, None)
    payload = {"meta": document.meta, **({"haystack": rest} if rest else {})}
    payload |= {} if document.content is None else {"has_content": True}
    return {"id": document.id, "text": document.content or "", "payload": payload}


def _is_written_by_haystack(payload: Mapping[str, Any]) -> bool:
    """Return whether a payload has the form that :func:`_record` gives it."""
    return isinstance(payload.get("meta"), Mapping) and payload.keys() <= {
        "meta",
        "haystack",
        "has_content",
    }


def _hit_document(hit: Hit) -> Document:
    return _read(hit.id, hit.text, hit.payload or {})


def _read(id_: str, text: str | None, payload: Mapping[str, Any]) -> Document:
    """Return the document that was written, or one with the text and payload of another."""
    if not _is_written_by_haystack(payload):
        return Document(id=id_, content=text, meta=dict(payload))
    parts = {"id": id_, "meta": payload.get("meta", {}), **payload.get("haystack", {})}
    content = text if payload.get("has_content") else None
    try:
        return Document.from_dict({**parts, "content": content})
    except (TypeError, ValueError) as error:
        raise InputError("payload", f"of {id_!r} is no Haystack document: {error}") from error
