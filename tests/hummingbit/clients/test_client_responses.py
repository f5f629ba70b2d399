"""What the clients' calls say that they return, held to the service's own description."""

from __future__ import annotations

import inspect
import json
import re
import typing
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NotRequired, Union

import pytest

from hummingbit import Client
from hummingbit.clients import calls, responses
from hummingbit.clients.transport import Call
from hummingbit.index.search import REQUEST_OPTIONS
from hummingbit.service.app import create_app
from hummingbit.service.schemas.search import SearchRequest

# What a call is given in place of its parameters, by name; everything else gets a name.
ARGUMENTS: dict[str, Any] = {
    "actions": [{"add": {"alias": "a", "collection": "b"}}],
    "body": {},
    "content": b"",
    "documents": [],
    "fields": {},
    "headers": {},
    "ids": ["a"],
    "judgements": [],
    "labels": [],
    "limit": 1,
    "n": 1,
    "n_bits": 16,
    "options": {},
    "searches": [],
    "texts": ["a"],
    "updates": [],
    "vectors": None,
    "wanted": {},
}
# What the service's response is where a method returns a part of it.
WHOLE: dict[str, Any] = {
    "aliases": responses.Aliases,
    "count": responses.Count,
    "jobs": responses.Jobs,
    "query_weights": responses.Embeddings,
    "search_batch": dict[str, list[responses.SearchResponse]],
    "snapshots": responses.Snapshots,
}
JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


SEVERAL = {"close", "download_snapshot", "remove_alias", "set_alias", "wait_for"}
METHODS = {
    name: method
    for name, method in inspect.getmembers(Client, inspect.isfunction)
    if not name.startswith("_") and name not in SEVERAL
}


class Recorder(Client):
    """A client that keeps a call in place of sending it."""

    call: Call[Any]

    def _call(self, call: Call[Any]) -> Any:
        self.call = call
        raise InterruptedError


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    app = create_app(tmp_path_factory.mktemp("data"))
    schema: dict[str, Any] = json.loads(app.state.description())
    return schema


def call_of(name: str, file: Path) -> Call[Any]:
    parameters = inspect.signature(METHODS[name]).parameters.values()
    arguments = {
        parameter.name: file if parameter.name == "path" else ARGUMENTS.get(parameter.name, "x")
        for parameter in parameters
        if parameter.name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }
    with Recorder("http://localhost") as client:
        with pytest.raises(InterruptedError):
            getattr(client, name)(**arguments)
        return client.call


def operation(described: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    path = path.partition("?")[0]
    if path in described["paths"]:
        found: dict[str, Any] = described["paths"][path][method.lower()]
        return found
    for template, operations in described["paths"].items():
        pattern = re.sub(r"\{[^}]*\}", "[^/:]+", template)
        if re.fullmatch(pattern, path) and method.lower() in operations:
            one: dict[str, Any] = operations[method.lower()]
            return one
    raise AssertionError(f"{method} {path} is not described")


def resolved(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = components[schema["$ref"].rpartition("/")[2]]
    return schema


def differences(
    type_: Any, schema: dict[str, Any], components: dict[str, Any], place: str
) -> list[str]:
    """Return where a type and a schema say different things; Any agrees with everything."""
    schema, origin = resolved(schema, components), typing.get_origin(type_)
    if type_ is Any or schema == {}:
        return []
    if origin in {Union, UnionType}:
        return _of_parts(type_, schema, components, place)
    if origin in {list, tuple, dict}:
        return _of_items(type_, schema, components, place)
    if typing.is_typeddict(type_):
        return _of_fields(type_, schema, components, place)
    if origin is Literal:
        same = set(schema.get("enum", [schema.get("const")])) == set(typing.get_args(type_))
    else:
        same = schema.get("type") == JSON_TYPES[type_] and "enum" not in schema
    return [] if same else [f"{place}: {type_} is {schema}"]


def _of_parts(
    type_: Any, schema: dict[str, Any], components: dict[str, Any], place: str
) -> list[str]:
    left = list(schema.get("anyOf", [schema]))
    for part in typing.get_args(type_):
        fitting = [item for item in left if not differences(part, item, components, place)]
        if not fitting:
            return [f"{place}: {part} is none of {left}"]
        left.remove(fitting[0])
    return [f"{place}: may also be {item}" for item in left]


def _of_items(
    type_: Any, schema: dict[str, Any], components: dict[str, Any], place: str
) -> list[str]:
    origin, inside = typing.get_origin(type_), typing.get_args(type_)
    if schema.get("type") != ("object" if origin is dict else "array"):
        return [f"{place}: {type_} is {schema}"]
    if origin is tuple:
        pairs = zip(inside, schema["prefixItems"], strict=True)
        return [
            difference
            for a, b in pairs
            for difference in differences(a, b, components, f"{place}[]")
        ]
    items = schema.get("additionalProperties" if origin is dict else "items", {})
    if not isinstance(items, dict):
        return []
    return differences(inside[-1], items, components, f"{place}[]")


def _of_fields(
    type_: Any, schema: dict[str, Any], components: dict[str, Any], place: str
) -> list[str]:
    extras = typing.get_type_hints(type_, include_extras=True)
    optional = {name for name, extra in extras.items() if typing.get_origin(extra) is NotRequired}
    fields = typing.get_type_hints(type_)
    described = schema.get("properties", {})
    found = [f"{place}.{name} is not described" for name in fields.keys() - described.keys()]
    found += [f"{place}.{name} is missing" for name in described.keys() - fields.keys()]
    required = set(schema.get("required", []))
    for name in fields.keys() & described.keys():
        if (name not in optional) != (name in required):
            found.append(f"{place}.{name}: required is {name in required}")
        found += differences(fields[name], described[name], components, f"{place}.{name}")
    return found


@pytest.mark.parametrize("name", METHODS)
def test_a_response_is_what_the_service_describes(
    name: str, described: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "snapshot.tar"
    file.write_bytes(b"")
    call = call_of(name, file)
    found = operation(described, call.method, call.path)
    type_ = WHOLE.get(name) or typing.get_type_hints(METHODS[name])["return"]
    in_background = call.headers.get("Prefer") == "respond-async"
    statuses = [status for status in found["responses"] if status.startswith("2")]
    status = "202" if in_background and "202" in statuses else statuses[0]
    content = found["responses"][status].get("content", {})
    if type_ is type(None):
        assert content == {}
        return
    if type_ is str:
        assert "text/plain" in content
        return
    schema = content["application/json"]["schema"]
    components = described["components"]["schemas"]
    assert differences(type_, schema, components, getattr(type_, "__name__", "response")) == []


def test_the_client_has_every_option_of_a_search() -> None:
    query = {"text", "vector", "code", "id"}
    assert {*calls.SearchOptions.__annotations__} == {*SearchRequest.model_fields} - query
    assert {*REQUEST_OPTIONS} < {*SearchRequest.model_fields}


def test_a_search_names_an_option_that_it_does_not_have() -> None:
    with pytest.raises(TypeError, match="search\\(\\) has no argument 'limmit'"):
        calls.search_body(text="apple", limmit=3)


def test_a_search_rescores_by_a_name_or_with_options() -> None:
    assert calls.search_body(rescore="bm25") == {"rescore": {"by": "bm25"}}
    both = {"by": "bm25", "oversample": 2.0}
    assert calls.search_body(rescore=both) == {"rescore": both}
