"""Collections and their documents over REST."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.convertors import Convertor, register_url_convertor

from corpus.document import Document
from foundation.errors import InputError
from foundation.slices import checkpoint
from index.backend import CollectionBackend
from index.errors import UnknownDocument
from service.http import roles
from service.http.bodies.body import in_turn
from service.http.problems import (
    MEDIA_TYPE,
    ProblemError,
    invalid_field,
    pointer,
    without_path,
)
from service.http.routing import JSONRoute
from service.routes.dependencies import (
    LONG_READ,
    WRITE,
    WRITE_SLOT,
    CollectionOf,
    Folder,
    GateOf,
    IfNoneMatch,
    Limits,
    creates_only,
    encoder_name,
    render,
    stage,
)
from service.routes.special_search import short_or_long
from service.routes.system.health import unavailable_collections
from service.schemas.checks import (
    check_fingerprint,
    parse_item,
    pointing_at,
)
from service.schemas.collections.collections import (
    CollectionDetail,
    Collections,
    CollectionStats,
    CollectionSummary,
    CreateCollection,
    UpdateCollection,
)
from service.schemas.collections.documents import StoredDocument, UpsertDocuments, Upserted
from service.schemas.results import JSONAnswer, document_to_json, to_json


class _AnyText(Convertor[str]):
    """The rest of a path, line breaks included, at which Starlette's own convertor stops."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("any_text", _AnyText())

router = APIRouter(prefix="/v1/collections", route_class=JSONRoute)
MAX_ERRORS = 100
# Documents that are checked between two checkpoints.
CHECKED_AT_ONCE = 64


@router.get(
    "", response_model=Collections, openapi_extra=roles.READ, summary="List the collections"
)
def get_collections(folder: Folder) -> Response:
    """List the collections; those that cannot be opened are listed separately."""
    summaries = [CollectionSummary(**_summary(one)) for one in folder.collections().values()]
    unavailable = unavailable_collections(folder)
    return render(Collections(collections=summaries, unavailable=unavailable))


@router.get(
    "/{name}",
    response_model=CollectionDetail,
    openapi_extra=roles.READ,
    summary="Describe a collection",
)
def get_collection(collection: CollectionOf) -> Response:
    """Describe a collection and its codes."""
    return render(CollectionDetail.model_validate(_describe(collection, CollectionDetail)))


@router.get(
    "/{name}/stats",
    response_model=CollectionStats,
    openapi_extra=roles.READ,
    dependencies=LONG_READ,
    summary="Get a collection's statistics",
)
def get_stats(collection: CollectionOf, folder: Folder) -> Response:
    """Describe a collection's size, its search engine and why it was chosen, and its codes.

    Few distinct codes, dead bits or crowded buckets are signs of an encoder that has collapsed.
    """
    stats = _describe(collection, CollectionStats)
    stats["problems"] = [without_path(problem, folder) for problem in stats["problems"]]
    return render(CollectionStats.model_validate(stats))


@router.put(
    "/{name}",
    response_model=CollectionSummary,
    status_code=201,
    openapi_extra=roles.ADMIN,
    dependencies=WRITE,
    responses={200: {"model": CollectionSummary, "description": "An equal collection exists."}},
    summary="Create a collection",
)
def put_collection(name: str, body: CreateCollection, folder: Folder) -> Response:
    """Create a collection with an encoder, or for documents that come with codes of `n_bits`."""
    collection, is_new = folder.find_or_create_collection(
        name,
        encoder=body.encoder,
        n_bits=body.n_bits,
        engine=body.engine,
        indexed_fields=body.indexed_fields,
        keep_vectors=body.keep_vectors,
    )
    return render(CollectionSummary(**_summary(collection)), 201 if is_new else 200)


@router.patch(
    "/{name}",
    response_model=CollectionSummary,
    openapi_extra=roles.ADMIN,
    dependencies=WRITE,
    summary="Change a collection's default ranking",
)
def patch_collection(collection: CollectionOf, body: UpdateCollection) -> Response:
    """Set the ranking of searches that do not name one."""
    with pointing_at():
        collection.set_ranking(body.ranking)
    return render(CollectionSummary(**_summary(collection)))


@router.delete(
    "/{name}",
    status_code=204,
    openapi_extra=roles.ADMIN,
    dependencies=WRITE,
    summary="Delete a collection",
)
def delete_collection(name: str, folder: Folder) -> Response:
    """Delete a collection and all of its documents."""
    folder.drop_collection(name)
    return Response(status_code=204)


@router.put(
    "/{name}/documents",
    response_model=Upserted,
    openapi_extra=roles.WRITE,
    dependencies=WRITE_SLOT,
    responses={
        412: {
            "description": "With If-None-Match: one of the documents already exists.",
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    },
    summary="Upsert documents",
)
def put_documents(
    *,
    request: Request,
    name: str,
    body: UpsertDocuments,
    folder: Folder,
    gate: GateOf,
    limits: Limits,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Insert documents and replace those with the same id: all of them, or none on an error.

    They are on disk when the response arrives. With ``If-None-Match: *`` nothing is replaced: if
    any of the ids exists, nothing is written.
    """
    create_only = creates_only(if_none_match)
    check_fingerprint(folder.collection(name), body.encoder_fingerprint)
    documents = []
    with in_turn(request):
        for position, item in enumerate(body.documents):
            if position % CHECKED_AT_ONCE == 0:
                checkpoint()
            documents.append(parse_item(item, limits, "documents", position, id=item.id))
    # No writer may come between the check that a document is missing and its creation.
    with gate.closed() if create_only else gate.writing(), stage(request, "store"):
        collection = folder.collection(name)
        check_fingerprint(collection, body.encoder_fingerprint)
        if create_only:
            _check_missing(collection, documents)
        try:
            with in_turn(request):
                result = collection.upsert(documents)
        except InputError as error:
            raise invalid_field(str(error), "documents") from None
    return render(Upserted(upserted=result.upserted, generation=result.generation))


@router.get(
    "/{name}/documents/{id:any_text}",
    response_model=StoredDocument,
    openapi_extra=roles.READ,
    summary="Get a document",
)
async def get_document(
    request: Request,
    collection: CollectionOf,
    id: str,  # noqa: A002 - as in the path
) -> Response:
    """Get a document as it is stored. Percent-encode the id; it may contain any characters."""

    def read() -> bytes:
        with stage(request, "store"):
            stored = collection.get(id)
        if stored is None:
            raise UnknownDocument(f"collection {collection.name!r} has no document {id[:80]!r}")
        return to_json(document_to_json(stored))

    return JSONAnswer(await short_or_long(request.app, request.scope["state"], read))


@router.delete(
    "/{name}/documents/{id:any_text}",
    status_code=204,
    openapi_extra=roles.WRITE,
    dependencies=WRITE,
    summary="Delete a document",
)
def delete_document(
    request: Request,
    collection: CollectionOf,
    id: str,  # noqa: A002 - as in the path
) -> Response:
    """Delete a document."""
    with stage(request, "store"):
        deleted = collection.delete([id]).deleted
    if not deleted:
        raise UnknownDocument(f"collection {collection.name!r} has no document {id[:80]!r}")
    return Response(status_code=204)


def _check_missing(collection: CollectionBackend, documents: list[Document]) -> None:
    """Raise a ProblemError, 412, that points to the documents that exist."""
    existing = collection.existing_ids([document.id for document in documents])
    errors = [
        {
            "pointer": pointer("documents", place, "id"),
            "message": f"document {document.id[:80]!r} already exists",
        }
        for place, document in enumerate(documents)
        if document.id in existing
    ]
    if errors:
        message = f"{len(errors):,} of the documents already exist; nothing was written"
        raise ProblemError(412, "document_exists", message, errors[:MAX_ERRORS])


def _describe(collection: CollectionBackend, model: type[CollectionDetail]) -> dict[str, Any]:
    stats = {**collection.stats(), "encoder": encoder_name(collection)}
    return {field: stats[field] for field in model.model_fields}


def _summary(collection: CollectionBackend) -> dict[str, Any]:
    return {
        "name": collection.name,
        "n_bits": collection.n_bits,
        "encoder": encoder_name(collection),
        "engine_setting": collection.engine_setting,
        "ranking": collection.ranking,
        "indexed_fields": collection.indexed_fields,
        "keep_vectors": collection.keep_vectors,
        "documents": len(collection),
        "generation": collection.generation,
    }
