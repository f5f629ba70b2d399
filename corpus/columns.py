"""The formats that come as columns: Parquet and NumPy archives. A row's number is its line."""

from __future__ import annotations

import datetime
import importlib
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from corpus.document import FIELDS
from corpus.rows import ReadError, Row

Array = npt.NDArray[Any]
NPZ_CONTENT = ("vectors", "matrices", "text", "codes")
NPZ_KEYS = ("ids", *NPZ_CONTENT, "labels")
PARQUET_BATCH = 1024


def read_parquet(path: Path) -> Iterator[Row]:
    """Yield the rows of a Parquet file, batch by batch.

    The columns named as a document's fields are those fields (`vector` and `labels` are lists,
    `payload` is a struct); every other column joins the payload, dates as ISO 8601. A null means
    that the row lacks the field.

    Raises:
        ReadError: if pyarrow is not installed, the file is not Parquet, or it lacks `id`.
    """
    try:
        parquet = importlib.import_module("pyarrow.parquet")
        arrow = importlib.import_module("pyarrow")
    except ImportError:
        message = (
            f"{path}: Parquet needs pyarrow; install it with: pip install 'hummingbit[parquet]'"
        )
        raise ReadError(message) from None
    line = 0
    try:
        with parquet.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow.names)
            for batch in file.iter_batches(PARQUET_BATCH):
                for row in _batch_rows(batch, line + 1):
                    line = row.line
                    yield row
    except (arrow.ArrowException, OSError) as error:
        where = f"{path}:{line + 1}" if line else str(path)
        raise ReadError(f"{where}: cannot be read as Parquet: {error}") from None


def _check_columns(path: Path, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ReadError(f"{path}: has the column {twice[0]!a} twice")
    if "id" not in names:
        raise ReadError(f"{path}: has no column id; it has {', '.join(map(ascii, names))}")


def _batch_rows(batch: Any, first: int) -> Iterator[Row]:
    vectors = batch.column("vector") if "vector" in batch.schema.names else None
    rest = batch.drop_columns(["vector"]) if vectors is not None else batch
    for place in range(batch.num_rows):
        try:
            (record,) = rest.slice(place, 1).to_pylist()
        except UnicodeDecodeError as error:
            yield Row(first + place, reason=f"is not UTF-8: {error}")
            continue
        if vectors is not None:
            record["vector"] = _vector(vectors[place])
        yield Row(first + place, _with_payload(record))


def _vector(scalar: Any) -> object:
    """Return a list scalar as an array, without a Python object for every number."""
    numbers = getattr(scalar, "values", None)
    return scalar.as_py() if numbers is None else numbers.to_numpy(zero_copy_only=False)


def _with_payload(record: dict[str, Any]) -> dict[str, Any]:
    payload = record.get("payload")
    others = {
        name: value.isoformat() if isinstance(value, datetime.date) else value
        for name, value in record.items()
        if name not in FIELDS and value is not None
    }
    fields = {name: value for name, value in record.items() if name in FIELDS}
    if others and (payload is None or isinstance(payload, dict)):
        fields["payload"] = {**others, **(payload or {})}
    return fields


def read_npz(path: Path) -> Iterator[Row]:
    """Yield the rows of a NumPy archive, which is read into memory whole.

    Its arrays are `vectors` (numbers, ``[N, D]``), `matrices` (symmetric positive definite,
    ``[N, n, n]``), `text` (strings, ``[N]``) or `codes` (packed codes, ``uint8[N, code_size]``);
    `ids` where the row numbers from 0 will not do; and `labels` (strings or integers, ``[N]``)
    where there are any. Nothing is unpickled.

    Raises:
        ReadError: if it is not such an archive.
    """
    arrays = load_arrays(path)
    given = [name for name in NPZ_CONTENT if name in arrays]
    unknown = sorted(set(arrays) - set(NPZ_KEYS))
    if unknown or len(given) != 1:
        has = ", ".join(sorted(arrays)) or "none"
        message = f"one of {', '.join(NPZ_CONTENT)}, and perhaps ids and labels"
        raise ReadError(f"{path}: has the arrays {has}; it must have {message}")
    content = arrays[given[0]]
    _check_content(path, given[0], content)
    ids = _strings(path, arrays, "ids", len(content))
    labels = _strings(path, arrays, "labels", len(content))
    for place in range(len(content)):
        record: dict[str, object] = {"id": ids[place] if ids is not None else str(place)}
        if labels is not None:
            record["label"] = labels[place]
        if given[0] in ("vectors", "matrices"):
            record["vector"] = content[place]
        elif given[0] == "text":
            record["text"] = str(content[place])
        else:
            record["code"] = content[place].tobytes().hex()
        yield Row(place + 1, record)


def load_arrays(path: Path, names: tuple[str, ...] | None = None) -> dict[str, Array]:
    """Load the arrays of an `.npz` file by name: those of `names`, or all of them.

    Raises:
        ReadError: if it is not an archive of plain arrays or lacks one of `names`.
    """
    try:
        # Opened here: NumPy leaves the file open where its directory turns out to be broken.
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
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise ReadError(f"{path}: cannot be read as an .npz archive: {error}") from None


def _check_content(path: Path, name: str, content: Array) -> None:
    kinds, shape, what = {
        "vectors": ("fiu", 2, "numbers of shape [N, D]"),
        "matrices": ("fiu", 3, "numbers of shape [N, n, n]"),
        "text": ("U", 1, "strings of shape [N]"),
        "codes": ("u", 2, "uint8 of shape [N, code_size]"),
    }[name]
    wide = name == "codes" and content.dtype.itemsize != 1
    if content.dtype.kind not in kinds or content.ndim != shape or wide:
        found = f"{content.dtype} of shape {list(content.shape)}"
        raise ReadError(f"{path}: {name} is {found}; it must be {what}")


def _strings(path: Path, arrays: dict[str, Array], name: str, length: int) -> list[str] | None:
    if name not in arrays:
        return None
    array = arrays[name]
    if array.dtype.kind not in "Uiu" or array.shape != (length,):
        found = f"{array.dtype} of shape {list(array.shape)}"
        raise ReadError(f"{path}: {name} is {found}; it must be {length:,} strings or integers")
    return [str(value) for value in array.tolist()]
