"""From what a document or a query carries to its code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from corpus.document import Document, DocumentError, parse_text, parse_vector
from encoder.codes import Codes, code_from_hex
from encoder.encoder import Encoder
from index.errors import InputError
from index.records import Query


def encode_contents(
    items: Sequence[Document | Query], encoder: Encoder | None, n_bits: int
) -> Codes:
    """Return the codes of `items`, ``uint8[N, n_bits / 8]``: read, or made by `encoder`.

    Items that carry none of text, vector and code get zeros.

    Raises:
        InputError: naming the field, what is wrong with it and which item it belongs to.
    """
    codes = np.zeros((len(items), n_bits // 8), dtype=np.uint8)
    to_encode: list[int] = []
    for position, item in enumerate(items):
        try:
            if item.code is not None:
                codes[position] = _read_code(item.code, n_bits)
            elif item.text is not None or item.vector is not None:
                _check_content(item, encoder)
                to_encode.append(position)
        except DocumentError as error:
            reason = str(error).removeprefix(f"{error.field}: ")
            if isinstance(item, Document):
                raise InputError(error.field, f"{reason} (document {item.id!a})") from None
            raise InputError(error.field, reason, position) from None
    if encoder is not None and to_encode:
        codes[to_encode] = _encode([items[position] for position in to_encode], encoder)
    return codes


def _read_code(code: str, n_bits: int) -> Codes:
    try:
        return code_from_hex(code, n_bits)
    except ValueError as error:
        raise DocumentError("code", str(error).removeprefix("code ")) from None


def _check_content(item: Document | Query, encoder: Encoder | None) -> None:
    """Raise DocumentError unless `encoder` takes what `item` carries."""
    given = "text" if item.text is not None else "vector"
    if encoder is None:
        raise DocumentError(given, "cannot be taken: the collection has no encoder; give a code")
    if given != encoder.kind:
        raise DocumentError(
            given, f"cannot be taken: the collection's encoder takes {encoder.kind}s"
        )
    if given == "text":
        parse_text(item.text)
        return
    length = len(parse_vector(item.vector))
    if length != encoder.dimension:
        raise DocumentError("vector", f"has {length} numbers; it must have {encoder.dimension}")


def _encode(items: Sequence[Document | Query], encoder: Encoder) -> Codes:
    if encoder.kind == "text":
        return encoder.encode([item.text or "" for item in items])
    return encoder.encode(np.stack([parse_vector(item.vector) for item in items]))
