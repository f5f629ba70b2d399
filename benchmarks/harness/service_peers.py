"""Milvus and txtai with a corpus in them, ready to be asked."""

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
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness.service_corpus import N_BITS, Corpus, K
from encoder.codes import Codes
from tests.support.milvus import milvus_server, why_not

ROOT = Path(__file__).parents[2]
START_SECONDS = 900.0


class System(NamedTuple):
    """A service: how it is loaded, and how it answers one query with the ids of documents.

    `load` is the module and the arguments of a command that takes the number of clients and the
    seconds besides and prints what :func:`benchmarks.harness.load.summarize` returns.
    """

    name: str
    load: list[str]
    search: Callable[[int], list[int]]
    pid: int | None = None
    """The process that answers, where it is one."""


@contextmanager
def milvus(corpus: Corpus) -> Iterator[list[System]]:
    """Run a Milvus server with the codes in it; none if it cannot be had."""
    if reason := why_not():
        print(f"milvus is left out: {reason}")
        yield []
        return
    with milvus_server(corpus.folder / "milvus") as address:
        client = fill_milvus(address, corpus.codes)
        np.save(corpus.folder / "query_codes.npy", corpus.query_codes)

        def search(place: int) -> list[int]:
            found = search_milvus(client, corpus.query_codes[place].tobytes())
            return [int(hit["id"]) for hit in found[0]]

        load = ["benchmarks.harness.load_milvus", address, str(corpus.folder / "query_codes.npy")]
        yield [System("milvus", load, search)]


def fill_milvus(address: str, codes: Codes) -> Any:
    """Insert codes under their positions, index and load them; return a client."""
    from pymilvus import DataType, MilvusClient  # noqa: PLC0415 - not installed everywhere

    client = MilvusClient(uri=address)
    schema = client.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("code", DataType.BINARY_VECTOR, dim=N_BITS)
    client.create_collection("bench", schema=schema, consistency_level="Eventually")
    for start in range(0, len(codes), 20_000):
        part = codes[start : start + 20_000]
        rows = [{"id": start + i, "code": code.tobytes()} for i, code in enumerate(part)]
        client.insert("bench", rows)
    client.flush("bench")
    index = client.prepare_index_params()
    index.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
    client.create_index("bench", index)
    client.load_collection("bench")
    return client


def search_milvus(client: Any, code: bytes) -> Any:
    """Search as a client of Milvus does."""
    return client.search("bench", [code], limit=K, search_params={"metric_type": "HAMMING"})


@contextmanager
def txtai(corpus: Corpus, python: Path) -> Iterator[list[System]]:
    """Run txtai's API over a binary FAISS index of the codes; none if it is not installed."""
    if not python.exists():
        print(f"txtai is left out: there is no {python}")
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
            paths = corpus.folder / "txtai_paths"
            asked = [
                f"/search?query={urllib.parse.quote(text)}&limit={K}" for text in corpus.queries
            ]
            paths.write_text("".join(f"{path}\n" for path in asked))

            def search(place: int) -> list[int]:
                with urllib.request.urlopen(address + asked[place]) as answer:  # noqa: S310
                    return [int(one["id"]) for one in json.load(answer)]

            yield [
                System(
                    "txtai", ["benchmarks.harness.load", address, "GET", "-", str(paths)], search
                )
            ]
        finally:
            process.terminate()
            process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url).close()  # noqa: S310 - it is our own
        except OSError:
            time.sleep(0.5)
        else:
            return
    raise SystemExit(f"nothing answers at {url}")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
