"""A collection's lexical index is that of its generation, however it came about."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.index import lexical as field
from hummingbit.index.collection import Collection
from hummingbit.index.lexical import ANALYZERS, DEFAULT_ANALYZER, LexicalIndex
from hummingbit.index.moments import CodeMoments
from hummingbit.index.store.store import Store
from tests.support.collections import code_collection
from tests.support.oracles.brute_force_bm25 import BruteForceBm25

WORDS = "apple apples banana cherry cherries date elder fig grape".split()


@pytest.fixture
def collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collection]:
    monkeypatch.setattr(field, "MIN_FOLD", 8)
    with closing(code_collection(tmp_path)) as collection:
        yield collection


def documents(rng: np.random.Generator, n_documents: int) -> list[Document]:
    """Make documents of few ids, so that most replace others; some have no text."""
    made = []
    for number in rng.choice(60, n_documents, replace=False).tolist():
        between = " \n"[rng.integers(2)]
        text = None if rng.random() < 0.2 else between.join(rng.choice(WORDS, rng.integers(0, 7)))
        made.append(Document(id=f"d{number}", text=text, code=rng.bytes(2).hex()))
    return made


def check(collection: Collection) -> None:
    published = collection._published_index.current_with_lexical()
    lexical = published.lexical
    assert lexical is not None
    assert lexical.number == published.generation.number == collection.generation
    moments, expected = published.moments, CodeMoments.of_codes(published.generation.codes()[0])
    assert moments is not None
    assert moments.products is not None
    assert expected.products is not None
    assert moments.n_codes == expected.n_codes
    assert moments.products is not None
    assert expected.products is not None
    assert np.array_equal(moments.products, expected.products)
    assert np.array_equal(moments.sums, expected.sums)
    held = [
        (document.row, document.text)
        for document in collection.all_documents()
        if document.text is not None
    ]
    oracle = BruteForceBm25(held, ANALYZERS[DEFAULT_ANALYZER])
    assert lexical.rows().tolist() == oracle.rows
    for text in ("apple", "cherries date date", "fig grape elder banana"):
        found = lexical.rank(text, 20)
        pairs = list(zip(found.scores.tolist(), found.rows.tolist(), strict=True))
        assert pairs == oracle.rank(text, 20)
        of_hybrid = lexical.matches(lexical.weigh(text, hybrid=True))
        rows = np.array(oracle.rows, dtype=np.int64)
        assert of_hybrid.scores_of(rows).tolist() == oracle.hybrid_scores(text)


def test_it_follows_every_write(collection: Collection, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    check(collection)
    for _ in range(15):
        collection.upsert(documents(rng, 8))
        collection.delete([f"d{number}" for number in rng.integers(0, 60, 3)])
        check(collection)
    collection._published_index.wait()
    check(collection)
    collection.compact()
    check(collection)
    with closing(Collection(Store(tmp_path / "store.sqlite", writable=False))) as another:
        check(another)


def test_the_log_says_how_long_it_took_to_make(
    collection: Collection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hummingbit.index")
    collection.upsert([Document(id=f"d{n}", text="two words", code="0000") for n in range(3)])
    for _ in range(2):
        collection._published_index.current_with_lexical()
    (line,) = caplog.messages
    name = collection.description.name
    assert re.fullmatch(rf"indexed the words of 3 texts of {name} in \d+\.\d s", line)


def test_a_failed_write_leaves_it_alone(collection: Collection) -> None:
    collection.upsert(documents(np.random.default_rng(0), 20))
    check(collection)
    with pytest.raises(ValueError, match="no more"):
        collection.upsert(failing())
    check(collection)
    collection.upsert([Document(id="later", text="apple", code="0000")])
    check(collection)


def failing() -> Iterator[Document]:
    yield Document(id="never", text="cherry", code="0000")
    raise ValueError("no more")


@pytest.mark.parametrize("held", ["build", "compacted"])
def test_writes_and_searches_go_on_while_it_is_made(
    collection: Collection, monkeypatch: pytest.MonkeyPatch, held: str
) -> None:
    rng = np.random.default_rng(0)
    collection.upsert(documents(rng, 40))
    begun, opened = threading.Event(), threading.Event()
    make = getattr(LexicalIndex, held)

    def made_late(*given: object, **options: object) -> LexicalIndex:
        made: LexicalIndex = make(*given, **options)
        begun.set()
        assert opened.wait(120)
        return made

    if held == "compacted":
        check(collection)
    monkeypatch.setattr(LexicalIndex, held, made_late)
    making = threading.Thread(target=collection._published_index.current_with_lexical)
    making.start()
    while not begun.is_set():
        collection.upsert(documents(rng, 12))
    for _ in range(4):
        collection.upsert(documents(rng, 12))
        collection.delete(["d1", "d2", "d3"])
        if held == "compacted":
            check(collection)
    opened.set()
    making.join()
    collection._published_index.wait()
    check(collection)
