"""The OpenAPI description, errors as they are."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from service.errors import MEDIA_TYPE
from service.schemas import Problem

_REFERENCE = "#/components/schemas/{model}"


def describe(app: FastAPI) -> None:
    """Have `app` describe its errors as problem details; FastAPI describes its own otherwise."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _describe_problems(generate())
        schema: dict[str, Any] = generate()
        return schema

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's documentation has it


def _describe_problems(schema: dict[str, Any]) -> None:
    _, problem = models_json_schema([(Problem, "serialization")], ref_template=_REFERENCE)
    components = schema["components"]["schemas"]
    components.update(problem["$defs"])
    for name in ("HTTPValidationError", "ValidationError"):
        components.pop(name, None)
    content = {MEDIA_TYPE: {"schema": {"$ref": _REFERENCE.format(model="Problem")}}}
    for operations in schema["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            for status, description in (("4XX", "The request is refused."), ("5XX", "It failed.")):
                operation["responses"][status] = {"description": description, "content": content}
