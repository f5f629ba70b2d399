from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import code_to_hex
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.text_model import TextModel
from hummingbit.foundation.errors import InputError
from hummingbit.foundation.slices import BeyondAllowance
from hummingbit.index.collection import Collection
from hummingbit.index.errors import UnknownDocument
from hummingbit.index.lexical import LexicalIndex
from hummingbit.index.payloads import PayloadUpdate
from hummingbit.index.rankings import HAMMING
from hummingbit.index.records import Query
from hummingbit.index.search import Rescore, SearchOptions
from hummingbit.service.batching import (
    MAX_BATCH,
    QUICK_LENGTH,
    QUICK_LIMIT,
    BatchedQuery,
    BatchedResult,
    Batcher,
)
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


def test_searches_that_wait_are_answered_together_and_as_alone(tmp_path: Path) -> None:
    collection, model = code_collection(tmp_path, N_BITS), Model(N_BITS)
    rng = np.random.default_rng(0)
    documents = code_documents([code_to_hex(code) for code in clustered_codes(rng, 300, N_BITS)])
    collection.upsert(documents)
    model.upsert(documents)
    queries = [code_to_hex(code) for code in clustered_codes(rng, 200, N_BITS)]
    sizes: list[int] = []

    def write(found: BatchedResult, place: int) -> list[tuple[str, int]]:
        sizes.append(len(found.result.hits))
        return [(hit.id, hit.distance or 0) for hit in found.result.hits[place]]

    async def ask_all() -> list[list[tuple[str, int]] | BaseException]:
        batcher = Batcher({"c": collection}.__getitem__, Metrics(), write)
        near, far = SearchOptions(7, 5, with_cursor=False), SearchOptions(20, with_cursor=False)
        searches = [
            batcher.search("c", far if i % 3 else near, Query(code=c))
            for i, c in enumerate(queries)
        ]
        others = [Query(code="zz"), Query(id="absent"), Query(id="d3")]
        searches += [batcher.search("c", far, query) for query in others]
        searches += [batcher.search("gone", far, Query(code=c)) for c in queries[:2]]
        try:
            return await asyncio.gather(*searches, return_exceptions=True)
        finally:
            batcher.close()

    *found, bad, absent, by_id, gone, too = asyncio.run(ask_all())
    for place, (code, answer) in enumerate(zip(queries, found, strict=True)):
        assert answer == (model.search(code, 20) if place % 3 else model.search(code, 7, 5))
    assert isinstance(bad, InputError)
    assert isinstance(absent, UnknownDocument)
    assert isinstance(gone, KeyError)
    assert isinstance(too, KeyError)
    assert isinstance(by_id, list)
    assert by_id == model.search(documents[3].code or "", 20)
    assert 1 < max(sizes) <= MAX_BATCH
    collection.close()


def test_who_has_gone_is_not_answered(tmp_path: Path) -> None:
    collection = code_collection(tmp_path, N_BITS)
    collection.upsert(code_documents(["00ff"]))

    async def ask_and_go() -> list[str]:
        batcher = Batcher(
            lambda _: collection, Metrics(), lambda found, place: found.result.hits[place][0].id
        )
        options = SearchOptions(1, with_cursor=False)
        gone = asyncio.ensure_future(batcher.search("c", options, Query(code="00ff")))
        await asyncio.sleep(0)
        gone.cancel()
        answers = [await batcher.search("c", options, Query(code="00ff")) for _ in range(5)]
        with pytest.raises(asyncio.CancelledError):
            await gone
        batcher.close()
        return answers

    assert asyncio.run(ask_and_go()) == ["d0"] * 5
    collection.close()


@pytest.mark.parametrize(
    ("quick_seconds", "limit", "on_the_loop"),
    [(60.0, QUICK_LIMIT, True), (60.0, QUICK_LIMIT + 1, False), (0.0, 1, False)],
)
def test_quick_searches_are_made_on_the_event_loop(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    quick_seconds: float,
    limit: int,
    on_the_loop: bool,
) -> None:
    monkeypatch.setattr("hummingbit.service.batching.QUICK_SECONDS", quick_seconds)
    collection = code_collection(tmp_path, N_BITS)
    collection.upsert(code_documents(["00ff"]))
    threads: list[bool] = []

    def write(found: BatchedResult, place: int) -> str:
        threads.append(threading.current_thread() is threading.main_thread())
        return found.result.hits[place][0].id

    async def ask() -> list[str]:
        batcher = Batcher(lambda _: collection, Metrics(), write)
        options = SearchOptions(limit, with_cursor=False)
        try:
            return [await batcher.search("c", options, Query(code="00ff")) for _ in range(3)]
        finally:
            batcher.close()

    assert asyncio.run(ask()) == ["d0"] * 3
    # How long a search takes is known after the first.
    assert threads == [False, on_the_loop, on_the_loop]
    collection.close()


def test_one_slow_search_does_not_move_the_next_to_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = code_collection(tmp_path, N_BITS)
    collection.upsert(code_documents(["00ff"]))
    on_the_loop: list[bool] = []

    def write(found: BatchedResult, place: int) -> str:
        on_the_loop.append(threading.current_thread() is threading.main_thread())
        return found.result.hits[place][0].id

    async def ask(seconds: list[float]) -> None:
        batcher = Batcher(lambda _: collection, Metrics(), write)
        options = SearchOptions(1, with_cursor=False)
        for limit in seconds:
            monkeypatch.setattr("hummingbit.service.batching.QUICK_SECONDS", limit)
            await batcher.search("c", options, Query(code="00ff"))
        batcher.close()

    quick, slow = 60.0, 0.0
    asyncio.run(ask([quick, slow, quick, slow, slow, quick, quick]))
    assert on_the_loop == [False, True, True, True, True, False, True]
    collection.close()


@pytest.mark.parametrize(("seconds", "on_the_loop"), [(0.04, True), (0.3, False)])
def test_only_long_waits_move_searches_to_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, on_the_loop: bool
) -> None:
    monkeypatch.setattr("hummingbit.service.batching.QUICK_SECONDS", 0.02)
    collection = code_collection(tmp_path, N_BITS)
    collection.upsert(code_documents(["00ff"]))
    threads: list[bool] = []

    def write(found: BatchedResult, place: int) -> str:
        time.sleep(seconds)  # another program has the processor, or a disk is slow
        threads.append(threading.current_thread() is threading.main_thread())
        return found.result.hits[place][0].id

    async def ask() -> None:
        batcher = Batcher(lambda _: collection, Metrics(), write)
        for _ in range(3):
            await batcher.search("c", SearchOptions(1, with_cursor=False), Query(code="00ff"))
        batcher.close()

    asyncio.run(ask())
    assert threads == [False, on_the_loop, on_the_loop]
    collection.close()


def quick_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codes: list[str]
) -> Collection:
    """Return a collection of `codes`, whose searches count as quick on a busy machine, too."""
    monkeypatch.setattr("hummingbit.service.batching.QUICK_SECONDS", 60.0)
    collection = code_collection(tmp_path, N_BITS)
    collection.upsert(code_documents(codes))
    return collection


def test_the_only_request_is_answered_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = quick_collection(tmp_path, monkeypatch, ["00ff", "ff00"])
    sizes: list[int] = []

    def write(found: BatchedResult, place: int) -> str:
        sizes.append(len(found.result.hits))
        return found.result.hits[place][0].id

    async def ask() -> list[str]:
        batcher = Batcher(lambda _: collection, Metrics(), write)
        options = SearchOptions(1, with_cursor=False)
        try:
            # How long a search takes is known after the first.
            answers = [await batcher.search("c", options, Query(code="00ff"))]
            batcher.requests = ["the only one"]
            with pytest.raises(StopIteration) as returned:
                batcher.search("c", options, Query(code="ff00")).send(None)
            answers.append(returned.value.value)
            batcher.requests = ["one", "another"]
            both = (batcher.search("c", options, Query(code=code)) for code in ("00ff", "ff00"))
            return answers + await asyncio.gather(*both)
        finally:
            batcher.close()

    assert asyncio.run(ask()) == ["d0", "d1", "d0", "d1"]
    assert sizes == [1, 1, 2, 2]
    collection.close()


def test_what_may_be_slow_is_not_answered_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = quick_collection(tmp_path, monkeypatch, ["00ff", "ff00"])
    batcher = Batcher(
        lambda _: collection, Metrics(), lambda found, place: found.result.hits[place][0].id
    )
    options, query = SearchOptions(1, with_cursor=False), Query(code="ff00")
    quick = BatchedQuery("c", options, query)
    assert batcher.answer_now([quick]) == [None]  # its time is not known yet
    asyncio.run(batcher.search("c", options, query))
    assert batcher.answer_now([quick]) == ["d1"]
    slow = [
        BatchedQuery("c", SearchOptions(1, with_payload=True, with_cursor=False), query),
        BatchedQuery("c", SearchOptions(QUICK_LIMIT + 1, with_cursor=False), query),
        BatchedQuery("c", SearchOptions(2), Query(text="a" * (QUICK_LENGTH + 1))),
        None,
    ]
    assert batcher.answer_now([*slow, quick]) == [None, None, None, None, "d1"]
    assert batcher.answer_now([quick] * (MAX_BATCH + 1)) == [None] * (MAX_BATCH + 1)
    batcher.requests = ["another"]
    assert batcher.answer_now([quick]) == [None]
    batcher.requests = []
    monkeypatch.setattr("hummingbit.service.batching.QUICK_SECONDS", 0.0)
    assert [batcher.answer_now([quick]) for _ in range(3)] == [["d1"], ["d1"], [None]]
    batcher.close()
    collection.close()


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


async def learn(batcher: Batcher[str], options: SearchOptions) -> None:
    """Search until the batcher knows how long a search by a text takes."""
    for _ in range(2):
        await batcher.search("c", options, Query(text=TEXTS[1]))


@pytest.mark.parametrize("by_default", [False, True])
def test_a_word_index_is_not_built_where_other_searches_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_default: bool
) -> None:
    monkeypatch.setattr("hummingbit.service.batching.QUICK_SECONDS", 60.0)
    collection = make_words(tmp_path)
    built: list[str] = []
    build = LexicalIndex.build

    def build_and_note(*given: Any, **options: Any) -> LexicalIndex:
        built.append("here")
        return build(*given, **options)

    monkeypatch.setattr(LexicalIndex, "build", build_and_note)
    plain = SearchOptions(3, ranking=None, with_cursor=False)
    worded = plain if by_default else SearchOptions(3, ranking="bm25", with_cursor=False)
    query = Query(text=TEXTS[1])

    async def ask() -> str:
        batcher = Batcher(
            lambda _: collection, Metrics(), lambda found, place: found.result.hits[place][0].id
        )
        await learn(batcher, plain)
        if by_default:
            collection.set_ranking("hybrid")
        assert batcher.answer_now([BatchedQuery("c", worded, query)]) == [None]
        with pytest.raises(BeyondAllowance) as raised:
            await batcher.search("c", worded, query)
        assert raised.value.builds
        assert built == []
        # Another search, which may take its time, has built it.
        collection.find([query], worded)
        await learn(batcher, worded)
        (answer,) = batcher.answer_now([BatchedQuery("c", worded, query)])
        batcher.close()
        assert built == ["here"]
        return answer or ""

    assert asyncio.run(ask()) == collection.find([query], worded).hits[0][0].id
    collection.close()


def test_hits_with_large_payloads_are_read_in_a_thread_or_as_a_long_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hummingbit.service.batching.QUICK_SECONDS", 60.0)
    monkeypatch.setattr("hummingbit.service.batching.SMALL_ANSWER", 1 << 20)
    collection = make_words(tmp_path)
    threads: list[bool] = []

    def write(found: BatchedResult, place: int) -> int:
        threads.append(threading.current_thread() is threading.main_thread())
        return len(found.result.hits[place])

    async def ask(limit: int) -> int:
        options = SearchOptions(limit, with_payload=True, with_cursor=False)
        return await batcher.search("c", options, Query(text=TEXTS[0]))

    async def ask_all() -> list[int]:
        few = [await ask(1), await ask(1), await ask(10)]
        with pytest.raises(BeyondAllowance):
            await ask(60)
        return few

    batcher = Batcher(lambda _: collection, Metrics(), write)
    assert asyncio.run(ask_all()) == [1, 1, 10]
    assert threads == [False, True, False]
    batcher.close()
    collection.close()


def test_the_cost_of_a_search_is_that_of_its_own_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = make_words(tmp_path)
    collection.find([Query(text="apple")], SearchOptions(1, ranking="hybrid"))  # builds the index
    monkeypatch.setattr("hummingbit.service.batching.QUICK_SECONDS", 60.0)
    batcher = Batcher(
        lambda _: collection, Metrics(), lambda found, place: found.result.hits[place][0].id
    )
    plain = SearchOptions(1, with_cursor=False)
    asyncio.run(learn(batcher, plain))

    def answered_at_once(options: SearchOptions, text: str) -> bool:
        return batcher.answer_now([BatchedQuery("c", options, Query(text=text))]) != [None]

    text = TEXTS[1]
    assert answered_at_once(plain, text)
    assert not answered_at_once(SearchOptions(1, ranking="hybrid", with_cursor=False), text)
    assert not answered_at_once(plain, " ".join([text] * 60))
    collection.set_ranking("hybrid")
    assert not answered_at_once(plain, text)
    batcher.close()
    collection.close()


def test_a_search_on_the_event_loop_does_not_wait_for_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hit is gone before it is read, and the publishing lock is taken: a thread waits for it."""
    collection = quick_collection(tmp_path, monkeypatch, ["00ff", "ff00"])
    options, query = SearchOptions(1, with_cursor=False), Query(code="ff00")
    batcher = Batcher(
        lambda _: collection, Metrics(), lambda found, place: found.result.hits[place][0].id
    )
    asyncio.run(batcher.search("c", options, query))
    monkeypatch.setattr(collection.store, "read_ids", lambda _: {})
    with collection._published_index.lock:
        assert batcher.answer_now([BatchedQuery("c", options, query)]) == [None]
    batcher.close()
    collection.close()


def test_searches_that_arrive_together_share_a_batch_and_only_bad_ones_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = quick_collection(tmp_path, monkeypatch, ["00ff", "ff00", "0f0f"])
    sizes: list[int] = []

    def write(found: BatchedResult, place: int) -> list[str]:
        sizes.append(len(found.result.hits))
        return [hit.id for hit in found.result.hits[place]]

    batcher = Batcher(lambda _: collection, Metrics(), write)
    one, two = SearchOptions(1, with_cursor=False), SearchOptions(2, with_cursor=False)
    asyncio.run(batcher.search("c", one, Query(code="00ff")))
    searches = [
        BatchedQuery("c", one, Query(code="ff00")),
        BatchedQuery("c", two, Query(code="0f0f")),
        BatchedQuery("c", one, Query(code="00ff")),
    ]
    assert batcher.answer_now(searches) == [["d1"], ["d2", "d0"], ["d0"]]
    assert sizes == [1, 2, 2, 1]
    bad = BatchedQuery("c", one, Query(id="absent"))
    assert batcher.answer_now([searches[0], bad, searches[2]]) == [["d1"], None, ["d0"]]
    batcher.close()
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

    def write(found: BatchedResult, place: int) -> str:
        return found.result.hits[place][0].id

    async def ask() -> list[str]:
        batcher = Batcher({"cheap": cheap, "dear": dear}.__getitem__, Metrics(), write)
        first = asyncio.create_task(batcher.search("dear", options, Query(text=texts[0])))
        await asyncio.sleep(0)
        others = [
            asyncio.create_task(batcher.search("dear", options, Query(text=text)))
            for text in texts[1:]
        ]
        try:
            # More of them than threads of the other searches, which are all free.
            for _ in range(20):
                found = batcher.search("cheap", SearchOptions(1, with_cursor=False), Query(id="d0"))
                assert await asyncio.wait_for(found, 10) == "d0"
            by_code = SearchOptions(1, with_cursor=False)
            found = batcher.search("dear", by_code, Query(id=texts[3]))
            assert await asyncio.wait_for(found, 10) in texts
            # Nor does a search of the same texts by their words alone.
            for text in texts:
                found = batcher.search("dear", by_words, Query(text=text))
                assert await asyncio.wait_for(found, 10) == text
            assert not any(task.done() for task in (first, *others))
            # However often its codes were searched quickly, its texts never run on the loop.
            asked = BatchedQuery("dear", options, Query(text=texts[0]))
            assert batcher.answer_now([asked]) == [None]
            HeldModel.open.set()
            return list(await asyncio.gather(first, *others))
        finally:
            HeldModel.open.set()
            batcher.close()

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
    for by_words in ({}, {"with_relevance": True}, {"highlight": True}, {"with_text": True}):
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


def test_a_column_of_groups_is_not_read_where_other_searches_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hummingbit.service.batching.QUICK_SECONDS", 60.0)
    monkeypatch.setattr("hummingbit.index.store.fields.FEW_ROWS", 2)
    collection = code_collection(tmp_path, N_BITS)
    documents = [
        Document(id=f"d{n}", code=f"{n:04x}", payload={"parent": f"p{n // 3}"}) for n in range(30)
    ]
    collection.upsert(documents)
    threads: list[bool] = []

    def write(found: BatchedResult, place: int) -> list[tuple[Any, list[str]]]:
        threads.append(threading.current_thread() is threading.main_thread())
        assert found.result.groups is not None
        return [(group.id, [hit.id for hit in group.hits]) for group in found.result.groups[place]]

    grouped = SearchOptions(2, group_by="parent", group_size=2, with_cursor=False)
    search = BatchedQuery("c", grouped, Query(code="0000"))

    async def ask() -> None:
        batcher = Batcher(lambda _: collection, Metrics(), write)
        with pytest.raises(BeyondAllowance) as raised:
            await batcher.search(*search)
        assert raised.value.builds
        collection.find([search.query], grouped)  # another search has read it
        expected = [("p0", ["d0", "d1"]), ("p1", ["d4", "d3"])]
        assert await batcher.search(*search) == expected
        assert batcher.answer_now([search, search]) == [expected, expected]
        # A search reads what a small write changed, though not on the event loop.
        collection.update_payloads([PayloadUpdate(ids=("d0",), set={"parent": "p1"})])
        assert batcher.answer_now([search]) == [None]
        assert await batcher.search(*search) == [("p1", ["d0", "d4"]), ("p0", ["d1", "d2"])]
        collection.update_payloads([PayloadUpdate(ids=("d0", "d1", "d2"), set={"parent": "q"})])
        with pytest.raises(BeyondAllowance):
            await batcher.search(*search)
        batcher.close()

    asyncio.run(ask())
    assert threads == [False, True, True, False]
    collection.close()
