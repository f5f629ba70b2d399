"""The JSON of maps."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.schemas.common import RequestModel, ResponseModel


class DrawMap(RequestModel):
    """How the distinct codes are laid out in the plane.

    `tsne` shows neighbourhoods and needs openTSNE, an optional package; `pca` shows the coarse
    shape. Left out, the best one that is installed.
    """

    method: Literal["pca", "tsne"] | None = None
    label_field: str = Field("label", description="The payload field that holds the label.")
    seed: int = Field(0, ge=0, le=2**31 - 1)


class MapDescription(ResponseModel):
    """A finished map. The generation is that of the collection when it was read.

    `labels` are the 200 most frequent and `label_documents` how many documents have each.
    """

    collection: str
    generation: int
    n_bits: int
    method: Literal["pca", "tsne"]
    label_field: str
    seed: int
    documents: int
    distinct_codes: int
    points: int
    labels: list[str]
    label_documents: list[int]


class MapStatus(ResponseModel):
    """A map that a job draws: `map` once it is done, `error` if it failed."""

    id: str
    status: Literal["running", "done", "failed"]
    error: str | None
    map: MapDescription | None
