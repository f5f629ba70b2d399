"""Copies the documents of one collection to another, encoded by the other's encoder.

The source may be written to meanwhile. Rows only grow, and a replaced document gets a new row, so
later writes follow the last row that was copied. Deletions are found at the end, by comparing ids.
The caller keeps writers out during the last, short part::

    last_row = copy_following(source, target, 0)      # long; writes to the source go on
    copied = carry_most_annotations(source, target)   # long, too
    with writers_kept_out:                            # short
        copy_following(source, target, last_row)
        delete_missing(source, target)
        carry_annotations(source, target, copied)
        point_the_alias_to(target)

After a crash it begins again: every document is written once more, so rows stay in the order of the
source.
"""

from __future__ import annotations

from collections.abc import Callable

from corpus.document import Document
from encoder.encoder import Encoder
from foundation.errors import InputError
from index.annotations.annotations import (
    CopiedMarks,
    copy_annotations,
    copy_most_annotations,
)
from index.backend import CollectionBackend
from index.collection import Collection
from index.folder.protocol import Folder
from index.kept_vectors import FLOAT32
from index.records import StoredDocument

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
        documents = [_to_encode(one, target.encoder) for one in batch]
        target.upsert(documents)
        row = batch[-1].row
        if progress is not None:
            progress(len(batch))
    return row


def delete_missing(source: CollectionBackend, target: CollectionBackend) -> int:
    """Delete the documents of `target` that `source` does not have; return how many."""
    if len(source) == len(target):
        return 0
    source_ids, row = set[str](), 0
    while batch := source.documents_after(row, BATCH):
        source_ids.update(one.id for one in batch)
        row = batch[-1].row
    missing, row = [], 0
    while batch := target.documents_after(row, BATCH):
        missing += [one.id for one in batch if one.id not in source_ids]
        row = batch[-1].row
    return target.delete(missing).deleted


def carry_most_annotations(
    source: CollectionBackend, target: CollectionBackend
) -> CopiedMarks | None:
    """Copy the labels and judgements of `source` to `target`, with their authors and times.

    What it returns makes :func:`carry_annotations` short. Collections on Milvus have no labels and
    judgements.

    Raises:
        StoreError: if one of the stores fails.
    """
    if isinstance(source, Collection) and isinstance(target, Collection):
        return copy_most_annotations(source.annotations, target.annotations)
    return None


def carry_annotations(
    source: CollectionBackend, target: CollectionBackend, copied: CopiedMarks | None = None
) -> None:
    """Make the labels and judgements of `target` equal to those of `source`.

    The caller keeps writers out meanwhile.

    Raises:
        StoreError: if one of the stores fails.
    """
    if isinstance(source, Collection) and isinstance(target, Collection):
        copy_annotations(source.annotations, target.annotations, copied)


def form_for(folder: Folder, encoder: str, source: CollectionBackend) -> str:
    """Return the form in which a new collection with an encoder keeps the vectors of `source`."""
    takes_texts = folder.encoders.load(encoder).kind == "text"
    return FLOAT32 if takes_texts else source.keep_vectors


def _to_encode(stored: StoredDocument, encoder: Encoder | None) -> Document:
    if stored.text is None and stored.vector is None:
        message = f"document {stored.id!r} has only a code, so no encoder can encode it"
        raise InputError("collection", message)
    # An encoder of texts does not take the vector of a document that has both.
    takes_texts = encoder is not None and encoder.kind == "text"
    vector = None if takes_texts and stored.text is not None else stored.vector
    return Document(stored.id, stored.text, vector, payload=stored.payload)
