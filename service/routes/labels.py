"""Labels of documents and judgements of answers over REST, and what to label next."""

from __future__ import annotations

import base64
import binascii
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from evaluation.labelling.agreement import agreement_on_judgements, agreement_on_labels
from evaluation.labelling.gain import expected_gain
from evaluation.labelling.places import PlacesCache
from evaluation.labelling.pooling import AP_PRIOR
from evaluation.labelling.sampling import DEFAULT_METHOD
from evaluation.labelling.suggesting import (
    labelled_pool,
    pool_answers,
    suggest_documents,
)
from index.annotations.records import (
    ANONYMOUS,
    DocumentLabel,
    Judgement,
    agreed_labels,
    is_storable,
    judgement_to_json,
    label_to_json,
    now,
)
from index.collection import Collection
from index.errors import InputError
from service.http.admission import given_key
from service.http.problems import invalid_field
from service.http.roles import READ
from service.http.roles import WRITE as WRITE_ROLE
from service.http.routing import JSONRoute
from service.jobs.kinds import local
from service.routes.dependencies import (
    LONG_READ,
    WRITE,
    CollectionOf,
    Limits,
    render,
)
from service.schemas.checks import located
from service.schemas.labels import (
    AnnotationsWritten,
    JudgementPage,
    JudgementPool,
    LabelPage,
    LabelStats,
    NewJudgement,
    NewLabel,
    PutJudgements,
    PutLabels,
    SuggestedLabels,
)
from service.schemas.results import JSONAnswer, answer_to_json, stored_document

router = APIRouter(prefix="/v1/collections/{name}", route_class=JSONRoute)

Page = Annotated[int, Query(ge=1, le=1000, description="Records on a page.")]
Cursor = Annotated[str | None, Query(description="The `next_cursor` of the page before.")]
Person = Annotated[str | None, Query(description="Only what this person said.")]
Field = Annotated[
    str | None,
    Query(description="A payload field whose labels count where nobody has labelled a document."),
]


async def _places(request: Request) -> PlacesCache:
    places: PlacesCache = request.app.state.places
    return places


async def _local(collection: CollectionOf) -> Collection:
    try:
        return local(collection)
    except InputError:
        message = f"collection {collection.name!a} is on Milvus, which keeps no labels"
        raise invalid_field(message) from None


async def _who(request: Request) -> str:
    name: str | None = request.app.state.keyring.name_of(given_key(request.headers))
    return name or ANONYMOUS


PlacesOf = Annotated[PlacesCache, Depends(_places)]
LocalCollection = Annotated[Collection, Depends(_local)]
WhoAsks = Annotated[str, Depends(_who)]


@router.get(
    "/labels",
    response_model=LabelPage,
    openapi_extra=READ,
    dependencies=LONG_READ,
    summary="List labels",
)
def get_labels(
    collection: LocalCollection,
    limit: Page = 100,
    cursor: Cursor = None,
    document: Annotated[str | None, Query(description="Only labels of this document.")] = None,
    who: Person = None,
) -> Response:
    """List what people said of documents, by id of the document and person."""
    found = collection.annotations.labels(_key_of(cursor, 2), limit + 1, id_=document, who=who)
    records, next_cursor = _page(found, limit)
    body = {"labels": [label_to_json(one) for one in records], "next_cursor": next_cursor}
    return JSONAnswer(json.dumps(body, ensure_ascii=False))


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
    labels, removed = [], []
    for place, one in enumerate(body.labels):
        with _located_among("labels", [place]):
            label = _new_label(one, asking)
        if label is None:
            removed.append((one.id, one.who or asking))
        else:
            labels.append((place, label))
    with _located_among("labels", [place for place, _ in labels]):
        written = collection.annotations.set_labels([label for _, label in labels], removed)
    return render(AnnotationsWritten(**written._asdict()))


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
    label_field: Field = None,
    who: Annotated[str | None, Query(description="Who is going to label them.")] = None,
    skip: Annotated[list[str] | None, Query(description="Ids to pass over.")] = None,
) -> Response:
    """Suggest the documents whose labels would teach most, with what they are taken for so far.

    Methods: `tcm` (typical documents of clusters first, then the smallest margins), `margin`,
    `entropy`, `badge`, `typiclust`, `core-set`, `random`, and `second-opinion` (labelled by others
    and not by `who`, the least likely labels first). Of more than 20,000 documents a sample is
    looked at.
    """
    with located():
        chosen, labelled = suggest_documents(
            collection,
            places,
            n,
            method,
            label_field=label_field,
            who=who or asking,
            without=skip or [],
        )
    documents = [
        {
            **_shown(stored_document(one.document)),
            "guesses": [{"label": label, "probability": p} for label, p in one.guesses],
            "bucket": one.bucket,
        }
        for one in chosen
    ]
    answer = {
        "method": method,
        "documents": documents,
        "labelled": len(labelled.pool.labelled),
        "classes": list(labelled.classes),
    }
    return JSONAnswer(answer_to_json(answer, limits.max_response_bytes))


@router.get(
    "/labels/stats",
    response_model=LabelStats,
    openapi_extra=READ,
    dependencies=LONG_READ,
    summary="Count labels and measure agreement",
)
def get_label_stats(
    collection: LocalCollection, places: PlacesOf, label_field: Field = None
) -> Response:
    """Count labels and judgements by person, and say how far people agree (Cohen's κ).

    `expected_gain` says what a next label would add, by a power law through the learning curve.
    """
    labels, judgements = collection.annotations.labels(), collection.annotations.judgements()
    counted = Counter(label for one in agreed_labels(labels).values() for label in one)
    given, judged = Counter(one.who for one in labels), Counter(one.who for one in judgements)
    gain = None
    if len(collection):
        with located():
            gain = expected_gain(labelled_pool(collection, places, label_field).pool)
    agreement = [*agreement_on_labels(labels), *agreement_on_judgements(judgements)]
    return render(
        LabelStats.model_validate(
            {
                "documents": len(collection),
                "labelled": len({one.id for one in labels}),
                "labels": [
                    {"label": label, "documents": n}
                    for label, n in sorted(counted.items(), key=lambda one: (-one[1], one[0]))
                ],
                "judgements": len(judgements),
                "queries": len({one.query for one in judgements}),
                "people": [
                    {"who": who, "labels": given[who], "judgements": judged[who]}
                    for who in sorted({*given, *judged})
                ],
                "agreement": [{**asdict(one), "who": list(one.who)} for one in agreement],
                "expected_gain": None if gain is None else asdict(gain),
            }
        )
    )


@router.get(
    "/judgements",
    response_model=JudgementPage,
    openapi_extra=READ,
    dependencies=LONG_READ,
    summary="List judgements",
)
def get_judgements(
    collection: LocalCollection,
    limit: Page = 100,
    cursor: Cursor = None,
    query: Annotated[str | None, Query(description="Only judgements of this query.")] = None,
    who: Person = None,
) -> Response:
    """List what people said of answers to queries, by query, id of the document and person."""
    found = collection.annotations.judgements(_key_of(cursor, 3), limit + 1, query=query, who=who)
    records, next_cursor = _page(found, limit)
    body = {"judgements": [judgement_to_json(one) for one in records], "next_cursor": next_cursor}
    return JSONAnswer(json.dumps(body, ensure_ascii=False))


@router.put(
    "/judgements",
    response_model=AnnotationsWritten,
    openapi_extra=WRITE_ROLE,
    dependencies=WRITE,
    summary="Set judgements",
)
def put_judgements(collection: LocalCollection, body: PutJudgements, asking: WhoAsks) -> Response:
    """Set judgements of (query, document) pairs, or take them back: all of them, or none.

    They are on disk when the response arrives. Repeating the request changes nothing.
    """
    judgements, removed = [], []
    for place, one in enumerate(body.judgements):
        with _located_among("judgements", [place]):
            judgement = _new_judgement(one, asking)
        if judgement is None:
            removed.append((one.query, one.id, one.who or asking))
        else:
            judgements.append((place, judgement))
    with _located_among("judgements", [place for place, _ in judgements]):
        written = collection.annotations.set_judgements([one for _, one in judgements], removed)
    return render(AnnotationsWritten(**written._asdict()))


@router.get(
    "/judgements/pool",
    response_model=JudgementPool,
    openapi_extra=READ,
    dependencies=LONG_READ,
    summary="Pool answers to judge",
)
def get_pool(
    *,
    collection: LocalCollection,
    asking: WhoAsks,
    limits: Limits,
    query: Annotated[str, Query(min_length=1, max_length=10_000)],
    n: Annotated[int, Query(ge=1, le=1000, description="Answers to judge.")] = 20,
    depth: Annotated[int, Query(ge=1, le=1000, description="Answers of each ranking.")] = 50,
    method: Annotated[str, Query(description="What comes first.")] = AP_PRIOR,
    who: Annotated[str | None, Query(description="Who is going to judge them.")] = None,
) -> Response:
    """Pool the answers of all rankings to a query, those first whose judgement tells most.

    Methods: `ap-prior` (what weighs most in average precision), `difference` (where the rankings
    disagree most) and `depth-k` (as TREC pools). What `who` has judged is left out.
    """
    person = who or asking
    judged = [one.id for one in collection.annotations.judgements(query=query, who=person)]
    with located():
        pooled, counts = pool_answers(collection, query, depth, method, judged)
    rows = {one.id: collection.get(one.id) for one in pooled[:n]}
    documents = [
        {**_shown(stored_document(stored)), "weight": one.weight, "ranks": dict(one.ranks)}
        for one in pooled[:n]
        if (stored := rows[one.id]) is not None
    ]
    answer = {
        "query": query,
        "method": method,
        "documents": documents,
        "rankings": dict(counts),
        "judged": len(judged),
    }
    return JSONAnswer(answer_to_json(answer, limits.max_response_bytes))


@contextmanager
def _located_among(field: str, places: Sequence[int]) -> Iterator[None]:
    """Turn what is wrong with an item into a problem that points to its place in the body."""
    try:
        yield
    except InputError as error:
        message = str(error).removeprefix(f"{error.field}: ")
        raise invalid_field(message, field, places[error.position or 0], error.field) from None


def _page(found: Sequence[Any], limit: int) -> tuple[Sequence[Any], str | None]:
    """Return the records of a page, and the cursor of the next one if there is any."""
    if len(found) <= limit:
        return found, None
    raw = json.dumps(found[limit - 1].key, ensure_ascii=False).encode()
    return found[:limit], base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _key_of(cursor: str | None, length: int) -> tuple[str, ...]:
    """Return the key that :func:`_page` wrote."""
    if cursor is None:
        return ()
    try:
        raw = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        key = json.loads(raw)
    except (UnicodeEncodeError, binascii.Error, ValueError, RecursionError):
        key = None
    whole = isinstance(key, list) and len(key) == length
    if not whole or not all(isinstance(part, str) and is_storable(part) for part in key):
        message = f"is {cursor[:60]!a}; it must be the next_cursor of a page of this list"
        raise invalid_field(message, "cursor")
    return tuple(key)


def _new_label(given: NewLabel, asking: str) -> DocumentLabel | None:
    """Return the record of what is said; None where it is taken back."""
    if given.label is None and given.labels is None:
        return None
    if given.label is not None and given.labels is not None:
        raise InputError("labels", "is given beside label; only one of the two can be")
    labels = given.labels if given.label is None else [given.label]
    return DocumentLabel(given.id, tuple(labels or ()), given.who or asking, given.grade, now())


def _new_judgement(given: NewJudgement, asking: str) -> Judgement | None:
    if given.grade is None:
        return None
    return Judgement(given.query, given.id, given.grade, given.who or asking, now())


def _shown(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out the vector, which nobody labels by."""
    return {name: value for name, value in document.items() if name != "vector"}
