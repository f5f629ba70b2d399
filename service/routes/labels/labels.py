"""Labels of documents over REST, and suggestions of what to label next."""

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
    RequestPerson,
    page_answer,
    parse_cursor,
    write_entries,
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
    """List the labels of documents, ordered by id of the document and person."""
    key = parse_cursor(cursor, 2)
    records = collection.annotations.labels(key, limit + 1, id_=document, who=who)
    return page_answer("labels", records, limit, label_to_json, limits.max_response_bytes)


@router.put(
    "/labels",
    response_model=AnnotationsWritten,
    openapi_extra=WRITE_ROLE,
    dependencies=WRITE,
    summary="Set labels",
)
def put_labels(collection: LocalCollection, body: PutLabels, person: RequestPerson) -> Response:
    """Set or remove labels of documents: all of them, or none on an error.

    They are on disk when the response arrives. Repeating the request changes nothing.
    """
    return write_entries(
        "labels",
        body.labels,
        lambda entry: _new_label(entry, person),
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
    person: RequestPerson,
    limits: Limits,
    n: Annotated[int, Query(ge=1, le=1000, description="Documents to suggest.")] = 10,
    method: Annotated[str, Query(description="How to choose them.")] = DEFAULT_METHOD,
    label_field: LabelField = None,
    who: Annotated[str | None, Query(description="The person who will label them.")] = None,
    skip: Annotated[list[str] | None, Query(description="Ids to skip.")] = None,
) -> Response:
    """Suggest the documents whose labels would teach most, with the most likely labels of each.

    Methods: `tcm` (typical documents of clusters first, then `cluster-margin`), `typiclust`,
    `cluster-margin`, `margin`, `entropy`, `badge`, `herding`, `core-set`, `random`, and
    `second-opinion` (labelled by others and not by `who`, the least likely labels first). Of more
    than 20,000 documents, a sample is considered.
    """
    with pointing_at():
        suggested, labelled = suggest_documents(
            collection,
            places,
            n,
            method,
            label_field=label_field,
            who=who or person,
            without=skip or [],
        )
    answer = suggestions_to_json(method, suggested, labelled)
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
    """Count labels and judgements by person, and measure how far people agree (Cohen's κ).

    Of more than 50 people, only the 50 with the most records are compared. `expected_gain` is what
    the next label would add, by a power law through the learning curve.
    """
    with pointing_at():
        statistics = label_statistics(collection, places, label_field)
    answer = LabelStats.model_validate(statistics).model_dump(mode="json")
    return JSONAnswer(answer_to_json(answer, limits.max_response_bytes))


def _new_label(entry: NewLabel, person: str) -> DocumentLabel | tuple[str, str]:
    """Return the labels to set, or the key of those to remove."""
    who = entry.who or person
    if entry.label is None and entry.labels is None:
        return entry.id, who
    if entry.label is not None and entry.labels is not None:
        raise InputError("labels", "cannot be combined with label; send one of the two")
    labels = entry.labels if entry.label is None else [entry.label]
    return DocumentLabel(entry.id, tuple(labels or ()), who, entry.grade, now())
