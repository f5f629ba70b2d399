"""The way of a search through the service: the modules it enters, in order, and its Python calls.

Run as ``python -m benchmarks.search_path``. One plain search by text is sent to a warm service, as
its server sends it. The modules of this project are listed in the order in which the search first
enters them; a folder that comes again after another one is marked. The calls are the interpreter's
``call`` events in all packages and threads, from the entry of the application to the last part of
the response; of several searches, the one with the fewest is shown. ``--calls`` lists them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import uvloop
from starlette.types import ASGIApp, Message

from benchmarks.harness.service_corpus import Corpus, make_corpus
from corpus.document import Document
from index.data_folder import DataFolder
from index.rankings.protocol import HAMMING
from service.app import create_app
from service.settings import Settings

ROOT = Path(__file__).parents[1]
WARM = 50
MEASURED = 30
BETWEEN = 5

Call = tuple[str, str]
"""The file and the name of a function that was called, or resumed."""

_noted: list[list[Call]] = []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--calls", action="store_true", help="list every call")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus = make_corpus(Path(folder), arguments.documents)
        threading.setprofile(_note)  # for the threads of the service, which start later
        calls = uvloop.run(calls_of_a_search(corpus))
    if arguments.calls:
        for (file, function), count in Counter(calls).items():
            print(f"{count:>4}  {_shown(file)}:{function}")
    report(calls)


async def calls_of_a_search(corpus: Corpus) -> list[Call]:
    """Serve the corpus, search it until the service is warm, and return the calls of one search."""
    with DataFolder(corpus.folder, writable=True) as folder:
        collection = folder.create_collection("bench", encoder="bench")
        collection.set_ranking(HAMMING)
        documents = [Document(id=str(i), text="") for i in range(len(corpus.codes))]
        collection.upsert_encoded(documents, corpus.codes)
        app = create_app(folder, Settings(access_log=False))
        async with app.router.lifespan_context(app):
            for text in corpus.queries[:WARM]:
                await _search(app, text)
            measured = []
            for text in corpus.queries[WARM : WARM + MEASURED]:
                measured.append(await _search(app, text, profiled=True))
                # A search that is profiled is slow, which the service takes note of.
                for other in corpus.queries[:BETWEEN]:
                    await _search(app, other)
    return min(measured, key=len)


async def _search(app: ASGIApp, text: str, *, profiled: bool = False) -> list[Call]:
    """Search once; return which functions are called meanwhile if that is to be `profiled`."""
    calls: list[Call] = []
    body = json.dumps({"text": text, "limit": 10}).encode()
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            sys.setprofile(None)
            _noted[:] = []

    if profiled:
        _noted[:] = [calls]
        sys.setprofile(_note)
    await app(_scope(len(body)), receive, send)
    if sent[0]["status"] != 200 or len(json.loads(sent[-1]["body"])["hits"]) != 10:
        raise RuntimeError(f"the search was answered {sent}")
    return calls


def _note(frame: FrameType, event: str, _: object) -> None:
    """Note a call while a search is profiled."""
    if event == "call" and _noted and frame.f_code.co_filename != __file__:
        _noted[0].append((frame.f_code.co_filename, frame.f_code.co_qualname))


def _scope(length: int) -> dict[str, Any]:
    """Return what the server says of a request."""
    path = "/v1/collections/bench/search"
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


def report(calls: list[Call]) -> None:
    """Print the modules in order, and the totals."""
    entered = dict.fromkeys(_shown(file) for file, _ in calls if _is_ours(file))
    folders = [folder for folder, _ in itertools.groupby(str(Path(m).parent) for m in entered)]
    left: set[str] = set()
    last = None
    for number, module in enumerate(entered, 1):
        folder = str(Path(module).parent)
        if folder != last and last is not None:
            left.add(last)
        again = "  <- entered again" if folder in left and folder != last else ""
        print(f"{number:>3}  {module}{again}")
        last = folder
    print(f"modules: {len(entered)}")
    print(f"folders entered again: {len(folders) - len(set(folders))}")
    ours = sum(_is_ours(file) for file, _ in calls)
    print(f"calls: {len(calls)}, {ours} of them in modules of this project")


def _is_ours(file: str) -> bool:
    path = Path(file)
    inside = path.is_relative_to(ROOT) and "site-packages" not in path.parts
    return inside and not path.is_relative_to(ROOT / "benchmarks")


def _shown(file: str) -> str:
    return str(Path(file).relative_to(ROOT)) if _is_ours(file) else file


if __name__ == "__main__":
    main()
