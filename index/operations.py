"""What people ask of the documents of a collection besides searches, each written once.

An operation takes the body of its request, ``POST /v1/collections/{name}/{operation}``, without the
filter, and returns the response. It uses what a collection and the documents of a limited key
(:class:`hummingbit.index.filtered.FilteredCollection`) both have, so it never sees other documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from hummingbit.index.facets import Facet, Facets, count_facet, parse_facets
from hummingbit.index.filters import Filter
from hummingbit.index.records import ScrollPage
from hummingbit.index.search import explain_no_values, with_warnings
from hummingbit.index.store.columns import Column, Mask

if TYPE_CHECKING:
    from hummingbit.index.generations import PublishedGeneration

Answer = TypeVar("Answer")
Work = Callable[["PublishedGeneration", Mask, list[Column]], Answer | None]
"""Makes an answer of a generation, ``bool[last_row + 1]`` of the documents to read, and columns."""


class Documents(Protocol):
    """The documents that an operation may read."""

    def scroll(self, limit: int, cursor: str | None = None) -> ScrollPage:
        """See :meth:`hummingbit.index.backend.AnyCollection.scroll`."""

    def explain_no_hits(self, filter: Filter | None) -> list[str]:  # noqa: A002
        """Return why no document matches a filter."""

    def tabulate(self, filter_: Filter | None, fields: Sequence[str], work: Work[Answer]) -> Answer:
        """Return what `work` makes of those that match a filter, and of columns of fields."""


def ask(
    documents: Documents, operation: str, body: Mapping[str, Any], filter_: Filter | None
) -> dict[str, Any]:
    """Return the response of an operation on the documents that match a filter.

    Raises:
        InputError: if the body is invalid.
    """
    return OPERATIONS[operation](documents, body, filter_)


def count_values(
    documents: Documents, facets: Sequence[Facet], filter_: Filter | None = None
) -> Facets:
    """Count values of fields over the documents that match a filter, exactly."""

    def count(published: PublishedGeneration, selected: Mask, columns: list[Column]) -> Facets:
        counted = [*map(count_facet, facets, columns, repeat(selected))]
        return Facets(counted, int(np.count_nonzero(selected)), published.generation.number)

    return documents.tabulate(filter_, [facet.field for facet in facets], count)


def _facets(
    documents: Documents, body: Mapping[str, Any], filter_: Filter | None
) -> dict[str, Any]:
    counted = count_values(documents, parse_facets(body["facets"]), filter_)
    warnings = explain_no_values(documents, counted.facets)
    warnings += [] if counted.documents else documents.explain_no_hits(filter_)
    answer = {**counted._asdict(), "facets": [facet._asdict() for facet in counted.facets]}
    return with_warnings(answer, warnings)


OPERATIONS: Mapping[
    str, Callable[[Documents, Mapping[str, Any], Filter | None], dict[str, Any]]
] = {"facets": _facets}
"""The operations by the last part of their paths."""
