"""A collection of a running service, with the methods of :class:`hummingbit.Collection`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Self, Unpack

from hummingbit import inputs
from hummingbit.clients.calls import SearchOptions, ServedRecommendationOptions
from hummingbit.clients.client import Client
from hummingbit.clients.responses import SearchResponse
from hummingbit.clients.transport import ServiceError
from hummingbit.corpus.document import Document
from hummingbit.embedded import Collection, Hits
from hummingbit.foundation.errors import InputError, counted
from hummingbit.index.collection import pages_of
from hummingbit.index.encoding import batches, last_of_each_id
from hummingbit.index.errors import UnknownCollection
from hummingbit.index.facets import FacetResult, parse_facets, parse_sort
from hummingbit.index.records import Query, StoredDocument
from hummingbit.remote import RemoteCollection, group_of, hit_of, record_of

WRITTEN_AT_ONCE = 1000
"""Documents in a request; each request writes all of them or none."""


class ServedCollection:
    """A collection of the service of a client, by its name or an alias.

    Without a name it is the service's only collection. Every method raises
    :class:`hummingbit.ServiceError` if the service cannot be reached, refuses or fails. For a
    service with the collection `notes`::

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
    def name(self) -> str:
        """The collection's name, which an alias stands for."""
        return self._remote.name

    @property
    def location(self) -> str:
        """The address of the service."""
        return self.client.url

    @property
    def n_bits(self) -> int:
        """The number of bits in a code."""
        return self._remote.n_bits

    @property
    def generation(self) -> int:
        """The number of writes so far that changed the collection."""
        return self._remote.generation

    @property
    def ranking(self) -> str:
        """The ranking of searches that name none."""
        return self._remote.ranking

    @property
    def encoder_kind(self) -> str | None:
        """What the encoder reads: text, vector or matrix; None if documents bring their codes."""
        return self._remote.encoder_kind

    def __len__(self) -> int:
        return len(self._remote)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        size = counted(len(self), "document")
        return f"<ServedCollection {self.name!r}: {size}, {self.n_bits} bits>"

    def add(
        self,
        documents: inputs.Documents,
        *,
        ids: Sequence[Any] | None = None,
        labels: Sequence[Any] | None = None,
        payloads: Sequence[Mapping[str, Any]] | None = None,
        id_field: str | None = None,
        text_field: str | Sequence[str] | None = None,
        label_field: str | None = None,
        payload_fields: Sequence[str] | None = None,
        on_repeated_id: inputs.OnRepeatedId = "raise",
        on_missing_id: inputs.OnMissingId = "raise",
        expires_at: str | float | datetime | None = None,
        ttl_seconds: float | None = None,
    ) -> inputs.Added:
        """Add documents, and replace those with the same ids; see :meth:`Collection.add`.

        All are checked before the first is sent. Each :data:`WRITTEN_AT_ONCE` are written together
        or not at all. Returns how many were written.

        Raises:
            DocumentError, InputError: as :meth:`Collection.add`.
        """
        layout = inputs.layout_of(id_field, text_field, label_field, payload_fields)
        parsed = inputs.documents_of(documents, layout, ids=ids, labels=labels, payloads=payloads)
        parsed = inputs.expiring(parsed, expires_at, ttl_seconds)
        repeated = inputs.check_ids(
            parsed,
            id_field=id_field,
            are_given=ids is not None or id_field is not None,
            on_repeated_id=on_repeated_id,
            on_missing_id=on_missing_id,
        )
        if all(has_id for _, has_id in parsed):
            return self._write([document for document, _ in parsed], repeated)
        complete, numbers = inputs.number_documents(parsed, len(self))
        if existing := self.existing_ids(numbers):
            conflict = f"document {min(existing)!r} already exists"
            raise InputError("ids", f"are missing, and {conflict}; pass the documents' ids")
        return self._write(complete, repeated, len(numbers))

    def delete(
        self,
        ids: Iterable[str] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
    ) -> int:
        """Delete documents by ids or a filter; see :meth:`Collection.delete`."""
        if (ids is None) == (filter is None):
            raise InputError("ids", "or filter must be given, and not both")
        if filter is not None:
            return self.client.delete_many(self._given_name, filter=filter)["deleted"]
        parts = batches(inputs.check_several("ids", ids), WRITTEN_AT_ONCE)
        return sum(self._remote.delete([*part]).deleted for part in parts)

    def update_payload(
        self,
        *,
        ids: Iterable[str] | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        set: Mapping[str, Any] | None = None,  # noqa: A002
        merge: Mapping[str, Any] | None = None,
        remove: Iterable[str] = (),
        overwrite: Mapping[str, Any] | None = None,
        expires_at: str | float | datetime | None = None,
        ttl_seconds: float | None = None,
        if_generation: int | None = None,
    ) -> int:
        """Change payloads of documents; see :meth:`Collection.update_payload`."""
        update = inputs.payload_update(
            ids=ids,
            filter=filter,
            set=set,
            merge=merge,
            remove=remove,
            overwrite=overwrite,
            expires_at=expires_at,
            ttl_seconds=ttl_seconds,
        )
        return self._remote.update_payloads([update], if_generation).updated

    def get(self, id: str) -> StoredDocument | None:  # noqa: A002
        """Return a document by its id, or None if there is none."""
        return self._remote.get(id)

    def get_many(self, ids: Iterable[str]) -> list[StoredDocument]:
        """Return the documents with these ids, in their order; unknown ids are left out."""
        found = self._remote.get_many([*dict.fromkeys(inputs.check_several("ids", ids))])
        return [stored for stored in found if stored is not None]

    def existing_ids(self, ids: Iterable[str]) -> set[str]:
        """Return those of `ids` that belong to documents of the collection."""
        return {stored.id for stored in self.get_many(ids)}

    def documents(
        self,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        *,
        sort: Sequence[str | Mapping[str, Any]] | str = (),
    ) -> Iterator[StoredDocument]:
        """Yield documents in their order or that of `sort`; see :meth:`Collection.documents`."""
        for page in pages_of(self._remote, inputs.filter_of(filter), parse_sort(sort)):
            yield from page

    def facets(
        self,
        facets: Sequence[str | Mapping[str, Any]] | str,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
    ) -> list[FacetResult]:
        """Count values of payload fields; see :meth:`Collection.facets`."""
        return self._remote.facets(parse_facets(facets), inputs.filter_of(filter)).facets

    def count(self, filter: Mapping[str, Any] | None = None) -> int:  # noqa: A002
        """Return the number of documents, or of those whose payload matches `filter`."""
        return self.client.count(self._given_name, filter)

    def search(
        self,
        query: inputs.QueryContent | None = None,
        *,
        vector: inputs.VectorContent | None = None,
        code: inputs.CodeContent | None = None,
        id: str | None = None,  # noqa: A002
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
            [_example(example) for example in inputs.examples_of(field, examples)]
            for field, examples in (("positive", positive), ("negative", negative))
        )
        asked: Any = {"with_payload": True, "with_text": True, "with_relevance": True, **options}
        name = self._given_name
        return _hits(self.client.recommend(name, like, unlike, strategy=strategy, **asked))

    def complete(self, text: str, limit: int = 10) -> list[str]:
        """Do as :meth:`hummingbit.embedded.Collection.complete`."""
        return self._remote.complete(text, limit)

    def close(self) -> None:
        """Close nothing: the client, which may serve other collections, stays open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(
        self, documents: Sequence[Document], repeated: int, numbered: int = 0
    ) -> inputs.Added:
        # A document that a later one replaces must not count as replaced by another request.
        last = last_of_each_id(documents)
        answers = [
            self.client.upsert(self._given_name, [record_of(document) for document in part])
            for part in batches(last, WRITTEN_AT_ONCE)
        ]
        replaced = [answer.get("replaced") for answer in answers]
        return inputs.Added(
            sum(answer["upserted"] for answer in answers),
            replaced=None if None in replaced else sum(count or 0 for count in replaced),
            repeated=repeated,
            numbered=numbered,
        )

    def _search(self, query: Query, options: SearchOptions) -> Hits:
        asked: Any = {"with_payload": True, "with_text": True, "with_relevance": True}
        asked |= {"with_confidence": True, **options}
        vector = None if query.vector is None else query.vector.tolist()
        return _hits(
            self.client.search(
                self._given_name, query.text, vector=vector, code=query.code, id=query.id, **asked
            )
        )


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


def _example(query: Query) -> dict[str, Any]:
    fields = {**query._asdict()}
    if query.vector is not None:
        fields["vector"] = query.vector.tolist()
    return {name: value for name, value in fields.items() if value is not None}


def _hits(answer: SearchResponse) -> Hits:
    return Hits(
        [*map(hit_of, answer["hits"])],
        generation=answer["generation"],
        substitutes=answer.get("substitutes", {}),
        ranking=answer.get("rescored_by", answer["ranking"]),
        recognized_terms=answer.get("recognized_terms"),
        corrected=[(word, known) for word, known in answer.get("corrected", ())],
        warnings=answer.get("warnings", ()),
        next_cursor=answer.get("next_cursor"),
        query_code=answer.get("query_code"),
        groups=[*map(group_of, answer.get("groups", ()))],
        facets=[FacetResult(**facet) for facet in answer.get("facets", ())],
    )
