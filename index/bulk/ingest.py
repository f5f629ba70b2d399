"""Many documents into a collection: in batches, each written and acknowledged as a whole.

Whatever ends it, the batches that were acknowledged stay. To go on is to do the same again:
documents that the collection holds just as they are given are passed over before anything is
encoded. Nothing else has to be remembered, so it holds for standard input, for a file that was
mended in between, and for sources in another order.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

from corpus.document import Document
from encoder.codes import Codes
from index.backend import CollectionBackend
from index.bulk.encoding import EncodingPool
from index.encoded_inputs import Contents, batches, last_of_each_id, read_contents

COMMIT_SIZE = 10_000
# Python looks for cycles among every 700 objects. A batch is tens of thousands, none in a cycle,
# and to look at them took a tenth of the time.
OBJECTS_BETWEEN_COLLECTIONS = 200_000


@dataclass(frozen=True, slots=True)
class IngestReport:
    """How many documents were read, how many of them were there already, and how long it took."""

    documents: int
    unchanged: int
    seconds: float
    generation: int


class _Batch(NamedTuple):
    """Documents on their way: `given` were read, of which `documents` must be written."""

    given: int
    documents: list[Document]
    contents: Contents
    encoded: Future[Codes]


def ingest(
    collection: CollectionBackend,
    documents: Iterable[Document],
    *,
    batch_size: int = COMMIT_SIZE,
    jobs: int = 1,
    progress: Callable[[int], object] | None = None,
) -> IngestReport:
    """Write `documents` to `collection`, `batch_size` at a time; `jobs` processes encode.

    Where an id comes twice, the last one stays. Memory holds a few batches, however many there are.
    `progress` is told the size of each batch once it is acknowledged, which is what the ``update``
    method of a tqdm bar takes.

    Raises:
        InputError: if a document cannot be encoded, or its code has another length.
        StoreError: if the store cannot be written.
        Exception: whatever `documents` and `progress` raise. The batches before it stay.
    """
    began = time.perf_counter()
    read = written = 0
    pool = EncodingPool(collection.encoder, jobs)
    threshold = gc.get_threshold()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *threshold[1:])
    try:
        for batch in _encoded(collection, documents, batch_size, pool, ahead=2 * jobs - 2):
            if batch.documents:
                codes = batch.contents.codes
                if batch.contents.positions:
                    codes = batch.contents.insert_codes(batch.encoded.result())
                written += collection.upsert_encoded(batch.documents, codes).upserted
            read += batch.given
            if progress is not None:
                progress(batch.given)
    finally:
        gc.set_threshold(*threshold)
        pool.close()
    seconds = time.perf_counter() - began
    return IngestReport(read, read - written, seconds, collection.generation)


def _encoded(
    collection: CollectionBackend,
    documents: Iterable[Document],
    batch_size: int,
    pool: EncodingPool,
    ahead: int,
) -> Iterator[_Batch]:
    """Yield batches in their order; those after are read and encoded meanwhile."""
    waiting: deque[_Batch] = deque()
    try:
        for given in batches(documents, batch_size):
            on_their_way = {one.id for batch in waiting for one in batch.documents}
            batch = _changed(collection, last_of_each_id(given), on_their_way)
            contents = read_contents(batch, collection.encoder, collection.n_bits)
            waiting.append(_Batch(len(given), batch, contents, pool.submit(contents.inputs)))
            while len(waiting) > ahead:
                yield waiting.popleft()
    except Exception:
        # What was read before the error is written all the same.
        yield from waiting
        raise
    yield from waiting


def _changed(
    collection: CollectionBackend, batch: list[Document], on_their_way: set[str]
) -> list[Document]:
    """Leave out what the collection holds, and will hold once the batches before are written."""
    certain = [one for one in batch if one.id not in on_their_way]
    changed = {one.id for one in collection.new_or_changed(certain)}
    return [one for one in batch if one.id in changed or one.id in on_their_way]
