"""All documents of a collection, or those that match a filter, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator

from index.backend import CollectionBackend
from index.filters import Filter
from index.records import StoredDocument

PAGE = 1000


def pages_of(
    collection: CollectionBackend,
    filter: Filter | None = None,  # noqa: A002
) -> Iterator[list[StoredDocument]]:
    """Yield the documents in the order of rows; see :meth:`CollectionBackend.scroll`."""
    cursor: str | None = None
    while True:
        page = collection.scroll(PAGE, cursor, filter)
        yield page.documents
        cursor = page.next_cursor
        if cursor is None:
            return
