"""How long a write waits beside writers of another collection.

Run as ``python -m benchmarks.writers``. An admin upserts one document after the other, alone and
then beside eight clients that write 200 documents at a time to another collection without pause:
with a key for all documents, with a key for those of a tenant, and with such a key and
``If-None-Match: *``. The output has the median and the longest time of the admin's writes, and the
writes of the others. Runs alternate, in one service.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import httpx

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
from benchmarks.harness.processes import service_process
from benchmarks.harness.timing import options, print_machine
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.filters import parse_filter
from hummingbit.service.http.keys import create_key

CLIENTS, DOCUMENTS = 8, 200
MINE, OTHERS = "mine", "others"
TENANT = {"field": "tenant", "eq": "acme"}
KINDS: dict[str, tuple[str, dict[str, str]] | None] = {
    "nothing": None,
    "8 writers": ("all", {}),
    "8 writers of a tenant": ("tenant", {}),
    "8 that create, of a tenant": ("tenant", {"If-None-Match": "*"}),
}


def write(client: httpx.Client, collection: str, id_: str, documents: int = 1) -> int:
    """Upsert documents; return the status."""
    some = [
        {"id": f"{id_}-{at}", "code": "00ff", "payload": {"tenant": "acme"}}
        for at in range(documents)
    ]
    url = f"/v1/collections/{collection}/documents"
    return client.put(url, json={"documents": some}).status_code


def client_of(
    address: str, key: str, more: Mapping[str, str] = MappingProxyType({})
) -> httpx.Client:
    """Return a client with a key and more headers, which keeps its connection."""
    headers = {"Authorization": f"Bearer {key}", **more}
    return httpx.Client(base_url=address, headers=headers, timeout=600, trust_env=False)


@contextmanager
def writers(address: str, key: str, more: dict[str, str]) -> Iterator[list[int]]:
    """Keep eight clients writing inside the block; yield the statuses that they get."""
    ended, numbers = threading.Event(), itertools.count()
    statuses: list[int] = []

    def run() -> None:
        with client_of(address, key, more) as client:
            while not ended.is_set():
                id_ = f"{time.time_ns()}-{next(numbers)}"
                statuses.append(write(client, OTHERS, id_, DOCUMENTS))

    threads = [threading.Thread(target=run) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    yield statuses
    ended.set()
    for thread in threads:
        thread.join()


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--writes", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    print_machine()
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    others = dict.fromkeys(KINDS, 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with DataFolder(folder, writable=True) as data:
            data.create_collection(MINE, n_bits=16)
            data.create_collection(OTHERS, n_bits=16)
        path, own = folder / "keys.json", parse_filter(TENANT)
        keys = {
            "all": create_key(path, "all", "admin"),
            "tenant": create_key(path, "tenant", "write", collections=[OTHERS], filter=own),
        }
        with (
            service_process(folder, "--log-level", "error") as (_, address),
            client_of(address, keys["all"]) as admin,
        ):
            for _, (kind, load) in itertools.product(range(args.rounds), KINDS.items()):
                who, more = load or ("all", {})
                with writers(address, keys[who], more) if load else _nobody() as statuses:
                    time.sleep(0.5)
                    for number in range(args.writes):
                        began = time.perf_counter()
                        write(admin, MINE, f"m{number}")
                        times[kind].append(time.perf_counter() - began)
                others[kind] += sum(status == 200 for status in statuses)
    print(f"{'beside':<30}{'median ms':>10}{'longest ms':>12}{'other writes/s':>16}")
    for kind, some in times.items():
        milliseconds = [1000 * seconds for seconds in some]
        figures = statistics.median(milliseconds), max(milliseconds), others[kind] / sum(some)
        print("{:<30}{:>10.0f}{:>12.0f}{:>16.1f}".format(kind, *figures))


@contextmanager
def _nobody() -> Iterator[list[int]]:
    yield []


if __name__ == "__main__":
    main()
