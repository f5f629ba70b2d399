"""How calls are sent, tried again and read; nothing here waits or sends."""

from __future__ import annotations

import email.utils
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import httpx

from hummingbit.clients.file_chunks import async_chunks_of, chunks_of

Answer = TypeVar("Answer")

DEFAULT_URL = "http://127.0.0.1:8000"
URL_VARIABLE = "HUMMINGBIT_URL"
KEY_VARIABLE = "HUMMINGBIT_KEY"
TIMEOUT_SECONDS = 60.0
RETRIES = 3
FIRST_WAIT = 0.2
LONGEST_WAIT = 30.0


class ServiceError(RuntimeError):
    """A service refused, failed or cannot be reached; the message says which and why.

    `status` and `code` are those of its answer, None where there was none; `errors` point to what
    was wrong in the request.
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


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """A request whose answer is an `Answer`; `repeatable` if a second one changes no more.

    `body` is sent as JSON, `content` as it is, and `file` as what it holds.
    """

    method: str
    path: str
    body: Any = None
    content: bytes | None = None
    file: Path | None = None
    repeatable: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)


def settings_of(url: str | None, key: str | None) -> dict[str, Any]:
    """Return what httpx is told; what is not given is read from the environment.

    Raises:
        ServiceError: if the address is not one of http or https.
    """
    url = url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
    key = key or os.environ.get(KEY_VARIABLE)
    if urlsplit(url).scheme not in {"http", "https"}:
        raise ServiceError(f"url is {url[:80]!a}; it must begin with http:// or https://")
    headers = {"Accept": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    return {"base_url": url.rstrip("/"), "headers": headers}


def seconds_to_wait(
    call: Call[Any], found: httpx.Response | Exception, attempt: int
) -> float | None:
    """Return how long to wait before `call` is tried again, or None if it is not to be.

    A service that says ``Retry-After`` is believed; one that asks for more than
    :data:`LONGEST_WAIT` is not waited for. Otherwise waits double, and no two clients' are alike.
    429 comes before any work is done, so whatever was refused so can be sent again.
    """
    if isinstance(found, httpx.Response):
        if found.status_code != 429 and not (found.status_code == 503 and call.repeatable):
            return None
        retry_after = _retry_after(found.headers.get("Retry-After"))
        if retry_after is not None:
            return retry_after if retry_after <= LONGEST_WAIT else None
    elif not call.repeatable:
        return None
    share = random.uniform(0.5, 1.0)  # noqa: S311 - it only spreads the clients
    return min(LONGEST_WAIT, FIRST_WAIT * 2.0**attempt) * share


def error_of(url: str, found: httpx.Response | Exception) -> ServiceError:
    """Return the error of an answer that is no success, or of none at all."""
    if isinstance(found, Exception):
        return ServiceError(f"{url}: cannot be reached: {found or type(found).__name__}")
    try:
        problem = found.json()
        detail = problem["detail"]
    except (ValueError, KeyError, TypeError):
        return ServiceError(
            f"{url}: answers {found.status_code} {found.reason_phrase}", found.status_code
        )
    return ServiceError(
        f"{url}: {detail}",
        found.status_code,
        problem.get("code"),
        problem.get("errors", ()),
        problem.get("request_id"),
    )


def is_done(call: Call[Any], response: httpx.Response, attempt: int) -> bool:
    """Tell whether `response` is a success.

    A deletion that is repeated may find nothing more to delete: the first attempt was done.
    """
    gone = call.method == "DELETE" and attempt > 0 and response.status_code == 404
    return response.is_success or gone


def sent(call: Call[Any], *, waiting: bool = True) -> dict[str, Any]:
    """Return what httpx sends of a call, beside its method and path; it may be one that waits.

    Raises:
        OSError: later, if a file cannot be read.
    """
    if call.file is not None:
        chunks = chunks_of(call.file) if waiting else async_chunks_of(call.file)
        return {"content": chunks, "headers": call.headers}
    if call.content is not None:
        return {"content": call.content, "headers": call.headers}
    return {"json": call.body, "headers": call.headers}


def read(response: httpx.Response) -> Any:
    """Return what an answer holds: JSON, text, or nothing."""
    if not response.is_success or not response.content:
        return None
    if response.headers.get("content-type", "").startswith("application/json"):
        return response.json()
    return response.text


def collection_path(name: str) -> str:
    """Return where a collection, or what an alias means, is."""
    return f"/v1/collections/{quote(name, safe='')}"


def query_string(**fields: Any) -> str:
    """Return the end of an address: a question mark and the fields that are not None, if any."""
    query = given(**fields)
    return f"?{urlencode(query, doseq=True)}" if query else ""


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields of a body, those that are None left out."""
    return {name: plain(value) for name, value in fields.items() if value is not None}


def plain(value: Any) -> Any:
    """Return an array as the list that JSON has for it."""
    return value.tolist() if hasattr(value, "tolist") else value


def _retry_after(header: str | None) -> float | None:
    """Return the seconds that the header says, as a number or as a date; RFC 9110, 10.2.3."""
    if header is None:
        return None
    if header.isascii() and header.isdigit():
        return float(header)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None
