"""Requests that schemathesis makes up from the description of a service, and its checks.

Every process that runs tests imports every module of tests, and the import of schemathesis takes
seconds, so only the tests that ask import this.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
Operation = APIOperation[Any, Any, Any, Any]


@schemathesis.serializer("application/x-ndjson")
def json_lines(_: Any, value: Any) -> bytes:
    """Write a made-up body as lines."""
    if isinstance(value, bytes):
        return value
    lines = value if isinstance(value, list) else [value]
    written = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    return "\n".join(written).encode("utf-8", "surrogatepass")


@schemathesis.serializer("application/x-tar")
def file(_: Any, value: Any) -> bytes:
    """Write a made-up body as it is, or as what can be made of it."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


def operations(client: httpx.Client) -> list[Operation]:
    """Return all operations of the service; fail if its description is invalid."""
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    found = [
        operation.ok() for operation in schema.get_all_operations() if isinstance(operation, Ok)
    ]
    assert len(found) == len(list(schema.get_all_operations())), "the description is invalid"
    return found


def requests_of(operation: Operation) -> st.SearchStrategy[Any]:
    """Make up requests for an operation, half of them as they should not be."""
    good = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    bad = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
    return good | bad
