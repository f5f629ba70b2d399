"""The JSON of aliases and of reindexing."""

from __future__ import annotations

from pydantic import Field, model_validator

from index.engines.choice import ENGINES
from service.schemas.common import RequestModel, ResponseModel


class AliasToAdd(RequestModel):
    """Let `alias` mean `collection`, whatever it meant before."""

    alias: str
    collection: str


class AliasToRemove(RequestModel):
    """Forget `alias`."""

    alias: str


class AliasAction(RequestModel):
    """Exactly one of the two."""

    add: AliasToAdd | None = None
    remove: AliasToRemove | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> AliasAction:
        if (self.add is None) == (self.remove is None):
            raise ValueError("must have exactly one of add and remove")
        return self


class ChangeAliases(RequestModel):
    """Actions that are taken in their order, all of them or none."""

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
    """All aliases, in order."""

    aliases: list[Alias]


class Reindex(RequestModel):
    """Where the documents go, encoded by another encoder, and which alias then means it."""

    encoder: str
    into: str = Field(description="The name of the collection to make.", examples=["books-2"])
    alias: str | None = Field(
        None, description="Means the collection from the moment it is complete."
    )
    engine: str | None = Field(
        None,
        description="What the collection is searched by; without one, what the old one was made"
        " with.",
        json_schema_extra={"enum": [*ENGINES, None]},
    )
