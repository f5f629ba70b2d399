"""The JSON of what a key may do."""

from __future__ import annotations

from typing import Literal

from service.schemas.common import ResponseModel


class Access(ResponseModel):
    """What the key of the request may do here: the roles `write` and `admin` include `read`.

    A `read_only` service takes no writes, whatever the role. `limits` are the settings of the
    service that bound a request.
    """

    role: Literal["read", "write", "admin"]
    read_only: bool
    version: str
    limits: dict[str, int]
