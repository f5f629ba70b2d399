"""The JSON of the service's health."""

from __future__ import annotations

from service.schemas.common import ResponseModel


class Root(ResponseModel):
    """Where to start."""

    service: str
    openapi: str
    docs: str
    console: str
    collections: str


class Status(ResponseModel):
    """The service responds."""

    status: str


class Ready(Status):
    """Everything in the data folder can be opened."""

    collections: list[str]
    encoders: list[str]
