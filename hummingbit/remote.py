"""Evaluations by a running service."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from evaluation.reports.job import Job
from evaluation.reports.report import ReportError, parse_report
from hummingbit.calls import ServiceError
from hummingbit.client import Client

POLL_SECONDS = 0.2
WAIT_SECONDS = 3600.0


def evaluate_remotely(url: str, collection: str, body: Mapping[str, Any]) -> Job:
    """Have the service at `url` evaluate one of its collections, and wait for the report.

    `body` is what ``POST /v1/collections/{name}/evaluate`` takes.

    Raises:
        ServiceError: if `url` is not http or https, nothing answers there, or the service refuses
            or fails; what it says is in the message.
    """
    with Client(url) as client:
        id_ = client.evaluate(collection, body)["id"]
        deadline = time.monotonic() + WAIT_SECONDS
        while (found := client.evaluation(id_))["status"] == "running":
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"{url}: evaluation {id_} is not finished after {WAIT_SECONDS:g} s"
                )
            time.sleep(POLL_SECONDS)
        if found["status"] != "done":
            raise ServiceError(f"{url}: {found['error']}")
        try:
            report = parse_report(json.dumps(found["report"]))
        except ReportError as error:
            raise ServiceError(f"{url}: {error}") from None
        run = client.trec_run(id_) if report.has_run else None
    return Job(report, None if run is None else lambda: run)
