"""The queries of a search, and the results of a collection's methods."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.document import Vector
from hummingbit.corpus.labels import names_of
from hummingbit.encoder.codes import Codes, pack_bits, unpack_codes
from hummingbit.encoder.spelling import QueryTerms
from hummingbit.encoder.text_features import Floats
from hummingbit.foundation.errors import InputError
from hummingbit.index.filters import Filter
from hummingbit.index.questions import Question

# The queries of a search, and the results of a collection's methods.


class Query(NamedTuple):
    """What to search for: an id, or a text, a vector, a code or several of them.

    `code` is a packed code in hexadecimal. Without it, the encoder encodes the vector, or a text
    without a vector. If the collection has no encoder, a vector has a number for each bit: bit b is
    1 where number b is positive. A text beside a vector or a code is searched for by its words, and
    a text that the encoder does not take by its words only. A vector beside a code only rescores.
    `id` names a document of the collection: the search uses its code, and finds the document itself
    at distance 0.
    """

    text: str | None = None
    vector: Vector | None = None
    code: str | None = None
    id: str | None = None


class Examples(NamedTuple):
    """The codes, ``uint8[N, n_bits / 8]``, of what hits should be like and unlike."""

    positive: Codes
    negative: Codes


@dataclass(frozen=True, slots=True, eq=False)
class EncodedQueries:
    """The queries of a ranking; :meth:`of_codes` makes them from codes alone."""

    codes: Codes
    """``uint8[Q, n_bits / 8]``"""
    weights: Floats
    """``float32[Q, n_bits]``: the weight of each bit of a document; see
    :meth:`hummingbit.encoder.encoder.Encoder.query_weights`. If only the code of a query is known,
    its weights are 1 for bits that are 1, and -1 for bits that are 0."""
    questions: Sequence[Question | None]
    """The text of each query as it was read, or None."""
    weighted: npt.NDArray[np.bool_]
    """``bool[Q]``: which queries have weights from an encoder, not only a code."""
    terms: Sequence[QueryTerms | None]
    """The terms that the encoder recognized in each query that is a text; None for others."""
    vectors: Sequence[Vector | None] = ()
    """The vector of each query, or None; empty if no query has one. A matrix is no vector."""
    has_words: bool = False
    """Whether some query has a text of which its code was not made."""
    examples: Examples | None = None
    """What ranks instead of the code, if the query is a recommendation by its nearest examples."""
    left_out: tuple[str, ...] = ()
    """The ids of documents that a recommendation leaves out, because they are its examples."""

    @property
    def conditions(self) -> list[Filter]:
        """The conditions in the texts of all queries."""
        filters = (question.syntax.filter for question in self.questions if question is not None)
        return [filter_ for filter_ in filters if filter_ is not None]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, some: slice) -> EncodedQueries:
        if len(self) == 1 and some == slice(0, 1):
            return self  # what was computed for it is kept
        return EncodedQueries(
            self.codes[some],
            self.weights[some],
            self.questions[some],
            self.weighted[some],
            self.terms[some],
            self.vectors[some],
            self.has_words,
            self.examples,
            self.left_out,
        )

    def with_weights(self, weights: Floats) -> EncodedQueries:
        """Return the queries with other weights, sooner than :func:`dataclasses.replace` does."""
        return EncodedQueries(
            self.codes,
            weights,
            self.questions,
            self.weighted,
            self.terms,
            self.vectors,
            self.has_words,
            self.examples,
            self.left_out,
        )

    def is_unrecognized(self, position: int) -> bool:
        """Return whether a query is a text without a term that the encoder recognizes.

        All such queries have the same code, which says nothing about them.
        """
        terms = self.terms[position]
        if terms is None:
            return self.has_only_words(position)
        return not terms.recognized_terms

    def is_only_filter(self, position: int) -> bool:
        """Return whether a query consists of conditions alone."""
        question = self.questions[position]
        return question is not None and question.syntax.is_only_filter

    def has_only_words(self, position: int) -> bool:
        """Return whether a query is a text that the encoder does not take; its code is zeros."""
        is_text = self.has_words and self.questions[position] is not None
        return is_text and not self.weighted[position] and not self.weights[position].any()

    def known_share(self, position: int) -> float:
        """Return the share of a text's terms that its encoder knows as they are written.

        It is 1 for queries that are no text.
        """
        question, terms = self.questions[position], self.terms[position]
        if terms is None:
            return 1.0
        n_corrected = 0 if question is None else len(question.corrected)
        n_terms = terms.recognized_terms + terms.n_unknown
        return max(0, terms.recognized_terms - n_corrected) / n_terms if n_terms else 0.0

    @classmethod
    def of_texts(cls, questions: Sequence[Question], weights: Floats) -> EncodedQueries:
        """Return texts with the `weights` that an encoder gives them, ``float32[Q, n_bits]``."""
        weighted = np.ones(len(questions), dtype=np.bool_)
        return cls(pack_bits(weights > 0), weights, questions, weighted, [None] * len(questions))

    @classmethod
    def of_words(cls, questions: Sequence[Question | None], n_bits: int) -> EncodedQueries:
        """Return texts that are searched for by their words alone; their codes are zeros."""
        n = len(questions)
        codes, weights = np.zeros((n, n_bits // 8), np.uint8), np.zeros((n, n_bits), np.float32)
        none = [None] * n
        return cls(codes, weights, questions, np.zeros(n, np.bool_), none, has_words=n > 0)

    @classmethod
    def of_codes(cls, codes: Codes) -> EncodedQueries:
        """Return queries of which only the codes, ``uint8[Q, n_bits / 8]``, are known."""
        signs = unpack_codes(codes).astype(np.float32) * 2 - 1
        none = [None] * len(codes)
        return cls(codes, signs, none, np.zeros(len(codes), dtype=np.bool_), none)


Queries = Sequence[Query] | EncodedQueries
"""The queries of a search, encoded or not."""


class StoredPayload(Mapping[str, Any]):
    """A payload as it is stored, parsed when something in it is first read."""

    __slots__ = ("_parsed", "json")

    def __init__(self, json_: str) -> None:
        """Hold the payload that the JSON object `json_` describes."""
        self.json = json_
        """The payload as JSON."""
        self._parsed: dict[str, Any] | None = None

    def __getitem__(self, key: str) -> Any:
        return self._fields[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return repr(self._fields)

    @property
    def _fields(self) -> dict[str, Any]:
        if self._parsed is None:
            self._parsed = json.loads(self.json)
        return self._parsed


PARSED_AT_ONCE = 1 << 20
"""Parsing more characters at once would hold up other threads."""

_as_stored = ContextVar("as stored", default=False)


@contextmanager
def payloads_as_stored() -> Iterator[None]:
    """Let payloads be :class:`StoredPayload` within: mostly, responses copy them."""
    token = _as_stored.set(True)
    try:
        yield
    finally:
        _as_stored.reset(token)


def payload_parser() -> Callable[[str], Mapping[str, Any]]:
    """Return what reads a stored payload: to a dict, unless :func:`payloads_as_stored`."""
    return StoredPayload if _as_stored.get() else json.loads


def parse_payloads(stored: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return several payloads as :func:`payload_parser` parses them."""
    parse = payload_parser()
    if parse is StoredPayload or sum(map(len, stored)) > PARSED_AT_ONCE:
        return [*map(parse, stored)]
    # One list is parsed in a third of the time of its items.
    parsed: list[Mapping[str, Any]] = json.loads(f"[{','.join(stored)}]")
    return parsed


StoredRow = tuple[str, Mapping[str, Any] | None, str | None, bytes | None]
"""The id, payload, text and code of a row; the last three are None unless requested."""


@dataclass(frozen=True, slots=True)
class UpsertResult:
    """How many documents were written, counting each id once, and the generation with them.

    `replaced` is how many of them replaced a document.
    """

    upserted: int
    generation: int
    replaced: int = 0


@dataclass(frozen=True, slots=True)
class IngestReport:
    """How many documents were read, how many of them were unchanged, and how long it took.

    `repeated` counts those that a later document of their batch with the same id replaced, and
    `refused` those that a service refused, which `documents` does not count.
    """

    documents: int
    unchanged: int
    seconds: float
    generation: int
    repeated: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """How many documents were deleted, and the generation without them."""

    deleted: int
    generation: int


@dataclass(frozen=True, slots=True, eq=False)
class StoredDocument:
    """A document of a collection; `code` is its packed code in hexadecimal."""

    id: str
    row: int
    code: str
    text: str | None
    vector: Vector | None
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class CodedPayloads:
    """The codes of all documents, ``uint8[N, n_bits / 8]``, and what each stands for, by row.

    `given_labels` has the labels that people agree on for a document, ``()`` where nobody gave one.
    It is empty unless the caller asked for them.
    """

    codes: Codes
    payloads: list[Mapping[str, Any]]
    given_labels: list[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ScrollPage:
    """Documents in the order of rows, and the cursor of the next page; None at the end."""

    documents: list[StoredDocument]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Verification:
    """How many documents were checked, and the problems that were found, a sentence each."""

    documents: int
    problems: list[str]


# The labels in the payload of a stored document.


def labels_of(payload: Mapping[str, Any], field: str = "label") -> tuple[str, ...]:
    """Return the labels in `field` of a payload by their names (:mod:`hummingbit.corpus.labels`).

    If the field is ``label`` and absent, ``labels`` is read. An absent field, null and a blank text
    are no label.

    Raises:
        InputError: if the field holds what has no name, such as an object.
    """
    value = payload.get(field)
    if value is None and field == "label":
        value = payload.get("labels")
    if value is None:
        return ()
    try:
        return names_of(value)
    except ValueError as error:
        raise InputError("label_field", f"{field!r} {error}") from None
