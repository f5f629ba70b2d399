"""One collection's documents in another, encoded by the other's encoder.

The source may be written to meanwhile. Rows only grow, and a replaced document gets a row of its
own, so what was written since is what follows the last row that was copied; what was deleted since
is found at the end, by comparing ids. The caller keeps writers out for the last, short part::

    last_row = copy_following(source, target, 0)      # long; writes to the source go on
    carry_annotations(source, target, partly=True)    # long, too
    with writers_kept_out:                            # short
        copy_following(source, target, last_row)
        delete_missing(source, target)
        carry_annotations(source, target)
        point_the_alias_to(target)

To go on after a crash is to begin again: every document is written once more, so that the order of
rows is that of the source.
"""

from __future__ import annotations

from collections.abc import Callable

from corpus.document import Document
from foundation.errors import InputError
from index.annotations.annotations import copy_annotations
from index.backend import CollectionBackend
from index.collection import Collection
from index.records import StoredDocument

BATCH = 1000


def copy_following(
    source: CollectionBackend,
    target: CollectionBackend,
    row: int,
    progress: Callable[[int], object] | None = None,
) -> int:
    """Copy the documents of `source` above `row`, in their order; return the last row copied.

    `progress` is told the size of each batch once it is in `target`; what it raises ends the copy.

    Raises:
        InputError: if a document has neither text nor vector, or the target's encoder does not
            take what it has. The batches before it stay.
        StoreError: if one of the stores fails.
    """
    while batch := source.documents_after(row, BATCH):
        documents = [_uncoded(one) for one in batch]
        target.upsert(documents)
        row = batch[-1].row
        if progress is not None:
            progress(len(batch))
    return row


def delete_missing(source: CollectionBackend, target: CollectionBackend) -> int:
    """Delete what `target` holds and `source` does not; return how many documents that were."""
    if len(source) == len(target):
        return 0
    held, row = set[str](), 0
    while batch := source.documents_after(row, BATCH):
        held.update(one.id for one in batch)
        row = batch[-1].row
    missing, row = [], 0
    while batch := target.documents_after(row, BATCH):
        missing += [one.id for one in batch if one.id not in held]
        row = batch[-1].row
    return target.delete(missing).deleted


def carry_annotations(
    source: CollectionBackend, target: CollectionBackend, *, partly: bool = False
) -> None:
    """Give `target` the labels and judgements of `source`, with whoever gave them and when.

    A copy in part leaves little to do for the whole one, for which the caller keeps writers out.
    Collections on Milvus have none.

    Raises:
        StoreError: if one of the stores fails.
    """
    if isinstance(source, Collection) and isinstance(target, Collection):
        copy_annotations(source.annotations, target.annotations, partly=partly)


def _uncoded(stored: StoredDocument) -> Document:
    if stored.text is None and stored.vector is None:
        message = f"document {stored.id!a} brought its code, so no encoder can encode it"
        raise InputError("collection", message)
    return Document(stored.id, stored.text, stored.vector, payload=stored.payload)
