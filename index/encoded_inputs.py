"""What a collection takes, documents and queries, and how it becomes codes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from corpus.document import Document, parse_text, parse_vector
from encoder.codes import Codes, code_from_hex, codes_from_hex, pack_bits
from encoder.encoder import Encoder, Inputs
from foundation.errors import InputError
from index.errors import UnknownDocument
from index.records import EncodedQueries, Query
from index.schema import Description

Item = TypeVar("Item")

QUERY_FIELDS = ("text", "vector", "code", "id")


@dataclass(frozen=True, slots=True)
class Contents:
    """What was found in documents or queries: codes that were given, and what is to be encoded.

    `codes` is ``uint8[N, n_bits / 8]``, zeros where there was none; `inputs` are what an encoder
    takes, and `places` whose they are.
    """

    codes: Codes
    places: list[int]
    inputs: Inputs

    def filled(self, encoded: Codes) -> Codes:
        """Return the codes with the codes of the inputs, ``uint8[len(inputs), C]``, in them."""
        self.codes[self.places] = encoded
        return self.codes


def encode_documents(documents: Sequence[Document], encoder: Encoder | None, n_bits: int) -> Codes:
    """Return the codes of `documents`, ``uint8[N, n_bits / 8]``: read, or made by `encoder`.

    Documents that carry none of text, vector and code get zeros.

    Raises:
        InputError: naming the field, what is wrong with it and which document it belongs to.
    """
    contents = read_contents(documents, encoder, n_bits)
    if encoder is None or not contents.places:
        return contents.codes
    return contents.filled(encoder.encode(contents.inputs))


def encode_queries(
    queries: Sequence[Query],
    description: Description,
    encoder: Encoder | None,
    codes_of: Callable[[Sequence[str]], Mapping[str, Codes]],
) -> EncodedQueries:
    """Return the codes of `queries` and the real values behind them.

    `codes_of` returns the codes of the documents with some ids. Of a query by code or by id only
    bits are known; they weigh 1 each.

    Raises:
        InputError: if a query does not carry exactly one of text, vector, code and id, or carries
            what the collection's encoder does not take. Its `position` says which.
        UnknownDocument: if an id is not there.
    """
    for position, query in enumerate(queries):
        others = (query.vector is not None) + (query.code is not None) + (query.id is not None)
        if (query.text is not None) + others != 1:
            raise InputError("query", _which_fields(query), position)
    codes, places, inputs = _read(queries, encoder, description.n_bits)
    whole = len(places) == len(queries)
    if not whole:
        _fill_in(queries, codes, description.name, codes_of)
    if encoder is None or not places:
        return EncodedQueries.of_codes(codes)
    texts = [query.text for query in queries]
    encoded, read = encoder.read_queries(inputs)
    given = pack_bits(encoded > 0)
    # A text of which nothing is recognised says nothing about any bit.
    encoded[[one is not None and not one.recognized_terms for one in read]] = 0
    if whole:
        weighted = np.ones(len(places), dtype=np.bool_)
        return EncodedQueries(given, encoded, texts, weighted, read)
    codes[places] = given
    known = EncodedQueries.of_codes(codes)
    known.weights[places], known.weighted[places] = encoded, True
    terms = dict(zip(places, read, strict=True))
    return replace(known, texts=texts, terms=[terms.get(place) for place in range(len(queries))])


def read_contents(
    items: Sequence[Document | Query], encoder: Encoder | None, n_bits: int
) -> Contents:
    """Check what `items` carry and read the codes that are given, without encoding the others.

    Raises:
        InputError: naming the field, what is wrong with it and which item it belongs to.
    """
    return Contents(*_read(items, encoder, n_bits))


def _read(
    items: Sequence[Document | Query], encoder: Encoder | None, n_bits: int
) -> tuple[Codes, list[int], Inputs]:
    places: list[int] = []
    given = [item.code for item in items if item.code is not None]
    if len(given) == len(items):
        # With one mistake among them, they are read one by one, to say whose it is.
        with suppress(InputError):
            return codes_from_hex(given, n_bits), places, []
    codes = np.zeros((len(items), n_bits // 8), dtype=np.uint8)
    for position, item in enumerate(items):
        try:
            if item.code is not None:
                codes[position] = code_from_hex(item.code, n_bits)
            elif item.text is not None or item.vector is not None:
                _check_content(item, encoder)
                places.append(position)
        except InputError as error:
            if isinstance(item, Document):
                raise InputError(error.field, f"{error.reason} (document {item.id!a})") from None
            raise InputError(error.field, error.reason, position) from None
    return codes, places, _inputs([items[place] for place in places], encoder)


def _which_fields(query: Query) -> str:
    given = [name for name in QUERY_FIELDS if getattr(query, name) is not None]
    found = " and ".join(given) or "none of them"
    return f"must have exactly one of {', '.join(QUERY_FIELDS)}; has {found}"


def _fill_in(
    queries: Sequence[Query],
    codes: Codes,
    name: str,
    codes_of: Callable[[Sequence[str]], Mapping[str, Codes]],
) -> None:
    """Put the codes of the documents that queries name into `codes`."""
    named = {position: query.id for position, query in enumerate(queries) if query.id is not None}
    known = codes_of(sorted(set(named.values()))) if named else {}
    for position, id_ in named.items():
        if id_ not in known:
            raise UnknownDocument(f"collection {name!r} has no document {id_!a}")
        codes[position] = known[id_]


def _check_content(item: Document | Query, encoder: Encoder | None) -> None:
    """Raise InputError unless `encoder` takes what `item` carries."""
    given = "text" if item.text is not None else "vector"
    if encoder is None:
        raise InputError(given, "cannot be taken: the collection has no encoder; give a code")
    if given != encoder.kind:
        raise InputError(given, f"cannot be taken: the collection's encoder takes {encoder.kind}s")
    if given == "text":
        parse_text(item.text)
        return
    encoder.check_vector(parse_vector(item.vector))


def _inputs(items: Sequence[Document | Query], encoder: Encoder | None) -> Inputs:
    if encoder is None or encoder.kind == "text" or not items:
        return [item.text or "" for item in items]
    # They have been checked.
    return np.stack([np.asarray(item.vector, dtype=np.float32) for item in items])


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield the items in lists of `size`, the last one shorter."""
    remaining = iter(items)
    while batch := list(itertools.islice(remaining, size)):
        yield batch


def last_of_each_id(documents: Iterable[Document]) -> list[Document]:
    """Leave out documents whose id comes again."""
    last: dict[str, Document] = {}
    for document in documents:
        last.pop(document.id, None)
        last[document.id] = document
    return list(last.values())
