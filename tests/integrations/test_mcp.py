"""The official client of the Model Context Protocol, over standard input and over HTTP."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

from hummingbit import Collection, SemanticHasher
from hummingbit.integrations.mcp import make_server
from hummingbit.service.http.keys import create_key

TEXTS = ["a cat and a dog", "dogs and cats", "stocks and bonds", "a bond or a stock"]
LABELS = ["pets", "pets", "money", "money"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    hasher = SemanticHasher(n_bits=64, method="lsh").fit(TEXTS * 5)
    with Collection.create(tmp_path / "data", "notes", encoder=hasher) as collection:
        collection.add(TEXTS, ids=["a", "b", "c", "d"], labels=LABELS)
    return tmp_path / "data"


async def check_several(client: Client, names: list[str]) -> None:
    """Find, store, get and delete in each of the collections, which have the texts."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert "list_collections" in tools
    assert all("collection" in tools[name].input_schema["required"] for name in ("find", "get"))
    listed = (await call(client, "list_collections"))["collections"]
    assert {
        item["name"]: item["documents"] for item in listed if item["name"] in names
    } == dict.fromkeys(names, 4)
    for name in names:
        kept = await call(client, "store", collection=name, text="a new moon", id=name)
        assert kept == {"id": name, "replaced": False, "documents": 5}
    for name, other in zip(names, reversed(names), strict=True):
        found = await call(client, "find", collection=name, query="a new moon", limit=1)
        assert [hit["id"] for hit in found["hits"]] == [name]
        assert (await call(client, "get", collection=name, id=name))["text"] == "a new moon"
        missing = await client.call_tool("get", {"collection": name, "id": other})
        assert missing.is_error
    deleted = await call(client, "delete", collection=names[0], ids=[names[0]])
    assert deleted == {"deleted": 1, "documents": 4}
    listed = (await call(client, "list_collections"))["collections"]
    assert {item["name"]: item["documents"] for item in listed}.items() >= {
        names[0]: 4,
        names[1]: 5,
    }.items()
    unknown = await client.call_tool("find", {"collection": "nowhere", "query": "moon"})
    assert unknown.is_error
    assert "nowhere" in unknown.content[0].text


@pytest.mark.parametrize("named", [True, False])
async def test_an_agent_works_with_several_collections(data: Path, *, named: bool) -> None:
    with Collection.create(data, "letters", encoder="notes") as letters:
        letters.add(TEXTS, ids=["a", "b", "c", "d"], labels=LABELS)
    names = ["notes", "letters"]
    arguments = ["-m", "hummingbit", "mcp", *(names if named else []), "--data-dir", str(data)]
    server = StdioServerParameters(command=sys.executable, args=arguments)
    async with Client(stdio_client(server)) as client:
        await check_several(client, names)
        queries = [{"text": "cats", "label": "pets"}] * 2
        report = await call(client, "evaluate", collection="letters", queries=queries)
        assert report["queries"] == 2


@pytest.mark.parametrize("named", [True, False])
async def test_an_agent_works_with_several_collections_of_a_service(
    served: Any, *, named: bool
) -> None:
    hasher = SemanticHasher(n_bits=64, method="lsh").fit(TEXTS * 5)
    both = [served.create(hasher) for _ in range(2)]
    for collection in both:
        collection.add(TEXTS, ids=["a", "b", "c", "d"])
    names = [collection.name for collection in both]
    key = served.key
    if named:
        keys = served.data / "keys.json"
        key = create_key(keys, f"agent-{names[0]}", "write", collections=names)
    arguments = ["-m", "hummingbit", "mcp", *(names if named else []), "--url", served.url]
    server = StdioServerParameters(
        command=sys.executable, args=arguments, env={"HUMMINGBIT_KEY": key}
    )
    async with Client(stdio_client(server)) as client:
        await check_several(client, names)
        if not named:  # a collection that is created later can be used, too
            later = served.create(hasher)
            kept = await call(client, "store", collection=later.name, text=TEXTS[0], id="a")
            assert kept["documents"] == 1


def command(data: Path, *more: str) -> list[str]:
    return ["-m", "hummingbit", "mcp", "notes", "--data-dir", str(data), *more]


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return dict(result.structured_content)


async def test_an_agent_finds_stores_and_evaluates(data: Path) -> None:
    server = StdioServerParameters(command=sys.executable, args=command(data))
    async with Client(stdio_client(server)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"find", "get", "store", "delete", "evaluate"}
        found = await call(client, "find", query="bond", limit=2)
        assert found["hits"][0]["id"] == "d"
        assert found["hits"][0]["metadata"] == {"label": "money"}
        kept = await call(client, "store", text="a bond with a cat", id="e", metadata={"year": 3})
        assert kept == {"id": "e", "replaced": False, "documents": 5}
        only = {"field": "year", "eq": 3}
        found = await call(client, "find", query="cat", filter=only)
        assert [hit["id"] for hit in found["hits"]] == ["e"]
        assert found["warnings"] == []
        found = await call(client, "find", query="cat", filter={"field": "yaer", "eq": 3})
        assert found["warnings"] == ["filter: no document has the field 'yaer'"]
        figures = await call(client, "evaluate", queries=[{"text": "cats", "label": "pets"}] * 2)
        assert figures["queries"] == 2
        assert 0 < figures["metrics"]["mAP@100"] <= 1
        wrong = await client.call_tool("find", {"query": "cat", "ranking": "magic"})
        assert wrong.is_error
        assert "ranking" in wrong.content[0].text
    with Collection.open(data, "notes", read_only=True) as collection:
        assert len(collection) == 5


@pytest.fixture
def address(data: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [sys.executable, *command(data, "--read-only", "--http", str(port))]
    with subprocess.Popen(arguments, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(port)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("the server does not listen")


async def test_over_http_a_reader_may_not_store(address: str) -> None:
    async with Client(address) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {
            "find",
            "get",
            "evaluate",
        }
        found = await call(client, "find", query="cats", limit=1)
        assert found["hits"][0]["id"] == "b"


async def test_an_agent_works_at_a_running_service(served: Any) -> None:
    hasher = SemanticHasher(n_bits=64, method="lsh").fit(TEXTS * 5)
    collection = served.create(hasher)
    arguments = ["-m", "hummingbit", "mcp", collection.name, "--url", served.url]
    server = StdioServerParameters(
        command=sys.executable, args=arguments, env={"HUMMINGBIT_KEY": served.key}
    )
    async with Client(stdio_client(server)) as client:
        assert (await call(client, "store", text=TEXTS[2], id="c"))["documents"] == 1
        found = await call(client, "find", query="bonds", limit=2)
        assert [hit["id"] for hit in found["hits"]] == ["c"]
        assert (await call(client, "get", id="c"))["text"] == TEXTS[2]
        assert await call(client, "delete", ids=["c", "x"]) == {"deleted": 1, "documents": 0}
        missing = await client.call_tool("get", {"id": "c"})
        assert missing.is_error


async def test_an_agent_works_with_words_alone(by_words: Any) -> None:
    async with Client(make_server(by_words)) as client:
        assert "searched by words" in (client.instructions or "")
        for id_, text in zip("abcd", TEXTS, strict=True):
            await call(
                client, "store", text=text, id=id_, metadata={"label": LABELS["abcd".index(id_)]}
            )
        found = await call(client, "find", query="bonds", limit=2)
        assert [hit["id"] for hit in found["hits"]] == ["c", "d"]
        refused = await client.call_tool("find", {"query": "bonds", "ranking": "asymmetric"})
        assert refused.is_error
        assert "words alone" in refused.content[0].text
        report = await call(client, "evaluate", queries=[{"text": "cats", "label": "pets"}])
        assert report["metrics"]


async def refusal(client: Client, name: str, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    assert result.is_error, result.structured_content
    return str(result.content[0].text)


async def test_an_argument_that_a_tool_does_not_have_is_an_error(by_words: Any) -> None:
    async with Client(make_server(by_words)) as client:
        await call(client, "store", text=TEXTS[0], id="a")
        only = {"field": "year", "eq": 3}
        said = await refusal(client, "find", query="cat", filters=only, top_k=1)
        assert "there is no argument 'filters'; the arguments are query, limit, filter, ran" in said
        said = await refusal(client, "store", text="a dog", id="b", metdata={"year": 3})
        assert "there is no argument 'metdata'; the arguments are text, id, metadata" in said
        assert "'ID'" in await refusal(client, "get", id="a", ID="a")
        assert "'filter'" in await refusal(client, "delete", ids=["a"], filter=only)
        said = await refusal(client, "evaluate", queries=[{"text": "cat", "labels": ["pets"]}])
        assert "labels" in said
        for limit in (0, 51):
            assert "limit" in await refusal(client, "find", query="cat", limit=limit)
        assert (await call(client, "find", query="cat", limit=50))["hits"]
        assert (await call(client, "find", query="a dog", limit=1))["hits"][0]["id"] == "a"
        for tool in (await client.list_tools()).tools:
            assert tool.input_schema["additionalProperties"] is False
    async with Client(make_server({"notes": by_words})) as client:
        said = await refusal(client, "find", collections="notes", query="cat")
        assert "there is no argument 'collections'; the arguments are collection, query" in said
        assert "there is no argument 'x'" in await refusal(client, "list_collections", x=1)


async def test_a_document_that_replaces_another_says_so(by_words: Any) -> None:
    async with Client(make_server(by_words)) as client:
        for replaced in (False, True):
            kept = await call(client, "store", text=TEXTS[0], id="a")
            assert kept == {"id": "a", "replaced": replaced, "documents": 1}
