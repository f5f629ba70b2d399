"""Evaluations by a running service, asked for over HTTP with the standard library."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from evaluation.job import Job
from evaluation.report import ReportError, parse_report

POLL_SECONDS = 0.2
TIMEOUT_SECONDS = 60.0
WAIT_SECONDS = 3600.0


class ServiceError(RuntimeError):
    """A service cannot be reached, refused a request or failed; the message says which and why."""


def evaluate_remotely(url: str, collection: str, body: Mapping[str, Any]) -> Job:
    """Have the service at `url` evaluate one of its collections, and wait for the report.

    `body` is what ``POST /v1/collections/{name}/evaluate`` takes.

    Raises:
        ServiceError: if `url` is not http or https, nothing answers there, or the service refuses
            or fails; what it says is in the message.
    """
    if urllib.parse.urlsplit(url).scheme not in {"http", "https"}:
        raise ServiceError(f"--url is {url[:80]!a}; it must begin with http:// or https://")
    address = url.rstrip("/")
    path = f"/v1/collections/{urllib.parse.quote(collection, safe='')}/evaluate"
    _, place = _send(address, path, body)
    if place is None:
        raise ServiceError(f"{address}: does not evaluate in the background; is it a hummingbit?")
    deadline = time.monotonic() + WAIT_SECONDS
    while (found := json.loads(_send(address, place)[0]))["status"] == "running":
        if time.monotonic() > deadline:
            raise ServiceError(f"{address}{place}: is not finished after {WAIT_SECONDS:g} s")
        time.sleep(POLL_SECONDS)
    if found["status"] != "done":
        raise ServiceError(f"{address}: {found['error']}")
    try:
        report = parse_report(json.dumps(found["report"]))
    except ReportError as error:
        raise ServiceError(f"{address}: {error}") from None
    run = _send(address, f"{place}?format=trec")[0] if report.has_run else None
    return Job(report, None if run is None else lambda: run)


def _send(address: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[str, str | None]:
    """Send a request, a POST if there is a body; return the answer and its ``Location``."""
    request = urllib.request.Request(address + path)  # noqa: S310 - the scheme has been checked
    request.add_header("Accept", "application/json")
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
        request.add_header("Prefer", "respond-async")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            return answer.read().decode(), answer.headers.get("Location")
    except urllib.error.HTTPError as error:
        with error:
            raise ServiceError(f"{address}: {_detail(error)}") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise ServiceError(f"{address}: cannot be reached: {reason}") from error


def _detail(error: urllib.error.HTTPError) -> str:
    """Return what a problem says of itself, or else the status."""
    try:
        return str(json.loads(error.read())["detail"])
    except (ValueError, KeyError, TypeError):
        return f"answers {error.code} {error.reason}"
