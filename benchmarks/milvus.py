"""A local collection beside the same one on Milvus: memory, ingestion, latency; and rankings.

``python -m benchmarks.milvus --sizes 100000 1000000`` starts the Milvus server of the tests, with
all of its data in a temporary folder, and prints a table for docs/scaling.md. Searches alternate
between the two, so that other load slows both alike. Documents have a code and a small payload.

``--rankings`` compares the rankings that Milvus 2.5 could serve instead: Hamming, asymmetric, and
BM25. Milvus weighs no bits of binary vectors, so ``asymmetric`` there is the inner product of a
query's weights and of bits as float vectors of ±1. BM25 is that of its function ``BM25``, whose
analyzer splits and lower-cases words. The server is milvus-lite 2.5, which has the C++ core of
Milvus 2.5 (``pip install milvus-lite==2.5.1 "setuptools<81"``; version 3 is written in Python and
has no binary vectors). Times are of the processor, of this process and of the server together.
"memory" is what the server grew by. "agreement" is the share of our ten hits that Milvus returns;
Hamming distances and scores that tie may differ in their rows.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.harness.processes import family, processor_seconds, resident_bytes
from benchmarks.harness.search_codes import clustered, uniform
from benchmarks.harness.timing import options
from benchmarks.harness.zipfian_texts import runs_of_words, zipfian_texts
from benchmarks.scale import make_collection, make_queries, write_texts
from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import Codes, code_to_hex, unpack_codes
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.milvus.folder import MilvusFolder
from hummingbit.index.records import EncodedQueries, Query
from tests.support.milvus import milvus_server

BATCH, BATCH_OF_LITE = 10_000, 5_000
SINGLES, BATCHES, QUERIES = 60, 5, 100
BITS = 256
WARM_UP = 5
K = 10
METRICS = {
    "hamming": ("BIN_FLAT", "HAMMING"),
    "asymmetric": ("FLAT", "IP"),
    "bm25": ("SPARSE_INVERTED_INDEX", "BM25"),
}
COLUMNS = (
    "codes | stored | memory, MB | documents/s | single k=10, ms | strong, ms | batch of 100, ms"
)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 300_000])
    parser.add_argument("--rankings", action="store_true", help="compare the rankings instead")
    args = parser.parse_args()
    if not args.rankings:
        print(f"| {COLUMNS} |\n|{'---|' * len(COLUMNS.split('|'))}")
    for size in args.sizes[:1] if args.rankings else args.sizes:
        with tempfile.TemporaryDirectory() as folder:
            (compare_rankings if args.rankings else compare)(Path(folder), size)


# Collections of codes.


def compare(folder: Path, size: int) -> None:
    codes = clustered(np.random.default_rng(0), size, 64)
    with (
        milvus_server(folder / "milvus") as uri,
        MilvusFolder(folder / "a", uri, writable=True) as milvus,
    ):
        server = server_pid(folder / "milvus")
        remote = milvus.create_collection("bench", n_bits=64)
        idle = resident_bytes(server)
        remote_rate = fill(remote, codes)
        with DataFolder(folder / "b", writable=True, indexed=False) as data:
            local_rate = fill(data.create_collection("bench", n_bits=64), codes)
        resident_before = resident_bytes()
        with (
            DataFolder(folder / "b", writable=False) as data,
            MilvusFolder(folder / "a", uri, writable=False) as reader,
        ):
            local, strong = data.collection("bench"), reader.collection("bench")
            memory = resident_bytes() - resident_before
            searches = {"local": local, "milvus": remote, "strong": strong}
            single = median_milliseconds(searches, codes, 1, SINGLES)
            batch = median_milliseconds(searches, codes, 100, BATCHES)
        remote_memory = resident_bytes(server) - idle
    times = f"{single['local']:.2f} | – | {batch['local']:.1f}"
    print(f"| {size:,} | here | {memory >> 20} | {local_rate:,.0f} | {times} |")
    times = f"{single['milvus']:.2f} | {single['strong']:.1f} | {batch['milvus']:.1f}"
    print(f"| {size:,} | Milvus | {remote_memory >> 20} | {remote_rate:,.0f} | {times} |", end="")
    print(f" (idle {idle >> 20} MB)", flush=True)


def fill(collection: CollectionBackend, codes: Codes) -> float:
    """Write a document for each code and return the documents per second."""
    began = time.perf_counter()
    for start in range(0, len(codes), BATCH):
        batch = codes[start : start + BATCH]
        documents = [
            Document(id=f"d{number}", code=code_to_hex(code), payload={"at": number})
            for number, code in enumerate(batch, start)
        ]
        collection.upsert_encoded(documents, batch)
    return len(codes) / (time.perf_counter() - began)


def median_milliseconds(
    searches: dict[str, CollectionBackend], codes: Codes, n_queries: int, rounds: int
) -> dict[str, float]:
    """Return the median milliseconds of searches that take turns, which must find the same."""
    rng = np.random.default_rng(1)
    times: dict[str, list[float]] = {name: [] for name in searches}
    for _ in range(rounds):
        rows = rng.integers(0, len(codes), n_queries)
        queries = [Query(code=code_to_hex(code)) for code in codes[rows]]
        found = []
        for name, collection in searches.items():
            began = time.perf_counter()
            results = collection.search(queries, K)
            times[name].append(1000 * (time.perf_counter() - began))
            found.append([[hit.id for hit in hits] for hits in results.hits])
        if found[0] != found[1]:
            raise SystemExit(f"the local collection finds {found[0]}, Milvus finds {found[1]}")
    return {name: median(values) for name, values in times.items()}


def server_pid(folder: Path) -> str:
    """Return the id of the process that runs the server with its data in `folder`."""
    programs = tuple(str(path).encode() for path in folder.glob("*/bin/milvus"))
    running = (path for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
    return next(path for path in running if path.read_bytes().startswith(programs)).parent.name


# Rankings.


def compare_rankings(folder: Path, size: int) -> None:
    from pymilvus import MilvusClient  # noqa: PLC0415 - not installed everywhere

    rng = np.random.default_rng(0)
    texts, codes = zipfian_texts(rng, size, 12), uniform(rng, size, BITS)
    asked = runs_of_words(rng, texts, QUERIES + WARM_UP)
    with (
        closing(make_collection(folder / "ours.sqlite", BITS)) as collection,
        closing(MilvusClient(f"{folder}/milvus.db")) as client,
    ):
        write_texts(collection, texts, codes)
        lexical = collection._published_index.current_with_lexical().lexical  # noqa: SLF001
        assert lexical is not None  # noqa: S101 - for the type checker
        queries = make_queries(rng, asked, codes, lexical.read)
        print(f"{size:,} documents, {BITS} bits\n{'':11}      ours     Milvus   ratio", end="")
        print("   agreement   Milvus' memory")
        for ranking in METRICS:
            before = resident_of_server()
            find = fill_lite(client, ranking, texts, codes)
            grown = resident_of_server() - before
            times, shares = [], []
            for number in range(len(queries)):
                query = queries[number : number + 1]
                began = cpu_seconds()
                hits = collection.search(query, K, ranking=ranking).hits[0]
                between = cpu_seconds()
                theirs = find(query)
                times.append((between - began, cpu_seconds() - between))
                shares.append(len({f"d{id_}" for id_ in theirs} & {hit.id for hit in hits}) / K)
            mine, other = 1e3 * np.mean(times[WARM_UP:], axis=0)
            print(f"{ranking:11} {mine:6.2f} ms {other:7.2f} ms {other / mine:7.1f}", end="")
            print(f" {np.mean(shares):11.1%} {grown / 1e6:13,.0f} MB", flush=True)


def fill_lite(
    client: Any, ranking: str, texts: list[str], codes: Codes
) -> Callable[[EncodedQueries], list[int]]:
    """Make a collection for a ranking, and return its search for the numbers of documents."""
    from pymilvus import DataType, Function, FunctionType  # noqa: PLC0415

    schema = client.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    if ranking == "hamming":
        schema.add_field("field", DataType.BINARY_VECTOR, dim=BITS)
        values = [{"field": code.tobytes()} for code in codes]
    elif ranking == "asymmetric":
        schema.add_field("field", DataType.FLOAT_VECTOR, dim=BITS)
        values = [{"field": signs} for signs in unpack_codes(codes).astype(np.float32) * 2 - 1]
    else:
        schema.add_field("text", DataType.VARCHAR, max_length=65_535, enable_analyzer=True)
        schema.add_field("field", DataType.SPARSE_FLOAT_VECTOR)
        schema.add_function(Function("words", FunctionType.BM25, ["text"], ["field"]))
        values = [{"text": text} for text in texts]
    indexes = client.prepare_index_params()
    index_type, metric = METRICS[ranking]
    indexes.add_index("field", index_type=index_type, metric_type=metric)
    client.create_collection(ranking, schema=schema, index_params=indexes)
    rows = [{"id": number, **value} for number, value in enumerate(values)]
    for start in range(0, len(rows), BATCH_OF_LITE):
        client.insert(ranking, rows[start : start + BATCH_OF_LITE])

    def find(query: EncodedQueries) -> list[int]:
        data: Any = {"hamming": query.codes[0].tobytes(), "asymmetric": query.weights[0]}
        question = query.questions[0]
        asked = data.get(ranking, question and question.text)
        (hits,) = client.search(ranking, [asked], anns_field="field", limit=K)
        return [hit["id"] for hit in hits]

    return find


def resident_of_server() -> int:
    return sum(map(resident_bytes, family(os.getpid())[1:]))


def cpu_seconds() -> float:
    """Return the seconds of the processor of this process and of those that it started."""
    return time.process_time() + sum(map(processor_seconds, family(os.getpid())[1:]))


if __name__ == "__main__":
    main()
