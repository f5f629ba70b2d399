from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from anyio import CapacityLimiter

from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import code_to_hex
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.text_model import TextModel
from hummingbit.foundation.errors import InputError
from hummingbit.index.collection import Collection
from hummingbit.index.errors import UnknownDocument
from hummingbit.index.filtered import FilteredCollection
from hummingbit.index.filters import parse_filter
from hummingbit.index.names import HAMMING
from hummingbit.index.options import (
    Rescore,
    SearchOptions,
)
from hummingbit.index.records import Query
from hummingbit.index.search import SearchResult
from hummingbit.service import batching
from hummingbit.service.batching import MAX_BATCH, MAX_LOOP_BATCH, Batcher, Place, place_of
from hummingbit.service.http.monitoring import Metrics
from tests.support.codes import clustered_codes
from tests.support.collections import (
    Model,
    code_collection,
    code_documents,
    encoded_collection,
    text_collection,
)
from tests.support.encoders import WORDS, random_layers, random_texts
from tests.support.models import tiny_model

N_BITS = 16
SHORT = SearchOptions(1, with_cursor=False)
Answer = Any


class Answers:
    """Batchers that answer with the ids of hits, and what they did."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.threads: list[str] = []

    def write(self, _: Any, __: Any, result: SearchResult, position: int, ___: float) -> Answer:
        self.sizes.append(len(result.hits))
        self.threads.append(threading.current_thread().name)
        if result.groups is not None:
            return [(group.id, [hit.id for hit in group.hits]) for group in result.groups[position]]
        return [(hit.id, hit.distance) for hit in result.hits[position]]

    @contextmanager
    def batcher(self) -> Iterator[Batcher]:
        batcher = Batcher(Metrics(), CapacityLimiter(2), self.write)
        try:
            yield batcher
        finally:
            batcher.close()


def search_all(
    collection: Any, searches: Sequence[tuple[SearchOptions, Query]], *, alone: bool = False
) -> tuple[list[Answer | BaseException], Answers]:
    """Return the answers to searches that arrive together."""
    answers = Answers()

    async def ask() -> list[Answer | BaseException]:
        with answers.batcher() as batcher:
            asked = (batcher.search(collection, *search, alone=alone) for search in searches)
            return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(ask()), answers


@pytest.mark.parametrize("in_threads", [False, True])
def test_searches_that_wait_are_answered_together_and_as_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_threads: bool
) -> None:
    if in_threads:
        monkeypatch.setattr(batching, "LOOP_DOCUMENTS", 0)
    collection, model = code_collection(tmp_path, N_BITS), Model(N_BITS)
    rng = np.random.default_rng(0)
    documents = code_documents([code_to_hex(code) for code in clustered_codes(rng, 300, N_BITS)])
    collection.upsert(documents)
    model.upsert(documents)
    collection.build_index()
    queries = [code_to_hex(code) for code in clustered_codes(rng, 200, N_BITS)]
    near, far = SearchOptions(7, 5, with_cursor=False), SearchOptions(20, with_cursor=False)
    searches = [(far if i % 3 else near, Query(code=code)) for i, code in enumerate(queries)]
    others = [Query(code="zz"), Query(id="absent"), Query(id="d3")]
    found, answers = search_all(collection, [*searches, *((far, query) for query in others)])
    *found, bad, absent, by_id = found
    for place, (code, answer) in enumerate(zip(queries, found, strict=True)):
        assert answer == (model.search(code, 20) if place % 3 else model.search(code, 7, 5))
    assert isinstance(bad, InputError)
    assert isinstance(absent, UnknownDocument)
    assert by_id == model.search(documents[3].code or "", 20)
    assert 1 < max(answers.sizes) <= (MAX_BATCH if in_threads else MAX_LOOP_BATCH)
    assert all(name.startswith("search") == in_threads for name in answers.threads)
    collection.close()


def test_a_search_that_is_alone_shares_no_batch(tmp_path: Path) -> None:
    collection = code_collection(tmp_path, N_BITS)
    collection.upsert(code_documents(["00ff", "ff00"]))
    queries = [Query(code="00ff"), Query(code="ff00")] * 3
    found, answers = search_all(collection, [(SHORT, query) for query in queries], alone=True)
    assert found == [[("d0", 0)], [("d1", 0)]] * 3
    assert set(answers.sizes) == {1}
    collection.close()


def test_who_has_gone_is_not_answered(tmp_path: Path) -> None:
    collection = code_collection(tmp_path, N_BITS)
    collection.upsert(code_documents(["00ff"]))

    async def ask_and_go() -> list[Answer]:
        with Answers().batcher() as batcher:
            search = partial(batcher.search, collection, SHORT, Query(code="00ff"), alone=False)
            gone = asyncio.ensure_future(search())
            await asyncio.sleep(0)
            gone.cancel()
            answers = [await search() for _ in range(5)]
            with pytest.raises(asyncio.CancelledError):
                await gone
            return answers

    assert asyncio.run(ask_and_go()) == [[("d0", 0)]] * 5
    collection.close()


# Where a search runs.


TEXTS = random_texts(60)


def make_words(tmp_path: Path) -> Collection:
    """Return a collection of short texts, with payloads of up to 190 KB, ranked by distance."""
    collection = text_collection(tmp_path)
    payloads = [{"long": "x" * (10_000 * (n % 20))} for n in range(len(TEXTS))]
    collection.upsert(
        Document(f"d{n}", text, payload=payload)
        for n, (text, payload) in enumerate(zip(TEXTS, payloads, strict=True))
    )
    collection.set_ranking(HAMMING)
    return collection


def place(collection: Any, text: str | None = TEXTS[1], **options: Any) -> Place:
    query = Query(id="d1") if text is None else Query(text=text)
    return place_of(collection, SearchOptions(options.pop("k", 3), **options), query)


def test_a_search_runs_where_its_collection_and_options_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = make_words(tmp_path)
    assert place(collection) is Place.LOOP
    assert place(collection, ranking="bm25") is Place.LONG  # the words are not indexed
    collection.find([Query(text=TEXTS[1])], SearchOptions(1, ranking="hybrid"))
    for options in ({}, {"ranking": "bm25"}, {"ranking": "hybrid"}, {"text": None}):
        assert place(collection, **options) is Place.LOOP
    assert place(collection, "w " * 300) is Place.THREAD
    assert place(collection, "w " * 6000) is Place.LONG
    assert place(collection, 'a "phrase"') is Place.LONG
    assert place(collection, "year:1990") is Place.LONG
    assert place(collection, 'a "phrase"', syntax="plain") is Place.LOOP
    assert place(collection, k=101) is Place.THREAD
    assert place(collection, k=201) is Place.LONG
    assert place(collection, offset=200) is Place.LONG
    # The documents have 95 KB each.
    assert place(collection, k=1, with_payload=True) is Place.LOOP
    assert place(collection, k=50, with_payload=True) is Place.THREAD
    assert place(collection, k=200, with_text=True) is Place.LONG
    assert place(collection, group_by="long") is Place.LONG
    monkeypatch.setattr(batching, "LOOP_DOCUMENTS_BY_STEPS", 59)
    assert place(collection, ranking="bm25") is Place.THREAD
    assert place(collection, ranking="hamming") is Place.LOOP
    collection.close()


def test_a_filter_is_long_until_its_rows_are_known(tmp_path: Path) -> None:
    collection = code_collection(tmp_path, N_BITS)
    collection.upsert(code_documents(["00ff", "ff00"]))
    filter_ = parse_filter({"field": "n", "exists": False})
    options = SearchOptions(2, filter=filter_, with_cursor=False)
    assert place_of(collection, options, Query(code="00ff")) is Place.LONG
    (found,), answers = search_all(collection, [(options, Query(code="00ff"))], alone=True)
    assert found == [("d0", 0), ("d1", 16)]
    assert answers.threads[0].startswith("AnyIO")
    assert place_of(collection, options, Query(code="00ff")) is Place.LOOP
    limited = FilteredCollection(collection, filter_)
    assert place_of(limited, SHORT, Query(code="00ff")) is Place.LONG
    limited.find([Query(code="00ff")], SHORT)
    assert place_of(limited, SHORT, Query(code="00ff")) is Place.THREAD
    collection.close()


def test_long_searches_wait_for_each_other_and_hold_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = make_words(tmp_path)
    collection.find([Query(text=TEXTS[1])], SearchOptions(1, ranking="hybrid"))
    running, most, go_on = [], [0], threading.Event()
    find = Collection.find

    def find_later(self: Collection, queries: Any, options: SearchOptions) -> Any:
        if options.k > 200:
            running.append(1)
            most[0] = max(most[0], len(running))
            assert go_on.wait(60)
            running.pop()
        return find(self, queries, options)

    monkeypatch.setattr(Collection, "find", find_later)

    async def ask() -> list[int]:
        with Answers().batcher() as batcher:
            query = Query(text=TEXTS[1])
            long = [
                asyncio.create_task(
                    batcher.search(collection, SearchOptions(201), query, alone=True)
                )
                for _ in range(5)
            ]
            while len(running) < 2:
                await asyncio.sleep(0.01)
            quick = [await batcher.search(collection, SHORT, query, alone=False) for _ in range(5)]
            assert not any(task.done() for task in long)
            go_on.set()
            return [*map(len, quick), *map(len, await asyncio.gather(*long))]

    assert asyncio.run(ask()) == [1] * 5 + [60] * 5
    assert most == [2]
    collection.close()


class HeldModel(TextModel):
    """A model that reads queries once `open` is set; `sizes` are how many it reads together."""

    open = threading.Event()
    sizes: ClassVar[list[int]] = []

    def transform_queries(self, texts: Sequence[str]) -> Any:
        assert HeldModel.open.wait(10)
        HeldModel.sizes.append(len(texts))
        return super().transform_queries(texts)


def test_other_searches_do_not_wait_for_a_model_which_reads_what_waits_together(
    tmp_path: Path,
) -> None:
    model = tiny_model(tmp_path / "model")
    held = HeldModel(**{field.name: getattr(model, field.name) for field in fields(TextModel)})
    layers = random_layers(np.random.default_rng(0), model.dimension, N_BITS)
    encoder = Encoder(held, layers, np.zeros(N_BITS, np.float32), {}, "f")
    (tmp_path / "cheap").mkdir()
    cheap = code_collection(tmp_path / "cheap", N_BITS)
    cheap.upsert(code_documents(["0" * (N_BITS // 4)]))
    dear = encoded_collection(tmp_path / "dear", encoder)
    texts = [f"{word} jam" for word in WORDS[:8]]
    dear.upsert([Document(id=text, text=text) for text in texts])
    options = SearchOptions(1, ranking="asymmetric", with_text=True, with_cursor=False)
    by_words = SearchOptions(1, ranking="bm25", with_text=True, with_cursor=False)
    dear.find([Query(text="jam")], by_words)  # builds the index of words

    async def ask() -> list[str]:
        answers = Answers()
        with answers.batcher() as batcher:

            async def first_of(collection: Any, query: Query, options: SearchOptions) -> str:
                found: Any = await batcher.search(collection, options, query, alone=False)
                return str(found[0][0])

            first = asyncio.create_task(first_of(dear, Query(text=texts[0]), options))
            await asyncio.sleep(0.05)
            others = [
                asyncio.create_task(first_of(dear, Query(text=text), options)) for text in texts[1:]
            ]
            try:
                # More of them than threads of the other searches, which are all free.
                for _ in range(20):
                    found = first_of(cheap, Query(id="d0"), SHORT)
                    assert await asyncio.wait_for(found, 10) == "d0"
                found = first_of(dear, Query(id=texts[3]), SHORT)
                assert await asyncio.wait_for(found, 10) in texts
                # Nor does a search of the same texts by their words alone.
                for text in texts:
                    found = first_of(dear, Query(text=text), by_words)
                    assert await asyncio.wait_for(found, 10) == text
                assert not any(task.done() for task in (first, *others))
                HeldModel.open.set()
                return list(await asyncio.gather(first, *others))
            finally:
                HeldModel.open.set()

    found = asyncio.run(ask())
    assert HeldModel.sizes == [1, 7]
    alone = [dear.find([Query(text=text)], options).hits[0][0].id for text in texts]
    assert found == alone


class CountingModel(TextModel):
    """A model that counts the queries that it reads."""

    read = 0

    def transform_queries(self, texts: Sequence[str]) -> Any:
        CountingModel.read += len(texts)
        return super().transform_queries(texts)


def test_a_model_reads_no_query_of_which_only_words_are_needed(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "model")
    counting = CountingModel(
        **{field.name: getattr(model, field.name) for field in fields(TextModel)}
    )
    layers = random_layers(np.random.default_rng(0), model.dimension, N_BITS)
    encoder = Encoder(counting, layers, np.zeros(N_BITS, np.float32), {}, "f")
    collection = encoded_collection(tmp_path, encoder)
    texts = [f"{word} jam" for word in WORDS[:8]]
    collection.upsert([Document(id=text, text=text) for text in texts])

    def n_read(text: str, **options: Any) -> int:
        before = CountingModel.read
        result = collection.search([Query(text=text)], 3, **options)
        if options.get("radius") is None:
            assert result.hits[0]
        return CountingModel.read - before

    asked = texts[2]
    for by_words in ({}, {"with_payload": True}, {"highlight": True}, {"with_text": True}):
        assert n_read(asked, ranking="bm25", **by_words) == 0
        assert n_read(f'"{asked}" -pear', ranking="bm25", **by_words) == 0
    for by_code in (
        {"ranking": "bm25", "with_code": True},
        {"ranking": "bm25", "explain": True},
        {"ranking": "bm25", "rescore": Rescore("logits")},
        {"ranking": "hybrid"},
        {"ranking": "asymmetric", "rescore": Rescore("bm25")},
        {},
    ):
        assert n_read(asked, **by_code) == 1, by_code
    collection.set_ranking("bm25")
    assert n_read(asked) == 0
    assert n_read(asked, radius=N_BITS) == 1
    (hit,) = collection.search([Query(text=asked)], 1).hits[0]
    assert (hit.id, hit.distance) == (asked, None)
    # The same hits with the same scores as with the code.
    without, with_code = (
        collection.search([Query(text=asked)], 8, with_code=item).hits[0] for item in (False, True)
    )
    assert [(h.id, h.score) for h in without] == [(h.id, h.score) for h in with_code]
    collection.close()
