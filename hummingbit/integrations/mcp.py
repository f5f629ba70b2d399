"""A Model Context Protocol server: agents find, store and evaluate documents of collections.

Source: https://modelcontextprotocol.io/specification; the server is the official Python SDK's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field, model_validator

from hummingbit.clients.client import Client
from hummingbit.clients.requests import ServiceError
from hummingbit.embedded import Collection
from hummingbit.foundation.errors import HummingbitError
from hummingbit.index.names import SUMMARIES
from hummingbit.served import AnyOpenCollection, ServedCollection, ServedCollections

MAX_HITS = 50
"""The largest number of hits of a search. Agents read all of them."""


RankingName = Annotated[
    str, Field(description=f"{SUMMARIES}. Without it, the collection's default applies.")
]

CollectionName = Annotated[
    str, Field(description="A name of list_collections: the collection to work on.")
]


class ListedCollection(BaseModel):
    """A collection that the other tools take."""

    name: str
    documents: int
    ranking: str = Field(description="The ranking of a find that names none.")


class CollectionList(BaseModel):
    """The collections that the other tools take."""

    collections: list[ListedCollection]


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
    replaced: bool = Field(
        description="Whether a document had this id before; null if that cannot be told."
    )
    documents: int = Field(description="How many documents the collection has now.")


class LabelledText(BaseModel):
    """A query whose label is known."""

    model_config = ConfigDict(extra="forbid")

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


Collections = Mapping[str, AnyOpenCollection]
"""Collections by name, in this process or of a service."""

_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_STORES = ToolAnnotations(idempotent_hint=True, open_world_hint=False)
_DELETES = ToolAnnotations(destructive_hint=True, idempotent_hint=True, open_world_hint=False)


def make_server(
    collections: AnyOpenCollection | Collections | Client, *, read_only: bool = False
) -> MCPServer:
    """Return a server with the tools ``find``, ``get`` and ``evaluate``.

    Unless `read_only` it also has ``store`` and ``delete``.
    With several collections, or all those of a service's client, there is ``list_collections``, and
    each of the other tools takes the name of a collection.
    """
    single = None
    if isinstance(collections, Client):
        collections = ServedCollections(collections)
    if isinstance(collections, Collection | ServedCollection):
        single = collections
        collections = {single.name: single}
    tools = _Tools(collections)
    by_words = single is not None and not single.n_bits
    texts = f"texts that are searched by {'words' if by_words else 'meaning and words'}"
    instructions = (
        f"The collection {single.name!r} holds {texts}."
        if single is not None
        else f"The collections of list_collections hold {texts}. Every other tool names one."
    )
    offered: list[tuple[Callable[..., BaseModel], ToolAnnotations]] = [
        (tools.find, _READS),
        (tools.get, _READS),
        (tools.evaluate, _READS),
    ]
    if not read_only:
        offered += [(tools.store, _STORES), (tools.delete, _DELETES)]
    made = [] if single is not None else [_strict_tool(tools.list_collections, _READS)]
    for tool, hints in offered:
        function = tool if single is None else _without_name(tool, single.name)
        made.append(_strict_tool(function, hints))
    return MCPServer(
        "hummingbit", instructions=instructions, version=version("hummingbit"), tools=made
    )


def _strict_tool(function: Callable[..., BaseModel], hints: ToolAnnotations) -> Tool:
    """Return a tool that refuses arguments that it does not know, and names those that it does.

    The models of the SDK ignore them, so a misspelt filter would find everything.
    """
    tool = Tool.from_function(function, annotations=hints)
    lenient = tool.fn_metadata.arg_model
    names = [*lenient.model_fields]

    def refuse_unknown(given: Any) -> Any:
        if isinstance(given, Mapping) and (unknown := given.keys() - {*names}):
            known = ", ".join(names) or "none"
            raise ValueError(f"there is no argument {min(unknown)!r}; the arguments are {known}")
        return given

    namespace = {
        "__module__": __name__,
        "model_config": ConfigDict(extra="forbid"),
        "refuse_unknown": model_validator(mode="before")(refuse_unknown),
    }
    strict = type(lenient)(lenient.__name__, (lenient,), namespace)
    tool.fn_metadata.arg_model = strict
    tool.parameters = strict.model_json_schema(by_alias=True)
    return tool


def _without_name(tool: Callable[..., BaseModel], collection: str) -> Callable[..., BaseModel]:
    """Return a tool for one collection; its signature, which agents see, names no collection."""
    function = partial(tool, collection)
    vars(function).update(__name__=tool.__name__, __doc__=tool.__doc__)
    return function


class _Tools:
    """The tools; each takes the name of a collection first."""

    def __init__(self, collections: Collections) -> None:
        self._collections = collections

    def list_collections(self) -> CollectionList:
        """List the collections that the other tools take."""
        with _tool_errors():
            return CollectionList(
                collections=[
                    ListedCollection(
                        name=name,
                        documents=len(collection),
                        ranking=collection.ranking,
                    )
                    for name, collection in self._collections.items()
                ]
            )

    def find(
        self,
        collection: CollectionName,
        query: str,
        limit: Annotated[int, Field(ge=1, le=MAX_HITS)] = 10,
        filter: dict[str, Any] | None = None,  # noqa: A002
        ranking: RankingName | None = None,
    ) -> FindResult:
        """Find the documents that answer a query, best first.

        `filter` is a condition on metadata, such as {"field": "year", "gte": 1990}; conditions are
        joined by {"and": [...]}, {"or": [...]} and {"not": {...}}.
        """
        with self._opened(collection) as opened:
            hits = opened.search(query, limit=limit, filter=filter, ranking=ranking)
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

    def get(self, collection: CollectionName, id: str) -> StoredText:  # noqa: A002
        """Read a whole document by its id."""
        with self._opened(collection) as opened:
            stored = opened.get(id)
        if stored is None:
            raise ToolError(f"there is no document {id!r}")
        return StoredText(id=stored.id, text=stored.text, metadata=dict(stored.payload))

    def evaluate(self, collection: CollectionName, queries: list[LabelledText]) -> EvaluationResult:
        """Measure how well the collection retrieves documents with the label of each query."""
        with self._opened(collection) as opened:
            report = opened.evaluate(
                [query.text for query in queries], [query.label for query in queries]
            )
        return EvaluationResult(
            warning=report.warning,
            queries=report.queries,
            metrics={metric.measure: metric.expected for metric in report.metrics},
            notes=list(report.notes),
        )

    def store(
        self,
        collection: CollectionName,
        text: str,
        id: str,  # noqa: A002
        metadata: dict[str, Any] | None = None,
    ) -> StoreResult:
        """Store a document, and replace the one that has its id."""
        with self._opened(collection) as opened:
            added = opened.add([text], ids=[id], payloads=[metadata or {}])
            return StoreResult(id=id, replaced=bool(added.replaced), documents=len(opened))

    def delete(self, collection: CollectionName, ids: list[str]) -> DeleteResult:
        """Delete documents by their ids; unknown ids are ignored."""
        with self._opened(collection) as opened:
            return DeleteResult(deleted=opened.delete(ids), documents=len(opened))

    @contextmanager
    def _opened(self, name: str) -> Iterator[AnyOpenCollection]:
        """Yield the collection `name`; errors of the block become tool errors."""
        with _tool_errors():
            try:
                collection = self._collections[name]
            except KeyError:
                known = ", ".join(self._collections)
                message = f"there is no collection {name!r}; there are: {known}"
                raise ToolError(message) from None
            yield collection


@contextmanager
def _tool_errors() -> Iterator[None]:
    """Turn errors that the agent can correct into tool errors; any other error is a defect."""
    try:
        yield
    except (HummingbitError, ServiceError) as error:
        raise ToolError(str(error)) from None
