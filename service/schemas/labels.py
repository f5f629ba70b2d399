"""The JSON of labels, judgements and retraining."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from hummingbit.encoder.recipes import DOCUMENT_METHODS
from hummingbit.service.schemas.common import FieldName, RequestModel, ResponseModel, Strings

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
    """One person's `label` or `labels` of a document; without either, they are removed."""

    id: str
    label: str | None = None
    labels: Strings | None = Field(
        None, max_length=100, description="Several labels; `[]` means that no class fits."
    )
    grade: int = Field(1, ge=0, le=1000, description="How well they fit; 0 means not at all.")
    who: Who = None


class PutLabels(RequestModel):
    """Labels to set, all or none; each replaces the same person's labels of the document."""

    labels: list[NewLabel] = Field(min_length=1, max_length=10_000)


class NewJudgement(RequestModel):
    """How well a document answers a query; above 0 is relevant, and null removes the judgement."""

    query: str = Field(min_length=1, max_length=10_000)
    id: str
    grade: int | None = Field(ge=-1000, le=1000)
    who: Who = None


class PutJudgements(RequestModel):
    """Judgements to set, all or none; each replaces the same person's judgement of the pair."""

    judgements: list[NewJudgement] = Field(min_length=1, max_length=10_000)


class AnnotationsWritten(ResponseModel):
    """The number of records that were changed, added or removed; the changes are on disk."""

    changed: int
    generation: int


class Imported(ResponseModel):
    """The records read and changed; `unknown` counts those of documents that do not exist."""

    labels: int
    judgements: int
    changed: int
    unknown: int
    generation: int


class LabelRecord(ResponseModel):
    """A person's labels of a document; `when` is in UTC."""

    id: str
    labels: list[str]
    grade: int
    who: str
    when: str


class LabelPage(ResponseModel):
    """Labels by (id, who); `next_cursor` is null on the last page."""

    labels: list[LabelRecord]
    next_cursor: str | None


class JudgementRecord(ResponseModel):
    """A person's judgement of an answer to a query; `when` is in UTC."""

    query: str
    id: str
    grade: int
    who: str
    when: str


class JudgementPage(ResponseModel):
    """Judgements by (query, id, who); `next_cursor` is null on the last page."""

    judgements: list[JudgementRecord]
    next_cursor: str | None


class Guess(ResponseModel):
    """A label, and its probability by a classifier trained on the labels so far."""

    label: str
    probability: float


class ShownDocument(ResponseModel):
    """A document as a person sees it who labels or judges."""

    id: str
    text: str | None
    payload: dict[str, Any]
    code: str


class SuggestedDocument(ShownDocument):
    """A document to label; `bucket` is the number of documents with its code."""

    guesses: list[Guess]
    bucket: int


class SuggestedLabels(ResponseModel):
    """Documents to label next, the most useful first; `classes` are the labels so far."""

    method: str
    documents: list[SuggestedDocument]
    labelled: int
    classes: list[str]


class LabelCount(ResponseModel):
    """A label, and the number of documents that have it."""

    label: str
    documents: int


class Person(ResponseModel):
    """The number of documents that a person labelled, and of answers that they judged."""

    who: str
    labels: int
    judgements: int


class AgreementInfo(ResponseModel):
    """How far two people agree; `kappa` is Cohen's, null if both always gave the same answer."""

    who: list[str]
    on: str
    items: int
    observed: float
    kappa: float | None


class GainInfo(ResponseModel):
    """What the next label is expected to gain.

    `accuracy` is that of a fast classifier of the labels in cross-validation, `per_label` what one
    more label adds by the power law through `curve`, and `labels_to_one_percent` the number of
    labels until the accuracy rises by 0.01, null if the curve no longer rises.
    """

    accuracy: float
    per_label: float
    labels_to_one_percent: int | None
    curve: list[tuple[int, float]]


class LabelStats(ResponseModel):
    """Counts, agreement, and what the next label is expected to gain, null with too few labels."""

    documents: int
    labelled: int
    labels: list[LabelCount]
    judgements: int
    queries: int
    people: list[Person]
    agreement: list[AgreementInfo]
    expected_gain: GainInfo | None


class PooledDocument(ShownDocument):
    """A document to judge, how informative its judgement is, and its rank in each ranking."""

    weight: float
    ranks: dict[str, int]


class JudgementPool(ResponseModel):
    """Answers to judge, the most informative first; `rankings` counts those of each ranking."""

    query: str
    method: str
    documents: list[PooledDocument]
    rankings: dict[str, int]
    judged: int


# Retraining.


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
    alias: str | None = Field(
        None,
        description="Moves to the new collection. By default the alias in the path, if the path"
        " names the collection by one.",
    )
    label_field: FieldName | None = Field(
        None,
        description="A payload field with labels for the documents that nobody has labelled.",
    )


class TakenBack(ResponseModel):
    """The alias, and the old collection that it names again; the new collection stays."""

    alias: str
    collection: str
