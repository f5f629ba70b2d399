"""What every collection checks alike: its queries, and that its encoder is the right one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from encoder.codes import Codes
from encoder.encoder import Encoder
from index.contents import encode_contents
from index.errors import EncoderMismatch, InputError, UnknownDocument
from index.records import Query
from index.schema import Description

QUERY_FIELDS = ("text", "vector", "code", "id")


def check_encoder(description: Description, encoder: Encoder | None) -> None:
    """Raise EncoderMismatch unless `encoder` is the one the collection's codes were made with."""
    expected = description.encoder_fingerprint
    found = None if encoder is None else encoder.fingerprint
    if found != expected:
        message = (
            f"collection {description.name!r} was made with encoder {description.encoder_name!r} of"
            f" fingerprint {expected}; this is {found}. Index it again to change the encoder."
        )
        raise EncoderMismatch(message)
    if encoder is not None and encoder.n_bits != description.n_bits:
        bits = f"{description.n_bits} bits, its encoder {encoder.n_bits}"
        raise EncoderMismatch(f"collection {description.name!r} has {bits}")


def encode_queries(
    queries: Sequence[Query],
    description: Description,
    encoder: Encoder | None,
    codes_of: Callable[[Sequence[str]], Mapping[str, Codes]],
) -> Codes:
    """Return the codes of `queries`, ``uint8[Q, n_bits / 8]``; `codes_of` knows those of ids.

    Raises:
        InputError: if a query does not carry exactly one of text, vector, code and id, or carries
            what the collection's encoder does not take. Its `position` says which.
        UnknownDocument: if an id is not there.
    """
    for position, query in enumerate(queries):
        given = [name for name in QUERY_FIELDS if getattr(query, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            message = f"must have exactly one of {', '.join(QUERY_FIELDS)}; has {found}"
            raise InputError("query", message, position)
    codes = encode_contents(queries, encoder, description.n_bits)
    known = codes_of(sorted({query.id for query in queries if query.id is not None}))
    for position, query in enumerate(queries):
        if query.id is not None:
            if query.id not in known:
                where = f"collection {description.name!r}"
                raise UnknownDocument(f"{where} has no document {query.id!a}")
            codes[position] = known[query.id]
    return codes
