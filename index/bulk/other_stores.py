"""Points of other stores as documents of a collection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from corpus.document import Document
from corpus.layout import Layout
from corpus.readers import documents_of
from corpus.rows import BadLine, ReadError, Row
from corpus.stores.milvus import read_milvus
from corpus.stores.point import Point
from corpus.stores.qdrant import read_qdrant
from corpus.stores.txtai import read_txtai
from encoder.codes import CodeError, Packing, code_to_hex, codes_of_vectors

STORES: dict[str, Callable[[Path], Iterator[Point]]] = {
    "milvus": read_milvus,
    "qdrant": read_qdrant,
    "txtai": read_txtai,
}
# What the frameworks that write to these stores call the text.
TEXT_FIELDS = ("text", "page_content", "document", "content")


@dataclass(frozen=True, slots=True)
class Taken:
    """What of a point becomes the content of a document: its text, its vector, or a code of it.

    Of several vectors, `vector_field` is the one. A code is read from it by `packing`; of longer
    ones the first `n_bits` bits are taken, which is meant for vectors that were trained for it.
    """

    content: Literal["text", "vector", "code"]
    vector_field: str | None = None
    packing: Packing | None = None
    n_bits: int | None = None


def read_points(
    store: str, path: Path, layout: Layout, taken: Taken, notice: Callable[[str], object]
) -> Iterator[Document]:
    """Yield the points of a file or folder that `store`, one of :data:`STORES`, wrote.

    What does not become the content joins the payload, except for vectors.

    Raises:
        ReadError: at what cannot be read, or lacks what is taken.
    """
    source = str(path)
    points = _points(store, path)
    first = next(points, None)
    if first is None:
        raise ReadError(f"{source}: holds no points")
    if taken.content == "text":
        layout = _with_text_field(layout, first, source, notice)
    else:
        taken = _with_vector_field(taken, first, source)
    rows = _rows(first, points, source, taken)
    return documents_of(rows, source, layout, notice, unique_ids=False)


def code_length(store: str, path: Path, taken: Taken) -> int:
    """Return the number of bits of the codes that :func:`read_points` reads, by the first point.

    Raises:
        ReadError: as :func:`read_points` does.
    """
    for point in _points(store, path):
        code = _code(point, _with_vector_field(taken, point, str(path)), str(path))
        return 4 * len(code)
    raise ReadError(f"{path}: holds no points")


def _points(store: str, path: Path) -> Iterator[Point]:
    try:
        yield from STORES[store](path)
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror or error}") from None


def _with_text_field(
    layout: Layout, first: Point, source: str, notice: Callable[[str], object]
) -> Layout:
    if layout.text_fields:
        return layout
    found = next((one for one in TEXT_FIELDS if isinstance(first.fields.get(one), str)), None)
    if found is None:
        names = ", ".join(map(ascii, first.fields))
        cure = "--text-field names the one that holds the text"
        raise ReadError(f"{source}: its points have the fields {names}; {cure}")
    if found != TEXT_FIELDS[0]:
        notice(f"{source}: the texts are the field {found!a}")
    return replace(layout, text_fields=(found,))


def _with_vector_field(taken: Taken, first: Point, source: str) -> Taken:
    if taken.vector_field is not None:
        return taken
    if len(first.vectors) != 1:
        names = ", ".join(map(ascii, first.vectors)) or "no vector"
        message = "; --vector-field names the one to take" if first.vectors else ""
        raise ReadError(f"{source}: its points have {names}{message}")
    (found,) = first.vectors
    return replace(taken, vector_field=found)


def _rows(first: Point, others: Iterable[Point], source: str, taken: Taken) -> Iterator[Row]:
    yield _row(first, source, taken)
    for point in others:
        yield _row(point, source, taken)


def _row(point: Point, source: str, taken: Taken) -> Row:
    fields = point.fields
    if taken.content == "text":
        return Row(point.line, fields)
    # A text beside the content is one more field of the payload.
    beside = {"text": fields["text"]} if "text" in fields else {}
    own = ("text", taken.vector_field)
    record = {name: value for name, value in fields.items() if name not in own}
    if beside:
        record["payload"] = {**(fields.get("payload") or {}), **beside}
    if taken.content == "vector":
        record["vector"] = _vector(point, taken, source)
    else:
        record["code"] = _code(point, taken, source)
    return Row(point.line, record)


def _vector(point: Point, taken: Taken, source: str) -> Any:
    # A short vector may have been taken for a list of numbers.
    vector = {**point.fields, **point.vectors}.get(taken.vector_field or "")
    if vector is None:
        names = ", ".join(map(ascii, point.vectors)) or "none"
        reason = f"has no vector {taken.vector_field!a}; its vectors: {names}"
        raise ReadError(str(BadLine(source, point.line, reason)))
    return vector


def _code(point: Point, taken: Taken, source: str) -> str:
    packing = taken.packing or "sign"
    try:
        vector = np.asarray(_vector(point, taken, source))
        if taken.n_bits is not None:
            length = taken.n_bits if packing == "sign" else taken.n_bits // 8
            if len(vector) < length:
                raise CodeError("vector", f"has {len(vector)} numbers; {length} are to be taken")
            vector = vector[:length]
        return code_to_hex(codes_of_vectors(vector[None], packing)[0])
    except (CodeError, ValueError) as error:
        raise ReadError(str(BadLine(source, point.line, str(error)))) from None
