"""The log: a line a record on standard error, JSON unless a person is to read it."""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import orjson

from index.data_folder import DataFolder
from service.settings import Settings

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The request that this task or thread works on, as ``X-Request-ID`` names it."""

FIELDS = "fields"
"""Key of ``extra`` for a mapping whose entries become members of the JSON object."""


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
        if name := request_id.get():
            entry["request_id"] = name
        entry |= getattr(record, FIELDS, {})
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(_encodable(entry), default=str).decode()


def configure_logs(settings: Settings) -> None:
    """Send what this process logs to standard error, as `settings` say."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JSONFormatter() if settings.log_format == "json" else text)
    # What no format shows need not be found out for every record.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    # What uvicorn has to say of its start and stop is of no use to an operator.
    # What a reader passes on is logged by the process that answers it.
    for name in ("uvicorn", "httpx"):
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))


def _encodable(entry: dict[str, Any]) -> dict[str, Any]:
    """Replace lone surrogates, which a client may have put into a path."""
    return {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in entry.items()
    }


def log_problems(folder: DataFolder) -> None:
    """Log what cannot be opened or written in the data folder."""
    log = logging.getLogger("hummingbit.service")
    for name, reason in folder.unavailable().items():
        log.error("collection %s cannot be opened: %s", name, reason)
    for name, problems in folder.problems().items():
        for problem in problems:
            log.error("collection %s cannot be written: %s", name, problem)
