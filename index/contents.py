"""From what a document or a query carries to its code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corpus.document import Document, DocumentError, parse_text, parse_vector
from encoder.codes import Codes, code_from_hex
from encoder.encoder import Encoder, Inputs
from encoder.features import InputError as CannotEncode
from index.errors import InputError
from index.records import Query


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


def encode_contents(
    items: Sequence[Document | Query], encoder: Encoder | None, n_bits: int
) -> Codes:
    """Return the codes of `items`, ``uint8[N, n_bits / 8]``: read, or made by `encoder`.

    Items that carry none of text, vector and code get zeros.

    Raises:
        InputError: naming the field, what is wrong with it and which item it belongs to.
    """
    contents = read_contents(items, encoder, n_bits)
    if encoder is None or not contents.places:
        return contents.codes
    return contents.filled(encoder.encode(contents.inputs))


def read_contents(
    items: Sequence[Document | Query], encoder: Encoder | None, n_bits: int
) -> Contents:
    """Do as :func:`encode_contents`, but leave the encoding to the caller."""
    codes = np.zeros((len(items), n_bits // 8), dtype=np.uint8)
    places: list[int] = []
    for position, item in enumerate(items):
        try:
            if item.code is not None:
                codes[position] = _read_code(item.code, n_bits)
            elif item.text is not None or item.vector is not None:
                _check_content(item, encoder)
                places.append(position)
        except DocumentError as error:
            reason = str(error).removeprefix(f"{error.field}: ")
            if isinstance(item, Document):
                raise InputError(error.field, f"{reason} (document {item.id!a})") from None
            raise InputError(error.field, reason, position) from None
    return Contents(codes, places, _inputs([items[place] for place in places], encoder))


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
    try:
        encoder.check_vector(parse_vector(item.vector))
    except CannotEncode as error:
        raise DocumentError("vector", str(error).removeprefix("vector: ")) from None


def _inputs(items: Sequence[Document | Query], encoder: Encoder | None) -> Inputs:
    if encoder is None or encoder.kind == "text" or not items:
        return [item.text or "" for item in items]
    return np.stack([parse_vector(item.vector) for item in items])
