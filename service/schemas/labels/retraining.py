"""The JSON of retraining."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from service.schemas.common import FieldName, RequestModel, ResponseModel

NewName = Annotated[
    str | None,
    Field(description="By default the collection's name with the next free number."),
]


class Retrain(RequestModel):
    """How to train a better encoder from the labels, and when to use it."""

    into: NewName = None
    encoder: Annotated[
        str | None, Field(description="The new encoder's name; by default that of `into`.")
    ] = None
    alias: str | None = Field(
        None,
        description="Moves to the new collection. By default the alias in the path, if the path"
        " names the collection by one.",
    )
    auto: bool = Field(
        False, description="If the gate passes, continue without a person's confirmation."
    )
    label_field: FieldName | None = Field(
        None,
        description="A payload field with labels for the documents that nobody has labelled.",
    )
    held_out: float = Field(
        0.2, gt=0, le=0.5, description="The share of the labels held out for the evaluation."
    )
    min_gain: float = Field(
        0.0,
        ge=-1,
        le=1,
        description="What the new encoder must add to the tie-averaged mAP@100 on held-out labels.",
    )
    n_bits: int | None = Field(None, description="By default that of the codes in use.")
    epochs: int | None = Field(
        None, ge=1, le=1000, description="Fewer make training faster; class codes have none."
    )
    seed: int = Field(0, ge=0, le=2**31 - 1)


class TakenBack(ResponseModel):
    """The alias, and the old collection that it names again; the new collection stays."""

    alias: str
    collection: str
