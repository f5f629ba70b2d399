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
        """Open a collection of a data folder, which an encoder of texts was given.

        Raises:
            UnknownCollection: if there is none of that name.
            DataFolderInUse: unless `read_only`, if another process is writing to the folder.
        """
        self._where = {"folder": folder, "collection": collection, "read_only": read_only}
        self.collection = Collection.open(folder, collection, read_only=read_only)

    def to_dict(self) -> dict[str, Any]:
        """Return what :meth:`from_dict` takes; the documents stay in the data folder."""
        found: dict[str, Any] = default_to_dict(self, **self._where)
        return found

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
            FilterError: if `filters` is none of Haystack's, or asks for what has no order.
        """
        return [_document(stored) for stored in self._stored(filters)]

    def write_documents(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Write documents, all or none of them, and return how many were written.

        Without a policy, a document that is there already is an error, as with ``FAIL``.

        Raises:
            ValueError: if `documents` is no list of documents.
            DuplicateDocumentError: if one is there and may not be replaced or passed over.
        """
        if not isinstance(documents, list) or not all(
            isinstance(one, Document) for one in documents
        ):
            raise ValueError("documents must be a list of Haystack's documents")
        given = documents
        if policy != DuplicatePolicy.OVERWRITE:
            known = self.collection.backend.existing_ids([one.id for one in documents])
            if known and policy != DuplicatePolicy.SKIP:
                raise DuplicateDocumentError(f"document {min(known)!a} exists already")
            given = [one for one in documents if one.id not in known]
        return self.collection.add([_record(one) for one in given]) if given else 0

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents by id; ids that are not there are passed over."""
        self.collection.delete(document_ids)

    def delete_all_documents(self) -> None:
        """Delete every document; the collection stays."""
        self.collection.delete([stored.id for stored in self._stored(None)])

    def delete_by_filter(self, filters: Filters) -> int:
        """Delete the documents that match, and return how many there were."""
        condition = parse_filter(translate(filters))
        return self.collection.backend.delete_where(condition).deleted

    def update_by_filter(self, filters: Filters, meta: dict[str, Any]) -> int:
        """Set fields of the metadata of the documents that match, and return how many those are."""
        found = self.filter_documents(filters)
        for document in found:
            document.meta = {**document.meta, **meta}
        return self.write_documents(found, DuplicatePolicy.OVERWRITE)

    def search(
        self,
        query: str,
        top_k: int = 10,
        filters: Filters | None = None,
        ranking: str | None = None,
    ) -> list[Document]:
        """Return the `top_k` best documents with the ranking's score."""
        condition = translate(filters) if filters else None
        hits = self.collection.search(query, limit=top_k, filter=condition, ranking=ranking)
        found = []
        for hit in hits:
            document = _read(hit.id, hit.text, hit.payload or {})
            document.score = hit.score
            found.append(document)
        return found

    def _stored(self, filters: Filters | None) -> Iterator[StoredDocument]:
        condition = parse_filter(translate(filters)) if filters else None
        for page in pages_of(self.collection.backend, condition):
            yield from page


@component
class HummingbitRetriever:
    """The best documents of a store, by one of hummingbit's rankings."""

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
        """Search the store."""
        found = self.document_store.search(
            query, top_k or self.top_k, filters or self.filters, self.ranking
        )
        return {"documents": found}

    def to_dict(self) -> dict[str, Any]:
        """Return what :meth:`from_dict` takes."""
        store = self.document_store.to_dict()
        found: dict[str, Any] = default_to_dict(
            self,
            document_store=store,
            top_k=self.top_k,
            filters=self.filters,
            ranking=self.ranking,
        )
        return found

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> HummingbitRetriever:
        """Return the retriever that :meth:`to_dict` described."""
        given = data["init_parameters"]
        given["document_store"] = HummingbitDocumentStore.from_dict(given["document_store"])
        retriever: HummingbitRetriever = default_from_dict(cls, data)
        return retriever


@component
class HummingbitTextEmbedder:
    """The real-valued embedding of a query: what each bit of a document weighs."""

    def __init__(self, encoder: str) -> None:
        """Take the folder of an encoder of texts."""
        self.encoder = encoder
        self._loaded = load_encoder(Path(encoder))

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        """Embed a query."""
        return {"embedding": self._loaded.query_weights([text])[0].tolist()}


@component
class HummingbitDocumentEmbedder:
    """The real-valued embeddings of documents; the sign of each number is its bit."""

    def __init__(self, encoder: str) -> None:
        """Take the folder of an encoder of texts."""
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
        FilterError: if they are none of Haystack's, or compare what has no order.
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
    raise FilterError(f"{operator!r} is no logical operator; it must be AND, OR or NOT")


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
        found = {"field": field, "in": value} if value else NOTHING
    elif operator in ("==", "!="):
        missing = {"field": field, "exists": False}
        found = missing if value is None else _equal(field, value)
    else:
        raise FilterError(f"{operator!r} is no comparison")
    return {"not": found} if operator in ("not in", "!=") else found


def _equal(field: str, value: Any) -> dict[str, Any]:
    if isinstance(value, list | dict):
        raise FilterError(f"{field}: a list or an object is compared with nothing; use in")
    return {"field": field, "eq": value}


def _range(field: str, operator: str, value: Any) -> dict[str, Any]:
    if value is None:
        return NOTHING
    is_date = isinstance(value, str) and value[:4].isdigit() and value[4:5] == "-"
    if not is_date and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise FilterError(f"{field}: {value!r} has no order; it must be a number or an ISO date")
    return {"field": field, operator: value}


def _record(document: Document) -> dict[str, Any]:
    """Return the document of a collection that keeps all of `document`."""
    held = document.to_dict(flatten=False)
    rest = {name: value for name, value in held.items() if value is not None}
    for name in ("id", "content", "meta", "score"):
        rest.pop(name, None)
    payload = {"meta": document.meta, **({"haystack": rest} if rest else {})}
    payload |= {} if document.content is None else {"has_content": True}
    return {"id": document.id, "text": document.content or "", "payload": payload}


def _document(stored: StoredDocument) -> Document:
    return _read(stored.id, stored.text, stored.payload)


def _read(id_: str, text: str | None, payload: Mapping[str, Any]) -> Document:
    held = {"id": id_, "meta": payload.get("meta", {}), **payload.get("haystack", {})}
    content = text if payload.get("has_content") else None
    try:
        return Document.from_dict({**held, "content": content})
    except (TypeError, ValueError) as error:
        raise InputError("payload", f"of {id_!a} is not Haystack's: {error}") from error
