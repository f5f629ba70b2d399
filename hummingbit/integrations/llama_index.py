"""LlamaIndex: a collection as a vector store.

Source of the interface: https://developers.llamaindex.ai/python/framework/module_guides/storing/vector_stores
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode, MetadataMode, TextNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import (
    build_metadata_filter_fn,
    metadata_dict_to_node,
    node_to_metadata_dict,
)

from hummingbit.clients.client import Client
from hummingbit.index.filters import Filter
from hummingbit.index.names import ASYMMETRIC, BM25, HYBRID
from hummingbit.index.records import StoredDocument
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
    refuse_unknown,
)
from hummingbit.served import AnyOpenCollection, open_collection

_LOGGER = logging.getLogger(__name__)

NODE = "node"
"""The field of the payload that holds the node; filters see its metadata as fields."""

RANKINGS = {
    VectorStoreQueryMode.DEFAULT: None,
    VectorStoreQueryMode.TEXT_SEARCH: BM25,
    VectorStoreQueryMode.SPARSE: BM25,
    VectorStoreQueryMode.HYBRID: HYBRID,
    VectorStoreQueryMode.SEMANTIC_HYBRID: HYBRID,
}
LEAST_SHARE = 0.001
"""The least share of codes or of words in a hybrid score in which neither is lost."""
HOLD_FOR_MISSING = {FilterOperator.NE, FilterOperator.NIN, FilterOperator.IS_EMPTY}
"""The comparisons that hold for a node without the key."""
RANGES = {
    FilterOperator.GT: "gt",
    FilterOperator.GTE: "gte",
    FilterOperator.LT: "lt",
    FilterOperator.LTE: "lte",
}


class HummingbitVectorStore(BasePydanticVectorStore):
    """A collection as LlamaIndex's vector store.

    If the collection's encoder takes vectors, it encodes the nodes' embeddings; the nodes' texts
    are searched by their words beside them. If it takes texts, it encodes the nodes' texts, and
    queries are texts. A collection without codes is searched by the words of the nodes' texts.
    """

    stores_text: bool = True
    is_embedding_query: bool = True
    flat_metadata: bool = False
    _collection: AnyOpenCollection = PrivateAttr()

    def __init__(
        self, collection: AnyOpenCollection | Client, collection_name: str | None = None
    ) -> None:
        """Take an open collection of texts or of vectors, or the client of a service.

        `collection_name` is a collection of the service; it may be left out if there is only one.

        Raises:
            UnknownCollection, ServiceError: if the service has no such collection.
            ValueError: if documents bring their codes, or there are several collections and none is
                named.
        """
        collection = open_collection(collection, collection_name)
        if collection.encoder_kind is None and collection.n_bits:
            raise ValueError(f"collection {collection.name!r} has no encoder")
        super().__init__(is_embedding_query=collection.encoder_kind == "vector")
        self._collection = collection

    @classmethod
    def class_name(cls) -> str:
        """Return the name by which LlamaIndex knows the class."""
        return "HummingbitVectorStore"

    @property
    def client(self) -> AnyOpenCollection:
        """The collection."""
        return self._collection

    def add(self, nodes: Sequence[BaseNode], **unknown: Any) -> list[str]:
        """Add nodes, and replace those with the same ids; return the ids."""
        refuse_unknown("add", unknown)
        records = [self._record(node) for node in nodes]
        if records:
            added = self._collection.add(records, on_repeated_id="last")
            log_added(_LOGGER, added, self._collection.name)
        return [node.node_id for node in nodes]

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return the nodes with these ids, or all nodes, that match `filters`.

        Raises:
            ValueError: if `filters` compare values that have no such comparison.
        """
        return [_node(stored) for stored in self._matching(node_ids, filters)]

    def delete(self, ref_doc_id: str, **unknown: Any) -> None:
        """Delete the nodes of the document `ref_doc_id`."""
        refuse_unknown("delete", unknown)
        self._collection.delete(filter={"field": f"{NODE}.ref_doc_id", "eq": ref_doc_id})

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **unknown: Any,
    ) -> None:
        """Delete the nodes with these ids, or all nodes, that match `filters`.

        Raises:
            ValueError: as :meth:`get_nodes`; then nothing is deleted.
        """
        refuse_unknown("delete_nodes", unknown)
        self._collection.delete([stored.id for stored in self._matching(node_ids, filters)])

    async def adelete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **unknown: Any,
    ) -> None:
        """See :meth:`delete_nodes`."""
        self.delete_nodes(node_ids, filters, **unknown)

    def clear(self) -> None:
        """Delete every node; the collection stays."""
        self._collection.delete([stored.id for stored in self._matching(None, None)])

    def query(self, query: VectorStoreQuery, **unknown: Any) -> VectorStoreQueryResult:
        """Return the nodes that answer a query, best first.

        The mode chooses the ranking: the collection's for the default mode, `bm25` for modes of
        words, and `hybrid` for modes of both. `alpha` is the share of the codes in a hybrid score:
        with 0 the ranking is `bm25`, with 1 `asymmetric`. `doc_ids` and `node_ids` narrow the query
        to the nodes of these documents and to these nodes, unless they are empty.

        Raises:
            ValueError: if the mode or `alpha` is none of these, the query lacks the text or
                embedding that it needs, or `filters` compare values that have no such comparison.
        """
        refuse_unknown("query", unknown)
        ranking, hybrid = _ranking_of(query)
        content = self._content(query, ranking)
        doc_ids, node_ids = frozenset(query.doc_ids or ()), frozenset(query.node_ids or ())

        def holds(hit: Hit) -> bool:
            metadata = _metadata(hit)
            if doc_ids or node_ids:
                is_listed = metadata.get("ref_doc_id") in doc_ids or hit.id in node_ids
                if not is_listed:
                    return False
            return _holds(query.filters, metadata)

        of_documents = equal_to_any(f"{NODE}.ref_doc_id", sorted(doc_ids))
        asked = [of_documents] if doc_ids else []
        asked += [has_id(sorted(node_ids))] if node_ids else []
        hits = matching_hits(
            self._collection,
            content,
            query.similarity_top_k,
            all_of([any_of(asked), _narrowing(query.filters)]),
            holds,
            ranking=ranking,
            hybrid=hybrid,
        )
        return VectorStoreQueryResult(
            nodes=[_node(hit) for hit in hits],
            similarities=[hit.score for hit in hits],
            ids=[hit.id for hit in hits],
        )

    def _record(self, node: BaseNode) -> dict[str, Any]:
        metadata = node_to_metadata_dict(node, flat_metadata=self.flat_metadata)
        payload = {NODE: {"node_id": node.node_id, **metadata}}
        text = node.get_content(metadata_mode=MetadataMode.NONE)
        record = {"id": node.node_id, "text": text, "payload": payload}
        return record | ({"vector": node.get_embedding()} if self.is_embedding_query else {})

    def _content(self, query: VectorStoreQuery, ranking: str | None) -> dict[str, Any]:
        """Return what a ranking searches for: the text of a query, its embedding, or both.

        Raises:
            ValueError: if the query lacks one of them.
        """
        needed: dict[str, Any] = {}
        if not self.is_embedding_query or ranking in (BM25, HYBRID):
            needed["text"] = query.query_str
        if self.is_embedding_query and ranking != BM25:
            embedding = query.query_embedding
            needed["vector"] = None if embedding is None else np.array(embedding, dtype=np.float32)
        fields = {"text": "query_str", "vector": "query_embedding"}
        for name, value in needed.items():
            if value is None:
                mode = f"the mode {query.mode.value!r} of a collection of {self._kind}s needs it"
                raise ValueError(f"{fields[name]} is None; {mode}")
        return needed

    @property
    def _kind(self) -> str:
        return "vector" if self.is_embedding_query else "text"

    def _matching(
        self, node_ids: list[str] | None, filters: MetadataFilters | None
    ) -> Iterator[StoredDocument]:
        stored = (
            documents_that_may_match(self._collection, _narrowing(filters))
            if node_ids is None
            else self._collection.get_many(node_ids)
        )
        return (document for document in stored if _holds(filters, _metadata(document)))


def _node(stored: Hit | StoredDocument) -> BaseNode:
    """Return the node that was added, or one with the text and payload of another document."""
    payload = stored.payload or {}
    if isinstance(payload.get(NODE), Mapping):
        return metadata_dict_to_node(dict(payload[NODE]))
    return TextNode(id_=stored.id, text=stored.text or "", metadata=dict(payload))


def _metadata(stored: Hit | StoredDocument) -> Mapping[str, Any]:
    """Return what filters see: the fields of a node, or the payload of another document."""
    payload = stored.payload or {}
    node = payload.get(NODE)
    return node if isinstance(node, Mapping) else {**payload, "node_id": stored.id}


def _ranking_of(query: VectorStoreQuery) -> tuple[str | None, Mapping[str, float] | None]:
    """Return the ranking of a query, and how a hybrid one combines codes and words."""
    if query.mode not in RANKINGS:
        known = ", ".join(mode.value for mode in RANKINGS)
        raise ValueError(f"mode is {query.mode.value!r}; it must be one of {known}")
    ranking, alpha = RANKINGS[query.mode], query.alpha
    if ranking != HYBRID or alpha is None:
        return ranking, None
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha!r}; it must be from 0 to 1")
    if alpha in (0, 1):
        return ASYMMETRIC if alpha else BM25, None
    share = min(max(alpha, LEAST_SHARE), 1 - LEAST_SHARE)
    return HYBRID, {"codes": share / (1 - share)}


def _narrowing(filters: MetadataFilters | None) -> Filter | None:
    """Return a condition on payloads that holds at least for the nodes that match `filters`."""
    if filters is None or not filters.filters or filters.condition == FilterCondition.NOT:
        return None
    parts = [
        _narrowing(part) if isinstance(part, MetadataFilters) else _narrowed_comparison(part)
        for part in filters.filters
    ]
    return any_of(parts) if filters.condition == FilterCondition.OR else all_of(parts)


def _narrowed_comparison(filter_: MetadataFilter) -> Filter | None:
    """Return a condition on the node's field, or on the payload of another document."""
    fields = (f"{NODE}.{filter_.key}", filter_.key)
    return any_of([_narrowed_field(field, filter_) for field in fields])


def _narrowed_field(field: str, filter_: MetadataFilter) -> Filter | None:
    operator, value = filter_.operator, filter_.value
    # A dot in a key is a part of it, while a field is a path.
    if "." in filter_.key or operator in HOLD_FOR_MISSING:
        return None
    if operator in RANGES:
        return in_order(field, RANGES[operator], value)
    if operator == FilterOperator.IN and isinstance(value, list):
        return equal_to_any(field, value)
    if operator == FilterOperator.EQ and value is not None:
        return equal_to_any(field, [value])
    return present(field)


def _holds(filters: MetadataFilters | None, metadata: Mapping[str, Any]) -> bool:
    """Tell whether LlamaIndex's filters, which may be nested, hold for the metadata of a node.

    Raises:
        ValueError: if they compare values that have no such comparison.
    """
    if filters is None or not filters.filters:
        return True
    parts = [
        _holds(part, metadata)
        if isinstance(part, MetadataFilters)
        else _comparison_holds(part, metadata)
        for part in filters.filters
    ]
    if filters.condition == FilterCondition.NOT:
        return not any(parts)
    return any(parts) if filters.condition == FilterCondition.OR else all(parts)


def _comparison_holds(filter_: MetadataFilter, metadata: Mapping[str, Any]) -> bool:
    compare = build_metadata_filter_fn(lambda _: metadata, MetadataFilters(filters=[filter_]))
    try:
        return compare("")
    except TypeError as error:
        condition = f"filters: {filter_.key!r} {filter_.operator.value} {filter_.value!r}"
        value = f"{metadata[filter_.key]!r:.80}"
        raise ValueError(f"{condition} cannot be compared with {value}: {error}") from None
