"""Labels, judgements and retraining over REST."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import count
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from hummingbit.encoder.limits import check_n_bits
from hummingbit.evaluation.labelling.exchange import (
    import_records,
    read_lines,
    write_qrels,
    write_queries,
    write_records,
)
from hummingbit.evaluation.labelling.names import (
    DEFAULT_METHOD,
    FORMATS,
    JSONL,
    MAX_SUGGESTED,
    QRELS,
    QUERIES,
)
from hummingbit.evaluation.labelling.statistics import label_statistics
from hummingbit.evaluation.labelling.suggestions import (
    AP_PRIOR,
    VectorCache,
    pool_answers,
    suggest_documents,
    suggestions_to_json,
)
from hummingbit.foundation.errors import InputError
from hummingbit.foundation.times import now
from hummingbit.index.answers import document_to_json
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.catalog import AddAlias, check_name
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.labels import AnnotationResult
from hummingbit.index.store.annotations import (
    ANONYMOUS,
    DocumentLabel,
    Judgement,
    is_storable,
    judgement_to_json,
    label_to_json,
)
from hummingbit.service.http.bodies import JSON_LINES, JSONRequest, check_media_type
from hummingbit.service.http.keys import ADMIN, Role, request_key, requires
from hummingbit.service.http.problems import ProblemError, invalid_field
from hummingbit.service.http.routing import Router
from hummingbit.service.jobs.reindex import is_same_source
from hummingbit.service.jobs.retrain import check_retrainable
from hummingbit.service.jobs.runner import Jobs
from hummingbit.service.jobs.store import Idempotency, JobRecord
from hummingbit.service.jobs.train import check_settings
from hummingbit.service.jobs.training_process import can_train
from hummingbit.service.routes.collections import check_target
from hummingbit.service.routes.dependencies import (
    LONG_READ,
    WRITING,
    CollectionOf,
    Folder,
    GateOf,
    Limits,
    names_in_use,
    render,
    render_long,
    state_of,
    writing,
)
from hummingbit.service.routes.jobs import ACCEPTED, AllJobs, SubmitOf, accepted_response
from hummingbit.service.schemas.common import pointing_at
from hummingbit.service.schemas.labels import (
    NewJudgement,
    NewLabel,
    PutJudgements,
    PutLabels,
    Retrain,
    Train,
)
from hummingbit.service.schemas.responses import (
    AnnotationsWritten,
    Imported,
    JudgementPage,
    JudgementPool,
    LabelPage,
    LabelStats,
    SuggestedLabels,
    TakenBack,
)
from hummingbit.service.schemas.search import answer_too_large
from hummingbit.service.settings import Settings

# The collection, the person, pages of records.


Entry = TypeVar("Entry", NewLabel, NewJudgement)
Record = TypeVar("Record", DocumentLabel, Judgement)
Key = TypeVar("Key", tuple[str, str], tuple[str, str, str])

PageSize = Annotated[int, Query(ge=1, le=1000, description="Records on a page.")]
Cursor = Annotated[str | None, Query(description="The `next_cursor` of the previous page.")]
Person = Annotated[str | None, Query(description="Only records of this person.")]


async def _who(request: Request) -> str:
    name: str | None = request.app.state.keyring.name_of(
        request_key(request.scope["state"]["headers"])
    )
    return name or ANONYMOUS


VectorsOf = Annotated[VectorCache, state_of("label_vectors")]
RequestPerson = Annotated[str, Depends(_who)]


@contextmanager
def _pointing_at_positions(field: str, positions: Sequence[int]) -> Iterator[None]:
    """Turn an InputError about an item into a problem that points to its position in the body."""
    try:
        yield
    except InputError as error:
        raise invalid_field(
            error.reason, field, positions[error.position or 0], error.field
        ) from None


def write_entries(
    field: str,
    entries: Sequence[Entry],
    read: Callable[[Entry], Record | Key],
    write: Callable[[Sequence[Record], Sequence[Key]], AnnotationResult],
) -> Response:
    """Write the entries of the list `field` of a body, all of them or none.

    `read` turns an entry into a record to set, or into the key of a record to remove.

    Raises:
        ProblemError: pointing to an invalid entry.
    """
    records: list[Record] = []
    removed: list[Key] = []
    positions: list[int] = []
    for position, entry in enumerate(entries):
        with _pointing_at_positions(field, [position]):
            change = read(entry)
        if isinstance(change, tuple):
            removed.append(change)
        else:
            records.append(change)
            positions.append(position)
    with _pointing_at_positions(field, positions):
        written = write(records, removed)
    return render(written._asdict())


def page_answer(
    field: str,
    records: Sequence[Record],
    limit: int,
    to_json: Callable[[Record], dict[str, Any]],
    limits: Limits,
) -> Response:
    """Respond with a page of `records`, which are one more than `limit` if there is another page.

    Raises:
        ProblemError: 422 if the response is larger than the limit.
    """
    page, next_cursor = paginate(records, limit)
    answer = {field: [to_json(record) for record in page], "next_cursor": next_cursor}
    return render_long(answer, limits)


def paginate(records: Sequence[Record], limit: int) -> tuple[Sequence[Record], str | None]:
    """Return the first `limit` records, and the cursor of the next page if there are more."""
    if len(records) <= limit:
        return records, None
    raw = json.dumps(records[limit - 1].key, ensure_ascii=False).encode()
    return records[:limit], base64.urlsafe_b64encode(raw).decode().rstrip("=")


def parse_cursor(cursor: str | None, length: int) -> tuple[str, ...]:
    """Return the key that :func:`paginate` wrote, of `length` parts; an empty one without a cursor.

    Raises:
        ProblemError: 422 if it is not a cursor of such a list.
    """
    if cursor is None:
        return ()
    try:
        raw = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        key = json.loads(raw)
    except (UnicodeEncodeError, binascii.Error, ValueError, RecursionError):
        key = None
    is_key = isinstance(key, list) and len(key) == length
    if not is_key or not all(isinstance(part, str) and is_storable(part) for part in key):
        message = f"is {cursor[:60]!r}; it must be the next_cursor of a page of this list"
        raise invalid_field(message, "cursor")
    return tuple(key)


def without_vector(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out the vector, which is of no use to a person who labels."""
    return {name: value for name, value in document.items() if name != "vector"}


# Labels, and suggestions of what to label next.


router = Router(prefix="/v1", tags=["labels"])

LabelField = Annotated[
    str | None,
    Query(description="A payload field with labels for the documents that nobody has labelled."),
]


@router.get(
    "/collections/{name}/labels", response_model=LabelPage, **LONG_READ, summary="List labels"
)
def list_labels(
    *,
    collection: CollectionOf,
    limits: Limits,
    limit: PageSize = 100,
    cursor: Cursor = None,
    document: Annotated[str | None, Query(description="Only labels of this document.")] = None,
    who: Person = None,
) -> Response:
    """List the labels of documents, ordered by id of the document and person."""
    key = parse_cursor(cursor, 2)
    records = collection.annotations.labels(key, limit + 1, id_=document, who=who)
    return page_answer("labels", records, limit, label_to_json, limits)


@router.put(
    "/collections/{name}/labels", response_model=AnnotationsWritten, **WRITING, summary="Set labels"
)
def put_labels(collection: CollectionOf, body: PutLabels, person: RequestPerson) -> Response:
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
    "/collections/{name}/labels/suggest",
    response_model=SuggestedLabels,
    **LONG_READ,
    summary="Suggest documents to label",
)
def suggest_documents_to_label(
    *,
    collection: CollectionOf,
    vectors: VectorsOf,
    person: RequestPerson,
    limits: Limits,
    n: Annotated[int, Query(ge=1, le=MAX_SUGGESTED, description="Documents to suggest.")] = 10,
    method: Annotated[str, Query(description="How to choose them.")] = DEFAULT_METHOD,
    label_field: LabelField = None,
    who: Annotated[str | None, Query(description="The person who will label them.")] = None,
    skip: Annotated[list[str] | None, Query(description="Ids to skip.")] = None,
) -> Response:
    """Suggest the documents whose labels would teach most, with the most likely labels of each.

    Methods: `herding` (documents near many whose classes are uncertain), `margin` (the two
    likeliest classes are closest), `random`, and `second-opinion` (labelled by others and not by
    `who`, the least likely labels first). Of more than 20,000 documents, a sample is considered.
    """
    with pointing_at():
        suggested, labelled = suggest_documents(
            collection,
            vectors,
            n,
            method,
            label_field=label_field,
            who=who or person,
            without=skip or [],
        )
    answer = suggestions_to_json(method, suggested, labelled)
    return render_long(answer, limits)


@router.get(
    "/collections/{name}/labels/stats",
    response_model=LabelStats,
    **LONG_READ,
    summary="Count labels and measure agreement",
)
def get_label_stats(
    collection: CollectionOf, vectors: VectorsOf, limits: Limits, label_field: LabelField = None
) -> Response:
    """Count labels and judgements by person, and measure how far people agree (Cohen's κ).

    Of more than 50 people, only the 50 with the most records are compared. `expected_gain` is what
    the next label would add, by a power law through the learning curve.
    """
    with pointing_at():
        statistics = label_statistics(collection, vectors, label_field)
    return render_long(statistics, limits)


def _new_label(entry: NewLabel, person: str) -> DocumentLabel | tuple[str, str]:
    """Return the labels to set, or the key of those to remove."""
    who = entry.who or person
    if not entry.model_fields_set & {"label", "labels"}:
        raise InputError("label", "is missing; a label of null takes back what was set")
    if entry.label is None and entry.labels is None:
        return entry.id, who
    if entry.label is not None and entry.labels is not None:
        raise InputError("labels", "cannot be combined with label; send one of the two")
    labels = entry.labels if entry.label is None else [entry.label]
    return DocumentLabel(entry.id, tuple(labels or ()), who, entry.grade, now())


# Judgements, and which answers to judge next.


@router.get(
    "/collections/{name}/judgements",
    response_model=JudgementPage,
    **LONG_READ,
    summary="List judgements",
)
def list_judgements(
    *,
    collection: CollectionOf,
    limits: Limits,
    limit: PageSize = 100,
    cursor: Cursor = None,
    query: Annotated[str | None, Query(description="Only judgements of this query.")] = None,
    who: Person = None,
) -> Response:
    """List the judgements of answers, ordered by query, id of the document and person."""
    key = parse_cursor(cursor, 3)
    records = collection.annotations.judgements(key, limit + 1, query=query, who=who)
    return page_answer("judgements", records, limit, judgement_to_json, limits)


@router.put(
    "/collections/{name}/judgements",
    response_model=AnnotationsWritten,
    **WRITING,
    summary="Set judgements",
)
def put_judgements(
    collection: CollectionOf, body: PutJudgements, person: RequestPerson
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
    "/collections/{name}/judgements/pool",
    response_model=JudgementPool,
    **LONG_READ,
    summary="Pool answers to judge",
)
def get_judgement_pool(
    *,
    collection: CollectionOf,
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
    return render_long(answer, limits)


def _new_judgement(entry: NewJudgement, person: str) -> Judgement | tuple[str, str, str]:
    """Return the judgement to set, or the key of the one to remove."""
    who = entry.who or person
    if entry.grade is None:
        return entry.query, entry.id, who
    return Judgement(entry.query, entry.id, entry.grade, who, now())


# Import and export as JSON lines and as qrels of TREC.


WRITTEN_AT_ONCE = 2000

_TEXT: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
_TEXT_BODY = {
    "required": True,
    "content": {
        JSON_LINES[0]: {
            "schema": {"type": "string", "format": "binary"},
            "example": '{"id": "a", "label": "one"}\n',
        }
    },
}


@router.get(
    "/collections/{name}/labels/export",
    response_class=Response,
    responses={200: {"content": {JSON_LINES[0]: _TEXT}}},
    **LONG_READ,
    summary="Export labels",
)
def export_labels(collection: CollectionOf, limits: Limits) -> Response:
    """Return all labels as JSON lines, one record per line."""
    lines = write_records(collection.annotations.labels())
    return _lines(lines, JSON_LINES[0], limits.max_response_bytes)


@router.get(
    "/collections/{name}/judgements/export",
    response_class=Response,
    responses={200: {"content": {JSON_LINES[0]: _TEXT, "text/plain": _TEXT}}},
    **LONG_READ,
    summary="Export judgements",
)
def export_judgements(
    collection: CollectionOf,
    limits: Limits,
    format: Annotated[str, Query(description="`jsonl`, `qrels` or `queries`.")] = JSONL,
) -> Response:
    """Return all judgements: `jsonl`, one record per line; `qrels`, TREC's format.

    In qrels the id of a query is its text, with white space percent-encoded. People are left out:
    the grade is the one that most of them gave. `queries` are the queries of these ids, as
    `hummingbit evaluate` reads them.
    """
    judgements, max_bytes = collection.annotations.judgements(), limits.max_response_bytes
    if format == JSONL:
        return _lines(write_records(judgements), JSON_LINES[0], max_bytes)
    if format == QRELS:
        return _lines(write_qrels(judgements), "text/plain", max_bytes)
    if format == QUERIES:
        return _lines(write_queries(judgements), JSON_LINES[0], max_bytes)
    raise invalid_field(f"is {format[:40]!r}; it must be one of {', '.join(FORMATS)}", "format")


@router.post(
    "/collections/{name}/labels/import",
    response_model=Imported,
    **requires(Role.WRITE, body=_TEXT_BODY),
    summary="Import labels and judgements",
)
async def import_labels(
    *,
    request: JSONRequest,
    name: str,
    folder: Folder,
    person: RequestPerson,
    format: Annotated[str, Query(description="`jsonl` or `qrels`.")] = JSONL,
    who: Annotated[
        str | None,
        Query(min_length=1, max_length=64, description="The person of records that name none."),
    ] = None,
) -> Response:
    """Import labels and judgements in the format of an export; each replaces the person's own.

    A body of qrels may be sent as `text/plain`, too.

    Records of documents that are not in the collection are skipped and counted. If a line is
    invalid, nothing is written. Two thousand records are written at a time, and other writers have
    their turn in between; if the disk fails meanwhile, the request can be repeated.
    """
    check_media_type(request, (*JSON_LINES, "text/plain"))
    folder.collection(name)
    raw = await request.read_body()
    labels, judgements = await run_in_threadpool(_read, raw, who or person, format)
    report = None
    for batch in _batches(labels, judgements):
        async with writing(request):
            # An alias may have moved since the last batch.
            collection = folder.collection(name)
            written = await run_in_threadpool(import_records, collection, *batch)
        report = written if report is None else report.and_then(written)
    assert report is not None  # noqa: S101 - there is at least one batch
    return render(asdict(report))


def _batches(
    labels: Sequence[DocumentLabel], judgements: Sequence[Judgement]
) -> Iterator[tuple[Sequence[DocumentLabel], Sequence[Judgement]]]:
    """Yield the records in batches, at least one, which may be empty."""
    for start in range(0, max(len(labels), len(judgements), 1), WRITTEN_AT_ONCE):
        end = start + WRITTEN_AT_ONCE
        yield labels[start:end], judgements[start:end]


def _read(raw: bytes, person: str, form: str) -> tuple[list[DocumentLabel], list[Judgement]]:
    try:
        lines = raw.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise invalid_field(f"is not UTF-8 text ({error.reason})") from None
    if form not in (JSONL, QRELS):
        raise invalid_field(f"is {form[:40]!r}; it must be {JSONL} or {QRELS}", "format")
    try:
        return read_lines(lines, form, "body", person)
    except InputError as error:
        raise invalid_field(str(error).removeprefix("line: ")) from None


def _lines(lines: Iterable[str], media_type: str, max_bytes: int) -> Response:
    written, size = [], 0
    for line in lines:
        written.append(f"{line}\n".encode())
        size += len(written[-1])
        if size > max_bytes:
            raise answer_too_large(max_bytes)
    return Response(
        b"".join(written), media_type=media_type, headers={"X-Content-Type-Options": "nosniff"}
    )


# Retraining: a job trains an encoder from the labels; a person confirms or reverts.


@router.post(
    "/collections/{name}/retrain", **ACCEPTED, **ADMIN, summary="Retrain a collection's encoder"
)
def retrain_collection(
    name: str, body: Retrain, folder: Folder, limits: Limits, submit: SubmitOf
) -> Response:
    """Train an encoder on the collection's texts and labels, as a job, and evaluate it.

    The new encoder and the one in use are compared on labels that are held out of training. If the
    gate passes, the job ends as `waiting for confirmation`; `POST /v1/jobs/{id}/confirm` then
    reindexes and moves the alias. With `auto` the job does that itself. Searches and writes
    continue.
    """
    collection = folder.collection(name)
    with pointing_at():
        encoder = check_retrainable(collection)
        if body.n_bits is not None:
            try:
                check_n_bits(body.n_bits)
            except ValueError as error:
                raise InputError("n_bits", str(error).removeprefix("n_bits ")) from None
    _check_can_train(limits)
    names = _names_to_make(folder, collection, name, body, always_into=True)
    spec = {**body.model_dump(), **names, "n_bits": body.n_bits or encoder.n_bits}
    return accepted_response(submit("retrain", collection.name, spec))


_DEFAULT_TRAINING = Train.model_validate({})


@router.post(
    "/collections/{name}/train", **ACCEPTED, **ADMIN, summary="Train an encoder on a collection"
)
def train_encoder(
    name: str, folder: Folder, limits: Limits, submit: SubmitOf, body: Train = _DEFAULT_TRAINING
) -> Response:
    """Train an encoder on the collection's texts or vectors, and its labels, as a job.

    The encoder is installed. With `into`, or an alias, the job then reindexes the documents into
    another collection and moves the alias to it. Searches and writes continue.
    """
    collection = folder.collection(name)
    with pointing_at():
        check_settings(body.method, body.settings)
    _check_can_train(limits)
    names = _names_to_make(folder, collection, name, body, always_into=False)
    return accepted_response(submit("train", collection.name, {**body.model_dump(), **names}))


def _names_to_make(
    folder: DataFolder,
    collection: CollectionBackend,
    name: str,
    body: Retrain | Train,
    *,
    always_into: bool,
) -> dict[str, Any]:
    """Return the names of what a training of `collection`, asked for by `name`, is to make.

    The documents go `into` another collection if that or an alias is named, or if they must always.

    Raises:
        ProblemError: 422, pointing to a name that is invalid or taken.
        CollectionExists: if the name of the other collection is taken.
    """
    encoders = set(folder.encoders.names())
    alias = name if body.alias is None and name in folder.aliases() else body.alias
    into = body.into
    if into is None and (always_into or alias is not None):
        into = _next_name(alias or collection.name, names_in_use(folder) | encoders)
    if into is not None:
        check_target(folder, into, alias)
    encoder = body.encoder or into
    if encoder is None:
        is_free = collection.name not in encoders
        encoder = collection.name if is_free else _next_name(collection.name, encoders)
    with pointing_at():
        check_name(encoder, "encoder")
    if encoder in encoders:
        raise invalid_field(f"is {encoder!r}, which already exists; choose another", "encoder")
    return {
        "into": into,
        "encoder": encoder,
        "alias": alias,
        "source": collection.name,
        "engine": collection.engine_setting,
    }


def _check_can_train(limits: Settings) -> None:
    if limits.training == "here" and not can_train():
        message = (
            "this service cannot train: install hummingbit[train], or set training to elsewhere and"
            " run hummingbit label train where it is installed; neither works on Windows"
        )
        raise ProblemError(501, "training_unavailable", message)


@router.post("/jobs/{id}/confirm", **ACCEPTED, **ADMIN, summary="Confirm a retraining")
def confirm_job(id: str, folder: Folder, jobs: AllJobs, submit: SubmitOf) -> Response:
    """Reindex with the encoder of a retraining, as a job, and move the alias to the result.

    Repeating the request returns the same job, or starts another one if that failed.
    """
    job = _retraining(jobs.get(id))
    state = (job.result or {}).get("state", job.state)
    if state != "waiting for confirmation":
        message = f"job {id} is {state}; it must be waiting for confirmation"
        raise ProblemError(409, "nothing_to_confirm", message)
    names = ("source", "encoder", "into", "alias", "engine")
    spec = {name: job.spec[name] for name in names}
    folder.encoders.load(spec["encoder"])
    key = Idempotency(_confirmation(id, jobs), id)
    return accepted_response(submit("reindex", spec["into"], spec, idempotency=key))


@router.post(
    "/jobs/{id}/take-back",
    response_model=TakenBack,
    **ADMIN,
    summary="Take a training or a reindexing back",
)
def take_back_job(id: str, folder: Folder, gate: GateOf, jobs: AllJobs) -> Response:
    """Move the alias back to the old collection; the new one and its encoder stay.

    If documents or labels were written since the alias moved, the response is 409: they are in the
    new collection only. To keep them, reindex it with the old encoder. The response is 409, too, if
    the old collection was deleted and another one has its name.
    """
    job = jobs.get(id)
    if job.kind not in {"reindex", "train"}:
        job = jobs.with_key(_confirmation(_retraining(job).id, jobs)) or job
    spec, result, recorded = job.spec, job.result or {}, job.recorded or {}
    alias = spec["alias"]
    with gate.closed():
        has_moved = "generation" in result and alias is not None
        if not has_moved or folder.aliases().get(alias) != spec["into"]:
            message = f"job {id} moved no alias that still names {spec['into']!r}"
            raise ProblemError(409, "cannot_take_back", message)
        old, new = folder.collection(spec["source"]), folder.collection(spec["into"])
        if new.generation != result["generation"]:
            message = (
                f"documents or labels were written to {spec['into']!r} since the alias moved to it;"
                f" to keep them, reindex it with encoder {old.encoder_name!r}"
            )
            raise ProblemError(409, "cannot_take_back", message)
        if not is_same_source(old, recorded):
            message = (
                f"{spec['source']!r} was deleted since alias {alias!r} moved away from it, and"
                f" another collection has its name; to move {alias!r} there all the same, use"
                " POST /v1/aliases"
            )
            raise ProblemError(409, "cannot_take_back", message)
        folder.change_aliases([AddAlias(alias, spec["source"])])
    return render(TakenBack(alias=alias, collection=spec["source"]))


def _next_name(name: str, existing: set[str]) -> str:
    """Return ``NAME-2``, or with the next free number; ``NAME-2`` itself becomes ``NAME-3``."""
    stem, _, suffix = name.rpartition("-")
    if not (stem and suffix.isdecimal()):
        stem, suffix = name, "1"
    number = int(suffix) + 1
    while f"{stem}-{number}" in existing:
        number += 1
    return f"{stem}-{number}"


def _retraining(job: JobRecord) -> JobRecord:
    if job.kind != "retrain":
        message = f"job {job.id} is of the kind {job.kind}, not a retraining"
        raise ProblemError(409, "nothing_to_confirm", message)
    return job


def _confirmation(id_: str, jobs: Jobs) -> str:
    """Return the idempotency key of the job that a confirmation starts, or has started.

    A header cannot hold a line break, so no client can send this key. Failed attempts keep theirs.
    """
    key = f"confirmation of\n{id_}"
    for attempt in count(2):
        job = jobs.with_key(key)
        if job is None or job.state not in {"failed", "cancelled"}:
            break
        key = f"confirmation of\n{id_}\n{attempt}"
    return key
