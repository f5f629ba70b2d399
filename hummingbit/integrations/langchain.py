"""LangChain: a vector store, a retriever and embeddings.

Source of the interfaces: https://python.langchain.com/api_reference/core/vectorstores.html
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import run_in_executor
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from pydantic import ConfigDict

from hummingbit.embedded import Collection, Hits
from hummingbit.encoder.codes import code_from_hex, unpack_codes
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.text_features import Floats
from hummingbit.encoder_loading import load_encoder
from hummingbit.hasher import SemanticHasher
from hummingbit.index.collection import pages_of
from hummingbit.index.search import Hit
from hummingbit.inputs import check_several, filter_of
from hummingbit.integrations.narrowing import documents_with_ids, refuse_unknown

PAGE_CONTENT = "page_content"
"""The field of the payload for the text, in a collection of vectors, which stores no texts."""

Filter = Mapping[str, Any]
"""A condition on metadata, as ``POST /v1/collections/{name}/search`` takes it."""


class HummingbitEmbeddings(Embeddings):
    """Real-valued embeddings of an encoder of texts; the sign of each number is its bit."""

    def __init__(self, encoder: Encoder | str | Path) -> None:
        """Take an encoder, or the folder of one."""
        self._encoder = encoder if isinstance(encoder, Encoder) else load_encoder(encoder)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return ``logit - threshold`` of each bit, a list for each text."""
        margins: list[list[float]] = self._encoder.margins(texts).tolist()
        return margins

    def embed_query(self, text: str) -> list[float]:
        """Return the weight of each bit of a document for the query."""
        weights: list[float] = self._encoder.query_weights([text])[0].tolist()
        return weights


class HummingbitVectorStore(VectorStore):
    """A collection as LangChain's vector store.

    With `embedding`, the collection holds codes of its vectors; without, the collection's own
    encoder takes the texts, and searches rank by words as well. The metadata of a document are the
    payload, which filters see.
    """

    def __init__(self, collection: Collection, embedding: Embeddings | None = None) -> None:
        """Take an open collection.

        Raises:
            ValueError: if the collection takes texts and `embedding` is passed, or it does not and
                `embedding` is None.
        """
        takes_texts = collection.encoder is not None and collection.encoder.kind == "text"
        if takes_texts == (embedding is not None):
            kind = "takes texts" if takes_texts else "takes no texts"
            rule = "embedding must be None" if takes_texts else "pass an embedding"
            raise ValueError(f"collection {collection.name!r} {kind}; {rule}")
        self._collection = collection
        self._embedding = embedding

    @property
    def embeddings(self) -> Embeddings | None:
        """The model that embeds texts; None if the collection's encoder takes texts."""
        return self._embedding

    @property
    def collection(self) -> Collection:
        """The collection."""
        return self._collection

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        batch_size: int | None = None,  # noqa: ARG002
        **unknown: Any,
    ) -> list[str]:
        """Add texts, and replace those with the same ids; return the ids.

        LangChain's indexing passes `batch_size`; all texts are written at once, whatever it is.

        Raises:
            DocumentError: if a text or its metadata cannot be stored.
            ValueError: if there are not as many metadata or ids as texts, or if metadata of a
                collection of vectors have the field :data:`PAGE_CONTENT`.
        """
        refuse_unknown("add_texts", unknown)
        contents: Any = list(texts)
        names = [
            str(uuid.uuid4()) if id_ is None else id_
            for id_ in ([None] * len(contents) if ids is None else ids)
        ]
        payloads = [{} for _ in contents] if metadatas is None else metadatas
        if self._embedding is not None:
            if any(PAGE_CONTENT in payload for payload in payloads):
                message = f"metadatas have the field {PAGE_CONTENT!r}, which holds the text"
                raise ValueError(f"{message}; use another name")
            payloads = [
                {**payload, PAGE_CONTENT: text}
                for payload, text in zip(payloads, contents, strict=True)
            ]
            contents = np.array(self._embedding.embed_documents(contents), dtype=np.float32)
        if len(contents):
            self._collection.add(contents, ids=names, payloads=payloads)
        return names

    def delete(
        self,
        ids: list[str] | None = None,
        *,
        filter: Filter | None = None,  # noqa: A002
        **unknown: Any,
    ) -> bool:
        """Delete the documents with these ids, or all documents, that match `filter`.

        Without any argument, all documents are deleted. Unknown ids are ignored.

        Raises:
            InputError: if `filter` is not a condition; then nothing is deleted.
        """
        refuse_unknown("delete", unknown)
        condition = filter_of(filter)
        if ids is None and condition is not None:
            self._collection.backend.delete_where(condition)
            return True
        if ids is None:
            pages = pages_of(self._collection.backend)
            ids = [stored.id for page in pages for stored in page]
        elif condition is not None:
            stored_documents = documents_with_ids(self._collection, check_several("ids", ids))
            ids = [one.id for one in stored_documents if condition.matches(one.payload)]
        self._collection.delete(ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids; unknown ids are ignored."""
        read = [(id_, self._collection.get(id_)) for id_ in ids]
        return [
            _document(id_, stored.text, stored.payload)
            for id_, stored in read
            if stored is not None
        ]

    def similarity_search(
        self,
        query: str,
        k: int = 4,
        filter: Filter | None = None,  # noqa: A002
        **options: Any,
    ) -> list[Document]:
        """Return the `k` best documents; `options` are more of :meth:`Collection.search`."""
        return [_hit_document(hit) for hit in self._search(query, k, filter, **options)]

    def similarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        filter: Filter | None = None,  # noqa: A002
        **options: Any,
    ) -> list[tuple[Document, float]]:
        """Return the `k` best documents with the score of the ranking; higher is better."""
        hits = self._search(query, k, filter, **options)
        return [(_hit_document(hit), hit.score) for hit in hits]

    def similarity_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        filter: Filter | None = None,  # noqa: A002
        **options: Any,
    ) -> list[Document]:
        """Return the `k` best documents for a vector."""
        vector = np.array(embedding, dtype=np.float32)
        return [
            _hit_document(hit)
            for hit in self._collection.search(vector, limit=k, filter=filter, **options)
        ]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,  # noqa: A002
        **options: Any,
    ) -> list[Document]:
        """Return `k` of the `fetch_k` best documents that are near the query and differ in code.

        Source: Carbonell and Goldstein, "The Use of MMR, Diversity-Based Reranking" (1998), with
        the cosine of ±1 bits.
        """
        hits = self._search(query, fetch_k, filter, **options)
        # A document may have been deleted since the search.
        read = [(hit, self._collection.get(hit.id)) for hit in hits]
        found = [(hit, stored.code) for hit, stored in read if stored is not None]
        if not found:
            return []
        n_bits = self._collection.n_bits
        bits = [unpack_codes(code_from_hex(code, n_bits)[None])[0] for _, code in found]
        signs = (np.array(bits, dtype=np.float64) * 2 - 1).tolist()
        chosen = maximal_marginal_relevance(self._query_weights(query), signs, lambda_mult, k)
        return [_hit_document(found[place][0]) for place in chosen]

    def _similarity_search_with_relevance_scores(
        self,
        query: str,
        k: int = 4,
        filter: Filter | None = None,  # noqa: A002
        **options: Any,
    ) -> list[tuple[Document, float]]:
        """Return the `k` best documents with :attr:`hummingbit.embedded.Hits.relevances`."""
        hits = self._search(query, k, filter, **options)
        pairs = zip(hits, hits.relevances.tolist(), strict=True)
        return [(_hit_document(hit), relevance) for hit, relevance in pairs]

    async def _asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **options: Any
    ) -> list[tuple[Document, float]]:
        return await run_in_executor(
            None, self._similarity_search_with_relevance_scores, query, k, **options
        )

    def _search(self, query: str, k: int, filter_: Filter | None, **options: Any) -> Hits:
        search_by: Any = query
        if self._embedding is not None:
            search_by = np.array(self._embedding.embed_query(query), dtype=np.float32)
        return self._collection.search(search_by, limit=k, filter=filter_, **options)

    def _query_weights(self, query: str) -> Floats:
        encoder = self._collection.encoder
        if encoder is None:
            raise ValueError("the collection has no encoder, so a query has no code")
        search_by: Any = [query]
        if self._embedding is not None:
            search_by = np.array([self._embedding.embed_query(query)], dtype=np.float32)
        return encoder.query_weights(search_by)[0]

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        folder: str | Path = "data",
        name: str = "langchain",
        n_bits: int = 256,
        **options: Any,
    ) -> Self:
        """Learn codes of the texts without labels, and create the collection `name` in `folder`.

        `options` are further parameters of :class:`SemanticHasher`.
        """
        contents: Any = texts
        if embedding is not None:
            contents = np.array(embedding.embed_documents(texts), dtype=np.float32)
        hasher = SemanticHasher(n_bits, **options).fit(contents)
        store = cls(Collection.create(folder, name, encoder=hasher), embedding)
        store.add_texts(texts, metadatas, ids=ids)
        return store


class HummingbitRetriever(BaseRetriever):
    """A retriever of the `k` best documents of a store, by one of hummingbit's rankings."""

    store: HummingbitVectorStore
    k: int = 4
    ranking: str | None = None
    filter: Filter | None = None

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002
        **options: Any,
    ) -> list[Document]:
        arguments = {"k": self.k, "ranking": self.ranking, "filter": self.filter, **options}
        return self.store.similarity_search(query, **arguments)


def _hit_document(hit: Hit) -> Document:
    return _document(hit.id, hit.text, hit.payload or {})


def _document(id_: str, text: str | None, payload: Mapping[str, Any]) -> Document:
    metadata = dict(payload)
    content = metadata.pop(PAGE_CONTENT, "") if text is None else text
    return Document(page_content=content, metadata=metadata, id=id_)
