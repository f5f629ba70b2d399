"""Every kind of collection finds what the oracle finds: the same ids, distances and order.

The collections grow through the sizes at which a search for k could go wrong, lose documents and
have others replaced, and are asked at each stage. ``make fuzz`` asks more than 100,000 queries of
each kind.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import Codes, code_to_hex
from hummingbit.foundation.errors import InputError
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.data_folder import DataFolderLocation
from hummingbit.index.errors import UnknownDocument
from hummingbit.index.filters import parse_filter
from hummingbit.index.records import Query
from tests.support.codes import clustered_codes, random_codes
from tests.support.collections import code_collection, code_documents
from tests.support.oracles.brute_force import BruteForceIndex

Make = Callable[[int], CollectionBackend]
Draw = Callable[[np.random.Generator, int, int], Codes]

K = 10
# How many documents are added at each stage: k - 1, k and k + 1 of them are there after some.
GROWTH = (0, 1, K - 2, 1, 1, 50, 200)


def crowded_codes(rng: np.random.Generator, n: int, n_bits: int) -> Codes:
    """Codes of which all are one of two, so that nearly every distance is a tie."""
    either = np.zeros((2, n_bits // 8), dtype=np.uint8)
    either[1, 0] = 0b1010_0000
    return either[rng.integers(0, 2, n)]


DISTRIBUTIONS: dict[str, Draw] = {
    "uniform": random_codes,
    "clustered": clustered_codes,
    "crowded": crowded_codes,
}


class Oracle:
    """What a collection holds, by row."""

    def __init__(self, n_bits: int) -> None:
        self.n_bits = n_bits
        self.held: dict[str, Codes] = {}

    def upsert(self, ids: list[str], codes: Codes) -> list[Document]:
        for id_, code in zip(ids, codes, strict=True):
            self.held.pop(id_, None)
            self.held[id_] = code
        pairs = zip(ids, codes, strict=True)
        return [Document(id=id_, code=code_to_hex(code)) for id_, code in pairs]

    def search(self, queries: Codes, k: int, radius: int | None) -> list[list[tuple[str, int]]]:
        ids = list(self.held)
        packed = b"".join(code.tobytes() for code in self.held.values())
        codes = np.frombuffer(packed, dtype=np.uint8).reshape(-1, self.n_bits // 8)
        found = BruteForceIndex(codes, np.arange(len(ids))).search(queries, k, radius)
        return [
            list(
                zip(
                    [ids[row] for row in neighbours.rows],
                    neighbours.distances.tolist(),
                    strict=True,
                )
            )
            for neighbours in found
        ]


@pytest.fixture(params=["local", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Return a maker of empty collections for codes of so many bits."""
    made: list[CollectionBackend] = []

    def make_local(n_bits: int) -> CollectionBackend:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(code_collection(folder, n_bits))
        return made[-1]

    if request.param == "local":
        yield make_local
        for item in made:
            item.close()
        return
    uri = request.getfixturevalue("postgres_uri")
    with DataFolderLocation(tmp_path, "postgres", uri).open(writable=True) as folder:
        yield lambda n_bits: folder.create_collection("conforming", n_bits=n_bits)


def ask(
    collection: CollectionBackend, oracle: Oracle, queries: Codes, k: int, radius: int | None
) -> int:
    """Fail unless a batch finds what the oracle finds; return how many queries were asked."""
    result = collection.search([Query(code=code_to_hex(query)) for query in queries], k, radius)
    found = [[(hit.id, hit.distance) for hit in hits] for hits in result.hits]
    assert found == oracle.search(queries, k, radius)
    assert all(
        (a.distance, a.row) < (b.distance, b.row)
        for hits in result.hits
        for a, b in itertools.pairwise(hits)
    )
    return len(queries)


def run_stages(collection: CollectionBackend, draw: Draw, seed: int, batch: int) -> int:
    """Grow, shrink and change a collection, asking at every stage; return how many were asked."""
    rng = np.random.default_rng(seed)
    n_bits = collection.n_bits
    oracle = Oracle(n_bits)
    asked = 0

    def ask_all() -> int:
        near = draw(rng, batch, n_bits)
        far = random_codes(rng, batch, n_bits)
        return (
            ask(collection, oracle, near, K, None)
            + ask(collection, oracle, far, 1, None)
            + ask(collection, oracle, near, K, int(rng.integers(0, n_bits + 1)))
            + ask(collection, oracle, far[: batch // 4], 1000, n_bits // 3)
        )

    names = (f"d{number}" for number in itertools.count())
    for more in GROWTH:
        documents = oracle.upsert(list(itertools.islice(names, more)), draw(rng, more, n_bits))
        assert collection.upsert(documents).upserted == more
        asked += ask_all()
    for _ in range(2):
        some = [id_ for id_ in oracle.held if rng.random() < 0.3]
        assert collection.delete([*some, "nobody"]).deleted == len(some)
        for id_ in some:
            del oracle.held[id_]
        asked += ask_all()
        some = [id_ for id_ in oracle.held if rng.random() < 0.3]
        replaced = oracle.upsert(some, draw(rng, len(some), n_bits))
        assert collection.upsert(replaced, batch_size=40).upserted == len(some)
        assert len(collection) == len(oracle.held)
        asked += ask_all()
    return asked


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("n_bits", [16, 64])
def test_it_finds_what_the_oracle_finds(make: Make, n_bits: int, distribution: str) -> None:
    assert run_stages(make(n_bits), DISTRIBUTIONS[distribution], n_bits, batch=20) > 700


@pytest.mark.fuzz
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("n_bits", [8, 16, 32, 64, 128, 256])
def test_it_finds_what_the_oracle_finds_often(make: Make, n_bits: int, distribution: str) -> None:
    assert run_stages(make(n_bits), DISTRIBUTIONS[distribution], n_bits + 1, batch=200) > 7_000


def test_filters_are_pushed_down(make: Make) -> None:
    collection = make(16)
    rng = np.random.default_rng(3)
    documents = code_documents(map(code_to_hex, clustered_codes(rng, 400, 16)))
    collection.upsert(documents)
    filter_ = parse_filter({"field": "at", "in": [7, 70, 170, 270, 370]})
    (hits,) = collection.search([Query(code="0000")], 4, filter=filter_, with_payload=True).hits
    kept = [documents[at] for at in (7, 70, 170, 270, 370)]
    oracle = Oracle(16)
    codes = np.frombuffer(bytes.fromhex("".join(item.code or "" for item in kept)), np.uint8)
    oracle.upsert([document.id for document in kept], codes.reshape(5, 2))
    (expected,) = oracle.search(np.zeros((1, 2), np.uint8), 4, None)
    assert [(hit.id, hit.distance) for hit in hits] == expected
    assert [hit.payload for hit in hits] == [{"at": int(hit.id[1:])} for hit in hits]
    assert collection.count(filter_) == 5
    assert collection.delete_where(filter_).deleted == 5
    assert len(collection) == 395


def test_pages_stay_stable_while_documents_are_added(make: Make) -> None:
    collection = make(16)
    rng = np.random.default_rng(4)
    codes = clustered_codes(rng, 60, 16, centres=2)
    collection.upsert(code_documents(map(code_to_hex, codes)))
    query = Query(code=code_to_hex(codes[0]))
    whole = [hit.id for hit in collection.search([query], 100).hits[0]]
    cursor, paged = None, []
    for turn in range(20):
        page = collection.search([query], 7, cursor=cursor)
        paged += [hit.id for hit in page.hits[0]]
        (cursor,) = page.next_cursors
        if cursor is None:
            break
        collection.upsert(code_documents([code_to_hex(codes[0])] * 3, prefix=f"later{turn}-"))
    assert paged == whole
    offsets = [collection.search([query], 10, offset=at).hits[0] for at in (0, 10, 20)]
    in_one = collection.search([query], 30).hits[0]
    assert [hit.id for hits in offsets for hit in hits] == [hit.id for hit in in_one]


def test_what_is_stored_comes_back(make: Make) -> None:
    collection = make(16)
    payload = {"b": [1, None, {"2": 2.0}], "a": None, "é": "\0\u2028😀", "big": 2**70}
    generation = collection.generation
    result = collection.upsert([Document(id="'\"\\ é", code="00FF", payload=payload)])
    assert (result.upserted, result.generation) == (1, generation + 1)
    stored = collection.get("'\"\\ é")
    assert stored is not None
    assert (stored.id, stored.code, stored.text) == ("'\"\\ é", "00ff", None)
    assert repr(stored.payload) == repr(payload)
    hits = collection.search([Query(id="'\"\\ é")], 1, with_payload=True, with_code=True).hits[0]
    assert (hits[0].distance, hits[0].code, hits[0].payload) == (0, "00ff", payload)
    same = Document(id="'\"\\ é", code="00ff", payload=payload)
    other = Document(id="'\"\\ é", code="00ff", payload={**payload, "a": 1})
    assert collection.new_or_changed([same, other]) == [other]
    assert collection.verify().problems == []
    assert collection.delete(["'\"\\ é", "'\"\\ é"]).deleted == 1
    assert collection.get("'\"\\ é") is None
    assert collection.generation == generation + 2


def test_labels_and_contents_come_by_row(make: Make) -> None:
    collection = make(16)
    collection.upsert([Document(id=id_, code=f"000{at}") for at, id_ in enumerate("zya")])
    collection.upsert([Document(id="y", code="0007", labels=("red", "blue"))])
    codes, labels = collection.labelled_codes()
    assert codes[:, 1].tolist() == [0, 2, 7]
    assert labels == [(), (), ("red", "blue")]
    coded = collection.coded_payloads(with_given_labels=True)
    assert coded.codes.tolist() == codes.tolist()
    assert coded.payloads == [{}, {}, {"labels": ["red", "blue"]}]
    assert coded.given_labels == [(), (), ()]
    assert [document.id for document in collection.all_documents()] == ["z", "a", "y"]
    contents = collection.all_documents()
    assert [document.id for document in collection.documents_after(0, 2)] == ["z", "a"]
    assert [document.id for document in collection.documents_after(contents[0].row, 9)] == [
        "a",
        "y",
    ]
    assert collection.documents_after(contents[2].row, 9) == []
    first = collection.scroll(2)
    assert [document.id for document in first.documents] == ["z", "a"]
    rest = collection.scroll(2, first.next_cursor)
    assert ([document.id for document in rest.documents], rest.next_cursor) == (["y"], None)


def test_bad_input_changes_nothing(make: Make) -> None:
    collection = make(16)
    generation = collection.generation
    bad = [Document(id="a", code="0000"), Document(id="b", code="00")]
    with pytest.raises(InputError, match="code: '00' is not 4 hexadecimal digits"):
        collection.upsert(bad, batch_size=1)
    assert (len(collection), collection.generation) == (0, generation)
    for k in (0, 10_001):
        with pytest.raises(InputError, match=f"limit: is {k}; it must be from 1 to 10000"):
            collection.search([Query(code="0000")], k)
    with pytest.raises(InputError, match="radius: is 17; it must be from 0 to 16"):
        collection.search([Query(code="0000")], 1, 17)
    with pytest.raises(InputError, match="cursor: is 'x'"):
        collection.search([Query(code="0000")], 1, cursor="x")
    for id_ in ("nobody", "\ud800", "' or 1 --"):
        with pytest.raises(UnknownDocument):
            collection.search([Query(id=id_)], 1)
        assert collection.get(id_) is None
    assert collection.search([], 1).hits == []
    assert collection.upsert([]).generation == generation
