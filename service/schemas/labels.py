"""The JSON of labels, judgements and retraining."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hummingbit.corpus.grades import MAX_GRADE
from hummingbit.encoder.recipes import DOCUMENT_METHODS
from hummingbit.service.schemas.common import FIRST_ERROR, FieldName, RequestModel, Strings

# Labels and judgements.


Who = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=64,
        description="The person; by default the name of the request's key, or `anonymous`.",
    ),
]


class NewLabel(RequestModel):
    """One person's `label` or `labels` of a document; a label of null removes them."""

    id: str
    label: str | None = None
    labels: Strings | None = Field(
        None, max_length=100, description="Several labels; `[]` means that no class fits."
    )
    grade: int = Field(1, ge=0, le=MAX_GRADE, description="How well they fit; 0 means not at all.")
    who: Who = None


class PutLabels(RequestModel):
    """Labels to set, all or none; each replaces the same person's labels of the document."""

    labels: Annotated[list[NewLabel], FIRST_ERROR] = Field(min_length=1, max_length=10_000)


class NewJudgement(RequestModel):
    """How well a document answers a query; above 0 is relevant, and null removes the judgement."""

    query: str = Field(min_length=1, max_length=10_000)
    id: str
    grade: int | None = Field(ge=-MAX_GRADE, le=MAX_GRADE)
    who: Who = None


class PutJudgements(RequestModel):
    """Judgements to set, all or none; each replaces the same person's judgement of the pair."""

    judgements: Annotated[list[NewJudgement], FIRST_ERROR] = Field(min_length=1, max_length=10_000)


# Retraining.


NewName = Annotated[
    str | None,
    Field(description="By default the collection's name with the next free number."),
]


AliasToMove = Annotated[
    str | None,
    Field(
        description="Moves to the new collection. By default the alias in the path, if the path"
        " names the collection by one."
    ),
]
LabelField = Annotated[
    FieldName | None,
    Field(description="A payload field with labels for the documents that nobody has labelled."),
]


class Retrain(RequestModel):
    """How to train a better encoder from the labels, and when to use it."""

    into: NewName = None
    encoder: Annotated[
        str | None, Field(description="The new encoder's name; by default that of `into`.")
    ] = None
    alias: AliasToMove = None
    auto: bool = Field(
        False, description="If the gate passes, continue without a person's confirmation."
    )
    label_field: LabelField = None
    held_out: float = Field(
        0.2, gt=0, le=0.5, description="The share of the labels held out for the evaluation."
    )
    min_gain: float = Field(
        0.0,
        ge=-1,
        le=1,
        description="What the new encoder must add to the tie-averaged mAP@100 on held-out labels.",
    )
    accept_uncertain: bool = Field(
        False,
        description="Let the gate pass although the held-out labels are too few to tell, or known"
        " to the encoder in use.",
    )
    n_bits: int | None = Field(None, description="By default that of the codes in use.")
    epochs: int | None = Field(
        None, ge=1, le=1000, description="Fewer make training faster; class codes have none."
    )
    seed: int = Field(0, ge=0, le=2**31 - 1)


class Train(RequestModel):
    """How to train an encoder on a collection's documents, and where to use it."""

    method: str | None = Field(
        None,
        description="By default class-codes or ssb-vae for documents with labels, ict for texts"
        " without, sne for vectors without.",
        json_schema_extra={"enum": [*DOCUMENT_METHODS, None]},
    )
    for_search: bool = Field(
        False,
        description="Without a method, choose the one that `quickstart` chooses: of codes that find"
        " texts by their words, by what a language model knows and by their labels, if they have"
        " any.",
    )
    compare: bool = Field(
        False,
        description="Learn from a sample of the documents, at most 10,000, and hold a tenth out."
        " Both encoders search for these, and unless the new one finds more, nothing changes.",
    )
    settings: dict[str, bool | int | float | str] = Field(
        {},
        description="Settings of the method, by the names of `hummingbit train METHOD --help` with"
        " underscores; `n_bits` stands for --bits, `label_fraction` for --supervision.",
        examples=[{"n_bits": 128, "epochs": 20}],
    )
    encoder: Annotated[
        str | None,
        Field(description="The encoder's name; by default that of `into`, or a free one."),
    ] = None
    into: str | None = Field(
        None,
        description="Reindex the documents into a collection of this name. Without it, or an"
        " alias, the encoder is trained and nothing else changes.",
    )
    alias: AliasToMove = None
    label_field: LabelField = None
