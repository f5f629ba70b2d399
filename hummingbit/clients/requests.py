"""Requests of both clients: paths, values as JSON has them, and the error of a service.

Nothing here knows httpx, so collections in this process do without it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from datetime import time as clock_time
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode
from uuid import UUID

Answer = TypeVar("Answer")


class ServiceError(RuntimeError):
    """A service refused a request, failed or cannot be reached; the message says which and why.

    `status` and `code` are those of the response, None if there was none. `errors` point to the
    invalid fields of the request. `request_id` names the request in the service's log.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        code: str | None = None,
        errors: Sequence[Mapping[str, str]] = (),
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.errors = errors
        self.request_id = request_id


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """A request whose response is an `Answer`; `repeatable` if a second one has no further effect.

    `body` is sent as JSON, `content` unchanged; of `file`, the content is sent. `read` makes the
    answer from the body of the response; without it, that is the answer.
    """

    method: str
    path: str
    body: Any = None
    content: bytes | None = None
    file: Path | None = None
    repeatable: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[Any], Answer] | None = None


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal; the client is distributed without foundation."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def path_segment(text: str) -> str:
    """Return a text as one segment of a path.

    The segments ``.`` and ``..`` are resolved before they are sent: ``documents/..`` would be the
    collection. So their dots are encoded.
    """
    return quote(text, safe="") if text.strip(".") else text.replace(".", "%2E")


def collection_path(name: str, resource: str = "", **query: Any) -> str:
    """Return the path of a collection or alias, or of one of its resources."""
    path = f"/v1/collections/{path_segment(name)}"
    return f"{path}/{resource}{query_string(**query)}" if resource else path


def document_path(name: str, document_id: str | int) -> str:
    """Return the path of a document.

    Raises:
        TypeError: if the id is neither a text nor a whole number.
    """
    id_ = id_text(document_id)
    if not isinstance(id_, str):
        raise TypeError(f"document_id is {id_!r:.80}; it must be a text or a whole number")
    return collection_path(name, f"documents/{path_segment(id_)}")


def id_text(value: Any) -> Any:
    """Return a whole number, also of numpy, as its digits, and any other value unchanged."""
    if isinstance(value, bool | str) or hasattr(value, "__len__"):
        return value
    is_whole = value.is_integer() if isinstance(value, float) else hasattr(value, "__index__")
    return str(int(value)) if is_whole else value


def encoder_path(name: str) -> str:
    """Return the path of an encoder."""
    return f"/v1/encoders/{path_segment(name)}"


def snapshot_path(snapshot_id: str) -> str:
    """Return the path of a snapshot."""
    return f"/v1/snapshots/{path_segment(snapshot_id)}"


def job_path(job_id: str) -> str:
    """Return the path of a job."""
    return f"/v1/jobs/{path_segment(job_id)}"


def evaluation_path(evaluation_id: str) -> str:
    """Return the path of an evaluation."""
    return f"/v1/evaluations/{path_segment(evaluation_id)}"


def query_string(**fields: Any) -> str:
    """Return the query string of the fields that are not None, or nothing if all are."""
    query = without_none(**fields)
    return f"?{urlencode(query, doseq=True)}" if query else ""


def without_none(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None, ready to be written as JSON."""
    return json_fields({name: value for name, value in fields.items() if value is not None})


def json_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with arrays as lists, and `id` and packed `code` as a service reads them."""
    read = {"code": _code_value, "id": id_text}
    return {name: read.get(name, json_value)(value) for name, value in fields.items()}


def as_list(values: Iterable[Any]) -> Any:
    """Return values as a list; a string stays a string, which the service refuses."""
    if isinstance(values, str):
        return values
    return values.to_pylist() if hasattr(values, "to_pylist") else list(values)


def ids_list(ids: Iterable[str | int] | None) -> Any:
    """Return ids as :func:`as_list` does, whole numbers as their digits; None stays None."""
    if ids is None or isinstance(ids, str):
        return ids
    return [*map(id_text, as_list(ids))]


def plain_value(value: Any) -> Any:
    """Return a value as JSON has it: dates and times in ISO 8601, arrays and sets as lists.

    Raises:
        TypeError: if JSON has no such value.
    """
    if isinstance(value, Mapping):
        _check_names(value)
        return {name: plain_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_value(part) for part in value]
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, date | clock_time):
        return value.isoformat()
    if isinstance(value, UUID | Decimal | PurePath):
        return str(value)
    if hasattr(value, "tolist"):
        return plain_value(value.tolist())
    raise TypeError(f"a value is of type {type(value).__name__}, which JSON does not have")


def _check_names(value: Mapping[Any, Any]) -> None:
    """Raise TypeError if JSON writes two keys of an object alike, such as 1 and "1"."""
    if all(type(name) is str for name in value):
        return
    written: dict[str, Any] = {}
    for name in value:
        text = name if isinstance(name, str) else json.dumps(name)
        if text in written:
            raise TypeError(
                f"an object has the keys {written[text]!r} and {name!r}, which JSON writes alike;"
                " rename one"
            )
        written[text] = name


def check_all_names(value: Any) -> None:
    """Do as :func:`_check_names` for every object inside a value."""
    if isinstance(value, Mapping):
        _check_names(value)
        for part in value.values():
            check_all_names(part)
    elif isinstance(value, list | tuple) and not _SCALARS.issuperset(map(type, value)):
        for part in value:
            check_all_names(part)


_SCALARS = frozenset({str, int, float, bool, type(None)})


def json_value(value: Any) -> Any:
    """Return an array as a list, and any other value unchanged."""
    return value.tolist() if hasattr(value, "tolist") else value


def _code_value(value: Any) -> Any:
    """Return a code in hexadecimal, or with the name of its format if it is an array of bytes."""
    if isinstance(value, bytes | bytearray):
        return value.hex()
    packing = {"uint8": "ubinary", "int8": "binary"}.get(str(getattr(value, "dtype", "")))
    return {packing: value.tolist()} if packing else json_value(value)
