"""Load on a Milvus server through pymilvus; each client is a thread with its own connection.

Run as ``python -m benchmarks.harness.load_milvus ADDRESS CODES CLIENTS SECONDS``, where CODES is an
``.npy`` file of query codes. The output is that of :mod:`benchmarks.harness.load`.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks.harness.load import summarize
from benchmarks.harness.service_peers import search_milvus


def main() -> None:
    from pymilvus import MilvusClient  # noqa: PLC0415 - not installed everywhere

    address, file, clients, seconds = sys.argv[1:]
    codes = [code.tobytes() for code in np.load(file)]
    connections = [MilvusClient(uri=address) for _ in range(int(clients))]
    step = max(1, len(codes) // len(connections))
    began = time.perf_counter()
    stop_at = began + float(seconds)

    def send_queries(client: int) -> list[float]:
        latencies, position, now = [], client * step, time.perf_counter()
        while now < stop_at:
            search_milvus(connections[client], codes[position % len(codes)])
            position, before, now = position + 1, now, time.perf_counter()
            latencies.append(now - before)
        return latencies

    with ThreadPoolExecutor(len(connections)) as pool:
        latencies = list(pool.map(send_queries, range(len(connections))))
    print(json.dumps(summarize(latencies, time.perf_counter() - began, 0)))


if __name__ == "__main__":
    main()
