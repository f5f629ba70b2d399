"""The log: one line for each record on standard error, as JSON or text."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import orjson

from hummingbit.index.data_folder import DataFolder
from hummingbit.service.http.request_ids import request_id
from hummingbit.service.settings import Settings

FIELDS = "fields"
"""The key of ``extra`` for a mapping whose items become members of the JSON object."""


class JSONFormatter(logging.Formatter):
    """Writes a record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if id_ := request_id.get():
            entry["request_id"] = id_
        entry |= getattr(record, FIELDS, {})
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(_encodable(entry), default=str).decode()


def configure_logs(settings: Settings) -> None:
    """Write this process's log to standard error, in the format and level of `settings`."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JSONFormatter() if settings.log_format == "json" else text)
    # No format shows these, so they need not be looked up for every record.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    # uvicorn's messages about its start and stop are of no use to an operator, and the writer logs
    # the requests that readers forward with httpx.
    for name in ("uvicorn", "httpx"):
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))


def _encodable(entry: dict[str, Any]) -> dict[str, Any]:
    """Replace lone surrogates, which a client may have put into a path."""
    return {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in entry.items()
    }


def log_problems(folder: DataFolder) -> None:
    """Log which collections of the data folder cannot be opened or written to, and why."""
    log = logging.getLogger("hummingbit.service")
    for name, reason in folder.unavailable().items():
        log.error("collection %s cannot be opened: %s", name, reason)
    for name, problems in folder.problems().items():
        for problem in problems:
            log.error("collection %s cannot be written to: %s", name, problem)
