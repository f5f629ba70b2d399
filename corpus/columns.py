"""Formats in columns: Parquet, Arrow and NumPy archives. A row's number counts as its line."""

from __future__ import annotations

import base64
import datetime
import importlib
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.json_rows import parse_json
from hummingbit.corpus.layout import Layout
from hummingbit.corpus.lines import LineError, ReadError, Row
from hummingbit.foundation.errors import install_command

Array = npt.NDArray[Any]
NPZ_CONTENT = ("vectors", "matrices", "text", "codes")
NPZ_KEYS = ("ids", *NPZ_CONTENT, "labels")
PARQUET_BATCH = 1024
ARROW_MAGIC = b"ARROW1"


def read_parquet(path: Path, layout: Layout | None) -> Iterator[Row]:
    """Yield the rows of a Parquet file, batch by batch.

    A row with a null or a NaN lacks the field. Dates and times become strings in ISO 8601,
    durations become seconds, decimals numbers, and bytes text, or Base64 if they are not UTF-8.
    With a `layout` of None the columns are not checked.

    Raises:
        ReadError: if pyarrow is not installed, the file is not Parquet, or its columns do not fit
            `layout`.
    """
    with _open_parquet(path) as (_, file, progress):
        _check_columns(path, file.schema_arrow.names, layout)
        yield from progress.rows(file.iter_batches(PARQUET_BATCH))


def byte_list_columns(path: Path) -> frozenset[str]:
    """Return the names of the columns of a Parquet file that are lists of unsigned bytes.

    Raises:
        ReadError: if pyarrow is not installed, or the file is not Parquet.
    """
    with _open_parquet(path) as (arrow, file, _):
        fields = [field for field in file.schema_arrow if field.type.num_fields == 1]
    return frozenset(field.name for field in fields if field.type.field(0).type == arrow.uint8())


def json_columns(paths: Sequence[Path]) -> frozenset[str]:
    """Return the names of the columns of strings in Parquet files of which each string is JSON.

    Only columns with an object or a list count, so numbers that are written as texts stay texts.

    Raises:
        ReadError: if pyarrow is not installed, or a file is not Parquet.
    """
    nested: set[str] = set()
    rejected: set[str] = set()
    for path in paths:
        with _open_parquet(path) as (arrow, file, _):
            texts = (arrow.string(), arrow.large_string())
            for field in file.schema_arrow:
                if field.type not in texts or field.name in rejected:
                    continue
                batches = file.iter_batches(PARQUET_BATCH, columns=[field.name])
                kinds = _json_kinds(value for batch in batches for value in batch.column(0))
                if kinds is None:
                    rejected.add(field.name)
                elif kinds & {dict, list}:
                    nested.add(field.name)
    return frozenset(nested - rejected)


def _json_kinds(values: Iterable[Any]) -> set[type] | None:
    """Return the types of JSON strings that are not null, or None if one is not JSON."""
    kinds = set()
    for value in values:
        if value.is_valid:
            try:
                kinds.add(type(parse_json(value.as_py())))
            except (LineError, UnicodeDecodeError):
                return None
    return kinds


def read_arrow(paths: Sequence[Path], layout: Layout) -> Iterator[Row]:
    """Yield the rows of Arrow files, in the file or the stream format, one file after the other.

    Raises:
        ReadError: as for :func:`read_parquet`.
    """
    arrow = _import_arrow(paths[0], "Arrow")
    ipc = importlib.import_module("pyarrow.ipc")
    first = 0
    for path in paths:
        with (
            _arrow_progress(arrow, path, "Arrow", first) as progress,
            arrow.memory_map(str(path)) as file,
        ):
            is_file = file.read(len(ARROW_MAGIC)) == ARROW_MAGIC
            file.seek(0)
            reader = (ipc.open_file if is_file else ipc.open_stream)(file)
            _check_columns(path, reader.schema.names, layout)
            batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
            yield from progress.rows(batches)
            first = progress.line


def is_arrow(value: Any) -> bool:
    """Return whether a value has Arrow's interface for columns, as tables of polars and Arrow do.

    DataFrames of pandas have it, too, and are read as they are: their cells keep Python's types.
    Source: https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
    """
    has_interface = hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")
    return has_interface and not hasattr(value, "iloc")


def arrow_rows(columns: Any) -> tuple[list[str], Iterator[Row]]:
    """Return the names of the columns of a table with Arrow's interface, and its rows from 0.

    Values are as :func:`read_parquet` reads them.

    Raises:
        ReadError: if pyarrow is not installed, two columns have one name, or the table is not read.
    """
    arrow, source = _import_arrow(Path("documents"), "a table of columns"), Path("documents")
    try:
        table = arrow.table(columns)
    except (arrow.ArrowException, TypeError, ValueError) as error:
        raise ReadError(f"{source}: cannot be read as a table of columns: {error}") from None
    _check_columns(source, table.column_names, None)

    def rows() -> Iterator[Row]:
        with _arrow_progress(arrow, source, "a table of columns", -1) as progress:
            yield from progress.rows(table.to_batches(PARQUET_BATCH))

    return table.column_names, rows()


class _Progress:
    """Turns batches into rows, and counts them."""

    def __init__(self, line: int) -> None:
        self.line = line

    def rows(self, batches: Iterable[Any]) -> Iterator[Row]:
        for batch in batches:
            for row in _batch_rows(batch, self.line + 1):
                self.line = row.line
                yield row


@contextmanager
def _arrow_progress(arrow: Any, path: Path, format_: str, line: int = 0) -> Iterator[_Progress]:
    """Turn Arrow's exceptions into a ReadError with the file and the row."""
    progress = _Progress(line)
    try:
        yield progress
    except (arrow.ArrowException, OSError) as error:
        where = f"{path}:{progress.line + 1}" if progress.line else str(path)
        raise ReadError(f"{where}: cannot be read as {format_}: {error}") from None


@contextmanager
def _open_parquet(path: Path) -> Iterator[tuple[Any, Any, _Progress]]:
    """Yield pyarrow, the open file, and what turns its batches into rows."""
    arrow = _import_arrow(path, "Parquet")
    parquet = importlib.import_module("pyarrow.parquet")
    with _arrow_progress(arrow, path, "Parquet") as progress, parquet.ParquetFile(path) as file:
        yield arrow, file, progress


def _import_arrow(path: Path, format_: str) -> Any:
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError:
        message = f"{format_} needs pyarrow; install it with: {install_command('parquet')}"
        raise ReadError(f"{path}: {message}") from None


def _check_columns(path: Path, names: list[str], layout: Layout | None) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        message = f"has the column {repeated[0]!r} twice; names must be distinct"
        raise ReadError(f"{path}: {message}")
    if layout is not None:
        layout.check(names, str(path))


def _batch_rows(batch: Any, first: int) -> Iterator[Row]:
    vectors = batch.column("vector") if "vector" in batch.schema.names else None
    rest = batch.drop_columns(["vector"]) if vectors is not None else batch
    for position in range(batch.num_rows):
        try:
            (record,) = rest.slice(position, 1).to_pylist()
        except UnicodeDecodeError as error:
            yield Row(first + position, reason=f"is not UTF-8: {error}")
            continue
        record = {name: _as_json(value) for name, value in record.items()}
        record = {name: value for name, value in record.items() if value is not None}
        if vectors is not None and vectors[position].is_valid:
            record["vector"] = _vector(vectors[position])
        yield Row(first + position, record)


def _vector(scalar: Any) -> object:
    """Return a list scalar as an array, without a Python object for every number."""
    numbers = getattr(scalar, "values", None)
    return scalar.as_py() if numbers is None else numbers.to_numpy(zero_copy_only=False)


def _as_json(value: Any) -> object:
    """Return a value of Arrow as JSON has it; see :func:`read_parquet`."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    convert = next(
        (conversion for kind, conversion in _CONVERSIONS.items() if isinstance(value, kind)), None
    )
    return value if convert is None else convert(value)


def _number_of(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)


def _text_of(value: bytes) -> str:
    """Return bytes as UTF-8 text, which many programs write without saying so, or as Base64."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


_CONVERSIONS: Mapping[type, Callable[[Any], object]] = {
    datetime.date: lambda value: value.isoformat(),
    datetime.time: datetime.time.isoformat,
    datetime.timedelta: datetime.timedelta.total_seconds,
    Decimal: _number_of,
    bytes: _text_of,
}


def read_npz(path: Path) -> Iterator[Row]:
    """Yield the rows of a NumPy archive, which is read into memory whole.

    It must have one of the arrays `vectors` (numbers, ``[N, D]``), `matrices` (symmetric positive
    definite, ``[N, n, n]``), `text` (strings, ``[N]``) and `codes` (packed codes,
    ``uint8[N, code_size]``). It may have `ids` and `labels` (strings or numbers, ``[N]``); without
    `ids`, the row numbers from 0 are the ids. Nothing is unpickled.

    Raises:
        ReadError: if the file is not such an archive.
    """
    arrays = load_arrays(path)
    content_names = [name for name in NPZ_CONTENT if name in arrays]
    unknown = sorted(set(arrays) - set(NPZ_KEYS))
    if unknown or len(content_names) != 1:
        found = f"has the arrays {', '.join(sorted(arrays))}" if arrays else "has no arrays"
        expected = f"exactly one of {', '.join(NPZ_CONTENT)}, and may have ids and labels"
        raise ReadError(f"{path}: {found}; it must have {expected}")
    (content_name,) = content_names
    content = arrays[content_name]
    _check_content(path, content_name, content)
    ids = _names(path, arrays, "ids", len(content))
    labels = _names(path, arrays, "labels", len(content))
    for position in range(len(content)):
        record: dict[str, object] = {"id": ids[position] if ids is not None else str(position)}
        if labels is not None:
            record["label"] = labels[position]
        if content_name in ("vectors", "matrices"):
            record["vector"] = content[position]
        elif content_name == "text":
            record["text"] = str(content[position])
        else:
            record["code"] = content[position].tobytes().hex()
        yield Row(position + 1, record)


def load_arrays(path: Path, names: tuple[str, ...] | None = None) -> dict[str, Array]:
    """Load the arrays `names` of an `.npz` file, or all of them.

    Raises:
        ReadError: if the file is not an archive of plain arrays, or lacks one of `names`.
    """
    from zipfile import BadZipFile  # noqa: PLC0415 - a collection is imported without archives

    try:
        # Opened here, because NumPy leaves the file open if the archive's directory is broken.
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ReadError(f"{path}: is a single array; it must be an .npz archive")
            missing = sorted(set(names or ()) - set(archive.files))
            if missing:
                raise ReadError(f"{path}: has no array {missing[0]}")
            return {name: archive[name] for name in names or archive.files}
    except ReadError:
        raise
    except (OSError, EOFError, ValueError, BadZipFile, zlib.error) as error:
        # NumPy takes any unknown file for a pickle, and advises loading it as one.
        reason = "it is not one, or it holds pickled objects" if "pickle" in str(error) else error
        raise ReadError(f"{path}: cannot be read as an .npz archive: {reason}") from None


def _check_content(path: Path, name: str, content: Array) -> None:
    kinds, n_dimensions, expected = {
        "vectors": ("fiu", 2, "numbers of shape [N, D]"),
        "matrices": ("fiu", 3, "numbers of shape [N, n, n]"),
        "text": ("U", 1, "strings of shape [N]"),
        "codes": ("u", 2, "uint8 of shape [N, code_size]"),
    }[name]
    is_wide = name == "codes" and content.dtype.itemsize != 1
    if content.dtype.kind not in kinds or content.ndim != n_dimensions or is_wide:
        found = f"{content.dtype} of shape {list(content.shape)}"
        raise ReadError(f"{path}: {name} is {found}; it must be {expected}")


def _names(path: Path, arrays: dict[str, Array], name: str, length: int) -> list[Any] | None:
    if name not in arrays:
        return None
    array = arrays[name]
    if array.dtype.kind not in "Uiufb" or array.shape != (length,):
        found = f"{array.dtype} of shape {list(array.shape)}"
        raise ReadError(f"{path}: {name} is {found}; it must be {length:,} strings or numbers")
    return [*array.tolist()]
