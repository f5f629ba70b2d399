"""What every collection offers, wherever its documents lie.

The service, the evaluation and the command line use these and nothing else of a collection, so a
collection on this machine and one on a Milvus cluster can stand in for each other. The order of
results is (distance, row) everywhere; a row is the order of insertion, is never given again, and
so stands for one document for ever. A document that is replaced counts as inserted last.
"""

# `filter` is the word of requests and of options; the builtin is not used here.

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from corpus.document import Document
from encoder.codes import Codes
from encoder.encoder import Encoder
from index.filters import Filter
from index.records import (
    DeleteResult,
    EncodedQueries,
    Hybrid,
    Queries,
    Query,
    Rescore,
    ScrollPage,
    SearchResult,
    StoredDocument,
    UpsertResult,
    Verification,
)

if TYPE_CHECKING:
    from index.search.search_options import SearchOptions

MAX_K = 10_000
BATCH_SIZE = 1000


class CollectionBackend(Protocol):
    """Documents, found by the Hamming distance of their codes. All methods are thread-safe."""

    @property
    def name(self) -> str:
        """The collection's name."""

    @property
    def n_bits(self) -> int:
        """The length of every code."""

    @property
    def encoder(self) -> Encoder | None:
        """What makes the codes; None where documents bring their own."""

    @property
    def encoder_name(self) -> str | None:
        """The encoder's name in the data folder, if the collection has one."""

    @property
    def encoder_fingerprint(self) -> str | None:
        """The encoder's fingerprint, if the collection has one."""

    @property
    def engine_setting(self) -> str:
        """The engine that it was made with; see :mod:`index.engines.setting`."""

    @property
    def ranking(self) -> str:
        """What orders the hits of searches that name no ranking."""

    @property
    def generation(self) -> int:
        """The number of writes so far that changed anything."""

    def __len__(self) -> int:
        """The number of documents."""

    def upsert(
        self,
        documents: Iterable[Document],
        *,
        batch_size: int = BATCH_SIZE,
        progress: Callable[[int], object] | None = None,
    ) -> UpsertResult:
        """Insert documents and replace those whose id is there; acknowledged once it returns.

        Where an id comes twice, the last one stays. `progress` is told the size of each batch.

        Raises:
            InputError: if a document cannot be encoded, or its code has another length.
            StoreError: if they cannot be written.
        """

    def upsert_encoded(
        self,
        documents: Sequence[Document],
        codes: Codes,
        bookmark: tuple[str, str] | None = None,
    ) -> UpsertResult:
        """Do as :meth:`upsert` with ``uint8[N, n_bits / 8]`` codes that were made before.

        `bookmark`, a key and a value, is committed with the documents, or not at all.

        Raises:
            InputError: if `codes` has another shape.
            StoreError: if they cannot be written.
        """

    def bookmark(self, key: str) -> str | None:
        """Return the value that was noted last under `key`; None where there is none.

        A backend without transactions keeps no bookmarks: whoever resumes work on it writes the
        last batch a second time.
        """

    def set_bookmark(self, key: str, value: str | None) -> None:
        """Note `value` under `key`, or with None forget the key; the generation stays.

        Raises:
            StoreError: if it cannot be written.
        """

    def new_or_changed(self, documents: Sequence[Document]) -> list[Document]:
        """Return the documents that the collection does not hold just as they are given.

        A backend that cannot tell returns all of them; writing one again changes only its row.
        """

    def existing_ids(self, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that documents of the collection have."""

    def delete(self, ids: Sequence[str]) -> DeleteResult:
        """Delete the documents with these ids; ids that are not there are passed over.

        Raises:
            StoreError: if they cannot be deleted.
        """

    def delete_where(self, filter: Filter) -> DeleteResult:  # noqa: A002
        """Delete the documents for whose payload the filter holds.

        Raises:
            StoreError: if they cannot be deleted.
        """

    def get(self, id_: str) -> StoredDocument | None:
        """Return the document with the id, or None.

        Raises:
            StoreError: if it is not what was written.
        """

    def knows_filter(self, filter: Filter) -> bool:  # noqa: A002
        """Tell whether a search with the filter reads no payload for it: one before it has."""

    def count(self, filter: Filter | None = None) -> int:  # noqa: A002
        """Return how many documents there are, or for how many the filter holds."""

    def scroll(
        self,
        limit: int,
        cursor: str | None = None,
        filter: Filter | None = None,  # noqa: A002
    ) -> ScrollPage:
        """Return up to `limit` documents in the order of rows, from the start or from a cursor.

        Documents added after the first page do not appear, deleted ones vanish, and no document
        comes twice.

        Raises:
            InputError: if `limit` is not from 1 to :data:`MAX_K`, or the cursor is not one that a
                scroll of this collection with this filter gave.
        """

    def documents_after(self, row: int, limit: int) -> list[StoredDocument]:
        """Return the first `limit` documents above `row`, in the order of rows."""

    def all_documents(self) -> list[StoredDocument]:
        """Return all documents as they were given, by row."""

    def labelled_codes(self, label_field: str = "label") -> tuple[Codes, list[tuple[str, ...]]]:
        """Return the codes, ``uint8[N, n_bits / 8]``, and labels of all documents, by row.

        The labels of a document are the payload's `label_field`, a string or a list of them; for
        the field ``label``, where there is none, its ``labels``. Unlabelled documents have ``()``.

        Raises:
            InputError: if the field holds anything else in some document.
        """

    def encode_queries(self, queries: Sequence[Query]) -> EncodedQueries:
        """Return the codes of `queries` and the real values behind them.

        Raises:
            InputError: if a query is not as it must be. Its `position` says which.
            UnknownDocument: if an id is not there.
        """

    def search(
        self,
        queries: Queries,
        k: int,
        radius: int | None = None,
        *,
        ranking: str | None = None,
        filter: Filter | None = None,  # noqa: A002
        offset: int = 0,
        cursor: str | None = None,
        with_payload: bool = False,
        with_text: bool = False,
        with_code: bool = False,
        with_cursor: bool = True,
        rerank: bool = False,
        hybrid: Hybrid | None = None,
        rescore: Rescore | None = None,
        highlight: bool = False,
    ) -> SearchResult:
        """Return the `k` best documents of each query, in the order of a ranking.

        `ranking` is one of :data:`index.rankings.protocol.RANKINGS`; None is the collection's
        default. `radius`, for the ranking by Hamming distance, leaves out what is farther; `filter`
        leaves out those for whose payload it does not hold: the k best of the others are returned.
        `offset` passes over that many of the best. `cursor`, from the page before, takes its place
        for a single query: documents added since the first page do not appear, deleted ones
        vanish, none comes twice and none is skipped. With `rerank`, the hits that would be returned
        are re-ordered by (rerank_score, distance, row).

        `hybrid` says how the hybrid ranking puts codes and words together. With `rescore`, more
        candidates than are wanted are found and ordered by (its score descending, row); no cursor
        follows them. `highlight` adds a passage of the text to each hit.

        Raises:
            InputError: if `k` is not from 1 to :data:`MAX_K`, or `radius`, `ranking`, `offset`,
                `cursor`, `rerank` or a query cannot be taken; the error names it.
            UnknownDocument: if a query has an id that is not there.
        """

    def find(self, queries: Queries, options: SearchOptions) -> SearchResult:
        """Search as :meth:`search` does, with the options as one value."""

    def set_ranking(self, ranking: str) -> None:
        """Order the hits of searches that name no ranking by this one from now on.

        Queries of which only the code is known go on being answered by Hamming distance.

        Raises:
            InputError: if there is no such ranking, or not for this kind of collection.
            StoreError: if that cannot be written.
        """

    @property
    def indexed_fields(self) -> tuple[str, ...]:
        """The fields of payloads by which filters find documents without reading payloads."""

    def set_indexed_fields(
        self, fields: Sequence[str], progress: Callable[[], object] | None = None
    ) -> None:
        """Index just these fields of payloads, of all documents there are and will be.

        Filters hold for the same documents with and without; writes come in between meanwhile.
        `progress` is called every so often. Where it is interrupted, later writes go on with it.

        Raises:
            InputError: if there are too many, a filter could not name one, or this kind of
                collection has no indexes of fields.
            StoreError: if they cannot be written.
        """

    def verify(self) -> Verification:
        """Check every document against its checksum, and the index against the documents."""

    def compact(self) -> None:
        """Give back the room of what was deleted; searches go on meanwhile.

        Where the collection lies in the folder, the store is rewritten and the index built anew:
        the file system must have as much room again as the store takes.

        Raises:
            StoreError: if the collection cannot be written, or is damaged.
        """

    def stats(self) -> dict[str, Any]:
        """Return what can be said about the collection cheaply, ready to be written as JSON."""

    def bytes_on_disk(self) -> int:
        """Return how much room the collection takes; 0 where that cannot be known."""

    def close(self) -> None:
        """Close the collection, once a write in progress is done."""
