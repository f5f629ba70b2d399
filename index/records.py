"""What goes into a collection's search and what comes out of its methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from corpus.document import Vector
from encoder.codes import Codes, unpack_codes
from encoder.features import Floats, QueryTerms
from index.lexical.highlights import Highlight


class Query(NamedTuple):
    """What to search for: exactly one of the four.

    `code` is a packed code in hexadecimal. `id` names a document of the collection, whose code is
    searched for; the document itself is found as well, at distance 0.
    """

    text: str | None = None
    vector: Vector | None = None
    code: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class EncodedQueries:
    """Queries as a ranking takes them; :meth:`of_codes` makes them of codes alone."""

    codes: Codes
    """``uint8[Q, n_bits / 8]``"""
    weights: Floats
    """``float32[Q, n_bits]``: what each bit of a document weighs; see
    :meth:`encoder.encoder.Encoder.query_weights`. A query of which only a code is known has 1
    where its bit is 1, and -1 where it is 0."""
    texts: Sequence[str | None]
    """What was asked, where that is a text."""
    weighted: npt.NDArray[np.bool_]
    """``bool[Q]``: which queries have real values, so that more is known than their codes."""
    terms: Sequence[QueryTerms | None]
    """What the encoder knows of each query that it took as a text; None of the others."""

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, some: slice) -> EncodedQueries:
        return EncodedQueries(
            self.codes[some],
            self.weights[some],
            self.texts[some],
            self.weighted[some],
            self.terms[some],
        )

    def words_of(self, place: int) -> str | None:
        """Return a query's text and the words that its unknown ones were corrected to.

        The words as they were written stay: the encoder may not know a word that documents have.
        """
        text, terms = self.texts[place], self.terms[place]
        if text is None or terms is None:
            return text
        return " ".join([text, *(known for _, known in terms.corrected)])

    def is_unrecognized(self, place: int) -> bool:
        """Return whether a query is a text of which the encoder knows nothing.

        The code of such a query says nothing; every one of them has the same.
        """
        terms = self.terms[place]
        return terms is not None and not terms.recognized_terms

    @classmethod
    def of_codes(cls, codes: Codes) -> EncodedQueries:
        """Return queries of which only the codes, ``uint8[Q, n_bits / 8]``, are known."""
        signs = unpack_codes(codes).astype(np.float32) * 2 - 1
        nothing = [None] * len(codes)
        return cls(codes, signs, nothing, np.zeros(len(codes), dtype=np.bool_), nothing)


Queries = Sequence[Query] | EncodedQueries
"""What a search takes: queries, or what they were encoded to before."""


@dataclass(frozen=True, slots=True)
class Hybrid:
    """How a hybrid ranking puts codes and words together; `rrf` leaves the others no part."""

    codes: float | None = None
    """What the standardised scores by codes weigh, those by words weighing 1."""
    rrf: int | None = None
    """The constant of reciprocal rank fusion, which takes the place of scores."""
    feedback: int | None = None
    """How many of its best documents a query learns from; none with 0."""


@dataclass(frozen=True, slots=True)
class Rescore:
    """More candidates than are wanted, by a search's ranking, and another order of them."""

    by: str
    """One of :data:`index.search.search_options.RESCORERS`."""
    oversample: float = 4.0
    """How many times as many candidates are rescored as hits are wanted, offset included."""


class Hit(NamedTuple):
    """One document found. `payload`, `text` and `code` are None where they were not asked for.

    `distance` is the Hamming distance from the query's code. `score` is the ranking's, the higher
    the better; see :meth:`index.rankings.protocol.Ranking.shown`. `code` is hexadecimal.
    `highlight` is a passage of the text, if it was asked for and there is a text on both sides.
    `rerank_score` is None but in a re-ranked search, where it is the sum over the bits of
    |alpha_b - c_b|: the query's probability of a 1 against the stored bit.
    """

    id: str
    distance: int
    score: float
    row: int
    payload: Mapping[str, Any] | None = None
    text: str | None = None
    code: str | None = None
    rerank_score: float | None = None
    highlight: Highlight | None = None


StoredRow = tuple[str, dict[str, Any] | None, str | None, bytes | None]
"""The id, payload, text and code of a row; the last three are None where not asked for."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hits of each query, all as of one generation of the collection.

    Hits come best first, by (score descending, row); where `reranked`, the same hits come by
    (rerank_score, distance, row). `next_cursors` continue the search of a single query, and are
    None where nothing is left or there are several queries. `ties_cut` tells whether documents
    with the score of the last hit were left out. `engine` names what searched, and `rankings`
    what ordered the hits of each query; where `rescored_by` is not None, more candidates than hits
    came in that order and were put in another by it. `queries` are as they were encoded.
    """

    generation: int
    hits: list[list[Hit]]
    next_cursors: list[str | None]
    ties_cut: list[bool]
    engine: str
    rankings: list[str]
    queries: EncodedQueries
    reranked: bool = False
    rescored_by: str | None = None
    highlighted: bool = False
    """Whether passages were asked for."""


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
