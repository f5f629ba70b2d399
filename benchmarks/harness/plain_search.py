"""A service in this process, and plain searches by text in the form in which a server passes them.

The collection is called :data:`NAME`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import Message, Receive

from benchmarks.harness.service_corpus import Corpus
from hummingbit.corpus.document import Document
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.rankings import HAMMING
from hummingbit.service.app import create_app
from hummingbit.service.http.gateway import Service
from hummingbit.service.settings import Settings

NAME = "bench"


@asynccontextmanager
async def served(corpus: Corpus) -> AsyncIterator[Service]:
    """Index the corpus and yield a service that searches it, without a server."""
    with DataFolder(corpus.folder, writable=True) as folder:
        collection = folder.create_collection(NAME, encoder="bench")
        collection.set_ranking(HAMMING)
        documents = [Document(id=str(i), text="") for i in range(len(corpus.codes))]
        collection.upsert_encoded(documents, corpus.codes)
        app = create_app(folder, Settings(access_log=False))
        async with app.router.lifespan_context(app):
            yield app


def search_body(text: str) -> bytes:
    """Return the body of a search for ten documents."""
    return json.dumps({"text": text, "limit": 10}).encode()


async def search_in_task(app: Service, body: bytes) -> None:
    """Search as a request that runs as a task, and discard the response."""
    await app(search_scope(len(body)), _receiving(body), _discard)


def _receiving(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _discard(message: Message) -> None:
    """Discard a part of a response."""


def search_scope(length: int) -> dict[str, Any]:
    """Return the ASGI scope that the server passes with a search whose body has `length` bytes."""
    path = f"/v1/collections/{NAME}/search"
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [
            (b"host", b"127.0.0.1:8000"),
            (b"content-type", b"application/json"),
            (b"content-length", str(length).encode()),
        ],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8_000),
        "state": {},
    }
