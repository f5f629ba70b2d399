"""How calls are sent, retried and read. Both clients use this; nothing here waits or sends."""

from __future__ import annotations

import asyncio
import email.utils
import json
import os
import random
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

import httpx

from hummingbit.clients.requests import Answer, Call, ServiceError, check_all_names, plain_value

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


# How calls are sent, retried and read. Both clients use this; nothing here waits or sends.


Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)

FAILURES = (httpx.HTTPError, httpx.InvalidURL, UnicodeError)
"""What httpx raises if a request has no response."""

DEFAULT_URL = "http://127.0.0.1:8000"
URL_VARIABLE = "HUMMINGBIT_URL"
KEY_VARIABLE = "HUMMINGBIT_KEY"
TIMEOUT_SECONDS = 60.0
RETRIES = 3
FIRST_WAIT = 0.2
LONGEST_WAIT = 30.0


def open_http(
    kind: type[Http], url: str | None, key: str | None, timeout: float | httpx.Timeout | None
) -> Http:
    """Return a client of httpx; None is replaced by the variable of the environment.

    Raises:
        ServiceError: if the address, the key or a variable of the environment is invalid; it names
            which, and shows no key.
    """
    url_name, url = ("url", url) if url else (URL_VARIABLE, os.environ.get(URL_VARIABLE))
    key_name, key = ("key", key) if key else (KEY_VARIABLE, os.environ.get(KEY_VARIABLE))
    base_url = _check_url(url_name, (url or DEFAULT_URL).strip())
    headers = {"Accept": "application/json"}
    if key := _check_key(key_name, key or ""):
        headers["Authorization"] = f"Bearer {key}"
    try:
        return kind(base_url=base_url, headers=headers, timeout=timeout)
    except (ImportError, ValueError, OSError, httpx.InvalidURL) as error:
        raise _unfit_environment(error) from None


def _check_url(name: str, url: str) -> str:
    shown = _without_password(url)
    try:
        parts, _ = urlsplit(url), httpx.URL(url)
        if parts.scheme not in {"http", "https"}:
            raise ServiceError(f"{name} is {shown!r}; it must begin with http:// or https://")
        (parts.hostname or "").encode("idna")
        if not parts.hostname or parts.port == 0:
            raise ValueError("it must have a host")
    except (ValueError, httpx.InvalidURL) as error:
        raise ServiceError(f"{name} is {shown!r}, which is no address: {error}") from None
    return url.rstrip("/")


def _check_key(name: str, key: str) -> str:
    """Return a key without white space around it, which files and shells leave there."""
    if not isinstance(key, str):
        raise ServiceError(f"{name} is of type {type(key).__name__}; it must be a string")
    stripped = key.strip()
    for position, character in enumerate(stripped):
        if not " " <= character <= "~":
            kind = "a control character" if character.isascii() else "a character beyond ASCII"
            kind = "white space" if character.isspace() else kind
            raise ServiceError(f"{name}: the key has {kind} at position {position}; copy it again")
    return stripped


# Proxies of the environment, which httpx reads when a client is made.


_NO_PROXY = "no"


def _variable(scheme: str) -> tuple[str, str] | None:
    """Return the variable that sets the proxy of a scheme, and its value."""
    for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper()):
        if value := os.environ.get(name, "").strip():
            return name, value
    return None


def _proxy_of(url: str) -> str | None:
    """Return the proxy of the environment that requests to `url` go through, and its variable."""
    parts = urlsplit(url)
    if proxy_bypass(parts.hostname or ""):
        return None
    found = _variable(parts.scheme) or _variable("all")
    return None if found is None else f"the proxy {_without_password(found[1])} of {found[0]}"


def _without_password(address: str) -> str:
    """Return an address without the name and the password of a user, cut to 80 characters."""
    scheme, separator, rest = address.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"[:80]


def _unfit_environment(error: Exception) -> ServiceError:
    """Return the error for a proxy or certificates of the environment that httpx cannot use."""
    if isinstance(error, OSError):
        value = os.environ.get("SSL_CERT_FILE", "")
        reason = error.strerror or type(error).__name__
        message = f"SSL_CERT_FILE is {value[:80]!r}, which is no file of certificates: {reason}"
        return ServiceError(message)
    for scheme in ("http", "https", "all"):
        name, value = _variable(scheme) or ("", "")
        if name and value.startswith("socks") and isinstance(error, ImportError):
            needs = "needs the package socksio: pip install 'httpx[socks]'"
            return ServiceError(f"{name} is {_without_password(value)!r}, which {needs}")
        try:
            httpx.Proxy(value if "://" in value else f"http://{value}")
        except (ValueError, httpx.InvalidURL) as problem:
            reason = f"which is no address of a proxy: {type(problem).__name__}"
            return ServiceError(f"{name} is {_without_password(value)!r}, {reason}")
    name, value = _variable(_NO_PROXY) or ("", "")
    for host in map(str.strip, value.split(",")):
        if "[" in host or "]" in host:
            rule = "write an address of IPv6 without brackets, as ::1"
            return ServiceError(f"{name} has {host[:80]!r}, which is no host; {rule}")
    return ServiceError(f"the proxies of the environment cannot be used: {error}")


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
    elif not call.repeatable or isinstance(outcome, httpx.LocalProtocolError):
        return None
    factor = random.uniform(0.5, 1.0)  # noqa: S311 - it only spreads the clients' retries
    return min(LONGEST_WAIT, FIRST_WAIT * 2.0**attempt) * factor


def service_error(url: str, outcome: httpx.Response | Exception) -> ServiceError:
    """Return the error for a response that is not a success, or for a failed request."""
    url = _without_password(url.rstrip("/"))
    if isinstance(outcome, Exception):
        return ServiceError(f"{url}: {_failure(url, outcome)}")
    try:
        problem = outcome.json()
        detail = problem["detail"]
    except (ValueError, KeyError, TypeError):
        found = f"returned {outcome.status_code} {outcome.reason_phrase}"
        if outcome.has_redirect_location:
            found += f"; it has moved to {outcome.headers['Location'][:200]}"
        elif proxy := _proxy_of(url):
            found += f", perhaps from {proxy}"
        return ServiceError(f"{url}: {found}", outcome.status_code)
    return ServiceError(
        f"{url}: {detail}",
        outcome.status_code,
        problem.get("code"),
        problem.get("errors", ()),
        problem.get("request_id"),
    )


_REASONS: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    ((httpx.ConnectTimeout,), "{peer} accepted no connection within {seconds}"),
    ((httpx.PoolTimeout,), "no connection of this client was free within {seconds}"),
    ((httpx.TimeoutException,), "did not answer within {seconds}; pass a longer timeout"),
    (
        (httpx.ProxyError,),
        "{peer} cannot be used: {error}; unset the variable, or name the host in NO_PROXY",
    ),
    ((httpx.ConnectError, UnicodeError, httpx.InvalidURL), "cannot be reached: {error}"),
    # Its text shows the header, which may be the key.
    ((httpx.LocalProtocolError,), "cannot be sent: a header holds characters that none may have"),
    (
        (httpx.RemoteProtocolError, httpx.DecodingError),
        "broke off its response, or does not speak HTTP: {error}",
    ),
    ((httpx.NetworkError,), "the connection was lost: {error}"),
    ((Exception,), "the request failed: {error}"),
)
"""Why a request had no response, by its exception; the first that fits."""


def _failure(url: str, error: Exception) -> str:
    """Return why a request had no response."""
    proxy, kind = _proxy_of(url), type(error)
    if proxy and issubclass(kind, httpx.ConnectError):  # that was the connection to the proxy
        kind = httpx.ProxyError
    text = next(text for kinds, text in _REASONS if issubclass(kind, kinds))
    reason = _reason_of(error)
    if "WRONG_VERSION_NUMBER" in reason:
        reason += "; does the address begin with http://?"
    return text.format(peer=proxy or "it", seconds=_seconds_of(error), error=reason)


def _reason_of(error: BaseException) -> str:
    """Return the reason of the operating system behind an error of httpx, or else its text."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BaseExceptionGroup):  # an attempt for each address of a host
            cause = cause.exceptions[0]
        if isinstance(cause, ConnectionError) and cause.errno:
            return os.strerror(cause.errno)  # asyncio has words of its own
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__


def _seconds_of(error: Exception) -> str:
    """Return the limit that a request ran into."""
    limits: Mapping[str, float] = {}
    if isinstance(error, httpx.TimeoutException):
        with suppress(RuntimeError):  # it has no request
            limits = error.request.extensions.get("timeout") or {}
    kind = type(error).__name__.removesuffix("Timeout").lower()
    return f"{limits[kind]:g} s" if limits.get(kind) else "its limit"


def is_done(call: Call[Any], response: httpx.Response, attempt: int) -> bool:
    """Return whether `response` is a success.

    A repeated deletion that finds nothing counts as one: an earlier attempt deleted it.
    """
    is_gone = call.method == "DELETE" and attempt > 0 and response.status_code == 404
    return response.is_success or is_gone


UNPICKLED = "a client cannot be sent to another process; open another there, at the same address"
"""Why pickle, with which multiprocessing and joblib send arguments, refuses a client."""


def check_open(http: httpx.Client | httpx.AsyncClient, process: int) -> None:
    """Raise ServiceError if a client was closed, or opened in another process than this one.

    Two processes that share a connection would read each other's responses.
    """
    if process != (here := os.getpid()):
        opened = f"the client was opened before a fork, in process {process}"
        raise ServiceError(f"{opened}; open another in this process, {here}")
    if http.is_closed:
        raise ServiceError("the client is closed; open another")


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
    check_all_names(call.body)
    try:
        content = json.dumps(call.body, default=plain_value, ensure_ascii=False, allow_nan=False)
        encoded = content.encode()
    except ValueError as error:
        if "ircular" in str(error):  # a list that holds itself
            raise
        raise ServiceError(_explain_no_json(call.body)) from None
    return {"content": encoded, "headers": {**JSON, **call.headers}}


def _explain_no_json(value: Any, at: str = "") -> str:
    """Return where a value has a number or a text that JSON in UTF-8 does not have, and what."""
    value = plain_value(value)
    parts: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else ()
    for name, part in enumerate(value) if isinstance(value, list) else parts:
        if isinstance(name, str) and not _is_json(name):
            return f"{at or '/'}: has the key {name!r:.60}, which holds a lone surrogate"
        if not _is_json(part):
            return _explain_no_json(part, f"{at}/{name}")
    rule = "a number must be finite, and a text without lone surrogates"
    return f"{at or 'the body'}: is {value!r:.60}; {rule}"


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, default=plain_value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return False
    return True


def answer_of(call: Call[Answer], response: httpx.Response) -> Answer:
    """Return what a response answers to a call: parsed JSON, text, or None.

    Raises:
        ServiceError: if it is a page of HTML, or JSON that cannot be parsed; a service has neither.
    """
    body: Any = None
    if response.is_success and response.content:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        try:
            body = response.json() if kind == "application/json" else response.text
        except ValueError:
            kind = "text/html"
        if kind == "text/html":
            url = f"{response.url.scheme}://{response.url.netloc.decode()}"
            proxy = _proxy_of(url)
            rule = f"is it the address of a service{f', or is it {proxy}' if proxy else ''}?"
            raise ServiceError(f"{url}: returned what is no JSON; {rule}", response.status_code)
    return cast("Answer", body) if call.read is None else call.read(body)


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
