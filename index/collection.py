"""A collection: an encoder, a store and an index that are kept in step.

**Writes.** One thread at a time writes. Within one SQLite transaction it deletes and inserts rows;
from the published generation and those rows it makes the next generation, in memory; then, holding
the publishing lock, it commits and publishes: two steps, with nothing slow after the commit. An
error at any point before the commit undoes the transaction and publishes nothing. A write returns
after both steps, so it is durable, and every later search sees it.

**Searches.** A search takes the published generation, which never changes, finds rows in it and
then asks the store for their ids. The store may be ahead by then, but a row means one document for
ever, so a row that is still there has the right id, and if all are there the answer is that of the
generation taken. If one is gone, a writer has replaced or deleted it since; the search is repeated
while holding the publishing lock. No commit can come between then, and the generation published is
the store's, so the rows are there. A search waits for at most one commit and no search waits for
an encoder or for another search's first attempt.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from corpus.document import Document
from encoder.codes import Codes
from encoder.encoder import Encoder
from index.changes import Changes
from index.contents import encode_contents
from index.errors import EncoderMismatch, InputError, StoreError, UnknownDocument
from index.labels import labels_of
from index.protocol import Neighbours, Rows
from index.records import DeleteResult, Hit, Query, SearchResult, StoredDocument, UpsertResult
from index.segments import Generation
from index.statistics import code_statistics
from index.store import Store

MAX_K = 10_000
BATCH_SIZE = 1000


class Collection:
    """Documents, found by the Hamming distance of their codes. All methods are thread-safe."""

    def __init__(self, store: Store, encoder: Encoder | None = None) -> None:
        """Open the collection in `store`, which is closed with it; `encoder` made its codes.

        Raises:
            EncoderMismatch: if the collection was made with another encoder, or without one.
            StoreError: if the store is damaged.
        """
        self.description = store.description
        self._check_encoder(encoder)
        self._store = store
        self._encoder = encoder
        self._writing = threading.Lock()
        self._publishing = threading.Lock()
        self._published = Generation.build(*store.read_codes())

    @property
    def name(self) -> str:
        """The collection's name."""
        return self.description.name

    @property
    def n_bits(self) -> int:
        """The length of every code."""
        return self.description.n_bits

    @property
    def encoder(self) -> Encoder | None:
        """What makes the codes; None where documents bring their own."""
        return self._encoder

    @property
    def encoder_name(self) -> str | None:
        """The encoder's name in the data folder, if the collection has one."""
        return self.description.encoder_name

    @property
    def encoder_fingerprint(self) -> str | None:
        """The encoder's fingerprint, if the collection has one."""
        return self.description.encoder_fingerprint

    @property
    def generation(self) -> int:
        """The number of writes so far that changed anything."""
        return self._published.number

    def __len__(self) -> int:
        return len(self._published)

    def upsert(
        self,
        documents: Iterable[Document],
        *,
        batch_size: int = BATCH_SIZE,
        progress: Callable[[int], object] | None = None,
    ) -> UpsertResult:
        """Insert documents and replace those whose id is there: all of them, or none on an error.

        A replaced document counts as inserted last. Where an id comes twice, the last one stays.
        `documents` may be any length; `batch_size` of them are encoded at a time, and `progress`
        is told how many after each. Other writes wait until this one is done.

        Raises:
            InputError: if a document cannot be encoded, or its code has another length.
            StoreError: if the store cannot be written.
            Exception: whatever `documents` and `progress` raise.
        """
        with self._writing, self._store.writing() as changes:
            rows, codes = [np.empty(0, dtype=np.int64)], [self._no_codes()]
            removed: list[int] = []
            for given in _batches(documents, batch_size):
                batch = _last_of_each_id(given)
                codes.append(encode_contents(batch, self._encoder, self.n_bits))
                removed += changes.delete([document.id for document in batch])
                rows.append(changes.insert(batch, codes[-1]))
                if progress is not None:
                    progress(len(given))
            added, gone = np.concatenate(rows), np.array(removed, dtype=np.int64)
            kept = ~np.isin(added, gone)
            if not len(added):
                return UpsertResult(0, self.generation)
            number = self._publish(changes, np.concatenate(codes)[kept], added[kept], gone)
            return UpsertResult(int(kept.sum()), number)

    def delete(self, ids: Sequence[str]) -> DeleteResult:
        """Delete the documents with these ids; ids that are not there are passed over.

        Raises:
            StoreError: if the store cannot be written.
        """
        with self._writing, self._store.writing() as changes:
            removed = np.array(changes.delete(list(dict.fromkeys(ids))), dtype=np.int64)
            if not len(removed):
                return DeleteResult(0, self.generation)
            number = self._publish(changes, self._no_codes(), removed[:0], removed)
            return DeleteResult(len(removed), number)

    def get(self, id_: str) -> StoredDocument | None:
        """Return the document with the id, or None."""
        return self._store.get(id_)

    def contents(self) -> list[StoredDocument]:
        """Return all documents as they were given, all as of one moment, by row."""
        return self._store.read_contents()

    def encode_queries(self, queries: Sequence[Query]) -> Codes:
        """Return the codes of `queries`, ``uint8[Q, n_bits / 8]``.

        Raises:
            InputError: if a query does not carry exactly one of text, vector, code and id, or
                carries what the collection's encoder does not take. Its `position` says which.
            UnknownDocument: if an id is not there.
        """
        for position, query in enumerate(queries):
            fields = ("text", "vector", "code", "id")
            given = [name for name in fields if getattr(query, name) is not None]
            if len(given) != 1:
                found = " and ".join(given) or "none of them"
                message = f"must have exactly one of text, vector, code, id; has {found}"
                raise InputError("query", message, position)
        codes = encode_contents(queries, self._encoder, self.n_bits)
        ids = {query.id for query in queries if query.id is not None}
        known = self._store.read_codes_of(sorted(ids))
        for position, query in enumerate(queries):
            if query.id is not None:
                if query.id not in known:
                    raise UnknownDocument(f"collection {self.name!r} has no document {query.id!a}")
                codes[position] = known[query.id]
        return codes

    def search(
        self,
        queries: Sequence[Query],
        k: int,
        radius: int | None = None,
        *,
        with_payload: bool = False,
    ) -> SearchResult:
        """Return the `k` documents nearest to each query, in the order (distance, row).

        `k` is from 1 to :data:`MAX_K` and may exceed the number of documents; `radius`, from 0 to
        `n_bits`, leaves out what is farther. The answer is exact as of the generation it names,
        the same for all of `queries`. A query by id finds the document itself as well.

        Raises:
            InputError: if `k`, `radius` or a query is not as it must be.
            UnknownDocument: if a query has an id that is not there.
        """
        if not 1 <= k <= MAX_K:
            raise InputError("k", f"is {k}; it must be from 1 to {MAX_K}")
        if radius is not None and not 0 <= radius <= self.n_bits:
            raise InputError("radius", f"is {radius}; it must be from 0 to {self.n_bits}")
        codes = self.encode_queries(queries)
        generation = self._published
        found = generation.search(codes, k, radius)
        hits = self._resolve(found, with_payload)
        if hits is None:
            with self._publishing:
                generation = self._up_to_date()
                hits = self._resolve(generation.search(codes, k, radius), with_payload)
        if hits is None:
            raise StoreError(f"{self._store.path}: is damaged: codes and documents do not match")
        return SearchResult(generation.number, hits)

    def labelled_codes(self, label_field: str = "label") -> tuple[Codes, list[tuple[str, ...]]]:
        """Return the codes, ``uint8[N, n_bits / 8]``, and labels of all documents, by row.

        The labels of a document are the payload's `label_field`, a string or a list of them; for
        the field ``label``, where there is none, its ``labels``. Unlabelled documents have ``()``.

        Raises:
            InputError: if the field holds anything else in some document.
        """
        codes, payloads = self._store.read_payloads()
        return codes, [labels_of(payload, label_field) for payload in payloads]

    def stats(self) -> dict[str, Any]:
        """Return what can be said about the collection cheaply, ready to be written as JSON."""
        generation = self._published
        return {
            "name": self.name,
            "documents": len(generation),
            "n_bits": self.n_bits,
            "encoder": self.encoder_name,
            "encoder_fingerprint": self.encoder_fingerprint,
            "generation": generation.number,
            "engine": "distinct",
            **code_statistics(generation),
            "bytes_on_disk": self._store.bytes_on_disk(),
        }

    def close(self) -> None:
        """Close the store, once a write in progress is done."""
        with self._writing:
            self._store.close()

    def _check_encoder(self, encoder: Encoder | None) -> None:
        expected = self.encoder_fingerprint
        found = None if encoder is None else encoder.fingerprint
        if found != expected:
            message = (
                f"collection {self.name!r} was made with encoder {self.encoder_name!r} of "
                f"fingerprint {expected}; this is {found}. Index it again to change the encoder."
            )
            raise EncoderMismatch(message)
        if encoder is not None and encoder.n_bits != self.n_bits:
            message = (
                f"collection {self.name!r} has {self.n_bits} bits, its encoder {encoder.n_bits}"
            )
            raise EncoderMismatch(message)

    def _publish(self, changes: Changes, codes: Codes, rows: Rows, removed: Rows) -> int:
        """Commit `changes` and let searches see them. Called with the writing lock held."""
        number = changes.generation + 1
        with self._publishing:
            before = self._up_to_date(changes.generation)
        after = before.with_changes(number, codes, rows, removed)
        with self._publishing:
            changes.commit()
            self._published = after
        return number

    def _up_to_date(self, number: int | None = None) -> Generation:
        """Return the published generation. Called with the publishing lock held.

        An interrupt may have come between a commit and its publication; then it is made up for.
        """
        committed = self._store.generation() if number is None else number
        if self._published.number != committed:
            self._published = Generation.build(*self._store.read_codes())
        return self._published

    def _resolve(self, found: Sequence[Neighbours], with_payload: bool) -> list[list[Hit]] | None:
        """Turn rows into hits, or return None if one of them is no longer there."""
        rows = np.unique(np.concatenate([np.empty(0, np.int64), *(one.rows for one in found)]))
        known = self._store.read_rows(rows.tolist(), with_payload=with_payload)
        if len(known) != len(rows):
            return None
        return [
            [
                Hit(known[row][0], distance, row, known[row][1])
                for row, distance in zip(one.rows.tolist(), one.distances.tolist(), strict=True)
            ]
            for one in found
        ]

    def _no_codes(self) -> Codes:
        return np.empty((0, self.n_bits // 8), dtype=np.uint8)


def _batches(documents: Iterable[Document], size: int) -> Iterator[list[Document]]:
    remaining = iter(documents)
    while batch := list(itertools.islice(remaining, size)):
        yield batch


def _last_of_each_id(documents: Iterable[Document]) -> list[Document]:
    last: dict[str, Document] = {}
    for document in documents:
        last.pop(document.id, None)
        last[document.id] = document
    return list(last.values())
