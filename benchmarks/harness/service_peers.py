"""Milvus and txtai as running services that hold a corpus."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness.service_corpus import N_BITS, Corpus, K
from hummingbit.encoder.codes import Codes
from tests.support.milvus import milvus_server, reason_unavailable

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
def milvus(corpus: Corpus) -> Iterator[list[System]]:
    """Run a Milvus server that holds the codes; yield an empty list if none can be started."""
    if reason := reason_unavailable():
        print(f"milvus is left out: {reason}")
        yield []
        return
    with tempfile.TemporaryDirectory() as folder, milvus_server(Path(folder)) as address:
        client = fill_milvus(address, corpus.codes)
        np.save(corpus.folder / "query_codes.npy", corpus.query_codes)

        def search(position: int) -> list[int]:
            (hits,) = search_milvus(client, corpus.query_codes[position].tobytes())
            return [int(hit["id"]) for hit in hits]

        load = ["benchmarks.harness.load_milvus", address, str(corpus.folder / "query_codes.npy")]
        yield [System("milvus", load, search)]


def fill_milvus(address: str, codes: Codes) -> Any:
    """Insert codes with their positions as ids, index and load them; return a client."""
    from pymilvus import DataType, MilvusClient  # noqa: PLC0415 - not installed everywhere

    client = MilvusClient(uri=address)
    schema = client.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("code", DataType.BINARY_VECTOR, dim=N_BITS)
    client.create_collection("bench", schema=schema, consistency_level="Eventually")
    for start in range(0, len(codes), 20_000):
        batch = enumerate(codes[start : start + 20_000], start)
        rows = [{"id": row, "code": code.tobytes()} for row, code in batch]
        client.insert("bench", rows)
    client.flush("bench")
    index = client.prepare_index_params()
    index.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
    client.create_index("bench", index)
    client.load_collection("bench")
    return client


def search_milvus(client: Any, code: bytes) -> Any:
    """Return the hits of one code, a list in a list, as pymilvus returns them."""
    return client.search("bench", [code], limit=K, search_params={"metric_type": "HAMMING"})


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
