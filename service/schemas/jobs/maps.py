"""The JSON of maps."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.schemas.common import FieldName, RequestModel, ResponseModel


class DrawMap(RequestModel):
    """How to lay out the distinct codes in the plane.

    `tsne` shows neighbourhoods and needs openTSNE, an optional package; `pca` shows the coarse
    shape. By default, `method` is the best one installed.
    """

    method: Literal["pca", "tsne"] | None = None
    label_field: FieldName = Field("label", description="The payload field that holds the label.")
    time_field: FieldName | None = Field(
        None, min_length=1, description="A payload field of numbers or ISO 8601 dates."
    )
    seed: int = Field(0, ge=0, le=2**31 - 1)


class TimeScale(ResponseModel):
    """The values of the time field: numbers, or dates as ISO 8601 in UTC.

    The scale reaches from `start` to `end`. A hundredth of the documents with a value lies before
    it and another after it, down to `least` and up to `most`.
    """

    field: str
    kind: Literal["number", "date"]
    documents: int
    start: float | str
    end: float | str
    least: float | str
    most: float | str


class MapDescription(ResponseModel):
    """A finished map of the collection at `generation`.

    `labels` are the 200 most frequent of the label field, and `label_documents` the number of
    documents of each; `given_labels` are those that people gave, if they agree. `time` is present
    if the map was drawn with a time field.
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
    given_labels: list[str]
    given_label_documents: list[int]
    time: TimeScale | None


class MapStatus(ResponseModel):
    """A map that a job draws: `map` once it is done, `error` if it failed."""

    id: str
    status: Literal["running", "done", "failed"]
    error: str | None
    map: MapDescription | None
