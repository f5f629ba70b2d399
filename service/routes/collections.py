"""Collections, single documents, code profiles, maintenance and aliases over REST."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Annotated, Any, cast
from weakref import WeakKeyDictionary

from fastapi import Query, Request, Response

from hummingbit.corpus.document import Document
from hummingbit.foundation.errors import InputError
from hummingbit.index.answers import document_to_json
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.catalog import (
    NO_ENCODER,
    AddAlias,
    RemoveAlias,
    check_name,
    encoder_by_dimensions,
)
from hummingbit.index.code_statistics import CodeProfile, profile_of
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.engines.choice import check_index_type
from hummingbit.index.errors import UnknownDocument
from hummingbit.index.filtered import FilteredCollection
from hummingbit.index.filters import check_indexed_fields
from hummingbit.index.maps import code_table
from hummingbit.index.records import payloads_as_stored
from hummingbit.index.search import with_warnings
from hummingbit.service.http.keys import ADMIN, FILTERED_READ, FILTERED_WRITE, READ, Role
from hummingbit.service.http.problems import (
    MEDIA_TYPE,
    ProblemError,
    invalid_field,
    pointer,
    without_path,
)
from hummingbit.service.http.routing import Router, check_role
from hummingbit.service.jobs.kinds import compact, index_fields, verify
from hummingbit.service.routes.dependencies import (
    FILTERED_WRITING,
    LONG_ADMIN,
    LONG_READ,
    WRITE_SLOT,
    WRITING_ADMIN,
    CollectionOf,
    Folder,
    GateOf,
    IfNoneMatch,
    Limits,
    check_free,
    creates_only,
    encoder_name,
    render,
    stage,
    state_of,
    visible_collection,
    wants_async,
)
from hummingbit.service.routes.jobs import ACCEPTED, SubmitOf, accepted_response
from hummingbit.service.routes.system import unavailable_collections
from hummingbit.service.schemas.collections import (
    AliasAction,
    ChangeAliases,
    CreateCollection,
    IndexFields,
    Reindex,
    UpdateCollection,
    UpsertDocuments,
)
from hummingbit.service.schemas.common import check_fingerprint, parse_item, pointing_at
from hummingbit.service.schemas.responses import (
    Alias,
    Aliases,
    CodesInfo,
    CollectionDetail,
    Collections,
    CollectionStats,
    CollectionSummary,
    CompactionInfo,
    CreatedCollection,
    IndexedFieldsInfo,
    JobInfo,
    StoredDocument,
    Upserted,
    VerificationInfo,
)

# Collections and their documents.


router = Router(prefix="/v1", tags=["collections"])
documents_router = Router(prefix="/v1", tags=["documents"])
MAX_ERRORS = 100


@router.get("/collections", response_model=Collections, **READ, summary="List the collections")
def list_collections(folder: Folder) -> Response:
    """List the collections; those that cannot be opened are listed separately."""
    summaries = [_summary(collection) for collection in folder.collections().values()]
    unavailable = unavailable_collections(folder)
    return render(Collections(collections=summaries, unavailable=unavailable))


@router.get(
    "/collections/{name}",
    response_model=CollectionDetail,
    **FILTERED_READ,
    summary="Describe a collection",
)
def get_collection(collection: CollectionOf) -> Response:
    """Describe a collection and its codes; to a key with a filter, without the codes."""
    if isinstance(collection, FilteredCollection):
        return render(_summary(collection))
    return render(_describe(collection, CollectionDetail))


@router.get(
    "/collections/{name}/stats",
    response_model=CollectionStats,
    **LONG_READ,
    summary="Get a collection's statistics",
)
def get_collection_stats(collection: CollectionOf, folder: Folder) -> Response:
    """Describe a collection's size, its search engine and why it was chosen, and its codes.

    Few distinct codes, dead bits or crowded buckets are signs of an encoder that has collapsed.
    """
    stats = _describe(collection, CollectionStats)
    stats["problems"] = [without_path(problem, folder) for problem in stats["problems"]]
    return render(stats)


_DEFAULT_SETTINGS = CreateCollection.model_validate({})


@router.put(
    "/collections/{name}",
    response_model=CreatedCollection,
    status_code=201,
    **WRITING_ADMIN,
    responses={
        200: {"model": CreatedCollection, "description": "An equal collection exists."},
        412: {
            "description": "With If-None-Match: an equal collection exists.",
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        },
    },
    summary="Create a collection",
)
def create_collection(
    name: str,
    folder: Folder,
    body: CreateCollection = _DEFAULT_SETTINGS,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Create a collection with an encoder, for documents with codes of `n_bits`, or without codes.

    With the encoder null, documents are searched by words alone. Without a body, the encoder is the
    one that ships; where it is not installed, `warnings` says so, and words alone rank. With
    ``If-None-Match: *`` a collection that exists is refused, even an equal one.
    """
    create_only = creates_only(if_none_match)
    collection, is_new = folder.find_or_create_collection(
        name,
        encoder=encoder_by_dimensions(body.encoder, body.dimensions),
        n_bits=body.code_length,
        engine=body.engine,
        indexed_fields=body.indexed_fields,
        keep_vectors=body.keep_vectors,
        passages=body.passages_settings,
        language=body.language,
    )
    if create_only and not is_new:
        raise ProblemError(412, "collection_exists", f"collection {name!r} already exists")
    summary = _summary(collection)
    by_default = body.encoder is None and body.code_length is None
    warnings = [NO_ENCODER] if by_default and not collection.n_bits else []
    return render(with_warnings({**summary}, warnings), 201 if is_new else 200)


@router.patch(
    "/collections/{name}",
    response_model=CollectionSummary,
    **WRITING_ADMIN,
    summary="Change a collection's ranking, weight of codes or language",
)
def update_collection(collection: CollectionOf, body: UpdateCollection) -> Response:
    """Set the ranking, or the weight of codes beside words, of searches that do not name one."""
    if not body.model_fields_set:
        raise invalid_field("is empty; it must have ranking, hybrid_weight or language")
    with pointing_at():
        if body.ranking is not None:
            collection.set_ranking(body.ranking)
        if body.language is not None:
            collection.set_language(body.language)
        if "hybrid_weight" in body.model_fields_set:
            collection.set_hybrid_weight(body.hybrid_weight)
    return render(_summary(collection))


@router.delete(
    "/collections/{name}", status_code=204, **WRITING_ADMIN, summary="Delete a collection"
)
def delete_collection(name: str, folder: Folder) -> Response:
    """Delete a collection and all of its documents."""
    folder.drop_collection(name)
    return Response(status_code=204)


@documents_router.put(
    "/collections/{name}/documents",
    response_model=Upserted,
    **FILTERED_WRITE,
    dependencies=WRITE_SLOT,
    responses={
        412: {
            "description": "With If-None-Match: one of the documents already exists.",
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    },
    summary="Upsert documents",
)
def upsert_documents(
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
    state = request.scope["state"]
    check_fingerprint(visible_collection(state, folder, name), body.encoder_fingerprint)
    documents = [
        parse_item(item, limits, "documents", position, id=item.id)
        for position, item in enumerate(body.documents)
    ]

    def check_missing(stored: Collection[str]) -> None:
        if create_only:
            _check_missing(documents, stored)

    with gate.writing(), stage(request, "store"):
        collection = visible_collection(state, folder, name)
        check_fingerprint(collection, body.encoder_fingerprint)
        try:
            result = collection.upsert(documents, check=check_missing)
        except InputError as error:
            if error.position is not None and isinstance(collection, FilteredCollection):
                raise invalid_field(
                    error.reason, "documents", error.position, error.field
                ) from None
            raise invalid_field(str(error), "documents") from None
    return render(asdict(result))


@documents_router.get(
    "/collections/{name}/documents/{id:any_text}",
    response_model=StoredDocument,
    **FILTERED_READ,
    summary="Get a document",
)
def get_document(request: Request, collection: CollectionOf, id: str) -> Response:
    """Get a document as it is stored. Percent-encode the id; it may contain any characters."""
    with stage(request, "store"), payloads_as_stored():
        stored = collection.get(id)
    if stored is None:
        raise UnknownDocument(f"collection {collection.name!r} has no document {id[:80]!r}")
    return render(document_to_json(stored))


@documents_router.delete(
    "/collections/{name}/documents/{id:any_text}",
    status_code=204,
    **FILTERED_WRITING,
    summary="Delete a document",
)
def delete_document(request: Request, collection: CollectionOf, id: str) -> Response:
    """Delete a document."""
    with stage(request, "store"):
        deleted = collection.delete([id]).deleted
    if not deleted:
        raise UnknownDocument(f"collection {collection.name!r} has no document {id[:80]!r}")
    return Response(status_code=204)


def _check_missing(documents: list[Document], existing: Collection[str]) -> None:
    """Raise a ProblemError, 412, that points to the documents that exist."""
    errors = [
        {
            "pointer": pointer("documents", position, "id"),
            "message": f"document {document.id[:80]!r} already exists",
        }
        for position, document in enumerate(documents)
        if document.id in existing
    ]
    if errors:
        message = f"{len(errors):,} of the documents already exist; nothing was written"
        raise ProblemError(412, "document_exists", message, errors[:MAX_ERRORS])


def _describe(collection: CollectionBackend, fields: type[CollectionDetail]) -> dict[str, Any]:
    stats = {**collection.stats(), "encoder": encoder_name(collection)}
    return {field: stats[field] for field in fields.__annotations__}


def _summary(collection: CollectionBackend) -> CollectionSummary:
    derived: dict[str, Any] = {
        "encoder": encoder_name(collection),
        "documents": len(collection),
        "passages": None if collection.passages is None else asdict(collection.passages),
    }
    own = CollectionSummary.__annotations__.keys() - derived.keys()
    return cast("CollectionSummary", derived | {name: getattr(collection, name) for name in own})


# Bits and buckets.


class Profiles:
    """A cache of the last profile of each collection; a write makes it invalid."""

    def __init__(self) -> None:
        self._profiles: WeakKeyDictionary[
            CollectionBackend, tuple[tuple[str, int, int], CodeProfile]
        ]
        self._profiles = WeakKeyDictionary()

    def of(self, collection: CollectionBackend, label_field: str) -> CodeProfile:
        """Return the profile of a collection at its current generation.

        Raises:
            InputError: if the label field of a document holds something that is not a label.
        """
        # Documents that expire leave a generation, whose number stays.
        key = label_field, collection.generation, len(collection)
        known, profile = self._profiles.get(collection, (None, None))
        if profile is None or known != key or profile.generation != collection.generation:
            profile = profile_of(code_table(collection, label_field))
            self._profiles[collection] = key, profile
        return profile


ProfilesOf = Annotated[Profiles, state_of("profiles")]


@router.get(
    "/collections/{name}/codes",
    response_model=CodesInfo,
    **LONG_READ,
    summary="Describe a collection's codes",
)
def describe_codes(
    collection: CollectionOf,
    profiles: ProfilesOf,
    label_field: Annotated[
        str, Query(description="The payload field that holds the label.")
    ] = "label",
) -> Response:
    """Describe every bit, their correlations, and the buckets that documents share.

    The first request after a write reads all payloads, in slices, so that other requests have
    their turn in between; later requests return the same profile.
    """
    with pointing_at():
        profile = profiles.of(collection, label_field)
    info = {**asdict(profile), "n_bits": collection.n_bits}
    info["largest"] = [{**asdict(bucket), "code": bucket.code.hex()} for bucket in profile.largest]
    return render(info)


# Verification, compaction, indexes of fields.


@router.post(
    "/collections/{name}/verify",
    response_model=VerificationInfo,
    **LONG_READ,
    responses={202: {"model": JobInfo, "description": "A job checks it in the background."}},
    summary="Verify a collection",
)
def verify_collection(
    request: Request, collection: CollectionOf, folder: Folder, submit: SubmitOf
) -> Response:
    """Check every document against its checksum, and codes and index against the documents.

    The check sees one generation, while searches and writes continue. The response lists the
    problems, with status 200. With the header ``Prefer: respond-async`` it runs as a job, which
    requires a write key.
    """
    if wants_async(request):
        # The job's record stays, and a read key must not write.
        check_role(request, Role.WRITE)
        return accepted_response(submit("verify", collection.name))
    return render(verify(collection, folder))


@router.post(
    "/collections/{name}/compact",
    response_model=CompactionInfo,
    **LONG_ADMIN,
    responses={202: {"model": JobInfo, "description": "It is done in the background."}},
    summary="Compact a collection",
)
def compact_collection(request: Request, collection: CollectionOf, submit: SubmitOf) -> Response:
    """Free the space of deleted documents; searches continue, writes wait.

    While it runs, it needs as much free space as the collection takes. With the header ``Prefer:
    respond-async`` it runs as a job.
    """
    if wants_async(request):
        return accepted_response(submit("compact", collection.name))
    return render(compact(collection))


@router.post(
    "/collections/{name}/index-fields",
    response_model=IndexedFieldsInfo,
    **LONG_ADMIN,
    responses={202: {"model": JobInfo, "description": "It is done in the background."}},
    summary="Choose the indexed fields",
)
def choose_indexed_fields(
    request: Request, collection: CollectionOf, body: IndexFields, submit: SubmitOf
) -> Response:
    """Index exactly these payload fields; searches and writes continue.

    Filters on indexed fields find the same documents, only faster. With the header ``Prefer:
    respond-async`` it runs as a job.
    """
    with pointing_at():
        fields = list(check_indexed_fields(body.indexed_fields))
        if wants_async(request):
            return accepted_response(submit("index_fields", collection.name, {"fields": fields}))
        return render(index_fields(collection, fields))


# Aliases, and reindexing, which ends with the move of an alias.


@router.get("/aliases", response_model=Aliases, **READ, summary="List the aliases")
def list_aliases(folder: Folder) -> Response:
    """List the aliases and the collection of each."""
    return _render_aliases(folder)


@router.post("/aliases", response_model=Aliases, **ADMIN, summary="Change aliases")
def change_aliases(body: ChangeAliases, folder: Folder, gate: GateOf) -> Response:
    """Add, move and remove aliases in one step: all actions apply, or none.

    Writes already in progress finish on the collection that the alias named before; every later
    request goes to the one that it names now.
    """
    actions = [_action(action) for action in body.actions]
    try:
        with gate.closed():
            folder.change_aliases(actions)
    except InputError as error:
        raise invalid_field(error.reason, "actions", error.position or 0) from None
    return _render_aliases(folder)


@router.post("/collections/{name}/reindex", **ACCEPTED, **ADMIN, summary="Reindex a collection")
def reindex_collection(
    collection: CollectionOf, body: Reindex, folder: Folder, submit: SubmitOf
) -> Response:
    """Encode the stored texts or vectors with another encoder into a new collection, as a job.

    Searches and writes continue, and the new collection receives the writes too. When it is
    complete, the alias moves to it in one step; the old collection stays.
    """
    encoder = folder.encoders.load(body.encoder)
    engine = body.engine or collection.engine_setting
    with pointing_at():
        check_index_type(engine, encoder.n_bits)
    check_target(folder, body.into, body.alias)
    spec = {**body.model_dump(), "source": collection.name, "engine": engine}
    return accepted_response(submit("reindex", body.into, spec))


def check_target(folder: DataFolder, into: str, alias: str | None) -> None:
    """Check the names of a collection to create and of the alias to move to it.

    Raises:
        ProblemError: 422, pointing to an invalid name, or to an alias that names a collection.
        CollectionExists: if the collection's name is taken.
    """
    with pointing_at():
        check_name(into, "into")
        if alias is not None:
            check_name(alias, "alias")
    check_free(folder, into)
    if alias is not None and alias in {*folder.collections(), into}:
        raise invalid_field("is the name of a collection; choose another alias", "alias")


def _action(action: AliasAction) -> AddAlias | RemoveAlias:
    if action.add is not None:
        return AddAlias(action.add.alias, action.add.collection)
    assert action.remove is not None  # noqa: S101 - the model requires one of the two
    return RemoveAlias(action.remove.alias)


def _render_aliases(folder: Folder) -> Response:
    pairs = folder.aliases().items()
    return render(Aliases(aliases=[Alias(alias=alias, collection=name) for alias, name in pairs]))
