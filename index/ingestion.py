"""Writes many documents to a collection: from files, or from another collection."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple

from hummingbit.corpus.document import Document
from hummingbit.corpus.field_types import NUMBER, STRING, FieldType, FieldTypes
from hummingbit.encoder.codes import Codes
from hummingbit.encoder.encoder import Encoder
from hummingbit.foundation.errors import InputError
from hummingbit.foundation.slices import rare_collections
from hummingbit.index.backend import AnyCollection, CollectionBackend
from hummingbit.index.encoding import (
    Contents,
    EncodingPool,
    batches,
    last_of_each_id,
    read_contents,
)
from hummingbit.index.filters import InRange
from hummingbit.index.labels import CopiedMarks, copy_annotations, copy_most_annotations
from hummingbit.index.names import FLOAT32
from hummingbit.index.passages import Passages
from hummingbit.index.payloads import PayloadUpdate
from hummingbit.index.records import IngestReport, StoredDocument

if TYPE_CHECKING:
    from hummingbit.index.data_folder import DataFolder

# Writes many documents to a collection, in batches that are each acknowledged as a whole.
#
# Acknowledged batches stay, whatever ends the ingestion. To resume, run it again: documents that
# the collection already holds in the same form are skipped before anything is encoded. No other
# state is needed, so this also works for standard input, for a corrected file, and in another
# order.


COMMIT_SIZE = 10_000


NUMBERS, STRINGS = {"gte": -sys.float_info.max}, {"gte": ""}
"""The ranges of all numbers and of all strings, for filters."""


class CollectionFieldTypes(FieldTypes):
    """The types of a collection's fields: those that it remembers, or else what documents hold.

    Other fields are those of collections that an earlier version wrote, and of documents that did
    not come from tables. Such a field has the type that most of its values have.
    """

    def __init__(self, collection: AnyCollection) -> None:
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
            types = {name: self._held(name) for name in sorted({*names} - known.keys())}
            held = {name: type_ for name, type_ in types.items() if type_ is not None}
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
        """Return the type that most values of a field have, or None if it has neither."""
        ranges = {NUMBER: InRange(name, **NUMBERS), STRING: InRange(name, **STRINGS)}
        held = [
            type_
            for type_, range_ in ranges.items()
            if self._collection.scroll(1, filter=range_).documents  # counting takes longer
        ]
        if len(held) < 2:
            return held[0] if held else None
        return max(held, key=lambda type_: self._collection.count(ranges[type_]))


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
                has_inputs = len(batch.contents.inputs) > 0
                codes = batch.contents.insert_codes(batch.encoded.result() if has_inputs else None)
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
            pending_ids = {document.id for earlier in waiting for document in earlier.documents}
            latest = last_of_each_id(batch)
            changed = _changed_documents(collection, latest, pending_ids)
            contents = read_contents(
                changed, collection.encoder, collection.n_bits, collection.passages
            )
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
    comparable = [document for document in batch if document.id not in pending_ids]
    changed = {document.id for document in collection.new_or_changed(comparable)}
    return [document for document in batch if document.id in changed or document.id in pending_ids]


# Copies the documents of one collection to another, encoded by the other's encoder.
#
# The source may be written to meanwhile. Rows only grow, and a replaced document gets a new row, so
# later writes follow the last row that was copied. Deletions are found at the end, by comparing
# ids. The caller keeps writers out during the last, short part::
#
#     last_row = copy_following(source, target, 0)      # long; writes to the source go on
#     copied = carry_most_annotations(source, target)   # long, too
#     with writers_kept_out:                            # short
#         copy_following(source, target, last_row)
#         delete_missing(source, target)
#         carry_annotations(source, target, copied)
#         point_the_alias_to(target)
#
# After a crash it begins again: every document is written once more, so rows stay in the order of
# the source.


BATCH = 1000


def copy_following(
    source: CollectionBackend,
    target: CollectionBackend,
    row: int,
    progress: Callable[[int], object] | None = None,
) -> int:
    """Copy the documents of `source` after `row`, in order; return the last copied row.

    `progress` is called with the size of each written batch; an exception from it ends the copy.

    Raises:
        InputError: if a document has neither text nor vector, or the target's encoder cannot
            encode it. Earlier batches stay.
        StoreError: if one of the stores fails.
    """
    while batch := source.documents_after(row, BATCH):
        documents = [_to_encode(document, target.encoder) for document in batch]
        target.upsert(documents)
        row = batch[-1].row
        if progress is not None:
            progress(len(batch))
    return row


def copy_payloads(source: CollectionBackend, target: CollectionBackend, generation: int) -> None:
    """Copy to `target` the payloads that were changed in `source` after a generation."""
    updates = [
        PayloadUpdate(ids=(document.id,), overwrite=document.payload)
        for document in source.payloads_changed_since(generation)
    ]
    if updates:
        target.update_payloads(updates)


def delete_missing(source: CollectionBackend, target: CollectionBackend) -> int:
    """Delete the documents of `target` that `source` does not have; return how many."""
    if len(source) == len(target):
        return 0
    source_ids = {*_ids(source)}
    return target.delete([id_ for id_ in _ids(target) if id_ not in source_ids]).deleted


def _ids(collection: CollectionBackend) -> Iterator[str]:
    row = 0
    while batch := collection.documents_after(row, BATCH):
        yield from (document.id for document in batch)
        row = batch[-1].row


def carry_most_annotations(source: CollectionBackend, target: CollectionBackend) -> CopiedMarks:
    """Copy the labels and judgements of `source` to `target`, with their authors and times.

    What it returns makes :func:`carry_annotations` short.

    Raises:
        StoreError: if one of the stores fails.
    """
    return copy_most_annotations(source.annotations, target.annotations)


def carry_annotations(
    source: CollectionBackend, target: CollectionBackend, copied: CopiedMarks | None = None
) -> None:
    """Make the labels and judgements of `target` equal to those of `source`.

    The caller keeps writers out meanwhile.

    Raises:
        StoreError: if one of the stores fails.
    """
    copy_annotations(source.annotations, target.annotations, copied)


def form_for(folder: DataFolder, encoder: str, source: CollectionBackend) -> str:
    """Return the form in which a new collection with an encoder keeps the vectors of `source`."""
    takes_texts = folder.encoders.load(encoder).kind == "text"
    return FLOAT32 if takes_texts else source.keep_vectors


def passages_for(folder: DataFolder, encoder: str, source: CollectionBackend) -> Passages | None:
    """Return how a new collection with an encoder splits the texts of `source`."""
    return source.passages if folder.encoders.load(encoder).kind == "text" else None


def _to_encode(stored: StoredDocument, encoder: Encoder | None) -> Document:
    if stored.text is None and stored.vector is None:
        message = f"document {stored.id!r} has only a code, so no encoder can encode it"
        raise InputError("collection", message)
    # An encoder of texts does not take the vector of a document that has both.
    takes_texts = encoder is not None and encoder.kind == "text"
    vector = None if takes_texts and stored.text is not None else stored.vector
    return Document(stored.id, stored.text, vector, payload=stored.payload)
