"""Evaluations that run in the background, and the reports of the last ones.

They live in memory: a restart forgets them, and so does the service when newer ones need the room.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from evaluation.formats import FORMATS
from evaluation.job import Job
from evaluation.metrics import MetricError
from evaluation.plots import PlotError
from evaluation.result import EvaluationError
from index.errors import InputError
from service.errors import ProblemError
from service.requests import render
from service.roles import READ
from service.schemas import EvaluationStatus

_log = logging.getLogger("hummingbit.service")

router = APIRouter(prefix="/v1/evaluations")


class Evaluations:
    """Runs evaluations one after the other and keeps the last `most` of them, by a random id."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[str, Future[Job]] = {}
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="evaluation")

    def start(self, work: Callable[[], Job]) -> str:
        """Have `work` done in the background and return the evaluation's id.

        The oldest evaluation that is finished makes room where there is none.

        Raises:
            ProblemError: 503 if as many as are kept are running or waiting.
        """
        with self._lock:
            if len(self._kept) >= self._most:
                finished = (id_ for id_, one in self._kept.items() if one.done())
                oldest = next(finished, None)
                if oldest is None:
                    message = f"{self._most} evaluations are under way; try again later"
                    raise ProblemError(503, "too_many_evaluations", message)
                del self._kept[oldest]
            id_ = secrets.token_hex(8)
            self._kept[id_] = self._worker.submit(work)
            return id_

    def get(self, id_: str) -> Future[Job]:
        """Return an evaluation.

        Raises:
            ProblemError: 404 if there is none of that id, or it has been forgotten.
        """
        found = self._kept.get(id_)
        if found is None:
            message = f"there is no evaluation {id_[:40]!a}; the last {self._most} are kept"
            raise ProblemError(404, "unknown_evaluation", message)
        return found

    def close(self) -> None:
        """Drop what waits and wait for what runs."""
        self._worker.shutdown(cancel_futures=True)


async def _evaluations(request: Request) -> Evaluations:
    evaluations: Evaluations = request.app.state.evaluations
    return evaluations


EvaluationsOf = Annotated[Evaluations, Depends(_evaluations)]


@router.get(
    "/{id}",
    response_model=EvaluationStatus,
    openapi_extra=READ,
    responses={
        200: {"content": {one.media_type: {} for one in FORMATS.values()}},
    },
    summary="Get an evaluation",
)
def get_evaluation(
    id: str,  # noqa: A002 - as in the path
    request: Request,
    evaluations: EvaluationsOf,
    format: str | None = None,  # noqa: A002 - as in the query
) -> Response:
    """Get an evaluation's status and, once it is done, its report.

    The format is that of the query, or else the one that the header ``Accept`` prefers.
    """
    chosen = _check_format(format) if format else _accepted(request.headers.get("accept", "*/*"))
    evaluation = evaluations.get(id)
    if chosen == "json":
        return render(_status(id, evaluation))
    if not evaluation.done():
        raise ProblemError(409, "evaluation_running", "the evaluation is not finished yet")
    if (error := evaluation.exception()) is not None:
        raise ProblemError(409, "evaluation_failed", _sentence(error))
    try:
        text = FORMATS[chosen].write(evaluation.result(), None)
    except PlotError as missing:
        raise ProblemError(501, "format_unavailable", str(missing)) from None
    if text is None:
        message = "there is no TREC run; the notes of the report say why"
        raise ProblemError(406, "format_unavailable", message)
    return Response(text, media_type=FORMATS[chosen].media_type)


def _status(id_: str, evaluation: Future[Job]) -> EvaluationStatus:
    if not evaluation.done():
        return EvaluationStatus(id=id_, status="running", error=None, report=None)
    if (error := evaluation.exception()) is not None:
        return EvaluationStatus(id=id_, status="failed", error=_sentence(error), report=None)
    report = evaluation.result().report
    return EvaluationStatus(id=id_, status="done", error=None, report=report)


def _sentence(error: BaseException) -> str:
    """Say what was wrong with what was asked; anything else goes to the log, paths may be in it."""
    if isinstance(error, EvaluationError | InputError | MetricError):
        return str(error)
    _log.error("an evaluation failed", exc_info=error)
    return "the service failed; its log says why"


def _check_format(name: str) -> str:
    if name not in FORMATS:
        known = ", ".join(FORMATS)
        message = f"format is {name[:40]!a}; it must be one of {known}"
        raise ProblemError(422, "invalid_request", message)
    return name


def _accepted(header: str) -> str:
    """Return the format that the header ``Accept`` prefers; RFC 9110, section 12.5.1."""
    ranges = []
    for part in header.split(","):
        media_type, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = next((one[2:] for one in parameters if one.startswith("q=")), "1")
        try:
            ranges.append((-float(quality), media_type))
        except ValueError:
            continue
    by_type = {one.media_type: name for name, one in FORMATS.items()}
    by_type |= {"*/*": "json", "application/*": "json", "text/*": "markdown", "text/xml": "junit"}
    # The sort is stable: of two that are equally welcome, the first is meant.
    for rank, media_type in sorted(ranges, key=lambda one: one[0]):
        if rank < 0 and media_type in by_type:
            return by_type[media_type]
    known = ", ".join(one.media_type for one in FORMATS.values())
    raise ProblemError(406, "not_acceptable", f"an evaluation can be had as {known}")
