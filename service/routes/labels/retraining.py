"""Retraining over REST: a job makes an encoder of the labels, a person confirms or takes back."""

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
from service.jobs.job_records import JobRecord
from service.jobs.kinds import local_collection
from service.jobs.retrain import check_retrainable
from service.jobs.runner import Jobs
from service.jobs.training_process import can_train
from service.routes.collections.aliases import check_target
from service.routes.dependencies import Folder, GateOf, Limits, names_in_use, render
from service.routes.jobs.jobs import JobsOf, SubmitOf, accepted
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
    """Train an encoder on the collection's texts and labels, as a job, and judge it.

    Labels held out of training tell whether it finds better than the encoder in use. If the gate
    passes, the job ends as `waiting for confirmation`; `POST /v1/jobs/{id}/confirm` then reindexes
    and moves the alias. With `auto` the job does that itself. Searches and writes continue.
    """
    collection = folder.collection(name)
    with pointing_at():
        held = local_collection(collection)
        encoder = check_retrainable(held)
    if limits.training == "here" and not can_train():
        message = (
            "this service cannot train: install hummingbit[train], or set training to elsewhere and"
            " run hummingbit label train where it is installed; neither works on Windows"
        )
        raise ProblemError(501, "training_unavailable", message)
    spec = _spec(name, body, folder, held, encoder.n_bits)
    return accepted(submit("retrain", collection.name, spec))


@router.post(
    "/jobs/{id}/confirm",
    response_model=JobInfo,
    status_code=202,
    openapi_extra=ADMIN,
    summary="Confirm a retraining",
)
def post_confirm(id: str, folder: Folder, jobs: JobsOf, submit: SubmitOf) -> Response:  # noqa: A002
    """Reindex with the encoder that a retraining made, as a job, and move the alias to the result.

    Repeating the request returns the same job, or begins another one if that failed.
    """
    job = _retraining(jobs.get(id))
    if (job.result or {}).get("state") != "waiting for confirmation":
        message = f"job {id} is {job.state}; only one that waits for confirmation can be confirmed"
        raise ProblemError(409, "nothing_to_confirm", message)
    names = ("source", "encoder", "into", "alias", "engine")
    spec = {name: job.spec[name] for name in names}
    folder.encoders.load(spec["encoder"])
    key = (_confirmation(id, jobs), id)
    return accepted(submit("reindex", spec["into"], spec, idempotency=key))


@router.post(
    "/jobs/{id}/take-back",
    response_model=TakenBack,
    openapi_extra=ADMIN,
    summary="Take a retraining or a reindexing back",
)
def post_take_back(id: str, folder: Folder, gate: GateOf, jobs: JobsOf) -> Response:  # noqa: A002
    """Let the alias mean the old collection again; the new one and its encoder stay.

    If documents or labels were written since the alias moved, the response is 409: they are in the
    new collection only, and reindexing it with the old encoder keeps them.
    """
    job = jobs.get(id)
    if job.kind != "reindex":
        job = jobs.with_key(_confirmation(_retraining(job).id, jobs)) or job
    spec, made = job.spec, job.result or {}
    alias = spec["alias"]
    with gate.closed():
        if "generation" not in made or alias is None or folder.aliases().get(alias) != spec["into"]:
            message = f"no alias means {spec['into']!a} because of job {id}"
            raise ProblemError(409, "cannot_take_back", message)
        old, new = folder.collection(spec["source"]), folder.collection(spec["into"])
        if new.generation != made["generation"]:
            message = (
                f"documents or labels of {spec['into']!a} were written since the alias moved to it;"
                f" reindex it with encoder {old.encoder_name!a} to keep them"
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
        raise invalid_field(f"is {encoder!a}, an encoder that there is already", "encoder")
    return {
        **body.model_dump(),
        "into": into,
        "encoder": encoder,
        "alias": alias,
        "source": collection.name,
        "engine": collection.engine_setting,
        "n_bits": body.n_bits or n_bits,
    }


def _next_name(name: str, taken: set[str]) -> str:
    """Return ``NAME-2``, or the first number after it that is free."""
    stem, _, number = name.rpartition("-")
    if not (stem and number.isdecimal()):
        stem, number = name, "1"
    at = int(number) + 1
    while f"{stem}-{at}" in taken:
        at += 1
    return f"{stem}-{at}"


def _retraining(job: JobRecord) -> JobRecord:
    if job.kind != "retrain":
        message = f"job {job.id} is of the kind {job.kind}, not a retraining"
        raise ProblemError(409, "nothing_to_confirm", message)
    return job


def _confirmation(id_: str, jobs: Jobs) -> str:
    """Return the idempotency key of the job that a confirmation begins, or has begun.

    No header holds a line break, so it is no client's key. Those of attempts that failed stay.
    """
    key = f"confirmation of\n{id_}"
    for attempt in count(2):
        begun = jobs.with_key(key)
        if begun is None or begun.state not in {"failed", "cancelled"}:
            break
        key = f"confirmation of\n{id_}\n{attempt}"
    return key
