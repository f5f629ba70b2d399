"""What goes into a collection's search and what comes out of its methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    """One document found. `payload` is None where it was not asked for."""

    id: str
    distance: int
    row: int
    payload: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hits of each query, nearest first, all as of one generation of the collection."""

    generation: int
    hits: list[list[Hit]]


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
