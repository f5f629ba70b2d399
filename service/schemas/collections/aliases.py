"""The JSON of aliases and of reindexing."""

from __future__ import annotations

from pydantic import Field, model_validator

from index.engines.choice import ENGINES
from service.schemas.common import RequestModel, ResponseModel


class AliasToAdd(RequestModel):
    """Point `alias` to `collection`, wherever it pointed before."""

    alias: str
    collection: str


class AliasToRemove(RequestModel):
    """Remove `alias`."""

    alias: str


class AliasAction(RequestModel):
    """Exactly one of `add` and `remove`."""

    add: AliasToAdd | None = None
    remove: AliasToRemove | None = None

    @model_validator(mode="after")
    def _check_exactly_one(self) -> AliasAction:
        if (self.add is None) == (self.remove is None):
            raise ValueError("must have exactly one of add and remove")
        return self


class ChangeAliases(RequestModel):
    """Actions that apply in order, all of them or none."""

    actions: list[AliasAction] = Field(
        min_length=1,
        max_length=1000,
        examples=[[{"add": {"alias": "books", "collection": "books-2"}}]],
    )


class Alias(ResponseModel):
    """A second name of a collection."""

    alias: str
    collection: str


class Aliases(ResponseModel):
    """All aliases, sorted."""

    aliases: list[Alias]


class Reindex(RequestModel):
    """The encoder, the collection to make, and the alias that moves to it."""

    encoder: str
    into: str = Field(description="The name of the collection to create.", examples=["books-2"])
    alias: str | None = Field(None, description="Moves to the collection once it is complete.")
    engine: str | None = Field(
        None,
        description="The engine that searches the new collection; by default, that of the old one.",
        json_schema_extra={"enum": [*ENGINES, None]},
    )
