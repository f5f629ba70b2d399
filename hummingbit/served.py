"""A collection of a running service, with the methods of :class:`hummingbit.Collection`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, Unpack

from hummingbit import inputs
from hummingbit.clients.calls import SearchOptions, ServedRecommendationOptions
from hummingbit.clients.client import Client
from hummingbit.clients.requests import ServiceError
from hummingbit.corpus.document import Document
from hummingbit.embedded import Collection, Hits, OpenCollection
from hummingbit.evaluation.rankings import RelevanceSettings
from hummingbit.evaluation.report import Report
from hummingbit.foundation.errors import InputError, counted
from hummingbit.index.encoding import batches, last_of_each_id
from hummingbit.index.errors import UnknownCollection
from hummingbit.index.facets import FacetResult
from hummingbit.index.records import Query
from hummingbit.index.search import QueryResult
from hummingbit.remote import (
    RemoteCollection,
    RemoteFolder,
    example_of,
    group_of,
    hit_of,
    record_of,
)

WRITTEN_AT_ONCE = 1000
"""Documents in a request; each request writes all of them or none."""
NUMBERED_AGAIN, SECONDS_BETWEEN = 5, 0.1
"""How often documents are numbered again if no others were written since, and how much later."""


class ServedCollection(OpenCollection):
    """A collection of the service of a client, by its name or an alias.

    Without a name it is the service's only collection. Every method raises
    :class:`hummingbit.ServiceError` if the service cannot be reached, refuses or fails. Of the
    documents of :meth:`add`, each :data:`WRITTEN_AT_ONCE` are written together or not at all. For
    a service with the collection `notes`::

        with Client("http://127.0.0.1:8000", key) as client:
            notes = ServedCollection(client, "notes")
            notes.add(["the moon raises the tides"], ids=["a"])
            print(notes.search("moon and tides"))
    """

    def __init__(self, client: Client, name: str | None = None) -> None:
        """Refer to the collection.

        Raises:
            UnknownCollection: if there is none of this name.
            InputError: if `name` is None and the service has no collection, or several.
        """
        self.client = client
        if name is None:
            names = [collection["name"] for collection in client.collections()["collections"]]
            if len(names) != 1:
                has = ", ".join(names) or "none"
                raise InputError("collection", f"is missing; the service has {has}")
            (name,) = names
        self._given_name = name
        self._remote = RemoteCollection(client, name)
        self._remote.name  # noqa: B018 - it raises if there is none

    @property
    def backend(self) -> RemoteCollection:
        """The requests to the service."""
        return self._remote

    @property
    def location(self) -> str:
        """The address of the service."""
        return self.client.url

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        size = counted(len(self), "document")
        return f"<ServedCollection {self.name!r}: {size}, {self.n_bits} bits>"

    def search(
        self,
        query: inputs.QueryContent | None = None,
        *,
        vector: inputs.VectorContent | None = None,
        code: inputs.CodeContent | None = None,
        id: str | int | None = None,  # noqa: A002
        **options: Unpack[SearchOptions],
    ) -> Hits:
        """Return the best hits; see :meth:`Collection.search`."""
        parsed = inputs.parse_query(query, vector=vector, code=code, id_=id)
        return self._search(parsed, options)

    def search_many(
        self, queries: Iterable[inputs.QueryContent], **options: Unpack[SearchOptions]
    ) -> list[Hits]:
        """Return the hits of several texts or vectors, each of the generation that it names."""
        values = inputs.check_several("queries", queries)
        return [self._search(inputs.query_of(value), options) for value in values]

    def recommend(
        self,
        positive: Iterable[inputs.Example],
        negative: Iterable[inputs.Example] = (),
        *,
        strategy: Literal["average_vector", "best_score"] = "average_vector",
        **options: Unpack[ServedRecommendationOptions],
    ) -> Hits:
        """Return documents like examples and unlike others; see :meth:`Collection.recommend`."""
        like, unlike = (
            [example_of(example) for example in inputs.examples_of(field, examples)]
            for field, examples in (("positive", positive), ("negative", negative))
        )
        asked: Any = {"with_payload": True, "with_text": True, **options}
        name = self._given_name
        return _hits(self.client.recommend(name, like, unlike, strategy=strategy, **asked))

    def close(self) -> None:
        """Close nothing: the client, which may serve other collections, stays open."""

    def _write(self, documents: Sequence[Document]) -> tuple[int, int]:
        # A document that a later one replaces must not count as replaced by another request.
        last = last_of_each_id(documents)
        answers = [
            self.client.upsert(self._given_name, [record_of(document) for document in part])
            for part in batches(last, WRITTEN_AT_ONCE)
        ]
        replaced = [answer["replaced"] for answer in answers]
        return (
            sum(answer["upserted"] for answer in answers),
            sum(replaced),
        )

    def _write_numbered(self, parsed: Sequence[inputs.ParsedDocument]) -> tuple[int, int]:
        """Number the documents without an id and write all, some at a time.

        Others may number and write documents at the same moment, so a number that they took is an
        error, and the documents are numbered again.
        """
        if any(has_id for _, has_id in parsed):
            return super()._write_numbered(parsed)
        for part in batches(parsed, WRITTEN_AT_ONCE):
            self._create_numbered(part)
        return len(parsed), 0

    def _create_numbered(self, parsed: Sequence[inputs.ParsedDocument]) -> None:
        """Write documents without an id under numbers that no document has."""
        first, attempts = -1, 0
        while True:
            before, first = first, len(self)
            documents, numbers = inputs.number_documents(parsed, first)
            records = [record_of(document) for document in documents]
            try:
                self.client.upsert(self._given_name, records, create_only=True)
            except ServiceError as error:
                if error.code != "document_exists":
                    raise
            else:
                return
            # A process of the service may not have seen the documents of the others yet.
            attempts = attempts + 1 if first == before else 0
            if attempts == NUMBERED_AGAIN:
                taken = f"a document from {numbers[0]!r} to {numbers[-1]!r} exists"
                raise InputError("ids", f"are missing, and {taken}; pass the documents' ids")
            time.sleep(SECONDS_BETWEEN * attempts)

    def _evaluate(
        self,
        queries: Sequence[Document],
        metrics: Iterable[str] | None,
        settings: RelevanceSettings,
        rankings: Sequence[str] | None,
    ) -> Report:
        folder = RemoteFolder(self.client)
        return folder.evaluate(
            self._given_name, queries, metrics, settings, rankings=rankings
        ).report

    def _search(self, query: Query, options: SearchOptions) -> Hits:
        asked: Any = {"with_payload": True, "with_text": True, "with_confidence": True, **options}
        return _hits(self.client.search(self._given_name, **example_of(query), **asked))


class ServedCollections(Mapping[str, ServedCollection]):
    """The collections of a client's service by name, also those that are created later."""

    def __init__(self, client: Client) -> None:
        self._folder = RemoteFolder(client)

    def __getitem__(self, name: str) -> ServedCollection:
        """Return the collection of a name or an alias.

        Raises:
            UnknownCollection: if there is none.
        """
        return ServedCollection(self._folder.client, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._folder.collections())

    def __len__(self) -> int:
        return len(self._folder.collections())


AnyOpenCollection = Collection | ServedCollection
"""A collection of this process or of a service, which adapters use alike."""


def open_collection(
    collection: AnyOpenCollection | Client, name: str | None = None
) -> AnyOpenCollection:
    """Return the collection `name` of a client's service, or the collection that is given.

    Raises:
        UnknownCollection, InputError, ServiceError: as :class:`ServedCollection`.
        ValueError: if `name` is not that of the collection that is given.
    """
    if isinstance(collection, Client):
        return ServedCollection(collection, name)
    if name is not None and name != collection.name:
        raise ValueError(f"collection is {name!r}; the collection given is {collection.name!r}")
    return collection


def exists(client: Client, name: str) -> bool:
    """Return whether a service has a collection or alias of this name."""
    try:
        ServedCollection(client, name)
    except UnknownCollection:
        return False
    except ServiceError as error:
        if error.code == "unknown_collection":
            return False
        raise
    return True


def _hits(answer: Mapping[str, Any]) -> Hits:
    told = {field.name: answer[field.name] for field in fields(QueryResult) if field.name in answer}
    read = {
        "ranking": answer.get("rescored_by", answer["ranking"]),
        "corrected": [(word, known) for word, known in answer.get("corrected", ())],
        "groups": [*map(group_of, answer.get("groups", ()))],
        "facets": [FacetResult(**facet) for facet in answer.get("facets", ())],
    }
    return Hits([*map(hit_of, answer["hits"])], **{**told, **read})
