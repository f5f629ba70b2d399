"""Retraining over REST: a job trains an encoder from the labels; a person confirms or reverts."""

from __future__ import annotations

from itertools import count
from typing import Any

from fastapi import APIRouter, Response

from encoder.codes import check_n_bits
from foundation.errors import InputError
from index.collection import Collection
from index.data_folder import DataFolder
from index.folder.alias_file import AddAlias
from index.folder.names import check_name
from service.http.problems import ProblemError, invalid_field
from service.http.roles import ADMIN
from service.http.routing import JSONRoute
from service.jobs.job_records import Idempotency, JobRecord
from service.jobs.kinds import local_collection
from service.jobs.reindex import is_same_source
from service.jobs.retrain import check_retrainable
from service.jobs.runner import Jobs
from service.jobs.training_process import can_train
from service.routes.collections.aliases import check_target
from service.routes.dependencies import Folder, GateOf, Limits, names_in_use, render
from service.routes.jobs.jobs import JobsOf, SubmitOf, accepted_response
from service.schemas.checks import pointing_at
from service.schemas.jobs.jobs import JobInfo
from service.schemas.labels.retraining import Retrain, TakenBack

router = APIRouter(prefix="/v1", route_class=JSONRoute)


@router.post(
    "/collections/{name}/retrain",
    response_model=JobInfo,
    status_code=202,
    openapi_extra=ADMIN,
    summary="Retrain a collection's encoder",
)
def post_retrain(
    name: str, body: Retrain, folder: Folder, limits: Limits, submit: SubmitOf
) -> Response:
    """Train an encoder on the collection's texts and labels, as a job, and evaluate it.

    The new encoder and the one in use are compared on labels that are held out of training. If the
    gate passes, the job ends as `waiting for confirmation`; `POST /v1/jobs/{id}/confirm` then
    reindexes and moves the alias. With `auto` the job does that itself. Searches and writes
    continue.
    """
    collection = folder.collection(name)
    with pointing_at():
        local = local_collection(collection)
        encoder = check_retrainable(local)
    if limits.training == "here" and not can_train():
        message = (
            "this service cannot train: install hummingbit[train], or set training to elsewhere and"
            " run hummingbit label train where it is installed; neither works on Windows"
        )
        raise ProblemError(501, "training_unavailable", message)
    spec = _spec(name, body, folder, local, encoder.n_bits)
    return accepted_response(submit("retrain", collection.name, spec))


@router.post(
    "/jobs/{id}/confirm",
    response_model=JobInfo,
    status_code=202,
    openapi_extra=ADMIN,
    summary="Confirm a retraining",
)
def post_confirm(id: str, folder: Folder, jobs: JobsOf, submit: SubmitOf) -> Response:  # noqa: A002
    """Reindex with the encoder of a retraining, as a job, and move the alias to the result.

    Repeating the request returns the same job, or starts another one if that failed.
    """
    job = _retraining(jobs.get(id))
    state = (job.result or {}).get("state", job.state)
    if state != "waiting for confirmation":
        message = f"job {id} is {state}; it must be waiting for confirmation"
        raise ProblemError(409, "nothing_to_confirm", message)
    names = ("source", "encoder", "into", "alias", "engine")
    spec = {name: job.spec[name] for name in names}
    folder.encoders.load(spec["encoder"])
    key = Idempotency(_confirmation(id, jobs), id)
    return accepted_response(submit("reindex", spec["into"], spec, idempotency=key))


@router.post(
    "/jobs/{id}/take-back",
    response_model=TakenBack,
    openapi_extra=ADMIN,
    summary="Take a retraining or a reindexing back",
)
def post_take_back(id: str, folder: Folder, gate: GateOf, jobs: JobsOf) -> Response:  # noqa: A002
    """Move the alias back to the old collection; the new one and its encoder stay.

    If documents or labels were written since the alias moved, the response is 409: they are in the
    new collection only. To keep them, reindex it with the old encoder. The response is 409, too, if
    the old collection was deleted and another one has its name.
    """
    job = jobs.get(id)
    if job.kind != "reindex":
        job = jobs.with_key(_confirmation(_retraining(job).id, jobs)) or job
    spec, result, recorded = job.spec, job.result or {}, job.recorded or {}
    alias = spec["alias"]
    with gate.closed():
        has_moved = "generation" in result and alias is not None
        if not has_moved or folder.aliases().get(alias) != spec["into"]:
            message = f"job {id} moved no alias that still names {spec['into']!r}"
            raise ProblemError(409, "cannot_take_back", message)
        old, new = folder.collection(spec["source"]), folder.collection(spec["into"])
        if new.generation != result["generation"]:
            message = (
                f"documents or labels were written to {spec['into']!r} since the alias moved to it;"
                f" to keep them, reindex it with encoder {old.encoder_name!r}"
            )
            raise ProblemError(409, "cannot_take_back", message)
        if not is_same_source(old, recorded):
            message = (
                f"{spec['source']!r} was deleted since alias {alias!r} moved away from it, and"
                f" another collection has its name; to move {alias!r} there all the same, use"
                " POST /v1/aliases"
            )
            raise ProblemError(409, "cannot_take_back", message)
        folder.change_aliases([AddAlias(alias, spec["source"])])
    return render(TakenBack(alias=alias, collection=spec["source"]))


def _spec(
    name: str, body: Retrain, folder: DataFolder, collection: Collection, n_bits: int
) -> dict[str, Any]:
    encoders = set(folder.encoders.names())
    alias = body.alias
    if alias is None and name in folder.aliases():
        alias = name
    into = body.into or _next_name(alias or collection.name, names_in_use(folder) | encoders)
    encoder = body.encoder or into
    check_target(folder, into, alias)
    with pointing_at():
        check_name(encoder, "encoder")
        if body.n_bits is not None:
            try:
                check_n_bits(body.n_bits)
            except ValueError as error:
                raise InputError("n_bits", str(error).removeprefix("n_bits ")) from None
    if encoder in encoders:
        raise invalid_field(f"is {encoder!r}, which already exists; choose another", "encoder")
    return {
        **body.model_dump(),
        "into": into,
        "encoder": encoder,
        "alias": alias,
        "source": collection.name,
        "engine": collection.engine_setting,
        "n_bits": body.n_bits or n_bits,
    }


def _next_name(name: str, existing: set[str]) -> str:
    """Return ``NAME-2``, or with the next free number; ``NAME-2`` itself becomes ``NAME-3``."""
    stem, _, suffix = name.rpartition("-")
    if not (stem and suffix.isdecimal()):
        stem, suffix = name, "1"
    number = int(suffix) + 1
    while f"{stem}-{number}" in existing:
        number += 1
    return f"{stem}-{number}"


def _retraining(job: JobRecord) -> JobRecord:
    if job.kind != "retrain":
        message = f"job {job.id} is of the kind {job.kind}, not a retraining"
        raise ProblemError(409, "nothing_to_confirm", message)
    return job


def _confirmation(id_: str, jobs: Jobs) -> str:
    """Return the idempotency key of the job that a confirmation starts, or has started.

    A header cannot hold a line break, so no client can send this key. Failed attempts keep theirs.
    """
    key = f"confirmation of\n{id_}"
    for attempt in count(2):
        job = jobs.with_key(key)
        if job is None or job.state not in {"failed", "cancelled"}:
            break
        key = f"confirmation of\n{id_}\n{attempt}"
    return key
