"""LlamaIndex: a collection as a vector store.

Source of the interface: https://developers.llamaindex.ai/python/framework/module_guides/storing/vector_stores
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode, MetadataMode
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
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from foundation.errors import InputError
from hummingbit.embedded import Collection
from index.document_pages import pages_of
from index.filter_parser import parse_filter
from index.records import StoredDocument

NODE = "node"
"""The field of the payload that holds the node; filters see its metadata as fields."""

RANKINGS = {
    VectorStoreQueryMode.DEFAULT: "asymmetric",
    VectorStoreQueryMode.TEXT_SEARCH: "bm25",
    VectorStoreQueryMode.SPARSE: "bm25",
    VectorStoreQueryMode.HYBRID: "hybrid",
    VectorStoreQueryMode.SEMANTIC_HYBRID: "hybrid",
}
RANGES = {
    FilterOperator.GT: "gt",
    FilterOperator.GTE: "gte",
    FilterOperator.LT: "lt",
    FilterOperator.LTE: "lte",
}


class HummingbitVectorStore(BasePydanticVectorStore):
    """A collection as LlamaIndex's vector store.

    If the collection's encoder takes vectors, it encodes the nodes' embeddings. If it takes texts,
    it encodes the nodes' texts, and queries are texts.
    """

    stores_text: bool = True
    is_embedding_query: bool = True
    flat_metadata: bool = False
    _collection: Collection = PrivateAttr()

    def __init__(self, collection: Collection) -> None:
        """Take an open collection that has an encoder.

        Raises:
            ValueError: if it has none.
        """
        if collection.encoder is None:
            raise ValueError(f"collection {collection.name!r} has no encoder")
        super().__init__(is_embedding_query=collection.encoder.kind == "vector")
        self._collection = collection

    @classmethod
    def class_name(cls) -> str:
        """Return the name by which LlamaIndex knows the class."""
        return "HummingbitVectorStore"

    @property
    def client(self) -> Collection:
        """The collection."""
        return self._collection

    def add(self, nodes: Sequence[BaseNode], **_: Any) -> list[str]:
        """Add nodes, and replace those with the same ids; return the ids."""
        records = [self._record(node) for node in nodes]
        if records:
            self._collection.add(records)
        return [node.node_id for node in nodes]

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return the nodes with these ids, or all nodes, that match `filters`."""
        return [_node(stored.payload) for stored in self._matching(node_ids, filters)]

    def delete(self, ref_doc_id: str, **_: Any) -> None:
        """Delete the nodes of the document `ref_doc_id`."""
        condition = {"field": f"{NODE}.ref_doc_id", "eq": ref_doc_id}
        self._collection.backend.delete_where(parse_filter(condition))

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **_: Any,
    ) -> None:
        """Delete the nodes with these ids, or all nodes, that match `filters`."""
        self._collection.delete([stored.id for stored in self._matching(node_ids, filters)])

    def clear(self) -> None:
        """Delete every node; the collection stays."""
        self._collection.delete([stored.id for stored in self._matching(None, None)])

    def query(self, query: VectorStoreQuery, **_: Any) -> VectorStoreQueryResult:
        """Return the nodes that answer a query, best first.

        The mode chooses the ranking: `asymmetric` for the default mode, `bm25` for modes of words,
        and `hybrid` for modes of both. `alpha` is the share of the codes in a hybrid score, from 0
        to 1.

        Raises:
            ValueError: if the mode is unknown, or the query lacks the text or embedding it needs.
        """
        ranking = RANKINGS.get(query.mode)
        if ranking is None:
            known = ", ".join(mode.value for mode in RANKINGS)
            raise ValueError(f"mode is {query.mode.value!r}; it must be one of {known}")
        content: Any = query.query_str
        if self.is_embedding_query:
            embedding = query.query_embedding
            content = None if embedding is None else np.array(embedding, dtype=np.float32)
        if content is None:
            needed = "query_embedding" if self.is_embedding_query else "query_str"
            raise ValueError(f"{needed} is None; the collection needs it")
        weight = None
        if ranking == "hybrid" and query.alpha is not None:
            weight = query.alpha / max(1 - query.alpha, 1e-9)
        hits = self._collection.search(
            content,
            limit=query.similarity_top_k,
            ranking=ranking,
            filter=_conjunction(
                [_any_of(query.doc_ids, query.node_ids), _condition(query.filters)]
            ),
            codes_weight=weight,
        )
        return VectorStoreQueryResult(
            nodes=[_node(hit.payload or {}) for hit in hits],
            similarities=[hit.score for hit in hits],
            ids=hits.ids,
        )

    def _record(self, node: BaseNode) -> dict[str, Any]:
        metadata = node_to_metadata_dict(node, flat_metadata=self.flat_metadata)
        payload = {NODE: {**metadata, "node_id": node.node_id}}
        if not self.is_embedding_query:
            text = node.get_content(metadata_mode=MetadataMode.NONE)
            return {"id": node.node_id, "text": text, "payload": payload}
        return {"id": node.node_id, "vector": node.get_embedding(), "payload": payload}

    def _matching(
        self, node_ids: list[str] | None, filters: MetadataFilters | None
    ) -> Iterator[StoredDocument]:
        if node_ids is not None and not node_ids:
            return
        condition = _conjunction([_any_of(None, node_ids), _condition(filters)])
        parsed = None if condition is None else parse_filter(condition)
        for page in pages_of(self._collection.backend, parsed):
            yield from page


def _node(payload: Mapping[str, Any]) -> BaseNode:
    node = payload.get(NODE)
    if not isinstance(node, Mapping):
        raise InputError("payload", "is not a node's; LlamaIndex did not add the document")
    return metadata_dict_to_node(dict(node))


def _any_of(doc_ids: list[str] | None, node_ids: list[str] | None) -> dict[str, Any] | None:
    """Return the condition that a node is of certain documents, or is certain nodes."""
    parts = [
        {"field": f"{NODE}.{field}", "in": list(ids)}
        for field, ids in (("ref_doc_id", doc_ids), ("node_id", node_ids))
        if ids
    ]
    return {"or": parts} if parts else None


def _conjunction(parts: list[dict[str, Any] | None]) -> dict[str, Any] | None:
    """Return the condition that all parts hold, or None if all parts are None."""
    conditions = [part for part in parts if part is not None]
    return {"and": conditions} if conditions else None


def _condition(filters: MetadataFilters | None) -> dict[str, Any] | None:
    """Return LlamaIndex's filters as a condition on payloads.

    Raises:
        ValueError: if payloads do not support a comparison.
    """
    if filters is None or not filters.filters:
        return None
    parts = [
        _condition(part) if isinstance(part, MetadataFilters) else _comparison(part)
        for part in filters.filters
    ]
    conditions = [part for part in parts if part is not None]
    if filters.condition == FilterCondition.NOT:
        return {"not": {"or": conditions}}
    return {"or" if filters.condition == FilterCondition.OR else "and": conditions}


def _comparison(filter_: MetadataFilter) -> dict[str, Any]:
    field, operator, value = f"{NODE}.{filter_.key}", filter_.operator, filter_.value
    if operator in RANGES:
        return {"field": field, RANGES[operator]: value}
    every = value if isinstance(value, list) else [value]
    # A condition on a list holds when it does for one of its elements.
    conditions: dict[FilterOperator, dict[str, Any]] = {
        FilterOperator.EQ: {"field": field, "eq": value},
        FilterOperator.NE: {"not": {"field": field, "eq": value}},
        FilterOperator.CONTAINS: {"field": field, "eq": value},
        FilterOperator.IN: {"field": field, "in": every},
        FilterOperator.ANY: {"field": field, "in": every},
        FilterOperator.NIN: {"not": {"field": field, "in": every}},
        FilterOperator.ALL: {"and": [{"field": field, "eq": part} for part in every]},
        FilterOperator.IS_EMPTY: {"field": field, "exists": False},
    }
    if operator not in conditions:
        raise ValueError(
            f"filters: {operator.value!r} is not supported; search by the ranking bm25"
        )
    return conditions[operator]
