from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.service import make_data_folder, running_service

_numbers = itertools.count()


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a service that all tests share; each makes its own collections."""
    data_dir: Path = make_data_folder(tmp_path_factory.mktemp("data"))
    with running_service(data_dir) as client:
        yield client


@pytest.fixture(scope="session")
def make_collection(client: httpx.Client) -> Callable[..., str]:
    """Make a collection with the given settings and return its path."""

    def make(documents: list[dict[str, Any]] | None = None, **settings: Any) -> str:
        path = f"/v1/collections/c{next(_numbers)}"
        assert client.put(path, json=settings).status_code == 201
        if documents:
            response = client.put(f"{path}/documents", json={"documents": documents})
            assert response.status_code == 200, response.text
        return path

    return make
