"""The JSON of retraining, and what its job's result holds."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from service.schemas.common import RequestModel, ResponseModel

NewName = Annotated[
    str | None,
    Field(description="By default the collection's name and the next number that is free."),
]


class Retrain(RequestModel):
    """How to make a better encoder of the labels, and what is to become of it."""

    into: NewName = None
    encoder: Annotated[
        str | None, Field(description="The new encoder's name; by default that of `into`.")
    ] = None
    alias: str | None = Field(
        None,
        description="Moves to the new collection. By default the alias by which the collection was"
        " named in the path, if it was.",
    )
    auto: bool = Field(
        False, description="Go on without a person's confirmation where the gate passes."
    )
    label_field: str | None = Field(
        None,
        description="A payload field with labels for the documents that nobody has labelled.",
    )
    held_out: float = Field(
        0.2, gt=0, le=0.5, description="The share of the labels that is held out to judge by."
    )
    min_gain: float = Field(
        0.0,
        ge=-1,
        le=1,
        description="What the new encoder must add to mAP@100, tie-averaged, on held-out labels.",
    )
    n_bits: int | None = Field(None, description="By default as long as the codes in use.")
    epochs: int | None = Field(
        None, ge=1, le=1000, description="Fewer make it faster; class codes have none."
    )
    seed: int = Field(0, ge=0, le=2**31 - 1)


class TakenBack(ResponseModel):
    """The alias, and the collection that it means again; the new one stays."""

    alias: str
    collection: str
