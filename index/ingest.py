"""Many documents into a collection at once, all or nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from corpus.document import Document
from index.backend import BATCH_SIZE
from index.collection import Collection


@dataclass(frozen=True, slots=True)
class IngestReport:
    """How many documents were written, how long it took, and the generation it made."""

    documents: int
    seconds: float
    generation: int


def ingest(
    collection: Collection,
    documents: Iterable[Document],
    *,
    batch_size: int = BATCH_SIZE,
    progress: Callable[[int], object] | None = None,
) -> IngestReport:
    """Write `documents` to `collection` in one transaction, so that nothing is half indexed.

    They are read and encoded `batch_size` at a time; `progress` is told the size of each batch
    that is done, which is what the ``update`` method of a tqdm bar takes.

    Raises:
        InputError: if a document cannot be encoded, or its code has another length.
        StoreError: if the store cannot be written.
        Exception: whatever `documents` and `progress` raise.
    """
    began = time.perf_counter()
    result = collection.upsert(documents, batch_size=batch_size, progress=progress)
    return IngestReport(result.upserted, time.perf_counter() - began, result.generation)
