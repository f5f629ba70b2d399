from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest


@pytest.fixture(scope="module")
def description(client: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def operations(description: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def test_what_can_be_done_in_the_background_says_how(description: dict[str, Any]) -> None:
    named = set()
    for name, operation in operations(description):
        asked = [one["name"] for one in operation.get("parameters", ())]
        if "Prefer" in asked:
            named.add(name.rpartition("/")[2])
            assert "Location" in operation["responses"]["202"]["headers"]
    assert named == {
        "documents:bulk",
        "evaluate",
        "snapshots",
        "snapshots:upload",
        "verify",
        "compact",
        "index-fields",
    }


def test_every_answer_that_asks_for_patience_says_how_much(description: dict[str, Any]) -> None:
    for name, operation in operations(description):
        for status in {"429", "503"} & set(operation["responses"]):
            assert "Retry-After" in operation["responses"][status]["headers"], name


def test_every_operation_says_what_it_does(description: dict[str, Any]) -> None:
    for name, operation in operations(description):
        assert operation["description"], name
