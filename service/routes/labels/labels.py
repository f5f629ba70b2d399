"""Labels of documents over REST, and what to label next."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from evaluation.labelling.label_statistics import label_statistics
from evaluation.labelling.sampling import DEFAULT_METHOD
from evaluation.labelling.suggesting import suggest_documents, suggestions_to_json
from foundation.errors import InputError
from foundation.times import now
from index.annotations.annotation_records import DocumentLabel, label_to_json
from service.http.roles import READ
from service.http.roles import WRITE as WRITE_ROLE
from service.http.routing import JSONRoute
from service.routes.dependencies import LONG_READ, WRITE, Limits
from service.routes.labels.annotation_requests import (
    Cursor,
    LocalCollection,
    PageSize,
    Person,
    PlacesOf,
    WhoAsks,
    key_of,
    page_answer,
    set_given,
)
from service.schemas.checks import pointing_at
from service.schemas.labels.labels import (
    AnnotationsWritten,
    LabelPage,
    LabelStats,
    NewLabel,
    PutLabels,
    SuggestedLabels,
)
from service.schemas.results import JSONAnswer, answer_to_json

router = APIRouter(prefix="/v1/collections/{name}", route_class=JSONRoute)

LabelField = Annotated[
    str | None,
    Query(description="A payload field with labels for the documents that nobody has labelled."),
]


@router.get(
    "/labels",
    response_model=LabelPage,
    openapi_extra=READ,
    dependencies=LONG_READ,
    summary="List labels",
)
def get_labels(
    *,
    collection: LocalCollection,
    limits: Limits,
    limit: PageSize = 100,
    cursor: Cursor = None,
    document: Annotated[str | None, Query(description="Only labels of this document.")] = None,
    who: Person = None,
) -> Response:
    """List what people said of documents, by id of the document and person."""
    found = collection.annotations.labels(key_of(cursor, 2), limit + 1, id_=document, who=who)
    return page_answer("labels", found, limit, label_to_json, limits.max_response_bytes)


@router.put(
    "/labels",
    response_model=AnnotationsWritten,
    openapi_extra=WRITE_ROLE,
    dependencies=WRITE,
    summary="Set labels",
)
def put_labels(collection: LocalCollection, body: PutLabels, asking: WhoAsks) -> Response:
    """Set labels of documents, or take them back: all of them, or none on an error.

    They are on disk when the response arrives. Repeating the request changes nothing.
    """
    return set_given(
        "labels",
        body.labels,
        lambda one: _new_label(one, asking),
        collection.annotations.set_labels,
    )


@router.get(
    "/labels/suggest",
    response_model=SuggestedLabels,
    openapi_extra=READ,
    dependencies=LONG_READ,
    summary="Suggest documents to label",
)
def get_suggested(
    *,
    collection: LocalCollection,
    places: PlacesOf,
    asking: WhoAsks,
    limits: Limits,
    n: Annotated[int, Query(ge=1, le=1000, description="Documents to suggest.")] = 10,
    method: Annotated[str, Query(description="How to choose them.")] = DEFAULT_METHOD,
    label_field: LabelField = None,
    who: Annotated[str | None, Query(description="Who is going to label them.")] = None,
    skip: Annotated[list[str] | None, Query(description="Ids to pass over.")] = None,
) -> Response:
    """Suggest the documents whose labels would teach most, with what they are taken for so far.

    Methods: `tcm` (typical documents of clusters first, then the smallest margins), `margin`,
    `entropy`, `badge`, `typiclust`, `herding`, `core-set`, `random`, and `second-opinion`
    (labelled by others and not by `who`, the least likely labels first). Of more than 20,000
    documents a sample is looked at.
    """
    with pointing_at():
        chosen, labelled = suggest_documents(
            collection,
            places,
            n,
            method,
            label_field=label_field,
            who=who or asking,
            without=skip or [],
        )
    answer = suggestions_to_json(method, chosen, labelled)
    return JSONAnswer(answer_to_json(answer, limits.max_response_bytes))


@router.get(
    "/labels/stats",
    response_model=LabelStats,
    openapi_extra=READ,
    dependencies=LONG_READ,
    summary="Count labels and measure agreement",
)
def get_label_stats(
    collection: LocalCollection, places: PlacesOf, limits: Limits, label_field: LabelField = None
) -> Response:
    """Count labels and judgements by person, and say how far people agree (Cohen's κ).

    Of more than 50 people, those are compared who said most.
    `expected_gain` says what a next label would add, by a power law through the learning curve.
    """
    with pointing_at():
        found = label_statistics(collection, places, label_field)
    answer = LabelStats.model_validate(found).model_dump(mode="json")
    return JSONAnswer(answer_to_json(answer, limits.max_response_bytes))


def _new_label(given: NewLabel, asking: str) -> DocumentLabel | tuple[str, str]:
    """Return the record of what is said; its key where it is taken back."""
    who = given.who or asking
    if given.label is None and given.labels is None:
        return given.id, who
    if given.label is not None and given.labels is not None:
        raise InputError("labels", "is given beside label; only one of the two can be")
    labels = given.labels if given.label is None else [given.label]
    return DocumentLabel(given.id, tuple(labels or ()), who, given.grade, now())
