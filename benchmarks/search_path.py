"""The path of a search through the service: the modules it enters, in order, and its Python calls.

Run as ``python -m benchmarks.search_path``. A warm service gets one search by text, in the form in
which its server passes requests on: by Hamming distance or, with ``--hybrid``, by codes and words,
with a filter. The output lists the modules of this project in the order in which the search first
enters them, and marks a folder that it returns to. The calls are the interpreter's ``call`` events
in all packages and threads, from the entry of the application to its response; a change of module
is a call in another one than the call before. Of several searches, the one with the fewest calls
counts. ``--calls`` lists its calls.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import uvloop
from starlette.types import Message

from benchmarks.harness.service_corpus import Corpus, make_corpus
from benchmarks.harness.timing import options, print_machine
from hummingbit.corpus.document import Document
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.names import (
    HAMMING,
    HYBRID,
)
from hummingbit.service.app import Service, create_app
from hummingbit.service.settings import Settings

NAME = "bench"
ROOT = Path(__file__).parents[1]
WARM_UP_SEARCHES = 50
PROFILED_SEARCHES = 30
HYBRID_SEARCH = {"ranking": HYBRID, "filter": {"field": "n", "gte": 5}, "with_payload": True}

Call = tuple[str, str]
"""The file and the name of a function that was called, or resumed."""

_recording: list[list[Call]] = []
"""The list that calls are added to, while a search is profiled; empty otherwise."""


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--hybrid", action="store_true", help="by codes and words, with a filter")
    parser.add_argument("--calls", action="store_true", help="list every call")
    arguments = parser.parse_args()
    print_machine()
    with tempfile.TemporaryDirectory() as folder:
        corpus = make_corpus(Path(folder), arguments.documents)
        threading.setprofile(_record_call)  # for the threads of the service, which start later
        calls = uvloop.run(calls_of_a_search(corpus, HYBRID_SEARCH if arguments.hybrid else {}))
    if arguments.calls:
        for (file, function), count in Counter(calls).items():
            print(f"{count:>4}  {_display_path(file)}:{function}")
    report(calls)


async def calls_of_a_search(corpus: Corpus, fields: dict[str, Any]) -> list[Call]:
    """Serve the corpus, warm the service up, and return the calls of one search."""
    async with _served(corpus) as app:
        for text in corpus.queries[:WARM_UP_SEARCHES]:
            await _search(app, {"text": text, **fields})
        profiled = corpus.queries[WARM_UP_SEARCHES : WARM_UP_SEARCHES + PROFILED_SEARCHES]
        profiles = [
            await _search(app, {"text": text, **fields}, profiled=True) for text in profiled
        ]
    return min(profiles, key=len)


@asynccontextmanager
async def _served(corpus: Corpus) -> AsyncIterator[Service]:
    """Index the corpus and yield a service that searches it, without a server."""
    with DataFolder(corpus.folder, writable=True) as folder:
        collection = folder.create_collection(NAME, encoder="bench")
        collection.set_ranking(HAMMING)
        documents = [
            Document(id=str(i), text=corpus.queries[i % len(corpus.queries)], payload={"n": i})
            for i in range(len(corpus.codes))
        ]
        collection.upsert_encoded(documents, corpus.codes)
        app = create_app(folder, Settings(access_log=False))
        async with app.router.lifespan_context(app):
            yield app


def _scope(body: bytes) -> dict[str, Any]:
    """Return the ASGI scope that the server passes with a search."""
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
            (b"content-length", str(len(body)).encode()),
        ],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8_000),
        "state": {},
    }


async def _search(app: Service, body: dict[str, Any], *, profiled: bool = False) -> list[Call]:
    """Search once, and return the functions called meanwhile if `profiled`, else an empty list."""
    calls: list[Call] = []
    raw = json.dumps({"limit": 10, **body}).encode()
    response: list[bytes] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": raw, "more_body": False}

    async def send(message: Message) -> None:
        response.append(message.get("body", b""))

    if profiled:
        _recording[:] = [calls]
        sys.setprofile(_record_call)
    await app(_scope(raw), receive, send)
    sys.setprofile(None)
    _recording[:] = []
    if len(json.loads(b"".join(response))["hits"]) != 10:
        raise RuntimeError(f"the search returned {response!r} instead of ten hits")
    return calls


def _record_call(frame: FrameType, event: str, _: object) -> None:
    """Record a call while a search is profiled."""
    if event == "call" and _recording and frame.f_code.co_filename != __file__:
        _recording[0].append((frame.f_code.co_filename, frame.f_code.co_qualname))


def report(calls: list[Call]) -> None:
    """Print the modules in order, and the totals."""
    entered = dict.fromkeys(_display_path(file) for file, _ in calls if _in_project(file))
    folders: list[str] = []
    again = 0
    for number, module in enumerate(entered, 1):
        folder = str(Path(module).parent)
        is_left = folder in folders[:-1] and folder != folders[-1]
        again += is_left
        folders.append(folder)
        print(f"{number:>3}  {module}{'  <- entered again' if is_left else ''}")
    print(f"modules: {len(entered)}")
    print(f"folders entered again: {again}")
    modules = [file for file, _ in calls if _in_project(file)]
    changes = sum(one != other for one, other in pairwise(modules))
    print(f"changes of module: {changes}")
    ours = sum(_in_project(file) for file, _ in calls)
    print(f"calls: {len(calls)}, {ours} of them in modules of this project")


def _in_project(file: str) -> bool:
    path = Path(file)
    inside = path.is_relative_to(ROOT) and "site-packages" not in path.parts
    return inside and not path.is_relative_to(ROOT / "benchmarks")


def _display_path(file: str) -> str:
    """Return the path relative to the project, or in full if it is outside."""
    return str(Path(file).relative_to(ROOT)) if _in_project(file) else file


if __name__ == "__main__":
    main()
