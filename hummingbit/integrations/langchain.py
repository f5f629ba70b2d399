"""LangChain: a vector store, a retriever and embeddings.

Source of the interfaces: https://python.langchain.com/api_reference/core/vectorstores.html
"""

from __future__ import annotations

import json
import logging
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import run_in_executor
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from pydantic import ConfigDict

from hummingbit.clients.calls import UNSET
from hummingbit.clients.client import Client
from hummingbit.clients.requests import ServiceError, plain_value
from hummingbit.embedded import Collection, Hits
from hummingbit.encoder.codes import code_from_hex, unpack_codes
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.text_features import Floats
from hummingbit.encoder_loading import load_encoder
from hummingbit.foundation.errors import InputError, counted
from hummingbit.hasher import SemanticHasher
from hummingbit.index.catalog import SIGN
from hummingbit.index.encoding import WITHOUT_CODES
from hummingbit.index.errors import UnknownCollection
from hummingbit.index.records import StoredDocument
from hummingbit.index.search import Hit
from hummingbit.inputs import check_several, filter_of, id_name
from hummingbit.integrations.narrowing import log_added, refuse_unknown, told
from hummingbit.served import AnyOpenCollection, exists, open_collection

_LOGGER = logging.getLogger(__name__)

PAGE_CONTENT = "page_content"
"""The field of the payload for the text, in a collection of vectors, which stores no texts."""

Filter = Mapping[str, Any]
"""A condition on metadata, as ``POST /v1/collections/{name}/search`` takes it, or equal values of
fields: ``{"label": "numpy", "year": 2024}``, with a list for one of several."""
CONDITION_NAMES = frozenset({"field", "and", "or", "not", "has_id"})


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
    encoder takes the texts, and searches rank by words as well, or by words alone if there is no
    encoder. The metadata of a document are the payload, which filters see.
    """

    def __init__(
        self,
        collection: AnyOpenCollection | Client,
        embedding: Embeddings | None = None,
        *,
        collection_name: str | None = None,
    ) -> None:
        """Take an open collection, or the client of a service.

        `collection_name` is a collection of the service; it may be left out if there is only one.

        Raises:
            UnknownCollection, ServiceError: if the service has no such collection.
            ValueError: if the collection takes texts and `embedding` is passed, or it does not and
                `embedding` is None, or there are several collections and none is named.
        """
        collection = open_collection(collection, collection_name)
        takes_texts = collection.encoder_kind == "text" or not collection.n_bits
        if takes_texts == (embedding is not None):
            kind = "takes texts" if takes_texts else "takes no texts"
            rule = "embedding must be None" if takes_texts else "pass an embedding"
            raise ValueError(f"collection {collection.name!r} {kind}; {rule}")
        self._collection = collection
        self._embedding = embedding

    @property
    def embeddings(self) -> Embeddings | None:
        """The model that embeds texts; None if the collection takes texts."""
        return self._embedding

    @property
    def collection(self) -> AnyOpenCollection:
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
        names, added = self._add(texts, metadatas, ids)
        log_added(_LOGGER, added, self.location)
        return names

    def _add(
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None,
        ids: Sequence[str | None] | None,
    ) -> tuple[list[str], int]:
        """Add texts; return their ids, and what :meth:`Collection.add` returns."""
        contents: Any = list(texts)
        given = [None] * len(contents) if ids is None else ids
        names = [id_name(f"ids[{at}]", id_) or str(uuid.uuid4()) for at, id_ in enumerate(given)]
        payloads = [{} for _ in contents] if metadatas is None else [*map(plain_value, metadatas)]
        if self._embedding is not None:
            if any(PAGE_CONTENT in payload for payload in payloads):
                message = f"metadatas have the field {PAGE_CONTENT!r}, which holds the text"
                raise ValueError(f"{message}; use another name")
            payloads = [
                {**payload, PAGE_CONTENT: text}
                for payload, text in zip(payloads, contents, strict=True)
            ]
            contents = np.array(self._embedding.embed_documents(contents), dtype=np.float32)
        if not len(contents):
            return names, 0
        return names, self._collection.add(
            contents, ids=names, payloads=payloads, on_repeated_id="last"
        )

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
        if filter is not None and not filter:
            raise ValueError("filter is empty, and deletes nothing; to delete all, pass no filter")
        condition = filter_of(_condition(filter))
        if ids is None and condition is not None:
            self._collection.delete(filter=_condition(filter))
            return True
        if ids is None:
            ids = [stored.id for stored in self._collection.documents()]
        elif condition is not None:
            stored_documents = self._collection.get_many(check_several("ids", ids))
            ids = [
                document.id for document in stored_documents if condition.matches(document.payload)
            ]
        self._collection.delete(ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids; unknown ids are ignored."""
        known = {stored.id: stored for stored in self._collection.get_many(ids)}
        names = [id_name("ids", id_) for id_ in ids]
        return [_stored_document(known[name]) for name in names if name in known]

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
        """Return the `k` best documents for a vector.

        In a collection whose encoder takes texts, the vector has a number for each bit, as
        :class:`HummingbitEmbeddings` makes it; the signs of its numbers are the code searched for.

        Raises:
            InputError: if the collection has no codes.
        """
        self._check_has_codes("embedding")
        vector = np.array(embedding, dtype=np.float32)
        condition = _condition(filter)
        if self._embedding is None:
            query: dict[str, Any] = {"code": self._code_of(vector)}
        else:
            query = {"vector": vector}
        hits = self._collection.search(**query, limit=k, filter=condition, **options)
        return [_hit_document(hit) for hit in hits]

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

        Raises:
            InputError: if the collection has no codes.
        """
        self._check_has_codes("max_marginal_relevance_search")
        hits = self._search(query, fetch_k, filter, with_code=True, **options)
        if not hits:
            return []
        signs = [self._signs(hit.code or "") for hit in hits]
        of_query = self._signs(hits.query_code or "")
        chosen = maximal_marginal_relevance(np.array(of_query), signs, lambda_mult, k)
        return [_hit_document(hits[position]) for position in chosen]

    def _similarity_search_with_relevance_scores(
        self,
        query: str,
        k: int = 4,
        filter: Filter | None = None,  # noqa: A002
        **options: Any,
    ) -> list[tuple[Document, float]]:
        """Return the `k` best documents with :attr:`hummingbit.embedded.Hits.confidences`."""
        hits = self._search(query, k, filter, **options)
        pairs = zip(hits, hits.confidences.tolist(), strict=True)
        return [(_hit_document(hit), confidence) for hit, confidence in pairs]

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
        return self._collection.search(search_by, limit=k, filter=_condition(filter_), **options)

    def _check_has_codes(self, field: str) -> None:
        if not self._collection.n_bits:
            raise InputError(field, f"needs codes; {WITHOUT_CODES}")

    def _signs(self, code: str) -> list[float]:
        """Return the bits of a code as ±1."""
        bits = unpack_codes(code_from_hex(code, self._collection.n_bits)[None])[0]
        signs: list[float] = (bits.astype(np.float64) * 2 - 1).tolist()
        return signs

    def _code_of(self, vector: Floats) -> str:
        """Return the code, in hexadecimal, of the signs of a vector with a number for each bit."""
        n_bits = self._collection.n_bits
        if vector.shape != (n_bits,):
            reason = f"embedding has the shape {list(vector.shape)}"
            raise ValueError(f"{reason}; the collection takes texts, so it must be [{n_bits}]")
        return np.packbits(vector > 0).tobytes().hex()

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        folder: str | Path | None = None,
        name: str = "langchain",
        client: Client | None = None,
        **options: Any,
    ) -> Self:
        """Write the texts into the collection `name`, which is created unless it exists.

        It is in the data folder `folder`, by default ``hummingbit-data`` of the current folder, or
        at the service of `client`; :attr:`location` says where. A missing collection of a folder
        gets codes that are learned from the texts without labels; `options` are further parameters
        of :class:`SemanticHasher`. A missing collection of a service has the option `encoder`, the
        name of one of its encoders; by default the encoder that ships or, with `embedding`, the
        signs of its vectors. In both, the option ``encoder=None`` is a collection that is searched
        by words alone. Without `ids`, a text with the same metadata has the same id each time, so
        that a rerun replaces what it wrote before; equal texts of different metadata are all kept,
        and so are equal ones.

        Raises:
            ServiceError: if the key may not create the missing collection, or the service has no
                such encoder.
            ValueError: as the constructor, or if a service does not take one of the options.
        """
        for field, values in (("metadatas", metadatas), ("ids", ids)):
            if values is not None and len(values) != len(texts):
                counts = f"there are {len(values):,} for {counted(len(texts), 'text')}"
                raise InputError(field, f"{counts}; there must be one for each")
        names: list[str | None] = [*_ids_of(texts, metadatas)]
        if ids is not None:
            names = [own if id_ is None else id_ for own, id_ in zip(names, ids, strict=True)]
        if client is not None:
            _create_if_missing(client, name, embedding, **options)
            store = cls(client, embedding, collection_name=name)
        else:
            store = cls(cls._open_or_learn(texts, embedding, folder, name, options), embedding)
        _, added = store._add(texts, metadatas, names)
        _LOGGER.warning("wrote %d texts into %s%s", added, store.location, told(added))
        return store

    @classmethod
    def from_documents(
        cls, documents: list[Document], embedding: Embeddings | None = None, **options: Any
    ) -> Self:
        """Write documents into a collection, as :meth:`from_texts` writes texts."""
        # LangChain's types demand an embedding, which its own method passes on to `from_texts`.
        return super().from_documents(documents, cast("Embeddings", embedding), **options)

    @property
    def location(self) -> str:
        """Where the documents are: the collection, and its data folder or service."""
        collection = self._collection
        return f"the collection {collection.name!r} of {collection.location}"

    @staticmethod
    def _open_or_learn(
        texts: list[str],
        embedding: Embeddings | None,
        folder: str | Path | None,
        name: str,
        options: Mapping[str, Any],
    ) -> Collection:
        path = Path("hummingbit-data" if folder is None else folder)
        if path.exists():
            with suppress(UnknownCollection):
                return Collection.open(path, name)
        if "encoder" in options:
            named = {**options}
            return Collection.create(path, name, encoder=named.pop("encoder"), **named)
        contents: Any = texts
        if embedding is not None:
            contents = np.array(embedding.embed_documents(texts), dtype=np.float32)
        hasher = SemanticHasher(**options).fit(contents)
        return Collection.create(path, name, encoder=hasher)


def _create_if_missing(
    client: Client,
    name: str,
    embedding: Embeddings | None,
    *,
    encoder: Any = UNSET,
    **unknown: Any,
) -> None:
    """Create the collection of a service unless it exists; see :meth:`from_texts`."""
    if unknown:
        names = ", ".join(sorted(unknown))
        rule = "a service learns no codes here; pass encoder, the name of one of its encoders"
        raise ValueError(f"options: {names} are of a collection in a folder; {rule}")
    if exists(client, name):
        return
    dimensions = None
    if embedding is not None and encoder is UNSET:
        encoder, dimensions = SIGN, len(embedding.embed_query("dimensions"))
    try:
        client.create_collection(name, encoder=encoder, dimensions=dimensions)
    except ServiceError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        message = (
            f"the service has no collection {name!r}, and the key may not create it; create it with"
            " a key of the role admin (client.create_collection), or name one that exists"
        )
        raise ServiceError(message, status=error.status, code=error.code) from None


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


def _condition(filter_: Filter | None) -> Filter | None:
    """Return a filter in the form that collections take.

    A filter without any of :data:`CONDITION_NAMES` has equal values of fields, as most of
    LangChain's stores take it.
    """
    if filter_ is None or not filter_ or CONDITION_NAMES & filter_.keys():
        return filter_ or None
    parts = [
        {"field": field, "in" if isinstance(value, list | tuple) else "eq": value}
        for field, value in filter_.items()
    ]
    return parts[0] if len(parts) == 1 else {"and": parts}


def _ids_of(texts: Sequence[str], metadatas: Sequence[Mapping[str, Any]] | None) -> list[str]:
    """Return the same ids for the same texts and metadata; equal ones are counted."""
    names: list[str] = []
    counts: Counter[str] = Counter()
    for text, metadata in zip(texts, metadatas or [{}] * len(texts), strict=True):
        parts = [text]
        if metadata:
            parts.append(json.dumps(plain_value(metadata), sort_keys=True, ensure_ascii=False))
        content = "\0".join(parts)
        counts[content] += 1
        number = f"\0{counts[content]}" if counts[content] > 1 else ""
        names.append(str(uuid.uuid5(uuid.NAMESPACE_OID, f"{content}{number}")))
    return names


def _stored_document(stored: StoredDocument) -> Document:
    return _document(stored.id, stored.text, stored.payload)


def _hit_document(hit: Hit) -> Document:
    return _document(hit.id, hit.text, hit.payload or {})


def _document(id_: str, text: str | None, payload: Mapping[str, Any]) -> Document:
    metadata = dict(payload)
    content = metadata.pop(PAGE_CONTENT, "") if text is None else text
    return Document(page_content=content, metadata=metadata, id=id_)
