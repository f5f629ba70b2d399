"""The OpenAPI description of the service, including its problems."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from hummingbit.index.filters import filter_schemas
from hummingbit.service.http.problems import MEDIA_TYPE
from hummingbit.service.routes.examples import add_examples
from hummingbit.service.schemas.common import FILTER_OBJECT, Problem

_REFERENCE = "#/components/schemas/{model}"


ABOUT = """\
Documents are encoded as short binary codes; a search compares codes, words or both.

Errors are problem details (RFC 9457): `code` names the kind of error, `errors` points to what is
wrong in the body. Every response has the header `X-Request-ID`."""
TAGS = {
    "service": "Health, metrics, and what a key may do.",
    "encoders": "Encoders of the data folder, and encoding and embedding with them.",
    "collections": "Collections, their codes and fields, and aliases.",
    "documents": "Writing, reading, counting and deleting documents.",
    "search": "Searches, completions, and encoding as a collection does.",
    "snapshots": "Copies of collections in files.",
    "jobs": "Work in the background: maps, near-duplicates, evaluations.",
    "labels": "Labels and judgements by people, and training encoders.",
}
"""What the tags mean; each router has one."""
SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "Authorization: Bearer KEY"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "basic": {
        "type": "http",
        "scheme": "basic",
        "description": "Any user name; the key is the password.",
    },
}
"""For a service with keys; one without accepts requests without a key."""

REFUSALS = {
    "400": "The body is not valid JSON, or the request is not valid HTTP.",
    "401": "The key is missing, unknown or revoked.",
    "403": "The key does not allow the request, or the service is read-only.",
    "404": "Nothing has that name.",
    "408": "The body was not sent in time.",
    "409": "The request conflicts with the current state.",
    "413": "The body is larger than the limit.",
    "415": "The Content-Type is not supported.",
    "422": "The request is invalid; `errors` points to what is wrong.",
    "429": "Too many requests or jobs are waiting; try again after Retry-After seconds.",
    "503": "Temporarily unavailable; try again after Retry-After seconds.",
}
PREFER = {
    "name": "Prefer",
    "in": "header",
    "description": "`respond-async`: return 202 at once and run as a job; RFC 7240.",
    "schema": {"type": "string", "examples": ["respond-async"]},
}
HEADERS: dict[str, dict[str, Any]] = {
    "202": {"Location": {"description": "The address of the job.", "schema": {"type": "string"}}},
    "401": {
        "WWW-Authenticate": {
            "description": "How to send the key.",
            "schema": {"type": "string"},
        }
    },
    "429": {"Retry-After": {"description": "In seconds.", "schema": {"type": "string"}}},
    "503": {"Retry-After": {"description": "In seconds.", "schema": {"type": "string"}}},
}
"""Headers of responses, by status; ``X-Request-ID`` is in all of them."""

WITH_BODY = {"408", "413", "415", "422"}


def describe(app: FastAPI) -> None:
    """Make `app` describe its errors as problem details, not as FastAPI's own."""

    @cache
    def description() -> bytes:
        schema = get_openapi(
            title=app.title,
            version=app.version,
            summary=app.summary,
            description=ABOUT,
            contact={"name": "hummingbit"},
            license_info={"name": "Apache License 2.0", "identifier": "Apache-2.0"},
            servers=[{"url": "/"}],
            tags=[{"name": name, "description": text} for name, text in TAGS.items()],
            routes=app.routes,
        )
        _describe_problems(schema)
        _describe_headers(schema)
        _complete_schemas(schema)
        schemas = schema["components"]["schemas"]
        schemas.update(filter_schemas(_REFERENCE))
        _describe_defaults(schema)
        add_examples(schemas)
        schema["components"]["securitySchemes"] = SECURITY_SCHEMES
        return json.dumps(schema, ensure_ascii=False).encode()

    app.state.description = description


def _describe_problems(schema: dict[str, Any]) -> None:
    _, problem = models_json_schema([(Problem, "serialization")], ref_template=_REFERENCE)
    components = schema["components"]["schemas"]
    components.update(problem["$defs"])
    for name in ("HTTPValidationError", "ValidationError"):
        components.pop(name, None)
    content = {MEDIA_TYPE: {"schema": {"$ref": _REFERENCE.format(model="Problem")}}}
    for operations in schema["paths"].values():
        for operation in operations.values():
            responses = operation["responses"]
            responses.pop("422", None)
            for status in _refusals(operation):
                refusal = {"description": REFUSALS[status], "content": content}
                responses.setdefault(status, refusal)
            responses["default"] = {"description": "The request failed.", "content": content}


def _describe_headers(schema: dict[str, Any]) -> None:
    for operations in schema["paths"].values():
        for operation in operations.values():
            responses = operation["responses"]
            if "202" in responses and {"200", "201"} & set(responses):
                operation.setdefault("parameters", []).append(PREFER)
            for status, headers in HEADERS.items():
                if status in responses:
                    responses[status]["headers"] = headers


def _complete_schemas(part: Any) -> None:
    """Say below `part` what pydantic leaves out: the schema of filters, and `items` of tuples.

    A constant number becomes a range of one, which more generators read.
    """
    if isinstance(part, list):
        for inner in part:
            _complete_schemas(inner)
    elif isinstance(part, dict):
        if part == FILTER_OBJECT:
            part.clear()
            part["$ref"] = _REFERENCE.format(model="Filter")
        if "prefixItems" in part and "items" not in part:
            # Tools that follow JSON Schema before 2020-12 read only `items`.
            distinct = [*{json.dumps(item): item for item in part["prefixItems"]}.values()]
            part["items"] = distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
        if type(part.get("const")) is int:
            part["minimum"] = part["maximum"] = part.pop("const")
        for inner in part.values():
            _complete_schemas(inner)


def _describe_defaults(schema: dict[str, Any]) -> None:
    """Say the defaults of bodies in words: generators take a field with a default for required."""
    schemas = schema["components"]["schemas"]
    bodies = [
        operation.get("requestBody", {})
        for operations in schema["paths"].values()
        for operation in operations.values()
    ]
    waiting, seen = [name for body in bodies for name in _references(body)], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        waiting += _references(schemas[name])
        for field in schemas[name].get("properties", {}).values():
            if "default" in field:
                said = f"Default: {json.dumps(field.pop('default'))}."
                field["description"] = f"{field.get('description', '')} {said}".strip()


def _references(part: Any) -> list[str]:
    """Return the names of the schemas that a part of the description refers to."""
    if isinstance(part, list):
        return [name for inner in part for name in _references(inner)]
    if not isinstance(part, dict):
        return []
    own = [part["$ref"].rpartition("/")[2]] if "$ref" in part else []
    return own + [name for inner in part.values() for name in _references(inner)]


def _refusals(operation: dict[str, Any]) -> list[str]:
    """Return the statuses of the refusals that an operation may respond with."""
    if operation["x-role"] == "nobody":
        return []
    has_body, has_parameters = "requestBody" in operation, bool(operation.get("parameters"))
    return [
        status
        for status in REFUSALS
        if (has_body or status not in {*WITH_BODY, "400"})
        and (has_parameters or status not in {"404", "409"})
    ]
