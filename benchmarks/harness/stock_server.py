"""A stock FastAPI application that searches a collection, as anybody would write it in an hour.

Run as ``python -m benchmarks.harness.stock_server FOLDER NAME``. The address is printed.

- ``POST /search`` takes a text, a limit and a ranking, searches the collection NAME of the data
  folder on the event loop, and responds as the service does. There are no keys, limits, metrics,
  logs, batches or jobs.
- ``POST /floor`` responds with one line: what the server itself and a route take.
"""

import socket
import sys
import time
from pathlib import Path

import orjson
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.responses import Response
from starlette.routing import Route

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
from hummingbit.index.answers import search_answer
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.options import SearchOptions
from hummingbit.index.records import Query


class Body(BaseModel):
    """A request."""

    text: str
    limit: int = 10
    ranking: str | None = None


async def floor(_: object) -> Response:
    return Response(b'{"hits":[]}', media_type="application/json")


def main() -> None:
    app = FastAPI()
    folder = DataFolder(Path(sys.argv[1]), writable=False)
    collection = folder.collection(sys.argv[2])
    collection.find([Query(text="")], SearchOptions(k=1, ranking="hybrid"))  # builds the index

    @app.post("/search")
    async def search(body: Body) -> Response:
        began = time.perf_counter()
        options = SearchOptions(k=body.limit, ranking=body.ranking, with_cursor=False)
        result = collection.find([Query(text=body.text)], options)
        answer = search_answer(collection, result, 0, options, time.perf_counter() - began)
        return Response(orjson.dumps(answer), media_type="application/json")

    app.router.routes.append(Route("/floor", floor, methods=["POST"]))
    with folder, socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        config = uvicorn.Config(app, loop="uvloop", http="httptools", log_level="critical")
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
