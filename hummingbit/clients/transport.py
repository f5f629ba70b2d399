"""How calls are sent, retried and read. Both clients use this; nothing here waits or sends."""

from __future__ import annotations

import asyncio
import email.utils
import hashlib
import json
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from datetime import time as clock_time
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit
from uuid import UUID

import httpx

JSON = {"Content-Type": "application/json"}

# Reads files in chunks, to send them to a service.


CHUNK = 1 << 18


def chunks_of(path: Path) -> Iterator[bytes]:
    """Yield the content of a file."""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


async def async_chunks_of(path: Path) -> AsyncIterator[bytes]:
    """Yield the content of a file; another thread reads it, so the event loop does not wait."""
    with await asyncio.to_thread(path.open, "rb") as file:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal; the client is distributed without foundation."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# How calls are sent, retried and read. Both clients use this; nothing here waits or sends.


Answer = TypeVar("Answer")

DEFAULT_URL = "http://127.0.0.1:8000"
URL_VARIABLE = "HUMMINGBIT_URL"
KEY_VARIABLE = "HUMMINGBIT_KEY"
TIMEOUT_SECONDS = 60.0
RETRIES = 3
FIRST_WAIT = 0.2
LONGEST_WAIT = 30.0


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


def http_settings(url: str | None, key: str | None) -> dict[str, Any]:
    """Return arguments of httpx's clients; None is replaced by the variable of the environment.

    Raises:
        ServiceError: if the address does not begin with http:// or https://.
    """
    url = url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
    key = key or os.environ.get(KEY_VARIABLE)
    if urlsplit(url).scheme not in {"http", "https"}:
        raise ServiceError(f"url is {url[:80]!r}; it must begin with http:// or https://")
    headers = {"Accept": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    return {"base_url": url.rstrip("/"), "headers": headers}


def seconds_to_wait(
    call: Call[Any], outcome: httpx.Response | Exception, attempt: int
) -> float | None:
    """Return how long to wait before `call` is retried, or None if it must not be retried.

    The header ``Retry-After`` decides, unless it asks for more than :data:`LONGEST_WAIT`; then
    there is no retry. Without it, waits double, times a random factor. A service returns 429 before
    it does any work, so every such call is retried.
    """
    if isinstance(outcome, httpx.Response):
        if outcome.status_code != 429 and not (outcome.status_code == 503 and call.repeatable):
            return None
        retry_after = _retry_after(outcome.headers.get("Retry-After"))
        if retry_after is not None:
            return retry_after if retry_after <= LONGEST_WAIT else None
    elif not call.repeatable:
        return None
    factor = random.uniform(0.5, 1.0)  # noqa: S311 - it only spreads the clients' retries
    return min(LONGEST_WAIT, FIRST_WAIT * 2.0**attempt) * factor


def service_error(url: str, outcome: httpx.Response | Exception) -> ServiceError:
    """Return the error for a response that is not a success, or for a failed connection."""
    if isinstance(outcome, Exception):
        return ServiceError(f"{url}: cannot be reached: {outcome or type(outcome).__name__}")
    try:
        problem = outcome.json()
        detail = problem["detail"]
    except (ValueError, KeyError, TypeError):
        return ServiceError(
            f"{url}: returned {outcome.status_code} {outcome.reason_phrase}", outcome.status_code
        )
    return ServiceError(
        f"{url}: {detail}",
        outcome.status_code,
        problem.get("code"),
        problem.get("errors", ()),
        problem.get("request_id"),
    )


def is_done(call: Call[Any], response: httpx.Response, attempt: int) -> bool:
    """Return whether `response` is a success.

    A repeated deletion that finds nothing counts as one: an earlier attempt deleted it.
    """
    is_gone = call.method == "DELETE" and attempt > 0 and response.status_code == 404
    return response.is_success or is_gone


def request_arguments(call: Call[Any], *, asynchronous: bool = False) -> dict[str, Any]:
    """Return the arguments of httpx's ``request`` for a call, besides its method and path.

    Reading `call.file` can raise OSError while it is sent.
    """
    if call.file is not None:
        chunks = async_chunks_of(call.file) if asynchronous else chunks_of(call.file)
        return {"content": chunks, "headers": call.headers}
    if call.content is not None:
        return {"content": call.content, "headers": call.headers}
    if call.body is None:
        return {"headers": call.headers}
    content = json.dumps(call.body, default=plain_value, ensure_ascii=False, allow_nan=False)
    return {"content": content.encode(), "headers": {**JSON, **call.headers}}


def answer_of(call: Call[Answer], response: httpx.Response) -> Answer:
    """Return what a response answers to a call: parsed JSON, text, or None."""
    body: Any = None
    if response.is_success and response.content:
        is_json = response.headers.get("content-type", "").startswith("application/json")
        body = response.json() if is_json else response.text
    return cast("Answer", body) if call.read is None else call.read(body)


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


def json_value(value: Any) -> Any:
    """Return an array as a list, and any other value unchanged."""
    return value.tolist() if hasattr(value, "tolist") else value


def _code_value(value: Any) -> Any:
    """Return a code in hexadecimal, or with the name of its format if it is an array of bytes."""
    if isinstance(value, bytes | bytearray):
        return value.hex()
    packing = {"uint8": "ubinary", "int8": "binary"}.get(str(getattr(value, "dtype", "")))
    return {packing: value.tolist()} if packing else json_value(value)


def _retry_after(header: str | None) -> float | None:
    """Return the seconds of the header, which is a number or a date (RFC 9110, 10.2.3)."""
    if header is None:
        return None
    if header.isascii() and header.isdigit():
        return float(header)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None
