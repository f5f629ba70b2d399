"""Documents that expire: from that moment on, every read is that of a collection without them."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hummingbit.corpus.document import parse_document
from hummingbit.corpus.expiry import EXPIRES_AT
from hummingbit.foundation.errors import InputError
from hummingbit.index.collection import Collection, pages_of
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.facets import parse_facets, parse_sort
from hummingbit.index.filters import parse_filter
from hummingbit.index.operations import count_values
from hummingbit.index.options import SearchOptions
from hummingbit.index.passages import Passages
from hummingbit.index.payloads import PayloadUpdate
from hummingbit.index.records import Query
from hummingbit.index.store.annotations import DocumentLabel
from hummingbit.index.transfer import export_collection
from tests.support.service import make_data_folder


def created(folder: DataFolder, name: str, **settings: Any) -> Collection:
    return folder.create_collection(name, **settings)


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock.time)
    return clock


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataFolder]:
    with DataFolder(make_data_folder(tmp_path / "data"), writable=True) as folder:
        yield folder


TEXTS = [
    "moon tide",
    "tide",
    "The moon raises the tides of all our seas. A harbour lies in the north of it.",
    "harbour. Stars and moon.",
]


def document(id_: str, text: str, ttl: int | None, label: str) -> dict[str, Any]:
    record = {"id": id_, "text": text, "payload": {"label": label, "n": len(text)}}
    return record if ttl is None else {**record, "ttl_seconds": ttl}


IDS = st.sampled_from([f"d{at}" for at in range(6)])
RECORDS = st.builds(
    document,
    IDS,
    st.sampled_from(TEXTS),
    st.one_of(st.none(), st.integers(1, 6)),
    st.sampled_from(["a", "b"]),
)
STEPS = st.one_of(
    st.tuples(st.just("upsert"), st.lists(RECORDS, min_size=1, max_size=4)),
    st.tuples(st.just("wait"), st.integers(1, 3)),
    st.tuples(st.just("wait"), st.integers(1, 3)),
    st.tuples(st.just("expire"), st.tuples(IDS, st.integers(1, 5))),
    st.tuples(st.just("keep"), IDS),
    st.tuples(st.just("label"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("delete"), IDS),
    st.tuples(st.sampled_from(["remove", "compact", "reopen"]), st.none()),
)


class Model:
    """The documents in the order of insertion, with the times at which they expire."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.records: dict[str, tuple[dict[str, Any], float | None]] = {}

    def living(self) -> dict[str, dict[str, Any]]:
        now = self.clock.now
        return {id_: record for id_, (record, at) in self.records.items() if at is None or at > now}

    def apply(self, step: tuple[str, Any]) -> None:
        name, value = step
        self.records = {id_: self.records[id_] for id_ in self.living()}
        if name == "upsert":
            for record in {document["id"]: document for document in value}.values():
                self.records.pop(record["id"], None)
            last = {document["id"]: position for position, document in enumerate(value)}
            for place in sorted(last.values()):
                record = dict(value[place])
                ttl = record.pop("ttl_seconds", None)
                self.records[record["id"]] = record, ttl and self.clock.now + ttl
        elif name == "expire" and value[0] in self.records:
            self.records[value[0]] = self.records[value[0]][0], self.clock.now + value[1]
        elif name == "keep" and value in self.records:
            self.records[value] = self.records[value][0], None
        elif name == "label":
            for id_, (record, at) in [*self.records.items()]:
                payload = {**record["payload"], "label": value}
                self.records[id_] = {**record, "payload": payload}, at
        elif name == "delete":
            self.records.pop(value, None)


def apply(collection: Collection, step: tuple[str, Any]) -> None:
    name, value = step
    if name == "upsert":
        collection.upsert([parse_document(item) for item in value])
    elif name == "expire":
        collection.update_payloads([PayloadUpdate(ids=(value[0],), ttl_seconds=value[1])])
    elif name == "keep":
        collection.update_payloads([PayloadUpdate(ids=(value,), remove=(EXPIRES_AT,))])
    elif name == "label":
        every = parse_filter({"field": "n", "gte": 0})
        collection.update_payloads([PayloadUpdate(filter=every, set={"label": value})])
    elif name == "delete":
        collection.delete([value])
    elif name == "remove":
        collection.remove_expired()
    elif name == "compact":
        collection.compact()


def answers(collection: Collection) -> dict[str, Any]:
    """Return what a collection answers, without rows and generations."""
    labelled = parse_filter({"field": "label", "eq": "a"})
    found: dict[str, Any] = {
        "count": collection.count(),
        "len": len(collection),
        "of a label": collection.count(labelled),
        "ids": [document.id for page in pages_of(collection) for document in page],
        "sorted": [
            document.id
            for page in pages_of(collection, labelled, parse_sort("n"))
            for document in page
        ],
        "get": [
            document and document.id
            for document in collection.get_many([f"d{at}" for at in range(6)])
        ],
        "existing": collection.existing_ids([f"d{at}" for at in range(6)]),
        "facets": count_values(collection, parse_facets(["label"])).facets,
        "payloads": len(collection.coded_payloads(with_given_labels=True).payloads),
        "labels": collection.labelled_codes()[1],
        "all": [document.id for document in collection.all_documents()],
        "statistics": collection.stats()["distinct_codes"],
        "problems": collection.verify().problems,
        "verified": collection.verify().documents,
    }
    for ranking in ("hamming", "bm25", "hybrid"):
        for options in (
            SearchOptions(10, ranking=ranking),
            SearchOptions(10, ranking=ranking, filter=labelled),
            SearchOptions(5, ranking=ranking, group_by="label", facets=tuple(parse_facets(["n"]))),
        ):
            result = collection.find([Query(text="moon tide")], replace(options, with_cursor=False))
            groups = result.groups or [[]]
            hits = [*result.hits[0], *(hit for group in groups[0] for hit in group.hits)]
            name = f"{ranking} {options.filter} {options.group_by}"
            found[name] = [(hit.id, hit.score) for hit in hits], result.facets
    return found


@pytest.mark.parametrize("kind", ["plain", "indexed", "passages"])
def test_reads_are_those_of_a_collection_without_expired_documents(
    tmp_path: Path, clock: Clock, kind: str
) -> None:
    data = make_data_folder(tmp_path / "data")
    numbers = iter(range(10_000))

    @settings(max_examples=4, deadline=None, suppress_health_check=[*HealthCheck])
    @given(st.lists(STEPS, min_size=4, max_size=12))
    def check(steps: list[tuple[str, Any]]) -> None:
        name, model = f"c{next(numbers)}", Model(clock)
        make: dict[str, Any] = {"encoder": "words"}
        if kind == "indexed":
            make["indexed_fields"] = ["label", "n"]
        if kind == "passages":
            make["passages"] = Passages(words=8, overlap=0)
        with DataFolder(data, writable=True) as folder:
            collection = created(folder, name, **make)
            collection.set_ranking("hybrid")
            reader = DataFolder(data, writable=False)
            try:
                for step in steps:
                    model.apply(step)
                    if step[0] == "wait":
                        clock.now += step[1]
                    elif step[0] == "reopen":
                        folder.close()
                        folder.__init__(data, writable=True)  # type: ignore[misc]
                        collection = folder.collection(name)
                    else:
                        apply(collection, step)
                    expected = created(folder, f"{name}-{next(numbers)}", **make)
                    expected.set_ranking("hybrid")
                    expected.upsert([parse_document(item) for item in model.living().values()])
                    wanted = answers(expected)
                    assert answers(collection) == wanted
                    reader.follow()
                    assert answers(reader.collection(name)) == wanted
                    folder.drop_collection(expected.name)
                folder.drop_collection(name)
            finally:
                reader.close()

    check()


def test_an_expired_id_is_free_and_its_document_cannot_come_back(
    folder: DataFolder, clock: Clock
) -> None:
    collection = created(folder, "notes", encoder="words")
    record = document("a", "moon", 5, "x")
    collection.upsert([parse_document(record)])
    collection.annotations.set_labels([DocumentLabel("a", ("x",), "me")])
    clock.now += 5
    assert collection.annotations.labels() == []
    assert collection.annotations.counts() == (0, 0)
    assert collection.delete(["a"]).deleted == 0
    collection.upsert([parse_document(record)])
    clock.now += 5
    assert collection.update_payloads([PayloadUpdate(ids=("a",), ttl_seconds=9)]).matched == 0
    assert collection.upsert([parse_document(document("a", "moon", None, "x"))]).replaced == 0
    clock.now += 1000
    assert collection.get("a") is not None


def test_the_time_travels_in_exports_and_snapshots(
    folder: DataFolder, clock: Clock, tmp_path: Path
) -> None:
    collection = created(folder, "notes", encoder="words")
    collection.upsert(
        [
            parse_document({"id": "a", "text": "moon", "expires_at": "2027-01-15T08:00:10Z"}),
            parse_document({"id": "b", "text": "moon", "ttl_seconds": 60}),
            parse_document({"id": "c", "text": "moon", "expires_at": clock.now - 1}),
        ]
    )
    stream = io.BytesIO()
    export_collection(collection, stream)
    assert b'"c"' not in stream.getvalue()
    snapshot = folder.create_snapshot("notes")
    file = folder.snapshots.file(snapshot.id)
    assert collection.store.count() == 2
    restored = folder.restore_snapshot(file, "restored")
    assert restored is None or len(folder.collection("restored")) == 2
    clock.now += 10.5
    for name in ("notes", "restored"):
        assert [document.id for document in folder.collection(name).all_documents()] == ["b"]
    assert folder.reindex("notes", "words", "again", None, None) == 1
    clock.now += 60
    assert len(folder.collection("again")) == len(folder.collection("restored")) == 0


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"ttl_seconds": 0}, "ttl_seconds"),
        ({"ttl_seconds": 1e18}, "ttl_seconds"),
        ({"ttl_seconds": "1"}, "ttl_seconds"),
        ({"ttl_seconds": float("nan")}, "ttl_seconds"),
        ({"expires_at": "soon"}, "expires_at"),
        ({"expires_at": True}, "expires_at"),
        ({"expires_at": "2027-01-01", "ttl_seconds": 1}, "ttl_seconds"),
        ({"payload": {EXPIRES_AT: "soon"}}, "payload"),
    ],
)
def test_a_time_that_is_none_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_document({"id": "a", "text": "moon", **fields})
    assert refused.value.field == field


def test_a_lifetime_that_is_too_long_says_how_long_one_may_be() -> None:
    with pytest.raises(InputError, match=r"is 1e\+18; it must be .*, 10,000,000,000 at most"):
        parse_document({"id": "a", "text": "moon", "ttl_seconds": 1e18})


def test_expired_documents_are_removed_by_compaction_and_with_their_labels(
    folder: DataFolder, clock: Clock
) -> None:
    remove: list[Callable[[Collection], None]] = [
        Collection.compact,
        Collection.remove_expired,
        lambda _: (folder.close(), folder.__init__(folder.path, writable=True))[1],  # type: ignore[func-returns-value, misc]
    ]
    for at, remove_from in enumerate(remove):
        collection = created(folder, f"notes{at}", encoder="words")
        collection.upsert([parse_document(document(f"d{n}", "moon", 5, "x")) for n in range(3)])
        collection.upsert([parse_document(document("kept", "tide", None, "x"))])
        clock.now += 5
        with collection.store.read_transaction() as connection:
            assert connection.execute("SELECT count(*) FROM documents").fetchone() == (4,)
        remove_from(collection)
        collection = folder.collection(collection.name)
        with collection.store.read_transaction() as connection:
            assert connection.execute("SELECT count(*) FROM documents").fetchone() == (1,)
            assert connection.execute("SELECT count(*) FROM expiries").fetchone() == (0,)
        assert collection.verify().problems == []
