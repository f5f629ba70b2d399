"""What the clients' calls say that they return, held to the service's own description."""

from __future__ import annotations

import inspect
import json
import re
import typing
from pathlib import Path
from typing import Any

import pytest

from hummingbit import Client, ServiceError
from hummingbit.clients import calls
from hummingbit.clients.requests import Call
from hummingbit.index.names import FORMS, STRATEGIES
from hummingbit.index.options import REQUEST_OPTIONS
from hummingbit.index.rankings import RANKINGS
from hummingbit.service.app import create_app
from hummingbit.service.schemas import responses
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
    "jobs": responses.JobList,
    "query_weights": responses.Embeddings,
    "search_batch": responses.SearchBatchResponse,
    "snapshots": responses.SnapshotList,
}


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
    assert schema == {"$ref": f"#/components/schemas/{type_.__name__}"}


def test_the_rankings_of_responses_are_those_of_searches() -> None:
    assert typing.get_args(responses.Ranking) == (*RANKINGS,)
    assert typing.get_args(responses.RankingUsed) == (*RANKINGS, *STRATEGIES)
    assert typing.get_args(responses.KeepVectors) == (*FORMS,)


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


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"v": [1, float("nan")]}, "/documents/1/payload/v/1: is nan; a number must be finite"),
        ({"v": {"w": "\ud800"}}, r"/documents/1/payload/v/w: is '\ud800'; a number must be"),
        ({"\udfff": 1}, r"/documents/1/payload: has the key '\udfff', which holds a lone"),
    ],
)
def test_a_value_that_json_does_not_have_is_named(payload: dict[str, Any], message: str) -> None:
    documents: list[dict[str, Any]] = [{"id": "a", "text": "one"}]
    documents.append({"id": "b", "text": "two", "payload": payload})
    with Client("http://127.0.0.1:1") as client, pytest.raises(ServiceError) as refused:
        client.upsert("c", documents)
    assert str(refused.value).startswith(message)
