"""What goes into a collection's search and what comes out of its methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corpus.document import Vector


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """What to search for: exactly one of the four.

    `code` is a packed code in hexadecimal. `id` names a document of the collection, whose code is
    searched for; the document itself is found as well, at distance 0.
    """

    text: str | None = None
    vector: Vector | None = None
    code: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """One document found. `payload` and `code` are None where they were not asked for.

    `code` is hexadecimal. `score` is None but in a re-ranked search, where it is the sum over the
    bits of |alpha_b - c_b|: the query's probability of a 1 against the stored bit.
    """

    id: str
    distance: int
    row: int
    payload: Mapping[str, Any] | None = None
    code: str | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hits of each query, all as of one generation of the collection.

    Hits come nearest first, by (distance, row); where `reranked`, the same hits come by (score,
    distance, row). `next_cursors` continue the search of a single query, and are None where nothing
    is left or there are several queries. `ties_cut` tells whether documents as far as the farthest
    hit were left out. `engine` names what searched.
    """

    generation: int
    hits: list[list[Hit]]
    next_cursors: list[str | None] = field(default_factory=list)
    ties_cut: list[bool] = field(default_factory=list)
    engine: str = ""
    reranked: bool = False


@dataclass(frozen=True, slots=True)
class UpsertResult:
    """How many documents were written (an id given twice counts once) and what that made."""

    upserted: int
    generation: int


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """How many documents there were to delete, and the generation without them."""

    deleted: int
    generation: int


@dataclass(frozen=True, slots=True, eq=False)
class StoredDocument:
    """A document as the collection holds it; `code` is its packed code in hexadecimal."""

    id: str
    row: int
    code: str
    text: str | None
    vector: Vector | None
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ScrollPage:
    """Documents in the order of rows, and the cursor of those after them; None at the end."""

    documents: list[StoredDocument]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Verification:
    """How many documents were checked and what is wrong with the collection, a sentence each."""

    documents: int
    problems: list[str]
