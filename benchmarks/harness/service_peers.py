"""txtai as a running service that holds a corpus."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.harness.service_corpus import Corpus, K

ROOT = Path(__file__).parents[2]
START_SECONDS = 900.0


class System(NamedTuple):
    """A running service, with a command that puts load on it and a function that searches it.

    `load` is a module and its first arguments; the number of clients and the seconds follow. The
    command prints what :func:`benchmarks.harness.load.summarize` returns. `search` returns the ids
    of the documents found for the query at a position in the corpus.
    """

    name: str
    load: list[str]
    search: Callable[[int], list[int]]
    pid: int | None = None
    """The process of the service, or that which started all others."""


@contextmanager
def txtai(corpus: Corpus, python: Path) -> Iterator[list[System]]:
    """Run txtai's API over a binary FAISS index of the codes.

    Yields an empty list if there is no `python`, the interpreter of an environment with txtai.
    """
    if not python.exists():
        print(f"txtai is left out: {python} does not exist")
        yield []
        return
    np.save(corpus.folder / "codes.npy", corpus.codes)
    port = _free_port()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "BENCH_FOLDER": str(corpus.folder)}
    command = [str(python), "-m", "benchmarks.harness.txtai_server", str(port)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_for(f"{address}/count", process)
            paths_file = corpus.folder / "txtai_paths"
            paths = [
                f"/search?query={urllib.parse.quote(text)}&limit={K}" for text in corpus.queries
            ]
            paths_file.write_text("".join(f"{path}\n" for path in paths))

            def search(position: int) -> list[int]:
                with urllib.request.urlopen(address + paths[position]) as response:  # noqa: S310
                    return [int(hit["id"]) for hit in json.load(response)]

            load = ["benchmarks.harness.load", address, "GET", "-", str(paths_file)]
            yield [System("txtai", load, search, process.pid)]
        finally:
            process.terminate()
            process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url).close()  # noqa: S310 - a server of our own
        except OSError:
            time.sleep(0.5)
        else:
            return
    raise SystemExit(f"{url} did not answer within {START_SECONDS:.0f} s, or its process ended")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
