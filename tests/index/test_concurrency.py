"""Many threads search while one writes: every answer is the oracle's at the generation it names."""

from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.encoder import Encoder
from hummingbit.foundation.cancellation import Cancelled, cancelled_by
from hummingbit.index.collection import Collection
from hummingbit.index.engines import segments
from hummingbit.index.filters import Filter, parse_filter
from hummingbit.index.records import Query
from hummingbit.index.search import SearchResult
from hummingbit.index.store.store import Store
from tests.support.codes import random_hex
from tests.support.collections import (
    Model,
    code_collection,
    code_documents,
    text_collection,
    text_documents,
)

SECONDS = 120.0

Answer = tuple[str, int, Filter | None, SearchResult]
LOW = parse_filter({"field": "at", "lt": 20})


def write(collection: Collection, history: dict[int, Model], rounds: int) -> None:
    rng = np.random.default_rng(0)
    model = copy.deepcopy(history[collection.generation])
    for _ in range(rounds):
        if rng.random() < 0.3:
            ids = [f"d{i}" for i in rng.integers(0, 60, 10)]
            generation = collection.delete(ids).generation
            for id_ in ids:
                model.held.pop(id_, None)
        else:
            documents = code_documents(random_hex(rng, int(rng.integers(1, 40)), 16))
            generation = collection.upsert(documents).generation
            model.upsert(documents)
        history[generation] = copy.deepcopy(model)


def search_until(done: threading.Event, collection: Collection, seed: int) -> list[Answer]:
    rng = np.random.default_rng(seed)
    answers: list[Answer] = []
    while not done.is_set():
        code, k = random_hex(rng, 1, 16)[0], int(rng.integers(1, 70))
        filter_ = LOW if rng.random() < 0.5 else None
        result = collection.search([Query(code=code)], k, filter=filter_)
        answers.append((code, k, filter_, result))
    return answers


def test_answers_are_those_of_their_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "MIN_FOLD", 20)
    rng = np.random.default_rng(1)
    done = threading.Event()
    with closing(code_collection(tmp_path)) as collection, ThreadPoolExecutor(5) as pool:
        documents = code_documents(random_hex(rng, 60, 16))
        model = Model(16)
        model.upsert(documents)
        history = {collection.upsert(documents).generation: model}
        searches = [pool.submit(search_until, done, collection, seed) for seed in range(4)]
        try:
            pool.submit(write, collection, history, 80).result()
        finally:
            done.set()
        answers = [answer for search in searches for answer in search.result()]
    assert len({result.generation for *_, result in answers}) > 10
    for code, k, filter_, result in answers[:: max(1, len(answers) // 500)]:
        found = [(hit.id, hit.distance) for hit in result.hits[0]]
        expected = history[result.generation].ranked(code, None, filter_)[:k]
        assert found == [(hit.id, hit.distance) for hit in expected]


def test_writers_take_turns(tmp_path: Path) -> None:
    codes = random_hex(np.random.default_rng(0), 20, 16)
    with closing(code_collection(tmp_path)) as collection, ThreadPoolExecutor(4) as pool:
        writes = [
            pool.submit(collection.upsert, code_documents(codes, prefix=f"{letter}-"))
            for letter in "abcdefgh"
        ]
        generations = sorted(item.result().generation for item in writes)
        assert generations == list(range(1, 9))
        assert len(collection) == 160
        (hits,) = collection.search([Query(code=codes[0])], 1000).hits
        assert len({hit.id for hit in hits}) == 160


def test_a_write_that_nobody_waits_for_changes_nothing(tmp_path: Path) -> None:
    with closing(text_collection(tmp_path)) as collection:
        for looks in range(2):  # the second batch is encoded with the writing lock held
            answers = iter([*[False] * looks, True, True])
            named = text_documents(60, prefix="lost-")
            with pytest.raises(Cancelled), cancelled_by(answers.__next__):
                collection.upsert(named, batch_size=20)
            assert len(collection) == 0
        assert collection.upsert(text_documents(60), batch_size=20).upserted == 60
        assert collection.verify().problems == []


def test_what_is_written_is_encoded_while_another_writes(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool, closing(text_collection(tmp_path)) as collection:
        encoded = threading.Event()
        collection.encoder = _Noting(collection.encoder, encoded)  # type: ignore[assignment]
        with collection._write_lock:
            writer = pool.submit(collection.upsert, [Document("a", text="butter")])
            assert encoded.wait(SECONDS)
            assert not writer.done()
        assert writer.result(SECONDS).upserted == 1


class _Noting:
    """An encoder that says when it has encoded something."""

    def __init__(self, encoder: Encoder | None, encoded: threading.Event) -> None:
        self._encoder, self._encoded = encoder, encoded

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def encode(self, inputs: Any) -> Any:
        assert self._encoder is not None
        codes = self._encoder.encode(inputs)
        self._encoded.set()
        return codes


def test_an_index_that_is_built_during_a_write_holds_it(tmp_path: Path) -> None:
    codes = random_hex(np.random.default_rng(0), 300, 16)
    code_collection(tmp_path).close()
    for turn in range(20):
        store = Store(tmp_path / "store.sqlite", writable=True)
        with (
            closing(Collection(store, indexed=False)) as collection,
            ThreadPoolExecutor(2) as pool,
        ):
            start = threading.Barrier(2)

            def search(
                collection: Collection = collection, start: threading.Barrier = start
            ) -> None:
                start.wait()
                collection.search([Query(code="0000")], 1)

            searching = pool.submit(search)
            start.wait()
            written = collection.upsert(code_documents(codes, prefix=f"{turn}-"))
            searching.result()
            result = collection.search([Query(code=codes[0])], 10_000)
            assert result.generation == written.generation
            assert len(result.hits[0]) == 300 * (turn + 1)


def test_a_search_whose_hit_was_replaced_does_not_wait_for_the_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(code_collection(tmp_path)) as collection:
        collection.upsert(code_documents(["0000", "ffff"]))
        read_ids, publication = collection.store.read_ids, collection._published_index

        def read_after_a_write(*args: Any, **kwargs: Any) -> Any:
            monkeypatch.setattr(collection.store, "read_ids", read_ids)
            collection.upsert(code_documents(["0001"]))
            # As while the next write is being put on disk.
            publication.lock.acquire()
            return read_ids(*args, **kwargs)

        monkeypatch.setattr(collection.store, "read_ids", read_after_a_write)
        found = collection.search([Query(code="0000")], 1)
        publication.lock.release()
        assert found.generation == collection.generation == 2
        assert [hit.distance for hit in found.hits[0]] == [1]
