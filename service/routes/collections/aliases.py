"""Aliases over REST, and reindexing, which ends with the move of an alias."""

from __future__ import annotations

from fastapi import APIRouter, Response

from foundation.errors import InputError
from index.data_folder import DataFolder
from index.folder.alias_file import AddAlias, RemoveAlias
from index.folder.names import check_name
from service.http.problems import invalid_field
from service.http.roles import ADMIN, READ
from service.http.routing import JSONRoute
from service.routes.dependencies import CollectionOf, Folder, GateOf, check_free, render
from service.routes.jobs.jobs import SubmitOf, accepted_response
from service.schemas.checks import pointing_at
from service.schemas.collections.aliases import Alias, AliasAction, Aliases, ChangeAliases, Reindex
from service.schemas.jobs.jobs import JobInfo

router = APIRouter(prefix="/v1", route_class=JSONRoute)


@router.get("/aliases", response_model=Aliases, openapi_extra=READ, summary="List the aliases")
def get_aliases(folder: Folder) -> Response:
    """List the aliases and the collection of each."""
    return _render_aliases(folder)


@router.post("/aliases", response_model=Aliases, openapi_extra=ADMIN, summary="Change aliases")
def post_aliases(body: ChangeAliases, folder: Folder, gate: GateOf) -> Response:
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


@router.post(
    "/collections/{name}/reindex",
    response_model=JobInfo,
    status_code=202,
    openapi_extra=ADMIN,
    summary="Reindex a collection",
)
def post_reindex(
    collection: CollectionOf, body: Reindex, folder: Folder, submit: SubmitOf
) -> Response:
    """Encode the stored texts or vectors with another encoder into a new collection, as a job.

    Searches and writes continue, and the new collection receives the writes too. When it is
    complete, the alias moves to it in one step; the old collection stays.
    """
    encoder = folder.encoders.load(body.encoder)
    engine = body.engine or collection.engine_setting
    with pointing_at():
        folder.check_engine(engine, encoder.n_bits)
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
