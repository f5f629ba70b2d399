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
"""By kind; a kind that is not listed is the one that it is derived from."""

# What clients read in place of messages that tell where on the machine something lies.
_PUBLIC: Mapping[type[HummingbitError], str] = {
    CollectionUnavailable: "the collection exists but cannot be opened; GET /readyz says why",
    ArtifactError: "the encoder exists but is damaged; GET /readyz says why",
    StoreFull: "the disk is full; nothing was written",
    StoreReplaced: "files of the data folder were deleted or replaced under the running service, so"
    " nothing is written to them; put them back and restart the service, GET /readyz names them",
    WritesLost: "the collection lost writes that were acknowledged, so nothing more is written to"
    " it; GET /readyz says how many",
}
_UNREADABLE = "the collection could not be read or written; the service's log says why"


def status_and_code(error: HummingbitError) -> tuple[int, str] | None:
    """Return what :data:`PROBLEMS` says of an error; None if it does not know the kind."""
    return next((PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS), None)


def problem_of(error: HummingbitError) -> ProblemError | None:
    """Return the problem that an error is; None if it is not one of a request.

    Messages that clients should not read are logged instead.
    """
    found = status_and_code(error)
    if found is None:
        return None
    status, code = found
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
            storage = isinstance(error, StoreError)
            _log.log(
                logging.ERROR if storage else logging.WARNING,
                "storage failed: %s" if storage else "%s",
                error,
            )
            return _PUBLIC[kind]
    _log.error("storage failed", exc_info=error)
    return _UNREADABLE
