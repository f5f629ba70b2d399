"""Reads the points of other vector stores as documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from corpus.document import Document
from corpus.layout import Layout
from corpus.readers import documents_of
from corpus.rows import BadLine, ReadError, Row
from corpus.stores.milvus import read_milvus
from corpus.stores.point import MIN_VECTOR_LENGTH, Point
from corpus.stores.qdrant import read_qdrant
from corpus.stores.txtai import read_txtai
from encoder.codes import CodeError, Packing, code_to_hex, codes_of_vectors
from foundation.errors import counted

STORES: dict[str, Callable[[Path], Iterator[Point]]] = {
    "milvus": read_milvus,
    "qdrant": read_qdrant,
    "txtai": read_txtai,
}
VectorType = Literal["float16", "bfloat16"]
VECTOR_TYPES: tuple[VectorType, ...] = get_args(VectorType)
# The field names of texts in frameworks that write to these stores.
TEXT_FIELDS = ("text", "page_content", "document", "content")


@dataclass(frozen=True, slots=True)
class PointSelection:
    """The part of a point that becomes the content of a document: its text, vector, or a code.

    `vector_field` names the vector if there are several. `vector_type` says which numbers of two
    bytes each its bytes hold. `packing` turns the vector into a code. If `n_bits` is given, only
    the first bits are used, for vectors that were trained for this. If `code_bits` is given, codes
    of another length are refused.
    """

    content: Literal["text", "vector", "code"]
    vector_field: str | None = None
    packing: Packing | None = None
    n_bits: int | None = None
    vector_type: VectorType | None = None
    code_bits: int | None = None


def read_points(
    store: str,
    path: Path,
    layout: Layout,
    selection: PointSelection,
    notice: Callable[[str], object],
    *,
    incomplete: Callable[[str], object] = lambda _: None,
) -> Iterator[Document]:
    """Yield the points of a file or folder that `store`, one of :data:`STORES`, wrote.

    Other fields become the payload, except for vectors. If the file says that more points follow,
    `incomplete` is called with a sentence about it.

    Raises:
        ReadError: if a point cannot be read, or has no such content.
    """
    source = str(path)
    points = _points(store, path, incomplete)
    first = next(points, None)
    if first is None:
        raise ReadError(f"{source}: holds no points")
    if selection.content == "text":
        layout = _with_text_field(layout, first, source, notice)
    else:
        selection = _with_vector_field(selection, first, source)
    rows = _rows(first, points, source, selection)
    return documents_of(rows, source, layout, notice, unique_ids=False)


def code_length(store: str, path: Path, selection: PointSelection) -> int:
    """Return the number of bits of the codes that :func:`read_points` reads, by the first point.

    Raises:
        ReadError: as :func:`read_points` does.
    """
    for point in _points(store, path):
        code = _code(point, _with_vector_field(selection, point, str(path)), str(path))
        return 4 * len(code)
    raise ReadError(f"{path}: holds no points")


def _points(
    store: str, path: Path, incomplete: Callable[[str], object] = lambda _: None
) -> Iterator[Point]:
    try:
        yield from read_qdrant(path, incomplete) if store == "qdrant" else STORES[store](path)
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror or error}") from None


def _with_text_field(
    layout: Layout, first: Point, source: str, notice: Callable[[str], object]
) -> Layout:
    if layout.text_fields:
        return layout
    field = next((one for one in TEXT_FIELDS if isinstance(first.fields.get(one), str)), None)
    if field is None:
        names = ", ".join(map(repr, first.fields))
        cure = "--text-field names the one that holds the text"
        raise ReadError(f"{source}: its points have the fields {names}; {cure}")
    if field != TEXT_FIELDS[0]:
        notice(f"{source}: the texts are the field {field!r}")
    return replace(layout, text_fields=(field,))


def _with_vector_field(selection: PointSelection, first: Point, source: str) -> PointSelection:
    if selection.vector_field is not None:
        return selection
    if len(first.vectors) != 1:
        names = ", ".join(map(repr, first.vectors)) or "no vector"
        message = f"; a list of fewer than {MIN_VECTOR_LENGTH} numbers is one if"
        message += " --vector-field names it"
        if first.vectors:
            message = "; --vector-field names the one to take"
        raise ReadError(f"{source}: its points have {names}{message}")
    (field,) = first.vectors
    return replace(selection, vector_field=field)


def _rows(
    first: Point, others: Iterable[Point], source: str, selection: PointSelection
) -> Iterator[Row]:
    yield _row(first, source, selection)
    for point in others:
        yield _row(point, source, selection)


def _row(point: Point, source: str, selection: PointSelection) -> Row:
    fields = point.fields
    if selection.content == "text":
        return Row(point.line, fields)
    # A text beside the content is one more field of the payload.
    beside = {"text": fields["text"]} if "text" in fields else {}
    own = ("text", selection.vector_field)
    record = {name: value for name, value in fields.items() if name not in own}
    if beside:
        record["payload"] = {**(fields.get("payload") or {}), **beside}
    if selection.content == "vector":
        record["vector"] = _vector(point, selection, source)
    else:
        record["code"] = _code(point, selection, source)
    return Row(point.line, record)


def _vector(point: Point, selection: PointSelection, source: str) -> Any:
    # A short vector may have been read as a list of numbers.
    vector = {**point.fields, **point.vectors}.get(selection.vector_field or "")
    if vector is None:
        names = ", ".join(map(repr, point.vectors)) or "none"
        reason = f"has no vector {selection.vector_field!r}; its vectors: {names}"
        raise ReadError(str(BadLine(source, point.line, reason)))
    try:
        return _numbers(vector, point, selection)
    except (TypeError, ValueError, OverflowError) as error:
        reason = f"{selection.vector_field}: {error}"
        raise ReadError(str(BadLine(source, point.line, reason))) from None


def _numbers(vector: Any, point: Point, selection: PointSelection) -> Any:
    """Return the numbers of a vector, whose bytes Milvus writes to Parquet without their type."""
    if selection.vector_type is None:
        if selection.vector_field in point.byte_vectors and selection.packing != "ubinary":
            raise ValueError(
                "holds bytes; a BINARY_VECTOR is read with --codes ubinary, a FLOAT16_VECTOR with"
                " --vector-type float16, and a BFLOAT16_VECTOR with --vector-type bfloat16"
            )
        return vector
    if selection.packing in ("ubinary", "binary"):
        raise ValueError(
            f"--vector-type {selection.vector_type} reads numbers; --codes must be sign for them"
        )
    if len(vector) % 2 or not all(isinstance(one, int | np.integer) for one in vector):
        raise ValueError(
            f"--vector-type {selection.vector_type} needs two bytes for each number; it has"
            f" {counted(len(vector), 'value')}, such as {vector[:1]}"
        )
    raw = bytes(list(vector))
    if selection.vector_type == "float16":
        return np.frombuffer(raw, "<f2").astype(np.float32)
    # A bfloat16 is the upper half of a float32.
    return (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")


def _code(point: Point, selection: PointSelection, source: str) -> str:
    packing = selection.packing or "sign"
    vector = np.asarray(_vector(point, selection, source))
    try:
        if selection.n_bits is not None:
            length = selection.n_bits if packing == "sign" else selection.n_bits // 8
            if len(vector) < length:
                raise CodeError(
                    "vector", f"has {counted(len(vector), 'number')}; it must have {length}"
                )
            vector = vector[:length]
        code = code_to_hex(codes_of_vectors(vector[None], packing)[0])
        if selection.code_bits not in (None, 4 * len(code)):
            raise CodeError(
                "vector",
                f"has {counted(len(vector), 'number')}, which make a code of {4 * len(code)} bits;"
                f" the codes of the collection have {selection.code_bits}",
            )
    except (CodeError, ValueError) as error:
        raise ReadError(str(BadLine(source, point.line, str(error)))) from None
    return code
