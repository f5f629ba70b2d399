"""Documents in lists of some length."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from corpus.document import Document


def batches(documents: Iterable[Document], size: int) -> Iterator[list[Document]]:
    """Yield the documents in lists of `size`, the last one shorter."""
    remaining = iter(documents)
    while batch := list(itertools.islice(remaining, size)):
        yield batch


def last_of_each_id(documents: Iterable[Document]) -> list[Document]:
    """Leave out documents whose id comes again."""
    last: dict[str, Document] = {}
    for document in documents:
        last.pop(document.id, None)
        last[document.id] = document
    return list(last.values())
