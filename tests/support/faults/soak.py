"""Clients that search and write at the same time, and a check of each response.

Every write returns the generation it made, so the writes in the order of generations are the
history of the collection. Every search returns the generation it reflects, and is compared with the
oracle over that generation. This includes searches of read-only services beside the one that
writes.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from hummingbit.encoder.codes import Codes
from hummingbit.index.engines.protocol import Rows
from tests.support.oracles.brute_force import BruteForceIndex
from tests.support.service import client_of

N_BITS = 32
IDS = 1500
TAGS = 4
PATH = "/v1/collections/soak"
SEARCHES, UPSERTS = 0.7, 0.2
# Few centres make codes repeat and tie, and queries lie near them.
CENTRES = [random.Random(seed).getrandbits(N_BITS) for seed in range(20)]  # noqa: S311


class WriteRecord(NamedTuple):
    """A write: documents in order, and the ids of deleted documents."""

    generation: int
    documents: Sequence[tuple[str, str, int]]
    deleted: Sequence[str]


class SearchRecord(NamedTuple):
    """A search and its response."""

    generation: int
    code: str
    limit: int
    radius: int | None
    tag: int | None
    hits: list[tuple[str, int]]
    ties_cut: bool


class SoakClient(threading.Thread):
    """Searches, upserts and deletes until `end` is set, and records the responses.

    With `reads`, it only searches.
    """

    def __init__(self, address: str, seed: int, end: threading.Event, *, reads: bool) -> None:
        super().__init__(daemon=True)
        self.reads = reads
        self.writes: list[WriteRecord] = []
        self.searches: list[SearchRecord] = []
        self.unexpected: list[str] = []
        self._address = address
        self._chance = random.Random(seed)  # noqa: S311 - it only picks what is done
        self._end = end

    def run(self) -> None:
        """Send one random request after the other."""
        with client_of(self._address) as self._http:
            while not self._end.is_set() and not self.unexpected:
                share = self._chance.random()
                if self.reads or share < SEARCHES:
                    self._search_once()
                elif share < SEARCHES + UPSERTS:
                    self._upsert_some()
                else:
                    self._remove_some()

    def _search_once(self) -> None:
        code, limit = self._code(), self._chance.choice([1, 10, 10, 50])
        radius = self._chance.choice([None, None, 4])
        tag = self._chance.choice([None, None, None, self._chance.randrange(TAGS)])
        body: dict[str, Any] = {"code": code, "limit": limit, "radius": radius}
        if tag is not None:
            body["filter"] = {"field": "tag", "eq": tag}
        found = self._ask("POST", f"{PATH}/search", body)
        if found is not None:
            hits = [(hit["id"], hit["distance"]) for hit in found["hits"]]
            self.searches.append(
                SearchRecord(found["generation"], code, limit, radius, tag, hits, found["ties_cut"])
            )

    def _upsert_some(self) -> None:
        ids = self._ids(self._chance.randint(1, 5))
        documents = [(id_, self._code(), self._chance.randrange(TAGS)) for id_ in ids]
        listed = [
            {"id": id_, "code": code, "payload": {"tag": tag}} for id_, code, tag in documents
        ]
        found = self._ask("PUT", f"{PATH}/documents", {"documents": listed})
        if found is not None:
            self.writes.append(WriteRecord(found["generation"], documents, []))

    def _remove_some(self) -> None:
        ids = self._ids(self._chance.randint(1, 5))
        found = self._ask("POST", f"{PATH}/documents:delete", {"ids": ids})
        if found is not None and found["deleted"]:
            self.writes.append(WriteRecord(found["generation"], [], ids))

    def _ask(self, method: str, path: str, body: object) -> Any:
        response = self._http.request(method, path, json=body)
        if response.status_code != 200:
            self.unexpected.append(f"{response.status_code}: {response.text[:300]}")
            return None
        return response.json()

    def _ids(self, count: int) -> list[str]:
        return [f"d{number}" for number in self._chance.sample(range(IDS), count)]

    def _code(self) -> str:
        code = self._chance.choice(CENTRES)
        for _ in range(self._chance.choice([0, 0, 1, 2, 5])):
            code ^= 1 << self._chance.randrange(N_BITS)
        return f"{code:0{N_BITS // 4}x}"


class History:
    """The content of the collection, one generation after the other."""

    def __init__(self, rows: int) -> None:
        self._codes = np.zeros((rows, N_BITS // 8), dtype=np.uint8)
        self._tags = np.zeros(rows, dtype=np.int64)
        self._there = np.zeros(rows, dtype=bool)
        self._ids: list[str] = []
        self._row_of: dict[str, int] = {}

    def apply(self, write: WriteRecord) -> None:
        """Apply a write, which makes the next generation."""
        for id_ in [*write.deleted, *(id_ for id_, _, _ in write.documents)]:
            row = self._row_of.pop(id_, None)
            if row is not None:
                self._there[row] = False
        codes = _packed([code for _, code, _ in write.documents])
        for (id_, _, tag), code in zip(write.documents, codes, strict=True):
            row = len(self._ids)
            self._codes[row], self._tags[row], self._there[row] = code, tag, True
            self._row_of[id_] = row
            self._ids.append(id_)

    def differing(self, searches: Sequence[SearchRecord]) -> Iterator[SearchRecord]:
        """Yield the searches of this generation whose responses differ from the oracle's."""
        rows = np.flatnonzero(self._there)
        oracle = BruteForceIndex(self._codes[rows], rows)
        queries = _packed([search.code for search in searches])
        for search, query in zip(searches, queries, strict=True):
            among: Rows | None = None
            if search.tag is not None:
                among = rows[self._tags[rows] == search.tag]
            (found,) = oracle.search(query[None], search.limit + 1, search.radius, among)
            pairs = zip(found.rows.tolist(), found.distances.tolist(), strict=True)
            expected = [(self._ids[row], distance) for row, distance in pairs]
            hits, beyond = expected[: search.limit], expected[search.limit :]
            cut = bool(beyond) and beyond[0][1] == hits[-1][1]
            if (search.hits, search.ties_cut) != (hits, cut):
                yield search


def soak(
    address: str, clients: int, seconds: float, seed: int, readers: Sequence[str] = ()
) -> list[SoakClient]:
    """Run `clients` clients for `seconds`, and two at each of the read-only services."""
    end = threading.Event()
    places = [*[(address, False)] * clients, *[(reader, True) for reader in readers] * 2]
    threads = [
        SoakClient(position, seed * 1000 + at, end, reads=reads)
        for at, (position, reads) in enumerate(places)
    ]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    end.set()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive()
    return threads


def check(threads: Sequence[SoakClient]) -> dict[str, int]:
    """Fail unless every response is right for its generation; count the requests."""
    unexpected = [problem for thread in threads for problem in thread.unexpected]
    assert not unexpected, unexpected[0]
    writes = sorted(write for thread in threads for write in thread.writes)
    wrong = differing(threads, writes)
    assert not wrong, f"{len(wrong)} searches differ from the oracle; the first: {wrong[0]}"
    read = [search for thread in threads if thread.reads for search in thread.searches]
    return {
        "searches": sum(len(thread.searches) for thread in threads),
        "of them at readers": len(read),
        "generations they named": len({search.generation for search in read}),
        "upserts": sum(1 for write in writes if write.documents),
        "deletions": sum(1 for write in writes if write.deleted),
        "generations": len(writes),
    }


def differing(threads: Sequence[SoakClient], writes: Sequence[WriteRecord]) -> list[SearchRecord]:
    """Return the searches whose responses differ from the oracle's, if `writes` were made.

    Fails unless every generation is one write, and none is missing.
    """
    assert [write.generation for write in writes] == [*range(1, len(writes) + 1)]
    searches: dict[int, list[SearchRecord]] = defaultdict(list)
    for thread in threads:
        for search in thread.searches:
            searches[search.generation].append(search)
    history = History(sum(len(write.documents) for write in writes))
    wrong: list[SearchRecord] = []
    for generation, write in enumerate([None, *writes]):
        if write is not None:
            history.apply(write)
        if generation in searches:
            wrong += history.differing(searches.pop(generation))
    assert not searches, "an answer names a generation that nobody wrote"
    return wrong


def _packed(codes: Sequence[str]) -> Codes:
    return np.frombuffer(bytes.fromhex("".join(codes)), dtype=np.uint8).reshape(-1, N_BITS // 8)
