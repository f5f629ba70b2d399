"""Haystack: a document store, its retriever, and embedders.

Source of the interfaces: https://docs.haystack.deepset.ai/docs/document-store
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from haystack import component, default_from_dict, default_to_dict
from haystack.dataclasses import Document
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError

from foundation.errors import InputError
from hummingbit.embedded import Collection
from hummingbit.encoder_loading import load_encoder
from index.document_pages import pages_of
from index.filter_parser import parse_filter
from index.records import StoredDocument

Filters = Mapping[str, Any]
"""A comparison (field, operator, value) or a logic (operator, conditions), as Haystack has them."""

COMPARISONS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
NOTHING: dict[str, Any] = {
    "and": [{"field": "id", "exists": True}, {"field": "id", "exists": False}]
}
"""A condition that holds for no document."""


class HummingbitDocumentStore:
    """A collection of texts as Haystack's document store.

    The text is the document's content. Metadata and everything else that a document holds, such as
    an embedding of another model, are kept in the payload.
    """

    def __init__(self, folder: str, collection: str, read_only: bool = False) -> None:
        """Open the collection `collection`, which has a text encoder, of the data folder `folder`.

        Raises:
            UnknownCollection: if it does not exist.
            DataFolderInUse: unless `read_only`, if another process is writing to the folder.
        """
        self._arguments = {"folder": folder, "collection": collection, "read_only": read_only}
        self.collection = Collection.open(folder, collection, read_only=read_only)

    def to_dict(self) -> dict[str, Any]:
        """Return what :meth:`from_dict` takes; the documents stay in the data folder."""
        data: dict[str, Any] = default_to_dict(self, **self._arguments)
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> HummingbitDocumentStore:
        """Open the collection that :meth:`to_dict` described."""
        store: HummingbitDocumentStore = default_from_dict(cls, data)
        return store

    def count_documents(self) -> int:
        """Return how many documents there are."""
        return len(self.collection)

    def filter_documents(self, filters: Filters | None = None) -> list[Document]:
        """Return the documents that match, in the order in which they were written.

        Raises:
            FilterError: if `filters` is not a filter of Haystack, or compares values without an
                order.
        """
        return [_document(stored) for stored in self._scroll(filters)]

    def write_documents(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Write documents, all or none of them, and return how many were written.

        Without a policy, a document that already exists is an error, as with ``FAIL``.

        Raises:
            ValueError: if `documents` is not a list of documents.
            DuplicateDocumentError: if one exists and may be neither replaced nor skipped.
        """
        if not isinstance(documents, list) or not all(
            isinstance(one, Document) for one in documents
        ):
            raise ValueError("documents must be a list of Haystack's documents")
        new = documents
        if policy != DuplicatePolicy.OVERWRITE:
            existing = self.collection.backend.existing_ids([one.id for one in documents])
            if existing and policy != DuplicatePolicy.SKIP:
                raise DuplicateDocumentError(f"document {min(existing)!r} already exists")
            new = [one for one in documents if one.id not in existing]
        return self.collection.add([_record(one) for one in new]) if new else 0

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents by id; unknown ids are ignored."""
        self.collection.delete(document_ids)

    def delete_all_documents(self) -> None:
        """Delete every document; the collection stays."""
        self.collection.delete([stored.id for stored in self._scroll(None)])

    def delete_by_filter(self, filters: Filters) -> int:
        """Delete the documents that match `filters`, and return their number."""
        condition = parse_filter(translate(filters))
        return self.collection.backend.delete_where(condition).deleted

    def update_by_filter(self, filters: Filters, meta: dict[str, Any]) -> int:
        """Set metadata fields of the documents that match `filters`, and return their number."""
        documents = self.filter_documents(filters)
        for document in documents:
            document.meta = {**document.meta, **meta}
        return self.write_documents(documents, DuplicatePolicy.OVERWRITE)

    def search(
        self,
        query: str,
        top_k: int = 10,
        filters: Filters | None = None,
        ranking: str | None = None,
    ) -> list[Document]:
        """Return the `top_k` best documents, each with the score of `ranking`."""
        condition = translate(filters) if filters else None
        hits = self.collection.search(query, limit=top_k, filter=condition, ranking=ranking)
        documents = []
        for hit in hits:
            document = _read(hit.id, hit.text, hit.payload or {})
            document.score = hit.score
            documents.append(document)
        return documents

    def _scroll(self, filters: Filters | None) -> Iterator[StoredDocument]:
        condition = parse_filter(translate(filters)) if filters else None
        for page in pages_of(self.collection.backend, condition):
            yield from page


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
            query, top_k or self.top_k, filters or self.filters, self.ranking
        )
        return {"documents": documents}

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
        margins = self._loaded.margins([one.content or "" for one in documents])
        for document, row in zip(documents, margins, strict=True):
            document.embedding = row.tolist()
        return {"documents": documents}


def translate(filters: Filters) -> dict[str, Any]:
    """Return Haystack's filters as a condition on payloads.

    Raises:
        FilterError: if they are not filters of Haystack, or compare values without an order.
    """
    if "field" in filters:
        return _comparison(filters)
    if "operator" not in filters or "conditions" not in filters:
        raise FilterError("a filter must have a field, or an operator and conditions")
    parts = [translate(one) for one in filters["conditions"]]
    operator = filters["operator"]
    if operator in ("AND", "OR"):
        return {operator.lower(): parts}
    if operator == "NOT":
        return {"not": {"and": parts}}
    raise FilterError(f"operator is {operator!r}; it must be AND, OR or NOT")


def _comparison(filters: Filters) -> dict[str, Any]:
    for key in ("operator", "value"):
        if key not in filters:
            raise FilterError(f"a comparison must have {key!r}")
    field, operator, value = filters["field"], filters["operator"], filters["value"]
    if operator in COMPARISONS:
        return _range(field, COMPARISONS[operator], value)
    if operator in ("in", "not in"):
        if not isinstance(value, list):
            raise FilterError(f"the value of {operator!r} must be a list")
        condition = {"field": field, "in": value} if value else NOTHING
    elif operator in ("==", "!="):
        missing = {"field": field, "exists": False}
        condition = missing if value is None else _equal(field, value)
    else:
        known = ", ".join(("==", "!=", *COMPARISONS, "in", "not in"))
        raise FilterError(f"operator is {operator!r}; it must be one of {known}")
    return {"not": condition} if operator in ("not in", "!=") else condition


def _equal(field: str, value: Any) -> dict[str, Any]:
    if isinstance(value, list | dict):
        raise FilterError(f"{field}: == and != compare no lists or objects; use in or not in")
    return {"field": field, "eq": value}


def _range(field: str, operator: str, value: Any) -> dict[str, Any]:
    if value is None:
        return NOTHING
    is_date = isinstance(value, str) and value[:4].isdigit() and value[4:5] == "-"
    if not is_date and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise FilterError(f"{field}: {value!r} has no order; it must be a number or an ISO date")
    return {"field": field, operator: value}


def _record(document: Document) -> dict[str, Any]:
    """Return the record of a document for a collection; :func:`_read` is the inverse."""
    fields = document.to_dict(flatten=False)
    rest = {name: value for name, value in fields.items() if value is not None}
    for name in ("id", "content", "meta", "score"):
        rest.pop(name, None)
    payload = {"meta": document.meta, **({"haystack": rest} if rest else {})}
    payload |= {} if document.content is None else {"has_content": True}
    return {"id": document.id, "text": document.content or "", "payload": payload}


def _document(stored: StoredDocument) -> Document:
    return _read(stored.id, stored.text, stored.payload)


def _read(id_: str, text: str | None, payload: Mapping[str, Any]) -> Document:
    fields = {"id": id_, "meta": payload.get("meta", {}), **payload.get("haystack", {})}
    content = text if payload.get("has_content") else None
    try:
        return Document.from_dict({**fields, "content": content})
    except (TypeError, ValueError) as error:
        raise InputError("payload", f"of {id_!r} is no Haystack document: {error}") from error
