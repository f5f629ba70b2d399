"""From documents and queries to codes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from corpus.document import Document, Vector, parse_text, parse_vector
from encoder.codes import Codes, code_from_hex, codes_from_hex, pack_bits
from encoder.encoder import Encoder, Inputs
from encoder.vector_features import VectorFeatures
from foundation.errors import InputError
from index.errors import UnknownDocument
from index.records import EncodedQueries, Query
from index.schema import Description

Item = TypeVar("Item")

QUERY_FIELDS = ("text", "vector", "code", "id")


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of documents: codes, and inputs that are to be encoded.

    `codes` is ``uint8[N, n_bits / 8]``, with zeros for documents without a code. `inputs` are the
    texts or vectors to encode, and `positions` the documents that they belong to.
    """

    codes: Codes
    positions: list[int]
    inputs: Inputs

    def insert_codes(self, encoded: Codes) -> Codes:
        """Put the codes of the inputs, ``uint8[len(inputs), C]``, into `codes` and return these."""
        self.codes[self.positions] = encoded
        return self.codes


def encode_documents(documents: Sequence[Document], encoder: Encoder | None, n_bits: int) -> Codes:
    """Return the codes of `documents`, ``uint8[N, n_bits / 8]``: read, or made by `encoder`.

    Documents without text, vector and code get zeros.

    Raises:
        InputError: if a document is invalid; it names the field, what is wrong and the document.
    """
    contents = read_contents(documents, encoder, n_bits)
    if encoder is None or not contents.positions:
        return contents.codes
    return contents.insert_codes(encoder.encode(contents.inputs))


def encode_queries(
    queries: Sequence[Query],
    description: Description,
    encoder: Encoder | None,
    codes_of: Callable[[Sequence[str]], Mapping[str, Codes]],
) -> EncodedQueries:
    """Return the codes of `queries` and the real values behind them.

    `codes_of` returns the codes of the documents with the ids. Of a query by code or id only the
    bits are known; each weighs 1.

    Raises:
        InputError: if a query does not have exactly one of text, vector, code and id, or a text and
            a vector, or if the collection's encoder does not encode it. Its `position` says which
            query.
        UnknownDocument: if no document has the id of a query.
    """
    for position, query in enumerate(queries):
        others = (query.code is not None) + (query.id is not None)
        contents = (query.text is not None) + (query.vector is not None)
        if contents + others != 1 and (contents, others) != (2, 0):
            raise InputError("query", _describe_fields(query), position)
    codes, positions, inputs = _read(queries, encoder, description.n_bits)
    all_encoded = len(positions) == len(queries)
    if not all_encoded:
        _insert_document_codes(queries, codes, description.name, codes_of)
    if encoder is None or not positions:
        return EncodedQueries.of_codes(codes)
    texts, vectors = [query.text for query in queries], _vectors_of(queries, encoder)
    weights, terms = encoder.read_queries(inputs)
    encoded_codes = pack_bits(weights > 0)
    # A text without a recognized term says nothing about any bit.
    weights[[one is not None and not one.recognized_terms for one in terms]] = 0
    if all_encoded:
        weighted = np.ones(len(positions), dtype=np.bool_)
        return EncodedQueries(encoded_codes, weights, texts, weighted, terms, vectors)
    codes[positions] = encoded_codes
    encoded = EncodedQueries.of_codes(codes)
    encoded.weights[positions], encoded.weighted[positions] = weights, True
    terms_at = dict(zip(positions, terms, strict=True))
    all_terms = [terms_at.get(position) for position in range(len(queries))]
    return replace(encoded, texts=texts, terms=all_terms, vectors=vectors)


def _vectors_of(queries: Sequence[Query], encoder: Encoder) -> Sequence[Vector | None]:
    """Return the vectors of queries; the triangle of a matrix is not a vector."""
    if not isinstance(encoder.features, VectorFeatures):
        return ()
    return [query.vector for query in queries]


def read_contents(
    items: Sequence[Document | Query], encoder: Encoder | None, n_bits: int
) -> Contents:
    """Check `items` and parse their codes; texts and vectors are not encoded.

    Raises:
        InputError: if an item is invalid; it names the field, what is wrong and the item.
    """
    return Contents(*_read(items, encoder, n_bits))


def _read(
    items: Sequence[Document | Query], encoder: Encoder | None, n_bits: int
) -> tuple[Codes, list[int], Inputs]:
    positions: list[int] = []
    hex_codes = [item.code for item in items if item.code is not None]
    if len(hex_codes) == len(items):
        # If one of them is invalid, the loop below parses them one by one and names it.
        with suppress(InputError):
            return codes_from_hex(hex_codes, n_bits), positions, []
    codes = np.zeros((len(items), n_bits // 8), dtype=np.uint8)
    for position, item in enumerate(items):
        try:
            if item.code is not None:
                codes[position] = code_from_hex(item.code, n_bits)
            elif item.text is not None or item.vector is not None:
                _check_content(item, encoder)
                positions.append(position)
        except InputError as error:
            if isinstance(item, Document):
                raise InputError(error.field, f"{error.reason} (document {item.id!r})") from None
            raise InputError(error.field, error.reason, position) from None
    return codes, positions, _encoder_inputs([items[at] for at in positions], encoder)


def _describe_fields(query: Query) -> str:
    present = [name for name in QUERY_FIELDS if getattr(query, name) is not None]
    fields = " and ".join(present) or "none"
    hint = "; only a text and a vector go together" if present else ""
    return f"must have exactly one of {', '.join(QUERY_FIELDS)}; it has {fields}{hint}"


def _insert_document_codes(
    queries: Sequence[Query],
    codes: Codes,
    name: str,
    codes_of: Callable[[Sequence[str]], Mapping[str, Codes]],
) -> None:
    """Put the codes of the documents that queries name by id into `codes`."""
    ids = {position: query.id for position, query in enumerate(queries) if query.id is not None}
    stored = codes_of(sorted(set(ids.values()))) if ids else {}
    for position, id_ in ids.items():
        if id_ not in stored:
            raise UnknownDocument(f"collection {name!r} has no document {id_!r}")
        codes[position] = stored[id_]


def _check_content(item: Document | Query, encoder: Encoder | None) -> None:
    """Raise InputError unless `encoder` can encode the text or vector of `item`."""
    # Beside a vector, a text is there for searches by words.
    field = "text" if item.vector is None else "vector"
    if encoder is None:
        raise InputError(field, "cannot be encoded: the collection has no encoder; give a code")
    if field != encoder.kind:
        message = f"cannot be encoded: the collection's encoder takes {encoder.kind}s"
        raise InputError(field, message)
    if item.text is not None:
        parse_text(item.text)
    if item.vector is not None:
        encoder.check_vector(parse_vector(item.vector))


def _encoder_inputs(items: Sequence[Document | Query], encoder: Encoder | None) -> Inputs:
    if encoder is None or encoder.kind == "text" or not items:
        return [item.text or "" for item in items]
    # _check_content has checked the vectors.
    return np.stack([np.asarray(item.vector, dtype=np.float32) for item in items])


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield the items in lists of `size`, the last one shorter."""
    remaining = iter(items)
    while batch := list(itertools.islice(remaining, size)):
        yield batch


def last_of_each_id(documents: Iterable[Document]) -> list[Document]:
    """Keep the last document of each id."""
    last: dict[str, Document] = {}
    for document in documents:
        last.pop(document.id, None)
        last[document.id] = document
    return list(last.values())
