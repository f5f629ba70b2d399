"""The rankings that Milvus 2.5 could serve, beside ours: Hamming, asymmetric, and BM25.

Milvus weighs no bits of binary vectors, so ``asymmetric`` there is the inner product of a query's
weights and of bits as float vectors of ±1. BM25 is that of its function ``BM25``, whose analyzer
splits and lower-cases words. The server is milvus-lite 2.5, which has the C++ core of Milvus 2.5
(milvus-lite 3 is written in Python and has no binary vectors). Times are of the processor, of this
process and of the server together. "memory" is what the server grew by. "agreement" is the share of
our ten hits that Milvus returns; Hamming distances and scores that tie may differ in their rows.

Run as ``python -m benchmarks.milvus_rankings``, after
``pip install milvus-lite==2.5.1 "setuptools<81"``.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from pymilvus import DataType, Function, FunctionType, MilvusClient

from benchmarks.harness.processes import family, processor_seconds, resident_bytes
from benchmarks.harness.search_codes import uniform
from benchmarks.harness.timing import options
from benchmarks.harness.zipfian_texts import runs_of_words, zipfian_texts
from benchmarks.rankings import make_queries, open_collection
from hummingbit.encoder.codes import Codes, unpack_codes
from hummingbit.index.records import EncodedQueries

BITS = 256
BATCH = 5_000
WARM_UP = 5
K = 10
KINDS = ("hamming", "asymmetric", "bm25")
METRICS = {
    "hamming": ("BIN_FLAT", "HAMMING"),
    "asymmetric": ("FLAT", "IP"),
    "bm25": ("SPARSE_INVERTED_INDEX", "BM25"),
}

Find = Callable[[EncodedQueries], list[int]]
"""Returns the numbers of the documents that one query finds."""


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--size", type=float, default=1e5, help="documents (default: 1e5)")
    parser.add_argument("--queries", type=int, default=100)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    texts = zipfian_texts(rng, int(arguments.size), 12)
    codes = uniform(rng, len(texts), BITS)
    queries = make_queries(rng, runs_of_words(rng, texts, arguments.queries + WARM_UP), codes)
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(open_collection(Path(folder) / "ours.sqlite", texts, codes)) as collection,
        closing(MilvusClient(f"{folder}/milvus.db")) as client,
    ):
        print(
            f"{len(texts):,} documents, {BITS} bits\n{'':11}      ours     Milvus   ratio", end=""
        )
        print("   agreement   Milvus' memory")
        for kind in KINDS:
            before = sum(map(resident_bytes, family(os.getpid())[1:]))
            there = fill(client, kind, texts, codes)
            grown = sum(map(resident_bytes, family(os.getpid())[1:])) - before

            def here(query: EncodedQueries, ranking: str = kind) -> list[int]:
                (hits,) = collection.search(query, K, ranking=ranking).hits
                return [int(hit.id[1:]) for hit in hits]

            compare(kind, here, there, queries, grown)


def compare(kind: str, here: Find, there: Find, queries: EncodedQueries, grown: int) -> None:
    """Search with all queries here and there in turn, and print the means."""
    of_us, of_milvus, shares = [], [], []
    for number in range(len(queries)):
        query = queries[number : number + 1]
        began = cpu_seconds()
        ours = here(query)
        between = cpu_seconds()
        theirs = there(query)
        of_us.append(between - began)
        of_milvus.append(cpu_seconds() - between)
        shares.append(len({*ours} & {*theirs}) / max(1, len(ours)))
    mine, other = (1e3 * float(np.mean(times[WARM_UP:])) for times in (of_us, of_milvus))
    print(f"{kind:11} {mine:6.2f} ms {other:7.2f} ms {other / mine:7.1f}", end="")
    print(f" {np.mean(shares):11.1%} {grown / 1e6:13,.0f} MB", flush=True)


def fill(client: Any, kind: str, texts: list[str], codes: Codes) -> Find:
    """Make a collection for a ranking, and return its search."""
    schema = client.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    if kind == "hamming":
        schema.add_field("field", DataType.BINARY_VECTOR, dim=BITS)
    elif kind == "asymmetric":
        schema.add_field("field", DataType.FLOAT_VECTOR, dim=BITS)
    else:
        schema.add_field("text", DataType.VARCHAR, max_length=65_535, enable_analyzer=True)
        schema.add_field("field", DataType.SPARSE_FLOAT_VECTOR)
        schema.add_function(Function("words", FunctionType.BM25, ["text"], ["field"]))
    indexes = client.prepare_index_params()
    index_type, metric = METRICS[kind]
    indexes.add_index("field", index_type=index_type, metric_type=metric)
    client.create_collection(kind, schema=schema, index_params=indexes)

    def value(number: int) -> dict[str, Any]:
        if kind == "bm25":
            return {"text": texts[number]}
        if kind == "hamming":
            return {"field": codes[number].tobytes()}
        return {"field": unpack_codes(codes[number : number + 1])[0].astype(np.float32) * 2 - 1}

    for start in range(0, len(texts), BATCH):
        numbers = range(start, min(start + BATCH, len(texts)))
        client.insert(kind, [{"id": number, **value(number)} for number in numbers])

    def find(query: EncodedQueries) -> list[int]:
        data: Any = {"hamming": query.codes[0].tobytes(), "asymmetric": query.weights[0]}
        asked = data.get(kind, query.texts[0])
        (hits,) = client.search(kind, [asked], anns_field="field", limit=K)
        return [hit["id"] for hit in hits]

    return find


def cpu_seconds() -> float:
    """Return the seconds of the processor of this process and of those that it started."""
    return time.process_time() + sum(map(processor_seconds, family(os.getpid())[1:]))


if __name__ == "__main__":
    main()
