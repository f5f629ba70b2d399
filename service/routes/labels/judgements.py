"""Judgements of answers to queries over REST, and which answers to judge next."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from evaluation.labelling.pooling import AP_PRIOR
from evaluation.labelling.suggesting import pool_answers
from foundation.times import now
from index.annotations.annotation_records import Judgement, judgement_to_json
from service.http.roles import READ
from service.http.roles import WRITE as WRITE_ROLE
from service.http.routing import JSONRoute
from service.routes.dependencies import LONG_READ, WRITE, Limits
from service.routes.labels.annotation_requests import (
    Cursor,
    LocalCollection,
    PageSize,
    Person,
    WhoAsks,
    key_of,
    page_answer,
    set_given,
    shown,
)
from service.schemas.checks import pointing_at
from service.schemas.labels.labels import (
    AnnotationsWritten,
    JudgementPage,
    JudgementPool,
    NewJudgement,
    PutJudgements,
)
from service.schemas.results import JSONAnswer, answer_to_json, stored_document

router = APIRouter(prefix="/v1/collections/{name}", route_class=JSONRoute)


@router.get(
    "/judgements",
    response_model=JudgementPage,
    openapi_extra=READ,
    dependencies=LONG_READ,
    summary="List judgements",
)
def get_judgements(
    *,
    collection: LocalCollection,
    limits: Limits,
    limit: PageSize = 100,
    cursor: Cursor = None,
    query: Annotated[str | None, Query(description="Only judgements of this query.")] = None,
    who: Person = None,
) -> Response:
    """List what people said of answers to queries, by query, id of the document and person."""
    found = collection.annotations.judgements(key_of(cursor, 3), limit + 1, query=query, who=who)
    return page_answer("judgements", found, limit, judgement_to_json, limits.max_response_bytes)


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
    return set_given(
        "judgements",
        body.judgements,
        lambda one: _new_judgement(one, asking),
        collection.annotations.set_judgements,
    )


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
    with pointing_at():
        pooled, counts = pool_answers(collection, query, depth, method, judged)
    rows = {one.id: collection.get(one.id) for one in pooled[:n]}
    documents = [
        {**shown(stored_document(stored)), "weight": one.weight, "ranks": dict(one.ranks)}
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


def _new_judgement(given: NewJudgement, asking: str) -> Judgement | tuple[str, str, str]:
    """Return the record of what is said; its key where it is taken back."""
    who = given.who or asking
    if given.grade is None:
        return given.query, given.id, who
    return Judgement(given.query, given.id, given.grade, who, now())
