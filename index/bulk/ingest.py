"""Writes many documents to a collection, in batches that are each acknowledged as a whole.

Acknowledged batches stay, whatever ends the ingestion. To resume, run it again: documents that the
collection already holds in the same form are skipped before anything is encoded. No other state is
needed, so this also works for standard input, for a corrected file, and in another order.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

from corpus.document import Document
from corpus.tables import NUMBER, STRING, FieldType, FieldTypes
from encoder.codes import Codes
from foundation.garbage import rare_collections
from index.backend import CollectionBackend
from index.bulk.encoding import EncodingPool
from index.encoded_inputs import Contents, batches, last_of_each_id, read_contents
from index.filters import Filter, InRange

COMMIT_SIZE = 10_000


NUMBERS, STRINGS = {"gte": -sys.float_info.max}, {"gte": ""}
"""The ranges of all numbers and of all strings, for filters."""


class CollectionFieldTypes(FieldTypes):
    """The types of a collection's fields: those that it remembers, or else what documents hold.

    Other fields are those of collections on Milvus, which remembers none, of collections that an
    earlier version wrote, and of documents that did not come from tables. Such a field has the type
    that most of its values have.
    """

    def __init__(self, collection: CollectionBackend) -> None:
        """Begin with the types that `collection` remembers.

        Raises:
            StoreError: if they cannot be read.
        """
        super().__init__(collection.field_types)
        self._collection = collection

    def known(self, names: Collection[str]) -> dict[str, FieldType]:
        """Return the types of those of the fields `names` that have one."""
        known = super().known(names)
        if len(self._collection):
            found = {name: self._held(name) for name in sorted({*names} - known.keys())}
            held = {name: type_ for name, type_ in found.items() if type_ is not None}
            if held:
                self.remember(held)
                known |= held
        return known

    def remember(self, types: Mapping[str, FieldType]) -> None:
        """Let the collection remember the types of fields that had none.

        Raises:
            StoreError: if they cannot be written.
        """
        super().remember(types)
        self._collection.remember_field_types(types)

    def _held(self, name: str) -> FieldType | None:
        return held_type(name, self._has, self._collection.count)

    def _has(self, filter_: Filter) -> bool:
        return bool(self._collection.scroll(1, filter=filter_).documents)


def held_type(
    name: str, has: Callable[[Filter], bool], count: Callable[[Filter], int]
) -> FieldType | None:
    """Return the type that most values of a field have, or None if it has neither.

    `has` tells whether a document of the collection passes a filter, and `count` how many do.
    """
    numbers, strings = InRange(name, **NUMBERS), InRange(name, **STRINGS)
    kinds = has(numbers), has(strings)
    if kinds == (True, True):
        return NUMBER if count(numbers) >= count(strings) else STRING
    return {(True, False): NUMBER, (False, True): STRING}.get(kinds)


@dataclass(frozen=True, slots=True)
class IngestReport:
    """How many documents were read, how many of them were unchanged, and how long it took.

    `repeated` counts those that a later document of their batch with the same id replaced.
    """

    documents: int
    unchanged: int
    seconds: float
    generation: int
    repeated: int = 0


class _Batch(NamedTuple):
    """A batch of `n_read` documents with `n_ids` ids, of which `documents` must be written."""

    n_read: int
    n_ids: int
    documents: list[Document]
    contents: Contents
    encoded: Future[Codes]


@rare_collections()  # looking for cycles took a tenth of the time
def ingest(
    collection: CollectionBackend,
    documents: Iterable[Document],
    *,
    batch_size: int = COMMIT_SIZE,
    jobs: int = 1,
    progress: Callable[[int], object] | None = None,
) -> IngestReport:
    """Write `documents` to `collection`, `batch_size` at a time; `jobs` processes encode.

    If an id occurs twice, the last document wins. Only a few batches are in memory at a time.
    `progress` is called with the size of each acknowledged batch; it can be the ``update`` method
    of a tqdm bar.

    Raises:
        InputError: if a document cannot be encoded, or its code has another length.
        StoreError: if the store cannot be written.
        Exception: whatever `documents` and `progress` raise. Earlier batches stay.
    """
    began = time.perf_counter()
    read = written = repeated = 0
    pool = EncodingPool(collection.encoder, jobs)
    try:
        for batch in _encoded_batches(collection, documents, batch_size, pool, ahead=2 * jobs - 2):
            if batch.documents:
                codes = batch.contents.codes
                if batch.contents.positions:
                    codes = batch.contents.insert_codes(batch.encoded.result())
                written += collection.upsert_encoded(batch.documents, codes).upserted
            read += batch.n_read
            repeated += batch.n_read - batch.n_ids
            if progress is not None:
                progress(batch.n_read)
    finally:
        pool.close()
    seconds = time.perf_counter() - began
    unchanged = read - written - repeated
    return IngestReport(read, unchanged, seconds, collection.generation, repeated)


def _encoded_batches(
    collection: CollectionBackend,
    documents: Iterable[Document],
    batch_size: int,
    pool: EncodingPool,
    ahead: int,
) -> Iterator[_Batch]:
    """Yield batches in order; later batches are read and encoded meanwhile."""
    waiting: deque[_Batch] = deque()
    try:
        for batch in batches(documents, batch_size):
            pending_ids = {one.id for earlier in waiting for one in earlier.documents}
            latest = last_of_each_id(batch)
            changed = _changed_documents(collection, latest, pending_ids)
            contents = read_contents(changed, collection.encoder, collection.n_bits)
            codes = pool.submit(contents.inputs)
            waiting.append(_Batch(len(batch), len(latest), changed, contents, codes))
            while len(waiting) > ahead:
                yield waiting.popleft()
    except Exception:
        # Batches that were read before the error are still written.
        yield from waiting
        raise
    yield from waiting


def _changed_documents(
    collection: CollectionBackend, batch: list[Document], pending_ids: set[str]
) -> list[Document]:
    """Leave out unchanged documents; those whose id is in a waiting batch count as changed."""
    comparable = [one for one in batch if one.id not in pending_ids]
    changed = {one.id for one in collection.new_or_changed(comparable)}
    return [one for one in batch if one.id in changed or one.id in pending_ids]
