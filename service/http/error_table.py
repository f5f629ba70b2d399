"""The status and the code of each kind of error, in one table."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from encoder.artifact import ArtifactError
from evaluation.metrics.metric_names import MetricError
from evaluation.result import EvaluationError
from foundation.errors import HummingbitError, InputError
from index.errors import (
    CollectionExists,
    CollectionUnavailable,
    DataFolderError,
    EncoderMismatch,
    InvalidSnapshot,
    SnapshotError,
    StoreError,
    StoreFull,
    StoreReplaced,
    UnknownCollection,
    UnknownDocument,
    UnknownEncoder,
    UnknownSnapshot,
    WritesLost,
)
from service.http.problems import ProblemError, invalid_field

_log = logging.getLogger("hummingbit.service")

PROBLEMS: Mapping[type[HummingbitError], tuple[int, str]] = {
    InputError: (422, "invalid_request"),
    MetricError: (422, "invalid_request"),
    EvaluationError: (422, "cannot_evaluate"),
    UnknownCollection: (404, "unknown_collection"),
    UnknownDocument: (404, "unknown_document"),
    UnknownEncoder: (422, "unknown_encoder"),
    UnknownSnapshot: (404, "unknown_snapshot"),
    CollectionExists: (409, "collection_exists"),
    EncoderMismatch: (409, "encoder_mismatch"),
    CollectionUnavailable: (503, "collection_unavailable"),
    ArtifactError: (503, "encoder_unavailable"),
    InvalidSnapshot: (422, "invalid_snapshot"),
    SnapshotError: (503, "storage_failed"),
    StoreError: (503, "storage_failed"),
    DataFolderError: (503, "storage_failed"),
}
"""Status and code by class; a class that is not listed inherits those of its base class."""

# Clients read these in place of messages that hold paths of this machine.
_PUBLIC: Mapping[type[HummingbitError], str] = {
    CollectionUnavailable: "the collection exists but cannot be opened; GET /readyz says why",
    ArtifactError: "the encoder exists but is damaged; GET /readyz says why",
    SnapshotError: "the snapshot cannot be read or written; the service's log says why",
    StoreFull: "the disk is full; nothing was written",
    StoreReplaced: "files of the data folder were deleted or replaced while the service ran, so it"
    " no longer writes to them; put them back and restart it; GET /readyz names them",
    WritesLost: "the collection lost acknowledged writes, so the service no longer writes to it;"
    " GET /readyz says how many",
}
_UNREADABLE = "the collection cannot be read or written; the service's log says why"


def status_and_code(error: HummingbitError) -> tuple[int, str] | None:
    """Return the entry of an error in :data:`PROBLEMS`, or None if it has none."""
    return next((PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS), None)


def problem_of(error: HummingbitError) -> ProblemError | None:
    """Return the problem of an error, or None if :data:`PROBLEMS` does not list it.

    A message that clients must not read is logged instead.
    """
    entry = status_and_code(error)
    if entry is None:
        return None
    status, code = entry
    if isinstance(error, MetricError):
        return invalid_field(str(error), "metrics")
    if isinstance(error, InputError) and error.field != "name":
        return invalid_field(error.reason, error.field)
    if status >= 500 or isinstance(error, CollectionUnavailable):
        return ProblemError(status, code, _public_message(error))
    detail = f"the collection's {error}" if isinstance(error, InputError) else str(error)
    is_encoder = isinstance(error, UnknownEncoder)
    return ProblemError(
        status, code, detail, [{"pointer": "/encoder", "message": detail}] if is_encoder else ()
    )


def _public_message(error: HummingbitError) -> str:
    for kind in type(error).__mro__:
        if kind in _PUBLIC:
            if isinstance(error, StoreError):
                _log.error("storage failed: %s", error)
            else:
                _log.warning("%s", error)
            return _PUBLIC[kind]
    _log.error("storage failed", exc_info=error)
    return _UNREADABLE
