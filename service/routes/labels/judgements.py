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
    RequestPerson,
    page_answer,
    parse_cursor,
    without_vector,
    write_entries,
)
from service.schemas.checks import pointing_at
from service.schemas.labels.labels import (
    AnnotationsWritten,
    JudgementPage,
    JudgementPool,
    NewJudgement,
    PutJudgements,
)
from service.schemas.results import JSONAnswer, answer_to_json, document_to_json

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
    """List the judgements of answers, ordered by query, id of the document and person."""
    key = parse_cursor(cursor, 3)
    records = collection.annotations.judgements(key, limit + 1, query=query, who=who)
    return page_answer("judgements", records, limit, judgement_to_json, limits.max_response_bytes)


@router.put(
    "/judgements",
    response_model=AnnotationsWritten,
    openapi_extra=WRITE_ROLE,
    dependencies=WRITE,
    summary="Set judgements",
)
def put_judgements(
    collection: LocalCollection, body: PutJudgements, person: RequestPerson
) -> Response:
    """Set or remove judgements of (query, document) pairs: all of them, or none on an error.

    They are on disk when the response arrives. Repeating the request changes nothing.
    """
    return write_entries(
        "judgements",
        body.judgements,
        lambda entry: _new_judgement(entry, person),
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
    person: RequestPerson,
    limits: Limits,
    query: Annotated[str, Query(min_length=1, max_length=10_000)],
    n: Annotated[int, Query(ge=1, le=1000, description="Answers to judge.")] = 20,
    depth: Annotated[int, Query(ge=1, le=1000, description="Answers of each ranking.")] = 50,
    method: Annotated[str, Query(description="What comes first.")] = AP_PRIOR,
    who: Annotated[str | None, Query(description="The person who will judge them.")] = None,
) -> Response:
    """Pool the answers of all rankings to a query, the most informative to judge first.

    Methods: `ap-prior` (what weighs most in average precision), `difference` (where the rankings
    disagree most) and `depth-k` (as TREC pools). What `who` has judged is left out.
    """
    judgements = collection.annotations.judgements(query=query, who=who or person)
    judged_ids = [judgement.id for judgement in judgements]
    with pointing_at():
        pool, counts = pool_answers(collection, query, depth, method, judged_ids)
    documents = [
        {
            **without_vector(document_to_json(stored)),
            "weight": pooled.weight,
            "ranks": dict(pooled.ranks),
        }
        for pooled in pool[:n]
        if (stored := collection.get(pooled.id)) is not None
    ]
    answer = {
        "query": query,
        "method": method,
        "documents": documents,
        "rankings": dict(counts),
        "judged": len(judged_ids),
    }
    return JSONAnswer(answer_to_json(answer, limits.max_response_bytes))


def _new_judgement(entry: NewJudgement, person: str) -> Judgement | tuple[str, str, str]:
    """Return the judgement to set, or the key of the one to remove."""
    who = entry.who or person
    if entry.grade is None:
        return entry.query, entry.id, who
    return Judgement(entry.query, entry.id, entry.grade, who, now())
