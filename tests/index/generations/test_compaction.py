"""The index is rebuilt on a thread of its own; nobody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hummingbit.index.collection import Collection
from hummingbit.index.engines import segments
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.records import Query
from tests.support.codes import random_hex
from tests.support.collections import Model, code_collection, code_documents


class Gate:
    """Holds every rebuild until it is opened."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.begun = threading.Event()
        self.opened = threading.Event()
        self.rebuilds = 0
        compacted = IndexSnapshot.compacted

        def held(generation: IndexSnapshot) -> IndexSnapshot:
            self.rebuilds += 1
            self.begun.set()
            assert self.opened.wait(120)
            return compacted(generation)

        patch.setattr(IndexSnapshot, "compacted", held)


@pytest.fixture
def collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collection]:
    monkeypatch.setattr(segments, "MIN_FOLD", 8)
    with closing(code_collection(tmp_path)) as collection:
        yield collection


def check(collection: Collection, model: Model) -> None:
    for code in ("0000", "00ff", "1234"):
        hits = collection.search([Query(code=code)], 500).hits[0]
        assert [(hit.id, hit.distance) for hit in hits] == model.search(code, 500)


def test_writes_and_searches_go_on_meanwhile(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    model = Model(16)
    rng = np.random.default_rng(0)
    for step in range(12):
        documents = code_documents(random_hex(rng, 20, 16), prefix=f"{step % 9}-")
        collection.upsert(documents)
        model.upsert(documents)
        if step % 3 == 0:
            ids = [f"{step % 9}-{i}" for i in range(5)]
            assert collection.delete(ids).deleted == model.delete(ids) == 5
        check(collection, model)
    assert gate.begun.is_set()
    assert gate.rebuilds == 1
    gate.opened.set()
    collection._published_index.wait()
    check(collection, model)
    assert collection.verify().problems == []
    collection.upsert(code_documents(["0000"]))
    collection._published_index.wait()
    assert not collection._published_index.current().generation.needs_compaction


def test_a_collection_is_closed_after_its_compaction(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    for step in range(6):
        collection.upsert(code_documents(["0000"] * 9, prefix=f"{step}-"))
    assert gate.begun.wait(120)
    closing_ = threading.Thread(target=collection.close)
    closing_.start()
    gate.opened.set()
    closing_.join(120)
    assert not closing_.is_alive()


def test_compacting_by_hand_beside_one_in_the_background(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(16)
    for step in range(20):
        documents = code_documents(["0001", "0002", "8000"] * 5, prefix=f"{step}-")
        collection.upsert(documents)
        model.upsert(documents)
        collection.compact()
    collection._published_index.wait()
    check(collection, model)
    assert collection.verify().problems == []
