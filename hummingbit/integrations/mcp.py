"""A Model Context Protocol server: agents find, store and evaluate documents of a collection.

Source: https://modelcontextprotocol.io/specification; the server is the official Python SDK's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

from hummingbit.clients.transport import ServiceError
from hummingbit.embedded import Collection
from hummingbit.foundation.errors import HummingbitError
from hummingbit.index.rankings import SUMMARIES
from hummingbit.served import AnyOpenCollection

MAX_HITS = 50
"""The largest number of hits of a search. Agents read all of them."""


RankingName = Annotated[
    str, Field(description=f"{SUMMARIES}. Without it, the collection's default applies.")
]


class FoundDocument(BaseModel):
    """A document that a search found."""

    id: str
    score: float = Field(description="The score of the ranking; higher is better.")
    text: str | None
    metadata: dict[str, Any]


class FindResult(BaseModel):
    """The documents that a search found, and how it understood the query."""

    hits: list[FoundDocument]
    corrected: list[tuple[str, str]] = Field(
        description="Unknown words of the query, each with the known words that it was read as."
    )
    recognized_terms: int | None = Field(
        description="How many words of the query are known; 0 means that the codes found nothing."
    )
    warnings: list[str] = Field(description="Why the filter matches no document, if it does not.")


class StoredText(BaseModel):
    """A whole document."""

    id: str
    text: str | None
    metadata: dict[str, Any]


class DeleteResult(BaseModel):
    """How many documents were deleted, and how many there are now."""

    deleted: int
    documents: int


class StoreResult(BaseModel):
    """A document that was stored."""

    id: str
    documents: int = Field(description="How many documents the collection has now.")


class LabelledText(BaseModel):
    """A query whose label is known."""

    text: str
    label: str


class EvaluationResult(BaseModel):
    """Retrieval quality: the tie-averaged mean of each metric over the queries, from 0 to 1.

    A metric of a ranking other than by Hamming distance has that ranking before its name.
    """

    warning: str | None = Field(description="Set if the values are of training data.")
    queries: int
    metrics: dict[str, float]
    notes: list[str]


def make_server(collection: AnyOpenCollection, *, read_only: bool = False) -> MCPServer:
    """Return a server with the tools ``find`` and ``get``, and with others where they can be had.

    Unless `read_only` it has ``store`` and ``delete``; ``evaluate`` needs a collection in process.
    """
    instructions = (
        f"The collection {collection.name!r} holds texts that are searched by meaning and words."
    )
    server = MCPServer("hummingbit", instructions=instructions, version=version("hummingbit"))
    read_only_hints = ToolAnnotations(read_only_hint=True, open_world_hint=False)

    @server.tool(annotations=read_only_hints)
    def find(
        query: str,
        limit: int = 10,
        filter: dict[str, Any] | None = None,  # noqa: A002
        ranking: RankingName | None = None,
    ) -> FindResult:
        """Find the documents that answer a query, best first.

        `filter` is a condition on metadata, such as {"field": "year", "gte": 1990}; conditions are
        joined by {"and": [...]}, {"or": [...]} and {"not": {...}}.
        """
        capped = min(limit, MAX_HITS)
        with _tool_errors():
            hits = collection.search(query, limit=capped, filter=filter, ranking=ranking)
        return FindResult(
            hits=[
                FoundDocument(
                    id=hit.id, score=hit.score, text=hit.text, metadata=dict(hit.payload or {})
                )
                for hit in hits
            ],
            corrected=hits.corrected,
            recognized_terms=hits.recognized_terms,
            warnings=list(hits.warnings),
        )

    @server.tool(annotations=read_only_hints)
    def get(id: str) -> StoredText:  # noqa: A002
        """Read a whole document by its id."""
        with _tool_errors():
            stored = collection.get(id)
        if stored is None:
            raise ToolError(f"there is no document {id!r}")
        return StoredText(id=stored.id, text=stored.text, metadata=dict(stored.payload))

    if isinstance(collection, Collection):
        _add_evaluation(server, collection)
    if not read_only:
        _add_writing(server, collection)
    return server


def _add_evaluation(server: MCPServer, collection: Collection) -> None:
    """Add the tool ``evaluate``."""

    @server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
    def evaluate(queries: list[LabelledText]) -> EvaluationResult:
        """Measure how well the collection retrieves documents with the label of each query."""
        with _tool_errors():
            report = collection.evaluate(
                [query.text for query in queries], [query.label for query in queries]
            )
        return EvaluationResult(
            warning=report.warning,
            queries=report.queries,
            metrics={metric.measure: metric.expected for metric in report.metrics},
            notes=list(report.notes),
        )


def _add_writing(server: MCPServer, collection: AnyOpenCollection) -> None:
    """Add the tools ``store`` and ``delete``."""

    @server.tool(annotations=ToolAnnotations(idempotent_hint=True, open_world_hint=False))
    def store(text: str, id: str, metadata: dict[str, Any] | None = None) -> StoreResult:  # noqa: A002
        """Store a document, and replace the one that has its id."""
        with _tool_errors():
            collection.add([text], ids=[id], payloads=[metadata or {}])
            return StoreResult(id=id, documents=len(collection))

    @server.tool(
        annotations=ToolAnnotations(
            destructive_hint=True, idempotent_hint=True, open_world_hint=False
        )
    )
    def delete(ids: list[str]) -> DeleteResult:
        """Delete documents by their ids; unknown ids are ignored."""
        with _tool_errors():
            return DeleteResult(deleted=collection.delete(ids), documents=len(collection))


@contextmanager
def _tool_errors() -> Iterator[None]:
    """Turn errors that the agent can correct into tool errors; any other error is a defect."""
    try:
        yield
    except (HummingbitError, ServiceError) as error:
        raise ToolError(str(error)) from None
