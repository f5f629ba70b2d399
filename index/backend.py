"""The interface of a collection, wherever its documents are stored.

The service, the evaluation and the command line use only these methods, wherever the documents are.
Results are always ordered by (score descending, row). Rows number the documents in the order of
insertion and are never reused, so a row always means the same document. A replaced document counts
as inserted last.
"""

# Requests and options use the name `filter`; the builtin is not needed here.

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from hummingbit.corpus.document import Document
from hummingbit.corpus.field_types import FieldType
from hummingbit.encoder.codes import Codes
from hummingbit.encoder.encoder import Encoder, TextEncoder
from hummingbit.index.filters import Filter
from hummingbit.index.passages import DocumentCodes, Passages
from hummingbit.index.payloads import PayloadsUpdated, PayloadUpdate
from hummingbit.index.records import (
    CodedPayloads,
    DeleteResult,
    EncodedQueries,
    IngestReport,
    Queries,
    Query,
    ScrollPage,
    StoredDocument,
    UpsertResult,
    Verification,
)
from hummingbit.index.store.annotations import DocumentLabel, Judgement

if TYPE_CHECKING:
    from hummingbit.index.facets import SortField
    from hummingbit.index.labels import Annotations
    from hummingbit.index.operations import Answer, Work
    from hummingbit.index.options import SearchOptions
    from hummingbit.index.search import SearchResult

MAX_COMPLETIONS = 100
BATCH_SIZE = 1000


class AnnotationLists(Protocol):
    """The labels and judgements of a collection."""

    def labels(self) -> Iterable[DocumentLabel]:
        """Return all labels."""

    def judgements(self) -> Iterable[Judgement]:
        """Return all judgements."""

    def set_labels(self, records: Sequence[DocumentLabel]) -> object:
        """Add labels; each replaces the one of the same document and author."""

    def set_judgements(self, records: Sequence[Judgement]) -> object:
        """Add judgements; each replaces the one of the same query, document and author."""


class AnyCollection(Protocol):
    """A collection of this process or of a service: what managing its documents takes.

    :class:`hummingbit.remote.RemoteCollection` is one of a service. All methods are thread-safe.
    """

    @property
    def name(self) -> str:
        """The collection's name."""

    @property
    def n_bits(self) -> int:
        """The length of every code."""

    @property
    def encoder_name(self) -> str | None:
        """The encoder's name in the data folder, if the collection has one."""

    @property
    def encoder_fingerprint(self) -> str | None:
        """The encoder's fingerprint, if the collection has one."""

    @property
    def encoder_kind(self) -> str | None:
        """What the encoder reads: text, vector or matrix; None if documents come with codes."""

    @property
    def encoder(self) -> TextEncoder | None:
        """The encoder that makes the codes; None if documents come with codes.

        Only one of `encoder_kind` text reads texts.
        """

    @property
    def engine_setting(self) -> str:
        """The engine that was chosen at creation; see :mod:`hummingbit.index.engines.choice`."""

    @property
    def keep_vectors(self) -> str:
        """The form in which vectors are kept; see :mod:`hummingbit.index.kept_vectors`."""

    @property
    def passages(self) -> Passages | None:
        """How texts are split into passages; None if they are not."""

    @property
    def ranking(self) -> str:
        """The ranking of searches that name none."""

    @property
    def generation(self) -> int:
        """The number of writes so far that changed something."""

    def __len__(self) -> int:
        """The number of documents."""

    def ingest(
        self,
        documents: Iterable[Document],
        *,
        jobs: int = 1,
        progress: Callable[[int], object] | None = None,
        refused: Callable[[str, str], object] | None = None,
    ) -> IngestReport:
        """Write documents, many at a time; unchanged ones are skipped.

        See :func:`hummingbit.index.ingestion.ingest`. A service encodes by itself, without `jobs`.
        It calls `refused` with the id of each document that it does not take and the reason;
        elsewhere, such a document ends the ingestion.

        Raises:
            InputError: if a document cannot be encoded, or its code has another length.
            StoreError: if they cannot be written.
        """

    def delete(self, ids: Sequence[str]) -> DeleteResult:
        """Delete the documents with these ids; unknown ids are ignored.

        Raises:
            StoreError: if they cannot be deleted.
        """

    def delete_where(self, filter: Filter) -> DeleteResult:  # noqa: A002
        """Delete the documents whose payload matches the filter, as :meth:`delete` does."""

    def update_payloads(
        self, updates: Sequence[PayloadUpdate], if_generation: int | None = None
    ) -> PayloadsUpdated:
        """Change the payloads of documents, without their texts and codes; durable once it returns.

        All updates apply in order, or none does. The documents keep their rows. Unknown ids are
        ignored, and a payload that an update leaves as it is does not count as updated.

        Raises:
            GenerationChanged: if the collection is at another generation than `if_generation`.
            StoreError: if the payloads cannot be written.
        """

    def get(self, id_: str) -> StoredDocument | None:
        """Return the document with the id, or None.

        Raises:
            StoreError: if the stored document is damaged.
        """

    def get_many(self, ids: Sequence[str]) -> Iterator[StoredDocument | None]:
        """Yield what :meth:`get` returns for each id, with few requests."""

    def count(self, filter: Filter | None = None) -> int:  # noqa: A002
        """Return the number of documents, or of those that match the filter."""

    def explain_no_hits(self, filter: Filter | None) -> list[str]:  # noqa: A002
        """Return a sentence for each condition of the filter that no document can meet.

        See :func:`hummingbit.index.search.explain_no_hits`.
        """

    def scroll(
        self,
        limit: int,
        cursor: str | None = None,
        filter: Filter | None = None,  # noqa: A002
        sort: Sequence[SortField] = (),
    ) -> ScrollPage:
        """Return up to `limit` documents in the order of rows, from the start or after a cursor.

        Documents added after the first page do not appear, deleted ones vanish, and no document
        appears twice. With `sort`, they are in the order of :func:`hummingbit.index.facets.
        sorted_rows`; a document whose values change meanwhile may appear twice or not at all.

        Raises:
            InputError: if `limit` is not from 1 to :data:`MAX_K`, or the cursor does not come from
                a scroll of this collection with this filter.
        """

    def ask(
        self,
        operation: str,
        body: Mapping[str, Any],
        filter: Filter | None = None,  # noqa: A002
    ) -> dict[str, Any]:
        """Return the response of ``POST /v1/collections/{name}/{operation}``.

        `body` has the fields of a request besides the filter, as JSON values.
        :mod:`hummingbit.index.operations` has the operations.

        Raises:
            InputError: if the body is invalid.
        """

    def answer(self, query: Query, options: Mapping[str, Any]) -> dict[str, Any]:
        """Search, and return the response of ``POST /v1/collections/{name}/search``.

        `options` are the fields of a request, as JSON values.

        Raises:
            InputError: if the query or an option is invalid.
            UnknownDocument: if no document has the id of the query.
        """

    def recommendation(
        self,
        positive: Sequence[Query],
        negative: Sequence[Query],
        options: Mapping[str, Any],
        strategy: str,
    ) -> dict[str, Any]:
        """Find documents like examples, and return the response of ``POST …/recommend``."""

    def complete(self, text: str, limit: int) -> list[str]:
        """Return up to `limit` queries that begin like `text`, with its last word completed.

        The words are those of the documents; those that most documents have come first.

        Raises:
            InputError: if `limit` is not from 1 to :data:`MAX_COMPLETIONS`, the last word has fewer
                than two characters, or this kind of collection has no word index.
        """

    def set_ranking(self, ranking: str) -> None:
        """Make `ranking` the default of searches by a text or a vector that name none.

        Raises:
            InputError: if the ranking does not exist, or not for this kind of collection.
            StoreError: if the setting cannot be written.
        """

    @property
    def hybrid_weight(self) -> float:
        """The weight of codes beside words in hybrid rankings where a search names none."""

    @property
    def own_hybrid_weight(self) -> float | None:
        """The weight that was set for this collection; None where the default counts."""

    def set_hybrid_weight(self, weight: float | None) -> None:
        """Make `weight` that of codes beside words; None takes that of a language model, or 0.5.

        Raises:
            InputError: if it is out of bounds, or searches here are by distance only.
            StoreError: if the setting cannot be written.
        """

    @property
    def language(self) -> str | None:
        """The language of the texts for searches by words; ``none`` without stems.

        It is None if it was not found yet, or if an earlier version made the collection, whose
        texts are read as English without other forms of words.
        """

    def set_language(self, language: str) -> None:
        """Set the language of the texts for searches by words; ``auto`` finds it.

        Raises:
            InputError: if there is no stemmer for it, or if this kind of collection has no words.
            StoreError: if the setting cannot be written.
        """

    @property
    def indexed_fields(self) -> tuple[str, ...]:
        """The payload fields that are indexed, so that filters on them read no payloads."""

    def set_indexed_fields(
        self, fields: Sequence[str], progress: Callable[[], object] | None = None
    ) -> list[str]:
        """Index these payload fields, and no others, in present and future documents.

        Filters match the same documents with and without an index. `progress` is called now and
        then. If this is interrupted, later writes complete the indexes. Returns a sentence for
        each of the fields that no document has.

        Raises:
            InputError: if there are too many fields, a field cannot be used in a filter, or this
                kind of collection has no indexes of fields.
            StoreError: if the indexes cannot be written.
        """

    @property
    def field_types(self) -> Mapping[str, FieldType]:
        """The types of payload fields that tables decided.

        :class:`hummingbit.index.ingestion.CollectionFieldTypes` reads tables by them.

        Raises:
            StoreError: if they cannot be read.
        """

    def remember_field_types(self, types: Mapping[str, FieldType]) -> None:
        """Add the types of fields, or replace them.

        Raises:
            StoreError: if they cannot be written.
        """

    def verify(self) -> Verification:
        """Check documents and index; StoreClosed is raised if they are closed meanwhile."""

    def compact(self) -> None:
        """Free the space of deleted documents; searches continue meanwhile.

        A collection in the data folder is written anew, which takes as much free disk space again.

        Raises:
            StoreError: if the collection cannot be written, or is damaged.
        """

    def stats(self) -> dict[str, Any]:
        """Return statistics of the collection that are cheap to compute, ready for JSON."""

    def bytes_on_disk(self) -> int:
        """Return the size of the collection on disk; 0 if it cannot be known."""

    @property
    def annotations(self) -> AnnotationLists:
        """The labels and judgements."""

    def reading(self) -> AbstractContextManager[object]:
        """Let whatever this thread reads inside the block belong to one generation.

        Only collections in the data folder can do that; elsewhere, the block changes nothing.
        """


CheckReplaced = Callable[[Mapping[str, Mapping[str, Any]]], object]
"""Takes the payloads of the documents that a write would replace, by their ids."""


class CollectionBackend(AnyCollection, Protocol):
    """Documents that are searched by their codes. All methods are thread-safe."""

    @property
    def last_row(self) -> int:
        """The last row that was ever assigned. Documents of later rows were written since."""

    @property
    def annotations(self) -> Annotations:
        """The labels and judgements."""

    incarnation: str
    """Distinguishes the collection from earlier and later ones of the same name."""

    @property
    def encoder(self) -> Encoder | None:
        """The encoder that makes the codes; None if documents come with codes."""

    def tabulate(self, filter_: Filter | None, fields: Sequence[str], work: Work[Answer]) -> Answer:
        """See :meth:`hummingbit.index.operations.Documents.tabulate`."""

    @property
    def compactions(self) -> int:
        """How often the index was compacted since this process opened the collection."""

    def delete(self, ids: Sequence[str], *, within: Filter | None = None) -> DeleteResult:
        """See :meth:`AnyCollection.delete`; only documents that match a filter are deleted."""

    def within(self, filter: Filter) -> CollectionBackend:  # noqa: A002
        """Return the collection as if it had no other documents than those that match a filter.

        Other documents change nothing of what :meth:`find`, :meth:`recommend`,
        :meth:`encode_queries` and :meth:`complete` of it return, except generations and cursors.
        """

    def ids_within(self, ids: Sequence[str], filter: Filter) -> set[str]:  # noqa: A002
        """Return those of `ids` that belong to documents that match a filter.

        In the data folder, this reads no document, so it takes as long for others as for none.
        """

    def holding_writes(self) -> AbstractContextManager[object]:
        """Let no other service write to the collection in the block, and show what they wrote.

        Where no other service can write, the block changes nothing.
        """

    def called(self, name: str) -> CollectionBackend:
        """Return the collection under another name, that of an alias, which messages then have."""

    def prepare_fork(self) -> None:
        """Make the memory ready to be shared with a process that is about to be forked."""

    @property
    def is_read_by_model(self) -> bool:
        """Whether a language model reads the texts, which takes milliseconds for each."""

    def upsert(
        self,
        documents: Iterable[Document],
        *,
        batch_size: int = BATCH_SIZE,
        progress: Callable[[int], object] | None = None,
        check: CheckReplaced | None = None,
    ) -> UpsertResult:
        """Insert documents, or replace those with the same id; durable once this returns.

        If an id occurs twice, the last document wins. `progress` is called with the size of each
        batch. `check` is called before a batch is written, while no other writer can write, and
        an error that it raises undoes the whole write.

        Raises:
            InputError: if a document cannot be encoded, or its code has another length.
            StoreError: if they cannot be written.
        """

    def upsert_encoded(
        self,
        documents: Sequence[Document],
        codes: DocumentCodes,
        bookmark: tuple[str, str] | None = None,
        check: CheckReplaced | None = None,
    ) -> UpsertResult:
        """Insert or replace documents whose codes, ``uint8[N, n_bits / 8]``, are already known.

        In a collection with passages, a document with one code is a single passage.
        `bookmark`, a key and a value, is committed in the same transaction as the documents.
        `check` is that of :meth:`upsert`.

        Raises:
            InputError: if `codes` has another shape or type.
            StoreError: if they cannot be written.
        """

    def read_bookmark(self, key: str) -> str | None:
        """Return the last value stored under `key`, or None.

        A backend without transactions keeps no bookmarks: a job that resumes there writes its last
        batch a second time.
        """

    def set_bookmark(self, key: str, value: str | None) -> None:
        """Store `value` under `key`, or delete the key if it is None; the generation is unchanged.

        Raises:
            StoreError: if it cannot be written.
        """

    def new_or_changed(self, documents: Sequence[Document]) -> list[Document]:
        """Return the documents that the collection does not yet hold in exactly this form.

        A backend that cannot tell returns all of them; writing a document again changes only its
        row.
        """

    def existing_ids(self, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that belong to documents of the collection."""

    def knows_filter(self, filter: Filter | None) -> bool:  # noqa: A002
        """Tell whether a search with this filter is cheap, because no payloads must be read."""

    def is_built_for(self, ranking: str | None) -> bool:
        """Tell whether the indexes are built that a search with the ranking or by default needs."""

    def documents_after(self, row: int, limit: int) -> list[StoredDocument]:
        """Return the first `limit` documents after `row`, in the order of rows."""

    def payloads_changed_since(self, generation: int) -> list[StoredDocument]:
        """Return the documents whose payloads were changed after a generation, and perhaps others.

        Documents that were written anew are left out.
        """

    def all_documents(self) -> list[StoredDocument]:
        """Return all documents in the order of rows."""

    def coded_payloads(self, *, with_given_labels: bool) -> CodedPayloads:
        """Return the code and payload of every document, in the order of rows.

        `with_given_labels` adds the labels that people agree on.
        """

    def labelled_codes(self, label_field: str = "label") -> tuple[Codes, list[tuple[str, ...]]]:
        """Return the codes, ``uint8[N, n_bits / 8]``, and labels of all documents, by row.

        The labels of a document are in its payload's `label_field`, a string or a list of strings.
        If the field is ``label`` and absent, ``labels`` is read. Unlabelled documents have ``()``.

        Raises:
            InputError: if a document holds anything else in the field.
        """

    def encode_queries(
        self, queries: Sequence[Query], options: SearchOptions | None = None
    ) -> EncodedQueries:
        """Read the texts of `queries`; return them with their codes and the real values behind.

        The `options` of a search say how a text is read (`syntax`, `expand`), and which documents'
        fields conditions can have (`filter`). If the search needs only the words of its texts
        (:func:`hummingbit.index.search.needs_only_words`), a language model does not read them.

        Raises:
            InputError: if a query is invalid; its `position` says which.
            UnknownDocument: if no document has the id of a query.
        """

    def recommend(
        self,
        positive: Sequence[Query],
        negative: Sequence[Query],
        options: SearchOptions,
        strategy: str,
    ) -> SearchResult:
        """Return the documents that are like the positive examples and unlike the negative ones.

        See :mod:`hummingbit.index.recommendations` for the strategies. Documents with the ids of
        examples are left out. There is no cursor. `distance` in hits is that to the code of the
        strategy ``average_vector``.

        Raises:
            InputError: if an example or an option is invalid.
            UnknownDocument: if no document has the id of an example.
        """

    def search(
        self,
        queries: Queries,
        k: int,
        radius: int | None = None,
        **options: Any,
    ) -> SearchResult:
        """Return the `k` best documents of each query, in the order of a ranking.

        `options` are further fields of :class:`hummingbit.index.search.SearchOptions`. If there is
        no `ranking` among them, it is the collection's default. `radius`, for the ranking by
        Hamming distance, excludes documents that are farther. `filter` excludes documents whose
        payload does not match it; the k best of the others are returned. `offset` skips that many
        of the best. `cursor`, from the previous page, replaces it for a single query: documents
        added since the first page do not appear, deleted ones vanish, none appears twice and none
        is skipped. `rerank` reorders the hits of the page by (rerank_score, distance, row).
        `rescore` finds more candidates than hits and orders them by (its score descending, row);
        such pages have no cursor.

        Raises:
            InputError: if `k` is not from 1 to :data:`MAX_K`, or if `radius`, `ranking`, `offset`,
                `cursor`, `rerank` or a query is invalid; the error names it.
            UnknownDocument: if no document has the id of a query.
        """

    def find(self, queries: Queries, options: SearchOptions) -> SearchResult:
        """Search as :meth:`search` does, with the options as one value."""

    def close(self) -> None:
        """Close the collection after a write in progress has finished."""
