"""The JSON of collections, documents, aliases and snapshots."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from hummingbit.index.facets import MAX_FACETS, MAX_SORTED
from hummingbit.index.filters import MAX_INDEXED_FIELDS
from hummingbit.index.names import AUTO, FLOAT32, FORMS, INDEX_TYPES, LONG, MAX_K, PASSAGE_WORDS
from hummingbit.index.passages import (
    MAX_OVERLAP,
    MAX_SENTENCES,
    MAX_WORDS,
    MIN_WORDS,
    OVERLAP,
    Passages,
)
from hummingbit.index.payloads import MAX_REMOVED
from hummingbit.index.rankings import RANKINGS
from hummingbit.service.schemas.common import (
    FIRST_ERROR,
    Code,
    Cursor,
    FacetRequest,
    FieldName,
    FilterField,
    Fingerprint,
    PayloadFields,
    RequestModel,
    Strings,
    Text,
    Vector,
)

# Collections and their statistics.


class PassageSettings(RequestModel):
    """A passage has whole sentences, of at most so many `words` together."""

    words: int = Field(PASSAGE_WORDS, ge=MIN_WORDS, le=MAX_WORDS)
    sentences: int | None = Field(
        None, ge=1, le=MAX_SENTENCES, description="The most sentences of a passage."
    )
    overlap: int = Field(
        OVERLAP,
        ge=0,
        le=MAX_OVERLAP,
        description="The number of sentences that two neighbouring passages share.",
    )
    longer_than: int | None = Field(
        None,
        ge=0,
        description="Texts with at most so many words are a single passage; by default `words`.",
    )


class CreateCollection(RequestModel):
    """Its `encoder`, which makes the codes, or `n_bits`, if documents have codes.

    If neither is given, it has the encoder that ships, if the service has hummingbit-models. With
    the encoder null, and without hummingbit-models, documents have no codes: they are texts that
    are searched by words alone (bm25), until a reindexing gives them an encoder.
    """

    encoder: str | None = None
    n_bits: int | None = Field(
        None, description="A multiple of 8 from 8 to 4096; 0, as the encoder null, for no codes."
    )
    dimensions: int | None = Field(
        None,
        ge=8,
        description="The numbers of a vector, with the encoder sign: bit b of a code is 1 where"
        " number b is positive. A multiple of 8 from 8 to 4096.",
    )
    engine: str = Field(
        AUTO,
        description="The engine that searches the collection; auto chooses one by its codes."
        " All engines give the same results.",
        json_schema_extra={"enum": [*INDEX_TYPES]},
    )
    indexed_fields: list[str] | None = Field(
        None,
        max_length=MAX_INDEXED_FIELDS,
        description="Payload fields by which filters find documents without reading payloads."
        " Results are the same with and without.",
    )
    keep_vectors: str = Field(
        FLOAT32,
        description="How the documents' vectors are kept on disk: float32, whole; float16 or int8,"
        " rounded to a half or a quarter of that; none, not at all. Kept vectors can rescore"
        " searches and be encoded again by a reindexing.",
        json_schema_extra={"enum": [*FORMS]},
    )
    passages: PassageSettings | Literal["auto"] | bool | None = Field(
        None,
        description="Split texts into passages with a code and words of their own: the best passage"
        " ranks a document, and is its highlight. true takes the defaults; auto splits only texts"
        f" of more than {LONG:,} words. A passage takes a code, 8 bytes more, and its words.",
    )
    language: str | None = Field(
        None,
        description="The language of the texts for searches by words, such as german; none for"
        " texts without stems; auto, the default, finds it.",
    )

    @property
    def code_length(self) -> int | None:
        """The number of bits if no encoder makes the codes; None if one does, or by default."""
        by_words = self.encoder is None and "encoder" in self.model_fields_set
        return 0 if by_words and self.n_bits is None else self.n_bits

    @property
    def passages_settings(self) -> Passages | None:
        """The settings of passages.

        Raises:
            InputError: if they are invalid.
        """
        given = self.passages
        return Passages.of(given.model_dump() if isinstance(given, PassageSettings) else given)


class IndexFields(RequestModel):
    """The payload fields to index, in place of those indexed before; an empty list for none."""

    indexed_fields: list[str] = Field(max_length=MAX_INDEXED_FIELDS)


class UpdateCollection(RequestModel):
    """The properties of a collection that can be changed."""

    ranking: str | None = Field(
        None,
        description="The ranking of searches that do not name one.",
        json_schema_extra={"enum": [*RANKINGS]},
    )
    hybrid_weight: float | None = Field(
        None,
        description="The weight of codes beside words in the ranking `hybrid` of searches that name"
        " none; null takes that of the encoder.",
    )
    language: str | None = Field(
        None,
        description="The language of the texts for searches by words, such as german; none for"
        " texts without stems, auto to find it.",
    )


# Documents.


ExpiresAt = Annotated[
    str | float | None,
    Field(
        description="When the document expires: a time of ISO 8601, in UTC without a zone, or"
        " seconds since 1970. It is stored in the payload as `_expires_at`.",
        examples=["2027-01-31T12:00:00Z"],
    ),
]
TTLSeconds = Annotated[
    float | None, Field(gt=0, description="The same as seconds from now.", examples=[3600])
]


class NewDocument(RequestModel):
    """A document: its id and a text, a vector, a code or several of them.

    A code is stored as it is, and nothing is encoded. Of a text and a vector, the encoder takes the
    vector. A text beside another content is found by its words; a vector beside a code is kept.
    """

    id: str
    text: Text = None
    vector: Vector = None
    code: Code = None
    label: str | None = Field(None, description="Stored in the payload as `label`.")
    labels: Strings | None = Field(None, description="Stored in the payload as `labels`.")
    payload: dict[str, Any] | None = None
    expires_at: ExpiresAt = None
    ttl_seconds: TTLSeconds = None


class UpsertDocuments(RequestModel):
    """Documents to insert, or to replace those with the same id: all of them or none."""

    documents: Annotated[list[NewDocument], FIRST_ERROR] = Field(min_length=1)
    encoder_fingerprint: Fingerprint = None


class SortBy(RequestModel):
    """A payload field to sort by; documents without it come last in either order.

    Values come in the order: booleans, numbers, dates and times (by instants), other strings.
    """

    field: FieldName
    order: Literal["asc", "desc"] = "asc"


class ScrollRequest(RequestModel):
    """A page of documents, in the order of insertion, or of fields of their payloads."""

    limit: int = Field(100, ge=1, le=MAX_K)
    cursor: Cursor = None
    filter: FilterField = None
    sort: list[SortBy] | None = Field(
        None, max_length=MAX_SORTED, examples=[[{"field": "year", "order": "desc"}]]
    )
    with_payload: PayloadFields = True


class FacetsRequest(RequestModel):
    """Fields whose values to count, over all documents or those that match a filter."""

    facets: list[FacetRequest] = Field(
        min_length=1,
        max_length=MAX_FACETS,
        examples=[[{"field": "label"}, {"field": "year", "interval": 10}]],
    )
    filter: FilterField = None


class GetRequest(RequestModel):
    """Which documents to get."""

    ids: Strings = Field(min_length=1, max_length=1000)
    with_payload: PayloadFields = True


class CountRequest(RequestModel):
    """Which documents to count: all, or those that match a filter."""

    filter: FilterField = None


class DeleteRequest(RequestModel):
    """Exactly one of `ids` and `filter`."""

    ids: Strings | None = Field(None, max_length=10_000)
    filter: FilterField = None


class PayloadUpdateRequest(RequestModel):
    """A change of the payloads of the documents with these `ids`, or that match a `filter`.

    `overwrite` replaces the payload. Then `remove` removes fields, `set` gives keys new values, and
    `merge` applies a JSON merge patch (RFC 7396): objects are merged into objects, and null removes
    a key.
    """

    ids: Strings | None = Field(None, max_length=10_000)
    filter: FilterField = None
    set: dict[str, Any] | None = Field(None, examples=[{"reviewed": True}])
    merge: dict[str, Any] | None = Field(None, examples=[{"author": {"name": "Ann"}}])
    remove: Strings | None = Field(None, max_length=MAX_REMOVED, examples=[["draft"]])
    overwrite: dict[str, Any] | None = None
    expires_at: ExpiresAt = None
    ttl_seconds: TTLSeconds = None


class UpdatePayloads(RequestModel):
    """Changes of payloads, in order: all of them or none."""

    updates: Annotated[list[PayloadUpdateRequest], FIRST_ERROR] = Field(
        min_length=1, max_length=1000
    )
    if_generation: int | None = Field(
        None,
        ge=0,
        description="If the collection is at another generation, nothing is written, and the"
        " response is 412.",
    )


# Aliases and reindexing.


class AliasToAdd(RequestModel):
    """Point `alias` to `collection`, wherever it pointed before."""

    alias: str
    collection: str


class AliasToRemove(RequestModel):
    """Remove `alias`."""

    alias: str


class AliasAction(RequestModel):
    """Exactly one of `add` and `remove`."""

    add: AliasToAdd | None = None
    remove: AliasToRemove | None = None

    @model_validator(mode="after")
    def _check_exactly_one(self) -> AliasAction:
        if (self.add is None) == (self.remove is None):
            raise ValueError("must have exactly one of add and remove")
        return self


class ChangeAliases(RequestModel):
    """Actions that apply in order, all of them or none."""

    actions: list[AliasAction] = Field(
        min_length=1,
        max_length=1000,
        examples=[[{"add": {"alias": "books", "collection": "books-2"}}]],
    )


class Reindex(RequestModel):
    """The encoder, the collection to make, and the alias that moves to it."""

    encoder: str
    into: str = Field(description="The name of the collection to create.", examples=["books-2"])
    alias: str | None = Field(None, description="Moves to the collection once it is complete.")
    engine: str | None = Field(
        None,
        description="The engine that searches the new collection; by default, that of the old one.",
        json_schema_extra={"enum": [*INDEX_TYPES, None]},
    )


# Snapshots.


class RestoreSnapshot(RequestModel):
    """The collection to create from a snapshot."""

    collection: str = Field(examples=["books-restored"])


# A collection's bits and buckets.
