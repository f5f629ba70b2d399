"""The JSON of the service's health and of what a key may do."""

from __future__ import annotations

from typing import Literal

from hummingbit.service.schemas.common import ResponseModel

# What a key may do.


class Access(ResponseModel):
    """What the key of the request may do here: the roles `write` and `admin` include `read`.

    A `read_only` service takes no writes, whatever the role. `limits` are the settings of the
    service that bound a request. `rankings` are those that searches can name.
    """

    role: Literal["read", "write", "admin"]
    read_only: bool
    version: str
    limits: dict[str, int]
    rankings: list[str]


# Health.


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
