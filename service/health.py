"""Is the service there, is everything in order, and what can it encode with."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request, Response

from encoder.artifact import ArtifactError
from index.data_folder import DataFolder
from index.errors import UnknownEncoder
from service.body import JSONRoute
from service.errors import ProblemError, problem_response
from service.requests import Folder, render
from service.schemas import Encoders, EncoderSummary, Ready, Status, Unavailable

router = APIRouter(route_class=JSONRoute)


@router.get("/", response_model=dict[str, str], summary="Where to begin")
async def get_root() -> dict[str, str]:
    """Name the service and the address of its description."""
    return {"service": "hummingbit", "openapi": "/openapi.json", "collections": "/v1/collections"}


@router.get("/livez", response_model=Status, summary="Is the process alive?")
async def get_livez() -> Status:
    """Answer, which is all there is to it."""
    return Status(status="alive")


@router.get("/readyz", response_model=Ready, summary="Can everything be opened?")
def get_readyz(request: Request, folder: Folder) -> Response:
    """Name the collections and encoders, or answer 503 with those that cannot be opened, and why.

    The other collections are served all the same.
    """
    encoders, bad_encoders = summarize_encoders(folder)
    collections = {one.name: one.reason for one in unavailable_collections(folder)}
    if not collections and not bad_encoders:
        names = [encoder.name for encoder in encoders]
        return render(Ready(status="ready", collections=[*folder.collections()], encoders=names))
    problems = {
        "collections": collections,
        "encoders": {one.name: one.reason for one in bad_encoders},
    }
    count = len(collections) + len(bad_encoders)
    problem = ProblemError(503, "not_ready", f"{count} in the data folder cannot be opened")
    return problem_response(request, problem, {"unavailable": problems})


@router.get("/v1/encoders", response_model=Encoders, summary="List the encoders")
def get_encoders(folder: Folder) -> Response:
    """List the encoders in the data folder, those that cannot be loaded apart."""
    encoders, unavailable = summarize_encoders(folder)
    return render(Encoders(encoders=encoders, unavailable=unavailable))


def summarize_encoders(folder: DataFolder) -> tuple[list[EncoderSummary], list[Unavailable]]:
    """Load every encoder that is not loaded yet; return those that can be and those that cannot."""
    summaries: list[EncoderSummary] = []
    unavailable: list[Unavailable] = []
    for name in folder.encoder_names():
        try:
            encoder = folder.encoder(name)
        except (ArtifactError, UnknownEncoder) as error:
            unavailable.append(Unavailable(name=name, reason=_without_path(error, folder)))
            continue
        summaries.append(
            EncoderSummary(
                name=name,
                fingerprint=encoder.fingerprint,
                n_bits=encoder.n_bits,
                kind=encoder.kind,
                dimension=encoder.dimension,
                trained_on=_plain(encoder.metadata.get("trained_on")),
            )
        )
    return summaries, unavailable


def unavailable_collections(folder: DataFolder) -> list[Unavailable]:
    """Return the collections that cannot be opened."""
    return [
        Unavailable(name=name, reason=_without_path(reason, folder))
        for name, reason in folder.unavailable().items()
    ]


def _without_path(reason: object, folder: DataFolder) -> str:
    """Say why without telling where on the machine the data folder is."""
    return str(reason).replace(f"{folder.path}/", "")


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else value
